"""Plans that ran in a federation: what they cost if every other party gives its noise away."""

from __future__ import annotations

import math
from fractions import Fraction

from .convert import UNIT, epsilon_of
from .nodes import Node
from .prices import due
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


def told(plan: Node, units: int, delta_units: int, delta: float, promise: Promise) -> str:
    """Both prices of a plan as one line; empty if it ran in no federation."""
    if "Federated" not in plan.kinds:
        return ""
    relation, kind, order, budget = promise
    found, waiting = dict.fromkeys([plan]), [plan]
    while waiting:
        more = [one for one in waiting.pop().inside if one not in found]
        found.update(dict.fromkeys(more))
        waiting += more
    parties = "; ".join(
        f"{one['parties']} parties, {one['colluding']} may collude, {one['least_honest']} honest "
        f"at least, noise {one['noise']}, seen by {one['seen_by']}"
        for one in found if one.name == "Federated")
    shared = any(one.fields.get("noise") == "shared" for one in found if one.name == "Federated")
    try:
        own = due(alone(plan), relation, kind, order, budget, delta,
                  delta_units != 0).units if shared else units
        prices = [f"{epsilon_of(kind, Fraction(one) / UNIT, order, budget[1]):.6g}"
                  for one in (units, max(units, own))]
    except (NoPrice, Bad, *MALFORMED):
        prices = ["not recomputed"] * 2
    return f"federated: declared epsilon {prices[0]}, alone epsilon {prices[1]}; {parties}"
