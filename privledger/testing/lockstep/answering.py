"""P2: an answer is what stands below plus, or chosen by, the draws made in this very call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privledger.graph import Correlated
from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.graph.selection import RandomizedResponse, TopK
from privledger.questions.choice import Choice
from privledger.questions.label_query import Respond
from privledger.questions.noise_stream import CorrelatedSum
from privledger.questions.options import Picked
from privledger.questions.query import Query
from privledger.questions.question import Choose, flips
from privledger.testing.lockstep.kept import (
    Additive,
    Below,
    Broken,
    Chosen,
    ChosenSet,
    Draw,
    Floats,
    Ints,
    RecordedCoins,
    Release,
    Responses,
    Words,
)
from privledger.testing.lockstep.tap import unit_within

AROUND = (RecordedCoins, Words)
"""Draws about who takes part, which P5 looks at."""

_LAWS: dict[type, str] = {Gaussian: "gaussian", Laplace: "laplace",
                          DiscreteGaussian: "discrete_gaussian",
                          DiscreteLaplace: "discrete_laplace", Correlated: "gaussian"}


def main_draws(one: Release) -> list[Draw]:
    """The draws of a release that its answer is made of."""
    return [draw for draw in one.draws if not isinstance(draw, AROUND)]


def blocks_of(answer: object) -> list[Floats]:
    """The numbers of a numeric answer, block by block, each flat."""
    found = answer if isinstance(answer, list) else [answer]
    return [np.asarray(block, dtype=np.float64).ravel() for block in found]


def answered_again(place: int, real: Release, quiet: Release, twin: Release) -> Iterator[Broken]:
    """What is wrong with how a release was answered in the three runs."""
    why = ""
    if isinstance(real.question, Query | CorrelatedSum):
        why = _numbers(real, quiet)
    elif isinstance(real.question, Choose):
        why = (_sets if isinstance(real.mechanism, TopK) else _choices)(real, quiet, twin)
    elif isinstance(real.question, Respond):
        why = _labels(real, quiet, twin)
    else:
        yield Broken("", place, f"no lock replays {type(real.question).__name__}")
    if why:
        yield Broken("P2", place, why)


def _numbers(real: Release, quiet: Release) -> str:
    """Each number is its sum plus a whole draw of its own, times one step per block."""
    drawn, silent = main_draws(real), main_draws(quiet)
    law = _LAWS.get(type(real.mechanism), "")
    if len(drawn) != 1 or len(silent) != 1 or not isinstance(drawn[0], Additive):
        return "the noise was not drawn in one batch of this call"
    if drawn[0].law != law:
        return "the noise is of another law"
    above, below = blocks_of(real.truth), blocks_of(quiet.truth)
    if [len(block) for block in above] != [len(block) for block in below]:
        return "two answers to one question are of different shapes"
    if sum(len(block) for block in above) != len(drawn[0].result):
        return "there are more or fewer draws than numbers"
    start = 0
    for high, low in zip(above, below, strict=True):
        part = slice(start, start + len(high))
        if _step(high - low, drawn[0].result[part]) is None:
            return "the answer is not its sum plus the draws of this call"
        start += len(high)
    return ""


def _step(moved: Floats, drawn: Ints) -> float | None:
    """The block's step: `moved` is exactly the draws times it; None where it is not."""
    loud = np.flatnonzero(drawn)
    if not len(loud):
        return 0.0 if not moved.any() else None
    step = float(moved[loud[0]] / drawn[loud[0]])
    if not (step > 0 and np.frexp(step)[0] == 0.5 and np.array_equal(moved, drawn * step)):
        return None
    return step


def answer_steps(real: Release, quiet: Release) -> Floats:
    """The step of every number of an answer that `answered` found right, shape (size,).

    Zero where a block had no draw but zeros.
    """
    drawn, start, found = main_draws(real)[0], 0, []
    assert isinstance(drawn, Additive)
    for high, low in zip(blocks_of(real.truth), blocks_of(quiet.truth), strict=True):
        part = slice(start, start + len(high))
        found.append(np.full(len(high), _step(high - low, drawn.result[part]) or 0.0))
        start += len(high)
    return np.concatenate(found)


def _chosen_units(one: Release) -> Ints:
    draws = main_draws(one)
    offset = draws[1] if len(draws) > 1 and isinstance(draws[1], Below) else None
    return unit_within(draws[0], offset)  # type: ignore[arg-type]


def _choices(real: Release, quiet: Release, twin: Release) -> str:
    """Equal units of weight give equal answers on both tables, other units other ones."""
    law = "permute_and_flip" if flips(real.mechanism) else "exponential"
    runs = (real, quiet, twin)
    if not any(main_draws(one) for one in runs):  # no leaf had a candidate
        return "" if _same(quiet.truth, twin.truth) and _same(real.truth, quiet.truth) else (
            "something was chosen without a draw")
    for one in runs:
        draws = main_draws(one)
        if not draws or not isinstance(draws[0], Chosen) or draws[0].law != law:
            return "the choice was not drawn in this call, or by another law"
        if isinstance(one.question, Choice) and one.question.among != "features" and (
                not _placed(one.question, draws)):
            return "the place of a cut within its run was not drawn"
    return _by_units(real, quiet, twin)


def _placed(question: Choice, draws: list[Draw]) -> bool:
    """Whether each chosen run's cut is one of as many as its weight says: of a feature's own cuts
    one unit each, of several features' a public measure each."""
    chosen, offset = draws[0], draws[1] if len(draws) > 1 else None
    if not isinstance(chosen, Chosen) or not isinstance(offset, Below) or (
            len(offset.bounds) != len(chosen.result)):
        return False
    weights = chosen.weights[chosen.result]
    if question.among == "cuts":
        return np.array_equal(weights, offset.bounds)
    return bool((offset.bounds >= 1).all()) and not (weights % offset.bounds).any()


def _by_units(real: Release, quiet: Release, twin: Release) -> str:
    units = [_chosen_units(one) for one in (real, quiet, twin)]
    if not (len(units[0]) == len(units[1]) == len(units[2])):
        return "the number of choices depends on the records"
    if np.array_equal(units[1], units[2]) and not _same(quiet.truth, twin.truth):
        return "the same draw gives another answer beside another record"
    moved = not np.array_equal(units[0], units[1])
    if moved == _same(real.truth, quiet.truth):
        return "the answer is not the candidate that was drawn"
    rows = [_rows(one.truth) for one in (real, quiet)]
    if len(rows[0]) == len(units[0]):  # every leaf has candidates: leaf by leaf
        same = [a == b for a, b in zip(*rows, strict=True)]
        if same != (units[0] == units[1]).tolist():
            return "an answer is not the candidate that was drawn"
    return ""


def _rows(answer: object) -> list[object]:
    """One comparable answer per leaf."""
    if isinstance(answer, Picked):
        return list(zip(np.asarray(answer.feature).tolist(), np.asarray(answer.cut).tolist(),
                        strict=True))
    return list(np.asarray(answer).ravel().tolist())


def _same(one: object, two: object) -> bool:
    return _rows(one) == _rows(two)


def _sets(real: Release, quiet: Release, twin: Release) -> str:
    """As `_choices`, of a set of features by its members."""
    assert isinstance(real.mechanism, TopK)
    for one in (real, quiet, twin):
        draws = main_draws(one)
        if len(draws) != 1 or not isinstance(draws[0], ChosenSet) or (
                (draws[0].k, draws[0].noise) != (real.mechanism.k, real.mechanism.noise)):
            return "the set was not drawn in this call, or by another law"
    sets = [main_draws(one)[0].result for one in (real, quiet, twin)]
    if np.array_equal(sets[1], sets[2]) and not _same(quiet.truth, twin.truth):
        return "the same draw gives another answer beside another record"
    if np.array_equal(sets[0], sets[1]) != _same(real.truth, quiet.truth):
        return "the answer is not the set that was drawn"
    return ""


def _labels(real: Release, quiet: Release, twin: Release) -> str:
    """Every record's answer is its own draw, with the node's own noise."""
    node = real.mechanism
    assert isinstance(node, RandomizedResponse)
    for one in (real, quiet, twin):
        draw = main_draws(one)[-1] if main_draws(one) else None
        if not isinstance(draw, Responses) or len(draw.result) != np.asarray(one.truth).size:
            return "the answers were not drawn in this call, one for each record"
        if draw.buckets != node.num_buckets or not draw.noise_parameter >= node.noise_parameter:
            return "the answers are drawn with less noise than the node says"
    drawn = [main_draws(one)[-1].result for one in (real, quiet, twin)]
    if np.array_equal(drawn[1], drawn[2]) and not _same(quiet.truth, twin.truth):
        return "the same draw gives another answer beside another label"
    same = np.asarray(real.truth).ravel() == np.asarray(quiet.truth).ravel()
    if not np.array_equal(same, drawn[0] == drawn[1]):
        return "an answer is not the one that was drawn"
    return ""
