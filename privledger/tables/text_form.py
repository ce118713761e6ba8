"""How a table's text files are written, and what its dates count from: public facts."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeVar

from attrs import field, frozen

from privledger.errors import SchemaError

Bound = TypeVar("Bound")
SEPARATORS = (",", ";", "\t", "|", ":")
QUOTES = ('"', "'")
DECIMALS = (".", ",")
ENCODINGS = ("utf-8", "latin-1", "cp1252", "iso-8859-15", "utf-16")


def _texts(value: Sequence[str]) -> tuple[str, ...]:
    return tuple(value) if isinstance(value, list | tuple) else value  # type: ignore[return-value]


@frozen
class TextForm:
    """How CSV files of a table are written. Parquet and frames need none of it.

    Attributes:
        separator: between cells. quote: around them. decimal: the mark in numbers.
        encoding: one of ENCODINGS.
        missing: texts that stand for a missing cell, in every column.
    """

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    quote: str = '"'
    missing: tuple[str, ...] = field(default=(), converter=_texts)

    def __attrs_post_init__(self) -> None:
        for name, choices in (("separator", SEPARATORS), ("decimal", DECIMALS),
                              ("encoding", ENCODINGS), ("quote", QUOTES)):
            if getattr(self, name) not in choices or type(getattr(self, name)) is not str:
                raise SchemaError(f"[reading] {name}: one of {', '.join(map(repr, choices))}")
        if self.separator == self.decimal:
            raise SchemaError("[reading] decimal: another mark than the separator")
        if type(self.missing) is not tuple or not all(
                type(one) is str and one for one in self.missing):
            raise SchemaError("[reading] missing: a list of texts that are not empty")

    @staticmethod
    def of(value: object) -> TextForm | None:
        """From a schema's `[reading]`; None where nothing is said."""
        if value is None:
            return None
        if not isinstance(value, dict) or not set(value) <= set(_KEYS):
            raise SchemaError(f"[reading]: a table with {', '.join(_KEYS)}")
        return TextForm(**value)

    def as_dict(self) -> dict[str, object]:
        """What differs from a usual CSV file."""
        said = {name: getattr(self, name) for name in _KEYS}
        usual = TextForm()
        return {name: list(one) if name == "missing" else one for name, one in said.items()
                if one != getattr(usual, name)}

    @cached_property
    def swaps(self) -> bytes | None:
        """A table of bytes that makes the usual separator and quote of this form's, and back;
        None if they are the usual ones."""
        table = bytearray(range(256))
        for own, usual in ((self.separator, ","), (self.quote, '"')):
            table[ord(own)], table[ord(usual)] = ord(usual), ord(own)
        return None if table == bytes(range(256)) else bytes(table)

    def check(self, categories: Iterable[str]) -> None:
        """Refuse a text that would be a category and a missing cell."""
        if set(self.missing) & set(categories):
            raise SchemaError("[reading] missing: one of its texts is a category, too")


_KEYS = ("separator", "decimal", "encoding", "quote", "missing")
USUAL = TextForm()


def day(value: object) -> datetime.date | None:
    """A date, as TOML has it or written as 2020-05-17; None for anything else."""
    if type(value) is datetime.date:
        return value
    try:
        found = datetime.date.fromisoformat(value) if type(value) is str else None
    except ValueError:
        return None
    return found if found is not None and found.isoformat() == value else None


def in_days(value: Bound, since: object) -> Bound | int:
    """A bound as days since a date, where it is a date; anything else as it is."""
    found, first = day(value), day(since)
    return value if found is None or first is None else (found - first).days
