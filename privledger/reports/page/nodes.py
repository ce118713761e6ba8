"""Every node of a ledger's plans once, with its price: what the tree of the page grows from."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from attrs import define, field, frozen

from privledger.accounting import Cost, Relation, check_relation
from privledger.errors import InvalidValue, PrivledgerError
from privledger.graph import (
    Node,
    PostProcess,
    Public,
    Repeat,
    children,
    cost_of,
    label,
    replaced_cost,
)
from privledger.graph.remember import own_copy, unshared
from privledger.ledger import FilterRule
from privledger.reports.safe_text import clean
from privledger.reports.steps import Steps, silent
from privledger.rounding import as_written, from_units, upward

MOST_EXACT = 300
MOST_OTHER = 20_000
MOST_BY_DISTRIBUTION = 60
_Price = tuple[float | None, float | None]


@frozen
class NodeRow:
    """One distinct node.

    Attributes:
        kind, parameters: type and its own parameters, as text.
        below: (row, how many equal members) of the nodes directly below, in order.
        repeats: how often what is below runs.
        amount: cost of one run in the filter's unit, rounded up; None if it has no price alone.
        epsilon: what one run certifies at the budget's delta by that filter; None likewise.
        other: the same in a replace_one history, where the ledger's relation is add_remove.
        size: nodes in the tree below and itself, equal members counted each.
    """

    kind: str
    parameters: str
    below: tuple[tuple[int, int], ...]
    repeats: int
    amount: float | None
    epsilon: float | None
    other: float | None
    size: int


@define
class NodeTable:
    """Distinct nodes, in the order they were first met. Filled by `add`, priced by `rows`.

    Attributes:
        costs: of whole plans, by row, as far as they have one; once `rows` was called.
    """

    _places: dict[Node, int] = field(factory=dict)
    _below: list[tuple[tuple[int, int], ...]] = field(factory=list)
    _sizes: list[int] = field(factory=list)
    costs: dict[int, Cost] = field(factory=dict)

    def add(self, node: Node) -> int:
        """The row of a copy of `node`, whatever is below it added first."""
        return self._add(own_copy(node))

    def _add(self, node: Node) -> int:
        place = self._places.get(node)
        if place is not None:
            return place
        counts: dict[int, int] = {}
        for child in children(node):
            row = self._add(child)
            counts[row] = counts.get(row, 0) + 1
        place = self._places[node] = len(self._below)
        self._below.append(tuple(counts.items()))
        self._sizes.append(1 + sum(self._sizes[row] * many for row, many in counts.items()))
        return place

    def rows(self, rule: FilterRule | None, relation: str,
             plans: Collection[int] = (), steps: Steps = silent) -> tuple[NodeRow, ...]:
        """Every node with its price. O(distinct nodes).

        Args:
            plans: rows of whole plans. Of very many nodes, only these get the other price.
        """
        nodes = list(self._places)
        own: list[_Price] = [(None, None)] * len(nodes)
        other = list(own)
        if rule is not None:
            swapped = set(range(len(nodes)) if len(nodes) <= MOST_OTHER else plans)
            with unshared():
                own, other = prices(nodes, rule, relation,
                                    swapped if relation == "add_remove" else set(), steps,
                                    keep=plans, costs=self.costs)
        return tuple(
            NodeRow(type(node).__name__, parameters(node), below,
                    node.count if isinstance(node, Repeat) else 1, amount, epsilon, replaced, size)
            for node, below, (amount, epsilon), (_, replaced), size
            in zip(nodes, self._below, own, other, self._sizes, strict=True))


def parameters(node: Node) -> str:
    """A node's own parameters, without its type."""
    return clean(label(node).partition("(")[2][:-1], 200)


def prices(nodes: Sequence[Node], rule: FilterRule, relation: str,
           swapped: Collection[int] = (), steps: Steps = silent, *, keep: Collection[int] = (),
           costs: dict[int, Cost] | None = None) -> tuple[list[_Price], list[_Price]]:
    """(amount, epsilon) of one run of each node by the ledger's filter; None where unpriced.

    Args:
        swapped: places that are also priced for a replaced record, which is the second list.
        keep: places of which the cost itself is put into `costs`.
    """
    wanted = check_relation(relation)
    units: list[int | None] = []
    others: list[int | None] = []
    # Both at once, while what is below is still in mind.
    for place, node in enumerate(steps("nodes priced", nodes)):
        dear, cost = place < MOST_BY_DISTRIBUTION, _cost(node, wanted, rule)
        if cost is not None and costs is not None and place in keep:
            costs[place] = cost
        units.append(_units(node, cost, rule, dear))
        others.append(_units(node, _replaced(node, cost, rule), rule, dear)
                      if place in swapped else None)
    return _priced(units, rule), _priced(others, rule)


def _priced(units: Sequence[int | None], rule: FilterRule) -> list[_Price]:
    epsilons = _epsilons({one for one in units if one is not None}, rule)
    return [(None, None) if one is None else (from_units(one), epsilons[one]) for one in units]


def _cost(node: Node, relation: Relation, rule: FilterRule) -> Cost | None:
    try:
        return cost_of(node, relation, rule.orders)
    except (PrivledgerError, InvalidValue, OverflowError):
        return None


def _replaced(node: Node, cost: Cost | None, rule: FilterRule) -> Cost | None:
    """Of a replaced record, which is two steps of the ledger's own relation."""
    try:
        return None if cost is None else replaced_cost(node, cost, rule.orders)
    except (PrivledgerError, InvalidValue, OverflowError):
        return None


def _units(node: Node, cost: Cost | None, rule: FilterRule, dear: bool) -> int | None:
    if isinstance(node, PostProcess | Public):
        return 0
    try:
        if cost is None or (
                rule.kind == "basic" and not dear and (
                    cost.pure_part is None
                    or cost.pure_part > as_written(rule.budget.epsilon))):
            return None  # only a distribution would tell, and there are too many of them
        return rule.price(cost, rule.budget.delta)[0]
    except (PrivledgerError, InvalidValue, OverflowError):
        return None


def _epsilons(units: set[int], rule: FilterRule) -> dict[int, float]:
    """Epsilon of every amount. Very many are put into cells, each priced at its dearest amount."""
    if len(units) <= MOST_EXACT:
        return {one: rule.epsilon_of(one) for one in units}
    positive = sorted((one for one in units if one), reverse=True)
    width = max((math.log(positive[0]) - math.log(positive[-1])) / MOST_EXACT, 1e-3)
    found, dearest, epsilon = {0: 0.0}, math.inf, 0.0
    for one in positive:
        if not math.log(one) > dearest - width or dearest == math.inf:
            dearest, epsilon = math.log(one), rule.epsilon_of(one)
        found[one] = epsilon
    return found


def row_values(row: NodeRow) -> list[Any]:
    """A row for the page's JSON; texts are looked up elsewhere."""
    return [[part for pair in row.below for part in pair], row.repeats, short(row.amount),
            short(row.epsilon), short(row.other), row.size]


def short(value: float | None, digits: int = 4) -> float | str | None:
    """Rounded up to `digits` significant digits, so that the page never says too little."""
    if value is None or value == 0:
        return value
    shown = upward(value, digits)
    return shown if math.isinf(value) else float(shown)
