"""State + request -> charge or refusal. Pure: nothing is changed here."""

from __future__ import annotations

from functools import partial
from typing import Any

from attrs import define, field, frozen

from privledger.accounting import Cost, check_relation
from privledger.errors import (
    BudgetExceeded,
    InvalidValue,
    LedgerCorrupt,
    NotGranted,
    UnsupportedNode,
)
from privledger.graph import Node, certify, cost_of, to_json
from privledger.ledger.codec import decode
from privledger.ledger.entries import parse_body
from privledger.ledger.events import (
    EVENTS,
    Aborted,
    Corrected,
    Event,
    FilterFixed,
    Granted,
    Holder,
    ScopeOpened,
    Settled,
)
from privledger.ledger.filters import (
    KINDS,
    Budget,
    Cap,
    FilterRule,
    fixed_filter,
    matching_caps,
)
from privledger.ledger.limits import Efforts, check_plan, is_free
from privledger.ledger.limits import effort as effort_of
from privledger.ledger.line import Limit, QueuePosition, Refund, can_come, demand_of
from privledger.ledger.state import GrantIsClosed, GrantState, ScopeState, State
from privledger.ledger.store import Store
from privledger.ledger.vectors import check_vectors, records_in
from privledger.rounding import downward, exact, upward

LEDGER = "the ledger"
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
        line: the budget for which a request waits whose turn it is; else empty.
    """

    rule: FilterRule
    charge: Charge
    spent_units: int
    spent_delta_units: int
    broken: str = ""
    scope: str = LEDGER
    line: str = ""

    def error(self, own: float | None = None) -> BudgetExceeded:
        """The typed refusal; its numbers are epsilons at the budget's delta.

        Args:
            own: epsilon of the plan by itself, at that delta; None where the filter books just
                that.
        """
        rule = self.rule
        over_delta = self.charge.delta_units + self.spent_delta_units > rule.delta_cap_units
        if self.line:
            return BudgetExceeded(
                asked=rule.epsilon_of(self.charge.units), left=rule.left_of(self.spent_units),
                spent=rule.epsilon_of(self.spent_units), scope=self.scope,
                fits=f"another request is first in the queue for {self.line}: request with "
                     "wait=seconds")
        if over_delta and not self.broken:
            return BudgetExceeded(
                asked=rule.delta_of(self.charge.delta_units), unit="delta",
                spent=rule.delta_of(self.spent_delta_units),
                left=rule.delta_left_of(self.spent_delta_units),
                fits="request a smaller delta, or create the ledger with filter='gdp' or 'rdp'"
                if rule.kind == "basic" else "the delta reserve for plans with a delta of their "
                                             "own (the budget's failure) does not suffice",
            )
        left = rule.left_of(self.spent_units)
        if self.broken:
            return BudgetExceeded(
                asked=rule.epsilon_of(self.charge.units), left=0.0,
                spent=rule.epsilon_of(self.spent_units), fits=f"{self.broken}: "
                                                              "no further plan fits",
                scope=self.scope)
        room = rule.cap_units - self.spent_units
        if not left > 0:
            fits = "the budget is used up: no further plan fits"
        elif own is None:
            fits = (f"a plan of epsilon {downward(left)} at delta {exact(rule.budget.delta)} would "
                    "fit: add noise, run fewer rounds, or request less epsilon")
        else:
            fits = (f"the plan costs {upward(self.charge.units / room)} times what is left, and "
                    f"{rule.kind} adds costs up. A plan of Gaussian noise would fit at epsilon "
                    f"{downward(left)}, or a smaller part of this plan")
        return BudgetExceeded(
            asked=rule.epsilon_of(self.charge.units), spent=rule.epsilon_of(self.spent_units),
            left=left, fits=fits, scope=self.scope, own=own,
        )


def own_epsilon(node: Node, rule: FilterRule, relation: str) -> float | None:
    """Epsilon of a plan by itself at the budget's delta, where a filter books more than that and
    the plan's own delta is below it."""
    checked = check_relation(relation)
    cost = cost_of(node, checked)
    if rule.kind == "basic" or cost.mu_squared is not None or cost.failure >= rule.budget.delta:
        return None
    return certify(node, rule.budget.delta, checked).epsilon


def booked_by_filters(
    node: Node, delta: float, budget: Budget, relation: str, own: FilterRule,
) -> tuple[tuple[str, float], ...]:
    """What a new ledger would book for a plan, by its `own` filter and by each of the other kinds
    that can promise the budget."""
    found = []
    for kind in KINDS:
        try:
            rule = own if kind == own.kind else fixed_filter(kind, budget)
            cost = cost_of(node, check_relation(relation), rule.orders)
            found.append((kind, rule.epsilon_of(rule.price(cost, delta)[0])))
        except (InvalidValue, UnsupportedNode):
            continue  # no such filter for this budget, or no price for this plan by it
    return tuple(found)


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
    for place in matching_caps(state.caps, state.window, request):
        cap, (units, delta_units) = state.caps[place], state.cap_spent[place]
        own = cap.rule(rule)
        if cap.per_window and state.window is None:
            return Refusal(own, charge, 0, 0, NO_WINDOW, scope=cap.title)
        if not _fits(own, charge, units, delta_units):
            return Refusal(own, charge, units, delta_units, scope=cap.title)
    return charge


def _fits(rule: FilterRule, charge: Charge, units: int, delta_units: int) -> bool:
    return (units + charge.units <= rule.cap_units
            and delta_units + charge.delta_units <= rule.delta_cap_units)


def limits(state: State, rule: FilterRule) -> tuple[Limit, ...]:
    """The ledger's own budget, then every cap: what they hold, and whom they are for."""
    refunds = [(grant.event, _refund(grant.event)) for grant in state.grants.values()
               if grant.status == "granted" and not grant.releases]
    found = [Limit(LEDGER, False, (state.units, state.delta_units),
                   (rule.cap_units, rule.delta_cap_units), lambda place: True,
                   tuple(refund for _, refund in refunds), renews=False)]
    for cap, used in zip(state.caps, state.cap_spent, strict=True):
        own = cap.rule(rule)
        found.append(Limit(
            cap.title, bool(cap.labels), used, (own.cap_units, own.delta_cap_units),
            partial(_under, cap, state.window),
            tuple(refund for event, refund in refunds if cap.matches(event.window, event)
                  and (event.window == state.window or not cap.per_window)),
            renews=cap.per_window, closed=cap.per_window and state.window is None))
    return tuple(found)


def _refund(event: Granted) -> Refund:
    held = event.holder or Holder("", 0, "")
    return Refund(event.grant, (held.host, held.pid, held.started),
                  (int(event.units), int(event.delta_units)))


def _under(cap: Cap, window: str | None, place: QueuePosition) -> bool:
    """Without a table it is a scope, which may serve any table and any request later."""
    return cap.matches(window, place if place.data else None)


def may_come(state: State, place: QueuePosition) -> bool:
    """Whether a plan that does not fit could yet: in a new window, or if every open grant is
    handed back."""
    if state.rule is None:
        return False  # nothing was ever granted
    known = limits(state, state.rule)
    return can_come(demand_of(place, known), known)


# Corrections: what was granted turns out to have cost more. Totals may only rise.
#
# History is never edited. A correction names a grant, says why, and charges what the corrected
# plan costs beyond what was charged before. Of a scope it names what ran beyond what the filter
# counted, and charges all of it: the filter goes on counting, and its cap stays paid for, so this
# is one more plan beside it. A total that passes the cap this way stays there: the promise was
# broken, every further request is refused, and `verify` says so.

@frozen
class Correction:
    """What a correction will add.

    Attributes:
        units, delta_units: beyond what the grant was charged so far; never negative.
        event: of the history entry.
    """

    units: int
    delta_units: int
    event: Corrected


def correction(state: State, grant: str, plan: Node | None, why: str, time: str) -> Correction:
    """Price `plan` afresh, as what `grant` really ran; None if nothing can be promised for it.

    Args:
        grant: its name, or that of a scope. A grant that drew on a scope corrects the scope.
        plan: the node tree with the true parameters, stated for the ledger's relation; under a
            scope, of what ran beyond what its filter counted.
        why: a sentence, kept for ever.

    Raises:
        NotGranted: there is no such grant, nor a scope of that name.
        InvalidValue: no reason given, or a grant that was handed back.
        UnsupportedNode: the corrected plan has no price under the ledger's filter; pass None.
    """
    if not isinstance(why, str) or not why.strip():
        raise InvalidValue("why", why, "a sentence")
    found, why = _paid(state, grant), why.strip()
    charged, charged_delta = found.charged
    rule = state.rule
    if rule is None:
        raise NotGranted(f"{grant}: nothing was charged under that name in this ledger")
    name = grant
    if plan is None:
        extra = max(0, rule.cap_units + 1 - charged), 0
    else:
        cost = cost_of(plan, check_relation(state.relation), rule.orders)
        units, delta_units = rule.price(cost, float(found.event.delta))
        before = (0, 0) if isinstance(found, ScopeState) else (charged, charged_delta)
        extra = max(0, units - before[0]), max(0, delta_units - before[1])
    if isinstance(found, ScopeState):
        name = found.scope
        why = why if name == grant else f"{grant}: {why}"
    return Correction(*extra, Corrected(name, None if plan is None else to_json(plan), *extra,
                                        why[:2000], time))


def _paid(state: State, grant: str) -> GrantState | ScopeState:
    found = state.grants.get(grant)
    if found is None and grant in state.closed_names:
        raise GrantIsClosed(grant)  # the history brings it back and asks again
    if found is None and grant in state.scopes:
        return state.scopes[grant]
    if found is None:
        raise NotGranted(f"there is no grant and no scope {grant!r} to correct")
    if found.event.scope:
        if found.event.scope not in state.scopes or state.knows(found.event.scope):
            raise InvalidValue("grant", grant, "a grant whose scope has a name of its own")
        return state.scopes[found.event.scope]
    if found.status == "aborted" and not found.touched:
        raise InvalidValue("grant", grant, "a grant that read something: this one was handed back")
    return found


# What a history has left of the limits that add up, for a writer that keeps to them.

_PLANS = (Granted, ScopeOpened, Corrected)


@define
class _Sums:
    """Of a history up to `position`."""

    efforts: Efforts = field(factory=Efforts)
    records: int = 0
    position: int = -1


@define
class Room:
    """Sums over a history as far as it was followed. Two writers may count a plan each that the
    other does not know yet: half of every limit is left for that."""

    _sums: _Sums = field(factory=_Sums)

    def check_plan(self, store: Store, rule: str, plan: Any, *, whole: bool = False) -> None:
        """Refuse a plan that takes too long to price again.

        Args:
            rule: kind of the ledger's filter.
            plan: JSON values of a node.
            whole: by its privacy-loss distribution, see `effort`.

        Raises:
            InvalidPlan: nothing was read.
        """
        needed = effort_of(plan, rule, whole=whole)
        check_plan(needed)
        if self._sums.efforts.is_new(plan, needed, whole=whole):
            efforts = self._follow(store).efforts
            if efforts.is_new(plan, needed, whole=whole):
                check_plan(needed, efforts.total)

    def check_vector(self, store: Store, records: int) -> None:
        """Refuse a filter whose vector would pass a limit.

        Raises:
            InvalidPlan: nothing was answered.
        """
        check_vectors(records, self._follow(store).records)

    def _follow(self, store: Store) -> _Sums:
        """Read what was appended since; only what counts is parsed."""
        # On a copy that takes its place at once: threads may be here together.
        sums = _Sums(self._sums.efforts.copy(), self._sums.records, self._sums.position)
        for position, kind, text, _, _ in store.rows(sums.position):
            sums.position = position
            what = EVENTS.get(kind)
            if what is FilterFixed or (what in _PLANS and not is_free(text)) or (
                    what in (Settled, Aborted) and '"vector":' in text):
                _add(sums, store, decode(kind, parse_body(text)))
        self._sums = sums
        return sums


def _add(sums: _Sums, store: Store, event: Event) -> None:
    if isinstance(event, FilterFixed):
        sums.efforts.kind = str(event.rule)
    elif isinstance(event, _PLANS):
        sums.efforts.add(event.plan, event.delta_units)
    elif isinstance(event, Settled):
        sums.records += _records(store, event)


def _records(store: Store, settled: Settled) -> int:
    try:
        data = None if settled.vector is None else store.vector(settled.vector.name)
        return 0 if data is None else records_in(data)
    except LedgerCorrupt:
        return 0  # an audit says so
