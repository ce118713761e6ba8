"""Scores of whole features, inside the guard. Bounds: docs/proofs/feature-scores.md.

Records whose value of a feature is missing count for nothing in that feature's score. A
category counts as its position in the schema's list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.errors import DataError, InvalidValue, UnsupportedNode
from privledger.questions.blocks import strangers_numbers, target_of
from privledger.questions.order_keys import GAP, order_grid, target_steps
from privledger.questions.order_sketch import (
    MOST_SORTED,
    Ordered,
    Tallied,
    order_scores,
    tally_of,
    together_counts,
)
from privledger.questions.votes import (
    Votes,
    VoteSums,
    bounds_of,
    coins_of,
    columns_of,
    fits_sums,
    matrix_of_features,
    on_grid,
    target_numbers,
    vote_sums,
    votes_of,
    votes_of_sums,
)
from privledger.rounding import moderate, number
from privledger.tables.chunk import ONE, Rows
from privledger.tables.schema import Schema

# Scores of features that an author vouches for.


def _change(value: Iterable[Any]) -> tuple[float, ...]:
    return tuple(number("change", end) for end in value)


@frozen(eq=False)
class CustomScores:
    """Scores that an author vouches for. Recorded as asserted.

    Attributes:
        function: takes the features, shape (n_records, features), NaN where missing, and the
            target; returns one number per feature.
        sensitivity: the largest change as a record comes or goes; in a ledger that protects
            people, as everything of one person does.
        change: smallest and largest change as a record comes, in units of the sensitivity.
        why: why that holds; goes into the ledger.
    """

    function: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    sensitivity: float
    why: str
    change: tuple[float, ...] = field(default=(-1.0, 1.0), converter=_change)

    def __attrs_post_init__(self) -> None:
        moderate("sensitivity", self.sensitivity)
        if not isinstance(self.why, str) or not self.why.strip():
            raise InvalidValue("why", self.why, "a sentence that goes into the ledger")
        if not callable(self.function):
            raise InvalidValue("function", type(self.function).__name__, "something to call")
        if not (len(self.change) == 2 and -1 <= self.change[0] < self.change[1] <= 1):
            raise InvalidValue("change", self.change, "two rising numbers from -1 to 1")


Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_STEPS = 1 << 15  # grid of [-1, 1] for correlations and votes
_EXACT_ROWS = 1 << 22  # sums of products on that grid are exact in float64
assert _EXACT_ROWS * _STEPS * _STEPS <= 1 << 53
_MOST_ROWS = 1 << 32  # of fewer, sums fit in 64 bits, and scores are rounded by less than 2^-20
assert (_MOST_ROWS - 1) * _STEPS * _STEPS < 1 << 63


@define(eq=False, repr=False)
class SettledScores:
    """Scores that no sums lead to: of a whole table, which is not in chunks.

    Attributes:
        found: shape (features,).
    """

    found: Floats


@define(eq=False, repr=False)
class Products:
    """Sums of products with the target, on the grid.

    Attributes:
        sums: shape (features,).
        n: how many records.
        found: scores, once they are known.
    """

    sums: Ints
    n: int
    found: Floats | None = field(default=None, init=False, repr=False)


Sketch = Ordered | Tallied | Products | VoteSums | SettledScores


@define(eq=False, repr=False)
class ReleasedScores:
    """What one question's draws share on one chunk.

    Attributes:
        asked: whose scores they are: a caller can put any name anywhere.
        coins: block of each record, for votes, shape (n,).
        sketch: once it is known.
    """

    asked: tuple[Any, ...]
    coins: Ints | None = None
    sketch: Sketch | None = None


def sketch_of(score: str, votes: Votes | None, custom: CustomScores | None, schema: Schema,
              key: object, known: ReleasedScores, rows: Rows) -> Sketch:
    """What a question keeps of a chunk."""
    if custom is not None:
        return SettledScores(_custom(custom, schema, rows))
    if votes is not None:
        if known.coins is None:
            known.coins = coins_of(votes, key, rows)
        return _voted(votes, schema, known.coins, rows)
    if score == "correlation":
        return Products(_product_sums(schema, rows), rows.n)
    return _ordered(schema, rows)


def merged_of(a: Sketch, b: Sketch, schema: Schema) -> Sketch:
    """Both chunks' records: sums are added.

    Raises:
        UnsupportedNode: of scores that no sums lead to.
    """
    if isinstance(a, Products) and isinstance(b, Products):
        assert a.n + b.n < _MOST_ROWS
        return Products(a.sums + b.sums, a.n + b.n)
    if isinstance(a, VoteSums) and isinstance(b, VoteSums):
        grams = a.grams + b.grams
        assert int(grams[:, 0, 0].sum()) < _MOST_ROWS
        return VoteSums(grams)
    if isinstance(a, Ordered | Tallied) and isinstance(b, Ordered | Tallied):
        return together_counts(a, b, order_grid(schema))
    raise UnsupportedNode("these scores read a whole table at once: they cannot be computed from "
                          "chunks")


def scores_of(score: str, votes: Votes | None, schema: Schema, merged: Sketch,
              weights: tuple[int, ...] = ()) -> Floats:
    """One score per feature of `schema`, shape (features,); found once for all draws.

    Args:
        weights: of classes, for `agreement`; empty where each record counts one.
    """
    if merged.found is None:
        if isinstance(merged, Products):
            merged.found = np.abs(merged.sums) / float(_STEPS * _STEPS)
        elif isinstance(merged, VoteSums):
            assert votes is not None
            merged.found = votes_of_sums(votes, merged, _gaps(schema), _STEPS)
        else:
            merged.found = order_scores(score, merged, order_grid(schema), _gaps(schema),
                                        weights)
    return merged.found


def _gaps(schema: Schema) -> NDArray[np.bool_]:
    """Which features may have missing values."""
    return np.array([column.missing for column in schema.features], dtype=np.bool_)


def _product_sums(schema: Schema, rows: Rows) -> NDArray[np.int64]:
    """Sums of x y on the grid, cut towards zero, one per feature of `schema`."""
    y = np.trunc(target_numbers(rows) * _STEPS)
    if rows.mass is not None:
        y = np.trunc(y * rows.mass / ONE)
    sums = np.zeros(len(schema.features), dtype=np.int64)
    for part, table in columns_of(schema, rows):
        on_grid(table, *bounds_of(schema, part), _STEPS)
        for first in range(0, rows.n, _EXACT_ROWS):
            some = slice(first, first + _EXACT_ROWS)
            sums[part] += (table[:, some] @ y[some]).astype(np.int64)
    return sums


def _ordered(schema: Schema, rows: Rows) -> Ordered | Tallied:
    """Keys of every feature with the target, in order or counted."""
    grid, gaps = order_grid(schema), _gaps(schema)
    targets = target_steps(target_of(rows), schema, grid)
    middle, half = bounds_of(schema)
    lower, scale = middle - half, grid.steps / (2 * half)
    one = 1 if rows.mass is None else ONE
    in_order = rows.n <= MOST_SORTED and (rows.mass is None or bool((rows.mass == ONE).all()))
    held = np.empty((len(gaps), rows.n if in_order else 0), dtype=np.uint32)
    tallies = []
    for part, table in columns_of(schema, rows):
        missing = [(place, np.isnan(table[place])) for place in np.flatnonzero(gaps[part])]
        table -= lower[part, None]
        table *= scale[part, None]
        keys = grid.keys(table, targets)
        for place, empty in missing:
            keys[place, empty] = GAP
        if in_order:
            keys.sort(axis=1)
            held[part] = keys
            continue
        for holed, row in zip(gaps[part], keys, strict=True):
            known = row != GAP if holed else slice(None)
            mass = 1 if rows.mass is None else rows.mass[known]
            tallies.append(tally_of(row[known], mass, grid))
    if in_order:
        return Ordered(held, one)
    total = rows.n if rows.mass is None else int(rows.mass.sum())
    return Tallied(tuple(tallies), total, one)


def _voted(votes: Votes, schema: Schema, coins: Ints, rows: Rows) -> VoteSums | SettledScores:
    """Sums that the blocks vote by; of wide tables the votes themselves."""
    if not fits_sums(votes, schema):
        return SettledScores(votes_of(votes, matrix_of_features(schema, rows), target_numbers(rows),
                                coins))
    return vote_sums(votes, schema, coins, rows, _STEPS)


def _custom(custom: CustomScores, schema: Schema, rows: Rows) -> Floats:
    """A stranger's scores."""
    table = np.concatenate([part.T for _, part in columns_of(schema, rows)], axis=1)
    target = target_of(rows).copy()
    scores = strangers_numbers("the custom scores", custom.function, table, target)
    if scores.shape != (len(schema.features),):
        raise DataError("custom scores must be one real number per feature")
    return np.nan_to_num(scores, nan=0.0, posinf=1e150, neginf=-1e150)
