"""What a plan says of tables that differ in several records: more than its epsilon and delta."""

from __future__ import annotations

from functools import singledispatch

from attrs import evolve, frozen

from privledger.accounting import Cost, Relation, delta_at
from privledger.errors import PrivledgerError
from privledger.graph import Group, Node, Repeat, Sequential, cost_of
from privledger.mechanisms import Gaussian, Laplace
from privledger.rounding import down, multiply_up

MOST_RECORDS, MOST_APART = 32, 0.8
PARTS = (0.0, 0.25, 0.5, 0.75)


@frozen
class PlanClaims:
    """(epsilon, delta) pairs that hold of tables `records` apart, if the plan is what it says."""

    records: int
    claims: tuple[tuple[float, float], ...]


@singledispatch
def for_several(node: Node, records: int) -> Node:
    """The node as it is for tables that differ in so many records.

    Noise is added to a query that moves so many times as far; of any other node the accountant
    knows what a group loses.
    """
    return Group(records, node)


@for_several.register
def _(node: Laplace, records: int) -> Node:
    return evolve(node, l1_sensitivity=multiply_up(node.l1_sensitivity, float(records)))


@for_several.register
def _(node: Gaussian, records: int) -> Node:
    return evolve(node, noise_multiplier=down(node.noise_multiplier / records))


@for_several.register
def _(node: Repeat, records: int) -> Node:
    return evolve(node, node=for_several(node.node, records))


@for_several.register
def _(node: Sequential, records: int) -> Node:
    return evolve(node, nodes=tuple(for_several(one, records) for one in node.nodes))


def _cost(plan: Node, relation: Relation, records: int) -> Cost | None:
    """What a group pays; None where nobody knows."""
    try:
        return cost_of(plan if records == 1 else for_several(plan, records), relation)
    except PrivledgerError:
        return None


def _apart(cost: Cost | None) -> float:
    """The largest distance in total variation that the plan allows."""
    try:
        return 1.0 if cost is None else delta_at(cost, 0.0).delta
    except PrivledgerError:
        return 1.0


def plan_claims(plan: Node, epsilon: float, relation: Relation,
                most: int = MOST_RECORDS) -> PlanClaims:
    """The number of records at which guesses see most, and the claims there.

    Guesses see little where both tables look alike, and nothing where a mechanism may tell them
    apart: best is a distance of about .8. docs/proofs/guessing.md has the figures.

    Args:
        epsilon: of one record, which says where claims are looked at.
        most: records.
    """
    records = 1
    for more in range(2, most + 1):
        if _apart(_cost(plan, relation, more)) > MOST_APART:
            break
        records = more
    cost, claims = _cost(plan, relation, records), []
    if cost is None:
        return PlanClaims(1, ())
    for part in PARTS:
        try:
            delta = delta_at(cost, part * records * epsilon).delta
        except PrivledgerError:
            continue
        if delta < 1:
            claims.append((part * records * epsilon, delta))
    return PlanClaims(records, tuple(claims))
