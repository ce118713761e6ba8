"""Stored texts of bodies -> lines that rules can read, for audits of long histories.

Most bodies differ from an earlier one in a name and a time only. Such a text is recognised by
what is left when these are cut out, and is not parsed again. A cut is at a plain string under a
key of its own, so whatever stands there, the rest keeps its meaning, and the text stays canonical.
"""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Any, Generic, TypeAlias, TypeVar

from attrs import evolve

from privledger.errors import LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.codec import decode, encode, like, model
from privledger.ledger.codec_pieces import Pieces, strict
from privledger.ledger.entries import Entry, entry_of
from privledger.ledger.events import Event, Released
from privledger.ledger.limits import MOST_PLANS, check_text
from privledger.ledger.store import Row

_CUTS = {kind: tuple((name, f'"{name}":"') for name in names) for kind, names in {
    "granted": ("data", "grant", "time"), "released": ("grant",), "settled": ("grant", "time"),
    "aborted": ("grant", "time"), "crashed": ("grant", "time"), "protected": ("data", "time"),
}.items()}
_LONGEST = 4000
_MOST = 20_000
_OFTEN = 10


E = TypeVar("E", bound=Event)
Asked: TypeAlias = int | tuple[int, tuple[tuple[int, int], ...]]


class TooLarge(ValueError):
    """A body that a reader refuses for its size; says which limit it passes."""


class LineOf(Generic[E]):
    """One entry under audit.

    It stands in for an `Entry`, which takes longer to make.

    Attributes:
        event: what the entry says.
        form: a number that two lines share only if their bodies differ in names, times and
            holders' processes at most; None if nothing like it is known.
        kin: the same for lines of releases that differ in their items, too.
    """

    __slots__ = ("event", "form", "hash", "kin", "position")

    def __init__(self, position: int, event: E, form: int | None,
                 kin: int | None = None) -> None:
        self.position, self.event, self.form = position, event, form
        self.kin, self.hash = kin, ""


Line: TypeAlias = LineOf[Any]


def asked(line: LineOf[Released]) -> Asked | None:
    """Two lines of releases that give the same one named the same nodes and questions."""
    if line.kin is None:
        return line.form
    return line.kin, tuple([(item[0], item[1]) for item in line.event.items])


class LineReader:
    """Parses bodies, each form once."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, ...], tuple[tuple[int, int | None], Event]] = {}
        self._seen: Counter[tuple[str, ...]] = Counter()
        self._pieces = Pieces()
        self._plans: dict[bytes, Any] = {}
        self._bytes = 0

    def read(self, position: int, kind: str, text: str) -> Line:
        """A line from a row.

        Raises:
            TooLarge: larger than an entry may be, or than all plans together may.
            ValueError, TypeError, RecursionError: not JSON, or not its canonical text.
        """
        wrong = check_text(kind, text)
        if wrong:
            raise TooLarge(wrong)
        cuts = _CUTS.get(kind)
        if cuts is None or len(text) > _LONGEST:
            return LineOf(position, decode(kind, self._shared(strict(text), len(text))), None)
        rest, parts, values = text, [kind], {}
        for name, mark in cuts:
            before, _, rest = rest.partition(mark)
            value, _, rest = rest.partition('"')
            parts.append(before)
            values[name] = value
            # An empty one would look the same as the blank of a cut that is somewhere deeper.
            if not value or not value.isprintable() or not value.isascii() or "\\" in value:
                return LineOf(position, decode(kind, strict(text)), None)
        parts.append(rest)
        key = tuple(parts)
        found = self._forms.get(key)
        if found is not None:
            return LineOf(position, like(found[1], values), *found[0])
        line = self._in_pieces(position, kind, text)
        if line is not None:
            self._again(key, line, values)
            return line
        body = strict(text)
        return LineOf(position, decode(kind, body), self._learn(key, body, values))

    def _again(self, key: tuple[str, ...], line: Line, values: dict[str, str]) -> None:
        """What is seen whole again and again is worth remembering whole: that is found faster."""
        self._seen[key] += 1
        if self._seen[key] == _OFTEN:
            self._learn(key, encode(line.event), values, line)
        if len(self._seen) >= _MOST:
            self._seen.clear()

    def _in_pieces(self, position: int, kind: str, text: str) -> Line | None:
        take_apart = (self._pieces.granted if kind == "granted" else
                      self._pieces.released if kind == "released" else None)
        if take_apart is None:
            return None
        try:
            found = take_apart(text)
        except (ValueError, RecursionError):
            return None  # parsed whole, it is found out what is wrong
        return None if found is None else LineOf(position, *found)

    def entry(self, row: Row, location: str) -> Entry:
        """An entry of its own from a row.

        Raises:
            LedgerCorrupt: not canonical JSON, or too large.
        """
        entry, size = entry_of(row, location), len(row[2])
        try:
            return entry if size <= _LONGEST else evolve(entry, event=decode(
                entry.event.kind, self._shared(encode(entry.event), size)))
        except TooLarge as large:
            raise LedgerCorrupt(f"{location}: entry {entry.position} {large}") from None

    def _shared(self, body: Any, size: int) -> Any:
        """A large body with a plan that was seen before holds that very object: a state keeps
        bodies, and many different large ones would fill the memory."""
        plan = body.get("plan") if isinstance(body, dict) and size > _LONGEST else None
        if plan is None:
            return body
        key = sha256(canonical(plan).encode("ascii")).digest()
        if key not in self._plans:
            self._bytes += size
            if self._bytes > MOST_PLANS:
                raise TooLarge(f"brings all large plans together above {MOST_PLANS} bytes")
        return {**body, "plan": self._plans.setdefault(key, plan)}

    def _learn(self, key: tuple[str, ...], body: Any, values: dict[str, str],
               line: Line | None = None) -> int | None:
        """Remember a form, if the cuts are where they seem to be.

        Args:
            line: the same, taken apart: its numbers go on.
        """
        if len(self._forms) >= _MOST:
            self._forms.clear()
        kind, first, *others = key
        marks = [mark for _, mark in _CUTS[kind]]
        blank = first + "".join(f'{mark}"{part}' for mark, part in zip(marks, others, strict=True))
        try:
            shape = strict(blank)
        except ValueError:
            return None  # a mark was not there at all
        if not isinstance(body, dict) or (
                canonical(shape) != canonical({**body, **dict.fromkeys(values, "")})):
            return None  # a mark was somewhere deeper
        number = self._pieces.next() if line is None or line.form is None else line.form
        self._forms[key] = (number, None if line is None else line.kin), model(kind, shape, values)
        return number
