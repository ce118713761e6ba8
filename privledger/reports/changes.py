"""What is different between two ledgers, two moments of one, or two plans. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations, zip_longest
from typing import Any

from attrs import evolve, frozen

from privledger.findings import Finding
from privledger.graph import Node
from privledger.ledger import State, Store
from privledger.ledger.roster import Roster, all_digests
from privledger.ledger.store import Row
from privledger.ledger.view import FIGURES, View, view_of
from privledger.ledger.view_charges import UNNAMED, ChargeFigures, plan_or_none, total_of
from privledger.numerals import many
from privledger.reports.outline import Outline, ends_of, outline
from privledger.rounding import add_up

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
    total: Counter[str] = Counter()
    for one in ends_of(line):
        total[one.label] += one.times
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
    return {
        **{row.label: row.of(view) for row in FIGURES if row.label}, "grants": len(grants),
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


# The same table under several ledgers: what each of them promises adds up for its records.

@frozen
class Use:
    """A table in one ledger.

    Attributes:
        ledger: where. data: its name there.
        epsilon, delta: what that ledger spent, on anything, by now.
    """

    ledger: str
    data: str
    epsilon: float
    delta: float


@frozen
class Overlap:
    """A table that several ledgers know by the same fingerprint.

    Attributes:
        epsilon, delta: sums over the ledgers, by basic composition.
    """

    fingerprint: str
    uses: tuple[Use, ...]
    epsilon: float
    delta: float


@frozen
class Shared:
    """People whom two ledgers know by one key. CONFIDENTIAL: the number depends on private data.

    Attributes:
        first, second: what each ledger spent, over all of its tables.
        people: how many they share.
        epsilon, delta: sums over the two, by basic composition: the most for one of them.
    """

    first: Use
    second: Use
    people: int
    epsilon: float
    delta: float


def shared_people(states: Mapping[str, State], stores: Mapping[str, Store]) -> list[Shared]:
    """Pairs of ledgers of one key that share a person.

    Args:
        states: place -> state; copies of one ledger (the same uuid) are no pair.
        stores: place -> where the people of the ledger are.

    Raises:
        LedgerCorrupt: what is kept of people is missing or was edited.
    """
    found, held = [], {place: state for place, state in states.items() if state.unit == "person"}
    for (one, state), (other, more) in combinations(held.items(), 2):
        if state.uuid == more.uuid or state.creation.key_check != more.creation.key_check:
            continue
        people = _in_both(stores[one], state, stores[other], more)
        if people:
            uses = [_use(one, state), _use(other, more)]
            found.append(Shared(uses[0], uses[1], people, add_up(use.epsilon for use in uses),
                                add_up(use.delta for use in uses)))
    return found


def _in_both(store: Store, state: State, other: Store, more: State) -> int:
    here = all_digests(store, [event for _, event in state.enrolled])
    roster = Roster()
    roster.follow(other, [event for _, event in more.enrolled])
    return int((roster.find(here) >= 0).sum())


def _use(place: str, state: State) -> Use:
    total = total_of(state)
    return Use(place, "all tables", total.epsilon.value, total.delta.value)


def overlaps(states: Mapping[str, State]) -> list[Overlap]:
    """Tables that more than one of the ledgers protected, by fingerprint.

    Args:
        states: place -> state; copies of one ledger (the same uuid) count once, with what the
            one that spent most says (how copies differ: cli/diff.py).
    """
    seen: dict[str, dict[str, Use]] = {}
    for place, state in states.items():
        total = total_of(state)
        for name, table in state.tables.items():
            mark = table.fingerprint
            if isinstance(mark, str):
                use = Use(place, name, total.epsilon.value, total.delta.value)
                uses = seen.setdefault(mark, {})
                known = uses.get(state.uuid)
                if known is None or use.epsilon > known.epsilon:
                    uses[state.uuid] = use
    return [
        Overlap(mark, tuple(uses.values()), add_up(use.epsilon for use in uses.values()),
                add_up(use.delta for use in uses.values()))
        for mark, uses in seen.items() if len(uses) > 1
    ]


# Copies of one ledger that went different ways: each keeps its budget, and both were spent.

RULE = "one-ledger-one-history"


@frozen
class ForkedCopies:
    """Two places that hold one ledger, by its identity, and not the same history.

    Attributes:
        first, second: where.
        position: of the first entry that they do not share.
        entries: how many each of them has.
        epsilon, delta: what both spent together, counted twice as far as they agree.
        fork: whether they contradict each other; else one is an older copy of the other.
    """

    uuid: str
    first: str
    second: str
    position: int
    entries: tuple[int, int]
    epsilon: float
    delta: float
    fork: bool

    @property
    def text(self) -> str:
        """One sentence."""
        if self.fork:
            return (f"FORK: {self.first} and {self.second} are one ledger with two histories. "
                    f"They agree on {many(self.position, 'entry', 'entries')} and differ from "
                    f"entry {self.position} on ({self.entries[0]} and {self.entries[1]} "
                    "entries): the budget was spent twice, and neither total is right")
        older, newer = ((self.first, self.second) if self.entries[0] < self.entries[1]
                        else (self.second, self.first))
        return (f"OLDER COPY: {older} is {newer} as it was before entry {self.position}. "
                "Continuing with it would spend the same budget again")

    def finding(self) -> Finding:
        """As `verify` and `check` say it."""
        return Finding(RULE, self.position, self.text)


def divergence(first: Iterable[Row], second: Iterable[Row]) -> tuple[int, int, int, bool] | None:
    """Where two histories part: position, how many entries each has, whether they contradict.

    None if they are the same. Both are read once, side by side.
    """
    part, contradict, counts = -1, False, [0, 0]
    for position, rows in enumerate(zip_longest(first, second)):
        if part < 0 and rows[0] != rows[1]:
            part, contradict = position, None not in rows
        for side, row in enumerate(rows):
            counts[side] += row is not None
    return None if part < 0 else (part, counts[0], counts[1], contradict)
