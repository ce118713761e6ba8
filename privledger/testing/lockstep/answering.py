"""P2: an answer is what stands below plus, or chosen by, the draws made in this very call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.graph import Correlated
from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.graph.selection import RandomizedResponse, TopK
from privledger.questions.choice import Choice
from privledger.questions.groups import GroupQuery
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
    RecordedCoins,
    Release,
    Responses,
    Words,
)
from privledger.testing.lockstep.naming import named_again
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
    elif isinstance(real.question, GroupQuery):
        why = next(filter(None, map(named_again, (real, quiet, twin))), "")
    else:
        yield Broken("", place, f"no lock replays {type(real.question).__name__}")
    if why:
        yield Broken("P2", place, why)


def _numbers(real: Release, quiet: Release) -> str:
    """Each number is its sum plus a whole draw of its own, times one step per block."""
    drawn, silent = main_draws(real), main_draws(quiet)
    if len(drawn) != 1 or len(silent) != 1 or not isinstance(drawn[0], Additive):
        return "the noise was not drawn in one batch of this call"
    if drawn[0].law != _LAWS.get(type(real.mechanism), ""):
        return "the noise is of another law"
    above, below = blocks_of(real.truth), blocks_of(quiet.truth)
    if [len(block) for block in above] != [len(block) for block in below]:
        return "two answers to one question are of different shapes"
    if sum(map(len, above)) != len(drawn[0].result):
        return "there are more or fewer draws than numbers"
    if any(step is None for step, _ in _steps(real, quiet)):
        return "the answer is not its sum plus the draws of this call"
    return ""


def _steps(real: Release, quiet: Release) -> Iterator[tuple[float | None, int]]:
    """The step of every block, of which the draws are so many, and its size; None for no step.

    Zero where a block had no draw but zeros.
    """
    drawn, start = main_draws(real)[0].result, 0
    for high, low in zip(blocks_of(real.truth), blocks_of(quiet.truth), strict=True):
        moved, own = high - low, drawn[start:start + len(high)]
        start += len(high)
        loud = np.flatnonzero(own)
        step = float(moved[loud[0]] / own[loud[0]]) if len(loud) else 0.0
        whole = not len(loud) or (step > 0 and np.frexp(step)[0] == 0.5)
        yield step if whole and np.array_equal(moved, own * step) else None, len(high)


def answer_steps(real: Release, quiet: Release) -> Floats:
    """The step of every number of an answer that `answered_again` found right, shape (size,)."""
    return np.concatenate([np.full(size, step or 0.0) for step, size in _steps(real, quiet)])


def _choices(real: Release, quiet: Release, twin: Release) -> str:
    """Equal units of weight give equal answers on both tables, other units other ones."""
    law = "permute_and_flip" if flips(real.mechanism) else "exponential"
    runs, units = (real, quiet, twin), []
    if not any(map(main_draws, runs)):  # no leaf had a candidate
        return "" if _rows(quiet) == _rows(twin) == _rows(real) else (
            "something was chosen without a draw")
    for one in runs:
        draws = main_draws(one)
        if not draws or not isinstance(draws[0], Chosen) or draws[0].law != law:
            return "the choice was not drawn in this call, or by another law"
        offset = draws[1] if len(draws) > 1 and isinstance(draws[1], Below) else None
        if isinstance(one.question, Choice) and one.question.among != "features" and (
                not _placed(one.question, draws[0], offset)):
            return "the place of a cut within its run was not drawn"
        units.append(unit_within(draws[0], offset))
    if not (len(units[0]) == len(units[1]) == len(units[2])):
        return "the number of choices depends on the records"
    return _as_drawn(units, runs, "the candidate")


def _placed(question: Choice, chosen: Chosen, offset: Below | None) -> bool:
    """Whether each chosen run's cut is one of as many as its weight says: of a feature's own cuts
    one unit each, of several features' a public measure each."""
    if offset is None or len(offset.bounds) != len(chosen.result):
        return False
    weights = chosen.weights[chosen.result]
    if question.among == "cuts":
        return np.array_equal(weights, offset.bounds)
    return bool((offset.bounds >= 1).all()) and not (weights % offset.bounds).any()


def _rows(one: Release) -> list[object]:
    """One comparable answer per leaf."""
    answer = one.truth
    if isinstance(answer, Picked):
        return list(zip(np.asarray(answer.feature).tolist(), np.asarray(answer.cut).tolist(),
                        strict=True))
    return list(np.asarray(answer).ravel().tolist())


def _as_drawn(drawn: Sequence[NDArray[Any]], runs: Sequence[Release], what: str) -> str:
    """Equal draws give equal answers on both tables, other draws other ones; leaf by leaf or
    record by record, where there is one draw for each."""
    real, quiet, twin = map(_rows, runs)
    if np.array_equal(drawn[1], drawn[2]) and quiet != twin:
        return "the same draw gives another answer beside another record"
    if np.array_equal(drawn[0], drawn[1]) != (real == quiet):
        return f"the answer is not {what} that was drawn"
    each = len(real) == len(drawn[0]) and what != "the set"  # all leaves have candidates
    if each and [a == b for a, b in zip(real, quiet, strict=True)] != (
            drawn[0] == drawn[1]).tolist():
        return f"an answer is not {what} that was drawn"
    return ""


def _sets(real: Release, quiet: Release, twin: Release) -> str:
    """As `_choices`, of a set of features by its members."""
    assert isinstance(real.mechanism, TopK)
    runs = real, quiet, twin
    for one in runs:
        draws = main_draws(one)
        if len(draws) != 1 or not isinstance(draws[0], ChosenSet) or (
                (draws[0].k, draws[0].noise) != (real.mechanism.k, real.mechanism.noise)):
            return "the set was not drawn in this call, or by another law"
    return _as_drawn([main_draws(one)[0].result for one in runs], runs, "the set")


def _labels(real: Release, quiet: Release, twin: Release) -> str:
    """Every record's answer is its own draw, with the node's own noise."""
    node, runs = real.mechanism, (real, quiet, twin)
    assert isinstance(node, RandomizedResponse)
    for one in runs:
        draw = main_draws(one)[-1] if main_draws(one) else None
        if not isinstance(draw, Responses) or len(draw.result) != np.asarray(one.truth).size:
            return "the answers were not drawn in this call, one for each record"
        if draw.buckets != node.num_buckets or not draw.noise_parameter >= node.noise_parameter:
            return "the answers are drawn with less noise than the node says"
    return _as_drawn([main_draws(one)[-1].result for one in runs], runs, "the label")
