"""History checks: an audit trusts no total and collects every fault at once.

Each rule is a class with a method for each kind of entry it looks at. `audit` brings it every
line in order, together with the state after that line, as long as a state follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.accounting import check_relation
from privledger.errors import PrivledgerError
from privledger.findings import Finding
from privledger.graph import (
    IndividualFilter,
    Meter,
    Node,
    Tuning,
    as_released,
    cost_of,
    from_json,
)
from privledger.graph.meter import filter_caps
from privledger.graph.nodes import holds
from privledger.graph.remember import unshared
from privledger.ledger.codec import encode
from privledger.ledger.codec_lines import Asked, Line, LineOf, asked
from privledger.ledger.codec_shapes import SHAPES, SINCE, check_fields
from privledger.ledger.entries import FORMAT
from privledger.ledger.events import (
    Corrected,
    Created,
    FilterFixed,
    Granted,
    Plan,
    Released,
    ScopeOpened,
    Settled,
    VectorNote,
)
from privledger.ledger.filters import FilterRule, fixed_filter
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.limits import MOST_EFFORT, MOST_TOTAL_RECORDS, Efforts
from privledger.ledger.log import read_node
from privledger.ledger.state import State
from privledger.ledger.store import Store
from privledger.ledger.vectors import records_in, unpack
from privledger.rounding import as_written, units_up

Findings = Iterable[Finding]
LIMITS = "within-the-limits"


class Rule:
    """What all rules have."""

    name = ""

    def idle(self, line: Line) -> bool:
        """Whether every further line of this one's form has nothing new for the rule: it would
        find nothing, and remember nothing."""
        return False


class EntriesAreWhole(Rule):
    """Every entry has the fields of its kind, of their types, in the format of its ledger."""

    name = "entries-are-whole"

    def __init__(self) -> None:
        self._format, self._mode = FORMAT, "private"
        for kind in SHAPES:
            setattr(self, f"on_{kind}", self.look)

    def idle(self, line: Line) -> bool:
        """Names and counts that were cut out are plain texts and whole numbers."""
        return True

    def look(self, line: Line, state: State | None) -> list[Finding]:
        """What is wrong with one entry: one finding, or none."""
        try:
            self._check(line.event.kind, encode(line.event))
        except (PrivledgerError, ValueError, TypeError, KeyError) as error:
            return [Finding(self.name, line.position, str(error) or "malformed")]
        return []

    def _check(self, kind: str, body: Any) -> None:
        check_fields(SHAPES[kind], body)
        if kind == "created":
            self._format, self._mode = body["format"], body["mode"]
            _check_created(body)
        if SINCE[kind] > self._format:
            raise ValueError(f"format {self._format} has no {kind}")
        if kind == "released":
            nodes, questions = len(body["nodes"]), len(body["questions"])
            if any(node >= nodes or asked >= questions for node, asked, _ in body["items"]):
                raise ValueError("an item of a node or a question that is not there")
        # Releases of a grant that touched nothing: an interrupt between charge and look, written
        # by an earlier version. The charge stays whole, so it can only be too high.
        if kind == "aborted" and body["touched"]:
            raise ValueError("handed back, although data was touched")
        if kind in ("settled", "aborted") and body.get("answer") is not None:
            _check_answer(kind, body, body["answer"], self._mode)


def _check_answer(kind: str, body: Mapping[str, object], answer: Mapping[str, object],
                  mode: str) -> None:
    """What is given out again was released once, in private, under a grant that did not fail."""
    if kind != "settled" or body["releases"] != 1 or body.get("failed") or mode != "private" or (
            not answer["values"]):
        raise ValueError("an answer that no single release gave")


def _check_created(body: Mapping[str, Any]) -> None:
    format_, caps = body["format"], body.get("caps") or []
    late = body.get("policy") is not None or any(
        cap.get("window") is not None or cap.get("per_window") for cap in caps)
    unit = body.get("unit")
    if (unit == "person") != (body.get("key_check") is not None):
        raise ValueError("a key of people goes with unit person, and with no other")
    if format_ < 1 or (caps and format_ < 2) or (late and format_ < 3) or (
            unit not in (None, "row") and format_ < 4):
        raise ValueError(f"format {format_} has no such creation")


class PricesAreRight(Rule):
    """The filter's caps and every charge are computed again from the plans."""

    name = "prices-are-right"

    def __init__(self) -> None:
        self._known: set[int] = set()  # forms of grants that pay for their plans
        self._efforts = Efforts()

    def on_filter(self, line: LineOf[FilterFixed], state: State) -> Findings:
        """Note which currency prices are in; compare the cap with the budget."""
        if state.rule is not None:
            self._efforts.kind = state.rule.kind
        yield from _check_filter(state, line)

    def on_granted(self, line: LineOf[Granted], state: State) -> Findings:
        """Price the plan again, unless one like it was right, and compare the totals."""
        if state.rule is None:
            return ()
        if line.form in self._known:
            return self._check_totals(line, state)
        found = self._count(line) or list(_compare(line, _price(line.event, state)))
        if line.form is not None and not found:
            self._known.add(line.form)
        return [*found, *self._check_totals(line, state)]

    on_scope = on_granted

    def on_corrected(self, line: LineOf[Corrected], state: State) -> Findings:
        """Price the corrected plan again, and compare the totals."""
        yield from self._count(line) or _check_correction(state, line)
        if state.rule is not None:
            yield from self._check_totals(line, state)

    def _count(self, line: Line) -> list[Finding]:
        """Before a plan is priced: whether an auditor has the time."""
        needed = self._efforts.add(line.event.plan, line.event.delta_units)
        if needed <= MOST_EFFORT and self._efforts.total <= MOST_EFFORT:
            return []
        return [Finding(LIMITS, line.position,
                        f"not priced: with this one, pricing the plans that differ takes more "
                        f"than about {MOST_EFFORT:.0f} ms")]

    def _check_totals(self, line: Line, state: State) -> Findings:
        assert state.rule is not None
        found = [] if not state.caps else list(_check_caps(state, line))
        if (state.units > state.rule.cap_units
                or state.delta_units > state.rule.delta_cap_units):
            found.insert(0, Finding("never-over-the-cap", line.position,
                                    "the total passes the cap here"))
        return found


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


def _check_filter(state: State, entry: Line) -> Findings:
    if state.budget is None or state.rule is None:
        return
    rule = state.rule
    fresh = fixed_filter(rule.kind, state.budget, rule.order if rule.kind == "rdp" else None)
    if (rule.cap_units > _with_slack(fresh.cap_units)
            or rule.delta_cap_units > fresh.delta_cap_units):
        yield Finding("prices-are-right", entry.position, "the cap is larger than the budget's")
    if state.filter_asked not in ("auto", rule.kind):
        yield Finding("prices-are-right", entry.position, "another filter was asked for")


def _with_slack(cap: int) -> int:
    """One part in 10^9 more, as for prices: another machine may invert a little differently."""
    return cap + cap // 10**9


def _check_caps(state: State, entry: Line) -> Findings:
    event = entry.event
    paid = event
    if isinstance(event, Corrected):
        paid = (state.grants.get(event.grant) or state.scopes[event.grant]).event
    window = paid.window
    earlier = state.totals_of(window)
    for place, cap in enumerate(state.caps):
        assert state.rule is not None
        own = cap.rule(state.rule)
        units, delta_units = (earlier if cap.per_window else state.cap_spent)[place]
        closed = cap.per_window and window is None and (units or delta_units)
        if units > _with_slack(own.cap_units) or delta_units > own.delta_cap_units or closed:
            yield Finding("never-over-the-cap", entry.position, f"{cap.title} is passed here")


def _check_correction(state: State, entry: LineOf[Corrected]) -> Findings:
    """The corrected plan's price is charged in full, and no correction gives anything back."""
    grant, rule = state.grants.get(entry.event.grant), state.rule
    if rule is None:
        return
    if grant is None:  # of a scope: what ran beside its filter, paid for in full
        event = entry.event
        delta = state.scopes[event.grant].event.delta
        true, charged = event.plan, (int(event.units), int(event.delta_units))
    else:
        true, charged, delta = grant.plan, grant.charged, grant.event.delta
        if grant.status == "aborted":
            yield Finding("prices-are-right", entry.position, "corrects what was handed back")
    if true is None:
        yield Finding("never-over-the-cap", entry.position,
                      f"nothing is promised any more for {entry.event.grant}")
        return
    plan = from_json(true)
    cost = cost_of(plan, check_relation(state.relation), _orders(plan, rule))
    expected = rule.price(cost, float(delta))
    if any(paid < due - due // 10**9 for paid, due in zip(charged, expected, strict=True)):
        yield Finding("prices-are-right", entry.position,
                      "charged less than the corrected plan costs")


def _compare(entry: Line, expected: tuple[int, int]) -> Findings:
    charged = int(entry.event.units), int(entry.event.delta_units)
    # One part in 10^9 of slack: another machine's libm may round a little differently.
    slack = tuple(value // 10**9 for value in expected)
    if charged[0] < expected[0] - slack[0] or charged[1] < expected[1] - slack[1]:
        yield Finding("prices-are-right", entry.position, "charged less than the plan costs")


class _Open:
    """A grant under audit: its plan, and what was taken off it."""

    __slots__ = ("count", "first", "form", "meter", "plan")

    def __init__(self, form: int | None, plan: Plan) -> None:
        self.form, self.plan = form, plan
        self.count = 0
        self.first: Released | None = None
        self.meter: Meter | None = None


class ReleasesAreGranted(Rule):
    """Every release is taken off the plan its grant reserved, by the rule that admitted it."""

    name = "releases-are-granted"

    def __init__(self) -> None:
        self._open: dict[str, _Open] = {}
        self._known: dict[tuple[int, Asked], str] = {}  # form of a plan, what was asked: the fault

    def on_granted(self, line: LineOf[Granted], state: State | None) -> Findings:
        """Open a meter on the plan that was stored."""
        grant = _Open(line.form, line.event.plan)
        if line.form is None:
            grant.meter = Meter(as_released(from_json(grant.plan)))
        self._open[line.event.grant] = grant
        return ()

    def on_released(self, line: LineOf[Released], state: State | None) -> Findings:
        """Each release has to fit what the meter has left, and follow the one before."""
        event, grant = line.event, self._open[line.event.grant]
        if event.first != grant.count:
            yield Finding(self.name, line.position, "releases are missing or repeated")
        grant.count += len(event.items)
        fresh = grant.first is None and grant.meter is None
        found = asked(line)
        if fresh and grant.form is not None and found is not None:
            grant.first, key = event, (grant.form, found)
            fault = self._known.get(key)
            if fault is None:
                fault = self._known[key] = self._fault(grant, event)
        else:
            if grant.meter is None:
                self._fault(grant, grant.first)  # known, and told
            fault = self._fault(grant, event)
        if fault:
            yield Finding(self.name, line.position, fault)

    def on_settled(self, line: LineOf[Settled], state: State | None) -> Findings:
        """The number of releases has to be the number that was written down."""
        grant = self._open.pop(line.event.grant, None)
        if int(line.event.releases) == (0 if grant is None else grant.count):
            return ()
        return [Finding(self.name, line.position,
                        "settles another number of releases than were written down")]

    on_aborted = on_settled  # what was released is not handed back in silence

    @staticmethod
    def _fault(grant: _Open, released: Released | None) -> str:
        if grant.meter is None:
            grant.meter = Meter(as_released(from_json(grant.plan)))
        if released is None:
            return ""
        try:
            nodes = [read_node(node) for node in released.nodes]
            for item in released.items:
                grant.meter.admit(*nodes[item[0]])
        except PrivledgerError as error:
            return str(error)
        return ""


class VectorsMatch(Rule):
    """Every per-record vector is the one its settlement names; no record is past its cap."""

    name = "vectors-match"

    def idle(self, line: Line) -> bool:
        """Only scopes and vectors are looked at."""
        event = line.event
        return not (event.scope if isinstance(event, Granted) else
                    event.vector if isinstance(event, Settled) else None)

    def __init__(self, store: Store) -> None:
        self._store = store
        self._scopes: dict[str, str] = {}
        self._totals: dict[str, NDArray[np.int64]] = {}
        self._records = 0
        self._row = True

    def on_created(self, line: LineOf[Created], state: State | None) -> Findings:
        """What people spent has another rule: rules_people.py."""
        self._row = line.event.unit == "row"
        return ()

    def on_granted(self, line: LineOf[Granted], state: State | None) -> Findings:
        """Note which scope the grant draws on: its vector is the scope's."""
        if line.event.scope:
            self._scopes[line.event.grant] = line.event.scope
        return ()

    def on_settled(self, line: LineOf[Settled], state: State | None) -> Findings:
        """The vector that is named has to be there, with the digest that is named."""
        vector = line.event.vector
        return self._vector(line, vector) if vector and self._row else ()

    def _vector(self, line: LineOf[Settled], vector: VectorNote) -> Findings:
        data = self._store.vector(vector.name)
        if data is None or sha256(data).hexdigest() != vector.sha256:
            yield Finding(self.name, line.position,
                          "the per-record vector is missing or was edited")
            return
        self._records += records_in(data)
        if self._records > MOST_TOTAL_RECORDS:
            yield Finding(LIMITS, line.position, "the vectors up to here hold more than "
                                                 f"{MOST_TOTAL_RECORDS} records: not read")
            return
        taken, rounds = unpack(data)
        scope = self._scopes.get(line.event.grant, vector.name)
        total = self._totals.get(scope, np.zeros(0, np.int64))
        if len(taken) > len(total):
            total = np.concatenate([total, np.zeros(len(taken) - len(total), np.int64)])
        self._totals[scope] = total
        # A sum of few numbers that are each within the cap stays far below what overflows.
        wrong = taken.size and (int(taken.min()) < 0 or int(taken.max()) > RECORD_UNITS)
        if not wrong:
            total[: len(taken)] += taken
            wrong = bool(total.size) and int(total.max()) > RECORD_UNITS
        if wrong or (rounds.size and int(rounds.min()) < 0):
            yield Finding(self.name, line.position, "a record is past its own cap")


class ScopesArePaid(Rule):
    """A grant that draws on a scope names one that was paid for, with its caps and its data."""

    name = "scopes-are-paid"

    def idle(self, line: Line) -> bool:
        """Only scopes are looked at."""
        return not (isinstance(line.event, Granted) and line.event.scope)

    def __init__(self) -> None:
        self._scopes: dict[str, IndividualFilter] = {}
        self._bound: dict[str, str] = {}
        self._marks: dict[str, str] = {}
        self._row = True

    def on_created(self, line: LineOf[Created], state: State | None) -> Findings:
        """A scope of rows serves one table; one of people serves them in all tables."""
        self._row = line.event.unit == "row"
        return ()

    def on_scope(self, line: LineOf[ScopeOpened], state: State | None) -> Findings:
        """Note the filter that was paid for."""
        node = from_json(line.event.plan)
        if isinstance(node, IndividualFilter):
            self._scopes[line.event.scope] = node
        return ()

    def on_granted(self, line: LineOf[Granted], state: State | None) -> Findings:
        """A grant may draw only on a scope that was paid for, with the same filter."""
        name = line.event.scope
        return self._scope(line, name) if name else ()

    def _scope(self, line: LineOf[Granted], name: str) -> Findings:
        plan, paid = from_json(line.event.plan), self._scopes.get(name)
        if paid is None or not isinstance(plan, IndividualFilter) or (
                filter_caps(plan) != filter_caps(paid)):
            yield Finding(self.name, line.position, "draws on a scope nobody paid for")
        if self._row and self._bound.setdefault(name, line.event.data) != line.event.data:
            yield Finding(self.name, line.position, "a scope serves two data sets")
        mark = line.event.mark
        if self._row and mark and self._marks.setdefault(name, mark) != mark:
            yield Finding(self.name, line.position, "a scope serves a table in two orders")
