"""Stored texts of bodies -> lines that rules can read, for audits of long histories.

Most bodies differ from an earlier one in a name and a time only. Such a text is recognised by
what is left when these are cut out, and is not parsed again. A cut is at a plain string under a
key of its own, so whatever stands there, the rest keeps its meaning, and the text stays canonical.
"""

from __future__ import annotations

from typing import Any

from privledger.graph import canonical
from privledger.ledger.entries import parse_body

_CUTS = {kind: tuple((name, f'"{name}":"') for name in names) for kind, names in {
    "granted": ("data", "grant", "time"), "released": ("grant",), "settled": ("grant", "time"),
    "aborted": ("grant", "time"), "crashed": ("grant", "time"), "protected": ("data", "time"),
}.items()}
_LONGEST = 4000
_MOST = 20_000


class Line:
    """One entry under audit.

    It stands in for an `Entry`, which takes longer to make.

    Attributes:
        form: a number that two lines share only if their bodies differ in names and times at
            most; None if nothing like it is known.
    """

    __slots__ = ("body", "form", "hash", "kind", "position")

    def __init__(self, position: int, kind: str, body: Any, form: int | None) -> None:
        self.position, self.kind, self.body, self.form = position, kind, body, form
        self.hash = ""


class LineReader:
    """Parses bodies, each form once."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, ...], tuple[int, dict[str, Any]] | None] = {}
        self._count = 0

    def read(self, position: int, kind: str, text: str) -> Line:
        """A line from a row.

        Raises:
            ValueError, TypeError, RecursionError: not JSON, or not its canonical text.
        """
        cuts = _CUTS.get(kind)
        if cuts is None or len(text) > _LONGEST:
            return Line(position, kind, _strict(text), None)
        rest, parts, values = text, [kind], {}
        for name, mark in cuts:
            before, _, rest = rest.partition(mark)
            value, _, rest = rest.partition('"')
            parts.append(before)
            values[name] = value
            # An empty one would look the same as the blank of a cut that is somewhere deeper.
            if not value or not value.isprintable() or not value.isascii() or "\\" in value:
                return Line(position, kind, _strict(text), None)
        parts.append(rest)
        key = tuple(parts)
        found = self._forms.get(key)
        if found is not None:
            return Line(position, kind, {**found[1], **values}, found[0])
        body = _strict(text)
        return Line(position, kind, body, self._learn(key, body, values))

    def _learn(self, key: tuple[str, ...], body: Any, values: dict[str, str]) -> int | None:
        """Remember a form, if the cuts are where they seem to be."""
        if len(self._forms) >= _MOST:
            self._forms.clear()
        kind, first, *others = key
        marks = [mark for _, mark in _CUTS[kind]]
        blank = first + "".join(f'{mark}"{part}' for mark, part in zip(marks, others, strict=True))
        try:
            shape = _strict(blank)
        except ValueError:
            return None  # a mark was not there at all
        if not isinstance(body, dict) or shape != {**body, **dict.fromkeys(values, "")}:
            return None  # a mark was somewhere deeper
        self._count += 1
        self._forms[key] = self._count, shape
        return self._count


def _strict(text: str) -> Any:
    value = parse_body(text)
    if canonical(value) != text:
        raise ValueError("not the canonical text")
    return value
