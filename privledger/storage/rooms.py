"""What a database must know to refuse a charge past a cap: the room under every possible filter.

A server adds up and compares integers. It cannot turn an (epsilon, delta) into them, so whoever
creates a ledger writes down, for each filter that its budget allows, how much fits.
"""

from __future__ import annotations

from privledger.accounting import DEFAULT_ORDERS
from privledger.errors import InvalidValue
from privledger.ledger.events import Created, FilterFixed
from privledger.ledger.filters import KINDS, Budget, FilterRule, fixed_filter

Room = tuple[str, float, int, int, int]
"""Kind and order of a filter, place (-1 for the ledger, else a cap's), units, delta units."""


def rooms(created: Created, fixed: FilterFixed | None) -> list[Room]:
    """Rooms of the ledger and its caps.

    Args:
        created: the first entry.
        fixed: the one that fixes the filter, if it is fixed.
    """
    found: list[Room] = []
    for rule in _rules(created.filter, created.budget, fixed):
        found.append((rule.kind, rule.order, -1, rule.cap_units, rule.delta_cap_units))
        for place, cap in enumerate(created.caps):
            own = cap.rule(rule)
            found.append((rule.kind, rule.order, place, own.cap_units, own.delta_cap_units))
    return found


def _rules(asked: str, budget: Budget, fixed: FilterFixed | None) -> list[FilterRule]:
    """The filter that is fixed, or all that a first request may fix."""
    if fixed is not None:
        return [FilterRule(fixed.rule, fixed.order, budget, int(fixed.cap_units),
                           int(fixed.delta_cap_units))]
    candidates = [(kind, order) for kind in (KINDS if asked == "auto" else (asked,))
                  for order in (DEFAULT_ORDERS if kind == "rdp" else (None,))]
    found = []
    for kind, order in candidates:
        try:
            found.append(fixed_filter(kind, budget, order))
        except InvalidValue:  # this budget leaves nothing there
            continue
    return found
