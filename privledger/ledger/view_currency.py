"""What a record spent in an individual filter, in the unit that its ledger adds up.

A filter counts squared mu or a Renyi bound at its own order; a ledger counts squared mu, zCDP rho,
a Renyi bound at the ledger's order, or epsilon. The one may be printed as the other only after
conversion, and whatever else the plan costs every record belongs to it.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from attrs import evolve, fields, frozen
from numpy.typing import NDArray

from privledger.accounting import check_relation
from privledger.errors import PrivledgerError
from privledger.graph import (
    Federated,
    IndividualFilter,
    Node,
    OneOf,
    Parallel,
    PostProcess,
    Repeat,
    Sequential,
    children,
    cost_of,
)
from privledger.graph.nodes import NODE_TYPES
from privledger.ledger.filters import FilterRule
from privledger.ledger.individual import RECORD_UNITS
from privledger.rounding import from_units, up

STEPS = 64
_MORE = 1 + 2.0**-50  # covers the few roundings of one product and one sum


@frozen
class Currency:
    """From a record's units (cap / 2**52) to the ledger's unit, never too low.

    `docs/proofs/filters.md`, "In the ledger's unit": with gdp, zcdp and rdp ledgers the price of a
    plan is convex in its filter's cap, so a record is charged along the chord from the plan
    without the filter to the plan with all of it. Epsilon is not convex: a basic ledger's
    record is charged the next of `STEPS` prices.

    Attributes:
        prices: of the plan with 0, 1/n, ..., n/n of its filter's cap, rising; n + 1 of them.
        whole: nothing better is proved than the whole plan's price.
    """

    prices: tuple[float, ...]
    whole: bool = False

    @property
    def cap(self) -> float:
        """The most a record can be charged."""
        return self.prices[-1]

    @property
    def basis(self) -> str:
        """How a record's amount is known."""
        if self.whole:
            return "individual, priced as the whole plan"
        return "individual" if len(self.prices) == 2 else f"individual, in {STEPS} steps"

    def amounts(self, taken: NDArray[np.int64]) -> NDArray[np.float64]:
        """Shape (n_records,): what records lost that took so many units of the filter."""
        low, top = self.prices[0], self.prices[-1]
        if len(self.prices) == 2:
            along = taken * ((top - low) / RECORD_UNITS * _MORE)
            return np.asarray(np.minimum((along + low) * _MORE, max(top, low)))
        steps = len(self.prices) - 1
        place = -(-taken // (RECORD_UNITS // steps))
        return np.asarray(np.array(self.prices)[np.minimum(place, steps)])

    def between(self, before: NDArray[np.int64],
                taken: NDArray[np.int64]) -> NDArray[np.float64]:
        """What `taken` added after `before`; over a scope's grants it adds up to the total."""
        if len(self.prices) == 2:
            return self.amounts(taken)
        return np.asarray(self.amounts(before + taken) - self.amounts(before))


@lru_cache(maxsize=512)
def currency(plan: Node, rule: FilterRule, relation: str, units: int, delta: float) -> Currency:
    """How records that drew on the filter in `plan` are charged in the ledger's unit.

    Args:
        plan: with one individual filter that was used.
        units: what the ledger charged for it.
        delta: that the plan was stated at.
    """
    top = from_units(units)
    if rule.kind != "basic" and not _is_convex(plan):
        return Currency((top, top), whole=True)
    parts = [step / STEPS for step in range(STEPS)] if rule.kind == "basic" else [0.0]
    try:
        prices = [from_units(_price(_with_cap(plan, part), rule, relation, delta))
                  for part in parts]
    except PrivledgerError:
        return Currency((top, top), whole=True)
    rising = np.maximum.accumulate([min(price, top) for price in prices])
    return Currency((*(float(price) for price in rising), top))


def _price(plan: Node, rule: FilterRule, relation: str, delta: float) -> int:
    return rule.price(cost_of(plan, check_relation(relation), rule.orders), delta)[0]


def _is_convex(plan: Node) -> bool:
    """Whether only sums and maxima lie above every filter; a minimum of theorems is concave."""
    if isinstance(plan, IndividualFilter):
        return True
    held = any(_holds_filter(child) for child in children(plan))
    return not held or (isinstance(plan, Sequential | Repeat | Parallel | OneOf | Federated)
                        and all(_is_convex(child) for child in children(plan)))


def _holds_filter(node: Node) -> bool:
    return isinstance(node, IndividualFilter) or any(map(_holds_filter, children(node)))


def _with_cap(node: Node, part: float) -> Node:
    """The plan with so much of its filters' caps."""
    if isinstance(node, IndividualFilter):
        return PostProcess("a filter nobody used") if part == 0 else evolve(
            node, cap=up(node.cap * part))
    changed: dict[str, Any] = {}
    for attribute in fields(type(node)):
        value = getattr(node, attribute.name)
        if isinstance(value, NODE_TYPES):
            changed[attribute.name] = _with_cap(value, part)
        elif isinstance(value, tuple) and value and isinstance(value[0], NODE_TYPES):
            changed[attribute.name] = tuple(_with_cap(child, part) for child in value)
    return evolve(node, **changed) if changed else node
