"""Votes of blocks: the first stage of Kifer, Smith, Thakurta (2012), inside the guard."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.noise.source import Coins
from privledger.questions.blocks import target_of
from privledger.rounding import count, moderate
from privledger.tables.chunk import Rows
from privledger.tables.columns import MISSING
from privledger.tables.schema import Schema

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
_ROUNDS = 1500
_ACTIVE = 128
_EXTENSIONS = 8


@frozen(eq=False)
class Votes:
    """Every block of records votes for the features that its own LASSO ranks highest.

    Attributes:
        blocks: public number of blocks; each record's block is its own private coin.
        most: votes that one block may give.
        penalty: the LASSO's penalty, for columns standardised inside the block.
    """

    blocks: int = 10
    most: int = 5
    penalty: float = 0.1

    def __attrs_post_init__(self) -> None:
        count("blocks", self.blocks, most=1 << 20)
        count("most", self.most, most=1 << 20)
        moderate("penalty", self.penalty)


def coins_of(votes: Votes, key: object, rows: Rows) -> NDArray[np.int64]:
    """Block of each record: one private coin per record, by the ledger's noise source; under unit
    person one for everything that a person has here, so that it votes in one block.

    In a chunk the coin belongs to the record's place in the chunk, whatever else is asked.

    Args:
        key: the question's own name.
    """
    whole = rows.whole
    if whole.keep is not None:
        every = _coins(votes, whole.n, whole.coins(key))
        return every if rows is whole else every[rows.positions() - whole.first]
    if rows.people is None:
        return _coins(votes, rows.n, rows.coins(key))
    here, place = np.unique(rows.people, return_inverse=True)
    return _coins(votes, len(here), rows.coins(key))[place]


def _coins(votes: Votes, n: int, source: Coins) -> NDArray[np.int64]:
    # Modulo bias is the same for every record: still independent coins.
    coins: NDArray[np.int64] = (source.integers64(n) % np.uint64(votes.blocks)).astype(np.int64)
    return coins


def votes_of(votes: Votes, table: Floats, target: Floats, coins: NDArray[np.int64]) -> Floats:
    """How many blocks vote for each feature, shape (features,).

    Args:
        table: (features, n_records), NaN where missing. target: (n_records,).
        coins: block of each record, shape (n_records,).
    """
    found = np.zeros(len(table))
    for block in range(votes.blocks):
        inside = coins == block
        chosen = block_features(table[:, inside], target[inside], votes.most, votes.penalty)
        found[chosen] += 1.0
    return found


def block_features(table: Floats, target: Floats, most: int, penalty: float) -> Places:
    """Features with the largest LASSO coefficients of one block, at most `most`; zeros never.

    Looks at this block's records only, and gives the same answer for the same block.
    """
    if table.shape[1] < 2:
        return np.zeros(0, dtype=np.intp)
    return largest(lasso(_standardised(table), target - target.mean(), penalty), most)


def _standardised(table: Floats) -> Floats:
    """Columns of mean 0 and variance 1 in the block; missing values and constants are 0."""
    known = ~np.isnan(table)
    held = np.where(known, table, 0.0)
    size = np.maximum(known.sum(axis=1, keepdims=True), 1)
    held -= held.sum(axis=1, keepdims=True) / size
    held *= known
    spread = np.sqrt(np.square(held).sum(axis=1, keepdims=True) / size)
    result: Floats = np.divide(held, spread, out=np.zeros_like(held), where=spread > 1e-12)
    return result


def lasso(table: Floats, target: Floats, penalty: float) -> Floats:
    """argmin |target - table^T w|^2 / (2 n) + penalty |w|_1.

    Args:
        table: (features, n).
    """
    n = table.shape[1]

    def fit(active: Places) -> Floats:
        part = table[active]
        # Both products have the same largest eigenvalue; the smaller one is found sooner.
        product = part.T @ part if n <= len(part) else part @ part.T
        step = _step(product / n)
        return _descend(lambda ahead: step / n * (part @ (target - ahead @ part)),
                        len(part), step * penalty)

    def pull(active: Places, weights: Floats) -> Floats:
        found: Floats = np.abs(table @ (target - weights @ table[active])) / n
        return found

    return _extended(np.abs(table @ target) / n, fit, pull, penalty)


def lasso_of_products(gram: Floats, cross: Floats, penalty: float) -> Floats:
    """The same from the products alone: `gram` of features, `cross` with the target, over n."""
    def fit(active: Places) -> Floats:
        inner, towards = gram[np.ix_(active, active)], cross[active]
        step = _step(inner)
        return _descend(lambda ahead: step * (towards - inner @ ahead), len(active),
                        step * penalty)

    def pull(active: Places, weights: Floats) -> Floats:
        found: Floats = np.abs(cross - gram[:, active] @ weights)
        return found

    return _extended(np.abs(cross), fit, pull, penalty)


def largest(weights: Floats, most: int) -> Places:
    """Positions of the largest coefficients, at most `most`; zeros never."""
    size = np.abs(weights)
    order = np.argsort(-size, kind="stable")[:most]
    chosen: Places = order[size[order] > 0]
    return chosen


def _extended(pull: Floats, fit: Callable[[Places], Floats],
              pull_of: Callable[[Places, Floats], Floats], penalty: float) -> Floats:
    """Solved on the features that may matter; those that turn out to matter too are added."""
    weights = np.zeros(len(pull))
    active = np.sort(np.argsort(-pull, kind="stable")[:_ACTIVE])
    for _ in range(_EXTENSIONS):
        weights[:] = 0.0
        weights[active] = fit(active)
        pull = pull_of(active, weights[active])
        pull[active] = 0.0
        more = np.flatnonzero(pull > penalty * (1 + 1e-6))
        if not len(more):
            break
        more = more[np.argsort(-pull[more], kind="stable")[:_ACTIVE]]
        active = np.sort(np.concatenate([active, more]))
    return weights


def _step(product: Floats) -> float:
    return 1.0 / max(float(np.linalg.eigvalsh(product)[-1]), 1e-12)


def _descend(move: Callable[[Floats], Floats], width: int, shrink: float) -> Floats:
    """Accelerated proximal steps of constant length (Beck, Teboulle 2009).

    Args:
        move: the step down the slope of the squares. shrink: what each step takes off.
    """
    weights = np.zeros(width)
    ahead, pace = weights, 1.0
    for _ in range(_ROUNDS):
        moved = ahead + move(ahead)
        fresh = moved - np.minimum(np.maximum(moved, -shrink), shrink)
        if (fresh == weights).all() and (ahead == weights).all():
            break  # no later step moves it by one bit
        following = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        ahead = fresh + (pace - 1) / following * (fresh - weights)
        weights, pace = fresh, following
    return weights


# Features and target of a table as numbers, by the schema alone. Inside the guard.


Codes = NDArray[Any]

_CELLS = 1 << 17  # of a chunk: temporaries stay in the processor's cache


def _held(schema: Schema, rows: Rows) -> list[Codes]:
    """The handle's columns, in its order."""
    whole = rows.features
    if schema.features == whole.schema.features:
        return list(whole.arrays)
    held = {column.name: array for column, array in zip(whole.schema.features, whole.arrays,
                                                        strict=True)}
    return [held[column.name] for column in schema.features]


def columns_of(schema: Schema, rows: Rows) -> Iterator[tuple[slice, Floats]]:
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
    middle, half = bounds_of(schema)
    result = np.empty((len(middle), rows.n))
    for part, table in columns_of(schema, rows):
        result[part] = (table - middle[part, None]) / half[part, None]
    return result


def bounds_of(schema: Schema, part: slice = slice(None)) -> tuple[Floats, Floats]:
    """Middle and half width of each feature's public range."""
    ends = np.array([(c.lower, c.upper) if c.kind == "numeric"
                     else (0.0, float(max(1, len(c.categories) - 1)))
                     for c in schema.features[part]])
    return ends.mean(axis=1), (ends[:, 1] - ends[:, 0]) / 2


def on_grid(table: Floats, middle: Floats, half: Floats, steps: int) -> None:
    """Map features to [-1, 1] and cut to whole steps towards zero, in place; missing ones to 0."""
    table -= middle[:, None]
    table /= half[:, None]
    np.nan_to_num(table, copy=False, nan=0.0)
    np.clip(table, -1.0, 1.0, out=table)
    table *= steps
    np.trunc(table, out=table)


def target_numbers(rows: Rows) -> Floats:
    """The target on [-1, 1]: by its public bounds, or its class's place in the list."""
    target, column = target_of(rows), rows.features.schema.target
    low, high = ((column.lower, column.upper) if column.kind == "numeric"
                 else (0.0, float(max(1, len(column.categories) - 1))))
    scaled = (target.astype(np.float64) - low) / (high - low) * 2 - 1
    return np.nan_to_num(np.clip(scaled, -1.0, 1.0), nan=0.0)


# Votes of blocks from sums: each block's products of its columns, in whole numbers.  A block's
# LASSO needs no more of its records than the products of every two of its columns. They add up
# over chunks exactly, so a block votes the same however its records were divided.


Ints = NDArray[np.int64]

MOST_PRODUCTS = 1 << 24
"""Sums of one sketch: 128 MiB."""
_RUN_CELLS = 1 << 22  # of a run of records
_LEAST = 1e-7  # steps: one record among 2^40 spreads further


@define(eq=False, repr=False)
class VoteSums:
    """Sums of products of columns, block by block.

    The columns are one, the features (missing: 0), for every feature that may be missing whether
    it is there, and the target.

    Attributes:
        grams: shape (blocks, columns, columns).
        found: scores, once they are known.
    """

    grams: Ints
    found: Floats | None = field(default=None, init=False, repr=False)


def columns_in(schema: Schema) -> int:
    """How many columns have products."""
    return 2 + len(schema.features) + sum(column.missing for column in schema.features)


def fits_sums(votes: Votes, schema: Schema) -> bool:
    """Whether the products are few enough to be kept; decided by public facts."""
    return votes.blocks * columns_in(schema) ** 2 <= MOST_PRODUCTS


def vote_sums(votes: Votes, schema: Schema, coins: Ints, rows: Rows, steps: int) -> VoteSums:
    """Of a chunk.

    Args:
        coins: block of each record, shape (n_records,). steps: of the grid on [0, 1].
    """
    width = columns_in(schema)
    grams = np.zeros((votes.blocks, width, width), dtype=np.int64)
    most = max(1, _RUN_CELLS // width)
    assert most * steps * steps <= 1 << 53  # sums in float64 are exact
    order = np.argsort(coins, kind="stable")
    for first in range(0, rows.n, most):
        members = order[first : first + most]
        columns = _columns(schema, rows.subset(members), steps)
        blocks, starts = np.unique(coins[members], return_index=True)
        for block, start, end in zip(blocks, starts, [*starts[1:], len(members)], strict=True):
            part = columns[:, start:end]
            grams[block] += (part @ part.T).astype(np.int64)
    return VoteSums(grams)


def _columns(schema: Schema, rows: Rows, steps: int) -> Floats:
    """Whole numbers of at most `steps`, shape (columns, n_records)."""
    features = len(schema.features)
    held = np.ones((columns_in(schema), rows.n))
    mask = features + 1
    for part, table in columns_of(schema, rows):
        for column, row in zip(schema.features[part], table, strict=True):
            if column.missing:
                held[mask] = ~np.isnan(row)
                mask += 1
        on_grid(table, *bounds_of(schema, part), steps)
        held[part.start + 1 : part.stop + 1] = table
    held[-1] = np.trunc(target_numbers(rows) * steps)
    return held


def votes_of_sums(votes: Votes, sums: VoteSums, gaps: NDArray[np.bool_], steps: int) -> Floats:
    """How many blocks vote for each feature, shape (features,).

    Args:
        gaps: which features may be missing.
    """
    found = np.zeros(len(gaps))
    for gram in sums.grams:
        chosen = block_votes(votes, gram, gaps, steps)
        found[chosen] += 1.0
    return found


def block_votes(votes: Votes, gram: Ints, gaps: NDArray[np.bool_], steps: int) -> Places:
    """Features with the largest LASSO coefficients of one block; see `votes.block_features`."""
    n = int(gram[0, 0])
    if n < 2:
        return np.zeros(0, dtype=np.intp)
    inner, cross = _standardised_products(gram, gaps)
    return largest(lasso_of_products(inner / n, cross / (n * steps), votes.penalty), votes.most)


def _standardised_products(gram: Ints, gaps: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Products of features of mean 0 and variance 1 in the block, and theirs with the target.

    Missing values and constants are 0. First every feature is moved by the whole number next to
    its mean, exactly (modulo 2^64, where all results fit); what is left to take off is half a
    step at most, so little is lost to rounding.
    """
    features = slice(1, len(gaps) + 1)
    there = np.zeros(len(gaps), dtype=np.int64)  # the column that says so: ones
    there[gaps] = len(gaps) + 1 + np.arange(int(gaps.sum()))
    pairs = gram[np.ix_(there, there)]
    known, sums = gram[0, there], gram[0, features]
    size = np.maximum(known, 1)
    middle = np.rint(sums / size).astype(np.int64)
    beside = gram[there, features]  # sums of the second where the first is there, too
    moved = (gram[features, features] - middle[:, None] * beside - beside.T * middle
             + np.multiply.outer(middle, middle) * pairs)
    beside = beside - pairs * middle
    off = (sums - middle * known) / size
    products = moved - off[:, None] * beside - beside.T * off + np.outer(off, off) * pairs
    towards = gram[features, -1] - middle * gram[there, -1] - off * gram[there, -1]
    spread = np.sqrt(np.maximum(np.diagonal(products), 0.0) / size)
    scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > _LEAST)
    return products * scale[:, None] * scale, towards * scale
