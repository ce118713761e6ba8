"""From released arrays to labelled rows: values, noise and intervals. Post-processing only."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.statistics.answers import AnswerRow, Group
from privledger_learners.statistics.expressions import Statistic
from privledger_learners.statistics.needs import COARSE, FINE, Axis, Key, Need

intervals = pl.plugins.intervals


@frozen(eq=False)
class Told:
    """The answer to one question.

    Attributes:
        array: shape (groups, entries), whatever `where` left out gone. scale: of the noise of one
            entry, as `kind` (laplace or gaussian) takes it; 0 for draws.
    """

    need: Need
    array: np.ndarray
    kind: str
    scale: float

    @property
    def sd(self) -> float:
        """Standard deviation of an entry's noise."""
        return intervals.entry_sd(self.scale, self.kind)

    @cached_property
    def means(self) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], ...]:
        """Of moments, all groups at once: (mean, low, high), of the noise, and of the sample."""
        return tuple(intervals.mean_intervals(self.array[:, :3], self.scale, self.kind,
                                              sampling=sampling) for sampling in (False, True))


def numbers(axes: tuple[Axis, ...]) -> Iterator[tuple[int, Group]]:
    """Place and labels of every combination that the schema allows."""
    everything = itertools.product(*(tuple(zip(axis.labels, axis.shown, strict=True))
                                     for axis in axes))
    for place, combination in enumerate(everything):
        if all(shown for _, shown in combination):
            yield place, tuple(label for label, _ in combination)


def rows_of(statistics: tuple[Statistic, ...], groups: tuple[Axis, ...],
            keys: Mapping[Statistic, Key], told: Mapping[Key, Told]) -> list[AnswerRow]:
    """The answer's rows, group by group, statistics in their order."""
    counts = _counts(groups, told)
    columns = [_rows(one, told[keys[one]], groups, counts, {}) for one in statistics]
    return [row for place, _ in numbers(groups) for column in columns
            for row in column.get(place, ())]


def _counts(groups: tuple[Axis, ...], told: Mapping[Key, Told]) -> np.ndarray | None:
    """Noisy rows of every group, from the least noisy answer that has them."""
    found = [(one.sd * math.sqrt(one.array.shape[1]), place, one.array.sum(axis=1))
             for place, one in enumerate(told.values())
             if one.need.key.kind in ("count", "moments")]
    return min(found, key=lambda each: each[:2])[2] if found else None


Rows = dict[int, list[AnswerRow]]


def _rows(one: Statistic, told: Told, groups: tuple[Axis, ...], counts: np.ndarray | None,
          found: Rows) -> Rows:
    reader = {"count": _count, "sum": _sum, "mean": _mean, "var": _spread, "std": _spread,
              "quantile": _quantiles, "histogram": _cells, "crosstab": _cells,
              "corr": _correlations}[one.kind]
    for place, group in numbers(groups):
        about = None if counts is None else float(counts[place])
        found[place] = list(reader(one, told, place, group, about))
    return found


def _row(told: Told, group: Group, name: str, value: float, weights: tuple[float, ...],
         about: float | None, cell: str = "") -> AnswerRow:
    """A weighted sum of entries: its noise is exactly known."""
    half = intervals.sum_half_width(weights, told.scale, told.kind)
    return AnswerRow(group, name, cell, float(value), float(value - half), float(value + half),
                     told.sd * math.hypot(*weights), about)


def _count(one: Statistic, told: Told, place: int, group: Group,
           about: float | None) -> Iterator[AnswerRow]:
    entries = told.array[place]
    if one.columns:  # without those whose value is missing
        if told.need.key.kind == "moments":
            entries = entries[:3]
        else:
            entries = entries[:len(entries) - (told.need.axes[-1].labels[-1] is None)]
    yield _row(told, group, one.name, entries.sum(), (1.0,) * len(entries), about)


def _sum(one: Statistic, told: Told, place: int, group: Group,
         about: float | None) -> Iterator[AnswerRow]:
    key = told.need.key
    if key.kind == "sum":
        most = max(abs(key.lower), abs(key.upper))
        weights: tuple[float, ...] = (most,)
    else:
        weights = (key.upper, (key.lower + key.upper) / 2, key.lower)
    value = float(np.dot(weights, told.array[place][:len(weights)]))
    yield _row(told, group, one.name, value, weights, about)


def _mean(one: Statistic, told: Told, place: int, group: Group,
          about: float | None) -> Iterator[AnswerRow]:
    low, wide = told.need.key.lower, told.need.key.upper - told.need.key.lower
    block = told.array[place][:3]
    ends: list[float | None] = []
    for found in told.means:
        at, left, right = (float(each[place]) for each in found)
        few = float(block.sum()) <= intervals.NORMAL * math.sqrt(3.0) * told.sd
        empty = few and left == 0 and right == 1
        ends += [None, None] if empty else [low + wide * left, low + wide * right]
    known = max(float(block.sum()), 1.0)
    sd = wide * told.sd * math.sqrt((1 - at)**2 + (0.5 - at)**2 + at * at) / known
    yield AnswerRow(group, one.name, "", low + wide * at, ends[0], ends[1], sd, about,
                    ends[2], ends[3])


def _spread(one: Statistic, told: Told, place: int, group: Group,
            about: float | None) -> Iterator[AnswerRow]:
    wide = told.need.key.upper - told.need.key.lower
    squares, middle, _ = told.array[place][:3]
    known = max(float(told.array[place][:3].sum()), 2.0)
    m = float(np.clip((squares + middle / 2) / known, 0.0, 1.0))
    # A variance in [0, 1] is at most m (1 - m).
    spread = float(np.clip(squares / known - m * m, 0.0, m * (1 - m)))
    spread *= known / (known - 1)
    value = wide * wide * spread if one.kind == "var" else wide * math.sqrt(spread)
    weights = ((1 - m)**2, (0.5 - m)**2 - 0.25, m * m)
    sd = wide * wide * told.sd * math.hypot(*weights) / known
    if one.kind == "std":
        # Where the noise is larger than the variance, its root is what the first order misses.
        sd = min(sd / (2 * value), math.sqrt(sd)) if value > 0 else math.sqrt(sd)
    yield AnswerRow(group, one.name, "", value, noise_sd=sd, rows_about=about)


def _quantiles(one: Statistic, told: Told, place: int, group: Group,
               about: float | None) -> Iterator[AnswerRow]:
    # No interval of a value follows from an exponential draw.
    found, key = told.array[place], told.need.key
    if key.kind == "ranks":
        ends = [rank_ends(found, q, told.scale, told.kind) for q in one.quantiles]
        edges = np.linspace(key.lower, key.upper, len(found) + 1)
        found = _at_ranks(found, key, np.array(one.quantiles))
    if key.kind == "quantile":  # drawn apart: in order, they are nearer to the true ones
        found = np.sort(found)
    if key.whole:
        found = np.round(found)
    for at, q in enumerate(one.quantiles):
        row = AnswerRow(group, one.called(q), "", value := float(found[at]), rows_about=about)
        if key.kind == "ranks" and ends[at]:
            low, high, left, right = (float(edges[end]) for end in ends[at])
            if key.whole:
                low, left = math.ceil(low), math.ceil(left)
                high, right = (end if end == key.upper else math.ceil(end) - 1
                               for end in (high, right))
            row = evolve(row, low=min(low, value), high=max(high, value),
                         sample_low=min(left, value), sample_high=max(right, value))
        yield row


def rank_weights(below: int, q: float) -> dict[float, int]:
    """Sizes of the weights of all noisy counts, and how often each occurs, in how many rows are
    in the first so many bins, less q times all rows: of `joined` counts."""
    many, blocks = FINE // COARSE, COARSE
    full, part = divmod(below, many)
    coarse, each = many / (many + 1), 1 / (many + 1)
    rest = blocks - full - (part > 0)
    found: Counter[float] = Counter()
    for weight, often in (
            (coarse * (1 - q), full), (each * (1 - q), full * many),
            (coarse * q, rest), (each * q, rest * many),
            *(((1 - part * each - q * each, part), (part * each + q * each, many - part),
               (part * each - q * coarse, 1)) if part else ())):
        found[abs(weight)] += often
    return +found


@lru_cache(maxsize=64)
def _rank_deviations(q: float) -> np.ndarray:
    """Standard deviation of that for every number of bins, for noise of deviation 1."""
    return np.array([math.sqrt(math.fsum(often * size**2 for size, often in
                                         rank_weights(below, q).items()))
                     for below in range(FINE + 1)])


@lru_cache(maxsize=1 << 14)
def _rank_width(below: int, q: float, kind: str) -> float:
    """95 % half width of that, for noise of scale 1; so .025 are beyond either end."""
    if kind == "gaussian":
        return float(intervals.NORMAL * _rank_deviations(q)[below])
    return float(intervals.repeated_quantile(tuple(rank_weights(below, q).items()), 0.05))


def rank_ends(counts: np.ndarray, q: float, scale: float, kind: str) -> tuple[int, ...]:
    """Edges between which the q-quantile of the table lies, and that of a population; empty where
    there may be no row (docs/proofs/summaries.md)."""
    above = np.concatenate([[0.0], np.cumsum(counts)])
    rows, sd = float(above[-1]), intervals.entry_sd(scale, kind)
    of_rows = sd * float(_rank_deviations(0.0)[FINE])
    if rows <= intervals.NORMAL * of_rows:
        return ()
    above -= q * rows
    found: list[int] = []
    for more in (0.0, intervals.NORMAL**2 * q * (1 - q) * (
            rows + intervals.ONE_SIDED * of_rows + intervals.PLUS)):
        # What is further than a width ever is, by Chebyshev's inequality, needs none of its own.
        far = np.hypot(math.sqrt(20.0) * sd * _rank_deviations(q), math.sqrt(more))

        def near(edge: int, side: int, more: float = more) -> bool:
            return side * float(above[edge]) <= math.hypot(
                scale * _rank_width(edge, q, kind), math.sqrt(more))

        low = next((edge for edge in np.flatnonzero(-above[1:-1] <= far[1:-1]).tolist()
                    if near(edge + 1, -1)), FINE - 1)
        high = next((edge + 1 for edge in np.flatnonzero(above[1:-1] <= far[1:-1])[::-1].tolist()
                     if near(edge + 1, 1)), 0)
        found += [min(low, high), max(low, high) + 1]
    return tuple(found)


def joined(fine: np.ndarray, coarse: np.ndarray) -> np.ndarray:
    """Counts of bins that agree with the counts of their blocks, both noisy: least squares.

    Args:
        fine: shape (groups, bins + 1). coarse: shape (groups, blocks + 1). The last is missing.
    """
    groups, blocks = coarse.shape[0], coarse.shape[1] - 1
    inner = fine[:, :-1].reshape(groups, blocks, -1)
    many, sums = inner.shape[2], inner.sum(axis=2)
    # A sum of `many` bins has so many times the variance of a block's own count.
    whole = (many * coarse[:, :-1] + sums) / (many + 1)
    return np.asarray((inner + ((whole - sums) / many)[:, :, None]).reshape(groups, -1))


def _at_ranks(counts: np.ndarray, key: Key, quantiles: np.ndarray) -> np.ndarray:
    """The edges whose share below is nearest to each quantile; where it is flat, the middle one. Of
    whole numbers the first in the bin in which the share is passed."""
    below = np.maximum.accumulate(np.concatenate([[0.0], np.cumsum(counts)]))
    edges = np.linspace(key.lower, key.upper, len(below))
    if key.whole:
        return np.asarray(np.ceil(edges[np.searchsorted(below[1:-1], quantiles * below[-1])]))
    apart = np.abs(below[None, :] - quantiles[:, None] * max(below[-1], 1.0))
    first = apart.argmin(axis=1)
    last = len(below) - 1 - apart[:, ::-1].argmin(axis=1)
    return np.asarray(edges[(first + last) // 2])


def _cells(one: Statistic, told: Told, place: int, group: Group,
           about: float | None) -> Iterator[AnswerRow]:
    axes = told.need.axes[-len(one.columns):]
    entries = told.array[place]
    for at, labels in numbers(axes):
        yield _row(told, group, one.name, entries[at], (1.0,), about, _cell(labels))
    if one.kind == "crosstab" and one.margins:
        yield from _margins(one, told, entries.reshape([len(axis.labels) for axis in axes]),
                            axes, group, about)


def _margins(one: Statistic, told: Told, table: np.ndarray, axes: tuple[Axis, ...],
             group: Group, about: float | None) -> Iterator[AnswerRow]:
    """Sums of the cells that are shown, so that they add up."""
    table = table[np.ix_(*[list(axis.shown) for axis in axes])]
    for at, axis in enumerate(axes):
        sums = table.sum(axis=1 - at)
        weights = (1.0,) * table.shape[1 - at]
        for label, value in zip([label for label, shown in zip(axis.labels, axis.shown, strict=True)
                                 if shown], sums, strict=True):
            pair = [_said(label), "all"] if at == 0 else ["all", _said(label)]
            yield _row(told, group, one.name, value, weights, about, ", ".join(pair))
    yield _row(told, group, one.name, table.sum(), (1.0,) * table.size, about, "all, all")


def _said(label: object) -> str:
    return "missing" if label is None else str(label)


def _cell(labels: Group) -> str:
    return ", ".join(map(_said, labels))


def _correlations(one: Statistic, told: Told, place: int, group: Group,
                  about: float | None) -> Iterator[AnswerRow]:
    many = len(one.columns)
    whole = np.zeros((many + 1, many + 1))
    whole[np.triu_indices(many + 1)] = told.array[place]
    known = max(float(whole[0, 0]), 1.0)
    means = whole[0, 1:] / known
    moments = (whole[1:, 1:] + np.triu(whole[1:, 1:], 1).T) / known
    spread = moments - np.outer(means, means)
    floor = (told.sd / known) or 1e-12  # what is below the noise is not told from it
    scale = np.sqrt(np.maximum(np.diag(spread), floor))
    for a, b in itertools.combinations(range(many), 2):
        value = float(np.clip(spread[a, b] / (scale[a] * scale[b]), -1.0, 1.0))
        yield AnswerRow(group, one.name, f"{one.columns[a]}, {one.columns[b]}", value,
                        rows_about=about)
