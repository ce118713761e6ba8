"""Bodies of entries <-> events. Nothing else knows how an entry is written.

Formats 1 to 3 are read by the same names: a later one only adds. A field that is not known is
kept, unread, so that a body is written again as it was. Format: docs/ledger-format.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import NOTHING, asdict, fields

from privledger.ledger.budget import Budget
from privledger.ledger.caps import Cap
from privledger.ledger.events import EVENTS, Event, Holder, ReleasedNode, VectorNote
from privledger.ledger.policy import Policy

Body = dict[str, Any]
RAW = "_raw"
"""Where an event that was read keeps the body it was read from; shared, never changed."""

_NAMES = {"filter": {"rule": "kind"}}  # a record's field -> its name in the body


def _maybe(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


_READ: dict[str, dict[str, Callable[[Any], Any]]] = {
    "created": {
        "budget": lambda value: Budget(value["epsilon"], value["delta"]),
        "caps": lambda value: tuple(Cap.from_dict(cap) for cap in value or ()),
        "policy": _maybe(lambda value: Policy.from_dict({"policy": value}))},
    "granted": {"labels": lambda value: value or {},
                "holder": _maybe(lambda value: Holder(
                    value["host"], value["pid"], value["started"]))},
    "refused": {"rules": tuple},
    "released": {"nodes": lambda value: [
        ReleasedNode(one["under"], one["leaf"]) for one in value]},
    "settled": {"vector": _maybe(lambda value: VectorNote(value["name"], value["sha256"]))},
}
_READ["aborted"] = _READ["settled"]
_WRITE: dict[str, Callable[[Any], Any]] = {
    "budget": asdict, "caps": lambda value: [cap.as_dict() for cap in value],
    "policy": _maybe(lambda value: value.as_dict()), "holder": _maybe(asdict), "rules": list,
    "vector": _maybe(asdict), "nodes": lambda value: [asdict(one, recurse=False) for one in value],
}


def _plan_of(cls: type[Any]) -> tuple[tuple[str, str, Any, Callable[[Any], Any] | None], ...]:
    names, reads = _NAMES.get(cls.kind, {}), _READ.get(cls.kind, {})
    return tuple((one.name, names.get(one.name, one.name), one.default, reads.get(one.name))
                 for one in fields(cls))


_PLANS = {kind: _plan_of(cls) for kind, cls in EVENTS.items()}


def decode(kind: str, body: Body) -> Event:
    """The event that a body says.

    Raises:
        KeyError, TypeError, ValueError, AttributeError, PrivledgerError: it lacks a field, or one
            cannot be read; an unknown kind is a KeyError. The types of plain values are not
            looked at: `shapes` does that.
    """
    cls = EVENTS[kind]
    event: Any = object.__new__(cls)
    values = event.__dict__
    for name, key, default, read in _PLANS[kind]:
        if key in body:
            value = body[key]
            values[name] = value if read is None else read(value)
        elif default is NOTHING:
            raise KeyError(key)
        else:
            values[name] = default if not hasattr(default, "factory") else default.factory()
    values[RAW] = body
    return event  # type: ignore[no-any-return]


def encode(event: Event) -> Body:
    """The body of an event: as it was read, or written with what differs from the defaults."""
    raw = event.__dict__.get(RAW)
    if raw is not None:
        return dict(raw)
    body: Body = {}
    for name, key, default, _ in _PLANS[event.kind]:
        value = getattr(event, name)
        if default is not NOTHING and value == (
                default.factory() if hasattr(default, "factory") else default):
            continue
        write = _WRITE.get(name)
        body[key] = value if write is None else write(value)
    return body


def like(event: Event, changes: Mapping[str, Any], body: Body) -> Event:
    """A copy with other values, for readers that know most of a body already.

    Args:
        changes: fields of the record and their new values.
        body: what the copy was read from.
    """
    copy: Any = object.__new__(type(event))
    copy.__dict__.update(event.__dict__)
    copy.__dict__.update(changes)
    copy.__dict__[RAW] = body
    return copy  # type: ignore[no-any-return]


def line(event: Event) -> tuple[str, Body]:
    """Kind and body, as `History.commit` takes them."""
    return event.kind, encode(event)
