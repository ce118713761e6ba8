"""Plans that ran in a federation: what they cost if every other party gives its noise away."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from .convert import UNIT, epsilon_of
from .dues import due, due_with_delta
from .nodes import Node
from .prices import price
from .reading import MALFORMED, Bad, NoPrice

Promise = tuple[str, str, float, tuple[float, float]]  # relation, filter, order, budget


def alone(node: Node, honest: int = 1) -> Node:
    """A plan without its federations: of noise that `honest` parties share, one share is left."""
    if node.name == "Federated":
        shared = node["noise"] == "shared"
        return alone(node.inner, node["parties"] - node["colluding"] if shared else 1)
    fields = node.fields
    if honest > 1 and node.name == "Gaussian":
        fields = fields | {"noise_multiplier": fields["noise_multiplier"] / math.sqrt(honest)}
    return Node(node.name, fields, tuple([alone(one, honest) for one in node.inside]))


def federations(plan: Node) -> list[Node]:
    """Every `Federated` of a plan, each once."""
    if "Federated" not in plan.kinds:
        return []
    found, waiting = dict.fromkeys([plan]), [plan]
    while waiting:
        more = [one for one in waiting.pop().inside if one not in found]
        found.update(dict.fromkeys(more))
        waiting += more
    return [one for one in found if one.name == "Federated"]


def alone_at_least(plan: Node, relation: str, delta: float) -> float:
    """Epsilon that a plan costs at least at `delta` if every other party gives its noise away.

    Raises:
        Bad: it has no price. NoPrice: none in this reader.
    """
    own = alone(plan)
    found = due_with_delta(own, relation, price(own, relation), delta)
    if not found.units:
        raise NoPrice(found.about)
    return float(found.units / UNIT) * (1 - max(found.near, 1e-9))


def told(plan: Node, units: int, delta_units: int, delta: float, promise: Promise) -> list[str]:
    """Who took part in a plan, and both of its prices; nothing if it ran in no federation."""
    if "Federated" not in plan.kinds:
        return []
    relation, kind, order, budget = promise
    lines = [f"federated: {one['parties']} parties ({one['colluding']} may collude, "
             f"{one['least_honest']} honest at least), noise {one['noise']}, seen by "
             f"{one['seen_by']}" for one in federations(plan)]
    try:
        own = units
        if any(one["noise"] == "shared" for one in federations(plan)):
            own = max(own, math.ceil(due(alone(plan), relation, kind, order, budget, delta,
                                         delta_units != 0).units))
        prices = [shown(epsilon_of(kind, Fraction(one, UNIT), order, budget[1]))
                  for one in (units, own)]
    except (NoPrice, Bad, *MALFORMED):
        prices = ["not recomputed"] * 2
    return [*lines, f"federated: declared epsilon {prices[0]}, alone epsilon {prices[1]}"]


def shown(value: float) -> str:
    """Six digits, never below what it is."""
    return str(Context(prec=6, rounding=ROUND_CEILING).create_decimal(value).normalize())
