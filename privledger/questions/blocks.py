"""What a query adds up: one block of coordinates per statistic, with the bound that is derived.

A block gives every record a contribution of norm at most `clip`; that bound, not a claim by
the learner, is the sensitivity the noise is scaled to.
"""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from itertools import combinations_with_replacement
from typing import Any, NoReturn

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import DataError, InvalidValue, SchemaError, UnsupportedNode, public_name
from privledger.mutex import Mutex
from privledger.questions.links import length
from privledger.rounding import MOST_COUNT, count, moderate, number
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts
from privledger.tables.schema import Column

# No warnings while a stranger's function sees rows: their texts could quote a value, and as
# errors they would tell which records warn.


_lock = Mutex()
_inside: list[Any] = []  # one for each that is inside
_saved: list[Any] = []  # of the first of them: it has the old filters


@contextmanager
def quiet() -> Iterator[None]:
    """Filters belong to the whole process, so the last one out puts the old ones back."""
    mark = warnings.catch_warnings()
    try:
        with _lock:
            _inside.append(mark)
            if not _saved:
                _saved.append(mark)
                mark.__enter__()
                warnings.simplefilter("ignore")
        yield
    finally:
        with _lock:
            if mark in _inside:
                _inside.remove(mark)
            if _saved and not _inside:
                _saved.pop().__exit__(None, None, None)


# Rows in runs that fit a processor's cache: nothing that is computed depends on where they end.


RUN = 2**15
"""Rows at a time: a quarter of a megabyte of numbers."""


def runs(n: int, size: int = RUN) -> Iterator[slice]:
    """Slices that cover 0, 1, ..., n - 1 in order."""
    for first in range(0, n, size):
        yield slice(first, min(n, first + size))


class Block:
    """One statistic of a query. What a kind does not say is: one number from 0 to 1 for every
    record, which may depend on the target, and whose bound is derived."""

    __slots__ = ()

    @property
    def clip(self) -> float:
        """Largest norm of one record's values (L2 under Gaussian noise, L1 under Laplace noise):
        the block's part of the sensitivity."""
        return 1.0

    @property
    def width(self) -> int:
        """Values per record and cell."""
        return 1

    @property
    def signed(self) -> bool:
        """Whether values may be negative."""
        return False

    @property
    def why(self) -> str:
        """Why the clip holds, where it rests on an unverified claim; else empty."""
        return ""

    @property
    def asserted(self) -> bool:
        """Whether the clip rests on an unverified claim."""
        return bool(self.why)

    @property
    def reads_target(self) -> bool:
        """Whether values may depend on the target."""
        return True

    def values(self, rows: Rows) -> NDArray[np.float64] | None:
        """Contributions before clipping, shape (n,) or (n, width); None means all ones.

        No caller holds the array: it is clipped in place.
        """
        raise NotImplementedError

    @property
    def finer(self) -> float:
        """What its grid is multiplied with, a power of two."""
        return 1.0

    def on_grid(self, rows: Rows, norm: int, grid: float) -> NDArray[np.float64] | None:
        """Contributions of norm at most `clip`, shape (n,) or (n, width), to be cut to the grid."""
        return clipped(self, rows, norm)

    def total(self, rows: Rows, norm: int, grid: float,
              mask: NDArray[np.bool_] | None) -> NDArray[np.int64] | None:
        """What these add up to over the records of `mask`, in grid steps, shape (1, width); None
        where that is no quicker than one by one."""
        return None

    def check(self, facts: TableFacts) -> None:
        """Refuse by name what the schema has no columns for."""
        raise NotImplementedError


@frozen(eq=False)
class Ones(Block):
    """Every record counts one. Nothing about it can be set."""

    reads_target = False

    def values(self, rows: Rows) -> None:
        """All ones."""

    def check(self, facts: TableFacts) -> None:
        """Every table has records."""


@frozen(eq=False)
class ColumnValue(Block):
    """A numeric column as (x - center) / scale, clipped to [-clip, clip]; missing counts zero.

    Attributes:
        name: a numeric feature, or "" for the target.
    """

    name: str
    center: float
    scale: float
    clip: float = 1.0
    signed = True

    def __attrs_post_init__(self) -> None:
        number("center", self.center)
        moderate("scale", self.scale)
        moderate("clip", self.clip)

    @property
    def reads_target(self) -> bool:
        """Only the target's own sum."""
        return not self.name

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the column is numeric."""
        facts.column(self.name, "numeric")

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """The scaled column, zero where missing."""
        values: NDArray[np.float64] = (numbers_of(self.name, rows) - self.center) / self.scale
        return np.nan_to_num(values, copy=False, nan=0.0)


@frozen(eq=False)
class TargetShares(Block):
    """(t, 1 - t) for a numeric target scaled to t in [0, 1] by its public bounds.

    The sums are those of the target and of its complement; they add up to the count. L1 norm 1.
    """

    width = 2

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the target is numeric."""
        facts.column("", "numeric")

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Shares of every record, shape (n, 2)."""
        column = rows.features.schema.target
        scaled = (target_of(rows) - column.lower) / (column.upper - column.lower)
        scaled = np.clip(np.nan_to_num(scaled, nan=0.0), 0.0, 1.0)
        return np.stack([scaled, 1.0 - scaled]).T


MOST_DEGREE = 8


@frozen(eq=False)
class ColumnMoments(Block):
    """C(d, k) u^k (1 - u)^(d - k) for k = d, ..., 0, of a numeric column scaled to u in [0, 1].

    The entries are not negative and add up to one: L1 norm 1, L2 norm at most 1. Their sums say
    how many values are known and what all moments up to d are, in one release (docs/proofs/
    summaries.md). A missing value counts in one entry more, the last, where `missing` says that
    the schema allows any; else there are none.

    Attributes:
        name: a numeric feature, or "" for the target.
        lower, upper: public bounds; values beyond them count as the nearer one.
        degree: d, from 1.
        missing: whether there is an entry for missing values.
    """

    name: str
    lower: float
    upper: float
    degree: int = 2
    missing: bool = False

    def __attrs_post_init__(self) -> None:
        if not number("lower", self.lower) < number("upper", self.upper):
            raise InvalidValue("bounds", (self.lower, self.upper), "lower below upper")
        moderate("range", self.upper - self.lower)
        count("degree", self.degree, most=MOST_DEGREE)
        if not isinstance(self.missing, bool):
            raise InvalidValue("missing", type(self.missing).__name__, "True or False")

    @property
    def width(self) -> int:
        """Entries per record."""
        return self.degree + 1 + self.missing

    @property
    def reads_target(self) -> bool:
        """Only those of the target."""
        return not self.name

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the column is numeric, and says whether cells may be missing."""
        column = facts.column(self.name, "numeric")
        if self.name and column.missing != self.missing:
            raise InvalidValue("missing", self.missing, f"as the schema says of {column.name!r}")

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """The entries of every record, shape (n, width)."""
        column, d = numbers_of(self.name, rows), self.degree
        entries = np.empty((self.width, len(column)))
        for at in runs(len(column)):  # a run stays in the processor's cache
            u = (column[at] - self.lower) / (self.upper - self.lower)
            missing = np.isnan(u)
            some = bool(missing.any())
            u.clip(0.0, 1.0, out=u)
            rest = 1.0 - u
            for place, k in enumerate(range(d, -1, -1)):
                powers = [one if many == 1 else one**many
                          for one, many in ((u, k), (rest, d - k)) if many]
                entry = np.multiply(powers[0], math.comb(d, k), out=entries[place, at])
                if len(powers) > 1:
                    entry *= powers[1]
                if some:
                    entry[missing] = 0.0
            if self.missing:
                entries[-1, at] = missing
        return entries.T


@frozen(eq=False)
class ClassIs(Block):
    """One for a record whose class is at `position` of the schema's list, zero for others."""

    position: int

    def __attrs_post_init__(self) -> None:
        count("ClassIs position", self.position, least=0, most=MOST_COUNT)

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the target has that many classes."""
        target = facts.column("", "categorical")
        if not self.position < len(target.categories):
            raise SchemaError(f"the target column {target.name!r} has fewer classes")

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """One or zero per record."""
        found: NDArray[np.float64] = (target_of(rows) == self.position).astype(np.float64)
        return found


@frozen(eq=False)
class CustomValue(Block):
    """A function of single rows that an author vouches for. Recorded as asserted.

    Attributes:
        function: takes a dict of column arrays (features and target by name, the
            target also under "target" if no feature is called that) and
            returns one number per row, shape (n_records,), or `width` of them, shape
            (n_records, width). It must treat every row alone.
        clip: of a row's number, or of the norm of its vector.
        why: why that holds; goes into the ledger.
        width: numbers per row.
    """

    function: Callable[[dict[str, NDArray[Any]]], NDArray[Any]]
    clip: float
    why: str
    width: int = 1
    signed = True

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        count("width", self.width, most=MOST_ENTRIES)
        if not isinstance(self.why, str) or not self.why.strip():
            raise InvalidValue("why", self.why, "a sentence that goes into the ledger")

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the function is an unverified claim, whatever the table."""

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """What the function says of every record, on copies of the columns."""
        columns = rows.features
        table = {c.name: a for c, a in zip(columns.schema.features, columns.arrays, strict=True)}
        if rows.target is not None:
            table[columns.schema.target.name] = rows.target
            table.setdefault("target", rows.target)
        table = {name: _read_only(column) for name, column in table.items()}
        result = strangers_numbers("the custom query", self.function, dict(table))
        if result.shape != ((rows.n,) if self.width == 1 else (rows.n, self.width)):
            raise DataError(f"the custom query must return {self.width} real numbers per row"
                            if self.width > 1 else
                            "the custom query must return one real number per row")
        return np.nan_to_num(result, nan=0.0, posinf=self.clip, neginf=-self.clip)


def strangers_numbers(what: str, function: Callable[..., object],
                      *given: object) -> NDArray[np.float64]:
    """What a stranger's function says of rows, as floats.

    Raises:
        DataError: it raised. A stranger's exception may quote a value, in its text or in the name
            of its type.
    """
    try:
        with quiet():
            return real_numbers(function(*given))
    except Exception as error:
        raised = public_name(type(error))
    raise DataError(f"{what} raised {raised}")  # afresh: the other one would stay in its context


def real_numbers(result: object) -> NDArray[np.float64]:
    """What a stranger's function returned, as floats.

    Raises:
        TypeError: complex numbers, whose other half would be lost; masked ones, whose mask would
            be; texts or dates.
    """
    array = np.asarray(result)
    if array.dtype.kind not in "biufO" or isinstance(result, np.ma.MaskedArray):
        raise TypeError
    if array.dtype == object and not all(isinstance(one, numbers.Real | Decimal | np.bool_)
                                         for one in array.ravel()):
        raise TypeError
    return array.astype(np.float64)


def refuse_code() -> NoReturn:
    """Raise `UnsupportedNode`: a learner's own function would run where the rows are."""
    raise UnsupportedNode("a custom query would run the learner's own function on the rows, so an "
                          "isolated learner cannot ask one. Nothing was read")


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """A copy: a view could be made writable again, and the next release would read what it says."""
    seen = column.copy()
    seen.setflags(write=False)
    return seen


def target_of(rows: Rows) -> NDArray[Any]:
    """The target inside the guard."""
    if rows.target is None:
        raise DataError("the data were protected without a target: give it to protect as y, or say "
                        "target= with a frame that has its column")
    return rows.target


def numbers_of(name: str, rows: Rows) -> NDArray[Any]:
    """Inside the guard: the column `name` as it is encoded; "" is the target."""
    if not name:
        return target_of(rows)
    return rows.features.arrays[rows.features.schema.feature_index(name)]


def clipped(block: Block, rows: Rows, norm: int) -> NDArray[np.float64] | None:
    """Contributions of norm at most `block.clip`; `norm` is 1 or 2.

    Returns:
        Shape (n,) or (n, width); None means that every record contributes one.
    """
    values = block.values(rows)
    if values is None:
        return None
    if values.ndim == 1:
        low = -block.clip if block.signed else 0.0
        for at in runs(len(values)):
            here = values[at].clip(low, block.clip, out=values[at])
            if (least := here.min()) != least:
                # It would turn into a huge whole number and shout which record it came from.
                here[np.isnan(here)] = 0.0
        return values
    for at in runs(len(values)):
        _shorten(list(values[at].T), block, norm)
    return values


def _shorten(columns: list[NDArray[np.float64]], block: Block, norm: int) -> None:
    """Vectors to norm at most the clip, in place and column by column: no last bit may follow
    from where a record stands among others."""
    if not block.signed:
        for column in columns:
            np.maximum(column, 0.0, out=column)
    # Divided first, so that squares of small numbers do not vanish.
    size = length(columns, norm, block.clip)
    if not np.isfinite(size).all():
        for column in columns:
            np.nan_to_num(column, copy=False, nan=0.0, posinf=1e150, neginf=-1e150)
        size = length(columns, norm, unit=block.clip)
    np.maximum(size, 1.0, out=size)
    for column in columns:
        column /= size


# A whole row as one vector, or the products of its entries, clipped as one: means, covariances,
# and what a linear regression needs. Nothing about it is asserted.


MOST_ENTRIES = 1 << 11
"""Numbers that one record contributes, at most: the clip is right to 2^-40 up to there."""
KINDS: dict[str, Callable[[int], int]] = {
    "values": lambda many: many, "squares": lambda many: 1 + 2 * many,
    "products": lambda many: (many + 1) * (many + 2) // 2}
"""Numbers of a row of so many columns."""


def column_names(value: object) -> tuple[str, ...]:
    """Distinct names of columns, or a refusal."""
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else ()
    if not names or len(set(names)) < len(names) or not all(type(one) is str for one in names):
        raise InvalidValue("names", type(value).__name__, "a list of distinct columns")
    return names


@frozen(eq=False)
class RowValues(Block):
    """Numeric columns of a row, each scaled to [-1, 1] by its public bounds; missing counts zero.

    With `kind` "products" the vector is that of all products of two of (1, columns), each pair
    once: 1, the columns, then their squares and products, in rows of the upper triangle. Its sum
    is all that a mean, a covariance or a least-squares fit takes from the table. With "squares" it
    is 1, the columns and their squares.

    Attributes:
        names: numeric features, or "" for the target, distinct.
        clip: largest norm of one record's vector (L2 under Gaussian noise, L1 under Laplace
            noise); a longer one is shortened as a whole. `longest` of it never bites in L2.
        kind: `values`, `squares` or `products`.
    """

    names: tuple[str, ...] = field(converter=column_names)
    clip: float
    kind: str = "values"
    signed = True

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        if self.kind not in KINDS:
            raise InvalidValue("kind", self.kind, f"one of {', '.join(KINDS)}")
        if self.width > MOST_ENTRIES:
            raise InvalidValue("names", len(self.names), f"at most {MOST_ENTRIES} numbers a row")

    @property
    def width(self) -> int:
        """Numbers per record."""
        return KINDS[self.kind](len(self.names))

    @property
    def reads_target(self) -> bool:
        """Whether the target is among the columns."""
        return "" in self.names

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the columns are numeric."""
        for name in self.names:
            facts.column(name, "numeric")

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Every record's vector, shape (n, width), or (n,) for one column."""
        columns = [scaled_column(name, rows) for name in self.names]
        if self.kind == "squares":
            columns = [np.ones(rows.n), *columns, *map(np.square, columns)]
        if self.kind == "products":
            columns.insert(0, np.ones(rows.n))
            columns = [a * b for a, b in combinations_with_replacement(columns, 2)]
        if len(columns) == 1:
            return columns[0]
        return np.stack(columns).T


def longest(names: int, kind: str = "values") -> float:
    """No vector of so many columns is longer in L2: every entry lies in [-1, 1]."""
    return math.sqrt(KINDS[kind](names))


def scaled_column(name: str, rows: Rows) -> NDArray[np.float64]:
    """Inside the guard: a numeric column ("" is the target) on [-1, 1] by its public bounds."""
    schema = rows.features.schema
    middle, half = middle_of(schema.features[schema.feature_index(name)] if name
                             else schema.target)
    found: NDArray[np.float64] = (numbers_of(name, rows) - middle) / half
    np.clip(found, -1.0, 1.0, out=found)
    return np.nan_to_num(found, copy=False, nan=0.0)


def middle_of(column: Column) -> tuple[float, float]:
    """Middle and half-range of a numeric column, by its public bounds."""
    return column.lower / 2 + column.upper / 2, column.upper / 2 - column.lower / 2
