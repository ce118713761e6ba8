"""The rule that a ledger's own policy was kept, entry by entry."""

from __future__ import annotations

from attrs import evolve

from privledger.findings import Finding
from privledger.graph import trusts
from privledger.ledger.codec_lines import Line, LineOf
from privledger.ledger.events import (
    Corrected,
    Created,
    Event,
    Granted,
    Protected,
    Released,
    ScopeOpened,
    WindowOpened,
)
from privledger.ledger.origins import (
    Origins,
    alone_epsilon,
    asserted_kinds,
    origin_findings,
    outside_of,
    recorded_kinds,
)
from privledger.ledger.policy import Policy
from privledger.ledger.rules import Findings, Rule
from privledger.ledger.state import State
from privledger.ledger.view_plans import plan_or_none


class PolicyIsKept(Rule):
    """What the ledger's own policy forbids was never granted or released."""

    name = "policy-is-kept"

    def idle(self, line: Line) -> bool:
        """Without a policy there is nothing to keep."""
        return self._policy is None

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._rows: dict[str, int | None] = {}
        self._promise = "", 0.0  # relation and delta
        self._kept: set[tuple[int, int | None]] = set()  # forms of grants that keep to it

    def on_created(self, line: LineOf[Created], state: State | None) -> Findings:
        """Take the policy of the first entry; another is not the ledger's."""
        if line.position or line.event.policy is None:
            return ()
        self._policy = line.event.policy
        self._promise = line.event.relation, line.event.budget.delta
        return self._look(line)

    def on_protected(self, line: LineOf[Protected], state: State | None) -> Findings:
        """Note the rows of the table: a policy may ask for a least number."""
        if self._policy is not None:
            self._rows[line.event.data] = line.event.rows
        return ()

    def on_granted(self, line: LineOf[Granted], state: State | None) -> Findings:
        """Whether the policy allows the grant, unless one like it was allowed."""
        if self._policy is None:
            return ()
        form = None if line.form is None else (line.form, self._rows.get(line.event.data))
        if form in self._kept:
            return ()
        found = list(self._look(line))
        if form is not None and not found:
            self._kept.add(form)
        return found

    def on_scope(self, line: Line, state: State | None) -> Findings:
        """Whether the policy allows the scope."""
        return () if self._policy is None else self._look(line)

    on_corrected = on_released = on_window = on_scope

    def _look(self, line: Line) -> Findings:
        assert self._policy is not None
        origins = _origins_of(line.event, self._rows, *self._promise)
        for found in origin_findings(origins, self._policy):
            yield Finding(self.name, line.position, f"{found.rule}: {found.message}")


def _origins_of(event: Event, rows: dict[str, int | None], relation: str,
                delta: float) -> Origins:
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
