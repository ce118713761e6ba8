"""Scores of whole features, inside the guard. Bounds: docs/proofs/feature-scores.md.

Records whose value of a feature is missing count for nothing in that feature's score. A
category counts as its position in the schema's list.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from attrs import define, frozen
from numpy.typing import NDArray

from privledger.errors import DataError, public_name
from privledger.facts.columns import MISSING
from privledger.facts.schema import Schema
from privledger.questions.blocks import target_of
from privledger.questions.custom_scores import CustomScores
from privledger.questions.quiet import quiet
from privledger.questions.votes import Votes, coins_of, votes_of
from privledger.questions.weighted_scores import weighted_score
from privledger.tables.chunk import Rows
from privledger.tables.weighing import ONE

Floats = NDArray[np.float64]
Codes = NDArray[Any]

_CELLS = 1 << 17  # of a chunk: temporaries stay in the processor's cache
_STEPS = 1 << 15  # grid of [-1, 1] for correlations
_EXACT_ROWS = 1 << 22  # sums of products on that grid are exact in float64
_LEVELS = 1 << 24  # of a numeric target, where only its order counts


@define(eq=False)
class Known:
    """What one question's draws share on one table.

    Attributes:
        asked: whose scores they are: a caller can put any name anywhere.
        coins: block of each record, for votes, shape (n,).
        sums: of products, for correlations, shape (features,).
        scores: shape (features,), once they are known.
    """

    asked: tuple[Any, ...]
    coins: NDArray[np.int64] | None = None
    sums: NDArray[np.int64] | None = None
    scores: Floats | None = None


@frozen(eq=False)
class Bag:
    """The records themselves, in no order: what scores that are no sums are computed from.

    Attributes:
        rows: of all chunks.
        known: what was found of them.
    """

    rows: Rows
    known: Known

    def plus(self, other: Bag) -> Bag:
        """Both bags as one, whose scores are not known yet."""
        coins = None
        if self.known.coins is not None and other.known.coins is not None:
            coins = np.concatenate([self.known.coins, other.known.coins])
        return Bag(self.rows.joined(other.rows), Known(self.known.asked, coins))


def known_of(asked: tuple[Any, ...], key: object, chunk: Rows) -> Known:
    """What earlier draws of the same question found of this chunk."""
    known: Known | None = chunk.cache.get(key)
    if known is None or known.asked != asked:
        known = chunk.cache[key] = Known(asked)
    return known


def bag_of(known: Known, votes: Votes | None, chunk: Rows) -> Bag:
    """The records of a chunk, and each record's coin where blocks vote."""
    if votes is not None and known.coins is None:
        known.coins = coins_of(votes, chunk)
    return Bag(chunk, known)


def sums_of(known: Known, schema: Schema, chunk: Rows) -> NDArray[np.int64]:
    """Sums of products of a chunk, one per feature of `schema`."""
    if known.sums is None:
        known.sums = _product_sums(schema, chunk)
    return known.sums


def feature_scores(score: str, votes: Votes | None, custom: CustomScores | None, schema: Schema,
                   bag: Bag) -> Floats:
    """One score per feature of `schema`, shape (features,); computed once per table."""
    if bag.known.scores is None:
        bag.known.scores = _scores(score, votes, custom, schema, bag)
    return bag.known.scores


def _scores(score: str, votes: Votes | None, custom: CustomScores | None, schema: Schema,
            bag: Bag) -> Floats:
    rows = bag.rows
    if custom is not None:
        return _custom(custom, schema, rows)
    if votes is not None:
        assert bag.known.coins is not None
        return votes_of(votes, matrix_of_features(schema, rows), target_numbers(rows),
                        bag.known.coins)
    return _ordered(score, schema, rows)


def _held(schema: Schema, rows: Rows) -> list[Codes]:
    """The handle's columns, in its order."""
    whole = rows.features
    if schema.features == whole.schema.features:
        return list(whole.arrays)
    held = {column.name: array for column, array in zip(whole.schema.features, whole.arrays,
                                                        strict=True)}
    return [held[column.name] for column in schema.features]


def _chunks(schema: Schema, rows: Rows) -> Iterator[tuple[slice, Floats]]:
    """Runs of features as fresh float64 tables, (features, n_records), NaN where missing."""
    arrays = _held(schema, rows)
    width = max(1, _CELLS // max(rows.n, 1))
    for first in range(0, len(arrays), width):
        part = arrays[first : first + width]
        table = np.empty((len(part), rows.n))
        for place, array in enumerate(part):
            table[place] = array
            if array.dtype.kind == "i":
                table[place, array == MISSING] = np.nan
        yield slice(first, first + len(part)), table


def matrix_of_features(schema: Schema, rows: Rows) -> Floats:
    """Every feature on [-1, 1] by its public bounds, NaN where missing: (features, n)."""
    middle, half = _bounds(schema)
    result = np.empty((len(middle), rows.n))
    for part, table in _chunks(schema, rows):
        result[part] = (table - middle[part, None]) / half[part, None]
    return result


def _bounds(schema: Schema) -> tuple[Floats, Floats]:
    """Middle and half width of each feature's public range."""
    ends = np.array([(c.lower, c.upper) if c.kind == "numeric"
                     else (0.0, float(max(1, len(c.categories) - 1))) for c in schema.features])
    return ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2


def target_numbers(rows: Rows) -> Floats:
    """The target on [-1, 1]: by its public bounds, or its class's place in the list."""
    target, column = target_of(rows), rows.features.schema.target
    low, high = ((column.lower, column.upper) if column.kind == "numeric"
                 else (0.0, float(max(1, len(column.categories) - 1))))
    scaled = (target.astype(np.float64) - low) / (high - low) * 2 - 1
    return np.nan_to_num(np.clip(scaled, -1.0, 1.0), nan=0.0)


def correlation(sums: NDArray[np.int64]) -> Floats:
    """|sum of x y| in units of one record's largest product."""
    result: Floats = np.abs(sums) / float(_STEPS * _STEPS)
    return result


def _product_sums(schema: Schema, rows: Rows) -> NDArray[np.int64]:
    """Sums of x y on the grid, cut towards zero, one per feature of `schema`."""
    y = np.trunc(target_numbers(rows) * _STEPS)
    if rows.mass is not None:
        y = np.trunc(y * rows.mass / ONE)
    middle, half = _bounds(schema)
    sums = np.zeros(len(middle), dtype=np.int64)
    for part, table in _chunks(schema, rows):
        table -= middle[part, None]
        table /= half[part, None]
        np.nan_to_num(table, copy=False, nan=0.0)
        np.clip(table, -1.0, 1.0, out=table)
        table *= _STEPS
        np.trunc(table, out=table)
        for first in range(0, rows.n, _EXACT_ROWS):
            some = slice(first, first + _EXACT_ROWS)
            sums[part] += (table[:, some] @ y[some]).astype(np.int64)
    return sums


def _ordered(score: str, schema: Schema, rows: Rows) -> Floats:
    """Scores that look at the order of a feature's values only."""
    codes, classes = target_codes(rows)
    keys = Keys(classes)
    middle, half = _bounds(schema)
    lower, scale = middle - half, keys.steps / (2 * half)
    gaps = np.array([column.missing for column in schema.features])
    result = np.zeros(len(gaps))
    if rows.n == 0:
        return result
    unequal = rows.mass is not None and bool((rows.mass != ONE).any())
    for part, table in _chunks(schema, rows):
        table -= lower[part, None]
        table *= scale[part, None]
        inside = result[part]
        if unequal:
            inside[:] = [weighted_score(score, row, keys.values, codes, rows) for row in table]
            continue
        whole = ~gaps[part]
        if whole.any():
            held = table if whole.all() else table[whole]
            inside[whole] = in_order(score, keys.values(held), codes, keys)
        for place in np.flatnonzero(~whole).tolist():
            known = ~np.isnan(table[place])
            if known.any():
                inside[place] = in_order(score, keys.values(table[place : place + 1, known]),
                                         codes[known], keys)[0]
    if score == "rank" and not unequal:
        result /= rows.n
    return result


def target_codes(rows: Rows) -> tuple[Codes, int]:
    """The target as whole numbers in its order, and how many there may be.

    Classes by their place in the list; a number on 2^24 steps of its public range.
    """
    target, column = target_of(rows), rows.features.schema.target
    if column.kind == "categorical":
        return target, len(column.categories)
    scaled = np.clip((target - column.lower) / (column.upper - column.lower), 0.0, 1.0)
    return np.rint(np.nan_to_num(scaled, nan=0.0) * (_LEVELS - 1)).astype(np.int64), _LEVELS


@frozen
class Keys:
    """How a value and a target share one sorting key: the value above, the target below.

    Attributes:
        classes: how many targets there may be; public.
    """

    classes: int

    @property
    def bits(self) -> int:
        """That hold the target."""
        return max(1, (self.classes - 1).bit_length())

    @property
    def dtype(self) -> type[np.unsignedinteger[Any]]:
        """The narrowest unsigned type that holds value and target."""
        return np.uint32 if self.bits <= 8 else np.uint64

    @property
    def steps(self) -> float:
        """Steps of a feature's public range that are told apart; public."""
        return 2.0 ** (32 - self.bits) if self.bits <= 8 else 2.0**38

    def values(self, scaled: Floats) -> Codes:
        """Values from 0 to `steps` as the upper part of keys; a fresh array."""
        np.clip(scaled, 0.0, self.steps - 1, out=scaled)
        found: Codes = scaled.astype(np.int64).astype(self.dtype)
        found <<= self.dtype(self.bits)
        return found

    def targets(self, keys: Codes) -> Codes:
        """The targets of sorted keys, as signed numbers."""
        low = keys & self.dtype((1 << self.bits) - 1)
        signed: Codes = low.astype(np.int8 if self.bits <= 6 else np.int64)
        return signed


def in_order(score: str, values: Codes, codes: Codes, keys: Keys) -> Codes:
    """Agreement, or |rises - falls|, of every row of `values` (features, n) with `codes` (n,)."""
    top = keys.classes - 1
    sorted_ = values | (top - codes).astype(keys.dtype)
    sorted_.sort(axis=1)
    rising = top - keys.targets(sorted_)  # ties: the highest class first
    step = sorted_[:, 1:] ^ sorted_[:, :-1]
    tied = (step < keys.dtype(1 << keys.bits)).any(axis=1)
    if score == "agreement":
        found = agreement(rising, top, both=True)
    else:
        found = 2 * pairs(rising)
    if tied.any():
        again = values[tied] | codes.astype(keys.dtype)
        again.sort(axis=1)
        other = keys.targets(again)  # ties: the lowest class first
        if score == "agreement":
            found[tied] = np.maximum(agreement(rising[tied], top),
                                     agreement(top - other, top))
        else:
            found[tied] = pairs(rising[tied]) + pairs(other)  # a tied pair: once each way
    return found if score == "agreement" else np.asarray(np.abs(found) / 2)


def agreement(labels: Codes, top: int, both: bool = False) -> NDArray[np.int64]:
    """Most records that some rising step function gets right, per row of `labels`.

    f_c(s), the best for the first s records with classes up to c, is the number of c among
    them plus the largest f_(c-1)(r) less the number of c among the first r, r <= s.

    Args:
        labels: classes 0 to `top` in the order of the feature's values.
        both: falling functions too; for rows without ties.
    """
    if top == 0:
        return np.full(len(labels), labels.shape[1], dtype=np.int64)
    if top == 1:
        return _two_classes(labels, both)
    best = _climb(labels, top)
    return np.maximum(best, _climb(top - labels, top)) if both else best


def _two_classes(labels: Codes, both: bool) -> NDArray[np.int64]:
    """One cut: ones, plus zeros less ones before it; or the other way round."""
    walk = np.multiply(labels, -2, dtype=np.int32)
    walk += 1
    np.cumsum(walk, axis=1, out=walk)
    ones = (labels.shape[1] - walk[:, -1].astype(np.int64)) // 2
    best: NDArray[np.int64] = ones + np.maximum(walk.max(axis=1), 0)
    if both:
        np.maximum(best, labels.shape[1] - ones + np.maximum(-walk.min(axis=1), 0), out=best)
    return best


def _climb(labels: Codes, top: int) -> NDArray[np.int64]:
    best: Codes | None = None
    for c in range(top):
        walk = (labels == c).view(np.int8) - (labels == c + 1).view(np.int8)
        walk = np.cumsum(walk, axis=1, dtype=np.int32)
        if best is not None:
            np.maximum.accumulate(best, axis=1, out=best)
            np.maximum(best, 0, out=best)  # cuts before the first record
            walk += best
        best = walk
    assert best is not None
    last = np.count_nonzero(labels == top, axis=1)
    result: NDArray[np.int64] = last + np.maximum(best.max(axis=1), 0)
    return result


def pairs(labels: Codes) -> NDArray[np.int64]:
    """Pairs whose labels rise less pairs whose labels fall, per row; every row has the same
    labels in another order.

    One bit of the labels at a time, from the highest: pairs that first differ in it, inside
    groups that agree in the bits above. Records of a group keep their order.
    """
    n = labels.shape[1]
    known = np.unique(labels[0])
    bits = int(len(known) - 1).bit_length()
    if bits == 1:
        ones = (labels == known[1]).astype(np.float64)
        upper = int(ones[0].sum())
        before = (ones @ np.arange(n, dtype=np.float64)).astype(np.int64)
        result: NDArray[np.int64] = 2 * before - upper * (upper - 1) - upper * (n - upper)
        return result
    values = np.searchsorted(known, labels).astype(np.uint64)
    total = np.zeros(len(labels), dtype=np.int64)
    for bit in range(bits - 1, -1, -1):
        if bit < bits - 1:
            values = _regrouped(values, bit + 1)
        ones_ = (values >> np.uint64(bit) & np.uint64(1)).astype(np.int64)
        group = (values[0] >> np.uint64(bit + 1)).astype(np.int64)
        zeros = np.zeros((len(labels), n + 1), dtype=np.int64)
        np.cumsum(1 - ones_, axis=1, out=zeros[:, 1:])
        ahead = zeros[:, :-1] - zeros[:, np.searchsorted(group, group, side="left")]
        highs = np.bincount(group, weights=ones_[0])
        total += 2 * (ones_ * ahead).sum(axis=1)
        total -= int((highs * (np.bincount(group) - highs)).sum())
    return total


def _regrouped(values: Codes, bit: int) -> Codes:
    """Rows sorted by the bits from `bit` up; equal ones keep their order."""
    shift, low = np.uint64(bit), np.uint64((1 << bit) - 1)
    places = np.arange(values.shape[1], dtype=np.uint64)
    keys = (values >> shift << np.uint64(32) | places) << shift | values & low
    keys.sort(axis=1)
    grouped: Codes = keys >> (shift + np.uint64(32)) << shift | keys & low
    return grouped


def _custom(custom: CustomScores, schema: Schema, rows: Rows) -> Floats:
    """A stranger's scores. An exception may quote a value, also in the name of its type."""
    table = np.concatenate([part.T for _, part in _chunks(schema, rows)], axis=1)
    target = target_of(rows).copy()
    try:
        with quiet():
            scores = np.asarray(custom.function(table, target), dtype=np.float64)
    except Exception as error:
        raised = public_name(type(error))
    else:
        raised = ""
    if raised:  # afresh: the other one would stay in its context
        raise DataError(f"the custom scores raised {raised}")
    if scores.shape != (len(schema.features),):
        raise DataError("custom scores must be one number per feature")
    return np.nan_to_num(scores, nan=0.0, posinf=1e150, neginf=-1e150)
