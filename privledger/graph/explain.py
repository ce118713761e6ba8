"""Why a price is what it is: theorem, accountant, bounds from both sides, the alternatives."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

from attrs import frozen

from privledger.accounting import (
    Certificate,
    Cost,
    Relation,
    check_relation,
    epsilon_at,
    epsilon_at_least,
    promise,
)
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.graph.fold import cost_of
from privledger.graph.nodes import NODES, Node, Repeat, canonical, children, to_json
from privledger.numerals import many
from privledger.rounding import downward, exact, probability, upward

_LONG = {
    "pure": "sum of pure epsilons",
    "gdp": "Gaussian DP",
    "zcdp": "zero-concentrated DP",
    "rdp": "Renyi DP",
    "pld": "privacy-loss distribution",
}
_LOOSER = {
    "pure": "adds worst cases, which rarely coincide; delta helps little",
    "gdp": "every part is replaced by the Gaussian that dominates it, and samples of Gaussians "
           "count as whole tables",
    "zcdp": "every part is replaced by a Gaussian's Renyi curve that lies above its own",
    "rdp": "keeps one moment of the loss at a time; the conversion to delta loses the rest",
    "pld": "this pair dominates without being attained, and its product costs more than the "
           "moments",
}


NO_DELTA = "needs delta above 0 (and above what is asserted)"


@frozen
class Alternative:
    """What another accountant says.

    Attributes:
        accountant: its name. epsilon: nats; None if it proves nothing here. why: in words.
    """

    accountant: str
    epsilon: float | None
    why: str


@frozen
class Explanation:
    """A price with its reasons; `str` gives the text.

    Attributes:
        certificate: the smallest bound that is proved, and its theorem.
        relation: the neighbouring relation it is stated for.
        lower: no accountant can say less, nats; 0 if nothing is known.
        alternatives: the other accountants.
    """

    certificate: Certificate
    relation: str
    lower: float
    alternatives: tuple[Alternative, ...]

    @property
    def epsilon(self) -> float:
        """Upper bound in nats."""
        return self.certificate.epsilon

    def as_dict(self) -> dict[str, Any]:
        """For JSON: the price, its theorem, the order or grid it rests on, and what did not win."""
        found = self.certificate
        where = None if found.pld is None else {
            "mesh": found.pld.mesh, "points": found.pld.points, "tilt": found.pld.tilt,
            "direction": found.pld.direction}
        return {
            "epsilon": found.epsilon, "delta": found.delta, "relation": self.relation,
            "accountant": found.accountant, "theorem": found.theorem, "order": found.order,
            "distribution": where, "lower": self.lower,
            "alternatives": [{"accountant": one.accountant, "epsilon": one.epsilon,
                              "why": one.why} for one in self.alternatives],
        }

    def __str__(self) -> str:
        found = self.certificate
        lines = [
            f"epsilon <= {upward(found.epsilon)} at delta {exact(found.delta)}, "
            f"{promise(self.relation)}",
            f"  proved by   {found.theorem}",
            f"  accountant  {found.accountant}: {_LONG[found.accountant]}{_where(found)}",
            "  at least    " + _below(self.lower, found.epsilon),
            "other accountants",
        ]
        for one in self.alternatives:
            value = "-" if one.epsilon is None else upward(one.epsilon)
            lines.append(f"  {one.accountant:<5}{value:<12}{one.why}")
        return "\n".join(lines)


def _where(found: Certificate) -> str:
    if found.order is not None:
        return f", order {found.order:g}"
    price = found.pld
    if price is None:
        return ""
    if not price.points:
        return ", in closed form"
    if price.chosen:
        return f", {price.points} places in one range, {price.mesh:.3g} apart"
    lane = "" if price.direction == "both" else f", for a record that is {price.direction}d"
    lane = lane.replace("addd", "added")
    if not price.mesh:
        return f", {price.points} frequencies, tilt {price.tilt:.3g}{lane}"
    return f", mesh {price.mesh:.3g}, {price.points} points, tilt {price.tilt:.3g}{lane}"


def _below(lower: float, upper: float) -> str:
    if lower <= 0:
        return "no lower bound is proved for these nodes"
    gap = upward(max(upper / lower - 1, 0.0), 2)
    return f"{downward(lower)} for every accountant (the bounds are {gap} apart, relative)"


def explain(
    node: Node, delta: float = 0.0, relation: Relation = "add_remove", *, lower: bool = True
) -> Explanation:
    """The price of `node` at `delta`, with everything it rests on.

    Args:
        delta: failure probability in [0, 1).
        relation: `add_remove`, `replace_one` or `replace_label`.
        lower: whether to compute a bound from below too (about as costly as the price).

    Raises:
        InvalidValue: a number that can never be right.
        UnsupportedNode: no proof at hand.

    >>> print(str(explain(Gaussian(1.0), 1e-5)).splitlines()[0])
    epsilon <= 4.37718 at delta 1e-05, add_remove
    """
    chance = probability("delta", delta, zero=True)
    cost = cost_of(node, check_relation(relation))
    best = epsilon_at(cost, chance)
    others = tuple(_alternative(cost, chance, name, best) for name in _LONG
                   if name != best.accountant)
    least = epsilon_at_least(cost, chance) if lower and chance > 0 else 0.0
    if least > best.epsilon * (1 + 1e-9):
        least = 0.0  # rounding at the very ends: rather say nothing
    return Explanation(best, relation, min(least, best.epsilon), others)


def _alternative(cost: Cost, delta: float, name: str, best: Certificate) -> Alternative:
    try:
        found = epsilon_at(cost, delta, name)
    except UnsupportedNode as error:
        return Alternative(name, None, _reason(cost, name, str(error)))
    except InvalidValue:
        return Alternative(name, None, NO_DELTA)
    near = found.epsilon <= best.epsilon * (1 + 1e-5) + 1e-12
    return Alternative(name, found.epsilon, "says the same" if near else _LOOSER[name])


def _reason(cost: Cost, name: str, error: str) -> str:
    if name == "pure" and cost.pure == math.inf:
        return "some part has no pure epsilon"
    if name == "zcdp" and cost.zcdp == math.inf:
        return "some part has no zero-concentrated bound"
    if name == "gdp" and cost.gdp_squared == math.inf:
        return "some part has no Gaussian-DP bound"
    return error


# --- A networkx view of a node tree, for queries, drawings and export.


if TYPE_CHECKING:
    import networkx as nx

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST_SHOWN = 8  # numbers of a list


def label(node: Node) -> str:
    """One line: the type and its own parameters."""
    parts = []
    row = NODES[type(node).__name__]
    for name in (str(one.name) for one in row.fields.values() if one.name != row.child):
        value = getattr(node, name)
        if isinstance(value, float):
            parts.append(f"{name}={value:.6g}")
            continue
        shown = str(value)
        if isinstance(value, tuple):
            first = value if len(value) <= MOST_SHOWN else value[:3]
            more = f", and {len(value) - 3} more" if len(first) < len(value) else ""
            shown = "(" + ", ".join(f"{item:.3g}" for item in first) + more + ")"
        if value == () or value == "":
            continue
        parts.append(f"{name}={shown}")
    if row.child == "nodes":
        parts.append(many(len(children(node)), "member"))
    return f"{type(node).__name__}({', '.join(parts)})"


def view(node: Node) -> nx.DiGraph:
    """A frozen directed tree; each vertex has `kind`, `label`, `depth`, `multiplicity`, `json`.

    Vertices are paths such as "0", "0.2": the position below each ancestor.
    """
    import networkx

    graph: Any = networkx.DiGraph()
    stack: list[tuple[str, Node, int, int]] = [("0", node, 0, 1)]
    while stack:
        path, current, depth, times = stack.pop()
        graph.add_node(path, kind=type(current).__name__, label=label(current), depth=depth,
                       multiplicity=times, json=canonical(to_json(current)))
        below = times * current.count if isinstance(current, Repeat) else times
        for position, child in enumerate(children(current)):
            name = f"{path}.{position}"
            stack.append((name, child, depth + 1, below))
            graph.add_edge(path, name)
    return networkx.freeze(graph)


def graphml(node: Node) -> str:
    """The view as GraphML text. Characters that XML cannot carry become "?"."""
    import networkx

    whole = view(node).copy()
    for _, held in whole.nodes(data=True):
        held |= {key: _NO_XML.sub("?", value) for key, value in held.items()
                 if isinstance(value, str)}
    return "\n".join(networkx.generate_graphml(whole))
