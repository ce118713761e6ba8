"""What every grant and scope counts for, in whole numbers that add up to the ledger's total."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from heapq import nsmallest
from typing import TypeVar, cast

from attrs import define, field, frozen

from privledger.accounting import Cost, check_relation
from privledger.errors import InvalidValue, PrivledgerError
from privledger.graph import Node, PostProcess, Trust, alone, cost_of, from_json, trusts
from privledger.ledger.codec import like
from privledger.ledger.decide import LEDGER
from privledger.ledger.events import (
    Aborted,
    Crashed,
    Granted,
    Plan,
    PrivateScore,
    ScopeOpened,
)
from privledger.ledger.filters import Budget, Cap, FilterRule, matching_caps
from privledger.ledger.origins import (
    asserted_kinds,
    claims_of,
    library_of,
    mechanism_kinds,
    origin_text,
    outside_of,
)
from privledger.ledger.state import GrantState, ScopeState, State
from privledger.ledger.view_figures import CHOSEN, REMAINDER, SHARE, Amount, Figure

# The plan in an entry -> a node. A page asks for one plan many times: it is read once.

UNREADABLE = PostProcess("a plan that cannot be read")
"""Stands where nothing is promised, or a text is no plan. Never priced; an audit reports it."""

MOST = 4096
T = TypeVar("T")

@define
class _Plan:
    """A plan that was read. `value` keeps its identity its own."""

    value: object
    node: Node
    said: dict[object, object] = field(factory=dict)


_known: OrderedDict[int, _Plan] = OrderedDict()  # by the identity of the JSON value


def said_of_plan(value: object, what: Callable[[Node], T]) -> T:
    """What a function says of the plan in a body, asked once for each value.

    Raises:
        PrivledgerError, KeyError, TypeError: not a plan.
    """
    found = _known.get(id(value))
    if found is None or found.value is not value:
        found = _known[id(value)] = _Plan(value, from_json(value))
        if len(_known) > MOST:
            _known.popitem(last=False)
    if what not in found.said:
        found.said[what] = what(found.node)
    return cast(T, found.said[what])


def plan_of(value: object) -> Node:
    """As `from_json`, read once for each value of a body; bodies are never changed.

    Raises:
        PrivledgerError, KeyError, TypeError: not a plan.
    """
    return said_of_plan(value, _itself)


def _itself(node: Node) -> Node:
    return node


def plan_or_none(value: object) -> Node:
    """As `plan_of`, with `UNREADABLE` in place of what is not a plan."""
    return said_or_none(value, _itself)


def said_or_none(value: object, what: Callable[[Node], T]) -> T:
    """As `said_of_plan`, of `UNREADABLE` in place of what is not a plan."""
    try:
        return said_of_plan(value, what)
    except (PrivledgerError, KeyError, TypeError):
        return what(UNREADABLE)


def kinds_of(plan: object) -> tuple[str, ...] | None:
    """Node types that spend in a plan, as a body has it; None where nothing is promised."""
    return None if plan is None else said_or_none(plan, mechanism_kinds)


NO_TABLE = "(unused filter scopes)"
"""Stands where a scope has no table and no learner yet."""
UNNAMED = "no learner named"
VOID = "(voided: nothing is promised)"
ASPECTS = ("table", "learner", "mechanism", "team", "window", "grant", "isolation", "library",
           "cap")
"""What charges are grouped by; beside them by any label, as `LABEL` and its name."""
LABEL = "label:"


@frozen
class ChargeFigures:
    """One grant or scope, and what it counts for. Charges of a ledger add up to its total.

    Attributes:
        name: of the grant or scope; empty where it stands for many grants alike.
        position: its entry; -1 where it stands for many.
        kind: `grant` or `scope`.
        status: `granted` (its holder has not ended it), `settled`, `failed` (after data was
            touched), `aborted` (handed back before that), `crashed`, or `scope`.
        amount: with corrections, less what was handed back; nothing for a grant on a scope,
            because the scope was paid for.
        asked: what was reserved, with corrections, handed back or not.
        table: of a scope, the one that grants drew on it for; empty if none did.
        learners: who asked; of a scope, all that drew on it.
        mechanisms: node types of the plan as corrected last, sorted; a price cannot be split
            between them. None where nothing is promised any more.
        labels: of the request. window: the one it was opened in; None before the first.
        scope: the scope that a grant drew on.
        delta: that its plan was stated at.
        corrections: how many there were. why: their reasons, in order.
        releases: how many were made under it.
        grants: how many grants it stands for; 1, but for tallies of long histories.
        caps: titles of the caps that it counts under, beside the budget.
        plan: as corrected last, as JSON values; None where nothing is promised any more.
        time: when that was, as it was written down. event: what was granted or opened; None where
            it stands for many.
        crash: that the grant's holder was found gone.
        score: how the model did that was fitted under it, where its settlement says so.
    """

    name: str
    position: int
    kind: str
    status: str
    amount: Amount
    asked: Amount
    table: str = ""
    learners: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] | None = ()
    labels: tuple[tuple[str, str], ...] = ()
    window: str | None = None
    scope: str | None = None
    delta: float = 0.0
    corrections: int = 0
    why: tuple[str, ...] = ()
    releases: int = 0
    grants: int = 1
    caps: tuple[str, ...] = ()
    plan: Plan | None = field(default=None, repr=False, eq=False)
    time: str | None = field(default=None, repr=False, eq=False)
    _event: Granted | ScopeOpened | None = field(
        default=None, repr=False, eq=False, alias="event")  # or of a grant with the same form
    crash: Crashed | None = field(default=None, repr=False, eq=False)
    score: PrivateScore | None = field(default=None, repr=False, eq=False)

    @property
    def event(self) -> Granted | ScopeOpened | None:
        """What was granted or opened."""
        event = self._event
        if isinstance(event, Granted) and event.grant != self.name:
            return cast(Granted, like(event, {
                "grant": self.name, "data": self.table, "time": self.time, "holder": None}))
        return event

    @property
    def learner(self) -> str:
        """Who asked, as one name; empty if none was named."""
        return _joined(self.learners, "")

    @property
    def team(self) -> str:
        """The label `team`, by the owner's word; empty where there is none."""
        return dict(self.labels).get("team", "")

    @property
    def handed_back(self) -> bool:
        """Over before data was opened, and not corrected: as if it had never been."""
        return self.status == "aborted" and not self.corrections

    @property
    def paid(self) -> bool:
        """Whether its plan is part of what everything was paid for: no grant on a scope is."""
        return not self.handed_back and self.scope is None

    @property
    def asserted(self) -> tuple[str, ...]:
        """Node types of the plan whose cost is an unverified claim."""
        return tuple(asserted_kinds(self.mechanisms or ()))

    @property
    def isolation(self) -> str:
        """How far the learner was kept from rows; empty for a scope, and where it stands for
        many."""
        return self._event.isolation if isinstance(self._event, Granted) else ""

    @property
    def library(self) -> str:
        """Library and version of an external run; empty for all others."""
        return library_of(self._event) if isinstance(self._event, Granted) else ""

    @property
    def outside(self) -> tuple[tuple[str, str], ...]:
        """Libraries of an external run, with their versions; none of all others."""
        return tuple(outside_of(self._event)) if isinstance(self._event, Granted) else ()

    @property
    def rests_on_claims(self) -> bool:
        """Whether there are `claims`."""
        return bool(self.asserted) or (
            isinstance(self._event, Granted) and self._event.isolation == "foreign")

    @property
    def claims(self) -> tuple[str, ...]:
        """Everything about the plan that is an unverified claim, in words: asserted nodes, and
        whatever an external run read and did."""
        return claims_of(self.name, self.asserted, self.library)

    @property
    def origin(self) -> str:
        """Isolation, library, labels, window and caps in one line; empty where none is told."""
        return origin_text(self._event, self.caps) if isinstance(self._event, Granted) else (
            f"under {', '.join(self.caps)}" if self.caps else "")


@frozen
class TableSpend:
    """What the records of one table lost at most.

    Attributes:
        epsilon, delta: of the grants for it, and of the filter scopes that were used for it.
        rows: its number of rows as its schema declares it; None if it does not.
    """

    name: str
    epsilon: float
    delta: float
    rows: int | None = None


@frozen
class Part:
    """Charges with something in common, added up.

    Attributes:
        name: what they have in common. amount: their exact sum.
        grants: how many grants and scopes. asserted: some of it is an unverified claim.
    """

    name: str
    amount: Amount
    grants: int
    asserted: bool


def total_of(state: State) -> Amount:
    """What a ledger spent or reserved, all in all. O(1)."""
    return Amount(state.units, state.delta_units, state.rule)


def left_of(state: State) -> Figure:
    """Epsilon of the largest plan that would still be granted. O(1)."""
    if state.rule is None:
        assert state.budget is not None
        return Figure(state.budget.epsilon, "epsilon", REMAINDER)
    return total_of(state).left


def charges_of(state: State) -> tuple[ChargeFigures, ...]:
    """Every grant and scope that a state keeps, in order of the history."""
    users: dict[str, list[Granted]] = {}
    found = []
    for grant in state.grants.values():
        event = grant.event
        if event.scope:
            users.setdefault(event.scope, []).append(event)
        found.append(charge_of(grant, state))
    found += [_scope(scope, users.get(name, ()), state)
              for name, scope in state.scopes.items()]
    return tuple(sorted(found, key=lambda one: one.position))


def grouped_charges(charges: Iterable[ChargeFigures], aspect: str, rule: FilterRule | None,
                    asserted: Container[str] = (), most: int | None = None) -> dict[str, Part]:
    """Charges added up by one of `ASPECTS`, or by `label:KEY`, dearest first. Nothing is left out
    or counted twice.

    What was handed back has no part of its own: it counts nothing.

    Args:
        asserted: names of charges with an unverified claim. most: parts; all, if None.
    """
    name_of = aspect_of(aspect)
    sums: dict[str, list[int]] = {}
    for one in charges:
        if not one.handed_back:
            part, amount = sums.setdefault(name_of(one), [0, 0, 0, False]), one.amount
            part[0] += amount.units
            part[1] += amount.delta_units
            part[2] += one.grants
            part[3] |= one.name in asserted
    ranked = nsmallest(len(sums) if most is None else most, sums.items(),
                       key=lambda item: (-item[1][0], -item[1][1], item[0]))
    return {name: Part(name, Amount(units, delta_units, rule), grants, bool(claimed))
            for name, (units, delta_units, grants, claimed) in ranked}


def aspect_of(aspect: str) -> Callable[[ChargeFigures], str]:
    """What a charge is called by an aspect.

    Raises:
        InvalidValue: none of `ASPECTS`, nor `label:` with a name.
    """
    if aspect.startswith(LABEL) and len(aspect) > len(LABEL):
        key = aspect.removeprefix(LABEL)
        return lambda one: dict(one.labels).get(key, "")
    if aspect not in _NAMES:
        raise InvalidValue("aspect", aspect, f"one of {', '.join(_NAMES)}, or {LABEL}NAME")
    return _NAMES[aspect]


def table_spends(charges: Iterable[ChargeFigures], rule: FilterRule | None,
                 rows: Mapping[str, int | None]) -> tuple[TableSpend, ...]:
    """What every table with a charge lost, dearest first. An unused scope cost no table."""
    parts = grouped_charges(charges, "table", rule)
    return tuple(TableSpend(name, part.amount.epsilon.value, part.amount.delta.value,
                            rows.get(name))
                 for name, part in parts.items()
                 if name != NO_TABLE)


def planned(table: str, units: int, delta_units: int, rule: FilterRule | None) -> ChargeFigures:
    """A plan that is not granted yet, as the charge it would be."""
    amount = Amount(units, delta_units, rule)
    return ChargeFigures("", -1, "grant", "granted", amount, amount, table)


def charge_of(grant: GrantState, state: State) -> ChargeFigures:
    """One grant of a state, and what it counts for."""
    event, rule, corrected = grant.event, state.rule, grant.corrected
    plan = corrected[-1].plan if corrected else event.plan
    return ChargeFigures(
        name=grant.grant, position=grant.position, kind="grant", status=status_of(grant),
        amount=Amount(*grant.counted, rule), asked=Amount(*grant.charged, rule),
        table=event.data, learners=(event.learner,) if event.learner else (),
        mechanisms=kinds_of(plan),
        labels=tuple(event.labels.items()), window=event.window, scope=event.scope or None,
        delta=event.delta, corrections=len(corrected), why=tuple(one.why for one in corrected),
        releases=grant.releases, plan=plan, crash=grant.crash, event=event,
        time=event.__dict__.get("time"),
        score=None if grant.end is None else grant.end.__dict__.get("score"),
        caps=() if event.scope else caps_over(state.caps, event.window, event))


def _scope(scope: ScopeState, users: Sequence[Granted], state: State) -> ChargeFigures:
    event, rule = scope.event, state.rule
    amount = Amount(*scope.charged, rule)
    return ChargeFigures(
        name=scope.scope, position=scope.position, kind="scope", status="scope", amount=amount,
        asked=amount, table=_joined([one.data for one in users], ""),
        learners=tuple(dict.fromkeys(one.learner or UNNAMED for one in users)),
        mechanisms=kinds_of(scope.plan), window=event.window, delta=event.delta,
        corrections=len(scope.corrected), why=tuple(one.why for one in scope.corrected),
        plan=scope.plan, event=event, time=event.__dict__.get("time"),
        caps=caps_over(state.caps, event.window, None))


def chosen(conditions: Iterable[str]) -> Callable[[ChargeFigures], bool]:
    """Whether a charge meets every `KEY=VALUE`: KEY is one of `ASPECTS`, `data` for `table`, or
    `label:` with a name; of learners, caps and libraries one of several, or its name, is enough.

    Raises:
        InvalidValue: no condition, or on nothing that charges have.
    """
    asked = []
    for one in conditions:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise InvalidValue("where", one, "KEY=VALUE, such as team=red")
        asked.append((aspect_of("table" if key == "data" else key), key, value))

    def meets(one: ChargeFigures) -> bool:
        parts = {"learner": one.learners, "cap": one.caps, "mechanism": one.mechanisms or (),
                 "library": (one.library.partition(" ")[0],), "grant": (one.name,)}
        return all(value == name_of(one) or value in parts.get(key, ())
                   for name_of, key, value in asked)

    return meets


def caps_over(caps: tuple[Cap, ...], window: str | None,
              request: Granted | None) -> tuple[str, ...]:
    """Titles of the caps that a grant, or a scope, counts under."""
    return tuple([caps[place].title for place in matching_caps(caps, window, request)])


def status_of(grant: GrantState) -> str:
    """The word of `ChargeFigures.status`."""
    end = grant.end
    if end is None or grant.status == "crashed":
        return grant.status
    if isinstance(end, Aborted) and not grant.touched:
        return "aborted"
    return "failed" if end.failed or isinstance(end, Aborted) else "settled"


def _joined(names: Iterable[str], otherwise: str) -> str:
    return " + ".join(dict.fromkeys(names)) or otherwise


_NAMES: dict[str, Callable[[ChargeFigures], str]] = {
    "table": lambda one: one.table or (NO_TABLE if one.kind == "scope" else ""),
    "learner": lambda one: _joined(one.learners, NO_TABLE if one.kind == "scope" else UNNAMED),
    "mechanism": lambda one: VOID if one.mechanisms is None else _joined(one.mechanisms,
                                                                         "(nothing)"),
    "team": lambda one: one.team, "window": lambda one: one.window or "",
    "grant": lambda one: f"scope {one.name}" if one.kind == "scope" else one.name,
    "isolation": lambda one: one.isolation, "library": lambda one: one.library,
    "cap": lambda one: _joined(one.caps, ""),
}


# The two prices of what ran in a federation, side by side: declared, and alone.
#
# Declared is what the ledger charged. Alone is the price if every other party gives its noise away
# (docs/proofs/federated.md); of what needs no trust it is the same.

@frozen
class FederatedTrust:
    """A grant or scope whose plan ran in a federation.

    Attributes:
        name: of the grant or scope. trusts: what the reader is asked to believe.
        declared: as the ledger charged it. alone: if every other party gives its noise away.
    """

    name: str
    trusts: tuple[Trust, ...]
    declared: Amount
    alone: Amount

    @property
    def text(self) -> str:
        """In words, with both prices."""
        return (f"{'; '.join(one.text for one in self.trusts)}: {prices_text(self)}")


def prices_text(one: FederatedTrust) -> str:
    """Both epsilons of a charge, at the budget's delta."""
    return (f"declared epsilon {one.declared.epsilon.text()}, alone epsilon "
            f"{one.alone.epsilon.text()}")


def rests_on_others(one: ChargeFigures) -> bool:
    """Whether owners share the noise of a charge's plan."""
    return any(trust.noise == "shared" for trust in said_or_none(one.plan, trusts))


def federated_of(one: ChargeFigures, relation: str) -> FederatedTrust | None:
    """What a charge asks to believe, with both prices; None if its plan ran in no federation."""
    believed = said_or_none(one.plan, trusts)
    return (
        FederatedTrust(one.name, believed, one.amount, _alone(one, relation)) if believed else None
    )


def alone_of(charges: Iterable[ChargeFigures], relation: str, total: Amount) -> Amount:
    """`total` with the charges that are named here priced alone; never less than `total`."""
    units, delta_units = total.units, total.delta_units
    for one in charges:
        own = _alone(one, relation)
        units += own.units - one.amount.units
        delta_units += own.delta_units - one.amount.delta_units
    return Amount(units, delta_units, total.rule)


def _alone(one: ChargeFigures, relation: str) -> Amount:
    rule = one.amount.rule
    if rule is None or one.plan is None or not one.amount.units:
        return one.amount
    if all(believed.noise == "local" for believed in said_or_none(one.plan, trusts)):
        return one.amount
    cost = cost_of(alone(plan_or_none(one.plan)), check_relation(relation), rule.orders)
    units, delta_units = rule.price(cost, one.delta)
    # A correction or a caller may have charged more than the price: never less than that.
    return Amount(max(units, one.amount.units), max(delta_units, one.amount.delta_units), rule)


# How much room is left, in whole numbers: how often a plan still fits, and how full each cap is.
#
# Epsilons do not add up; units do. After three counts a third of epsilon may be gone and an eighth
# of the units, so a forecast by epsilon is wrong, and one by units is exact.

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
    """Exactly how many requests for the same plan would still be granted, if no other comes.

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


@frozen
class BudgetFigures:
    """The ledger's budget or one of its caps, and what counts under it.

    Attributes:
        name: `LEDGER`, or the title of a cap. windowed: it counts one window only.
        epsilon, delta: as they were chosen. spent: epsilon of what counts under it, at that delta.
        amount: the same in the filter's unit. share: of the cap in that unit.
        full: of the unit's share and delta's, whichever is nearer its cap.
        left: epsilon of the largest plan that still fits.
        times: how many more charges like the newest one under it fit, exactly; None where there
            was none, or any number fits.
    """

    name: str
    windowed: bool
    epsilon: Figure
    delta: Figure
    spent: Figure
    amount: Figure
    share: Figure
    full: Figure
    left: Figure
    times: int | None


def budgets_of(state: State, charges: Sequence[ChargeFigures]) -> tuple[BudgetFigures, ...]:
    """The ledger's budget, then every cap, as of the open window.

    Args:
        charges: of the same state; the newest one under a budget is what its `times` is about.
    """
    assert state.budget is not None
    total = total_of(state)
    found = [_budget(LEDGER, False, state.budget, total, reversed(charges))]
    for cap, spent in zip(state.caps, state.cap_spent, strict=True):
        amount = Amount(*spent, None if state.rule is None else cap.rule(state.rule))
        under = (one for one in reversed(charges) if cap.matches(
            state.window, one.event if isinstance(one.event, Granted) else None))
        found.append(_budget(cap.title, cap.per_window or cap.window is not None, cap.budget,
                             amount, under))
    return tuple(found)


def _budget(name: str, windowed: bool, budget: Budget, amount: Amount,
            newest_first: Iterable[ChargeFigures]) -> BudgetFigures:
    rule = amount.rule
    newest = next((one.asked for one in newest_first if one.asked.units and one.paid), None)
    times = None if newest is None or rule is None else how_often(
        rule, newest.units, newest.delta_units, amount.units, amount.delta_units)
    left = Figure(budget.epsilon, "epsilon", REMAINDER) if rule is None else amount.left
    return BudgetFigures(name, windowed, Figure(budget.epsilon, direction=CHOSEN),
                         Figure(budget.delta, "delta", CHOSEN), amount.epsilon, amount.own,
                         amount.share, _fuller(amount), left, times)


def fullness(state: State) -> tuple[tuple[str, Figure], ...]:
    """The share of the ledger's budget, and of each cap of the open window, that is gone."""
    return tuple((one.name, one.full) for one in budgets_of(state, ()))


def _fuller(amount: Amount) -> Figure:
    """Of units and delta units, whichever is nearer its cap."""
    rule = amount.rule
    if rule is None or not rule.delta_cap_units:
        return amount.share
    used = Figure(Amount(amount.delta_units, 0, FilterRule(
        rule.kind, rule.order, rule.budget, rule.delta_cap_units)).share.value, SHARE)
    return max(amount.share, used, key=lambda figure: figure.value)
