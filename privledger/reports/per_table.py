"""What single tables lost, by the ledger's own filter."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from privledger.ledger import State


@frozen
class TableSpend:
    """What the records of one table lost at most.

    Attributes:
        epsilon, delta: of the grants for it, and of every filter scope, which may serve it.
        rows: its number of rows as its schema declares it; None if it does not.
    """

    name: str
    epsilon: float
    delta: float
    rows: int | None = None


def table_spends(state: State, more: tuple[str, int, int, int | None] | None = None,
                 ) -> tuple[TableSpend, ...]:
    """Every table with a grant. O(number of grants).

    Args:
        more: name, units, delta units and declared rows of a plan that is not granted yet.
    """
    totals: dict[str, list[int]] = {}
    for grant in state.grants.values():
        if grant.status == "aborted" and not grant.touched and not grant.corrections:
            continue
        charged = grant.counted
        total = totals.setdefault(str(grant.body.get("data", "")), [0, 0])
        total[0] += charged[0]
        total[1] += charged[1]
    rows = {name: body.get("rows") for name, body in state.data.items()}
    if more is not None:
        name, units, delta_units, declared = more
        total = totals.setdefault(name, [0, 0])
        total[0] += units
        total[1] += delta_units
        rows[name] = declared
    return spends(state, {name: (units, delta) for name, (units, delta) in totals.items()}, rows)


def spends(state: State, totals: Mapping[str, tuple[int, int]],
           rows: Mapping[str, int | None]) -> tuple[TableSpend, ...]:
    """Tables from the units and delta units of their own grants."""
    shared = [sum(int(scope.body[key]) for scope in state.scopes.values())
              for key in ("units", "delta_units")]
    return tuple(_spend(state, name, total[0] + shared[0], total[1] + shared[1], rows.get(name))
                 for name, total in totals.items())


def _spend(state: State, name: str, units: int, delta_units: int,
           rows: int | None) -> TableSpend:
    rule = state.rule
    if rule is None:
        return TableSpend(name, 0.0, 0.0, rows)
    delta = rule.budget.delta if units else 0.0
    if rule.kind == "basic":
        delta = rule.delta_of(delta_units)
    return TableSpend(name, rule.epsilon_of(units), delta, rows)
