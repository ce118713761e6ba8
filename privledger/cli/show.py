"""`privledger show`: what was spent, on what, by whom."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from privledger.accounting import promise
from privledger.cli.output import (
    Reply,
    command,
    complete_grant,
    kept_elsewhere,
    key_option,
    ledger_argument,
    public_option,
    reading_state,
    reading_store,
    receipt_option,
    receipt_or_none,
    where_option,
)
from privledger.cli.terminal import (
    DIGITS,
    RED,
    YELLOW,
    Label,
    bar_text,
    charge,
    clauses_text,
    findings_table,
    flow,
    grid,
    grow,
    pairs,
    quiet_option,
    remainder,
    room,
    text,
    tree_line,
)
from privledger.gate import NOT_TRUSTED
from privledger.ledger.events import EVENTS
from privledger.ledger.history import each_row
from privledger.ledger.view_charges import charges_of, chosen
from privledger.ledger.view_timeline import Moment, Said, told_rows
from privledger.numerals import many
from privledger.reports import GrantReport, LedgerReport, clean
from privledger.reports.outline import gist, released_line, reserved_line
from privledger.reports.spend import InLine, brief_report, is_long
from privledger.reports.survey import sentence
from privledger.rounding import exact
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree


MOST_LINES, UNDATED, TOGETHER = 8, " " * 25, 1000
MOST_REFUSALS = 5
MOST_GRANTS = 20
MOST_NARROW = 100
"""Columns of a terminal that has room for plans and releases beside the grants."""


@command
@ledger_argument
@click.option("--all", "whole", is_flag=True,
              help="Read and price everything again, list every grant, however many there are, and "
                   "fold no plan.")
@where_option
@receipt_option
@key_option
@public_option
@quiet_option
def show(ledger: str, whole: bool, where: tuple[str, ...], receipt: str | None,
         key_file: str | None, public_key: str | None) -> Reply:
    """Totals, what is left, and the tree of what was granted and released.

    Opens the ledger read-only. Exit code 3 if the history cannot be trusted. Of a history of more
    than 100,000 entries every hash is checked, the totals are the ledger's own, and the last grants
    are listed: the first line says so. Where it is compared with a receipt, all of it is read.
    """
    known = kept_elsewhere(receipt, None, key_file, public_key)
    whole_is_read = whole or known.present
    with reading_store(ledger) as store:
        report = (brief_report(store) if not whole_is_read and is_long(store)
                  else known.report(store, whole=whole))
    if where:
        report = report.where(chosen(where))
    return Reply(report.as_dict, lambda out: render_ledger(out, report, whole=whole),
                 0 if report.trusted else NOT_TRUSTED)


CHOSEN = " (chosen by auto from the first plan)"


def render_ledger(out: Console, report: LedgerReport, *, whole: bool = False) -> None:
    """Status, spent and left, what needs attention; then the grants; then all other figures.

    Args:
        whole: list every grant, with its whole plan.
    """
    flow(out, clauses_text(report.verdict.status, report.verdict.level))
    flow(out, _spent_line(report))
    flow(out, _attention_line(report))
    out.print()
    if whole:
        out.print(grants_tree(report, whole=True))
    else:
        render_grants(out, report)
    if report.refusals:
        out.print()
        render_refusals(out, report)
    if report.findings:
        out.print(findings_table(report.findings))
    out.print()
    auto = report.view.rule is not None and report.view.asked_filter == "auto"
    mode = text("simulation, NOT PRIVATE", RED) if report.mode != "private" else text("private")
    out.print(pairs([
        ("ledger", report.location),
        ("budget", f"epsilon {exact(report.epsilon)}, delta {exact(report.delta)}, "
                   f"{promise(report.relation, report.about)}"),
        ("spent", f"epsilon {charge(report.spent)}, delta {charge(report.spent_delta)} "
                  "(reservations included)"),
        *_delta_reserve(report),
        *([("alone", f"epsilon {charge(report.alone)}, if all other parties of its federations "
                     "reveal their noise")] if report.alone is not None else []),
        ("filter", f"{report.filter}{CHOSEN * auto}: {report.theorem}"),
        ("mode", mode),
        ("noise", "; ".join(report.noise)),
        *([("windows", ", ".join(report.windows[-5:]) + " (the last one is open)")]
          if report.windows else []),
        *([("wait queue", "; ".join(map(_waiting, report.waiting[:MOST_LINES])) + (
            f"; and {more} more" if (more := len(report.waiting) - MOST_LINES) > 0 else ""))]
          if report.waiting else []),
        *([("policy", "its own: a request that it forbids is refused before any row is read")]
          if report.policy is not None else []),
        ("history", f"{many(report.entries, 'entry', 'entries')}, head "
                    f"{report.head[:16]}, {report.uuid}"),
    ]))
    if report.risk is not None:
        out.print()
        for sentence in report.risk.sentences:  # a paragraph, where grants are folded
            out.print(text(sentence), end="\n" if whole else " ", soft_wrap=not whole)
        out.print()


def _spent_line(report: LedgerReport) -> Text:
    view = report.view
    line = text("Spent ").append_text(bar_text(view.total.share.value))
    left = room(report.left, report.epsilon)
    note = " Epsilons do not simply add up: see the filter." if left.startswith("Room") else ""
    return line.append_text(text(
        f" epsilon {view.spent.text(DIGITS)} of {view.promised[0].text()} at delta "
        f"{view.promised[1].text()}. {left}{note}"))


def _attention_line(report: LedgerReport) -> Text:
    """Open points of the verdict, and grants that ended badly, or not at all."""
    found = [text(f"{sentence(one.text)}.", YELLOW) for one in report.verdict.attention]
    broken = sum(one in ("crashed", "failed") for one in report.statuses)
    if broken:
        found.append(text(f"{many(broken, 'grant')} crashed or failed: the reservation stays "
                          "spent.", YELLOW))
    if report.dead:
        found.append(text(f"{many(len(report.dead), 'grant')} without a running process "
                          f"({', '.join(report.dead[:5])}): the reservation stays spent.", YELLOW))
    if report.waiting:
        found.append(text(f"{many(len(report.waiting), 'request')} in the wait queue.", YELLOW))
    if not found:
        return text("Nothing needs attention.")
    line = text("Attention:")
    for one in found:
        line.append_text(text(" ")).append_text(one)
    return line


def render_grants(out: Console, report: LedgerReport) -> None:
    """A table of the last grants, one row each, and what there is to say about some of them."""
    listed = report.grants[-MOST_GRANTS:]
    number = len(report.grants) + report.unlisted
    scopes = sum(one == "scope" for one in report.statuses)
    title = many(number - scopes, "grant") if number else "No grants yet"
    title += f", {many(scopes, 'scope')}" if scopes else ""
    title += ", selected by --where" if len(report.grants) < len(report.view.charges) else ""
    if len(listed) < number:
        title += f"; the last {len(listed)} are listed, --all lists more"
    if not listed:
        out.print(text(title, "bold"))
        return
    claims = any(one.claimed is not None for one in listed)
    columns: dict[str, Callable[[GrantReport], object]] = {
        "grant": lambda one: one.name, "for": _who, "epsilon": lambda one: charge(one.epsilon),
        "status": lambda one: text(one.status, _colour(one))}
    if claims:
        columns["claimed"] = claim
    if out.width >= MOST_NARROW:
        columns["reserved"] = lambda one: reserved_line(one.plan)
        columns["released"] = _released
    out.print(grid(tuple(columns), [tuple(cell(one) for cell in columns.values())
                                    for one in listed], title=title, whole=len(listed[0].name),
                   cut=("reserved", "released")))
    for grant in listed:
        for said, colour in _said(grant):
            flow(out, text(f"{grant.name}: {said}", colour))


def _waiting(one: InLine) -> str:
    labels = " ".join(f"{key}={value}" for key, value in sorted(one.labels.items()))
    asked = "" if one.asked is None else f" epsilon {charge(one.asked)}"
    return f"{labels or one.grant} waits for{asked} on {one.data}, at most until {one.until}"


def _delta_reserve(report: LedgerReport) -> list[tuple[str, str]]:
    """What plans with a delta of their own took of the delta reserve."""
    view = report.view
    if not view.budget.failure:
        return []
    taken = 0.0 if view.rule is None else view.rule.delta_of(view.total.delta_units)
    return [("delta reserve", f"delta {charge(taken)} of {exact(view.budget.failure)} charged by "
                              "plans with a delta of their own")]


def grants_tree(report: LedgerReport, *, plans: bool = True, whole: bool = False) -> Tree:
    """Grants, the plan each reserved, and what was released under it.

    Alternatives that did not run are left out, and siblings that look alike are one line.

    Args:
        plans: show plans, too. whole: leave nothing out.
    """
    from rich.tree import Tree

    number = len(report.grants)
    scopes = sum(one == "scope" for one in report.statuses)
    title = many(number - scopes, "grant") if number else "No grants yet"
    title += f", {many(scopes, 'scope')}" if scopes else ""
    title += ", selected by --where" if number < len(report.view.charges) else ""
    root = Tree(text(title, "bold"), guide_style="dim")
    for grant in report.grants:
        shown = grant if whole else evolve(grant, plan=gist(grant.plan, grant.lines))
        add_grant(root, shown, plans=plans, whole=whole)
    return root


def _said(grant: GrantReport) -> list[tuple[str, str]]:
    """What there is to say about a grant, each with its colour; external runs are claims."""
    said = ((grant.note, YELLOW), (grant.federated, YELLOW), (grant.score_text, ""),
            (grant.origin, YELLOW if grant.library else ""))
    return [one for one in said if one[0]]


def _released(grant: GrantReport) -> Text:
    vouched = any(line.vouched for line in grant.lines)
    return text(f"{grant.releases}: {released_line(grant.lines)}" if grant.lines else "none",
                YELLOW if vouched else "")


def _who(grant: GrantReport) -> str:
    return " ".join(part for part in (grant.learner, f"on {grant.data}" if grant.data else "")
                    if part)


def _colour(grant: GrantReport) -> str:
    return RED if grant.status in ("crashed", "failed") else ""


def add_grant(root: Tree, grant: GrantReport, *, plans: bool, whole: bool = False) -> None:
    """One grant as a branch; `plans` shows what it reserved, too, and `whole` cuts no list."""
    line = text(f"{grant.name}  {_who(grant)}  epsilon {charge(grant.epsilon)}  ")
    if grant.learner:
        line.append_text(text("claimed ", "dim")).append_text(claim(grant)).append_text(text("  "))
    line.append_text(text(grant.status, _colour(grant)))
    if grant.isolation:
        line.append_text(text(f"  {grant.isolation}", "dim"))
    branch = root.add(Label(line))
    for said, colour in _said(grant):
        branch.add(tree_line(said, colour))
    if plans:
        grow(branch.add(tree_line(f"reserved: {grant.plan.label}")), grant.plan, whole=whole)
    if grant.lines:
        done = branch.add(tree_line(f"released: {grant.releases}"))
        most = len(grant.lines) if whole else MOST_LINES
        for item in grant.lines[:most]:
            cells = f", {many(item.cells, 'cell')}" if item.cells > 1 else ""
            done.add(tree_line(f"{item.count} x {item.mechanism}: {item.question}{cells}",
                          YELLOW if item.vouched else ""))
        if len(grant.lines) > most:
            more = many(len(grant.lines) - most, "more kind", "more kinds")
            done.add(tree_line(f"... and {more}", "dim"))


def claim(grant: GrantReport) -> Text:
    """What the paper states for the plan beside what was charged; "-" where nothing is known."""
    ratio = "-" if grant.ratio is None else f"{charge(grant.ratio)} x"
    worse = grant.ratio is not None and grant.ratio > 1.0005
    claimed = "-" if grant.claimed is None else charge(grant.claimed)
    return text(f"{claimed}, ratio {ratio}", RED if worse else "dim")


def render_refusals(out: Console, report: LedgerReport) -> None:
    """The last refusals; none of them read anything."""
    rows = [(one.time or "", one.learner, _figure(one.asked, charge),
             _figure(one.left, remainder), one.unit)
            for one in report.view.refusals[-MOST_REFUSALS:]]
    out.print(grid(("when", "who", "asked", "left", "unit"), rows,
                   title=f"{report.refusals} refused, nothing was read"))


def _figure(value: Any, shown: Callable[[float], str]) -> str:
    known = isinstance(value, int | float) and not math.isnan(value)
    return shown(float(value)) if known else "-"


# `privledger log`: the entries of a history in order, one line each.

@command
@ledger_argument
@click.option("--grant", shell_complete=complete_grant,
              help="Only entries about this grant or scope; its first letters are enough.")
@click.option("--kind", "kinds", multiple=True, type=click.Choice(tuple(EVENTS)),
              help="Only entries of this kind; may be repeated.")
@click.option("--since", metavar="N", type=click.IntRange(min=0), default=0,
              help="Only entries from position N on; a receipt's `entries` is such an N.")
@click.option("--asserted", is_flag=True,
              help="Only unverified claims: asserted plans and releases, and external runs.")
@where_option
def log(ledger: str, grant: str | None, kinds: tuple[str, ...], since: int, asserted: bool,
        where: tuple[str, ...]) -> Reply:
    """The entries in order, one line each. Nothing is verified here: `verify` does that."""
    names = None
    if where:
        meets = chosen(where)
        with reading_state(ledger) as (_, state):
            names = {one.name for one in charges_of(state) if meets(one)}
    store = click.get_current_context().with_resource(reading_store(ledger))
    # An entry at a time: a long history does not have to fit into memory.
    found = told_rows(each_row(store))
    if since or kinds or asserted or names is not None or grant is not None:
        found = (event for event in map(Moment._make, found)
                 if event.position >= since and (not kinds or event.kind in kinds)
                 and (event.asserted or not asserted) and (names is None or event.grant in names)
                 and (grant is None or event.grant.startswith(grant)))
    return Reply(lambda: {"ledger": shown(ledger), "entries": [
        Moment._make(event)._asdict() for event in found],
                          "receipt": receipt_or_none(ledger)}, lambda out: _render(out, found))


def _render(out: Console, found: Iterable[Said]) -> None:
    lines = list[str]()
    try:
        for place, kind, grant, time, said, _, _ in found:
            line = f"{place:>5}  {time or UNDATED}  {kind:<9}{'  ' if grant else ''}{grant}"
            lines.append(clean(f"{line}  {said}" if said else line) + "\n")
            if len(lines) == TOGETHER:
                out.file.write("".join(lines))
                lines.clear()
    finally:  # what comes before an entry that cannot be read, too
        out.file.write("".join(lines))
