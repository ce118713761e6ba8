"""A row as one public vector: what a linear model multiplies, and sums of it times a residual.

Entries are whole steps, and so are weights: a product of both is exact in float64 in any order, so
scores are the same on every machine and in every chunking. Proof: docs/proofs/linear.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, SchemaError
from privledger.questions.blocks import middle_of, runs
from privledger.questions.links import PER_UNIT
from privledger.rounding import count, finite_array, moderate
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns, TableFacts
from privledger.tables.schema import Column

STEP: Final = 2.0**-8
"""What an entry of an encoded row is a whole multiple of."""
MOST_REACH: Final = 64.0
MOST_COLUMNS: Final = 1 << 12
MOST_WEIGHT: Final = 2.0**20
MOST_WAVE: Final = 2.0**10
"""Turns of a wave per unit of a number."""
"""Norm of the weights of one score. Steps of a row (2^14), of weights (2^36): below 2^53."""
BESIDE: Final = ("", "hinge", "square")
LEAST_STEEP: Final = 1000.0
MOST_STEEP: Final = 2.0**40
TOGETHER: Final = 1 << 10
"""Joint categories that are looked up at once, at most; those of one feature may be more."""
SMALL: Final = 1 << 22
"""So many numbers are kept as float64, for products; more as int16. Both hold the same."""


def _names(value: object) -> tuple[str, ...]:
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    if not names or len(set(names)) < len(names) or not all(
            type(one) is str and one for one in names):
        raise InvalidValue("names", type(value).__name__, "a list of distinct features")
    return names


def _counts(value: object) -> tuple[int, ...]:
    given = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    return tuple(count("categories", one, least=0, most=MOST_COLUMNS) for one in given)


def _wide(value: object) -> tuple[bool, ...]:
    given = tuple(value) if isinstance(value, Iterable) else ()
    if not all(type(one) is bool for one in given):
        raise InvalidValue("wide", type(value).__name__, "True or False for each feature")
    return given


def _array(value: object) -> NDArray[np.float64]:
    return finite_array("centers and scales", value)


def _waves(value: object) -> NDArray[np.float64]:
    if not isinstance(value, np.ndarray):
        rows = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
        value = [finite_array("waves", row).tolist() for row in rows]
    found = np.atleast_1d(finite_array("waves", value))
    return found if len(found) else found.reshape(0)


@frozen(eq=False)
class Encoded:
    """Vectors of some rows in whole steps of 2^-8.

    Attributes:
        numbers: columns that are not one of a category, shape (n, columns), in Fortran order.
        hot: what the column of a row's category holds, the same for every feature, shape (n,).
        codes: joint category of each group of features, shape (n,) each; the last for none.
        many: how many categories a row has, shape (n,).
    """

    numbers: NDArray[np.float64] | NDArray[np.int16] = field(repr=False)
    hot: NDArray[np.float64] = field(repr=False)
    codes: tuple[NDArray[np.intp], ...] = field(repr=False)
    many: NDArray[np.float64] = field(repr=False)

    def lengths(self, norm: int) -> NDArray[np.float64]:
        """Norm 1 or 2 of every vector: of whole numbers whose sums are exact, rounded once."""
        measure = np.abs if norm == 1 else np.square
        total = self.many * measure(self.hot)
        for column in self.numbers.T:
            total += measure(column, dtype=np.float64)
        found: NDArray[np.float64] = (total if norm == 1 else np.sqrt(total)) * STEP
        return found


@frozen(eq=False)
class RowEncoding:
    """A public map from a row to a vector of L2 norm at most `reach`, in whole steps of 2^-8.

    A number is scaled to [-1, 1] by its public bounds, then (value - center) / scale; a missing one
    gives zeros. `beside` adds a column per number: `hinge` min(|u|, 3) - .8, or `square` u^2. Each
    category is a column that holds `weight`, a missing or unknown one zeros. Then come the waves,
    and a constant of one is last. A vector longer than `reach` is shortened as a whole.

    Attributes:
        names: features. categories: how many each has; 0 for a number.
        centers, scales: of every feature, public or released, shape (features,); 0 and 1 for
            categories.
        wide: whether a number is first brought to a logarithmic scale (`log_scale`).
        waves: random Fourier features by a public map, shape (waves, numbers + 1): turns per unit
            of each number, cut to [-3, 3], and the turns at zeros. Empty for none.
        steep: most steps of a one-sided range that its logarithmic scale tells apart.
    """

    names: tuple[str, ...] = field(converter=_names)
    categories: tuple[int, ...] = field(converter=_counts)
    centers: NDArray[np.float64] = field(converter=_array, repr=False)
    scales: NDArray[np.float64] = field(converter=_array, repr=False)
    wide: tuple[bool, ...] = field(converter=_wide)
    beside: str = ""
    weight: float = 1.0
    reach: float = MOST_REACH
    waves: NDArray[np.float64] = field(default=(), converter=_waves, repr=False)
    steep: float = LEAST_STEEP

    def __attrs_post_init__(self) -> None:
        many = len(self.names)
        if not len(self.categories) == len(self.wide) == many or not (
                self.centers.shape == self.scales.shape == (many,)):
            raise InvalidValue("names", many, "as many as categories, centers, scales and wide")
        if self.beside not in BESIDE:
            raise InvalidValue("beside", self.beside, f"one of {BESIDE}")
        for scale in self.scales:
            moderate("scale", float(scale))
        moderate("weight", self.weight)
        if not LEAST_STEEP <= moderate("steep", self.steep) <= MOST_STEEP:
            raise InvalidValue("steep", self.steep, "1000 to 2**40")
        if not moderate("reach", self.reach) <= MOST_REACH:
            raise InvalidValue("reach", self.reach, f"at most {MOST_REACH:g}")
        numbers = sum(not size for size in self.categories)
        if len(self.waves) and (self.waves.shape != (len(self.waves), numbers + 1)
                                or not np.abs(self.waves).max() <= MOST_WAVE):
            raise InvalidValue("waves", self.waves.shape, f"of shape (waves, {numbers + 1}), none "
                               f"beyond {MOST_WAVE:g}")
        if self.count > MOST_COLUMNS:
            raise InvalidValue("names", many, f"at most {MOST_COLUMNS} columns in all")

    @property
    def count(self) -> int:
        """Columns of the vector."""
        each = 2 if self.beside else 1
        return 1 + len(self.waves) + sum(size or each for size in self.categories)

    def check(self, facts: TableFacts) -> None:
        """Refuse by name what the schema has no columns for."""
        for name, size in zip(self.names, self.categories, strict=True):
            column = facts.column(name, "categorical" if size else "numeric")
            if size and len(column.categories) != size:
                raise SchemaError(f"column {name!r} does not have {size} categories")

    def vectors(self, columns: Columns) -> NDArray[np.float64]:
        """Every row's vector, shape (n, count): of rows that the caller owns, or in the guard."""
        return self.dense(self._encoded(columns))

    def dense(self, held: Encoded) -> NDArray[np.float64]:
        """The same of rows that are encoded."""
        found = np.zeros((self.count, len(held.numbers)))  # column by column: each is one pass
        numbers = iter(held.numbers.T)
        for place, size in self._places():
            if not size:
                np.multiply(next(numbers), STEP, out=found[place], dtype=np.float64)
        for group, codes in zip(self._groups(), held.codes, strict=True):
            each = np.unravel_index(codes, [size + 1 for _, size in group])
            for (place, size), own in zip(group, each, strict=True):
                for code in range(size):
                    np.multiply(held.hot, STEP, out=found[place + code], where=own == code)
        return found.T

    def _places(self) -> Iterator[tuple[int, int]]:
        """Column of each number, of what is beside it, of each wave and of the constant, with 0;
        and the first one of each feature of categories, with how many it has."""
        place = 0
        for size in self.categories:
            for _ in range(1 if size or not self.beside else 2):
                yield place, size
                place += size or 1
        for last in range(place, self.count):
            yield last, 0

    def _groups(self) -> list[list[tuple[int, int]]]:
        """Features of categories that are looked up together: first column and size of each."""
        found: list[list[tuple[int, int]]] = []
        many = TOGETHER + 1
        for place, size in self._places():
            if size:
                many *= size + 1
                if many > TOGETHER:
                    found.append([])
                    many = size + 1
                found[-1].append((place, size))
        return found

    def _numbers(self, columns: Columns) -> tuple[list[NDArray[np.float64]], NDArray[np.float64]]:
        """Columns that are not one of a category, before shortening; and all squares added up."""
        found: list[NDArray[np.float64]] = []
        turning = []
        size_of = np.zeros(columns.n_rows)
        for name, size, center, scale, wide in zip(
                self.names, self.categories, self.centers, self.scales, self.wide, strict=True):
            at = columns.schema.feature_index(name)
            held, column = columns.arrays[at], columns.schema.features[at]
            if size:
                size_of += np.where((held >= 0) & (held < size), np.square(self.weight), 0.0)
                continue
            missing = np.isnan(held)
            value = log_scale(held, column, self.steep) if wide else scaled(held, column)
            value = (value - center) / scale
            found.append(np.where(missing, 0.0, value))
            if len(self.waves):
                turning.append(np.rint(np.clip(found[-1], -3.0, 3.0) / STEP) * STEP)
            size_of += np.square(found[-1])
            if self.beside:
                other = (np.minimum(np.abs(value), 3.0) - 0.8 if self.beside == "hinge"
                         else np.square(value))
                found.append(np.where(missing, 0.0, other))
                size_of += np.square(found[-1])
        for turns in (*self.waves, None):
            found.append(np.ones(columns.n_rows) if turns is None
                         else np.broadcast_to(wave_of(turns, turning), columns.n_rows))
            size_of += np.square(found[-1])
        return found, size_of

    def _encoded(self, columns: Columns) -> Encoded:
        # Column by column: no last bit follows from where a row stands among others.
        plain, size_of = self._numbers(columns)
        shorter = 1.0 / (np.maximum(np.sqrt(size_of) / self.reach, 1.0) * STEP)
        small = len(plain) * columns.n_rows <= SMALL
        numbers = np.empty((columns.n_rows, len(plain)), np.float64 if small else np.int16, "F")
        for place, one in enumerate(plain):
            numbers[:, place] = np.trunc(one * shorter)
        hot = np.trunc(self.weight * shorter)
        arrays = [columns.arrays[columns.schema.feature_index(name)] for name, size in zip(
            self.names, self.categories, strict=True) if size]
        own, codes, many = iter(arrays), [], np.zeros(columns.n_rows)
        for group in self._groups():
            joint = np.zeros(columns.n_rows, np.intp)
            for _, size in group:
                held = next(own)
                there = (held >= 0) & (held < size)
                many += there
                joint *= size + 1
                joint += np.where(there, held, size)
            codes.append(joint)
        return Encoded(numbers, hot, tuple(codes), many)

    def of(self, rows: Rows) -> Encoded:
        """Inside the guard: the vectors of these rows, computed once."""
        known: Encoded | None = rows.cache.get(self)
        if known is None:
            known = rows.cache[self] = self._encoded(rows.features)
        return known

    def sums(self, rows: Rows, factors: NDArray[np.float64]) -> NDArray[np.int64]:
        """Inside the guard: vectors in steps times whole factors, added up over records.

        Args:
            factors: shape (k, n); no vector times its factor is longer than 2^26.

        Returns:
            Shape (k, count), exact: every partial sum over a run is below 2^53, in any order.
        """
        held, found = self.of(rows), np.zeros((len(factors), self.count), dtype=np.int64)
        plain = [place for place, size in self._places() if not size]
        for at in runs(rows.n):
            here = np.ascontiguousarray(factors[:, at])
            found[:, plain] += (here @ held.numbers[at].astype(np.float64, copy=False)
                                ).astype(np.int64)
            here *= held.hot[at]
            for group, codes in zip(self._groups(), held.codes, strict=True):
                shape = [size + 1 for _, size in group]
                for one, into in zip(here, found, strict=True):
                    table = np.bincount(codes[at], one, math.prod(shape)).reshape(shape)
                    for axis, (place, size) in enumerate(group):
                        rest = tuple(other for other in range(len(shape)) if other != axis)
                        into[place:place + size] += table.sum(axis=rest)[:size].astype(np.int64)
        return found

    def weights(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights in whole steps of 2^-16, shape (count,) or (count, width).

        Raises:
            InvalidValue: they are too long to be multiplied exactly.
        """
        size = math.sqrt(float(np.square(values).sum(axis=0).max()))
        if not size <= MOST_WEIGHT:
            raise InvalidValue("weights", f"norm {size:.3g}", f"of norm at most {MOST_WEIGHT:g}")
        return np.rint(values * PER_UNIT)

    def farthest(self, values: NDArray[np.float64]) -> int:
        """No score is moved further, in steps of 2^-16."""
        size = float(np.sqrt(np.square(self.weights(values)).sum(axis=0).max()))
        return math.ceil(size * self.reach * (1 + 1e-9)) + 1

    def moves(self, rows: Rows, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Inside the guard: how far every record's score is moved, in whole steps of 2^-16."""
        held, steps = self.of(rows), self.weights(values)
        plain = steps[[place for place, size in self._places() if not size]]
        tables = []
        for group in self._groups():
            table = np.zeros((1, *values.shape[1:]))
            for place, size in group:
                own = np.zeros((size + 1, *values.shape[1:]))  # nothing for none of them
                own[:-1] = steps[place:place + size]
                table = table[:, None] + own
                table = table.reshape(-1, *values.shape[1:])
            tables.append(table)
        found = np.empty((rows.n, *values.shape[1:]))
        for at in runs(rows.n):
            here = np.zeros_like(found[at])
            for table, codes in zip(tables, held.codes, strict=True):
                here += table.take(codes[at], axis=0)
            here *= held.hot[at].reshape(-1, *[1] * (found.ndim - 1))
            here += held.numbers[at].astype(np.float64, copy=False) @ plain
            np.rint(np.multiply(here, STEP, out=here), out=found[at])
        return found


def wave_of(turns: NDArray[np.float64],
            numbers: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """A cosine of two parabolas at so many turns, shape (n,), within .06 of the true one.

    Whole steps of 2^-24 are added up to less than 2^24, and squares of at most a quarter have 45
    bits: all exact, so every machine says the same.
    """
    steps = np.rint(turns / 2.0**-16) * 2.0**-16
    total = np.full(len(numbers[0]) if numbers else 1, steps[-1])
    for turn, number in zip(steps, numbers, strict=False):
        total += turn * number
    total = np.abs(total - np.rint(total))
    near = total <= 0.25
    other = np.where(near, total, 0.5 - total)
    found: NDArray[np.float64] = (1.0 - 16.0 * np.square(other)) * np.where(near, 1.0, -1.0)
    return found


def scaled(held: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    """A numeric column on [-1, 1] by its public bounds."""
    middle, half = middle_of(column)
    found: NDArray[np.float64] = np.clip((held - middle) / half, -1.0, 1.0)
    return found


def log_scale(held: NDArray[np.float64], column: Column,
              steep: float = LEAST_STEEP) -> NDArray[np.float64]:
    """The same after about log(1 + 1000 t), where t is the value on [0, 1]: straight between powers
    of two, so that every machine says the same. A range around zero is read by size and sign; a
    longer one-sided one by log(1 + value - lower), if `steep` allows."""
    around = column.lower < 0 < column.upper
    far = max(-column.lower, column.upper) if around else column.upper - column.lower
    value = np.clip(held, column.lower, column.upper) - (0.0 if around else column.lower)
    steps = LEAST_STEEP if around else min(max(far, LEAST_STEEP), steep)
    mantissa, power = np.frexp(1.0 + steps * np.abs(value / far))
    most, octaves = math.frexp(1.0 + steps)
    found: NDArray[np.float64] = (power - 2 + 2 * mantissa) / (octaves - 2 + 2 * most)
    return np.copysign(found, value) if around else found * 2.0 - 1.0
