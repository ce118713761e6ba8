"""What single grants released, and the words for a ledger's totals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from privledger.graph import from_json, label
from privledger.ledger import State

NOT_PRIVATE = "NOT PRIVATE"


@frozen
class ReleaseLine:
    """Equal releases under one grant: how often, and what they asked."""

    mechanism: str
    question: str
    count: int
    cells: int
    asserted: bool


def lines_of(bodies: Sequence[dict[str, Any]]) -> tuple[tuple[ReleaseLine, ...], set[str]]:
    """Equal releases merged, and the types of their mechanisms.

    Args:
        bodies: of `released` entries.
    """
    counts: dict[tuple[str, str, int], int] = {}
    kinds: set[str] = set()
    for body in bodies:
        names = []
        for node in body["nodes"]:
            leaf = from_json(node["leaf"])
            kinds.add(type(leaf).__name__)
            under = " > ".join(str(step["kind"]) for step in node["under"])
            names.append(f"{label(leaf)} under {under}" if under else label(leaf))
        for node, question, cells in body["items"]:
            key = (names[node], str(body["questions"][question]), int(cells))
            counts[key] = counts.get(key, 0) + 1
    lines = tuple(
        ReleaseLine(mechanism, question, many, cells, question.startswith("asserted:"))
        for (mechanism, question, cells), many in counts.items()
    )
    return lines, kinds


def total_delta(state: State) -> float:
    """Delta that goes with what was spent or reserved."""
    rule = state.rule
    if rule is None or state.units == 0:
        return 0.0
    if rule.kind != "basic":
        return rule.budget.delta
    return rule.delta_of(state.delta_units)
