"""Votes of blocks from sums: each block's products of its columns, in whole numbers.

A block's LASSO needs no more of its records than the products of every two of its columns. They
add up over chunks exactly, so a block votes the same however its records were divided.
"""

from __future__ import annotations

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.facts.schema import Schema
from privledger.questions.feature_columns import (
    bounds_of,
    columns_of,
    on_grid,
    target_numbers,
)
from privledger.questions.votes import Places, Votes, largest, lasso_of_products
from privledger.tables.chunk import Rows

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_PRODUCTS = 1 << 24
"""Sums of one sketch: 128 MiB."""
_CELLS = 1 << 22  # of a run of records
_LEAST = 1e-7  # steps: one record among 2^40 spreads further


@define(eq=False)
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
    most = max(1, _CELLS // width)
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
    inner, cross = _standardised(gram, gaps)
    return largest(lasso_of_products(inner / n, cross / (n * steps), votes.penalty), votes.most)


def _standardised(gram: Ints, gaps: NDArray[np.bool_]) -> tuple[Floats, Floats]:
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



