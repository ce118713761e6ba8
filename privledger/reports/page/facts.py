"""Everything the page says, as one frozen record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from attrs import evolve, frozen

from privledger.graph import Sequential
from privledger.ledger import Entry, State, Store
from privledger.ledger.view_charges import Charge as Charged
from privledger.ledger.view_figures import CHOSEN, Figure
from privledger.ledger.view_plans import plan_or_none
from privledger.reports.page.dated import Limit, TimeLine, limits, time_line
from privledger.reports.page.drawing import Drawing, Root, drawing
from privledger.reports.page.findings_told import MOST_FINDINGS, Said, said_of
from privledger.reports.page.icicle import Icicle, icicle
from privledger.reports.page.nodes import NodeRow, NodeTable
from privledger.reports.page.over_tables import over_tables
from privledger.reports.page.past import Bar, Past, bars, past, undated
from privledger.reports.page.people import People, Shown, people
from privledger.reports.page.whatif import WhatIf, what_if
from privledger.reports.risk import Risk
from privledger.reports.safe_text import clean
from privledger.reports.spend import GrantReport, LedgerReport
from privledger.reports.steps import Steps, silent
from privledger.rounding import from_units
from privledger.storage import shown as place_shown


@frozen
class Charge:
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
    past: Past
    time_line: TimeLine | None
    limits: tuple[Limit, ...]
    bars: dict[str, tuple[Bar, ...]]
    rows: tuple[NodeRow, ...]
    charges: tuple[Charge, ...]
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
    def said(self) -> Said:
        """The findings, each with its place."""
        return said_of(self.report.findings, self.past.told)

    @property
    def confidential(self) -> bool:
        """Whether single records are on the page: then it is not for everybody."""
        return bool(self.people)


def page_of(store: Store, state: State, report: LedgerReport, entries: Sequence[Entry], *,
            shown: Shown | None = None, publishable: bool = False,
            steps: Steps = silent) -> Page:
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
    wanted = shown or Shown() if report.trusted and not publishable else Shown(totals=False)
    found = (over_tables if state.unit == "person" else people)(store, state, entries, wanted)
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
        evolve(grant, status=grant.status if _says_nothing(grant) else "charged in full",
               note="; ".join(part for part in grant.note.split("; ")
                              if part.startswith(("corrected: ", "handed back", "an individual"))),
               time="", releases=0, lines=())
        for grant in report.grants)
    return evolve(report, location=PurePath(place_shown(report.location)).name, grants=grants,
                  dead=(), refused=tuple({**body, "time": ""} for body in report.refused))


def _says_nothing(grant: GrantReport) -> bool:
    return grant.status == "scope" or grant.note.startswith("handed back")


def _charges(report: LedgerReport, rows: dict[str, int]) -> tuple[Charge, ...]:
    places = {grant.name: place for place, grant in enumerate(report.grants)}
    return tuple(Charge(grant, one.position, rows[one.name], one.amount.share.value, _asked(one),
                        places.get(one.scope or "", -1))
                 for grant, one in zip(report.grants, report.view.charges, strict=True))


def _asked(one: Charged) -> str:
    delta = f"delta {Figure(one.delta, 'delta', CHOSEN).text()}"
    return clean("; ".join([delta, one.origin] if one.origin else [delta]), 600)
