"""What is different between two ledgers, two moments of one, or two plans. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, frozen

from privledger.graph import Node
from privledger.ledger import State
from privledger.ledger.view import View, view_of
from privledger.ledger.view_charges import UNNAMED, ChargeFigures
from privledger.ledger.view_plans import plan_or_none
from privledger.numerals import many
from privledger.reports.outline import Outline, outline

MOST_CHANGES = 12
"""Lines of a kind that are shown one by one."""


@frozen
class Change:
    """One fact that differs; None where there is nothing of it.

    Numbers of a ledger are figures, which print themselves.
    """

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
        """Whether nothing differs."""
        return not (self.facts or self.grants or self.nodes)


def ledger_changes(before: State, after: State) -> Changes:
    """From one state to another, of the same ledger or of two."""
    first, second = view_of(before), view_of(after)
    return Changes(first.uuid == second.uuid,
                   _differences(_facts(first), _facts(second)),
                   _differences(_grants(first), _grants(second)),
                   _differences(_nodes(first), _nodes(second)))


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


def briefly(changes: Changes) -> Changes:
    """The same for a screen: many grants of one learner on one table are one line, and so are
    many mechanisms of one kind. Sums stay what they were."""
    return evolve(changes, grants=_few(changes.grants, _told_alike),
                  nodes=_few(changes.nodes, lambda one: one.what.partition("(")[0]))


def _few(changes: tuple[Change, ...], kind: Callable[[Change], str]) -> tuple[Change, ...]:
    if len(changes) <= MOST_CHANGES:
        return changes
    groups: dict[str, list[Change]] = {}
    for one in changes:
        groups.setdefault(kind(one), []).append(one)
    return tuple(group[0] if len(group) == 1 else _together(name, group)
                 for name, group in groups.items())


def _told_alike(one: Change) -> str:
    """A grant without its numbers, and on which sides it is."""
    return "; ".join("-" if side is None else str(side).partition(", epsilon ")[0]
                     for side in (one.before, one.after))


def _together(name: str, group: Sequence[Change]) -> Change:
    if all(isinstance(side, int | None) for one in group for side in (one.before, one.after)):
        return Change(f"{name} ({len(group)} kinds)", sum(one.before or 0 for one in group) or None,
                      sum(one.after or 0 for one in group) or None)
    before, _, after = name.partition("; ")
    return Change(many(len(group), "grant"), None if before == "-" else before,
                  None if after == "-" else after)


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    return tuple(Change(name, before.get(name), after.get(name))
                 for name in dict.fromkeys([*before, *after])
                 if before.get(name) != after.get(name))


def _facts(view: View) -> dict[str, Any]:
    grants = [one for one in view.charges if one.kind == "grant"]
    statuses = Counter(one.status for one in grants)
    epsilon, delta = view.promised
    return {
        "ledger": view.uuid, "mode": view.mode, "relation": view.promise,
        "budget epsilon": epsilon, "budget delta": delta, "filter": view.filter,
        "spent epsilon": view.spent, "spent delta": view.spent_delta, "left": view.left,
        "entries": view.entries, "grants": len(grants),
        **{f"grants {status}": many for status, many in sorted(statuses.items())},
        "scopes": len(view.charges) - len(grants), "refused": view.refused,
        "window": view.windows[-1] if view.windows else None,
        "tables": ", ".join(view.rows) or None,
        "learners": ", ".join(dict.fromkeys(one.learner or UNNAMED for one in grants)) or None,
    }


def _grants(view: View) -> dict[str, str]:
    return {one.name: _grant(one) for one in view.charges if one.kind == "grant"}


def _grant(one: ChargeFigures) -> str:
    corrected = f", corrected {many(one.corrections, 'time')}" if one.corrections else ""
    return (f"{one.status}, {one.learner or UNNAMED} on {one.table}, epsilon "
            f"{one.amount.epsilon.text(4)}, {many(one.releases, 'release')}{corrected}")


def _nodes(view: View) -> Counter[str]:
    """What was reserved and not handed back."""
    total: Counter[str] = Counter()
    for one in view.charges:
        if one.paid:
            total.update(leaf_counts(outline(plan_or_none(one.plan))))
    return total
