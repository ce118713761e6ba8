"""What was released under grants: equal releases merged, and which rest on unverified claims."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from privledger.graph import from_json, label
from privledger.ledger.events import Released
from privledger.ledger.origins import asserted_kinds

VOUCHED = "asserted:"
"""A question whose sensitivity somebody merely vouches for begins like this."""


@frozen
class ReleaseLine:
    """Equal releases under one grant: how often, and what they asked.

    Attributes:
        mechanism: as `label` writes it, with the samples, parts and filters above it.
        question: the text of the query. count: how many such releases there were.
        cells: noisy numbers in each of them.
        asserted: the sensitivity of the query is an unverified claim.
        kind: the mechanism's node type.
    """

    mechanism: str
    question: str
    count: int
    cells: int
    asserted: bool
    kind: str = ""

    @property
    def vouched(self) -> bool:
        """Whether the answer rests on unverified claims: for its query, or for its mechanism."""
        return self.asserted or bool(asserted_kinds([self.kind]))


def lines_of(releases: Iterable[Released]) -> tuple[ReleaseLine, ...]:
    """Equal releases of one grant merged, in the order of the first of each.

    Raises:
        PrivledgerError, KeyError, TypeError, ValueError, IndexError: malformed; the audit has a
            finding for it.
    """
    counts: dict[tuple[str, str, str, int], int] = {}
    for released in releases:
        names = []
        for node in released.nodes:
            leaf = from_json(node.leaf)
            under = " > ".join(str(step["kind"]) for step in node.under)
            names.append((type(leaf).__name__,
                          f"{label(leaf)} under {under}" if under else label(leaf)))
        for place, question, cells in released.items:
            key = (*names[place], str(released.questions[question]), int(cells))
            counts[key] = counts.get(key, 0) + 1
    return tuple(ReleaseLine(mechanism, question, many, cells, question.startswith(VOUCHED), kind)
                 for (kind, mechanism, question, cells), many in counts.items())
