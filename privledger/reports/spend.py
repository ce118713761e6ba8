"""A ledger as an auditor reads it: totals, grants, what was released under each, faults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from privledger.errors import LedgerCorrupt, PrivledgerError
from privledger.findings import Finding
from privledger.ledger import Entry, GrantState, Policy, State, Store, audit
from privledger.ledger.events import Holder
from privledger.ledger.history import now, receipt_of
from privledger.ledger.holder import is_gone, lease_is_over
from privledger.ledger.view_plans import plan_or_none
from privledger.reports.outline import Outline, leaves, outline
from privledger.reports.per_table import TableSpend, table_spends
from privledger.reports.released import NOT_PRIVATE, ReleaseLine, lines_of, total_delta
from privledger.reports.steps import Counted, Steps, silent
from privledger.storage.rows import entries_of

DEAD = "crashed: the whole reservation stays spent"
OVERDUE = "unfinished: its lease is over"


@frozen
class GrantReport:
    """One grant (or one filter scope that was paid for), in order of the history.

    Attributes:
        status: `settled`, `aborted` (handed back, or spent if it touched data), `crashed`,
            `unfinished`, or `scope`.
        note: what the status means for the budget; empty where there is nothing to say.
        epsilon: what its charge alone certifies, at the budget's delta.
        isolation: `guarded` (in the owner's process) or `brokered` (in a confined one without
            rows); empty for a scope.
        claimed: epsilon that a paper states for the plan, by the learner's word; None where
            none was recorded.
        ratio: `epsilon` over `claimed`, where both are stated at one delta; else None.
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


@frozen
class LedgerReport:
    """Everything that can be said about a ledger without naming a record.

    Attributes:
        dead: grants whose holder is gone, or whose lease is over; they stay spent.
        receipt: the head, to keep elsewhere.
        tables: what single tables lost at most.
        windows: periods in the order they were opened; the last one is open.
        policy: the ledger's own, if it was created with one.
        repriced: every plan was priced again. If not, the totals are the ledger's own word, and
            `grants` are the last ones.
        unlisted: grants and scopes that are not in `grants`.
    """

    location: str
    uuid: str
    mode: str
    verdict: str
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
    refused: tuple[dict[str, Any], ...] = ()
    findings: tuple[Finding, ...] = ()
    dead: tuple[str, ...] = ()
    receipt: dict[str, Any] = field(factory=dict)
    tables: tuple[TableSpend, ...] = ()
    windows: tuple[str, ...] = ()
    policy: Policy | None = None
    repriced: bool = True
    unlisted: int = 0

    @property
    def trusted(self) -> bool:
        return not self.findings


def audited(store: Store, steps: Steps = silent) -> tuple[list[Entry], list[Finding]]:
    """Everything in `store`, and what an audit of the very same rows found.

    Entries that cannot be parsed are findings; then there is none at all.
    """
    rows = list(store.rows())
    findings = audit(store, Counted(rows, "entries verified", steps))
    try:
        return entries_of(rows, store.location), findings
    except LedgerCorrupt:
        return [], findings


def ledger_report(store: Store, state: State,
                  known: tuple[Sequence[Entry], Sequence[Finding]] | None = None) -> LedgerReport:
    """Read `store` once more, audit it, and lay out what `state` says.

    Args:
        known: the entries and their findings, for a caller that has them already.
    """
    entries, findings = audited(store) if known is None else known
    if not entries:
        entries = store.read()  # raises what is wrong with it
    released = _released(entries)
    rule, budget = state.rule, state.budget
    assert budget is not None
    grants = [_scope_report(state, name) for name in state.scopes]
    grants += [_grant_report(state, grant, released.get(grant.grant, []))
               for grant in state.grants.values()]
    order = {name: s.position for name, s in state.scopes.items()}
    order |= {name: g.position for name, g in state.grants.items()}
    noise = _noise(entries)
    simulated = state.mode != "private" or any(NOT_PRIVATE in text for text in noise)
    return LedgerReport(
        location=store.location, uuid=state.uuid, mode=state.mode,
        verdict=_verdict(findings, simulated), relation=state.relation,
        epsilon=budget.epsilon, delta=budget.delta,
        spent=rule.epsilon_of(state.units) if rule else 0.0,
        left=rule.left_of(state.units) if rule else budget.epsilon,
        spent_delta=total_delta(state), filter=rule.kind if rule else state.filter_asked,
        theorem=rule.theorem if rule else "fixed by the first plan", noise=noise,
        entries=len(entries), head=state.head, refusals=state.refusals,
        grants=tuple(sorted(grants, key=lambda grant: order[grant.name])),
        private=not simulated,
        refused=tuple(entry.body for entry in entries if entry.kind == "refused"),
        findings=tuple(findings),
        dead=tuple(grant.name for grant in grants if grant.note.startswith((DEAD, OVERDUE))),
        receipt=receipt_of(state).as_dict(), tables=table_spends(state),
        windows=state.opened, policy=state.policy,
    )


def _verdict(findings: Sequence[Finding], simulated: bool) -> str:
    if findings:
        return "NOT TRUSTED"
    return NOT_PRIVATE if simulated else "within budget"


def _noise(entries: Sequence[Entry]) -> tuple[str, ...]:
    """Where the noise came from: the creation's word, then what releases really used."""
    found = [str(entry.body.get("noise", "")) for entry in entries
             if entry.kind in ("created", "released")]
    return tuple(dict.fromkeys(text for text in found if text))


def _released(entries: Sequence[Entry]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        if entry.kind == "released":
            found.setdefault(str(entry.body.get("grant")), []).append(entry.body)
    return found


def _grant_report(state: State, grant: GrantState,
                  bodies: Sequence[dict[str, Any]]) -> GrantReport:
    body = grant.body
    plan = plan_or_none(grant.plan)
    try:
        lines, kinds = lines_of(bodies)
    except (PrivledgerError, KeyError, TypeError, ValueError, IndexError):
        lines, kinds = (), set()  # the audit has its own finding for this
    status, note = _status(grant)
    units = grant.charged[0]
    if grant.corrections:
        note = "; ".join([*([note] if note else []), *(f"corrected: {entry['why']}"
                                                       for entry in grant.corrections)])
    epsilon = state.rule.epsilon_of(units) if state.rule else 0.0
    claimed, ratio = _claimed(state, body, epsilon)
    return GrantReport(
        name=grant.grant, status=status, note=note, learner=str(body.get("learner", "")),
        data=str(body.get("data", "")), time=str(body.get("time", "")), epsilon=epsilon,
        releases=grant.releases, plan=outline(plan), lines=lines,
        mechanisms=tuple(sorted(kinds | {type(leaf).__name__ for leaf in leaves(plan)})),
        isolation=str(body.get("isolation", "guarded")), claimed=claimed, ratio=ratio,
    )


def _claimed(state: State, body: dict[str, Any],
             epsilon: float) -> tuple[float | None, float | None]:
    """The paper's epsilon as it was recorded, and what was charged over it.

    A claim at another delta than the charge's is another statement: no ratio.
    """
    claimed = body.get("claimed")
    if isinstance(claimed, bool) or not isinstance(claimed, int | float) or claimed < 0:
        return None, None
    basic = state.rule is not None and state.rule.kind == "basic"
    assert state.budget is not None
    same = basic or body.get("delta") == state.budget.delta
    comparable = same and claimed > 0 and not body.get("scope")
    return float(claimed), epsilon / claimed if comparable else None


def _scope_report(state: State, name: str) -> GrantReport:
    body = state.scopes[name].body
    plan = plan_or_none(body.get("plan"))
    epsilon = state.rule.epsilon_of(int(body["units"])) if state.rule else 0.0
    # What is released in a scope is listed by the grants that drew on it.
    return GrantReport(
        name=name, status="scope", note="an individual filter, paid for once", learner="",
        data="", time=str(body.get("time", "")), epsilon=epsilon, releases=0,
        plan=outline(plan),
    )


def _status(grant: GrantState) -> tuple[str, str]:
    """The status, and what it means for the budget."""
    who = _holder(grant.event.holder)
    if grant.status == "crashed":
        why = str(grant.crashed.get("why") or "the process that held it is gone")
        return "crashed", f"{DEAD}; {why} ({who}), recorded {grant.crashed.get('time', '?')}"
    if grant.status == "granted":
        if _gone(grant.event.holder):
            return "crashed", f"{DEAD}; the process that held it is gone ({who}), not recorded yet"
        if lease_is_over(grant.event, now()):
            return "unfinished", f"{OVERDUE}; the reservation stays spent ({who})"
        return "unfinished", "unfinished: holder still running"
    if grant.status == "aborted" and not grant.touched:
        return "aborted", "handed back: no data was opened"
    late = ("its holder was recorded as gone, and settled after all"
            if grant.crashed else "")
    if grant.settled.get("failed"):
        failed = "failed after it touched data: the whole reservation stays spent"
        return grant.status, "; ".join(part for part in (late, failed) if part)
    return grant.status, late


def _holder(holder: Holder | None) -> str:
    """Process and host, as the grant names them."""
    return "process ? on ?" if holder is None else f"process {holder.pid} on {holder.host}"


def _gone(holder: Holder | None) -> bool:
    try:
        return is_gone(holder)
    except (TypeError, ValueError, IndexError):
        return False
