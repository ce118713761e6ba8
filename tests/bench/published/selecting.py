"""Findings in selections: F6, F7, F9, F11, F13."""

from __future__ import annotations

import itertools
import math

import numpy as np
from attrs import frozen
from scipy.optimize import brentq

import privledger as pl
from tests.bench.published.base import (
    CLASSES,
    STRICT,
    Row,
    charged,
    first_of_exponentials,
    guarded,
    refused,
    worst_loss,
)


def scaled_scores(records: int, outlier: bool) -> np.ndarray:
    """|x'y| after division by each column's largest value (DP-SIS, lines 1 and 2), k = 1.

    Feature 1 equals the target, feature 2 has nothing to do with it. All means are 0. The
    outlier is one more record, with a huge value of feature 1 and target 0.
    """
    target = np.tile([1.0, -1.0, 1.0, -1.0], records // 4)
    table = np.column_stack([target, np.tile([1.0, 1.0, -1.0, -1.0], records // 4)])
    if outlier:
        table, target = np.vstack([table, [1e9, 0.0]]), np.append(target, 0.0)
    table, target = table - table.mean(axis=0), target - target.mean()
    found: np.ndarray = np.abs((table / np.abs(table).max(axis=0)).T
                               @ (target / np.abs(target).max()))
    return found


def one_feature(scores: np.ndarray, epsilon: float) -> np.ndarray:
    """The canonical mechanism for k = 1: loss (best missing - worst included) / 2."""
    return first_of_exponentials(epsilon / 2 * -(scores.max() - scores) / 2)


def f6() -> Row:
    loss = worst_loss(one_feature(scaled_scores(100, False), 1.0),
                      one_feature(scaled_scores(100, True), 1.0))
    ledger, data = guarded(CLASSES, delta=0.0, policy=STRICT)
    top = pl.TopK(1, 1.0)

    def scaled(table: np.ndarray, target: np.ndarray) -> np.ndarray:
        table, target = table - table.mean(axis=0), target - target.mean()
        found: np.ndarray = np.abs((table / np.abs(table).max(axis=0)).T @ target)
        return found

    mine = pl.questions.CustomScores(scaled, 1.0, "every product lies in [-1, 1]")
    with ledger.request(top, data) as session:
        words = refused(lambda: session.release(top, data.features_by(mine)),
                        pl.errors.PolicyViolation, data, ledger)
        session.release(top, data.features_by("correlation"))
    return Row("F6", "columns centred and scaled by their own mean and largest value",
               "002 Alg. 1, lines 1-2", 1.0, loss, f"as custom scores {words}",
               "public bounds; or scores by order", ledger.spent)


def classes_of_sets(features: int, size: int, *, printed: bool) -> list[tuple[int, int, int]]:
    """(h, t, draws) of every utility class; `printed` lets the body hold rank h + 1."""
    found = [(size - 1, size, 1)]
    for h in range(size):
        first = h + 1 if printed else h + 2
        found += [(h, t, math.comb(t - first, size - h - 1)) for t in range(size + 1, features + 1)]
    return [one for one in found if one[2]]


def sets_law(scores: np.ndarray, size: int, epsilon: float, *,
             printed: bool) -> dict[frozenset[int], float]:
    """Exact law of the canonical top-k mechanism; every member of a class has its own draw."""
    ranked = np.argsort(-scores, kind="stable")
    held = scores[ranked]
    utilities, members = [], []
    for h, t, _ in classes_of_sets(len(scores), size, printed=printed):
        body = range(h if printed else h + 1, t - 1)  # places from 0
        for chosen in itertools.combinations(body, size - h - 1):
            utilities.append(-epsilon / 2 * (held[h] - held[t - 1]) / 2)
            if (h, t) == (size - 1, size):
                utilities[-1] = 0.0
            members.append(frozenset(ranked[[*range(h), *chosen, t - 1]].tolist()))
    law: dict[frozenset[int], float] = {}
    for member, chance in zip(members, first_of_exponentials(utilities), strict=True):
        law[member] = law.get(member, 0.0) + float(chance)
    return law


def top_loss(size: int, epsilon: float, *, printed: bool) -> float:
    """d = k + 1 or k + 2 features whose best ones differ by 1e-6, in one order or the other."""
    near, far = np.array([1e-6, 0.0, -10.0]), np.array([0.0, 1e-6, -10.0])
    if size > 2:
        near = 1e-9 * np.arange(size + 2, 0, -1)
        far = near[::-1].copy()
    first = sets_law(near, size, epsilon, printed=printed)
    second = sets_law(far, size, epsilon, printed=printed)
    return max(abs(math.log(first[one] / second[one])) for one in first)


@frozen
class PrintedTopK:
    """A learner's own mechanism, with the printed class sizes."""

    k: int = 2
    epsilon: float = 0.01


def f7() -> Row:
    ledger, data = guarded(CLASSES, delta=0.0)
    words = refused(lambda: ledger.request(PrintedTopK(), data), pl.errors.InvalidMechanism, data,
                    ledger)
    right = pl.TopK(1, 0.01)
    with ledger.request(right, data) as session:
        session.release(right, data.features_by("agreement"))
    return Row("F7", "top-k: class sizes C(t-h-1, k-h-1)", "002 Def. A.2; Alg. 2, lines 12-18",
               0.01, top_loss(2, 0.01, printed=True), f"a mechanism of one's own {words}",
               "class sizes C(t-h-2, k-h-1)", ledger.spent)


def flip_losses(epsilon: float) -> np.ndarray:
    """Permute-and-flip on scores (.5, -.5) and (-.5, .5); sensitivity 1."""
    law = first_of_exponentials([0.0, -epsilon / 2])
    return np.log(law / law[::-1])


def composed_epsilon(epsilon: float, times: int, delta: float) -> float:
    """Exact epsilon of `times` such runs: the loss is a multiple of one number, binomially."""
    best, other = first_of_exponentials([0.0, -epsilon / 2])
    unit = math.log(best / other)
    losses = unit * (times - 2 * np.arange(times + 1))
    chances = np.array([math.comb(times, j) * best ** (times - j) * other**j
                        for j in range(times + 1)])

    def missing(target: float) -> float:
        over = losses > target
        return float((chances[over] * -np.expm1(target - losses[over])).sum()) - delta

    return float(brentq(missing, 0.0, float(losses[0]), xtol=1e-12))


def f9() -> Row:
    runs, delta = 100, 1e-5
    printed = pl.Repeat(pl.Exponential(0.1), runs)
    claimed = charged(printed, delta=delta, filter="zcdp")
    plan = pl.Repeat(pl.PermuteAndFlip(0.1), runs)
    ledger, data = guarded(epsilon=claimed, delta=delta, filter="zcdp")
    words = refused(lambda: ledger.request(plan, data), pl.BudgetExceeded, data, ledger)
    price = charged(plan, delta=delta, filter="zcdp")
    return Row("F9", "100 permute-and-flips of 0.1 priced like exponential mechanisms",
               "000 `DiPriMeFlip`, with bounded-range accounting", claimed,
               composed_epsilon(0.1, runs, delta), f"{words}; charged {price:.4g}",
               "exponential mechanism where steps compose", claimed, delta)


def guarded_floor(values: list[float]) -> tuple[float, float]:
    """Authors' median, epsilon 1, with 1e-12 added to every interval: P(output is exactly .4),
    and the sum of all probabilities as a check."""
    known = np.sort(values)
    widths = np.diff(np.concatenate([[0.0], known, [1.0]]))
    unbalance = np.abs(np.arange(-len(known), len(known) + 1, 2))
    weight = widths * np.exp(-0.5 * unbalance) + 1e-12
    weight /= weight.sum()
    starts = np.concatenate([[0.0], known])
    return float(weight[(widths == 0) & (starts == 0.4)].sum()), float(weight.sum())


def f11_floor() -> Row:
    values = [0.3] * 200 + [0.4]
    before, after = guarded_floor(values)[0], guarded_floor([*values, 0.4])[0]
    assert before == 0.0
    ledger, data = guarded(delta=0.0)
    words = refused(lambda: pl.Exponential(1.0, floor=1e-12),  # type: ignore[call-arg]
                    TypeError, data, ledger)
    return Row("F11", "1e-12 added to every interval's probability", "000, authors' code", 1.0,
               math.inf, f"a choice has no such setting: {words}",
               "draw in log space, by the ledger", charged(pl.Exponential(1.0)), shortfall=after)


def flip_density(values: list[float], epsilon: float, at: float) -> float:
    """Density of the authors' flip median at `at`; scores 2 ln(width) - |left - right|."""
    known = np.array(sorted(values))
    widths = np.diff(np.concatenate([[0.0], known, [1.0]]))
    scores = 2 * np.log(widths) - np.abs(np.arange(-len(known), len(known) + 1, 2))
    law = first_of_exponentials(epsilon / 2 * scores)
    place = int(np.searchsorted(known, at, side="right"))
    return float(law[place] / widths[place])


def f11_flip() -> Row:
    values, gap = [0.2, 0.4, 0.6, 0.8], 1e-9
    at = 0.4 + gap / 2
    loss = abs(math.log(flip_density([*values, 0.4 + gap], 0.1, at)
                        / flip_density(values, 0.1, at)))
    ledger, data = guarded(delta=0.0)
    flip = pl.PermuteAndFlip(0.1)
    question = data.choose(data.root(data.bins(8)), "rank", features=[0])
    with ledger.request(flip, data) as session:
        words = refused(lambda: session.release(flip, question), pl.errors.UnsupportedNode, data,
                        ledger)
    return Row("F11b", "permute-and-flip between neighbouring values, ln(width) in the score",
               "000, authors' code of DiPriMeFlip", 0.1, loss, f"flips among cuts {words}",
               "exponential mechanism on a public range", charged(pl.Exponential(0.1)))


def f13() -> Row:
    # A leaf whose classes are j apart: local sensitivity exp(-j epsilon) inside the exponent.
    def minority(apart: int) -> float:
        return 1 / (1 + math.exp(math.exp(apart) / 2))

    ledger, data = guarded(CLASSES, delta=0.0, policy=STRICT)
    pick = pl.Exponential(1.0)
    smooth = pl.questions.CustomScores(lambda table, target: np.exp(np.array([1.0, 2.0])), 1.0,
                                       "scores over their smooth sensitivity")
    with ledger.request(pick, data) as session:
        words = refused(lambda: session.release(pick, data.features_by(smooth)),
                        pl.errors.PolicyViolation, data, ledger)
    return Row("F13", "exponential mechanism with smooth sensitivity (the SRT baseline)",
               "001 sec. 6.2, ref. 12; form recalled, not re-read", 1.0,
               math.log(minority(2) / minority(3)), f"scores rescaled by the data {words}",
               "global sensitivity", charged(pick))


ROWS = (f6, f7, f9, f11_floor, f11_flip, f13)
