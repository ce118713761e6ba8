"""A ledger in formats of other tools. Pure: records in, text out."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import attrs

from privledger.graph import Node, every_dp_event, graphml, to_dp_event, view
from privledger.graph.as_dp_events import Saying
from privledger.ledger import Entry, State
from privledger.ledger.codec import encode
from privledger.ledger.view import view_of
from privledger.reports.safe_text import clean, plain
from privledger.reports.spreadsheet import as_csv

FORMATS = ("jsonl", "json", "csv", "graphml", "dot", "dp-event")


def written(kind: str, entries: list[Entry], state: State, *,
            exact: bool = False) -> tuple[str, Saying | None]:
    """The ledger as `kind`, one of `FORMATS` but jsonl.

    Args:
        exact: for dp-event: refuse what no event says exactly.

    Returns:
        the text; and for dp-event what was said weakly or not at all.

    Raises:
        UnsupportedNode: a plan that no event says exactly, if only exact ones will do; or
            dp_accounting is not installed.
    """
    if kind == "json":
        return json.dumps([plain(one) for one in entries_as_json(entries)], indent=1,
                          allow_nan=False) + "\n", None
    view = view_of(state, entries)
    if kind == "csv":
        return as_csv(view, entries), None
    node = view.whole()
    if kind == "graphml":
        return graphml(node) + "\n", None
    if kind == "dot":
        return as_dot(node), None
    event, said = every_dp_event(node, state.relation)  # type: ignore[arg-type]
    if exact:
        event = to_dp_event(node, state.relation)  # type: ignore[arg-type]
    return json.dumps(event_value(event) | _owed(said), indent=1) + "\n", said


def _owed(said: Saying) -> dict[str, Any]:
    """What the events do not say, for whoever gets the file alone; nothing where all is said."""
    return {name: dict(found) for name, found in (("inexact", said.weaker),
                                                  ("unsaid", said.unsaid)) if found}


def entries_as_json(entries: Iterable[Entry]) -> list[dict[str, Any]]:
    """For JSON: position, kind, body and both hashes of each entry, as `export` writes them."""
    return [{"position": entry.position, "kind": entry.event.kind, "body": encode(entry.event),
             "previous": entry.previous, "hash": entry.hash} for entry in entries]


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
