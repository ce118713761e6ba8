"""Tunings: as many trials as the law drew, and nothing of those that lost in what is published."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.accounting.tuning import negative_binomial_mean
from privledger.graph import Tuning
from privledger.graph.nodes import below
from privledger.guard.inside import Observer, _observing
from privledger.noise.seeded import Generator, generator
from privledger.noise.source import SystemSource
from privledger.noise.trials_law import TrialsLaw, number_of_trials
from privledger.testing.examples import Example
from privledger.testing.lockstep.kept import Below, Broken, Draw, RecordedRun, Words
from privledger.testing.lockstep.replay import Fitting, Recorder
from privledger.testing.lockstep.tap import Tap

LOST = -1e300
TRIES = 4
"""Runs before a tuning is taken for one that hardly ever has a second trial."""


class _Retold(SystemSource):
    """Words that were drawn before, in order; then zeros."""

    private = False

    def __init__(self, words: Sequence[int]) -> None:
        super().__init__()
        self._left = list(words)

    def _words(self, size: int) -> NDArray[np.uint64]:
        told = [self._left.pop(0) if self._left else 0 for _ in range(size)]
        return np.array(told, dtype=np.uint64)


def tuning_of(run: RecordedRun) -> Tuning | None:
    """The node of the only tuning of a run; None where there is none, or several."""
    grants = [one for one in (*run.grants, *run.idle) if one.tunings and not one.trial]
    every = [node for one in grants for node in below(one.plan) if isinstance(node, Tuning)]
    held = sum(len(one.tunings) for one in grants)
    return every[0] if held == 1 and len(every) == 1 else None


def miscounted(run: RecordedRun) -> Iterator[Broken]:
    """P2 of a tuning: its trials are as many as its law made of the words that were drawn."""
    node = tuning_of(run)
    if node is None or run.failed or run.by_person:  # people's places are drawn as well
        return
    words = [int(word) for draw in run.outside if isinstance(draw, Words) for word in draw.result]
    trials = sum(len(draw.result) for draw in run.outside if isinstance(draw, Below))
    law = TrialsLaw(node.distribution, node.shape, node.success, node.mean)
    mean = (node.mean if node.distribution == "poisson"
            else negative_binomial_mean(node.shape, node.success))
    if not words or trials != number_of_trials(law, mean, _Retold(words)):
        yield Broken("P2", -1, "a tuning runs more or fewer trials than were drawn")


@define(eq=False)
class Judge(Observer):
    """Lets the first trial win, whatever the others say of themselves, and counts them.

    Attributes:
        recorder: of the run. releases: how many there were after each trial.
    """

    recorder: Recorder
    releases: list[int] = field(factory=list)

    def scored(self, contest: object, score: Callable[..., float], said: object) -> float:
        self.releases.append(len(self.recorder.releases))
        return LOST if len(self.releases) > 1 else score(said)


def losers_told(fitting: Fitting, table: Example, rng: Generator) -> Iterator[Broken]:
    """P1 of a tuning: other trials beside the same winner leave the same model and history."""

    def judged(recorder: Recorder) -> tuple[RecordedRun, list[int]]:
        judge = Judge(recorder)
        with _observing(judge):
            return fitting.run(table, recorder), judge.releases

    for _ in range(TRIES):
        seeds = [generator(int(seed)) for seed in rng.integers(0, 1 << 62, size=3)]
        tap = Tap(seeds[0])
        first, trials = judged(Recorder(tap))
        if first.failed or not trials:
            return
        if len(trials) > 1:
            break
    else:
        return
    again, _ = judged(Recorder(Tap(seeds[1], script=tuple(tap.draws)), first.answers))
    script = _with_other_words(first, tap.draws, trials[0], rng)
    other, _ = judged(Recorder(Tap(seeds[2], script=script), first.answers[:trials[0]]))
    for path, value in first.model.items():
        if again.model.get(path) == value != other.model.get(path):
            yield Broken("P1", -1, f"with other trials beside the same winner, {path} is another")
            return
    if first.histories != other.histories:
        yield Broken("P1", -1, "the history tells of trials that lost")


def _with_other_words(run: RecordedRun, draws: Sequence[Draw], until: int,
                      rng: Generator) -> tuple[Draw, ...]:
    """The script up to the end of the first trial, with another number of trials."""
    last = {id(draw) for one in run.releases[:until] for draw in one.draws}
    outside = {id(draw) for draw in run.outside}
    end = max((place for place, draw in enumerate(draws) if id(draw) in last), default=-1)
    return tuple(
        Words(rng.integers(0, 1 << 64, size=len(draw.result), dtype=np.uint64))
        if isinstance(draw, Words) and id(draw) in outside else draw
        for draw in draws[: end + 1])
