"""Stored texts of bodies -> lines that rules can read, for audits of long histories.

Most bodies differ from an earlier one in names, times, a process and a nested value or two. Such a
text is taken apart by `msgspec` along the table of entries and put together again: if that gives
its very bytes, it is canonical as soon as what is left without these parts (its blank) and each
nested part are. These are parsed once, by the reader that refuses whatever is not canonical.
Every other text is parsed whole by that reader. Most short texts are as one before but for a name,
and a time or items: these are compared with it, and nothing else of them is looked at.
"""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256
from typing import Any, Generic, TypeAlias, TypeVar, cast

import msgspec
from attrs import define, evolve, field
from msgspec import UNSET, Raw, UnsetType

from privledger.errors import LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.codec import decode, encode, like, model, shape_of
from privledger.ledger.entries import Entry, entry_of, parse_body
from privledger.ledger.events import Event, Holder, Released, ReleasedNode
from privledger.ledger.limits import MOST_DIGITS, MOST_PLANS, check_text
from privledger.ledger.store import Row

_CUTS = {"granted": ("data", "grant", "time"), "released": ("grant",), "settled": ("grant", "time"),
         "aborted": ("grant", "time"), "crashed": ("grant", "time"), "protected": ("data", "time")}
_PARTS = {"granted": ("plan", "units"), "released": ("nodes", "items")}
_LONGEST = 4000
_MOST = 20_000
_NAME = r'"([ !#-\[\]-~]++)"'  # of signs that JSON writes as they are
_USUAL = {
    "released": re.compile(
        rf'(?s)\{{"first":(\d++),"grant":{_NAME},"items":([^"]++)(.++)').fullmatch,
    "settled": re.compile(
        rf'(?s)\{{"grant":{_NAME},"releases":(\d++),"time":{_NAME}(.++)').fullmatch}
"""Short texts: the grant, items or the time, and around them what such texts have in common."""

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
Usual: TypeAlias = tuple[Line, str, str, tuple[int, Any] | None]
"""A line that was read, and what another has in place of its values: the grant and the time, or
number and value of its items."""


def asked(line: LineOf[Released]) -> Asked | None:
    """Two lines of releases that give the same one named the same nodes and questions."""
    if line.kin is None:
        return line.form
    return line.kin, tuple([(item[0], item[1]) for item in line.event.items])


def event_as(usual: Usual | Line) -> Event:
    """What a text says that was read, or is as another."""
    if isinstance(usual, LineOf):
        return cast(Event, usual.event)
    line, grant, time, items = usual
    return like(line.event, {"grant": grant, "time": time} if items is None else {
        "grant": grant, "items": items[1]})


def strict(text: str) -> Any:
    """The value of a canonical text.

    Raises:
        ValueError, RecursionError: not JSON, or not its canonical text.
    """
    value = parse_body(text)
    if canonical(value) != text:
        raise ValueError("not the canonical text")
    return value


class _Process(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A holder, with its fields in the order in which they are written."""

    host: str
    pid: int
    started: str


_BLANK, _NULL = _Process("", 0, ""), Raw(b"null")
_encode = msgspec.json.Encoder().encode


@cache
def _look_of(kind: str) -> tuple[Any, tuple[str, ...], tuple[str, ...]]:
    """What makes a record of a text of a kind: its cuts as texts, all other fields as bytes; its
    cuts; its parts."""
    types: dict[str, Any] = {**dict.fromkeys(_CUTS[kind], str), "holder": _Process | None}
    return msgspec.json.Decoder(msgspec.defstruct(
        kind, [(name, types.get(name, Raw) | UnsetType, UNSET) for name in sorted(shape_of(kind))],
        gc=False, forbid_unknown_fields=True)).decode, _CUTS[kind], _PARTS.get(kind, ())


@define
class LineReader:
    """Parses bodies, each blank and each part of them once. A number that was given out never
    comes back for something else."""

    _blanks: dict[tuple[str, bytes], tuple[int, Event]] = field(factory=dict)
    _parts: dict[tuple[str, bytes], tuple[int, Any]] = field(factory=dict)
    _forms: dict[tuple[int, ...], int] = field(factory=dict)
    _released: dict[tuple[str, str], Line] = field(factory=dict)
    _ended: dict[tuple[str, str], Line] = field(factory=dict)
    _items: dict[str, tuple[int, Any]] = field(factory=dict)
    _count: int = 0
    _plans: dict[bytes, Any] = field(factory=dict)
    _bytes: int = 0

    def read(self, position: int, kind: str, text: str) -> Line:
        """A line from a row.

        Raises:
            TooLarge: larger than an entry may be, or than all plans together may.
            ValueError, TypeError, RecursionError: not JSON, or not its canonical text.
        """
        if type(kind) is not str or type(text) is not str:
            raise TypeError  # a flipped bit of a damaged page can change the type of a value
        known = self.usual(kind, text)
        if known is not None:
            line, _, _, part = known
            return LineOf(position, event_as(known), line.form if (
                part is None or line.kin is None) else self._form(line.kin, part[0]), line.kin)
        wrong = check_text(kind, text)
        if wrong:
            raise TooLarge(wrong)
        if kind not in _CUTS or len(text) > _LONGEST:
            return LineOf(position, decode(kind, self._shared(strict(text), len(text))), None)
        try:
            found = self._known(kind, text)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError, AttributeError):
            found = None  # parsed whole, it is found out what is wrong
        line = LineOf(position, *(found or (decode(kind, strict(text)), None)))
        if found and kind in _USUAL and len(text) <= MOST_DIGITS:
            self._learn_usual(line, text)
        return line

    def usual(self, kind: str, text: str) -> Usual | None:
        """What a text is as; None where nothing so near was read. What both have in common was
        found canonical."""
        look = _USUAL.get(kind)
        match = look(text) if look is not None and len(text) <= MOST_DIGITS else None
        if match is None:
            return None
        if kind == "settled":
            grant, count, time, rest = match.groups()
            line = self._ended.get((count, rest))
            return None if line is None else (line, grant, time, None)
        first, grant, items, rest = match.groups()
        line, part = self._released.get((first, rest)), self._items.get(items)
        return None if line is None or part is None else (line, grant, "", part)

    def _learn_usual(self, line: Line, text: str) -> None:
        match = _USUAL[line.event.kind](text)
        if match is None:
            return
        if len(self._ended) + len(self._released) + len(self._items) >= _MOST // 4:
            for known in (self._ended, self._released, self._items):
                known.clear()
        if line.event.kind == "settled":
            self._ended[match[2], match[4]] = line
        elif line.kin is not None and canonical(line.event.items) + "," == match[3]:
            self._released[match[1], match[4]] = line
            self._items[match[3]] = self._parts["items", match[3][:-1].encode("ascii")]

    def _known(self, kind: str, text: str) -> tuple[Event, int, int | None] | None:
        """Event, form and kin of a text; None if it has another look than most.

        Raises:
            MsgspecError, ValueError, OverflowError, RecursionError: it has, or is not canonical.
        """
        take_apart, cuts, parts = _look_of(kind)
        record = take_apart(text)
        if _encode(record) != text.encode("ascii"):
            return None
        values: dict[str, Any] = {}
        said = ""
        for name in cuts:
            value = getattr(record, name)
            if not value:  # an empty name is for the rules to see
                return None
            if value is not UNSET:
                said += value
                values[name] = value
                setattr(record, name, "")
        if kind == "granted" and type(record.holder) is _Process:
            holder, record.holder = record.holder, _BLANK
            if holder.pid < 0:
                return None
            said += holder.host + holder.started
            values["holder"] = Holder(holder.host, holder.pid, holder.started)
        if not (said.isascii() and said.isprintable()):
            return None  # these have to be written in another way
        numbers = []
        for name in parts:
            part = getattr(record, name)
            if part is not UNSET:
                text_of = bytes(part)
                known = self._parts.get((name, text_of)) or self._learn_part(name, text_of)
                numbers.append(known[0])
                values[name] = known[1]
                setattr(record, name, _NULL)
        key = kind, _encode(record)
        number, blank = self._blanks.get(key) or self._learn_blank(key, values)
        event = like(blank, values)
        if not numbers:
            return event, number, None
        if kind != "released" or len(numbers) < 2:
            return event, self._form(number, *numbers), None
        kin = self._form(number, numbers[0])
        return event, self._form(kin, numbers[1]), kin

    def _learn_blank(self, key: tuple[str, bytes],
                     values: dict[str, Any]) -> tuple[int, Event]:
        """Number and model of all that is alike but for `values`."""
        if len(self._blanks) >= _MOST:
            self._blanks.clear()
        body = strict(key[1].decode("ascii"))
        found = self._blanks[key] = self._next(), model(key[0], body, values)
        return found

    def _learn_part(self, name: str, text: bytes) -> tuple[int, Any]:
        """Number and value of what stands under a name."""
        if len(self._parts) >= _MOST:
            self._parts.clear()
        value = strict(text.decode("ascii"))
        if name == "nodes":
            if type(value) is not list or any(
                    type(one) is not dict or set(one) != {"under", "leaf"} for one in value):
                raise ValueError("nodes that an event would not hold whole")
            value = [ReleasedNode(one["under"], one["leaf"]) for one in value]
        found = self._parts[name, text] = self._next(), value
        return found

    def _form(self, *numbers: int) -> int:
        found = self._forms.get(numbers)
        if found is None:
            if len(self._forms) >= 10 * _MOST:
                self._forms.clear()
            found = self._forms[numbers] = self._next()
        return found

    def _next(self) -> int:
        self._count += 1
        return self._count

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
                raise TooLarge(f"makes all large plans together exceed {MOST_PLANS} bytes")
        return {**body, "plan": self._plans.setdefault(key, plan)}
