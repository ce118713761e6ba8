"""What is different between two ledgers, two moments of one, or two plans. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from privledger.accounting import promise
from privledger.graph import Node
from privledger.ledger import GrantState, State
from privledger.ledger.view_plans import plan_or_none
from privledger.numerals import many
from privledger.reports.outline import Outline, outline
from privledger.reports.released import total_delta
from privledger.rounding import upward


@frozen
class Change:
    """One fact that differs; None where there is nothing of it."""

    what: str
    before: Any
    after: Any


@frozen
class Changes:
    """Everything that differs.

    Attributes:
        same_ledger: whether both are of one identity; None for plans.
        facts: totals and promises. grants: name, then status and epsilon.
        nodes: what spends, and how often.
    """

    same_ledger: bool | None
    facts: tuple[Change, ...]
    grants: tuple[Change, ...]
    nodes: tuple[Change, ...]

    @property
    def empty(self) -> bool:
        return not (self.facts or self.grants or self.nodes)


def ledger_changes(before: State, after: State) -> Changes:
    """From one state to another, of the same ledger or of two."""
    return Changes(before.uuid == after.uuid,
                   _differences(_facts(before), _facts(after)),
                   _differences(_grants(before), _grants(after)),
                   _differences(_nodes(before), _nodes(after)))


def plan_changes(before: Node, after: Node, facts: Sequence[Mapping[str, Any]]) -> Changes:
    """From one plan to another.

    Args:
        facts: of the first and of the second: prices and promises, by name.
    """
    return Changes(None, _differences(facts[0], facts[1]), (),
                   _differences(leaf_counts(outline(before)), leaf_counts(outline(after))))


def leaf_counts(line: Outline) -> Counter[str]:
    """How often each kind of release runs."""
    if not line.children:
        return Counter({line.label: line.times})
    total: Counter[str] = Counter()
    for child in line.children:
        total.update(leaf_counts(child))
    return total


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    return tuple(Change(name, before.get(name), after.get(name))
                 for name in dict.fromkeys([*before, *after])
                 if before.get(name) != after.get(name))


def _facts(state: State) -> dict[str, Any]:
    rule, budget = state.rule, state.budget
    assert budget is not None
    statuses = Counter(grant.status for grant in state.grants.values())
    return {
        "ledger": state.uuid, "mode": state.mode, "relation": promise(state.relation),
        "budget epsilon": budget.epsilon, "budget delta": budget.delta,
        "filter": rule.kind if rule else state.filter_asked,
        "spent epsilon": rule.epsilon_of(state.units) if rule else 0.0,
        "spent delta": total_delta(state),
        "left": rule.left_of(state.units) if rule else budget.epsilon,
        "entries": state.position + 1, "grants": len(state.grants),
        **{f"grants {status}": many for status, many in sorted(statuses.items())},
        "scopes": len(state.scopes), "refused": state.refusals, "window": state.window,
        "tables": ", ".join(state.data) or None,
        "learners": ", ".join(dict.fromkeys(str(grant.body.get("learner") or "nobody named")
                                            for grant in state.grants.values())) or None,
    }


def _grants(state: State) -> dict[str, str]:
    return {name: _grant(state, grant) for name, grant in state.grants.items()}


def _grant(state: State, grant: GrantState) -> str:
    spent = state.rule.epsilon_of(grant.charged[0]) if state.rule else 0.0
    corrected = f", corrected {many(len(grant.corrections), 'time')}" if grant.corrections else ""
    return (f"{grant.status}, {grant.body.get('learner') or 'nobody named'} on "
            f"{grant.body.get('data', '')}, epsilon {upward(spent, 4)}, "
            f"{many(grant.releases, 'release')}{corrected}")


def _nodes(state: State) -> Counter[str]:
    """What was reserved and not handed back."""
    total: Counter[str] = Counter()
    plans = [scope.body["plan"] for scope in state.scopes.values()]
    plans += [grant.plan for grant in state.grants.values() if not grant.body.get("scope")
              and (grant.status != "aborted" or grant.touched)]
    for plan in plans:
        total.update(leaf_counts(outline(plan_or_none(plan))))
    return total
