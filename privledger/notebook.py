"""What a notebook shows of a plan: its tree, with multiplicities. Everything is escaped.

A ledger and a refusal show themselves; a plan is a plain record, so it is wrapped:

>>> print(Plan(Sequential([Gaussian(5.0)] * 3)))
Sequential(3 members)
    3 x Gaussian(noise_multiplier=5)
"""

from __future__ import annotations

from collections.abc import Iterator

from privledger.graph import Node
from privledger.graph.nodes import check_node
from privledger.ledger.view_figures import clean
from privledger.reports.outline import Outline, outline, plan_list


class Plan:
    """A plan to look at: `Plan(node)` as the last line of a cell, or `print(Plan(node))`."""

    def __init__(self, node: Node) -> None:
        check_node("node", node)
        self._lines = outline(node)

    def _repr_html_(self) -> str:
        return plan_list(self._lines)

    def __repr__(self) -> str:
        return "\n".join(_texts(self._lines, 0))


def _texts(line: Outline, depth: int) -> Iterator[str]:
    many = f"{line.members} x " if line.members > 1 else ""
    yield " " * (4 * depth) + many + clean(line.label)
    for child in line.children:
        yield from _texts(child, depth + 1)
