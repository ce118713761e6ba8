"""Findings in the trees of the papers: F1 to F5, F10, F15. Seeds are numbered 000 to 004."""

from __future__ import annotations

import itertools
import math

from scipy.integrate import quad

import privledger as pl
from tests.bench.published.base import (
    CLASSES,
    STRICT,
    Row,
    charged,
    guarded,
    over_budget,
    refused,
)

EM = pl.Exponential(1.0)
SSE = pl.Exponential(1.0, (-1.0, 0.0))


def bad_cut(left: int, right: int, t: float, candidates: int) -> float:
    """P(attribute 1 is released with a cut above t), DiPriMeExp with eps_s = eps_a = 1.

    `left` records have every attribute 0 and target -1, `right` have t and +1. A cut up to t
    separates them (squared error 0); one above t separates nothing.
    """
    records = left + right
    odds = math.exp(math.log1p(-t) - math.log(t) - (records - abs(left - right)) / 2)
    bad = odds / (1 + odds)
    error = records - (right - left) ** 2 / records
    weight = math.exp(-error / 8)
    total = 0.0
    for good in range(candidates):
        share = math.comb(candidates - 1, good) * (1 - bad) ** good * bad ** (candidates - 1 - good)
        total += share * weight / (weight * (candidates - good) + good)
    return bad * total


def f1() -> Row:
    candidates, left, right = 5, 91, 90
    losses = []
    for bad in (0.1, 0.03, 0.01, 0.003):
        t = 1 / (1 + bad / (1 - bad) * math.exp((left + right - 1) / 2))
        losses.append(abs(math.log(bad_cut(left, right, t, candidates)
                                   / bad_cut(left, right + 1, t, candidates))))
    ledger, data = guarded(delta=0.0)
    root = data.root(data.bins(8))
    claimed_plan = pl.Sequential([EM, SSE])
    with ledger.request(claimed_plan, data) as session:
        session.release(EM, data.choose(root, "rank", features=[0]))
        words = refused(lambda: session.release(EM, data.choose(root, "rank", features=[1])),
                        pl.NotGranted, data, ledger)
    price = charged(pl.Sequential([pl.Repeat(EM, candidates), SSE]))
    return Row("F1", "K = 5 medians, then an attribute by its error", "000 Alg. 1, lines 21-30",
               2.0, max(losses),
               f"2nd median under the claimed plan {words}; K medians charged {price:.4g}",
               "one joint choice of attribute and cut, or the attribute first",
               pl.epsilon(pl.Sequential([EM, SSE]), 0.0))


def shortfall_of_means(epsilon: float) -> float:
    """Delta that {-1, 1} against {-1} needs at `epsilon`, means with noise 2 / (N epsilon)."""
    def density(x: float, middle: float, scale: float) -> float:
        return math.exp(-abs(x - middle) / scale) / (2 * scale)

    def excess(x: float) -> float:
        return max(0.0, density(x, -1.0, 2 / epsilon)
                   - math.exp(epsilon) * density(x, 0.0, 1 / epsilon))

    edges = [-200.0, -20.0, -1.0, 0.0, 20.0, 200.0]
    return sum(quad(excess, a, b, limit=400)[0] for a, b in itertools.pairwise(edges))


def mean_loss(x: float, epsilon: float = 1.0) -> float:
    """Log-ratio at output x of {0} against {0, 0}: -ln 2 + |x| epsilon / 2, without a bound."""
    return -math.log(2) + abs(x) * epsilon / 2


def f2() -> Row:
    ledger, data = guarded(delta=0.0, policy=STRICT)
    mean = data.custom(lambda rows: rows["y"] / len(rows["y"]), 0.1, "mean over N records")
    scale = pl.Laplace(0.1, 0.1)
    with ledger.request(scale, data) as session:
        words = refused(lambda: session.release(scale, mean), pl.errors.PolicyViolation, data,
                        ledger)
    half = pl.Laplace(2.0)
    with ledger.request(pl.Repeat(half, 2), data) as session:
        session.release(half, data.sum("y"))
        session.release(half, data.count())
    return Row("F2", "leaf mean, initial score: noise 2B/(N eps) with private N",
               "000 `Estimating leaf node parameters`; 003 Alg. 6, line 2", 1.0, math.inf,
               f"no query divides by N; as a custom query {words}", "noisy sum and noisy count",
               pl.epsilon(pl.Repeat(half, 2), 0.0), shortfall=shortfall_of_means(1.0))


def balanced_loss(records: int, epsilon: float) -> float:
    """A shuffled equal split; all `records` have label 1, the neighbour has one 0 more.

    Parts release their ones with Laplace noise. Outputs far right in part 1 and far left in
    part 2 make each part's ratio exp(epsilon times the difference of its counts).
    """
    half, total = records // 2, 0.0
    for extra_in_first, weight in ((True, half + 1), (False, half)):
        ones = (half, half) if extra_in_first else (half + 1, half - 1)
        total += weight / (records + 1) * math.exp(epsilon * (ones[0] - half + half - ones[1]))
    return math.log(total)


def f3() -> Row:
    ledger, data = guarded(delta=0.0)
    node = pl.Laplace(1.0)
    refused(lambda: pl.Parallel([node, node], "balanced"), pl.errors.InvalidMechanism, data, ledger)
    places = [0, 1] * 10
    words = refused(lambda: data.partition(pl.questions.IndexCells(places, 2)),
                    pl.errors.RelationMismatch, data, ledger)
    with ledger.request(pl.Parallel([node, node], "iid_per_record"), data) as session:
        parts = data.partition(2)
        for part in (parts[0], parts[1]):
            session.release(node, part.count())
    return Row("F3", "equal parts of a shuffled table count as disjoint",
               "000 Alg. 2, line 10; 001 Alg. 2, line 4", 1.0, balanced_loss(20, 1.0),
               f"parts by position {words}; certificate `balanced` refused: `InvalidMechanism`",
               "a private coin per record", ledger.spent)


def beyond_the_old_maximum(epsilon: float) -> float:
    """P(split > 1) for {0, 1, 10}; for {0, 1} it is 0. Ranks 1 and 2 of 3 score the same."""
    below, above = math.exp(-epsilon * abs(1 - 1.5)), math.exp(-epsilon * abs(2 - 1.5))
    return 9 * above / (1 * below + 9 * above)


def f4_range() -> Row:
    ledger, data = guarded(delta=0.0)
    words = refused(lambda: pl.Column("x", "numeric", "feature", 0.0, 0.95, provenance="data"),
                    pl.errors.DataDerived, data, ledger)
    return Row("F4", "median between the smallest and the largest value present",
               "001 Alg. 1, lines 11-12", 1.0, math.inf, f"a bound read off the data {words}",
               "public bounds, narrowed by released splits", charged(EM),
               shortfall=beyond_the_old_maximum(1.0))


def f4_stop() -> Row:
    ledger, data = guarded(delta=0.0)
    refused(lambda: data.count() <= 10, TypeError, data, ledger)
    words = refused(lambda: len(data) <= 10, TypeError, data, ledger)
    return Row("F4b", "stop where a node has at most 10 records", "001 Alg. 1, line 3", 1.0,
               math.inf, f"a handle has no length, a question no value: {words}",
               "complete tree of a public depth", charged(EM), shortfall=1.0)


def flipped(epsilon: float, first: float, second: float) -> float:
    """Log-ratio at (first, second) as one label changes: counts (1, 0) become (0, 1)."""
    return epsilon * (-abs(first - 1) - abs(second) + abs(first) + abs(second - 1))


def f5() -> Row:
    ledger, data = guarded(CLASSES, delta=0.0, relation="replace_label")
    printed = pl.nodes.LabelOnly(pl.Laplace(1.0, 1.0))
    question = data.histogram("y")
    with ledger.request(printed, data) as session:
        words = refused(lambda: session.release(printed.node, question), pl.errors.UnsupportedNode,
                        data, ledger)
    price = charged(pl.nodes.LabelOnly(pl.Laplace(1.0, 2.0)), CLASSES, relation="replace_label")
    one = pl.nodes.LabelOnly(pl.Laplace(1.0))
    again, data = guarded(CLASSES, delta=0.0, relation="replace_label")
    with again.request(one, data) as session:
        session.release(one.node, data.query((pl.questions.ClassIs(1),)))
    return Row("F5", "only labels private: Lap(1/eps) on every class count",
               "001 Alg. 3, line 14; Alg. 2, line 16", 1.0, flipped(1.0, 1.0, 0.0),
               f"sensitivity 1 {words}; with its true 2 charged {price:.4g}",
               "two classes: one count, totals are public", again.spent)


def f10_candidates() -> Row:
    ledger, data = guarded(CLASSES, delta=0.0)
    words = refused(lambda: pl.Column("x", "numeric", "feature", 0.1, 0.9,
                                      provenance="observed values"),
                    pl.errors.DataDerived, data, ledger)
    return Row("F10", "split values among those that occur", "004 Alg. 1, lines 4, 7, 8", 0.05,
               math.inf, f"cuts lie on public bins only; bins from the data {words}",
               "all cuts of a public range", charged(pl.Exponential(0.05)),
               shortfall=new_midpoints(0.05))


def new_midpoints(budget: float) -> float:
    """Mass of cuts that exist with a seventh record only: x is .55, its class 1.

    The others are .1, .2, .3 of class 0 and .7, .8, .9 of class 1.
    """
    ys = [0, 0, 0, 1, 1, 1, 1]

    def gini(labels: list[int]) -> float:
        ones = sum(labels) / len(labels)
        return 2 * ones * (1 - ones)

    falls = [gini(ys) - (cut * gini(ys[:cut]) + (7 - cut) * gini(ys[cut:])) / 7
             for cut in range(1, 7)]
    low, high = min(falls), max(falls)
    weights = [math.exp(budget / 2 * (fall - low) / (high - low)) for fall in falls]
    return (weights[2] + weights[3]) / sum(weights)  # both midpoints next to .55


def f10_queries() -> Row:
    queries, budget = 1000, 1.0
    # A leaf of one record; its label is replaced. Every query draws anew.
    one, other = math.exp(budget / 2), 1.0
    each = math.log(one / (one + other)) - math.log(other / (one + other))
    ledger, data = guarded(CLASSES, delta=0.0, relation="replace_one")
    noise = pl.Laplace(2.0, 2.0)
    with ledger.request(noise, data) as session:
        session.release(noise, data.histogram("y"))
        words = refused(lambda: session.release(noise, data.histogram("y")), pl.NotGranted, data,
                        ledger)
    price = charged(pl.Repeat(pl.Exponential(budget), queries), relation="replace_one")
    return Row("F10b", f"a label is drawn for each of {queries} queries",
               "004 sec. 3.3, before eq. (6)", budget, queries * each,
               f"2nd query {words}; {queries} charged {price:.4g}", "labels drawn once per leaf",
               charged(pl.Exponential(budget), relation="replace_one"))


def f15() -> Row:
    ledger, data = guarded(CLASSES, delta=0.0, relation="replace_one")
    printed = pl.Laplace(1.0)
    with ledger.request(printed, data) as session:
        words = refused(lambda: session.release(printed, data.histogram("y")),
                        pl.errors.UnsupportedNode, data, ledger)
    price = charged(pl.Parallel([printed, printed]), relation="replace_one")
    over_budget(pl.Parallel([printed, printed]), 1.0, relation="replace_one")
    return Row("F15", "disjoint cells under replace-one",
               "004 Thm 2; 000 `Privacy analysis`", 1.0, flipped(1.0, 1.0, 0.0),
               f"one joint count of sensitivity 1 {words}; cell by cell charged {price:.4g}",
               "twice the noise", charged(pl.Laplace(2.0, 2.0), relation="replace_one"))


ROWS = (f1, f2, f3, f4_range, f4_stop, f5, f10_candidates, f10_queries, f15)
