"""What a query adds up: one block of coordinates per statistic, with the bound that is derived.

A block gives every record a contribution of norm at most `clip`; that bound, not a claim by
the learner, is the sensitivity the noise is scaled to.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NoReturn, Protocol, Self

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import DataError, InvalidValue, SchemaError, UnsupportedNode, public_name
from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json, text, whole
from privledger.questions.links import length
from privledger.questions.quiet import quiet
from privledger.questions.stretches import runs
from privledger.rounding import MOST_COUNT, count, moderate, number
from privledger.tables.chunk import Rows


class Block(Protocol):
    """One statistic of a query.

    Attributes:
        clip: bound on the norm of a record's contribution (L2 under Gaussian noise, L1 under
            Laplace noise).
        width: coordinates per cell.
        signed: whether contributions may be negative.
        asserted: whether somebody merely vouches for something here.
        reads_target: whether contributions may depend on the target.
    """

    @property
    def clip(self) -> float:
        """Largest norm of one record's values: the block's part of the sensitivity."""
    @property
    def width(self) -> int:
        """Values per record."""
    @property
    def signed(self) -> bool:
        """Whether values may be negative."""
    @property
    def asserted(self) -> bool:
        """Whether the clip rests on unverified claims."""
    @property
    def reads_target(self) -> bool:
        """Whether values may depend on the target."""

    def values(self, rows: Rows) -> NDArray[np.float64] | None:
        """Contributions before clipping, shape (n,) or (n, width); None means all ones.

        Nobody else holds the array: it is clipped in place.
        """

    def check(self, facts: TableFacts) -> None:
        """Refuse by name what the schema has no columns for."""

    def own(self, to: Copier) -> Self:
        """The guard's copy."""

    def to_wire(self, to: Describer) -> Json:
        """Its fields as plain values."""

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> Self:
        """The inverse of `to_wire`."""


@frozen(eq=False)
class Ones:
    """Every record counts one. Nothing about it can be set."""

    clip: float = field(default=1.0, init=False)
    width: int = field(default=1, init=False)
    signed: bool = field(default=False, init=False)
    asserted: bool = field(default=False, init=False)
    reads_target: bool = field(default=False, init=False)

    def values(self, rows: Rows) -> None:
        """All ones."""

    def check(self, facts: TableFacts) -> None:
        """Every table has records."""

    def own(self, to: Copier) -> Ones:
        return Ones()

    def to_wire(self, to: Describer) -> Json:
        """Nothing to say."""
        return {}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> Ones:
        return cls()


@frozen(eq=False)
class ColumnValue:
    """A numeric column as (x - center) / scale, clipped to [-clip, clip]; missing counts zero.

    Attributes:
        name: a numeric feature, or "" for the target.
    """

    name: str
    center: float
    scale: float
    clip: float = 1.0
    width: int = field(default=1, init=False)
    signed: bool = field(default=True, init=False)
    asserted: bool = field(default=False, init=False)

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

    def own(self, to: Copier) -> ColumnValue:
        return ColumnValue(self.name, self.center, self.scale, self.clip)

    def to_wire(self, to: Describer) -> Json:
        return {"name": self.name, "center": float(self.center), "scale": float(self.scale),
                "clip": float(self.clip)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> ColumnValue:
        return cls(text(wire, "name"), *(number(key, wire.get(key))
                                         for key in ("center", "scale", "clip")))

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """The scaled column, zero where missing."""
        if self.name:
            schema = rows.features.schema
            column = rows.features.arrays[schema.feature_index(self.name)]
        else:
            column = target_of(rows)
        values: NDArray[np.float64] = (column - self.center) / self.scale
        return np.nan_to_num(values, copy=False, nan=0.0)


@frozen(eq=False)
class TargetShares:
    """(t, 1 - t) for a numeric target scaled to t in [0, 1] by its public bounds.

    The sums are those of the target and of its complement; they add up to the count. L1 norm 1.
    """

    clip: float = field(default=1.0, init=False)
    width: int = field(default=2, init=False)
    signed: bool = field(default=False, init=False)
    asserted: bool = field(default=False, init=False)
    reads_target: bool = field(default=True, init=False)

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the target is numeric."""
        facts.column("", "numeric")

    def own(self, to: Copier) -> TargetShares:
        return TargetShares()

    def to_wire(self, to: Describer) -> Json:
        """Nothing to say."""
        return {}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> TargetShares:
        return cls()

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Shares of every record, shape (n, 2)."""
        column = rows.features.schema.target
        scaled = (target_of(rows) - column.lower) / (column.upper - column.lower)
        scaled = np.clip(np.nan_to_num(scaled, nan=0.0), 0.0, 1.0)
        return np.stack([scaled, 1.0 - scaled]).T


@frozen(eq=False)
class ClassIs:
    """One for a record whose class is at `position` of the schema's list, zero for others."""

    position: int
    clip: float = field(default=1.0, init=False)
    width: int = field(default=1, init=False)
    signed: bool = field(default=False, init=False)
    asserted: bool = field(default=False, init=False)
    reads_target: bool = field(default=True, init=False)

    def __attrs_post_init__(self) -> None:
        count("ClassIs position", self.position, least=0, most=MOST_COUNT)

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the target has that many classes."""
        target = facts.column("", "categorical")
        if not self.position < len(target.categories):
            raise SchemaError(f"the target column {target.name!r} has fewer classes")

    def own(self, to: Copier) -> ClassIs:
        return ClassIs(self.position)

    def to_wire(self, to: Describer) -> Json:
        return {"position": int(self.position)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> ClassIs:
        return cls(whole(wire, "position"))

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """One or zero per record."""
        found: NDArray[np.float64] = (target_of(rows) == self.position).astype(np.float64)
        return found


@frozen(eq=False)
class CustomValue:
    """A function of single rows that somebody vouches for. Recorded as asserted.

    Attributes:
        function: takes a dict of column arrays (features and target by name, the
            target also under "target" if no feature is called that) and
            returns one number per row, shape (n_records,). It must treat every row alone.
        why: why that holds; goes into the ledger.
    """

    function: Callable[[dict[str, NDArray[Any]]], NDArray[Any]]
    clip: float
    why: str
    width: int = field(default=1, init=False)
    signed: bool = field(default=True, init=False)
    asserted: bool = field(default=True, init=False)
    reads_target: bool = field(default=True, init=False)

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        if not isinstance(self.why, str) or not self.why.strip():
            raise InvalidValue("why", self.why, "a sentence that goes into the ledger")

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: the function is an unverified claim, whatever the table."""

    def own(self, to: Copier) -> CustomValue:
        return CustomValue(self.function, self.clip, self.why)

    def to_wire(self, to: Describer) -> Json:
        """Refused: no message carries code."""
        refuse_code()

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> CustomValue:
        """Refused, as `to_wire`."""
        refuse_code()

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """What the function says of every record, on copies of the columns."""
        columns = rows.features
        table = {c.name: a for c, a in zip(columns.schema.features, columns.arrays, strict=True)}
        if rows.target is not None:
            table[columns.schema.target.name] = rows.target
            table.setdefault("target", rows.target)
        table = {name: _read_only(column) for name, column in table.items()}
        try:
            with quiet():
                result = real_numbers(self.function(dict(table)))
        except Exception as error:
            # A stranger's exception may quote a value, in its text or in the name of its type.
            raised = public_name(type(error))
        else:
            raised = ""
        if raised:  # afresh: the other one would stay in its context
            raise DataError(f"the custom query raised {raised}")
        if result.shape != (rows.n,):
            raise DataError("the custom query must return one real number per row")
        return np.nan_to_num(result, nan=0.0, posinf=self.clip, neginf=-self.clip)


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
    raise UnsupportedNode("a custom query would run the learner's own function on the rows; a "
                          "learner in its own process cannot ask one. Nothing was read")


def _read_only(column: NDArray[Any]) -> NDArray[Any]:
    """A copy: a view could be made writable again, and the next release would read what it says."""
    seen = column.copy()
    seen.setflags(write=False)
    return seen


def target_of(rows: Rows) -> NDArray[Any]:
    """The target inside the guard."""
    if rows.target is None:
        raise DataError("the data were protected without a target")
    return rows.target


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
            here = np.clip(values[at], low, block.clip, out=values[at])
            if np.isnan(here.min()):
                # It would turn into a huge whole number and shout which record it came from.
                here[np.isnan(here)] = 0.0
        return values
    for at in runs(len(values)):
        _shorten(list(values[at].T), block, norm)
    return values


def _shorten(columns: list[NDArray[np.float64]], block: Block, norm: int) -> None:
    """Vectors to norm at most the clip, in place and column by column: no last bit may follow
    from where a record stands among others."""
    for column in columns:
        if not np.isfinite(column).all():
            np.nan_to_num(column, copy=False, nan=0.0, posinf=1e150, neginf=-1e150)
        if not block.signed:
            np.maximum(column, 0.0, out=column)
    # Divided first, so that squares of small numbers do not vanish.
    size = length([column / block.clip for column in columns], norm)
    np.maximum(size, 1.0, out=size)
    for column in columns:
        column /= size
