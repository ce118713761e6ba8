"""A ledger as an auditor reads it: totals, grants, what was released under each, faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, field, frozen

from privledger.errors import LedgerCorrupt
from privledger.findings import Finding
from privledger.ledger import Entry, Policy, State, Store, audit
from privledger.ledger.checkpoint import receipt_of
from privledger.ledger.entries import entries_of
from privledger.ledger.events import Granted, Holder
from privledger.ledger.holder import is_gone, lease_is_over, now
from privledger.ledger.line import is_over
from privledger.ledger.view import View, view_of
from privledger.ledger.view_charges import ChargeFigures, TableSpend
from privledger.ledger.view_compared import Comparison
from privledger.ledger.view_plans import plan_or_none
from privledger.ledger.view_releases import ReleaseLine
from privledger.ledger.view_trust import federated_of
from privledger.reports.outline import Outline, outline
from privledger.reports.risk import Risk, ledger_risk
from privledger.reports.safe_text import plain
from privledger.reports.steps import CountedNode, PlanSteps, silent
from privledger.reports.verdict import LedgerVerdict, verdict_of

DEAD = "crashed: the whole reservation stays spent"
OVERDUE = "unfinished: its lease is over"
FAILED = "failed after it touched data: the whole reservation stays spent"


@frozen
class GrantReport:
    """One grant (or one filter scope that was paid for), in order of the history.

    Attributes:
        status: `settled`, `failed` (after it touched data), `aborted` (handed back), `crashed`,
            `unfinished`, or `scope`.
        note: what the status means for the budget; empty where there is nothing to say.
        learner, data: who asked, for which table; of a scope, everybody who drew on it.
        epsilon: what its charge alone certifies, at the budget's delta; nothing for a grant on
            a scope, and for what was handed back.
        isolation: `guarded` (in the owner's process) or `brokered` (in a confined one without
            rows); empty for a scope.
        claimed: epsilon that a paper states for the plan, by the learner's word; None where
            none was recorded.
        ratio: what was reserved over `claimed`, where both are stated at one delta; else None.
        federated: parties, and the prices declared and alone, in words; empty if it ran in none.
        alone: as `epsilon`, if every other party gives its noise away.
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
    labels: dict[str, str] = field(factory=dict)
    library: str = ""
    caps: tuple[str, ...] = ()
    origin: str = ""


@frozen
class InLine:
    """Somebody who waits: for a grant of this name, for so much epsilon, at most until then."""

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
    grants: tuple[GrantReport, ...]
    private: bool
    _view: View = field(repr=False)
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

    @property
    def trusted(self) -> bool:
        """Whether an audit found no fault."""
        return not self.findings

    @property
    def view(self) -> View:
        """What all of it was read from."""
        return self._view

    @property
    def verdict(self) -> LedgerVerdict:
        """What every surface says first about it."""
        return verdict_of(self._view, self.findings, repriced=self.repriced)

    @property
    def risk(self) -> Risk | None:
        """What can be found out, at most; None where the history cannot be trusted."""
        return ledger_risk(self._view) if self.trusted else None

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        risk = None if self.risk is None else self.risk.as_dict()
        return {**plain(self), "risk": risk, "verdict": self.verdict.word,
                "judgement": self.verdict.as_dict()}


def audited(store: Store, steps: PlanSteps = silent) -> tuple[list[Entry], list[Finding]]:
    """Everything in `store`, and what an audit of the very same rows found.

    Entries that cannot be parsed are findings; then there is none at all.
    """
    rows = list(store.rows())
    findings = audit(store, CountedNode(rows, "entries verified", steps))
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
    view = view_of(state, entries, compared=compared)
    moment = now()
    grants = tuple(_grant_report(view, one, moment) for one in view.charges)
    return LedgerReport(
        location=store.location, uuid=view.uuid, mode=view.mode,
        relation=view.relation,
        epsilon=view.budget.epsilon, delta=view.budget.delta, spent=view.spent.value,
        left=view.left.value, spent_delta=view.spent_delta.value, filter=view.filter,
        theorem=view.theorem, noise=view.noise, entries=len(entries), head=view.head,
        refusals=view.refused, grants=grants, private=not view.simulated, view=view,
        refused=tuple(asdict(one) for one in view.refusals), findings=tuple(findings),
        dead=tuple(grant.name for grant in grants if grant.note.startswith((DEAD, OVERDUE))),
        receipt=receipt_of(state).as_dict(), tables=view.tables, windows=view.windows,
        policy=view.policy, about=view.about,
        alone=view.alone.epsilon.value if view.federated else None,
        waiting=tuple(
            InLine(one.grant, one.data, one.labels, one.until, *one.process[:2],
                   None if view.rule is None else view.rule.epsilon_of(one.units))
            for one in state.line.values()
            if not is_over(one, moment) and not _gone(Holder(*one.process))))


def _grant_report(view: View, one: ChargeFigures, moment: str) -> GrantReport:
    lines = view.releases.get(one.name, ())
    event, status, note = one.event, one.status, "an individual filter, paid for once"
    isolation, claimed = "", None
    party = federated_of(one, view.relation)
    if isinstance(event, Granted):
        isolation, claimed = event.isolation, _claimed(event)
        status, note = _status(one, event, moment)
    note = "; ".join([*([note] if note else []), *(f"corrected: {why}" for why in one.why)])
    return GrantReport(
        name=one.name, status=status, note=note, learner=one.learner, data=one.table,
        time=str(event.time or "") if event else "", epsilon=one.amount.epsilon.value,
        releases=one.releases, plan=outline(plan_or_none(one.plan)), lines=lines,
        mechanisms=tuple(sorted({line.kind for line in lines} | set(one.mechanisms or ()))),
        isolation=isolation, claimed=claimed, ratio=_ratio(view, one, claimed),
        federated="" if party is None else party.text,
        alone=None if party is None else party.alone.epsilon.value,
        labels=dict(one.labels), library=one.library, caps=one.caps, origin=one.origin)


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
        why = (crash and crash.why) or "the process that held it is gone"
        return "crashed", f"{DEAD}; {why} ({who}), recorded {(crash and crash.time) or '?'}"
    if one.status == "granted":
        if event.holder is not None and _gone(event.holder):
            return "crashed", f"{DEAD}; the process that held it is gone ({who}), not recorded yet"
        if lease_is_over(event, moment):
            return "unfinished", f"{OVERDUE}; the reservation stays spent ({who})"
        return "unfinished", "unfinished: holder still running"
    if one.status == "aborted":
        return "aborted", "handed back: no data was opened"
    late = "its holder was recorded as gone, and settled after all" if one.crash else ""
    return one.status, "; ".join(
        part for part in (late, FAILED if one.status == "failed" else "") if part)


def _gone(holder: Holder) -> bool:
    try:
        return is_gone(holder)
    except (TypeError, ValueError, IndexError):
        return False
