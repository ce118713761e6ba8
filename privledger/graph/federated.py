"""The two prices of what runs in a federation: as declared, and if every other party gives its
noise away. Proofs: docs/proofs/federated.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from attrs import evolve, frozen

from privledger.accounting import Cost, Relation
from privledger.graph.additive import Gaussian
from privledger.graph.fold import cost_of, fold
from privledger.graph.nodes import Federated, Node, OneOf, below, children, holds, with_children
from privledger.numerals import many
from privledger.rounding import down, up


@fold.register
def _(node: Federated, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """Declared: as on one table. Whole noise needs no trust for that; shares add up to the whole,
    and what rounding each of them costs is paid by the width that every noise has beyond its
    node's (docs/proofs/federated.md)."""
    return cost_of(node.node, relation, orders)


def alone(plan: Node) -> Node:
    """What is left of `plan` if every other party gives its noise away: no `Federated` is in it.

    >>> from privledger.graph import Gaussian
    >>> alone(Federated(Gaussian(8.0), parties=5, colluding=1, noise="shared"))
    Gaussian(noise_multiplier=4.0, shares=())
    """
    if not holds(plan, Federated):
        return plan
    if isinstance(plan, Federated):
        honest = plan.parties - plan.colluding
        return alone(plan.node) if plan.noise == "local" else share_of(plan.node, honest)
    return with_children(plan, tuple(alone(one) for one in children(plan)))


def as_released(plan: Node) -> Node:
    """What a history may itemise under `plan`: of shared noise the whole, or a share each time.

    Which of the two an owner added follows from whether it was in a run of several: the ledger
    has the plan's word for it, and both prices stand beside each other.
    """
    if not holds(plan, Federated):
        return plan
    if isinstance(plan, Federated):
        if plan.noise == "local":
            return as_released(plan.node)
        return OneOf([plan.node, share_of(plan.node, plan.parties - plan.colluding)])
    return with_children(plan, tuple(as_released(one) for one in children(plan)))


def share_of(plan: Node, honest: int) -> Node:
    """One of `honest` equal shares of each noise of `plan`, rounded to less noise."""
    if isinstance(plan, Gaussian):
        own = plan.noise_multiplier
        if honest > 1:
            root = math.isqrt(honest)
            own = own / root if root * root == honest else down(down(own) / up(math.sqrt(honest)))
        return evolve(plan, noise_multiplier=own)
    return with_children(plan, tuple(share_of(one, honest) for one in children(plan)))


@frozen
class Trust:
    """What one `Federated` asks its reader to believe.

    Attributes:
        parties, colluding, least_honest, seen_by, noise: as on the node.
    """

    parties: int
    colluding: int
    least_honest: int
    seen_by: str
    noise: str

    @property
    def text(self) -> str:
        """In words."""
        adds = "each adds the whole noise" if self.noise == "local" else (
            "each adds A SHARE of the noise")
        return (f"federated over {many(self.parties, 'party', 'parties')}, {adds}; "
                f"{self.colluding} may collude, at least {self.least_honest} honest; the sum is "
                f"seen by {self.seen_by}")


def trusts(plan: Node) -> tuple[Trust, ...]:
    """What a plan asks its reader to believe, each once."""
    return tuple(dict.fromkeys(_trusts(plan)))


def _trusts(plan: Node) -> Iterator[Trust]:
    for one in below(plan):
        if isinstance(one, Federated):
            yield Trust(one.parties, one.colluding, one.least_honest, one.seen_by, one.noise)
