"""History checks: an audit trusts no total and collects every fault at once.

`RULES` is the list of them: which kinds of entries, under which name, what is checked. `audit`
brings every line in order, with the state after it as long as one follows; what rules remember of
the entries before is in `Seen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from privledger.accounting import check_relation
from privledger.errors import LedgerCorrupt, PrivledgerError
from privledger.findings import Finding
from privledger.graph import (
    IndividualFilter,
    Meter,
    Node,
    Tuning,
    as_released,
    cost_of,
    from_json,
    trusts,
)
from privledger.graph.fold import unshared
from privledger.graph.nodes import holds
from privledger.ledger.codec import SHAPES, check_fields, check_together, encode
from privledger.ledger.codec_lines import Asked, Line, LineOf, asked
from privledger.ledger.entries import FORMAT
from privledger.ledger.events import (
    Chain,
    Corrected,
    Created,
    Enrolled,
    Event,
    FilterFixed,
    Granted,
    Plan,
    Protected,
    Released,
    ReleasedNode,
    ScopeOpened,
    Settled,
    WindowOpened,
    read_node,
)
from privledger.ledger.filters import FilterRule, fixed_filter
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.limits import MOST_EFFORT, MOST_TOTAL_RECORDS, Efforts
from privledger.ledger.origins import (
    Origins,
    alone_epsilon,
    asserted_kinds,
    origin_findings,
    outside_of,
    recorded_kinds,
)
from privledger.ledger.policy import Policy
from privledger.ledger.roster import Roster, members_of
from privledger.ledger.state import State
from privledger.ledger.store import Store
from privledger.ledger.vectors import each_piece, read_whole, records_in, unpack
from privledger.ledger.view_charges import plan_or_none
from privledger.rounding import as_written, units_up

Findings: TypeAlias = Iterable[Finding]
Nodes: TypeAlias = dict[int, tuple[list[ReleasedNode], list[tuple[Chain, Node]]]]
_MOST_NODES = 20_000
LIMITS = "within-the-limits"
WHOLE, PRICES, RELEASES = "entries-are-whole", "prices-are-right", "releases-are-granted"
SCOPES, KEPT = "scopes-are-paid", "policy-is-kept"
VECTORS, PEOPLE = "vectors-match", "people-match"


class _Open:
    """A grant under audit: its plan, and what was taken off it."""

    __slots__ = ("count", "first", "form", "meter", "plan")

    def __init__(self, form: int | None, plan: Plan) -> None:
        self.form, self.plan = form, plan
        self.count = 0
        self.first: Released | None = None
        self.meter: Meter | None = None


@define(eq=False)
class Seen:
    """What rules remember of the entries before.

    Attributes:
        format, mode, unit, policy, promise: of the creation; relation and delta are promised.
        priced, allowed: forms of grants that pay for their plans, and that the policy allows (with
            the declared rows of their table).
        rows: declared, by table.
        open: grants that are not over. faults: by form of a plan and what was asked.
        nodes: lists that were read, with what they say, by their identity.
        drawn: grant -> scope. paid, bound, marks: filter, table and order of its rows by scope.
        totals: what was taken, by scope and place. records: in all vectors so far.
    """

    store: Store
    format: int = FORMAT
    mode: str = "private"
    unit: str = "row"
    policy: Policy | None = None
    promise: tuple[str, float] = ("", 0.0)
    efforts: Efforts = field(factory=Efforts)
    priced: set[int] = field(factory=set)
    allowed: set[tuple[int, int | None]] = field(factory=set)
    rows: dict[str, int | None] = field(factory=dict)
    open: dict[str, _Open] = field(factory=dict)
    faults: dict[tuple[int, Asked], str] = field(factory=dict)
    nodes: Nodes = field(factory=dict)
    drawn: dict[str, str] = field(factory=dict)
    paid: dict[str, IndividualFilter] = field(factory=dict)
    bound: dict[str, str] = field(factory=dict)
    marks: dict[str, str] = field(factory=dict)
    roster: Roster = field(factory=Roster)
    totals: dict[str, NDArray[np.int64]] = field(factory=dict)
    records: int = 0


def whole_history(seen: Seen, line: Line, state: State | None) -> Findings:
    """Every entry has the fields of its kind, of their types, in the format of its ledger."""
    kind, body = line.event.kind, encode(line.event)
    try:
        check_fields(SHAPES[kind], body)
        if isinstance(line.event, Created):
            seen.format, seen.mode = body["format"], body["mode"]
        check_together(kind, body, seen.format, seen.mode)
    except (PrivledgerError, ValueError, TypeError, KeyError) as error:
        yield Finding(WHOLE, line.position, str(error) or "malformed")


def _cap_is_right(seen: Seen, line: LineOf[FilterFixed], state: State) -> Findings:
    """Note which currency prices are in; compare the cap with the budget."""
    rule = state.rule
    if rule is None or state.budget is None:
        return
    seen.efforts.kind = rule.kind
    fresh = fixed_filter(rule.kind, state.budget, rule.order if rule.kind == "rdp" else None)
    if (rule.cap_units > _with_slack(fresh.cap_units)
            or rule.delta_cap_units > fresh.delta_cap_units):
        yield Finding(PRICES, line.position, "the cap is larger than the budget's")
    if state.filter_asked not in ("auto", rule.kind):
        yield Finding(PRICES, line.position, "another filter was asked for")


def _with_slack(cap: int) -> int:
    """One part in 10^9 more, as for prices: another machine may invert a little differently."""
    return cap + cap // 10**9


def _grant_is_paid(seen: Seen, line: LineOf[Granted], state: State) -> Findings:
    """Price the plan again, unless one like it was right, and compare the totals."""
    if state.rule is None:
        return ()
    if line.form in seen.priced:
        return _totals(line, state, state.rule)
    found = _effort(seen, line)
    if not found:
        charged, due = (line.event.units, line.event.delta_units), _price(line.event, state)
        # One part in 10^9 of slack: another machine's libm may round a little differently.
        if any(int(paid) < each - each // 10**9 for paid, each in zip(charged, due, strict=True)):
            found = [Finding(PRICES, line.position, "charged less than the plan costs")]
    if line.form is not None and not found:
        seen.priced.add(line.form)
    return [*found, *_totals(line, state, state.rule)]


def _price(event: Granted | ScopeOpened, state: State) -> tuple[int, int]:
    assert state.rule is not None
    plan = from_json(event.plan)
    if isinstance(event, Granted) and event.scope:
        return 0, 0
    with unshared():
        cost = cost_of(plan, check_relation(state.relation), _orders(plan, state.rule))
    if state.rule.kind == "basic" and event.delta_units == 0 and (
            cost.pure_part is None or cost.pure_part > as_written(state.rule.budget.epsilon)):
        # Over the budget without a delta, so it was not granted at this price: no need to
        # compute what a delta would have made of it.
        return units_up(min(cost.pure, 1e300)), 0
    return state.rule.price(cost, float(event.delta))


def _orders(plan: Node, rule: FilterRule) -> tuple[float, ...]:
    """A Renyi filter asks for one order, unless the price at it looks at others."""
    return rule.orders if rule.kind != "rdp" or holds(plan, Tuning) else (rule.order,)


def _effort(seen: Seen, line: Line) -> list[Finding]:
    """Before a plan is priced: whether an auditor has the time."""
    needed = seen.efforts.add(line.event.plan, line.event.delta_units)
    if needed <= MOST_EFFORT and seen.efforts.total <= MOST_EFFORT:
        return []
    return [Finding(LIMITS, line.position, "not priced: with this one, pricing the plans that "
                                           f"differ takes more than about {MOST_EFFORT:.0f} ms")]


def _totals(line: Line, state: State, rule: FilterRule) -> Findings:
    """Neither the ledger's own cap nor another that the charge falls under is passed."""
    found = []
    if state.units > rule.cap_units or state.delta_units > rule.delta_cap_units:
        found = [Finding("never-over-the-cap", line.position, "the total exceeds the cap here")]
    if not state.caps:
        return found
    event = line.event
    paid = (state.grants.get(event.grant) or state.scopes[event.grant]).event if isinstance(
        event, Corrected) else event
    window = paid.window
    earlier = state.totals_of(window)
    for place, cap in enumerate(state.caps):
        own = cap.rule(rule)
        units, delta_units = (earlier if cap.per_window else state.cap_spent)[place]
        closed = cap.per_window and window is None and (units or delta_units)
        if units > _with_slack(own.cap_units) or delta_units > own.delta_cap_units or closed:
            found.append(Finding("never-over-the-cap", line.position,
                                 f"{cap.title} is exceeded here"))
    return found


def _correction_is_paid(seen: Seen, line: LineOf[Corrected], state: State) -> Findings:
    """The corrected plan's price is charged in full, and no correction gives anything back."""
    effort = _effort(seen, line)
    yield from effort
    if state.rule is None:
        return
    if not effort:
        yield from _corrected(line, state, state.rule)
    yield from _totals(line, state, state.rule)


def _corrected(line: LineOf[Corrected], state: State, rule: FilterRule) -> Findings:
    event, grant = line.event, state.grants.get(line.event.grant)
    if grant is None:  # of a scope: what ran beside its filter, paid for in full
        delta = state.scopes[event.grant].event.delta
        true, charged = event.plan, (int(event.units), int(event.delta_units))
    else:
        true, charged, delta = grant.plan, grant.charged, grant.event.delta
        if grant.status == "aborted" and not grant.touched:
            yield Finding(PRICES, line.position, "corrects a grant that was handed back")
    if true is None:
        yield Finding("never-over-the-cap", line.position,
                      f"the promise was voided for {event.grant}")
        return
    plan = from_json(true)
    cost = cost_of(plan, check_relation(state.relation), _orders(plan, rule))
    expected = rule.price(cost, float(delta))
    if any(paid < due - due // 10**9 for paid, due in zip(charged, expected, strict=True)):
        yield Finding(PRICES, line.position, "charged less than the corrected plan costs")


def _opened(seen: Seen, line: LineOf[Granted], state: State | None) -> Findings:
    """Open a meter on the plan that was stored."""
    grant = _Open(line.form, line.event.plan)
    if line.form is None:
        grant.meter = Meter(as_released(from_json(grant.plan)))
    seen.open[line.event.grant] = grant
    return ()


def _releases_fit(seen: Seen, line: LineOf[Released], state: State | None) -> Findings:
    """Each release has to fit what the meter has left, and follow the one before."""
    event, grant = line.event, seen.open[line.event.grant]
    if event.first != grant.count:
        yield Finding(RELEASES, line.position, "releases are missing or repeated")
    grant.count += len(event.items)
    fresh = grant.first is None and grant.meter is None
    found = asked(line)
    if fresh and grant.form is not None and found is not None:
        grant.first, key = event, (grant.form, found)
        fault = seen.faults.get(key)
        if fault is None:
            fault = seen.faults[key] = _fault(grant, event, seen.nodes)
    else:
        if grant.meter is None:
            _fault(grant, grant.first, seen.nodes)  # known, and told
        fault = _fault(grant, event, {} if line.form is None else seen.nodes)
    if fault:
        yield Finding(RELEASES, line.position, fault)


def _fault(grant: _Open, released: Released | None, known: Nodes) -> str:
    """Args: known: lists of nodes that were read; lines of one look share theirs."""
    if grant.meter is None:
        grant.meter = Meter(as_released(from_json(grant.plan)))
    if released is None:
        return ""
    try:
        nodes = known.get(id(released.nodes))
        if nodes is None:
            if len(known) >= _MOST_NODES:
                known.clear()
            nodes = known[id(released.nodes)] = released.nodes, [
                read_node(node) for node in released.nodes]
        for item in released.items:
            grant.meter.admit(*nodes[1][item[0]])
    except PrivledgerError as error:
        return str(error)
    return ""


def _counts(seen: Seen, line: LineOf[Settled], state: State | None) -> Findings:
    """The number of releases is the number that was written down, also of what is handed back."""
    grant = seen.open.pop(line.event.grant, None)
    if int(line.event.releases) == (0 if grant is None else grant.count):
        return ()
    return [Finding(RELEASES, line.position,
                    "settles another number of releases than were recorded")]


def _unit(seen: Seen, line: LineOf[Created], state: State | None) -> Findings:
    """Whom the promise is about."""
    seen.unit = line.event.unit
    return ()


def _scope_is_paid(seen: Seen, line: LineOf[ScopeOpened], state: State | None) -> Findings:
    """Note the filter that was paid for."""
    node = from_json(line.event.plan)
    if isinstance(node, IndividualFilter):
        seen.paid[line.event.scope] = node
    return ()


def _scope_is_drawn_on(seen: Seen, line: LineOf[Granted], state: State | None) -> Findings:
    """A grant may draw only on a scope that was paid for, with the same filter. A scope of rows
    serves one table; one of people serves them in all tables."""
    event, name = line.event, line.event.scope
    if not name:
        return
    plan, paid = from_json(event.plan), seen.paid.get(name)
    if paid is None or not isinstance(plan, IndividualFilter) or (
            plan.caps != paid.caps):
        yield Finding(SCOPES, line.position, "uses a scope that was never paid for")
    rows = seen.unit == "row"
    if rows and seen.bound.setdefault(name, event.data) != event.data:
        yield Finding(SCOPES, line.position, "a scope is used for two data sets")
    if rows and event.mark and seen.marks.setdefault(name, event.mark) != event.mark:
        yield Finding(SCOPES, line.position, "a scope is used for a table in two row orders")


def _policy(seen: Seen, line: LineOf[Created], state: State | None) -> Findings:
    """Take the policy of the first entry; another is not the ledger's."""
    if line.position or line.event.policy is None:
        return ()
    seen.policy = line.event.policy
    seen.promise = line.event.relation, line.event.budget.delta
    return _allowed(seen, line, state)


def _declared(seen: Seen, line: LineOf[Protected], state: State | None) -> Findings:
    """Note the rows of the table: a policy may ask for a least number."""
    if seen.policy is not None:
        seen.rows[line.event.data] = line.event.rows
    return ()


def _allowed(seen: Seen, line: Line, state: State | None) -> Findings:
    """What the ledger's own policy forbids was never granted or released; of grants, each form
    is looked at once."""
    if seen.policy is None:
        return ()
    event, form = line.event, None
    if isinstance(event, Granted) and line.form is not None:
        form = line.form, seen.rows.get(event.data)
        if form in seen.allowed:
            return ()
    found = [Finding(KEPT, line.position, f"{one.rule}: {one.message}") for one in origin_findings(
        origins_of(event, seen.rows, *seen.promise), seen.policy)]
    if form is not None and not found:
        seen.allowed.add(form)
    return found


def origins_of(event: Event, rows: dict[str, int | None], relation: str, delta: float) -> Origins:
    """What one entry brings that a policy can forbid; the creation answers for the ledger."""
    if isinstance(event, Created):
        return Origins(relation=event.relation, simulated=event.mode != "private",
                       budget_delta=event.budget.delta)
    if isinstance(event, WindowOpened):
        return Origins(windows=(event.window,))
    if isinstance(event, Released):
        return Origins(asserted=tuple(
            text for text in event.questions if text.startswith("asserted:")))
    assert isinstance(event, Granted | ScopeOpened | Corrected)
    kinds = () if event.plan is None else tuple(recorded_kinds(event.plan))
    plans = [] if event.plan is None else [plan_or_none(event.plan)]
    found = Origins(mechanisms=kinds, asserted=tuple(asserted_kinds(kinds)),
                    trusts=tuple(one for plan in plans for one in trusts(plan)),
                    alone=alone_epsilon(plans, relation, delta))
    return found if not isinstance(event, Granted) else evolve(
        found, learners=(event.learner,), isolation=(event.isolation,),
        rows=((event.data, rows.get(event.data)),), outside=outside_of(event))


def _draws(seen: Seen, line: LineOf[Granted], state: State | None) -> Findings:
    """Note which scope the grant draws on: what is spent under it is the scope's."""
    if line.event.scope:
        seen.drawn[line.event.grant] = line.event.scope
    return ()


def _vector(seen: Seen, line: LineOf[Settled], state: State | None) -> Findings:
    """The vector that is named has to be there, with the digest that is named."""
    note = line.event.vector
    if not note or seen.unit != "row":
        return
    data = seen.store.vector(note.name)
    if data is None or sha256(data).hexdigest() != note.sha256:
        yield Finding(VECTORS, line.position, "the per-record vector is missing or was edited")
        return

    def whole() -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int32]]]:
        yield 0, *unpack(data)

    count = records_in(data)
    yield from _spent(seen, line, count, count, whole(),
                      Finding(VECTORS, line.position, "a record exceeds its own cap"))


def _enrolled(seen: Seen, line: LineOf[Enrolled], state: State | None) -> Findings:
    """The new ones follow those before; who is in the table is known by then."""
    seen.roster.enrol(seen.store, line.event)
    there = members_of(seen.store, line.event)
    if len(there) > seen.roster.size:
        yield Finding(PEOPLE, line.position, "a table has unknown people")


def _people_spent(seen: Seen, line: LineOf[Settled], state: State | None) -> Findings:
    """What was spent has to be there, as it is named."""
    note = line.event.vector
    if not note or seen.unit != "person":
        return
    count = read_whole(seen.store, note).count
    if count > seen.roster.size:
        raise LedgerCorrupt("unknown people have spent")
    yield from _spent(seen, line, count, seen.roster.size, each_piece(seen.store, note),
                      Finding(PEOPLE, line.position, "a person exceeds the cap"))


def _spent(seen: Seen, line: LineOf[Settled], count: int, size: int,
           pieces: Iterable[tuple[int, NDArray[np.int64], NDArray[np.int32]]],
           fault: Finding) -> Findings:
    """No record is past the cap in all that was taken under one scope together.

    Args:
        count: places in what was taken. size: places there are.
        pieces: first place, units and rounds; read only if they are not too many.
    """
    note = line.event.vector
    assert note is not None
    seen.records += count
    if seen.records > MOST_TOTAL_RECORDS:
        yield Finding(LIMITS, line.position, "the vectors up to here hold more than "
                                             f"{MOST_TOTAL_RECORDS} records: not read")
        return
    scope = seen.drawn.get(line.event.grant, note.name)
    before = seen.totals.get(scope, np.zeros(0, np.int64))
    total = np.zeros(max(size, len(before)), np.int64)
    total[:len(before)] = before
    for first, taken, rounds in pieces:
        seen.totals[scope] = total
        if not len(taken):
            continue
        some = total[first:first + len(taken)]
        # A sum of few numbers that are each within the cap stays far below what overflows.
        wrong = int(taken.min()) < 0 or int(taken.max()) > RECORD_UNITS
        if not wrong:
            some += taken
        if wrong or int(some.max()) > RECORD_UNITS or int(rounds.min()) < 0:
            yield fault
            return


Again: TypeAlias = Callable[[Seen, Any], bool]


@frozen
class Rule:
    """One check: a row of the list.

    Attributes:
        kinds: of the entries it looks at. name: of its findings.
        check: of what is remembered, the line, and the state after it.
        again: whether a further line of the same form, after one without a finding, has anything
            new for it: it could find, or remember, something.
    """

    kinds: str
    name: str
    check: Callable[[Seen, Any, Any], Findings]
    again: Again = lambda seen, event: True


def _scoped(seen: Seen, event: Granted) -> bool:
    return bool(event.scope)


def _noted(seen: Seen, event: Settled) -> bool:
    return bool(event.vector)


def _ruled(seen: Seen, event: object) -> bool:
    return seen.policy is not None


RULES: tuple[Rule, ...] = (
    # Names and counts that were cut out of a form are plain texts and whole numbers.
    Rule(" ".join(SHAPES), WHOLE, whole_history, lambda seen, event: False),
    Rule("filter", PRICES, _cap_is_right),
    Rule("granted scope", PRICES, _grant_is_paid),
    Rule("corrected", PRICES, _correction_is_paid),
    Rule("granted", RELEASES, _opened),
    Rule("released", RELEASES, _releases_fit),
    Rule("settled aborted", RELEASES, _counts),
    Rule("created", SCOPES, _unit),
    Rule("scope", SCOPES, _scope_is_paid),
    Rule("granted", SCOPES, _scope_is_drawn_on, _scoped),
    Rule("created", KEPT, _policy),
    Rule("protected", KEPT, _declared, _ruled),
    Rule("granted scope corrected released window", KEPT, _allowed, _ruled),
    Rule("created", VECTORS, _unit),
    Rule("granted", VECTORS, _draws, _scoped),
    Rule("settled", VECTORS, _vector, _noted),
    Rule("created", PEOPLE, _unit),
    Rule("enrolled", PEOPLE, _enrolled),
    Rule("granted", PEOPLE, _draws, _scoped),
    Rule("settled", PEOPLE, _people_spent, _noted),
)
"""Every rule about what entries say. Findings are told in the order of the names here."""
