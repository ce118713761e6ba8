"""What `check` and `verify` need to know of a ledger, gathered in the audit's own single pass."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeAlias

from attrs import field, frozen

from privledger.findings import Finding
from privledger.ledger import Policy, State, Store, asserted_kinds
from privledger.ledger.audit import audit_along
from privledger.ledger.history import receipt_of
from privledger.ledger.lines import Asked, Line, asked
from privledger.ledger.view_plans import plan_or_none
from privledger.reports.outline import leaves
from privledger.reports.per_table import TableSpend, spends
from privledger.reports.receipt import Past
from privledger.reports.released import NOT_PRIVATE, lines_of, total_delta


@frozen
class Survey:
    """A ledger in a few numbers, and every fault of it.

    Attributes:
        past: what can be compared with a receipt.
        live: whether anything was granted and not handed back.
        learners, isolation: of grants, in the order they first came.
        mechanisms: node types that plans reserved or releases named.
        asserted: whatever somebody merely vouches for.
        spent, spent_delta, relation, delta: as the ledger's filter adds up.
        noise: where it came from. private: none of it was simulated.
        receipt: the head; None if there is a finding.

    With a finding, the numbers are those of an account that cannot be trusted, or missing.
    """

    findings: tuple[Finding, ...]
    past: Past
    live: bool = False
    relation: str = ""
    spent: float = 0.0
    spent_delta: float = 0.0
    delta: float = 0.0
    learners: tuple[str, ...] = ()
    isolation: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    asserted: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    private: bool = False
    tables: tuple[TableSpend, ...] = ()
    windows: tuple[str, ...] = ()
    policy: Policy | None = None
    receipt: dict[str, Any] | None = field(default=None)

    @property
    def trusted(self) -> bool:
        return not self.findings


def survey(store: Store, at: int = 0, head: str | None = None) -> Survey:
    """Audit `store` and sum it up: everything is read once and parsed once at most.

    Args:
        at: number of entries that a receipt saw. head: a hash that should be there.
    """
    findings, state, seen = audit_along(store, lambda: _Watch(Past(at, head)))
    if state is None or state.budget is None:
        return Survey(tuple(findings), seen.past)
    seen.correct(state)
    rule = state.rule
    plans = [kind for kinds, many in seen.plans.items() if many for kind in kinds]
    return Survey(
        tuple(findings), seen.past, live=bool(state.scopes) or seen.granted > seen.handed_back,
        relation=state.relation, spent=rule.epsilon_of(state.units) if rule else 0.0,
        spent_delta=total_delta(state), delta=state.budget.delta,
        learners=tuple(seen.learners), isolation=tuple(seen.isolation),
        mechanisms=tuple(dict.fromkeys([*plans, *seen.released])),
        asserted=tuple(dict.fromkeys([*seen.asserted, *seen.vouched.values()])),
        noise=tuple(seen.noise),
        private=state.mode == "private" and not any(NOT_PRIVATE in text for text in seen.noise),
        tables=spends(state, {name: (units, delta) for name, (many, units, delta)
                              in seen.tables.items() if many}, seen.rows),
        windows=state.opened, policy=state.policy,
        receipt=None if findings else receipt_of(state).as_dict())


_Form: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], int, int]
"""Kinds of a plan, those of them that somebody vouches for, units, delta units."""


class _Watch:
    """Goes along with an audit. What was seen once of a form is not looked at again."""

    def __init__(self, past: Past) -> None:
        self.past, self.row = past, past.row
        self.granted = self.handed_back = 0
        self.learners: dict[str, None] = {}
        self.isolation: dict[str, None] = {}
        self.plans: Counter[tuple[str, ...]] = Counter()  # kinds of a plan -> grants with it
        self.released: dict[str, None] = {}
        self.asserted: dict[str, None] = {}
        self.vouched: dict[tuple[str, str], str] = {}  # grant and kind -> the words for it
        self.noise: dict[str, None] = {}
        self.tables: dict[str, list[int]] = {}  # grants, units, delta units
        self.rows: dict[str, Any] = {}
        self._open: dict[str, tuple[str, int, int]] = {}
        self._forms: dict[int, _Form] = {}
        self._known: set[Asked] = set()

    def on_created(self, line: Line, state: State | None) -> tuple[()]:
        self.past.created(line.body)
        self._noise(line.body)
        return ()

    def on_protected(self, line: Line, state: State | None) -> tuple[()]:
        self.rows[line.body["data"]] = line.body.get("rows")
        return ()

    def on_scope(self, line: Line, state: State | None) -> tuple[()]:
        self.past.moved()
        self._plan(str(line.body["scope"]), self._kinds(line.body["plan"]))
        return ()

    def on_granted(self, line: Line, state: State | None) -> tuple[()]:
        self.past.moved()
        body, name, self.granted = line.body, line.body["grant"], self.granted + 1
        found = None if line.form is None else self._forms.get(line.form)
        if found is None:
            found = self._granted(body)
            if line.form is not None:
                self._forms[line.form] = found
        kinds, vouched, units, delta_units = found
        self.plans[kinds] += 1
        for kind in vouched:
            self.vouched[name, kind] = f"{kind} in the plan of {name}"
        data = body["data"]
        self._open[name] = data, units, delta_units
        total = self.tables.get(data)
        if total is None:
            total = self.tables[data] = [0, 0, 0]
        total[0] += 1
        total[1] += units
        total[2] += delta_units
        return ()

    def _granted(self, body: dict[str, Any]) -> _Form:
        """What all grants of a form have in common."""
        kinds = self._kinds(body["plan"])
        self.learners[str(body.get("learner", ""))] = None
        self.isolation[str(body.get("isolation", "guarded"))] = None
        return (kinds, tuple(asserted_kinds(kinds)), int(body["units"]),
                int(body["delta_units"]))

    def on_released(self, line: Line, state: State | None) -> tuple[()]:
        named = asked(line)
        if named is None or named not in self._known:
            if named is not None:
                self._known.add(named)
            self._noise(line.body)
            lines, kinds = lines_of([line.body])
            self.released |= dict.fromkeys(sorted(kinds))
            self.asserted |= {f"{one.mechanism}: {one.question}": None
                              for one in lines if one.asserted}
        return ()

    def on_settled(self, line: Line, state: State | None) -> tuple[()]:
        self._open.pop(line.body["grant"], None)
        return ()

    def on_aborted(self, line: Line, state: State | None) -> tuple[()]:
        part = self._open.pop(line.body["grant"], None)
        if line.body["touched"] is False:
            self.past.moved()
        if not line.body["touched"]:
            self.handed_back += 1
            if part is not None:
                total = self.tables[part[0]]
                total[0] -= 1
                total[1] -= part[1]
                total[2] -= part[2]
        return ()

    def on_corrected(self, line: Line, state: State | None) -> tuple[()]:
        self.past.moved()
        return ()

    def correct(self, state: State) -> None:
        """Replace the plans of corrected grants, which a state keeps, by what they were really."""
        for grant in state.grants.values():
            if not grant.corrections:
                continue
            before = self._kinds(grant.body["plan"])
            self.plans[before] -= 1
            for kind in asserted_kinds(before):
                self.vouched.pop((grant.grant, kind), None)
            self._plan(grant.grant, self._kinds(grant.plan))
            total = self.tables[str(grant.body.get("data", ""))]
            total[0] += grant.status == "aborted" and not grant.touched  # it counts after all
            for correction in grant.corrections:
                total[1] += int(correction["units"])
                total[2] += int(correction["delta_units"])

    def _plan(self, name: str, kinds: tuple[str, ...]) -> None:
        self.plans[kinds] += 1
        for kind in asserted_kinds(kinds):
            self.vouched[name, kind] = f"{kind} in the plan of {name}"

    @staticmethod
    def _kinds(plan: Any) -> tuple[str, ...]:
        return tuple(sorted({type(leaf).__name__ for leaf in leaves(plan_or_none(plan))}))

    def _noise(self, body: dict[str, Any]) -> None:
        text = str(body.get("noise", ""))
        if text:
            self.noise[text] = None
