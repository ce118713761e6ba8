"""Plans that ran in a federation: what they cost if every other party gives its noise away."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction

from .convert import UNIT, epsilon_of
from .dues import due, due_with_delta
from .nodes import Node, Table
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
        fields = fields | {"noise_multiplier": share_of(fields["noise_multiplier"], honest)}
    return Node(node.name, fields, tuple([alone(one, honest) for one in node.inside]))


def as_released(plan: Node | None, table: Table) -> Node | None:
    """What may be itemised under a plan: of shared noise the whole, or a share each time."""
    if plan is None or "Federated" not in plan.kinds:
        return plan
    if plan.name == "Federated" and plan["noise"] == "shared":
        share = shared(plan.inner, plan["parties"] - plan["colluding"], table)
        return table.made("OneOf", {}, (plan.inner, share))
    inside = [as_released(one, table) for one in plan.inside]
    return table.made(plan.name, plan.fields, tuple([one for one in inside if one is not None]))


def shared(node: Node, honest: int, table: Table) -> Node:
    """A plan with one of `honest` shares of every noise, as the package rounds it."""
    fields = node.fields
    if node.name == "Gaussian":
        fields = fields | {"noise_multiplier": share_of(fields["noise_multiplier"], honest)}
    return table.made(node.name, fields, tuple([shared(one, honest, table)
                                                for one in node.inside]))


def share_of(noise: float, honest: int) -> float:
    """Noise over the root of `honest`: exact for squares, else two floats below."""
    root = math.isqrt(honest)
    if root * root == honest:
        return noise / root if honest > 1 else noise
    under = math.nextafter(noise, -math.inf) / math.nextafter(math.sqrt(honest), math.inf)
    return math.nextafter(under, -math.inf)


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
