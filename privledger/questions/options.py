"""Candidates of a choice and their scores, from the whole numbers that were counted.

The candidates of a leaf are all cuts strictly inside its box, a public set. Records only
decide which of them share a score, and a run stands for all its cuts: the mechanism over runs,
weighted by their lengths, then a uniform cut of the run, is the mechanism over cuts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.questions.grown import NO_TEST, GrownCells
from privledger.questions.tallies import STEPS, Tabled, Tally, possible_categories, side_by_side

# Split scores of candidate cuts, and how far one record can move them.  Proofs of every bound
# here: docs/proofs/split-scores.md.


Floats = NDArray[np.float64]
Sums = NDArray[Any]


def rank(left: Sums, total: Sums) -> Floats:
    """-| records below - records above |: the median has the largest.

    The first column counts the records.
    """
    result: Floats = -np.abs(2.0 * left[:, 0] - total[:, 0])
    return result


def class_fit(left: Sums, total: Sums) -> Floats:
    """Minus the squared error of one-hot labels after the cut, up to a constant per leaf."""
    return _squares_over(left) + _squares_over(total - left)


def _squares_over(counts: Sums) -> Floats:
    held = counts.astype(np.float64)
    size = held.sum(axis=1)
    # Not at least one: a few rows of people with many weigh less.
    result: Floats = np.einsum("ij,ij->i", held, held) / np.where(size > 0, size, 1.0)
    return result


def number_fit(left: Sums, total: Sums) -> Floats:
    """Minus the squared error of targets in [0, 1] after the cut, up to a constant per leaf."""
    return _mean_fit(left, 0.0) + _mean_fit(total - left, 0.0)


def gain(penalty: float) -> Callable[[Sums, Sums], Floats]:
    """Sum over both sides of (sum of gradients)^2 / (records + penalty), unit clip squared."""
    return lambda left, total: _mean_fit(left, penalty) + _mean_fit(total - left, penalty)


def _mean_fit(sums: Sums, penalty: float) -> Floats:
    size = sums[:, 0] + penalty
    held = sums[:, 1] * (1 / STEPS)  # a power of two
    result: Floats = held * held / np.where(size > 0, size, 1.0)
    return result


def impurity_fall(impurity: Callable[[Floats], Floats]) -> Callable[[Sums, Sums], Floats]:
    """How much the cut lowers the leaf's impurity, before it is normalised."""

    def fall(left: Sums, total: Sums) -> Floats:
        left, total = left.T, total.T
        right = total - left
        below, above = across(left), across(right)
        parts = below * impurity(_shares(left, below)) + above * impurity(_shares(right, above))
        size = below + above
        result: Floats = impurity(_shares(total, size)) - parts / np.maximum(size, 1)
        return result

    return fall


def _shares(counts: Sums, sizes: Sums) -> Floats:
    return counts / np.maximum(sizes, 1)


def gini(shares: Floats) -> Floats:
    """1 - sum of squared shares; shape (classes, m), result (m,)."""
    result: Floats = 1.0 - across(np.square(shares))
    return result


def entropy(shares: Floats) -> Floats:
    """-sum of share * log2(share), bits; shape (classes, m), result (m,)."""
    result: Floats = -across(shares * np.log2(np.where(shares > 0, shares, 1.0)))
    return result


def across(table: NDArray[Any]) -> NDArray[Any]:
    """Sums over the first axis, one row after another: quicker than `sum` for a few rows."""
    found: NDArray[Any] = table[0].copy()
    for row in table[1:]:
        found += row
    return found


def normalised(values: Floats, groups: Sums) -> Floats:
    """Scaled to [0, 1] by the smallest and largest of each group; all zero where they agree.

    `groups` is sorted. Whatever the table, the result lies in [0, 1].
    """
    if not len(values):
        return values
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    sizes = np.diff(np.append(starts, len(values)))
    least = np.repeat(np.minimum.reduceat(values, starts), sizes)
    span = np.repeat(np.maximum.reduceat(values, starts), sizes) - least
    scaled = np.divide(values - least, span, out=np.zeros_like(values), where=span > 0)
    result: Floats = np.clip(scaled, 0.0, 1.0)
    return result


_TOGETHER = 1 << 17  # runs and leaves of several features that are scored in one go
_UNIT = 2.0**40  # measure of a whole feature, when features compete

Ints = NDArray[Any]
_NONE = np.zeros((0, 0), dtype=np.int64)


@frozen(eq=False, repr=False)
class Gaps:
    """Runs of candidates, ordered by leaf.

    Attributes:
        node: leaf, shape (m,).
        feature: which feature.
        first: first cut of the run (or the category).
        length: number of cuts, at least 1.
        left, total: statistics of the records below the cut, and of the leaf, (m, width),
            until the score is known.
        score: shape (m,), once it is known.
    """

    node: Ints
    feature: Ints
    first: Ints
    length: Ints
    left: Ints
    total: Ints
    score: NDArray[np.float64] = field(factory=lambda: np.zeros(0))

    def scored(self, score: NDArray[np.float64]) -> Gaps:
        """With its score, and without the statistics that it came from."""
        return Gaps(self.node, self.feature, self.first, self.length, _NONE, _NONE, score)

    def at(self, places: Ints) -> Gaps:
        """Scored runs at `places`."""
        return Gaps(self.node[places], self.feature[places], self.first[places],
                    self.length[places], _NONE, _NONE, self.score[places])


@frozen(eq=False)
class Picked:
    """What was chosen in every leaf, shape (leaves,) each.

    Attributes:
        feature: chosen feature, -1 where the leaf had no candidate (a public fact).
        cut: chosen cut; -1 where only features were chosen.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.int32]


@frozen(eq=False, repr=False)
class Options:
    """Candidates of the leaves that have any, in the layout that the noise source takes.

    Attributes:
        score, weight, feature, first, length: shape (m,).
        leaf: leaves with candidates, shape (s,). starts: where theirs begin, shape (s + 1,).
    """

    score: NDArray[np.float64]
    weight: NDArray[np.int64]
    feature: Ints
    first: Ints
    length: Ints
    leaf: Ints
    starts: NDArray[np.int64]

    def picked(self, leaves: int, chosen: Ints, offset: Ints | None) -> Picked:
        """From positions, and a cut's place within its run, to what was chosen in each leaf."""
        feature = np.full(leaves, NO_TEST, dtype=np.int32)
        cut = np.full(leaves, NO_TEST, dtype=np.int32)
        feature[self.leaf] = self.feature[chosen]
        if offset is not None:
            cut[self.leaf] = self.first[chosen] + offset
        return Picked(feature, cut)


def options_of(choice: Any, tallies: Sequence[Tally | Tabled], one: int = 1) -> Options:
    """Every candidate of every leaf of a `Choice` with its score.

    Args:
        one: steps in which tallies count a row or a person, as `Noise.one`.
    """
    rule, tree = _rule(choice), choice.cells
    parts = []
    for gaps in _gaps(tree, choice.features, choice.allowed, tallies):
        part = gaps.scored(rule(_whole(choice, gaps.left, one), _whole(choice, gaps.total, one)))
        parts.append(_best(part) if choice.among == "features" else part)
    gaps = joined(parts, tree.count)
    score, weight = gaps.score, gaps.length.astype(np.int64)
    if choice.score in ("gini", "entropy"):
        score = normalised(score, gaps.node)
    if choice.among == "both":
        weight *= _measure(tree)[gaps.feature]
    starts = np.flatnonzero(np.diff(gaps.node, prepend=-1))
    return Options(score, weight, gaps.feature, gaps.first, gaps.length, gaps.node[starts],
                   np.append(starts, len(score)).astype(np.int64))


def _whole(choice: Any, sums: Ints, one: int) -> Ints:
    """Statistics in rows or people. Shares of classes need none: they stay whole
    steps, where the least count is one."""
    if one == 1 or choice.score in ("gini", "entropy"):
        return sums
    scaled = sums / float(one)
    if choice.labels is None:
        scaled[:, 1] = sums[:, 1]  # numbers are in steps of their own
    return scaled


def _rule(choice: Any) -> Callable[[Any, Any], NDArray[np.float64]]:
    if choice.score == "rank":
        return rank
    if choice.score == "gain":
        return gain(choice.penalty)
    if choice.score == "squared_error":
        return number_fit if choice.labels is None else class_fit
    return impurity_fall(
        gini if choice.score == "gini" else entropy)


def _best(part: Gaps) -> Gaps:
    """One candidate per leaf: the feature, with the score of its best cut."""
    if not len(part.score):
        return part
    starts = np.flatnonzero(np.diff(part.node, prepend=-1))
    heads = part.at(starts)
    return Gaps(heads.node, heads.feature, heads.first, np.ones_like(heads.length), heads.left,
                heads.total, np.maximum.reduceat(part.score, starts))


def _measure(tree: GrownCells) -> NDArray[np.int64]:
    """Weight of one cut of each feature, so that every feature weighs the same.

    A numeric feature of s bins has s - 1 cuts, a categorical one s - 1 categories.
    """
    sizes = np.array(tree.bins.sizes())
    measure: NDArray[np.int64] = np.floor(_UNIT / np.maximum(sizes - 1, 1)).astype(np.int64)
    return measure


def _gaps(tree: GrownCells, features: Ints | None, allowed: Ints | None,
          tallies: Sequence[Tally | Tabled]) -> Iterator[Gaps]:
    """Candidates from every tally, in the leaves that ask about its feature.

    `node` is a leaf of the k-th of several features plus k times the leaves.
    """
    kinds, places = tree.bins.unordered(), np.arange(tree.count)
    for group in _grouped(tree, kinds, [held.listed() for held in tallies]):
        tally = group[0]
        if tally.feature == NO_TEST:
            assert features is not None
            numeric = (features != NO_TEST) & ~kinds[features]
            yield numeric_gaps(tally, tree.low[places, features].astype(np.int64),
                               np.where(numeric, tree.high[places, features], 0).astype(np.int64),
                               features)
        elif kinds[tally.feature]:
            asked = _asked(tree, features, allowed, tally.feature)
            possible = possible_categories(tree, tally.feature) & asked[:, None]
            yield category_gaps(tally, possible, np.full(tree.count, tally.feature))
        else:
            named = np.array([one.feature for one in group])
            asked = np.stack([_asked(tree, features, allowed, one) for one in named.tolist()])
            high = np.where(asked, tree.high[:, named].T, 0)
            yield numeric_gaps(side_by_side(group, tree.count), tree.low[:, named].T.ravel(),
                               high.ravel(), np.repeat(named, tree.count))


def _grouped(tree: GrownCells, kinds: NDArray[np.bool_],
             tallies: list[Tally]) -> Iterator[list[Tally]]:
    """Numeric features that follow each other, as many as make arrays of moderate length."""
    group: list[Tally] = []
    length = 0
    for tally in tallies:
        alone = tally.feature == NO_TEST or bool(kinds[tally.feature])
        more = tree.count + len(tally.keys)
        if group and (alone or length + more > _TOGETHER):
            yield group
            group, length = [], 0
        if alone:
            yield [tally]
        else:
            group.append(tally)
            length += more
    if group:
        yield group


def _asked(tree: GrownCells, features: Ints | None, allowed: Ints | None,
           feature: int) -> NDArray[np.bool_]:
    """Which leaves ask about a feature, shape (leaves,)."""
    if features is not None:
        return np.asarray(features == feature)
    return (np.ones(tree.count, dtype=np.bool_) if allowed is None
            else np.asarray(allowed[:, feature]))


def numeric_gaps(tally: Tally, low: Ints, high: Ints, feature: Ints) -> Gaps:
    """Runs of candidates of one numeric feature for every leaf.

    Args:
        low, high, feature: box and feature of each leaf, shape (leaves,); high <= low + 1
            leaves no candidate.
    """
    leaves = np.arange(len(low), dtype=np.int32)
    runs = tally.running()
    head = np.zeros(len(low) + 1, dtype=np.int64)
    np.cumsum(np.bincount(runs.node, minlength=len(low)), out=head[1:])
    # Before each run of records lies a gap, and one more behind the last run of a leaf.
    gap_node = np.repeat(leaves, np.diff(head) + 1)
    before = np.arange(len(runs.node)) + runs.node
    last = head[1:] + leaves
    upper = np.empty(len(gap_node), dtype=np.int32)
    lower = np.empty_like(upper)
    value = runs.value.astype(np.int32)
    upper[before], upper[last] = value, 1 << 20
    lower[before + 1] = value
    lower[head[:-1] + leaves] = -1
    first = np.maximum(lower, low.astype(np.int32)[gap_node]) + np.int32(1)
    length = np.minimum(upper, high.astype(np.int32)[gap_node] - 1) - first + np.int32(1)
    kept = np.flatnonzero(length > 0)
    gap_node, first, length = gap_node[kept], first[kept], length[kept]
    borders = runs.upto[head]
    below = runs.upto.take(kept - gap_node, axis=0) - borders.take(gap_node, axis=0)
    total = np.diff(borders, axis=0).take(gap_node, axis=0)
    return Gaps(gap_node, feature.astype(np.int32)[gap_node], first, length, below, total)


def category_gaps(tally: Tally, possible: Ints, feature: Ints) -> Gaps:
    """One candidate per leaf and possible category: this category against the rest.

    Args:
        possible: shape (leaves, categories), True where the leaf's box has the category.
        feature: of each leaf, shape (leaves,).
    """
    leaves, categories = possible.shape
    table = np.zeros((leaves, categories + 1, tally.sums.shape[1]), dtype=np.int64)
    table[tally.node, tally.value] = tally.sums
    whole = table.sum(axis=1)
    gap_node, first = np.nonzero(possible)
    total = whole[gap_node]
    left = total - table[gap_node, first]
    node, first = gap_node.astype(np.int32), first.astype(np.int32)
    return Gaps(node, feature.astype(np.int32)[gap_node], first, np.ones_like(first), left, total)


def joined(parts: list[Gaps], leaves: int) -> Gaps:
    """All scored runs, ordered by leaf; within a leaf in the order of the parts."""
    if not parts:
        nothing = np.zeros(0, dtype=np.int64)
        return Gaps(nothing, nothing, nothing, nothing, _NONE, _NONE)
    both = [np.concatenate([getattr(part, name) for part in parts])
            for name in ("node", "feature", "first", "length", "score")]
    both[0] %= leaves  # of what counts leaves and features
    order = np.argsort(both[0].astype(np.uint16), kind="stable")
    node, feature, first, length, score = (column[order] for column in both)
    return Gaps(node, feature, first, length, _NONE, _NONE, score)
