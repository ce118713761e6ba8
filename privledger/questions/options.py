"""Candidates of a choice and their scores, inside the guard."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.questions import split_scores as scores
from privledger.questions.choice import Choice, LabelChoice, Picked
from privledger.questions.gaps import (
    Gaps,
    category_gaps,
    counted_runs,
    joined,
    numeric_gaps,
    sorted_runs,
)
from privledger.questions.grown import NO_TEST, categorical, category_starts, matrix_of, order_of
from privledger.questions.statistics import Statistics, of_gradient, of_labels, of_target
from privledger.tables.chunk import Rows

_UNIT = 2.0**40  # measure of a whole feature, when features compete
_TABLE = 4  # a table of leaves times bins is made where it has so many entries per record

Ints = NDArray[Any]


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


def options_of(choice: Choice, rows: Rows) -> Options:
    """Every candidate of every leaf with its score."""
    rule = _rule(choice)
    parts = [gaps.scored(rule(gaps.left, gaps.total)) for gaps in _gaps(choice, rows)]
    if choice.among == "features":
        parts = [_best(part) for part in parts]
    gaps = joined(parts)
    score, weight = gaps.score, gaps.length.astype(np.int64)
    if choice.score in ("gini", "entropy"):
        score = scores.normalised(score, gaps.node)
    if choice.among == "both":
        weight *= _measure(choice)[gaps.feature]
    starts = np.flatnonzero(np.diff(gaps.node, prepend=-1))
    return Options(score, weight, gaps.feature, gaps.first, gaps.length, gaps.node[starts],
                   np.append(starts, len(score)).astype(np.int64))


def picked(choice: Choice, options: Options, chosen: Ints, offset: Ints | None) -> Picked:
    """From positions in `options`, and a cut's place within its run, to what was chosen."""
    feature = np.full(choice.cells.count, NO_TEST, dtype=np.int32)
    cut = np.full(choice.cells.count, NO_TEST, dtype=np.int32)
    feature[options.leaf] = options.feature[chosen]
    if offset is not None:
        cut[options.leaf] = options.first[chosen] + offset
    return Picked(feature, cut)


def _rule(choice: Choice) -> Callable[[Any, Any], NDArray[np.float64]]:
    if choice.score == "rank":
        return scores.rank
    if choice.score == "gain":
        return scores.gain(choice.penalty)
    if choice.score == "squared_error":
        return scores.class_fit if choice.labels is not None else scores.number_fit
    return scores.impurity_fall(scores.gini if choice.score == "gini" else scores.entropy)


def _best(part: Gaps) -> Gaps:
    """One candidate per leaf: the feature, with the score of its best cut."""
    if not len(part.score):
        return part
    starts = np.flatnonzero(np.diff(part.node, prepend=-1))
    heads = part.at(starts)
    return Gaps(heads.node, heads.feature, heads.first, np.ones_like(heads.length), heads.left,
                heads.total, np.maximum.reduceat(part.score, starts))


def _measure(choice: Choice) -> NDArray[np.int64]:
    """Weight of one cut of each feature, so that every feature weighs the same.

    A numeric feature of s bins has s - 1 cuts, a categorical one s - 1 categories.
    """
    sizes = np.array(choice.cells.bins.sizes())
    measure: NDArray[np.int64] = np.floor(_UNIT / np.maximum(sizes - 1, 1)).astype(np.int64)
    return measure


def _statistics(choice: Choice, rows: Rows) -> tuple[Statistics, NDArray[np.bool_] | None]:
    """Statistics of the records that take part, and which those are (None for all)."""
    if choice.labels is not None:
        return of_labels(choice.labels, rows), None
    if choice.gradient is not None:
        return of_gradient(choice.gradient, rows)
    return (of_target(rows) if choice.score == "squared_error" else Statistics()), None


def _gaps(choice: Choice, rows: Rows) -> Iterator[Gaps]:
    """One part per feature; or one for all numeric, and each categorical, leaf feature."""
    statistics, inside = _statistics(choice, rows)
    node = choice.cells.index(rows)
    if inside is not None:
        members = np.flatnonzero(inside)
        rows, node = rows.subset(members), node[members]
    if choice.features is not None:
        yield from _own(choice, rows, node, statistics)
        return
    for feature in range(len(choice.cells.bins.schema.features)):
        asked = (np.ones(choice.cells.count, dtype=np.bool_) if choice.allowed is None
                 else choice.allowed[:, feature])
        if asked.any():
            yield _one(choice, feature, asked, rows, node, statistics)


def _one(choice: Choice, feature: int, asked: NDArray[np.bool_], rows: Rows, node: Ints,
         statistics: Statistics) -> Gaps:
    """Runs of one feature in the leaves that ask about it."""
    tree = choice.cells
    value = matrix_of(tree.bins, rows)[feature]
    named = np.full(tree.count, feature)
    if categorical(tree.bins)[feature]:
        starts = category_starts(tree.bins)
        possible = tree.open[:, starts[feature] : starts[feature + 1]] & asked[:, None]
        return category_gaps(node, value, possible, named, statistics)
    low = tree.low[:, feature].astype(np.int64)
    high = np.where(asked, tree.high[:, feature], 0).astype(np.int64)
    size = tree.bins.sizes()[feature]
    if tree.count * size <= _TABLE * rows.n:
        runs = counted_runs(node, value, tree.count, size, statistics)
    else:
        runs = sorted_runs(node, value, statistics, order_of(tree.bins, rows, feature))
    return numeric_gaps(runs, low, high, named)


def _own(choice: Choice, rows: Rows, node: Ints, statistics: Statistics) -> Iterator[Gaps]:
    """Every leaf asks about a feature of its own."""
    tree, features = choice.cells, choice.features
    kinds = categorical(tree.bins)
    asked = features != NO_TEST
    numeric = asked & ~kinds[features]
    if numeric.any():
        places = np.arange(tree.count)
        value = matrix_of(tree.bins, rows)[features[node], np.arange(len(node))]
        low = tree.low[places, features].astype(np.int64)
        high = np.where(numeric, tree.high[places, features], 0).astype(np.int64)
        yield numeric_gaps(sorted_runs(node, value, statistics, None), low, high, features)
    for feature in np.unique(features[asked & kinds[features]]).tolist():
        yield _one(choice, feature, features == feature, rows, node, statistics)


def label_options(choice: LabelChoice, rows: Rows) -> tuple[NDArray[np.float64],
                                                            NDArray[np.int64]]:
    """Counts of every class in every leaf, leaf by leaf, and where each leaf begins."""
    leaves, classes = choice.cells.count, choice.labels.count
    keys = (choice.cells.index(rows).astype(np.int64) * classes
            + np.asarray(choice.labels.index(rows)))
    counts = np.bincount(keys, minlength=leaves * classes).astype(np.float64)
    return counts, np.arange(leaves + 1, dtype=np.int64) * classes
