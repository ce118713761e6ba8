"""State + request -> charge or refusal. Pure: nothing is changed here."""

from __future__ import annotations

from attrs import frozen

from privledger.accounting import Cost
from privledger.errors import BudgetExceeded
from privledger.ledger.events import Granted, ScopeOpened
from privledger.ledger.filters import FilterRule
from privledger.ledger.state import State
from privledger.rounding import downward, exact

NO_WINDOW = "no window is open; the ledger's owner opens one (ledger.open_window)"


@frozen
class Charge:
    """What a grant takes from the cap, in scaled integers."""

    units: int
    delta_units: int


@frozen
class Refusal:
    """Why not: the numbers in scaled integers, and how to say it.

    Attributes:
        broken: why the promise no longer holds, after a correction; else empty.
        scope: whose budget it is that does not suffice: the ledger's, or a cap's.
    """

    rule: FilterRule
    charge: Charge
    spent_units: int
    spent_delta_units: int
    broken: str = ""
    scope: str = "the ledger"

    def error(self) -> BudgetExceeded:
        """The typed refusal; its numbers are epsilons at the budget's delta."""
        rule = self.rule
        over_delta = self.charge.delta_units + self.spent_delta_units > rule.delta_cap_units
        if rule.kind == "basic" and over_delta and not self.broken:
            return BudgetExceeded(
                asked=rule.delta_of(self.charge.delta_units), unit="delta",
                spent=rule.delta_of(self.spent_delta_units),
                left=rule.delta_left_of(self.spent_delta_units),
                fits="ask for a smaller delta, or create the ledger with filter='gdp' or 'rdp'",
            )
        left = rule.left_of(self.spent_units)
        if self.broken:
            return BudgetExceeded(
                asked=rule.epsilon_of(self.charge.units), left=0.0,
                spent=rule.epsilon_of(self.spent_units), fits=f"{self.broken}; nothing fits",
                scope=self.scope)
        fits = (f"a plan of epsilon {downward(left)} at delta {exact(rule.budget.delta)} would "
                "fit: add noise, run fewer rounds, or ask for less epsilon" if left > 0
                else "the budget is used up; nothing fits")
        return BudgetExceeded(
            asked=rule.epsilon_of(self.charge.units), spent=rule.epsilon_of(self.spent_units),
            left=left, fits=fits, scope=self.scope,
        )


def decide(
    state: State, rule: FilterRule, cost: Cost, delta: float,
    asked: Granted | ScopeOpened | None = None,
) -> Charge | Refusal:
    """Grant what fits under the ledger and every cap it matches; integers on both sides.

    Args:
        asked: the grant; anything else falls under every cap.
    """
    charge = Charge(*rule.price(cost, delta))
    if not _fits(rule, charge, state.units, state.delta_units):
        return Refusal(rule, charge, state.units, state.delta_units, state.broken)
    request = asked if isinstance(asked, Granted) else None
    for cap, (units, delta_units) in zip(state.caps, state.cap_spent, strict=True):
        if cap.matches(state.window, request):
            own = cap.rule(rule)
            if cap.per_window and state.window is None:
                return Refusal(own, charge, 0, 0, NO_WINDOW, scope=cap.title)
            if not _fits(own, charge, units, delta_units):
                return Refusal(own, charge, units, delta_units, scope=cap.title)
    return charge


def _fits(rule: FilterRule, charge: Charge, units: int, delta_units: int) -> bool:
    return (units + charge.units <= rule.cap_units
            and delta_units + charge.delta_units <= rule.delta_cap_units)
