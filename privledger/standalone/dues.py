"""What a plan is charged at least under a filter, or of a budget with a delta."""

from __future__ import annotations

import math
from fractions import Fraction

from .convert import DELTA_UNIT, UNIT, epsilon_of_mu, epsilon_of_renyi, epsilon_of_rho
from .distributions import epsilon_of_losses, ranged
from .leaves import Price
from .nodes import Node
from .prices import price
from .reading import Bad, NoPrice

ATTAINED = {"Gaussian", "Laplace", "PoissonSample", "Sequential", "Repeat", "Group",
            "AsReplaceOne", "LabelOnly", "Federated", "Public", "PostProcess"}
UNPAIRED = {"DiscreteGaussian", "Parallel", "FixedSizeSample", "RandomAllocation", "Tuning"}


class Due:
    """What a plan costs at least, in units of a filter.

    `near` allows for what is not exact; `about` says which node is priced from below only.
    """

    def __init__(self, units: Fraction | int, delta_units: int = 0, near: float = 1e-9,
                 about: str = "") -> None:
        self.units, self.delta_units, self.near, self.about = units, delta_units, near, about


def from_below(plan: Node) -> str:
    """Node types in a plan whose Renyi bound is priced from below; empty if none."""
    rough = plan.kinds & {"FixedSizeSample", "RandomAllocation", "Tuning", "DiscreteLaplace"}
    waiting, seen = [plan], set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
            if node.name == "PoissonSample" and price(node.inner, "add_remove").exact is None:
                rough |= {node.name}
    return ", ".join(sorted(rough))


def due(plan: Node, relation: str, kind: str, order: float, budget: tuple[float, float],
        delta: float, shared: bool = True) -> Due:
    """The price of a plan under one filter; `shared` if it was charged a delta.

    Raises:
        Bad: it has none, so it was never granted. NoPrice: none in this reader.
    """
    found = price(plan, relation)
    if kind != "basic":
        failed = -((-Fraction(found.failure) * DELTA_UNIT) // 1)
        value = {"gdp": found.gdp, "zcdp": found.zcdp}.get(kind)
        value = found.renyi(order) if value is None else value
        if not value < math.inf:
            raise Bad(f"a plan that has no price under a {kind} filter")
        return Due(Fraction(value) * UNIT, failed, 1e-9, from_below(plan) if kind == "rdp" else "")
    if found.failure == 0 and (found.pure <= budget[0] * (1 - 1e-12)
                               or (found.pure <= budget[0] * (1 + 1e-12) and not shared)):
        return Due(Fraction(found.pure) * UNIT)
    return due_with_delta(plan, relation, found, delta if delta > 0 else budget[1])


def node_failing(plan: Node) -> bool:
    """Whether a plan is nothing but an asserted node that may fail."""
    return plan.name == "Asserted" and plan["delta"] > 0 and plan["epsilon"] < 300


def renyi_only(plan: Node, relation: str) -> bool:
    """Whether something in a plan has a Renyi bound and no distribution of losses."""
    waiting, seen = [plan], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += node.inside
        if node.name == "AssertedZCDP" or (
                node.name == "IndividualFilter" and node["kind"] == "renyi"):
            return True
        if node.name in ("Tuning", "Group", "AsReplaceOne") and node.prices:
            made = next(iter(node.prices.values()))
            if made.exact is None and made.pure == math.inf and (
                    node.name == "Tuning" or node.inner.kinds & UNPAIRED):
                return True
    return False


def nodes_of(plan: Node) -> set[Node]:
    """All nodes of a plan."""
    waiting, seen = [plan], set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
    return seen


def by_renyi(plan: Node, found: Price, delta: float) -> float:
    """The best of many orders, those of filters among them: beyond its own one bounds nothing.

    Every sixteenth of 400 orders first, then all about the best: epsilon falls with the order, and
    then it rises. One order of a sample may take a hundredth of a second.
    """
    orders = [1 + 10 ** (place / 60 - 2) for place in range(400)]
    filters = [node["order"] for node in nodes_of(plan) if node.fields.get("kind") == "renyi"]
    known: dict[float, float] = {}

    def epsilon(order: float) -> float:
        if order not in known:
            bound = found.renyi(order)
            known[order] = epsilon_of_renyi(order, bound, delta) if bound < math.inf else math.inf
        return known[order]
    best = min(range(0, 400, 16), key=lambda place: epsilon(orders[place]))
    usable = [epsilon(order) for order in orders[max(0, best - 15):best + 16]]
    usable += [epsilon(order) for order in filters]
    if found.zcdp < math.inf:
        usable.append(epsilon_of_rho(found.zcdp, delta) if found.zcdp else 0.0)
    return min(usable, default=math.inf)


def due_with_delta(plan: Node, relation: str, found: Price, share: float) -> Due:
    """Of a whole plan at its part of delta."""
    if not share > 0:
        if found.failure or found.pure == math.inf:
            raise Bad("a plan that is not pure, and no delta")
        return Due(Fraction(found.pure) * UNIT)
    shared = -((-Fraction(share) * DELTA_UNIT) // 1)
    if found.failure >= share:
        raise Bad("a plan that fails more often than its delta says")
    if found.exact is not None:
        return Due(Fraction(epsilon_of_mu(math.sqrt(found.exact), share)) * UNIT, shared)
    if node_failing(plan):
        # An openly failing coin is the worst of all that are (epsilon, delta)-DP.
        likely = (share - found.failure) / (1 - found.failure)
        least = math.log(max(1.0, math.exp(found.pure) - likely * (1 + math.exp(found.pure))))
        return Due(Fraction(least) * UNIT, shared)
    if renyi_only(plan, relation):
        least = by_renyi(plan, found, share)
        return Due(Fraction(least if least < math.inf else 0.0) * UNIT, shared, 0.02,
                   "Renyi bounds, roughly")
    try:
        least = min(found.pure, epsilon_of_losses(plan, relation, share))
    except NoPrice as what:
        return Due(0, shared, 0.0, f"{what}, of which only the delta is compared")
    if not plan.kinds <= ATTAINED:
        # A distribution that only dominates may say more than Renyi bounds, which count then.
        least = min(least, by_renyi(plan, found, share))
    if any(map(ranged, nodes_of(plan))):
        # The best bound of choices that are made one after the other lies between this and those.
        least = min(least, epsilon_of_losses(plan, relation, share, attained=True))
    return Due(Fraction(least) * UNIT, shared, 0.02, "a composition, to a percent")
