"""Bodies of entries <-> events. Nothing else knows how an entry is written.

Formats 1 to 4 are read by the same names: a later one only adds. A field that is not known is
kept, unread, so that a body is written again as it was. Format: docs/ledger-format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from attrs import NOTHING, asdict, fields

from privledger.errors import PrivledgerError
from privledger.graph import canonical
from privledger.ledger.budget import Budget
from privledger.ledger.caps import Cap
from privledger.ledger.events import (
    EVENTS,
    Answer,
    Event,
    Holder,
    ReleasedNode,
    Unknown,
    VectorNote,
)
from privledger.ledger.line import QueuePosition
from privledger.ledger.policy import Policy

Body = dict[str, Any]
RAW = "_raw"
"""Where an event that was read keeps the body it was read from; shared, never changed. A copy
(`like`) keeps a pair: the body of its model, and the fields in which it differs."""

_NAMES = {"filter": {"rule": "kind"}}  # a record's field -> its name in the body
_ALWAYS = {"created": ("caps",), "granted": ("scope", "labels", "lease", "isolation"),
           "refused": ("learner", "unit")}  # written even where they hold their defaults


def _maybe(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _labels(value: object) -> dict[str, str]:
    if value and not isinstance(value, dict):
        raise TypeError
    return {_text(key): _text(one) for key, one in value.items()} if isinstance(value, dict) else {}


def _note(value: Mapping[str, str]) -> VectorNote:
    return VectorNote(value["name"], value["sha256"])


def _whole(value: object) -> int:
    if type(value) is not int or value < 0:
        raise TypeError
    return value


def _place(value: Mapping[str, object]) -> QueuePosition:
    grant, data, until, host, started = (
        _text(value[name]) for name in ("grant", "data", "until", "host", "started"))
    units, delta_units, pid = (_whole(value[name]) for name in ("units", "delta_units", "pid"))
    return QueuePosition(
        grant, data, _labels(value["labels"]), units, delta_units, until, host, pid, started
    )


_BY_TYPE: dict[object, Callable[[object], object]] = {"str": _text, "str | None": _maybe(_text)}
_READ: dict[str, dict[str, Callable[[Any], Any]]] = {
    "created": {
        "budget": lambda value: Budget(value["epsilon"], value["delta"],
                                        value.get("failure", 0.0)),
        "caps": lambda value: tuple(Cap.from_dict(cap) for cap in value),
        "policy": _maybe(lambda value: Policy.from_dict({"policy": value}))},
    "filter": {"order": _real},
    "granted": {"labels": _labels,
                "holder": _maybe(lambda value: Holder(
                    value.get("host"), value.get("pid"), value.get("started")))},
    "refused": {"rules": tuple, "waits": _maybe(lambda value: _place(value))},
    "released": {"nodes": lambda value: [
        ReleasedNode(one["under"], one["leaf"]) for one in value]},
    "settled": {"vector": lambda value: _note(value) if value else None,
                "answer": _maybe(lambda value: Answer(
                    value["asked"], value["values"], value.get("seal")))},
    "enrolled": {"people": lambda value: _note(value), "members": lambda value: _note(value)},
}
_READ["aborted"] = _READ["settled"]
_WRITE: dict[str, Callable[[Any], Any]] = {
    "budget": lambda value: value.as_dict(), "caps": lambda value: [cap.as_dict() for cap in value],
    "policy": _maybe(lambda value: value.as_dict()), "holder": _maybe(asdict), "rules": list,
    "vector": _maybe(asdict), "nodes": lambda value: [asdict(one, recurse=False) for one in value],
    "waits": _maybe(asdict), "people": asdict, "members": asdict,
    "answer": _maybe(lambda value: asdict(value, filter=lambda _, one: one is not None)),
}


def _plan_of(cls: type[Any]) -> tuple[tuple[str, str, Any, Callable[[Any], Any] | None], ...]:
    names, reads = _NAMES.get(cls.kind, {}), _READ.get(cls.kind, {})
    return tuple((one.name, names.get(one.name, one.name), one.default,
                  reads.get(one.name, _BY_TYPE.get(one.type)))
                 for one in fields(cls))


_PLANS = {kind: _plan_of(cls) for kind, cls in EVENTS.items()}


def decode(kind: str, body: Any) -> Event:
    """The event that a body says; `Unknown` for a kind that this version does not know.

    Nothing is refused here: a field that is missing or cannot be read is left out, and asking
    the event for it raises `Unreadable`. So is what should be a text and is none: nobody could show
    it. Types of numbers are not looked at (an audit does).
    """
    cls = EVENTS.get(kind)
    event: Any = Unknown(kind) if cls is None else object.__new__(cls)
    values = event.__dict__
    for name, key, default, read in _PLANS.get(kind, ()) if isinstance(body, dict) else ():
        if key in body:
            try:
                values[name] = body[key] if read is None else read(body[key])
            except (PrivledgerError, KeyError, TypeError, ValueError, AttributeError):
                continue
        elif default is not NOTHING:
            values[name] = _made(default)
    values[RAW] = body
    return event  # type: ignore[no-any-return]


def _made(default: Any) -> Any:
    return default.factory() if hasattr(default, "factory") else default


def encode(event: Event) -> Any:
    """The body of an event: as it was read, or written with what differs from the defaults."""
    plan = _PLANS.get(event.kind, ())
    if RAW in event.__dict__:
        raw = event.__dict__[RAW]
        if type(raw) is not tuple:
            return dict(raw) if isinstance(raw, dict) else raw
        base, fresh = raw
        return {**base, **{key: _written(event, name) for name, key, _, _ in plan if name in fresh}}
    always = _ALWAYS.get(event.kind, ())
    return {key: _written(event, name) for name, key, default, _ in plan
            if default is NOTHING or name in always or getattr(event, name) != _made(default)}


def _written(event: Event, name: str) -> Any:
    value, write = getattr(event, name), _WRITE.get(name)
    return value if write is None else write(value)


def model(kind: str, body: Body, fresh: Iterable[str]) -> Event:
    """An event to make others from with `like`.

    Args:
        fresh: the fields in which they will differ.
    """
    event = decode(kind, body)
    event.__dict__[RAW] = body, tuple(fresh)
    return event


def like(event: Event, changes: Mapping[str, Any]) -> Event:
    """A copy of a `model` with values for its fresh fields, for readers that know the rest."""
    copy: Any = object.__new__(type(event))
    object.__setattr__(copy, "__dict__", {**event.__dict__, **changes})
    return copy  # type: ignore[no-any-return]


def without(event: Event, *names: str) -> Event:
    """An event as if some of its fields had never been given."""
    return decode(event.kind, {
        name: value for name, value in encode(event).items() if name not in names})


def written(event: Event) -> str:
    """Canonical JSON of an event's body."""
    return canonical(encode(event))


def given(event: Event) -> set[str]:
    """Names of everything that stands in the event's body, known or not."""
    return set(encode(event))
