"""A ledger as an auditor reads it: totals, grants, what was released under each, faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from attrs import asdict, evolve, field, frozen

from privledger.errors import DataError, LedgerCorrupt, LedgerError, PrivledgerError
from privledger.findings import Finding
from privledger.ledger import Entry, History, Policy, State, Store, audit
from privledger.ledger.auditing import MOST_FINDINGS, chain_findings
from privledger.ledger.checkpoint import remembered_receipt
from privledger.ledger.entries import entries_of, is_gone, lease_is_over, now
from privledger.ledger.events import Corrected, Crashed, Granted, Holder, Released, Settled
from privledger.ledger.history import SameEntries
from privledger.ledger.line import is_over
from privledger.ledger.view import Comparison, ReleaseLine, View, figures_of, view_of
from privledger.ledger.view_charges import (
    BudgetFigures,
    ChargeFigures,
    TableSpend,
    federated_of,
    said_or_none,
)
from privledger.ledger.view_figures import Figure, plain
from privledger.ledger.view_people import each_taken, people_known
from privledger.ledger.view_records import (
    ROUND,
    alike,
    data_names,
    data_spend,
    dearest_records,
    grants_for,
    note_of,
)
from privledger.reports.outline import Outline, outline
from privledger.reports.risk import Risk, ledger_risk
from privledger.reports.survey import OVER, LedgerVerdict, Reading, verdict_of
from privledger.rounding import add_up
from privledger.storage import shown

DEAD = "crashed: the whole reservation stays spent"
OVERDUE = "unfinished: its lease has expired"
FAILED = "failed after it touched data: the whole reservation stays spent"


@frozen
class GrantReport:
    """One grant (or one filter scope that was paid for), in order of the history.

    Attributes:
        status: `settled`, `failed` (after it touched data), `aborted` (handed back), `crashed`,
            `unfinished`, or `scope`.
        note: what the status means for the budget; empty where there is nothing to say.
        learner, data: who asked, for which table; of a scope, all who drew on it.
        epsilon: what its charge alone certifies, at the budget's delta; nothing for a grant on
            a scope, and for what was handed back.
        amount, share: of its charge, in the filter's unit and of the budget: these add up.
        isolation: `guarded` (in the owner's process) or `brokered` (in a confined one without
            rows); empty for a scope.
        claimed: epsilon that a paper states for the plan, by the learner's word; None where
            none was recorded.
        ratio: what was reserved over `claimed`, where both are stated at one delta; else None.
        federated: parties, and the prices declared and alone, in words; empty if it ran in none.
        alone: as `epsilon`, if every other party gives its noise away.
        score: how its model did, by its learner's word, as JSON values; None if it does not say.
            score_text: the same in one line, or empty.
        labels, library, caps: of the request; of an external run; that it counts under. origin:
            all of these, and the isolation, in one line.
    """

    name: str
    status: str
    note: str
    learner: str
    data: str
    time: str
    epsilon: float
    releases: int
    plan: Outline
    lines: tuple[ReleaseLine, ...] = ()
    mechanisms: tuple[str, ...] = ()
    isolation: str = ""
    claimed: float | None = None
    ratio: float | None = None
    federated: str = ""
    alone: float | None = None
    score: dict[str, object] | None = None
    score_text: str = field(default="", repr=False)
    labels: dict[str, str] = field(factory=dict)
    library: str = ""
    caps: tuple[str, ...] = ()
    origin: str = ""
    amount: float = 0.0
    share: float = 0.0


@frozen
class InLine:
    """A request that waits: for a grant of this name, for so much epsilon, at most until then."""

    grant: str
    data: str
    labels: dict[str, str]
    until: str
    host: str
    pid: int
    asked: float | None


@frozen
class LedgerReport:
    """Everything that can be said about a ledger without naming a record, as it is written down.

    Every number is one of `view`, which prints them as well.

    Attributes:
        view: what all of it was read from.
        dead: grants whose holder is gone, or whose lease is over; they stay spent.
        receipt: the head, to keep elsewhere.
        tables: what single tables lost at most.
        windows: periods in the order they were opened; the last one is open.
        policy: the ledger's own, if it was created with one.
        repriced: every plan was priced again. If not, the totals are the ledger's own word, and
            `grants` are the last ones.
        unlisted: grants and scopes that are not in `grants`.
        about: whom the promise is about: `row` or `person`.
        alone: as `spent`, if every other party of every federation gives its noise away; None
            where nothing ran in one.
        waiting: who stands in line for budget.
        unit, amount, share: what was spent in the filter's unit, and of the budget in that unit.
        caps: every cap as of the open window, with what counts under it.
    """

    location: str
    uuid: str
    mode: str
    relation: str
    epsilon: float
    delta: float
    spent: float
    left: float
    spent_delta: float
    filter: str
    theorem: str
    noise: tuple[str, ...]
    entries: int
    head: str
    refusals: int
    grants: Sequence[GrantReport]
    private: bool
    view: View = field(repr=False)
    refused: tuple[dict[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    dead: tuple[str, ...] = ()
    receipt: dict[str, Any] = field(factory=dict)
    tables: tuple[TableSpend, ...] = ()
    windows: tuple[str, ...] = ()
    policy: Policy | None = None
    repriced: bool = True
    unlisted: int = 0
    about: str = "row"
    alone: float | None = None
    waiting: tuple[InLine, ...] = ()
    unit: str = ""
    amount: float = 0.0
    share: float = 0.0
    caps: tuple[BudgetFigures, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether an audit found no fault."""
        return not self.findings

    @cached_property
    def verdict(self) -> LedgerVerdict:
        """What every surface says first about it."""
        return verdict_of(self.view, self.findings, repriced=self.repriced)

    @cached_property
    def risk(self) -> Risk | None:
        """What can be found out, at most; None where the history cannot be trusted."""
        return ledger_risk(self.view) if self.trusted else None

    @property
    def statuses(self) -> Iterable[str]:
        """The status of each of `grants`, without the rest."""
        return (self.grants.statuses if isinstance(self.grants, GrantReports)
                else [one.status for one in self.grants])

    def where(self, meets: Callable[[ChargeFigures], bool]) -> LedgerReport:
        """With those grants and scopes only whose charge meets a condition; totals stay."""
        chosen = evolve(self.view, charges=tuple(filter(meets, self.view.charges)), parts={})
        return evolve(self, grants=GrantReports(chosen, now()))

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        risk = None if self.risk is None else self.risk.as_dict()
        return {**plain(self), "risk": risk, "verdict": self.verdict.word,
                "judgement": self.verdict.as_dict()}


class GrantReports(Sequence[GrantReport]):
    """Every grant and scope of a view, each laid out when it is asked for.

    Args:
        told: what is told of each; all of it, unless it is said.
    """

    def __init__(self, view: View, moment: str,
                 told: Callable[[GrantReport], GrantReport] = lambda grant: grant) -> None:
        self.view, self.moment, self.told = view, moment, told

    def __len__(self) -> int:
        return len(self.view.charges)

    def __iter__(self) -> Iterator[GrantReport]:
        return map(self.of, self.view.charges)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        found = self.view.charges[place]
        return self.of(found) if isinstance(found, ChargeFigures) else tuple(map(self.of, found))

    def of(self, one: ChargeFigures) -> GrantReport:
        """What one of the charges is laid out as."""
        return self.told(_grant_report(self.view, one, self.moment))

    @property
    def statuses(self) -> Iterator[str]:
        """The status of each, without the rest."""
        return (_status(one, one.event, self.moment)[0] if isinstance(one.event, Granted)
                and one.status == "granted" else one.status for one in self.view.charges)


def audited(store: Store) -> tuple[list[Entry], list[Finding]]:
    """Everything in `store`, and what an audit of the very same rows found.

    Entries that cannot be parsed are findings; then there is none at all.
    """
    rows = list(store.rows())
    findings = audit(store, rows)
    try:
        return entries_of(rows, store.location), findings
    except LedgerCorrupt:
        return [], findings


def ledger_report(store: Store, state: State,
                  known: tuple[Sequence[Entry], Sequence[Finding]] | None = None,
                  compared: Comparison | None = None) -> LedgerReport:
    """Read `store` once more, audit it, and lay out what `state` says.

    Args:
        known: the entries and their findings, for a caller that has them already.
        compared: what the history was compared with; nothing, if None.
    """
    entries, findings = audited(store) if known is None else known
    if not entries:
        entries = store.read()  # raises what is wrong with it
    return report_of(store.location, state, view_of(state, entries, compared=compared), findings)


def report_of(location: str, state: State, view: View, findings: Sequence[Finding]) -> LedgerReport:
    """A view and the findings of its audit, laid out.

    Args:
        state: what the view was made of.
    """
    moment = now()
    left = [(one, one.event) for one in view.charges if one.status in ("granted", "crashed")]
    return LedgerReport(
        **figures_of(view), location=location, grants=GrantReports(view, moment), view=view,
        refused=tuple(asdict(one) for one in view.refusals), findings=tuple(findings),
        dead=tuple(one.name for one, event in left if isinstance(event, Granted)
                   and _status(one, event, moment)[1].startswith((DEAD, OVERDUE))),
        receipt=remembered_receipt(state).as_dict(),
        waiting=tuple(
            InLine(one.grant, one.data, one.labels, one.until, *one.process[:2],
                   None if view.rule is None else view.rule.epsilon_of(one.units))
            for one in state.line.values()
            if not is_over(one, moment) and not _gone(Holder(*one.process))))


def full_state(store: Store) -> State:
    """What a history folds to, whatever an audit would find.

    Raises:
        LedgerCorrupt: it cannot be understood, or is empty.
    """
    try:
        state = History(store, writable=False).full()
    except LedgerError:
        raise
    except (PrivledgerError, ValueError, TypeError, KeyError):
        raise LedgerCorrupt(f"{shown(store.location)}: the history cannot be "
                            "understood") from None
    if state.budget is None:
        raise LedgerCorrupt(f"{shown(store.location)}: the history is empty")
    return state


def laid_out(store: Store, seen: Reading, compared: Comparison | None = None,
             ) -> tuple[LedgerReport, State, Iterable[Entry]]:
    """A history that was read once: its report, the state at its end, and its entries again.

    Raises:
        LedgerCorrupt: it cannot be understood, or is empty.
    """
    state, view = seen.state, seen.view
    if state is not None and view is not None and len(seen.findings) < MOST_FINDINGS:
        return (report_of(store.location, state, view, seen.findings), state,
                SameEntries(store, state))
    state, entries = full_state(store), store.read()  # a plain fold may still understand it
    view = view_of(state, entries, compared=compared)
    return report_of(store.location, state, view, seen.findings), state, entries


def _grant_report(view: View, one: ChargeFigures, moment: str) -> GrantReport:
    lines = view.releases.get(one.name, ())
    event, status, note = one.event, one.status, "an individual filter, charged once"
    isolation, claimed = "", None
    party = federated_of(one, view.relation)
    if isinstance(event, Granted):
        isolation, claimed = event.isolation, _claimed(event)
        status, note = _status(one, event, moment)
    note = "; ".join([*([note] if note else []), *(f"corrected: {why}" for why in one.why)])
    return GrantReport(
        name=one.name, status=status, note=note, learner=one.learner, data=one.table,
        time=str(one.time or ""), epsilon=one.amount.epsilon.value,
        releases=one.releases, plan=said_or_none(one.plan, outline), lines=lines,
        mechanisms=tuple(sorted({line.kind for line in lines} | set(one.mechanisms or ()))),
        isolation=isolation, claimed=claimed, ratio=_ratio(view, one, claimed),
        federated="" if party is None else party.text,
        alone=None if party is None else party.alone.epsilon.value,
        score=None if one.score is None else one.score.as_dict(),
        score_text="" if one.score is None else one.score.text[:4000],
        labels=dict(one.labels), library=one.library, caps=one.caps, origin=one.origin,
        amount=one.amount.own.value, share=one.amount.share.value)


def _claimed(event: Granted) -> float | None:
    """The paper's epsilon as it was recorded."""
    claimed = event.claimed
    if isinstance(claimed, bool) or not isinstance(claimed, int | float) or claimed < 0:
        return None
    return float(claimed)


def _ratio(view: View, one: ChargeFigures, claimed: float | None) -> float | None:
    """What was reserved over what is claimed. One at another delta is another statement."""
    same = view.filter == "basic" or one.delta == view.budget.delta
    return one.asked.epsilon.value / claimed if same and claimed and not one.scope else None


def _status(one: ChargeFigures, event: Granted, moment: str) -> tuple[str, str]:
    """The status, and what it means for the budget."""
    who = "process ? on ?" if event.holder is None else (
        f"process {event.holder.pid} on {event.holder.host}")
    if one.status == "crashed":
        crash = one.crash
        why = (crash and crash.why) or "the process that held it has ended"
        return "crashed", f"{DEAD}; {why} ({who}), recorded {(crash and crash.time) or '?'}"
    if one.status == "granted":
        if event.holder is not None and _gone(event.holder):
            return "crashed", (f"{DEAD}; the process that held it has ended ({who}), not recorded "
                               "yet")
        if lease_is_over(event, moment):
            return "unfinished", f"{OVERDUE}; the reservation stays spent ({who})"
        return "unfinished", "unfinished: its process is still running"
    if one.status == "aborted":
        return "aborted", "handed back: no data was opened"
    late = "its process was recorded as ended, but settled it later" if one.crash else ""
    return one.status, "; ".join(
        part for part in (late, FAILED if one.status == "failed" else "") if part)


def _gone(holder: Holder) -> bool:
    try:
        return is_gone(holder)
    except (TypeError, ValueError, IndexError):
        return False


# A long ledger in a moment: its own totals, its hashes checked, its last grants.
#
# To read and price everything again takes seconds for a million entries, and `verify` does that.
# What is said here rests on the totals that the ledger itself keeps, and says so.

LONG = 100_000
"""Entries: a longer history is not priced again unless it is asked for."""

LAST = 20
"""Grants that are listed."""

_TAIL = 400  # entries that are looked at for them
_OF_GRANTS = (Granted, Released, Settled, Crashed, Corrected)


def is_long(store: Store) -> bool:
    """Whether a history is so long that only its hashes are read again."""
    return next(iter(store.rows(after=LONG - 1)), None) is not None


def brief_report(store: Store) -> LedgerReport:
    """Totals, the last grants, and every fault of the place and of the chain."""
    findings = list(store.inspect())
    state = History(store, writable=False).refresh()
    broken, head = chain_findings(store, uuid=state.uuid)
    findings += broken
    if state.broken:  # its own totals say so: nothing has to be priced for that
        findings.append(Finding(OVER, state.position, state.broken))
    if state.head != head and not broken:
        raise LedgerCorrupt(f"{store.location}: the history changed while it was read. Try again")
    tail = store.read(max(0, state.position - _TAIL))
    # The totals of the whole history, with the grants of its last entries only.
    recent = evolve(state, compact=False, grants={}, closed=[], closed_names=set())
    for entry in tail:
        event = entry.event
        if isinstance(event, _OF_GRANTS) and (isinstance(event, Granted)
                                              or event.grant in recent.grants):
            recent.take(entry)
    listed = evolve(state, compact=False, grants=dict(list(recent.grants.items())[-LAST:]),
                    scopes=dict(list(state.scopes.items())[-LAST:]))
    first = entries_of([next(iter(store.rows()))], store.location)
    report = ledger_report(store, listed, ([*first, *tail], findings))
    known = state.closed_names | state.grants.keys() | state.scopes.keys()
    return evolve(report, entries=state.position + 1, repriced=False, tables=(),
                  unlisted=len(known) - len(report.grants))


# Who spent most, on what: the parts of the ledger's total, dearest first.

ASPECTS = ("learner", "mechanism", "data", "grant")
"""What `top` ranks by unless it is told; `data` is the table."""


@frozen
class Rank:
    """One line of a ranking.

    Attributes:
        epsilon: of all its grants together, at the budget's delta. Does not add up.
        share: of the units of the whole budget. Shares of one ranking add up to what was spent.
        asserted: part of it rests on unverified claims.
    """

    name: str
    epsilon: Figure
    share: Figure
    grants: int
    asserted: bool


@frozen
class RecordRank:
    """One record that individual filters counted, in the unit of the ledger's filter.

    CONFIDENTIAL.
    """

    data: str
    row: int
    spent: float
    cap: float


@frozen
class PersonRank:
    """One person over all tables, in the unit of the ledger's filter. CONFIDENTIAL.

    Attributes:
        place: in the ledger's roster: `privledger record LEDGER PLACE` shows the rest.
        cap: the most that a record can have spent.
    """

    place: int
    spent: float
    cap: float


def highest_people(store: Store, state: State, most: int) -> list[PersonRank]:
    """Who spent most over all tables of a ledger of people. CONFIDENTIAL."""
    total, caps = np.zeros(people_known(store, state)), dict[str, float]()
    for grant, found in each_taken(store, state):
        total = (total + found.amounts) * ROUND
        caps[grant.event.scope or grant.grant] = found.cap
    top = dearest_records(total, most)
    return [PersonRank(int(place), float(total[place]), add_up(caps.values()))
            for place in top if total[place] > 0]


def ranking(view: View, aspect: str, most: int) -> list[Rank]:
    """The `most` highest parts by one of `ASPECTS`: a plan of several mechanisms stands under all
    their names together, and a scope under the table and the learners that drew on it."""
    parts = view.by("table" if aspect == "data" else aspect, most).values()
    return [Rank(part.name, part.amount.epsilon, part.amount.share, part.grants, part.asserted)
            for part in parts]


def highest_records(store: Store, state: State, most: int) -> list[RecordRank]:
    """Records that individual filters charged most, of every table, with all that they spent.
    CONFIDENTIAL."""
    found: list[RecordRank] = []
    for name in data_names(state):
        try:
            spend = data_spend(store, state, name)
        except DataError:
            spend = None
        if spend is None:
            continue
        # What took the same from every record belongs to each, as `record` says of it.
        grants = grants_for(state, name)
        same, caps = alike(state, [grant for grant in grants
                                   if not note_of(grant) and grant.grant in state.grants])
        counted = {grant.event.scope for grant in grants if note_of(grant)}
        cap = add_up([spend.cap, *(most for key, most in caps.items() if key not in counted)])
        found += [RecordRank(name, int(row), add_up([float(spend.spent[row]), same]), cap)
                  for row in dearest_records(spend.spent, most)]
    return sorted(found, key=lambda one: -one.spent)[:most]
