"""What would change the number: other deltas, other accountants."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from privledger.accounting import Cost, check_relation, sequential
from privledger.errors import InvalidValue, PrivledgerError
from privledger.graph import Node, cost_of, explain, quick_answers
from privledger.ledger import Budget, FilterRule
from privledger.ledger.view import View
from privledger.reports.safe_text import clean

DELTAS = tuple(10.0**-power for power in range(12, 1, -1))
MOST_ROWS = 40
"""Distinct nodes of a history of which a distribution is made: it takes its time."""
MOST_CURVES = 2000
"""Distinct nodes of which Renyi curves are added up."""


@frozen
class Compared:
    """One accountant's answer about the whole history, as if all of it had been fixed first."""

    accountant: str
    epsilon: float | None
    why: str


@frozen
class WhatIf:
    """Curve and comparison.

    Attributes:
        curve: (delta, epsilon) by the ledger's own filter; empty where it has one point only.
        compared: the ledger and accountants, the tightest first; empty if nothing was spent.
        lower: nobody can prove less than this; 0 if nothing is known.
        note: why a part is missing.
    """

    curve: tuple[tuple[float, float], ...]
    compared: tuple[Compared, ...]
    lower: float
    note: str


def what_if(view: View, whole: Node, distinct: int,
            parts: Sequence[Cost] = ()) -> WhatIf:
    """Args:
        whole: everything paid for, as one node. distinct: how many nodes it is made of.
        parts: what each of its members costs, for a caller that knows.
    """
    rule, budget, units = view.rule, view.budget, view.total.units
    if rule is None or not units:
        return WhatIf((), (), 0.0, "Nothing was spent yet.")
    curve = _curve(rule, budget, units) if rule.kind != "basic" else ()
    note = ("" if curve else "A basic ledger adds up (epsilon, delta) of whole plans: it has one "
            "point, no curve.")
    own = Compared("this ledger", view.spent.value, f"what is promised: {rule.theorem}")
    relation, lower = check_relation(view.relation), 0.0
    try:
        if distinct > MOST_ROWS:
            others = [(one.accountant, one.epsilon, clean(one.why))
                      for one in quick_answers(
                          sequential(parts) if parts else cost_of(whole, relation), budget.delta,
                          ("pld", "rdp") if distinct > MOST_CURVES else ("pld",))]
        else:
            found = explain(whole, budget.delta, relation)
            best, lower = found.certificate, found.lower
            others = [(best.accountant, best.epsilon, f"the tightest: {best.theorem}"),
                      *((one.accountant, one.epsilon, clean(one.why))
                        for one in found.alternatives)]
    except (PrivledgerError, InvalidValue, OverflowError) as error:
        why = f"No accountant prices the history as a whole: {clean(error)}"
        note, others = f"{note} {why}".strip(), [("any other", None, "see below")]
    compared = sorted([own, *(Compared(*one) for one in others)],
                      key=lambda one: (one.epsilon is None, one.epsilon or 0.0))
    return WhatIf(curve, tuple(compared), lower, note)


def _curve(rule: FilterRule, budget: Budget, units: int) -> tuple[tuple[float, float], ...]:
    """The same total in the filter's unit, read at other deltas, the purse beside it."""
    deltas = sorted({*DELTAS, budget.delta})
    return tuple((delta, evolve(rule, budget=Budget(budget.epsilon, delta, budget.failure)
                                ).epsilon_of(units))
                 for delta in deltas if delta > budget.failure)
