"""Parts of a plan that somebody vouches for: no guard sees what they read."""

from __future__ import annotations

from privledger.errors import UnsupportedNode
from privledger.graph.nodes import IndividualFilter, Node, below, holds
from privledger.mechanisms import Asserted, AssertedZCDP


def runs_elsewhere(plan: Node) -> bool:
    """Whether somebody vouches for a part of `plan`: it runs where no guard sees what it reads."""
    return holds(plan, Asserted) or holds(plan, AssertedZCDP)


def check_filtered(plan: Node) -> None:
    """Refuse a filter around what runs elsewhere: its records would never be told to stop.

    Raises:
        UnsupportedNode: nothing was read.
    """
    for one in below(plan):
        if isinstance(one, IndividualFilter) and one.node is not None and runs_elsewhere(one.node):
            raise UnsupportedNode("an individual filter stops no record in what runs elsewhere "
                                  "(Asserted, AssertedZCDP): reserve that without a filter; "
                                  "nothing was read")
