"""Who spent most, on what: charges added up by the ledger's own filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

import numpy as np
from attrs import frozen

from privledger.errors import DataError
from privledger.guard import data_spend
from privledger.ledger import GrantState, State, Store, asserted_kinds
from privledger.ledger.view_plans import plan_or_none
from privledger.reports.outline import leaves

ASPECTS = ("learner", "mechanism", "data", "grant")


@frozen
class Rank:
    """One line of a ranking.

    Attributes:
        epsilon: of all its grants together, at the budget's delta.
        share: of the units of the whole budget.
        asserted: part of it rests on somebody's word.
    """

    name: str
    epsilon: float
    share: float
    grants: int
    asserted: bool


@frozen
class RecordRank:
    """One record that individual filters counted. CONFIDENTIAL."""

    data: str
    row: int
    spent: float
    cap: float


def ranking(state: State, aspect: str, vouched: Set[str] = frozenset()) -> list[Rank]:
    """Highest first. A grant with several mechanisms counts for each of them in full.

    What a grant took from a filter scope was paid when the scope was opened: it stands as a line
    of its own.

    Args:
        vouched: grants with a release whose sensitivity is asserted.
    """
    of: dict[str, Callable[[GrantState, tuple[str, ...]], Sequence[str]]] = {
        "learner": lambda grant, kinds: [str(grant.body.get("learner") or "nobody named")],
        "mechanism": lambda grant, kinds: kinds,
        "data": lambda grant, kinds: [str(grant.body.get("data", ""))],
        "grant": lambda grant, kinds: [grant.grant],
    }
    found: dict[str, tuple[int, int, bool]] = {}

    def add(name: str, units: int, asserted: bool) -> None:
        total, grants, before = found.get(name, (0, 0, False))
        found[name] = total + units, grants + 1, before or asserted

    for grant in state.grants.values():
        if grant.status == "aborted" and not grant.touched and not grant.corrections:
            continue
        kinds = kinds_of(grant.plan)
        for name in of[aspect](grant, kinds):
            add(name, grant.charged[0], bool(asserted_kinds(kinds)) or grant.grant in vouched)
    for scope in state.scopes.values():
        kinds = kinds_of(scope.body["plan"])
        names = kinds if aspect == "mechanism" else [f"scope {scope.scope}"]
        for name in names:
            add(name, int(scope.body["units"]), bool(asserted_kinds(kinds)))
    rule = state.rule
    ranked = [Rank(name, rule.epsilon_of(units) if rule else 0.0,
                   units / rule.cap_units if rule and rule.cap_units else 0.0, grants, asserted)
              for name, (units, grants, asserted) in found.items()]
    return sorted(ranked, key=lambda rank: -rank.epsilon)


def kinds_of(plan: Any) -> tuple[str, ...]:
    """Types of what spends in a plan, sorted."""
    return tuple(sorted({type(leaf).__name__ for leaf in leaves(plan_or_none(plan))}))


def highest_records(store: Store, state: State, most: int) -> list[RecordRank]:
    """Records that individual filters charged most, of every table. CONFIDENTIAL."""
    found: list[RecordRank] = []
    for name in dict.fromkeys(str(grant.body["data"]) for grant in state.grants.values()):
        try:
            spend = data_spend(store, state, name)
        except DataError:
            spend = None
        if spend is None:
            continue
        top = np.argsort(-spend.spent, kind="stable")[:most]
        found += [RecordRank(name, int(row), float(spend.spent[row]), spend.cap) for row in top]
    return sorted(found, key=lambda one: -one.spent)[:most]
