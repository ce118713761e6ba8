"""Figures: a number with its unit and the side that it is rounded to, and the one printer.

A charge is never shown as less than it is, a remainder never as more; what an author chose (a
budget) is shown as it was chosen. `Amount` is what everything that costs is counted in: the whole
numbers of the ledger's own filter. Amounts add up exactly; their epsilons do not.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import attrs
from attrs import field, frozen

from privledger.ledger.filters import FilterRule
from privledger.rounding import (
    downward,
    downward_percent,
    exact,
    from_units,
    up,
    upward,
    upward_percent,
)

CHARGE, REMAINDER, CHOSEN = "charge", "remainder", "chosen"
SHARE = "share of the budget"


@frozen
class Figure:
    """One number that is shown.

    Attributes:
        value: already on its safe side: a charge no less than the truth, a remainder no more.
        unit: `epsilon`, `delta`, `SHARE` (1 is the whole), or the unit of the ledger's filter.
        direction: `CHARGE` is printed rounded up, `REMAINDER` down, `CHOSEN` as it is.
    """

    value: float
    unit: str = "epsilon"
    direction: str = CHARGE

    def text(self, digits: int = 6) -> str:
        """The only way a figure of a ledger is printed.

        Args:
            digits: significant ones; shares are told in tenths of a percent.

        >>> Figure(0.1234567).text(), Figure(0.1234567, "epsilon", REMAINDER).text(4)
        ('0.123457', '0.1234')
        >>> Figure(0.12301, SHARE).text()
        '12.4 %'
        """
        if math.isnan(self.value):
            return "-"
        if self.direction == CHOSEN:
            return exact(self.value)
        if self.unit == SHARE:
            return (upward_percent if self.direction == CHARGE else downward_percent)(self.value)
        return (upward if self.direction == CHARGE else downward)(self.value, digits)


@frozen
class Amount:
    """A charge in the ledger's own currency; amounts of one ledger add up exactly.

    Attributes:
        units, delta_units: whole numbers, as `FilterRule` counts them.
        rule: the filter they are counted by; None where none is fixed, and nothing charged.
    """

    units: int
    delta_units: int
    rule: FilterRule | None = field(repr=False)

    @property
    def epsilon(self) -> Figure:
        """What the units certify by themselves, at the budget's delta. Does not add up."""
        return Figure(self.rule.epsilon_of(self.units) if self.rule else 0.0)

    @property
    def delta(self) -> Figure:
        """The delta that goes with it: its own under `basic`, else the budget's if it is any."""
        if self.rule is None:
            return Figure(0.0, "delta")
        if self.rule.kind == "basic":
            return Figure(self.rule.delta_of(self.delta_units), "delta")
        return Figure(self.rule.budget.delta if self.units or self.delta_units else 0.0, "delta")

    @property
    def own(self) -> Figure:
        """In the unit of the ledger's filter, in which charges add up."""
        return Figure(from_units(self.units), self.rule.unit if self.rule else "")

    @property
    def share(self) -> Figure:
        """Of the filter's cap. Shares of parts add up, up to the rounding of each."""
        return Figure(
            _ratio(self.units, self.rule.cap_units) if self.rule else 0.0, SHARE)

    @property
    def left(self) -> Figure:
        """Epsilon of the largest plan that is still granted after it."""
        return Figure(self.rule.left_of(self.units) if self.rule else 0.0, "epsilon", REMAINDER)


def summed_figures(amounts: Iterable[Amount], rule: FilterRule | None) -> Amount:
    """The exact sum."""
    units = delta_units = 0
    for one in amounts:
        units, delta_units = units + one.units, delta_units + one.delta_units
    return Amount(units, delta_units, rule)


def _ratio(units: int, whole: int) -> float:
    if not whole:
        return 0.0 if not units else math.inf
    value = units / whole
    above, below = value.as_integer_ratio()
    return up(value) if above * whole < units * below else value


# Values and texts made safe for a terminal and for JSON.

# Control, format (bidirectional overrides among them), surrogate, private use, line breaks.
_UNSAFE = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def clean(text: object, limit: int = 400) -> str:
    """Text that cannot move the cursor, change colours or reorder what is shown.

    >>> clean("a\\x1b[31mb\\nc")
    'a?[31mb?c'
    """
    safe = str(text)[: limit + 1]
    if not safe.isprintable():  # what is unsafe is not; nor are some spaces
        safe = "".join("?" if unicodedata.category(sign) in _UNSAFE else sign for sign in safe)
    return safe if len(safe) <= limit else safe[: limit - 3] + "..."


def plain(value: Any) -> Any:
    """JSON values: records become objects; infinity and NaN, which JSON lacks, become words.

    A figure becomes its number.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Figure):
        return plain(value.value)
    if attrs.has(type(value)):
        return {name: plain(getattr(value, name)) for name in _public(value.__class__)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence | set | frozenset) and not isinstance(value, str | bytes):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


@cache
def _public(kind: object) -> tuple[str, ...]:
    """Fields of a record that are shown: those of its repr."""
    assert isinstance(kind, type)
    return tuple(one.name for one in attrs.fields(kind)
                 if one.repr is not False and not one.name.startswith("_"))


def _number(value: float) -> float | str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "infinity" if value > 0 else "-infinity"
    return float(value)
