"""How much room is left, in whole numbers: how often a plan still fits, and how full each cap is.

Epsilons do not add up; units do. After three counts a third of epsilon may be gone and an eighth
of the units, so a forecast by epsilon is wrong, and one by units is exact.
"""

from __future__ import annotations

from attrs import frozen

from privledger.accounting import Cost
from privledger.ledger.events import Granted
from privledger.ledger.filters import FilterRule
from privledger.ledger.state import State
from privledger.ledger.view_charges import total_of
from privledger.ledger.view_figures import SHARE, Amount, Figure

LEDGER = "the ledger"


@frozen
class RoomForecast:
    """What one budget allows.

    Attributes:
        name: `LEDGER`, or the title of a cap.
        times: how many more requests like the one asked about fit; None for any number.
    """

    name: str
    times: int | None


@frozen
class Forecast:
    """How often a request fits from now on, one after another.

    Attributes:
        times: the least of the rooms; None for any number. rooms: of every budget it falls under.
    """

    times: int | None
    rooms: tuple[RoomForecast, ...]


def forecast(state: State, rule: FilterRule, cost: Cost, asked: Granted) -> Forecast:
    """Exactly how many requests for the same plan would still be granted, if nobody else asks.

    Args:
        asked: its delta, table and labels decide which caps it falls under: all of them, if it
            names no table.

    Raises:
        UnsupportedNode: it has no price under the ledger's filter.
    """
    units, delta_units = rule.price(cost, float(asked.delta))
    rooms = [
        RoomForecast(LEDGER, how_often(rule, units, delta_units, state.units, state.delta_units))
    ]
    for cap, (spent, spent_delta) in zip(state.caps, state.cap_spent, strict=True):
        if cap.matches(state.window, asked if asked.data else None):
            closed = cap.per_window and state.window is None
            rooms.append(RoomForecast(cap.title, 0 if closed else how_often(
                cap.rule(rule), units, delta_units, spent, spent_delta)))
    known = [room.times for room in rooms if room.times is not None]
    return Forecast(min(known) if known else None, tuple(rooms))


def how_often(rule: FilterRule, units: int, delta_units: int, spent: int,
              spent_delta: int) -> int | None:
    """How many charges of `units` and `delta_units` a rule still takes; None for any number.

    Args:
        spent, spent_delta: what it took already, in the same whole numbers.
    """
    if spent > rule.cap_units or spent_delta > rule.delta_cap_units:
        return 0
    fits = [(cap - gone) // each for cap, gone, each in (
        (rule.cap_units, spent, units), (rule.delta_cap_units, spent_delta, delta_units)) if each]
    return min(fits) if fits else None


def fullness(state: State) -> tuple[tuple[str, Figure], ...]:
    """The share of the ledger's budget, and of each cap of the open window, that is gone."""
    shares = [(LEDGER, total_of(state).share)]
    if state.rule is None:
        return tuple(shares)
    shares[0] = LEDGER, _fuller(Amount(state.units, state.delta_units, state.rule))
    for cap, (units, delta_units) in zip(state.caps, state.cap_spent, strict=True):
        shares.append((cap.title, _fuller(Amount(units, delta_units, cap.rule(state.rule)))))
    return tuple(shares)


def _fuller(amount: Amount) -> Figure:
    """Of units and delta units, whichever is nearer its cap."""
    rule = amount.rule
    assert rule is not None
    if not rule.delta_cap_units:
        return amount.share
    used = Figure(Amount(amount.delta_units, 0, FilterRule(
        rule.kind, rule.order, rule.budget, rule.delta_cap_units)).share.value, SHARE)
    return max(amount.share, used, key=lambda figure: figure.value)
