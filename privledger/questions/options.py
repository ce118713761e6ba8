"""Candidates of a choice and their scores, from the whole numbers that were counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.questions import split_scores
from privledger.questions.gaps import Gaps, category_gaps, joined, numeric_gaps
from privledger.questions.grown import NO_TEST, GrownCells, categorical
from privledger.questions.tallies import Tabled, Tally, possible_categories

_UNIT = 2.0**40  # measure of a whole feature, when features compete

Ints = NDArray[Any]


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
        one: steps in which tallies count whoever is protected, as `Noise.one`.
    """
    rule, tree = _rule(choice), choice.cells
    parts = [gaps.scored(rule(_whole(choice, gaps.left, one), _whole(choice, gaps.total, one)))
             for gaps in _gaps(tree, choice.features, choice.allowed, tallies)]
    if choice.among == "features":
        parts = [_best(part) for part in parts]
    gaps = joined(parts)
    score, weight = gaps.score, gaps.length.astype(np.int64)
    if choice.score in ("gini", "entropy"):
        score = split_scores.normalised(score, gaps.node)
    if choice.among == "both":
        weight *= _measure(tree)[gaps.feature]
    starts = np.flatnonzero(np.diff(gaps.node, prepend=-1))
    return Options(score, weight, gaps.feature, gaps.first, gaps.length, gaps.node[starts],
                   np.append(starts, len(score)).astype(np.int64))


def _whole(choice: Any, sums: Ints, one: int) -> Ints:
    """Statistics in units of whoever is protected. Shares of classes need none: they stay whole
    steps, where the least count is one."""
    if one == 1 or choice.score in ("gini", "entropy"):
        return sums
    scaled = sums / float(one)
    if choice.labels is None:
        scaled[:, 1] = sums[:, 1]  # numbers are in steps of their own
    return scaled


def _rule(choice: Any) -> Callable[[Any, Any], NDArray[np.float64]]:
    if choice.score == "rank":
        return split_scores.rank
    if choice.score == "gain":
        return split_scores.gain(choice.penalty)
    if choice.score == "squared_error":
        return split_scores.number_fit if choice.labels is None else split_scores.class_fit
    return split_scores.impurity_fall(
        split_scores.gini if choice.score == "gini" else split_scores.entropy)


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
    """Candidates from every tally, in the leaves that ask about its feature."""
    kinds, places = categorical(tree.bins), np.arange(tree.count)
    for held in tallies:
        tally = held.listed()
        if tally.feature == NO_TEST:
            assert features is not None
            numeric = (features != NO_TEST) & ~kinds[features]
            yield numeric_gaps(tally, tree.low[places, features].astype(np.int64),
                               np.where(numeric, tree.high[places, features], 0).astype(np.int64),
                               features)
            continue
        named = np.full(tree.count, tally.feature)
        asked = _asked(tree, features, allowed, tally.feature)
        if kinds[tally.feature]:
            possible = possible_categories(tree, tally.feature) & asked[:, None]
            yield category_gaps(tally, possible, named)
        else:
            yield numeric_gaps(tally, tree.low[:, tally.feature].astype(np.int64),
                               np.where(asked, tree.high[:, tally.feature], 0).astype(np.int64),
                               named)


def _asked(tree: GrownCells, features: Ints | None, allowed: Ints | None,
           feature: int) -> NDArray[np.bool_]:
    """Which leaves ask about a feature, shape (leaves,)."""
    if features is not None:
        return np.asarray(features == feature)
    return (np.ones(tree.count, dtype=np.bool_) if allowed is None
            else np.asarray(allowed[:, feature]))
