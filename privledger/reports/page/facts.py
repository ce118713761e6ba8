"""Everything the page says, as one frozen record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from attrs import evolve, frozen

from privledger.accounting import Cost, check_relation, sequential
from privledger.errors import InvalidValue, PrivledgerError
from privledger.graph import Node, Sequential, cost_of, explain, quick_answers
from privledger.ledger import Budget, Entry, FilterRule, State, Store
from privledger.ledger.view import View
from privledger.ledger.view_charges import ChargeFigures as Charged
from privledger.ledger.view_charges import plan_or_none
from privledger.ledger.view_figures import CHOSEN, Figure, clean
from privledger.reports.page.drawing import (
    Drawing,
    Icicle,
    NodeRow,
    NodeTable,
    Root,
    drawing,
    icicle,
)
from privledger.reports.page.past import (
    MOST_FINDINGS,
    Bar,
    FindingText,
    LimitLine,
    PageHistory,
    TimeLine,
    bars,
    limits,
    past,
    said_of,
    time_line,
    undated,
)
from privledger.reports.page.people import People, ShownPerson, people
from privledger.reports.risk import Risk
from privledger.reports.spend import GrantReport, LedgerReport, PlanSteps, silent
from privledger.rounding import from_units
from privledger.storage import shown as place_shown

# What would change the number: other deltas, other accountants.

DELTAS = tuple(10.0**-power for power in range(12, 1, -1))
MOST_ROWS = 40
"""Distinct nodes of a history of which a distribution is made: it takes its time."""
MOST_CURVES = 2000
"""Distinct nodes of which Renyi curves are added up."""


@frozen
class Compared:
    """One accountant's answer about the whole history, as if all of it had been fixed first."""

    accountant: str
    epsilon: float | None
    why: str


@frozen
class WhatIf:
    """Curve and comparison.

    Attributes:
        curve: (delta, epsilon) by the ledger's own filter; empty where it has one point only.
        compared: the ledger and accountants, the tightest first; empty if nothing was spent.
        lower: nobody can prove less than this; 0 if nothing is known.
        note: why a part is missing.
    """

    curve: tuple[tuple[float, float], ...]
    compared: tuple[Compared, ...]
    lower: float
    note: str


def what_if(view: View, whole: Node, distinct: int,
            parts: Sequence[Cost] = ()) -> WhatIf:
    """Args:
        whole: everything paid for, as one node. distinct: how many nodes it is made of.
        parts: what each of its members costs, for a caller that knows.
    """
    rule, budget, units = view.rule, view.budget, view.total.units
    if rule is None or not units:
        return WhatIf((), (), 0.0, "Nothing was spent yet.")
    curve = _curve(rule, budget, units) if rule.kind != "basic" else ()
    note = ("" if curve else "A basic ledger adds up (epsilon, delta) of whole plans: it has one "
            "point, no curve.")
    own = Compared("this ledger", view.spent.value, f"what is promised: {rule.theorem}")
    relation, lower = check_relation(view.relation), 0.0
    try:
        if distinct > MOST_ROWS:
            others = [(one.accountant, one.epsilon, clean(one.why))
                      for one in quick_answers(
                          sequential(parts) if parts else cost_of(whole, relation), budget.delta,
                          ("pld", "rdp") if distinct > MOST_CURVES else ("pld",))]
        else:
            found = explain(whole, budget.delta, relation)
            best, lower = found.certificate, found.lower
            others = [(best.accountant, best.epsilon, f"the tightest: {best.theorem}"),
                      *((one.accountant, one.epsilon, clean(one.why))
                        for one in found.alternatives)]
    except (PrivledgerError, InvalidValue, OverflowError) as error:
        why = f"No accountant prices the history as a whole: {clean(error)}"
        note, others = f"{note} {why}".strip(), [("any other", None, "see below")]
    compared = sorted([own, *(Compared(*one) for one in others)],
                      key=lambda one: (one.epsilon is None, one.epsilon or 0.0))
    return WhatIf(curve, tuple(compared), lower, note)


def _curve(rule: FilterRule, budget: Budget, units: int) -> tuple[tuple[float, float], ...]:
    """The same total in the filter's unit, read at other deltas, the purse beside it."""
    deltas = sorted({*DELTAS, budget.delta})
    return tuple((delta, evolve(rule, budget=Budget(budget.epsilon, delta, budget.failure)
                                ).epsilon_of(units))
                 for delta in deltas if delta > budget.failure)


@frozen
class PageCharge:
    """One grant or scope of the tree: what it asked, what it was granted.

    Attributes:
        report: status, learner, releases. position: its entry; -1 if untold.
        row: its plan in the table.
        share: of the whole budget, in the filter's unit.
        asked: delta of the request, and where it came from (`origin_text`), as text.
        drew_on: place of the scope it drew on; -1 if it was paid for by itself.
    """

    report: GrantReport
    position: int
    row: int
    share: float
    asked: str
    drew_on: int


@frozen
class Page:
    """What the template prints.

    Attributes:
        name: of the ledger. report: totals and findings. unit: of the filter.
        publishable: whether everything that depends on the data was left out.
        confidential: whether anything in it depends on the data record by record.
        isolation: levels that grants ran under.
    """

    name: str
    report: LedgerReport
    unit: str
    cap: float
    publishable: bool
    isolation: tuple[str, ...]
    past: PageHistory
    time_line: TimeLine | None
    limits: tuple[LimitLine, ...]
    bars: dict[str, tuple[Bar, ...]]
    rows: tuple[NodeRow, ...]
    charges: tuple[PageCharge, ...]
    drawing: Drawing
    people: tuple[People, ...]
    vectors: bool
    what_if: WhatIf
    icicle: Icicle

    @property
    def risk(self) -> Risk | None:
        """In words, for the head of the page. Published, only plans say what is asserted: how
        many answers there were may depend on the rows."""
        found = self.report.risk
        if found is None or not self.publishable:
            return found
        return evolve(found, vouched=sum(bool(one.claims) for one in self.report.view.charges))

    @property
    def places(self) -> dict[str, int]:
        """Where in the tree a grant or a scope is, by its name."""
        return {charge.report.name: place for place, charge in enumerate(self.charges)}

    @property
    def said(self) -> FindingText:
        """The findings, each with its place."""
        return said_of(self.report.findings, self.past.told)

    @property
    def confidential(self) -> bool:
        """Whether single records are on the page: then it is not for everybody."""
        return bool(self.people)


def page_of(store: Store, state: State, report: LedgerReport, entries: Sequence[Entry], *,
            shown: ShownPerson | None = None, publishable: bool = False,
            steps: PlanSteps = silent) -> Page:
    """Args:
        report: of the same entries. shown: which per-record parts go in; ignored if publishable.
        publishable: leave out whatever may depend on the rows: per-record spends, what became of
            a fit, how much it released, and when.
    """
    view, table = report.view, NodeTable()
    plans = {one.name: plan_or_none(one.plan) for one in view.charges}
    if publishable:
        report = published(report)
    places = {name: table.add(plan) for name, plan in plans.items()}
    charges = _charges(report, places)
    rows = table.rows(view.rule, view.relation, set(places.values()), steps)
    paid = [one.name for one in view.charges if one.paid]
    parts = [table.costs[places[name]] for name in paid if places[name] in table.costs]
    if len(parts) < len(paid):
        parts = []  # one has no price: so has the whole, and it says why
    roots = [Root(clean(one.report.name, 40), one.row, clean(one.report.learner, 40))
             for one in charges]
    seen = past(entries, {found.position for found in report.findings[:MOST_FINDINGS]},
                {one.name: one.learner for one in view.charges})
    if publishable:
        seen = undated(seen)
        charges = tuple(evolve(charge, position=-1) for charge in charges)
    # Counts that cannot be trusted, or not even be read, say nothing about anybody.
    wanted = (
        shown or ShownPerson() if report.trusted and not publishable else ShownPerson(totals=False)
    )
    found = people(store, state, entries, wanted)
    return Page(
        name=clean(PurePath(place_shown(report.location)).name, 80) or "ledger in memory",
        report=report, unit=view.unit,
        cap=from_units(view.rule.cap_units) if view.rule else 0.0, publishable=publishable,
        isolation=tuple(dict.fromkeys(grant.isolation for grant in report.grants
                                      if grant.isolation)),
        past=seen, time_line=time_line(seen, state),
        limits=limits(view, state, seen, dated=not publishable), bars=bars(view), rows=rows,
        charges=charges, drawing=drawing(rows, roots),
        people=found, vectors=wanted.vectors and bool(found),
        what_if=what_if(view, Sequential([plans[name] for name in paid]), len(rows), parts),
        icicle=icicle(view),
    )


def published(report: LedgerReport) -> LedgerReport:
    """Without what may depend on the rows beside what was paid for.

    Refusals stay: a refusal is decided from a plan and from totals, and reads nothing. Whether a
    fit failed or crashed, how far it came and how long it took may depend on the rows, and the
    holder's process and the file's place are nobody's business.
    """
    grants = tuple(
        evolve(grant, status=grant.status if grant.status == "scope" or (
                   grant.note.startswith("handed back")) else "charged in full",
               note="; ".join(part for part in grant.note.split("; ")
                              if part.startswith(("corrected: ", "handed back", "an individual"))),
               time="", releases=0, lines=())
        for grant in report.grants)
    return evolve(report, location=PurePath(place_shown(report.location)).name, grants=grants,
                  dead=(), refused=tuple({**body, "time": ""} for body in report.refused))


def _charges(report: LedgerReport, rows: dict[str, int]) -> tuple[PageCharge, ...]:
    places = {grant.name: place for place, grant in enumerate(report.grants)}
    return tuple(PageCharge(grant, one.position, rows[one.name], one.amount.share.value,
                            _asked(one), places.get(one.scope or "", -1))
                 for grant, one in zip(report.grants, report.view.charges, strict=True))


def _asked(one: Charged) -> str:
    delta = f"delta {Figure(one.delta, 'delta', CHOSEN).text()}"
    return clean("; ".join([delta, one.origin] if one.origin else [delta]), 600)
