"""One lock: three runs of one learner, and every premise of the proof on their path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count as count_from

import numpy as np
from attrs import frozen

from privledger.accounting import Relation
from privledger.noise.seeded import Generator
from privledger.plugins import Priced
from privledger.testing.examples import Example
from privledger.testing.fitting import fresh
from privledger.testing.lockstep.answering import answered_again
from privledger.testing.lockstep.kept import Broken, RecordedRun, parted
from privledger.testing.lockstep.neighbours import Pair, kind_of_table, rows_of, step
from privledger.testing.lockstep.replay import (
    AMPLE,
    Fitting,
    Recorder,
    fresh_words,
    replays,
    steady_of,
)
from privledger.testing.lockstep.sampling import CUT_OFF, Samples, samples_of, uncoined, uncovered
from privledger.testing.lockstep.shown import (
    Shown,
    along,
    beyond,
    paid,
    scattered,
    shown_trace,
    unpaid,
)
from privledger.testing.lockstep.tap import Steering, Tap
from privledger.testing.lockstep.tunings import miscounted


@frozen
class Lock:
    """What one lock found.

    Attributes:
        broken: premises that do not hold; empty if all do.
        unknown: releases of which no lock says whether they do.
        failed: class of the error of the fit, which is the same on both tables.
        ratio: the worst of a release's loss to its node's price, and of the path's to the claim.
        release: which release had it; -1 for the path.
        ratios: of every release, in order.
        releases: how many there were.
    """

    broken: tuple[Broken, ...]
    ratio: float
    release: int
    ratios: tuple[float, ...] = ()
    unknown: tuple[Broken, ...] = ()
    failed: str = ""


def steered(rng: Generator) -> Steering:
    """How to make one path unusual; a quarter of the paths are as the law makes them.

    Noise of one sign makes records alike to a learner, noise of both signs tells them apart.
    """
    kind = int(rng.integers(0, 4))
    if kind == 0:
        return Steering(inside=0.5)
    return Steering(wide=20.0, sign=(1, -1, 0)[kind - 1], uniform=0.7,
                    inside=0.95 if kind == 1 else 0.75)


def runs_of(
    fitting: Fitting, pair: Pair, rng: Generator
) -> tuple[RecordedRun, RecordedRun, RecordedRun]:
    """Run 0 on the first table; 1 there again without noise; 2 on the neighbour."""
    words = [fresh_words(rng) for _ in range(3)]
    tap = Tap(words[0], steered(rng))
    real = fitting.run(pair[0], Recorder(tap))
    control = Tap(words[1], Steering(uniform=1.0), tuple(tap.draws), quiet=True, repeat=False)
    quiet = fitting.run(pair[0], Recorder(control, real.answers))
    third = Tap(words[2], Steering(), tuple(control.draws), quiet=True)
    twin = fitting.run(pair[1], Recorder(third, real.answers))
    return real, quiet, twin


def lock(fitting: Fitting, pair: Pair, rng: Generator) -> Lock:
    """Three runs on two neighbouring tables, whose record that differs comes last."""
    real, quiet, twin = runs_of(fitting, pair, rng)
    broken, found, path = list(_apart(real, quiet, twin)), list[Shown](), 0.0
    if not broken:
        broken, found = _released(fitting, real, quiet, twin)
        if not any(one.premise for one in broken) and not twin.failed:
            path, more = along(float(fitting.learner.epsilon), fitting.delta, quiet, twin, found)
            broken += more
    unknown = tuple(one for one in broken if not one.premise)
    ratios = tuple(one.ratio for one in found)
    place = int(np.argmax(ratios)) if ratios and max(ratios) >= path else -1
    kept = tuple(one for one in broken if one.premise)
    if kept or not found:
        place = (*kept, *unknown, Broken("", -1, ""))[0].release
    return Lock(kept, max(path, *ratios, 0.0), place, ratios, unknown, real.failed)


def _released(fitting: Fitting, real: RecordedRun, quiet: RecordedRun, twin: RecordedRun
              ) -> tuple[list[Broken], list[Shown]]:
    """What is wrong with the releases of three runs that are one run, and what each shows."""
    larger = twin if twin.n_records >= quiet.n_records else quiet
    samples, found = Samples(larger), list[Shown]()
    broken = [*samples.broken,
              *(Broken("P5", -1, why) for run in (real, quiet, twin) for why in run.samples)]
    for place, each in enumerate(zip(real.releases, quiet.releases, twin.releases, strict=True)):
        wrong = [] if each[0].failed else list(answered_again(place, *each))
        broken += wrong
        # Who else is moved by a truncated sample is not known.
        lost = any(not one.premise and one.release == place for one in broken)
        seen = Shown() if wrong or lost or each[0].failed else shown_trace(*each)
        found.append(seen)
        broken += paid(place, seen, samples.inside(larger.releases[place]))
        broken += scattered(place, each[1], seen, fitting.relation, by_person=real.by_person)
    for run in (real, quiet, twin):
        broken += uncovered(run)
    broken += [*uncoined(larger), *miscounted(real), *promised(fitting, real),
               *arrived(quiet, twin, fitting.relation), *beyond(quiet), *beyond(twin),
               *unpaid(quiet)]
    return broken, found


def promised(fitting: Fitting, run: RecordedRun) -> Iterator[Broken]:
    """P7 of the ledgers that a fit was made on: a plain table's is the learner's own."""
    if any((one.relation, one.mode) != (fitting.relation, fitting.mode) for one in run.ledgers):
        yield Broken("P7", -1, "the learner's own ledger promises something else")
    most, delta = float(fitting.learner.epsilon) * AMPLE, fitting.delta
    if not all(one.budget.epsilon <= most and one.budget.delta <= delta for one in run.ledgers):
        yield Broken("P7", -1, "the learner's own ledger has a larger budget than the learner")


def arrived(quiet: RecordedRun, twin: RecordedRun, relation: Relation) -> Iterator[Broken]:
    """P1 of a plain table: rows arrive behind the guard one by one, whatever is beside them.

    At most one comes or goes; or is another, where that is who neighbours are.
    """
    for one, other in zip(quiet.arrived, twin.arrived, strict=False):
        gone, come = (one - other).total(), (other - one).total()
        far = gone + come > 1 if relation == "add_remove" else gone != come or gone > 1
        if far:
            yield Broken("P1", -1, "rows that are put behind the guard depend on other rows")


def _apart(real: RecordedRun, quiet: RecordedRun, twin: RecordedRun) -> Iterator[Broken]:
    """P1, with what every two fits on one table have in common."""
    runs = {"in a second fit on the same table": quiet, "on a neighbouring table": twin}
    for name, run in runs.items():
        yield from parted(real, run, name, steady_of(real, quiet))
    cut = [place for place, one in enumerate(real.releases)
           if any(step.kind == "truncated" for step in samples_of(one))]
    for name, run in runs.items():
        if run.parted and cut:  # whether one is cut off at all depends on who came
            yield Broken("", cut[0], CUT_OFF)
        elif run.parted:
            yield Broken("P1", -1, f"{name}, other draws are made: {run.parted}")


def fitting_of(learner: Priced, relation: Relation, *, plain: bool = False,
               seed: int = 0) -> Fitting:
    """What a lock fits: an unfitted learner under a relation, with a seed where it takes one."""
    given = fresh(learner, random_state=seed, relation=relation)
    return Fitting(given, relation, plain, seed)


# What stands between `X, y` and the guard: many tables, the record that differs at any place.
#
# One fit is recorded; all others are handed its answers, so every one of them must be the same run.
# Tables walk, by one record at a time, from one kind to the next: each step is a pair of
# neighbours, and at most one row that arrives behind the guard may be another.

STEPS = 8
"""From one kind of table to the next."""


def arriving(fitting: Fitting, base: Example, rng: Generator,
             start: int = 0) -> Iterator[tuple[Pair, tuple[Broken, ...]]]:
    """Pairs without end, each with what is wrong; a far pair begins each kind of table.

    Args:
        start: number of the kind to begin with.
    """
    first = base.take(np.arange(min(base.n_records, 60)))
    real, again = replays(fitting, first, rng)
    steady = steady_of(real, again(first))
    if real.failed:
        yield (first, first), (Broken("P1", -1, f"the fit on a plain table fails: {real.failed}"),)
    yield (first, first), tuple(promised(fitting, real))
    for turn in count_from(start):
        table = kind_of_table(base, turn, rng)
        run = again(table)
        yield (first, table), tuple(parted(real, run, "on another plain table", steady))
        for _ in range(STEPS):
            other = step(table, base, fitting.relation, rng)
            after = again(other)
            yield (table, other), (*parted(real, after, "on a neighbouring table", steady),
                                   *arrived(run, after, fitting.relation))
            table, run = other, after


def apart(fitting: Fitting, pair: Pair, rng: Generator) -> tuple[Broken, ...]:
    """What is wrong with one pair of neighbours, the record that differs at any place."""
    real, replayed = replays(fitting, pair[0], rng)
    again, twin = map(replayed, pair)
    one, other = (Counter(rows_of(table)) for table in pair)
    near = max((one - other).total(), (other - one).total()) <= 1  # else only all answers are equal
    return (*parted(real, twin, "on a neighbouring table", steady_of(real, again)),
            *(arrived(again, twin, fitting.relation) if near else ()), *promised(fitting, real))
