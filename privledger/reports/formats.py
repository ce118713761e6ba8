"""A ledger in formats of other tools. Pure: records in, text out."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import Any

import attrs

from privledger.graph import Node, graphml, to_dp_event, view
from privledger.ledger import Entry, State
from privledger.ledger.codec import encode
from privledger.ledger.view import view_of
from privledger.ledger.view_timeline import timeline
from privledger.reports.plain import clean, plain

FORMATS = ("jsonl", "json", "csv", "graphml", "dot", "dp-event")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_COLUMNS = ("position", "kind", "time", "grant", "learner", "data", "epsilon", "status",
            "releases", "text", "hash")


def written(kind: str, entries: list[Entry], state: State) -> str:
    """The ledger as `kind`, one of `FORMATS` but jsonl.

    Raises:
        UnsupportedNode: a plan that the format cannot say (dp-event only).
    """
    if kind == "json":
        return json.dumps([plain(one) for one in entries_as_json(entries)], indent=1,
                          allow_nan=False) + "\n"
    if kind == "csv":
        return as_csv(entries, state)
    node = view_of(state).whole()
    if kind == "graphml":
        return graphml(node) + "\n"
    if kind == "dot":
        return as_dot(node)
    event = event_value(to_dp_event(node, state.relation))  # type: ignore[arg-type]
    return json.dumps(event, indent=1) + "\n"


def entries_as_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    return [{"position": entry.position, "kind": entry.event.kind, "body": encode(entry.event),
             "previous": entry.previous, "hash": entry.hash} for entry in entries]


def inert(value: object) -> object:
    """A cell that no spreadsheet takes for a formula, and that holds no control character.

    >>> inert('=cmd()'), inert('-1+2'), inert(-1.5), inert(' @x')
    ("'=cmd()", "'-1+2", -1.5, "' @x")
    """
    if isinstance(value, int | float):
        return value
    text = str(value)
    safe = clean(text, limit=4000)
    return f"'{safe}" if text.lstrip(" \u00a0\ufeff").startswith(_FORMULA) else safe


def as_csv(entries: list[Entry], state: State) -> str:
    """One row for each entry; what a grant cost stands in its `granted` row."""
    out = io.StringIO()
    table = csv.writer(out, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")
    table.writerow(_COLUMNS)
    granted = {one.name: one for one in view_of(state).charges}
    for moment in timeline(entries):
        cells: tuple[object, ...] = ("", "", "", "", "")
        one = granted.get(moment.grant) if moment.kind == "granted" else None
        if one is not None:
            cells = (one.learner, one.table, one.amount.epsilon.value, one.status, one.releases)
        table.writerow([inert(cell) for cell in (moment.position, moment.kind, moment.time,
                                                 moment.grant, *cells, moment.text, moment.hash)])
    return out.getvalue()


def as_dot(node: Node) -> str:
    """The composition tree for Graphviz."""
    tree = view(node)
    lines = ["digraph ledger {", "  node [shape=box];"]
    lines += [f"  {_quoted(name)} [label={_quoted(tree.nodes[name]['label'])}];" for name in tree]
    lines += [f"  {_quoted(start)} -> {_quoted(end)};" for start, end in tree.edges]
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    """A string of Graphviz; a backslash would begin one of its escapes."""
    return '"' + clean(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def event_value(event: Any) -> Any:
    """An event of dp_accounting as JSON values: its class, then its fields."""
    if attrs.has(type(event)):
        return {"event": type(event).__name__,
                **{field.name: event_value(getattr(event, field.name))
                   for field in attrs.fields(type(event))}}
    if isinstance(event, list | tuple):
        return [event_value(one) for one in event]
    return plain(event)
