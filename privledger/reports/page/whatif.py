"""What would change the number: other deltas, other accountants."""

from __future__ import annotations

from attrs import evolve, frozen

from privledger.accounting import check_relation
from privledger.errors import InvalidValue, PrivledgerError
from privledger.graph import Node, explain
from privledger.ledger import Budget, FilterRule
from privledger.ledger.view import View
from privledger.reports.safe_text import clean

DELTAS = tuple(10.0**-power for power in range(12, 1, -1))
MOST_ROWS = 40
"""Distinct nodes of a history that is priced as a whole: distributions take their time."""


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
        compared: accountants, the tightest first; empty if nothing was priced as a whole.
        lower: nobody can prove less than this; 0 if nothing is known.
        note: why a part is missing.
    """

    curve: tuple[tuple[float, float], ...]
    compared: tuple[Compared, ...]
    lower: float
    note: str


def what_if(view: View, whole: Node, distinct: int) -> WhatIf:
    """Args: whole: everything paid for, as one node. distinct: how many nodes it is made of."""
    rule, budget, units = view.rule, view.budget, view.total.units
    if rule is None or not units:
        return WhatIf((), (), 0.0, "Nothing was spent yet.")
    curve = _curve(rule, budget, units) if rule.kind != "basic" else ()
    note = ("" if curve else "A basic ledger adds up (epsilon, delta) of whole plans: it has one "
            "point, no curve. ")
    if distinct > MOST_ROWS:
        return WhatIf(curve, (), 0.0, f"{note}The history has more than {MOST_ROWS} distinct "
                      "nodes: it is not priced again as a whole here.")
    try:
        found = explain(whole, budget.delta, check_relation(view.relation))
    except (PrivledgerError, InvalidValue, OverflowError) as error:
        return WhatIf(curve, (), 0.0, f"{note}No accountant prices the history as a whole: "
                                      f"{clean(error)}")
    best = found.certificate
    compared = [Compared(best.accountant, best.epsilon, f"the tightest: {best.theorem}")]
    compared += [Compared(one.accountant, one.epsilon, clean(one.why))
                 for one in found.alternatives]
    compared.sort(key=lambda one: (one.epsilon is None, one.epsilon or 0.0))
    return WhatIf(curve, tuple(compared), found.lower, note.strip())


def _curve(rule: FilterRule, budget: Budget, units: int) -> tuple[tuple[float, float], ...]:
    """The same total in the filter's unit, read at other deltas."""
    deltas = sorted({*DELTAS, budget.delta})
    return tuple((delta, evolve(rule, budget=Budget(budget.epsilon, delta)).epsilon_of(units))
                 for delta in deltas)
