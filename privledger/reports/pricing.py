"""What a plan costs, by which theorem, and whether a ledger would grant it. Opens no data."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from privledger.accounting import check_relation
from privledger.errors import BudgetExceeded
from privledger.graph import Node, certify, cost_of
from privledger.ledger import (
    Budget,
    Charge,
    FilterRule,
    State,
    booked_by_filters,
    choose_filter,
    decide,
    fixed_filter,
    own_epsilon,
)
from privledger.ledger.events import Granted
from privledger.ledger.view_figures import Amount, summed
from privledger.rounding import from_units


@frozen
class PriceFigures:
    """A plan before the ledger.

    Attributes:
        epsilon, delta, relation: what is proved for the plan alone, by the best accountant.
        theorem, accountant, order: what that rests on.
        filter, filter_theorem, unit: how the ledger adds plans up.
        amount, cap: the plan and the whole budget, in `unit`.
        charged: epsilon that the ledger books, at the budget's delta; after rounding and by its
            filter, so never below what an honest report may say.
        charged_delta: delta that goes with it.
        spent, left: epsilons of the ledger before the plan.
        total, total_delta: what the ledger would have spent after it.
        refusal: the ledger's own words, or None if it would be granted.
        fixes: where this first plan fixes the filter for the ledger's life: every filter that the
            ledger could have, and the epsilon that it would book for the plan; else empty.
        cheaper: where an earlier first plan fixed it (`auto`): the filters that would book less.
    """

    epsilon: float
    delta: float
    relation: str
    theorem: str
    accountant: str
    order: float | None
    filter: str
    filter_theorem: str
    unit: str
    amount: float
    cap: float
    charged: float
    charged_delta: float
    spent: float
    left: float
    total: float
    total_delta: float
    refusal: str | None
    fixes: tuple[tuple[str, float], ...] = ()
    cheaper: tuple[tuple[str, float], ...] = ()
    _error: BudgetExceeded | None = None
    _charge: Charge | None = None

    @property
    def fits(self) -> bool:
        """Whether the ledger would grant the plan now."""
        return self.refusal is None

    @property
    def charge(self) -> Charge:
        """What the ledger would book, in scaled integers."""
        assert self._charge is not None
        return self._charge

    @property
    def error(self) -> BudgetExceeded | None:
        """The typed refusal, for a caller that has to stop."""
        return self._error


def rule_for(node: Node, budget: Budget, relation: str, filter: str) -> FilterRule:
    """The filter a new ledger would use if `node` were its first plan."""
    if filter == "auto":
        return choose_filter(cost_of(node, check_relation(relation)), budget)
    return fixed_filter(filter, budget)


def price_plan(
    node: Node,
    delta: float,
    *,
    budget: Budget,
    relation: str = "add_remove",
    filter: str = "auto",
    state: State | None = None,
    data: str = "",
    labels: Mapping[str, str] | None = None,
    everywhere: bool = False,
) -> PriceFigures:
    """Price `node` against a fresh ledger with `budget`, or against the `state` of one.

    Args:
        delta: what the plan is stated at; 0 for pure DP.
        state: of an existing ledger; then its own budget, relation and filter count.
        data, labels: the table's name, and what the request carries: caps that match them count.
        everywhere: the table is not known, so every cap counts.

    Raises:
        UnsupportedNode, RelationMismatch: it cannot be priced, so it would be refused.
    """
    known = state or State()
    if state is not None and state.budget is not None:
        budget, relation, filter = state.budget, state.relation, state.filter_asked
    checked = check_relation(relation)
    rule = known.rule or rule_for(node, budget, checked, filter)
    certificate = certify(node, delta, checked)
    units, delta_units = rule.price(cost_of(node, checked), delta)
    asked = None if everywhere else Granted(
        grant="", learner="", data=data, plan={}, delta=delta, units=units,
        delta_units=delta_units, labels=dict(labels or {}))
    decision = decide(known, rule, cost_of(node, checked), delta, asked)
    error = None if isinstance(decision, Charge) else decision.error(
        own_epsilon(node, rule, checked))
    alone = Amount(units, delta_units, rule)
    before = Amount(known.units, known.delta_units, rule)
    after = summed((before, alone), rule)
    auto = known.rule is not None and filter == "auto"
    booked = (booked_by_filters(node, delta, budget, checked, rule)
              if auto or known.rule is None else ())
    return PriceFigures(
        epsilon=certificate.epsilon, delta=delta, relation=checked,
        theorem=certificate.theorem, accountant=certificate.accountant,
        order=certificate.order, filter=rule.kind, filter_theorem=rule.theorem,
        unit=rule.unit, amount=alone.own.value, cap=from_units(rule.cap_units),
        charged=alone.epsilon.value, charged_delta=alone.delta.value,
        spent=before.epsilon.value, left=before.left.value, total=after.epsilon.value,
        total_delta=after.delta.value,
        refusal=None if error is None else str(error), error=error,
        charge=Charge(units, delta_units),
        fixes=() if auto else booked,
        cheaper=tuple(one for one in booked if auto and one[1] < alone.epsilon.value),
    )
