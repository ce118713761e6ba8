"""Everything the page says, as one frozen record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePath

from attrs import evolve, frozen

from privledger.ledger import Entry, State, Store
from privledger.ledger.decide import LEDGER
from privledger.ledger.entries import now
from privledger.ledger.events import Refused
from privledger.ledger.view import View
from privledger.ledger.view_charges import (
    BudgetFigures,
    ChargeFigures,
    FederatedTrust,
    federated_of,
    said_or_none,
)
from privledger.ledger.view_figures import CHOSEN, Figure, clean, summed_figures
from privledger.ledger.view_timeline import refusal_figures, timeline
from privledger.reports.outline import MOST_NODES, Outline, gist, outline, spending
from privledger.reports.page.charts import (
    DAY,
    MOST_DOTS,
    Icicle,
    TimeLine,
    day_after,
    day_text,
    hues_of,
    icicle,
    seconds_of,
    time_line,
)
from privledger.reports.page.head import PageHead, cap_name, distrust_head, head_of
from privledger.reports.page.past import (
    MOST_FINDINGS,
    FindingText,
    PageHistory,
    Row,
    past,
    said_of,
    told_as_they_read,
    undated,
)
from privledger.reports.page.people import People, ShownPerson, people
from privledger.reports.pricing import ByHand, by_hand
from privledger.reports.risk import Risk
from privledger.reports.spend import OVERDUE, GrantReport, GrantReports, LedgerReport
from privledger.reports.survey import OVER, LedgerVerdict
from privledger.storage import shown as place_shown

MOST_GRANTS, MOST_PLANS, MOST_ANSWERS, MOST_REFUSALS = 10_000, 40, 50, 200
STATUS = {"settled": "finished", "aborted": "handed back", "unfinished": "running"}
"""What the table of grants calls a status, where it is not its own word."""
ALONE = "Alone, trusting no other owner"
ISOLATION = {"foreign": "external", "brokered": "confined"}


@frozen
class PlanText:
    """One plan, shared by all grants that have it: an indented tree of text."""

    text: str
    learners: tuple[str, ...]
    grants: int


@frozen
class GrantRow:
    """One line of the table.

    Attributes:
        name: of the grant or scope. cells: what the columns say, in order of `Body.columns`.
        keys: position, epsilon and share, to sort by. hue: of its table. flag: grey words.
        unverified: rests on an unverified claim. plan: place in `Body.plans`; -1 if not kept.
        path: where it lies in the icicle. spot: on the time line.
        facts: (name, text) for the opened row. answers: what was released.
    """

    name: str
    cells: tuple[str, ...]
    keys: tuple[float, float, float]
    hue: int
    flag: str
    unverified: bool
    plan: int
    path: str
    spot: tuple[float, float] | None
    facts: tuple[tuple[str, str], ...]
    answers: tuple[str, ...]


@frozen
class GrantColumn:
    """A column of the table of grants: its head, class, and which of `GrantRow.keys` sorts it."""

    head: str
    kind: str
    key: int = -1


@frozen
class LimitLine:
    """One budget: its figures, and the day on which it is full at the pace so far."""

    name: str
    budget: BudgetFigures
    until: str


@frozen
class RefusalLine:
    """One refused request, in words."""

    when: str
    learner: str
    asked: str
    room: str
    by: str


@frozen
class Body:
    """What a history that can be believed adds up to.

    Attributes:
        columns, rows: the table of grants, newest first. more: (how many are not in it, their
            share of the budget).
        claims: grants that rest on unverified claims, in words.
        hand: how the total comes about. who, whose: what one row or person, and several, are
            called. federated: the last grants that ran in a federation.
    """

    report: LedgerReport
    columns: tuple[GrantColumn, ...]
    rows: tuple[GrantRow, ...]
    more: tuple[int, str]
    plans: tuple[PlanText, ...]
    history: PageHistory
    icicle: Icicle
    time_line: TimeLine | None
    limits: tuple[LimitLine, ...]
    refusals: tuple[RefusalLine, ...]
    corrections: tuple[tuple[str, str], ...]
    claims: tuple[str, ...]
    people: tuple[People, ...]
    vectors: bool
    hand: ByHand
    risk: Risk | None
    who: str
    whose: str
    federated: list[FederatedTrust]


@frozen
class Page:
    """What the template prints.

    Attributes:
        name: of the ledger. head: what is seen first. verdict: the line of every surface.
        entries: how many there are. said: findings, with the entries they are about.
        publishable: whether everything that may depend on the rows was left out.
        content: None where the history cannot be believed.
    """

    name: str
    head: PageHead
    verdict: LedgerVerdict
    entries: int
    said: FindingText
    publishable: bool
    content: Body | None = None

    @property
    def confidential(self) -> bool:
        """Whether single records are on the page: then it is confidential."""
        return self.content is not None and bool(self.content.people)


def distrusted(rows: Sequence[Row], location: str, verdict: LedgerVerdict, *,
               publishable: bool = False) -> Page:
    """The page of a history that cannot be believed: faults, and entries as they read.

    Args:
        rows: of the store, as they are. verdict: with its findings, of which there is one.
    """
    said = told_as_they_read(rows, location, verdict.findings, publishable=publishable)
    return Page(_name(location), distrust_head(verdict, len(rows), said, publishable), verdict,
                len(rows), said, publishable)


def _name(location: str) -> str:
    return clean(PurePath(place_shown(location)).stem, 80) or "ledger in memory"


def page_of(store: Store, state: State, report: LedgerReport, entries: Iterable[Entry], *,
            shown: ShownPerson | None = None, publishable: bool = False) -> Page:
    """Args:
        report: of the same entries. shown: which per-record parts go in; ignored if publishable.
        publishable: leave out whatever may depend on the rows: per-record spends, what became of
            a fit, how much it released, and when.
    """
    view, location = report.view, report.location
    verdict = evolve(report.verdict, publishable=publishable)
    if any(one.rule != OVER for one in report.findings):
        return distrusted(list(store.rows()), location, verdict, publishable=publishable)
    wanted_at = {found.position for found in report.findings[:MOST_FINDINGS]}
    seen = past(view, [one for one in timeline(entries) if one.position in wanted_at]
                if wanted_at else ())
    if publishable:
        report, seen = published(report), undated(seen)
    # Where the promise is broken, or never was one, spends of single records mislead.
    wanted = ShownPerson(totals=False) if publishable or report.findings or view.simulated else (
        shown or ShownPerson())
    found = people(store, state, entries, wanted)
    body = _body(view, report, seen, found, wanted.vectors and bool(found), publishable)
    return Page(_name(location), head_of(view, verdict, body.risk, report.entries, body.history,
                                         len(body.claims)),
                verdict, report.entries, said_of(report.findings, seen.told), publishable, body)


def published(report: LedgerReport) -> LedgerReport:
    """Without what may depend on the rows beside what was paid for.

    Refusals stay: a refusal is decided from a plan and from totals, and reads nothing. Whether a
    fit failed or crashed, how far it came and how long it took may depend on the rows, and the
    holder's process and the file's place are private.
    """
    return evolve(report, location=PurePath(place_shown(report.location)).name,
                  grants=GrantReports(report.view, now(), _published), dead=(),
                  refused=tuple({**body, "time": ""} for body in report.refused))


def _published(grant: GrantReport) -> GrantReport:
    said = grant.status == "scope" or grant.note.startswith("handed back")
    return evolve(grant, status=grant.status if said else "charged in full",
                  note="; ".join(part for part in grant.note.split("; ") if part.startswith(
                      ("corrected: ", "handed back", "an individual"))),
                  time="", releases=0, lines=())


def _body(view: View, report: LedgerReport, seen: PageHistory, found: tuple[People, ...],
          vectors: bool, publishable: bool) -> Body:
    """Grants are laid out where they are shown: there may be very many."""
    pairs, hues, moves = list(enumerate(view.charges)), hues_of(view), seen.moves
    called = {one.name: f"no. {place + 1}" if publishable else day_text(one.time or "")
              for place, one in pairs}
    blocks = icicle(view, hues, called)
    dotted = {one.what for one in moves if len(moves) <= MOST_DOTS or one.kind == "corrected"}
    drawn = [one for one in view.charges if one.name in dotted]
    line = time_line(seen, {one.name: hues[one.table] for one in drawn}, {
        one.name: f"{clean(one.learner, 60) or one.kind}, {one.amount.share.text()}"
        for one in drawn})
    plans, plan_of = _plans(view, report.grants)
    kept, rest = pairs, list[tuple[int, ChargeFigures]]()
    if len(pairs) > MOST_GRANTS:
        ranked = sorted(pairs, key=lambda pair: -pair[1].amount.units)
        kept = sorted(ranked[:MOST_GRANTS], key=lambda pair: pair[1].position)
        rest = ranked[MOST_GRANTS:]
    columns = _columns(report, publishable)
    spots = {} if line is None else line.places
    rows = tuple(_row(report.grants[place], one, columns, called[one.name], plan_of[one.name],
                      blocks.paths.get(one.name, ""), spots.get(one.name), hues[one.table],
                      float(place if publishable else one.position), view,
                      publishable) for place, one in reversed(kept))
    claimed = [(report.grants[place], one) for place, one in pairs
               if (one.claims if publishable else view.vouched(one))]
    person = report.about == "person"
    return Body(
        report, columns, rows, (len(rest), summed_figures([one.amount for _, one in rest],
                                                  view.rule).share.text()),
        plans, seen, blocks, line, limit_lines(view, seen, dated=not publishable),
        tuple(_refusal(one, publishable) for one in view.refusals[-MOST_REFUSALS:]),
        tuple((one.name, clean(why)) for one in view.charges for why in one.why),
        tuple(_claim(grant, one, view, publishable) for grant, one in claimed),
        found, vectors, by_hand(view), _risk(report, publishable),
        "person" if person else "record", "people" if person else "records",
        [party for one in view.charges if (party := federated_of(one, view.relation))][-5:])


def _risk(report: LedgerReport, publishable: bool) -> Risk | None:
    """In words. Published, only plans say what is asserted: how many answers there were may
    depend on the rows."""
    found = report.risk
    return found if found is None or not publishable else evolve(
        found, vouched=sum(bool(one.claims) for one in report.view.charges))


def _columns(report: LedgerReport, publishable: bool) -> tuple[GrantColumn, ...]:
    kinds = {"No." if publishable else "When": "c-when nw", "Table": "c-table", "Learner": "l",
             "Team": "c-team", "Library": "c-lib nw", "Isolation": "c-iso", "Mechanism": "c-mech",
             "Epsilon alone": "r c-eps", **({} if report.alone is None else {ALONE: "r c-alone"}),
             "Share of budget": "b nw", **({} if publishable else {"Status": "c-status"})}
    keys = {"No.": 0, "When": 0, "Epsilon alone": 1, "Share of budget": 2}
    return tuple(GrantColumn(name, kind, keys.get(name, -1)) for name, kind in kinds.items())


def _row(grant: GrantReport, one: ChargeFigures, columns: tuple[GrantColumn, ...], when: str,
         plan: int, path: str, spot: tuple[float, float] | None, hue: int, place: float,
         view: View, publishable: bool) -> GrantRow:
    status = "overdue" if grant.note.startswith(OVERDUE) else STATUS.get(grant.status, grant.status)
    flag = "corrected" if one.corrections else status if status not in (
        "finished", "scope", "charged in full") else ""
    isolation = ISOLATION.get(grant.isolation, grant.isolation)
    alone = "–" if grant.alone is None else Figure(grant.alone).text(3)
    said = {"When": when, "No.": when, "Table": one.table,
            "Learner": grant.learner or one.library or "–", "Team": one.team or "–",
            "Library": one.library or "privledger",
            "Isolation": isolation or "–", "Mechanism": _mechanisms(grant.plan),
            "Epsilon alone": one.amount.epsilon.text(3), ALONE: alone,
            "Share of budget": one.amount.share.text(), "Status": flag or status}
    facts = [("Grant" if one.kind == "grant" else "Scope", grant.name),
             ("Paid for by", one.scope or ""), ("Status", f"{status}: {grant.note}"
                                                if grant.note else status),
             ("Charge", f"{one.amount.own.text(4)} {view.unit}"),
             ("Delta of the plan", Figure(one.delta, "delta", CHOSEN).text()),
             ("Score", grant.score_text), ("Origin", one.origin),
             ("Federation", grant.federated),
             ("Entry", "" if publishable else str(one.position)),
             ("Answers", "" if publishable else str(grant.releases))]
    answers = tuple(clean(f"{line.count} × {line.mechanism}: {line.question}"
                          + (f", {line.cells} cells" if line.cells > 1 else "")
                          + (" (unverified claim)" if line.vouched else ""))
                    for line in grant.lines[:MOST_ANSWERS])
    if len(grant.lines) > MOST_ANSWERS:
        answers += (f"{len(grant.lines) - MOST_ANSWERS} more",)
    return GrantRow(
        grant.name, tuple(clean(said[column.head], 120) for column in columns),
        (place, one.amount.epsilon.value, float(one.amount.share.value)), hue, flag,
        bool(one.claims) if publishable else view.vouched(one), plan, path, spot,
        tuple((name, clean(text, 600)) for name, text in facts if text), answers)


def _mechanisms(plan: Outline) -> str:
    found = [kind if times == 1 else f"{kind} ×{times}" for kind, times in spending(plan)]
    return ", ".join(found[:3]) + (", …" if len(found) > 3 else "") or "nothing"


def _plans(view: View,
           grants: Sequence[GrantReport]) -> tuple[tuple[PlanText, ...], dict[str, int]]:
    """Different plans in the order of the history, and which of them each grant has."""
    texts: dict[str, tuple[int, dict[str, None], list[int]]] = {}
    known: dict[int, tuple[Outline, str]] = {}  # by identity
    plan_of: dict[str, int] = {}
    for place, one in enumerate(view.charges):
        plan = said_or_none(one.plan, outline)
        if id(plan) not in known:
            lines: list[str] = []
            _lines(gist(plan, ()), 0, lines)
            known[id(plan)] = plan, "\n".join(
                lines[:MOST_NODES] + (["..."] if len(lines) > MOST_NODES else []))
        number, learners, users = texts.setdefault(known[id(plan)][1], (len(texts), {}, [0]))
        learners[clean(one.learner or one.library, 60) or grants[place].status] = None
        users[0] += 1
        plan_of[one.name] = number
    return tuple(PlanText(text, tuple(learners), users)
                 for text, (_, learners, (users,)) in texts.items()), plan_of


def _lines(line: Outline, depth: int, out: list[str]) -> None:
    if len(out) <= MOST_NODES:
        times = f"  ×{line.times}" if line.times > 1 and not line.children else ""
        out.append(f"{'  ' * depth}{clean(line.label, 300)}{times}")
        for child in line.children:
            _lines(child, depth + 1, out)


def limit_lines(view: View, seen: PageHistory, *, dated: bool) -> tuple[LimitLine, ...]:
    """Every budget, and how long it lasts."""
    opened = [one.time for one in seen.marks if one.kind == "window"]
    return () if view.rule is None else tuple(LimitLine(
        cap_name(one.name), one, "" if not dated else _until(
            one, (opened[-1] if opened else "") if one.windowed else seen.begun, seen.last))
        for one in view.budgets)


def _until(one: BudgetFigures, begun: str, last: str) -> str:
    share = one.share.value
    if share >= 1:
        return "nothing is left"
    between = seconds_of([begun, last]) if begun and last else None
    if between is None or not share:
        return ""
    span = between[1] - between[0]
    return day_after(between[1], span * ((1 - share) / share)) if span >= DAY else (
        "too early to tell")


def _refusal(one: Refused, publishable: bool) -> RefusalLine:
    asked, room = refusal_figures(one)
    unit = "" if one.unit == "epsilon" else f" {one.unit}"
    by = f"rules: {', '.join(one.rules)}" if one.rules else cap_name(one.limit or LEDGER)
    figures = ["–" if each is None else each.text(4) + unit for each in (asked, room)]
    return RefusalLine("" if publishable else day_text(one.time or ""),
                       clean(one.learner, 60) or "–", figures[0], figures[1], clean(by, 120))


def _claim(grant: GrantReport, one: ChargeFigures, view: View, publishable: bool) -> str:
    when = "" if publishable else f"{day_text(grant.time)}: "
    who = " on ".join(part for part in (grant.learner, one.table) if part) or grant.name
    team = f", team {one.team}" if one.team else ""
    asked = [] if publishable else [
        f"{line.mechanism}: {line.question}" for line in view.releases.get(one.name, ())
        if line.asserted]
    words = dict.fromkeys([*one.claims, *_asserted(grant.plan), *asked])
    return clean(f"{when}{who}{team}. {'; '.join(words)}", 600)


def _asserted(line: Outline) -> list[str]:
    """What an author states in a plan, with the reason."""
    own = [line.label] if line.kind.startswith("Asserted") else []
    return own + [label for child in line.children for label in _asserted(child)]
