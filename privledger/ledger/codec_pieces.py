"""Texts of grants and of releases, taken apart where they differ most: each piece is parsed once.

A text is cut at its names, its counts and its nested values. What is left is its shape. A shape
is learnt from one text that was parsed whole, and only if putting other values into the cuts
changes just the fields they stand for; then every text of that shape is its pieces, each of which
has to be canonical JSON of its own.
"""

from __future__ import annotations

import re
from typing import Any

from attrs import define, field

from privledger.graph import canonical
from privledger.ledger.codec import like, model
from privledger.ledger.entries import parse_body
from privledger.ledger.events import Event, Holder, ReleasedNode

MOST = 20_000

_NAME = r'"([ !#-\[\]-~]+)"'  # plain: no quote, no backslash, no control, not empty
_COUNT = r"(0|[1-9][0-9]{0,300})(?![0-9.eE])"  # 5.0 is no count, although it equals 5
_GRANTED = re.compile(
    rf'(\{{.*?"data":){_NAME}(.*?"grant":){_NAME}(.*?"pid":){_COUNT}(.*?"plan":)'
    rf'(\{{.*\}})(,"scope":.*?"time":){_NAME}(.*?"units":){_COUNT}(.*)', re.DOTALL)
_RELEASED = re.compile(
    rf'(\{{"first":{_COUNT}.*?"grant":){_NAME}(,"items":)(\[.*\])(,"nodes":)(\[.*\])(,"noise":.*)',
    re.DOTALL)


def strict(text: str) -> Any:
    """The value of a canonical text.

    Raises:
        ValueError, RecursionError: not JSON, or not its canonical text.
    """
    value = parse_body(text)
    if canonical(value) != text:
        raise ValueError("not the canonical text")
    return value


@define
class Pieces:
    """What was learnt so far. A number that was given out never comes back for something else."""

    _shapes: dict[tuple[str, ...], tuple[int, Any]] = field(factory=dict)
    _known: dict[str, tuple[int, Any]] = field(factory=dict)
    _nodes: dict[str, tuple[int, list[ReleasedNode] | None]] = field(factory=dict)
    _forms: dict[tuple[int, ...], int] = field(factory=dict)
    _count: int = 0

    def granted(self, text: str) -> tuple[Event, int, int] | None:
        """Event, form and kin of a grant; None if the text has another look.

        Two lines of one form differ in names, times and the holder's process at most.

        Raises:
            ValueError, RecursionError: it is not canonical.
        """
        found = _GRANTED.fullmatch(text)
        if found is None:
            return None
        (a, data, b, grant, c, pid, d, plan, e, time, f, units, g) = found.groups()
        number, node = self._piece(plan)
        key = (a, b, c, d, e, f, g)
        shape = self._shapes.get(key)
        if shape is None:
            body = strict(text)
            other = (f'{a}""{b}""{c}{int(pid) + 1}{d}null{e}""{f}{int(units) + 1}{g}')
            shape = self._learn(key, "granted", other, body, {
                "data": "", "grant": "", "plan": None, "time": "", "units": int(units) + 1,
                "holder": _with_pid(body.get("holder"), int(pid) + 1)})
            if shape is None:
                return None
        holder = shape[1].holder
        event = like(shape[1], {
            "data": data, "grant": grant, "plan": node, "time": time, "units": int(units),
            "holder": Holder(holder.host, int(pid), holder.started)})
        form = self._form(shape[0], number, int(units))
        return event, form, form

    def released(self, text: str) -> tuple[Event, int, int] | None:
        """Event, form and kin of releases; lines of one kin differ in their items, too."""
        found = _RELEASED.fullmatch(text)
        if found is None:
            return None
        a, _, grant, b, items, c, nodes, d = found.groups()
        (which, some), (number, kinds) = self._piece(items), self._piece_of_nodes(nodes)
        if kinds is None:
            return None
        shape = self._shapes.get((a, b, c, d))
        if shape is None:
            shape = self._learn((a, b, c, d), "released", f'{a}""{b}null{c}null{d}', strict(text),
                                {"grant": "", "items": None, "nodes": None})
            if shape is None:
                return None
        event = like(shape[1], {"grant": grant, "items": some, "nodes": kinds})
        return event, self._form(shape[0], number, which), self._form(shape[0], number)

    def _piece(self, text: str) -> tuple[int, Any]:
        found = self._known.get(text)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[text] = self.next(), strict(text)
        return found

    def _piece_of_nodes(self, text: str) -> tuple[int, list[ReleasedNode] | None]:
        """As `_piece`; None for nodes that an event would not hold whole."""
        found = self._nodes.get(text)
        if found is None:
            if len(self._nodes) >= MOST:
                self._nodes.clear()
            nodes = strict(text)
            plain = all(isinstance(one, dict) and set(one) == {"under", "leaf"} for one in nodes)
            found = self._nodes[text] = self.next(), [
                ReleasedNode(one["under"], one["leaf"]) for one in nodes] if plain else None
        return found

    def _learn(self, key: tuple[str, ...], kind: str, other: str, body: Any,
               values: dict[str, Any]) -> tuple[int, Any] | None:
        """Remember a shape, if the cuts are where they seem to be."""
        try:
            shape = strict(other)
        except (ValueError, RecursionError):
            return None
        # As texts: 5 and 5.0 are equal, and are not the same.
        if not isinstance(body, dict) or canonical(shape) != canonical({**body, **values}):
            return None
        if len(self._shapes) >= MOST:
            self._shapes.clear()
        found = self._shapes[key] = self.next(), model(kind, shape, values)
        return found

    def _form(self, *parts: int) -> int:
        found = self._forms.get(parts)
        if found is None:
            if len(self._forms) >= 10 * MOST:
                self._forms.clear()
            found = self._forms[parts] = self.next()
        return found

    def next(self) -> int:
        """A number that was never given out."""
        self._count += 1
        return self._count


def _with_pid(holder: Any, pid: int) -> Any:
    """The same holder with another process; None for one that an event would not hold whole."""
    plain = isinstance(holder, dict) and set(holder) == {"host", "pid", "started"}
    return {**holder, "pid": pid} if plain else None
