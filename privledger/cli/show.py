"""`privledger show`: what was spent, on what, by whom."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from privledger.accounting import promise
from privledger.cli.opening import ledger_argument, reading_state, reading_store
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import (
    RED,
    YELLOW,
    charge,
    findings_table,
    grid,
    grow,
    pairs,
    remainder,
    text,
    verdict_text,
)
from privledger.gate import NOT_TRUSTED
from privledger.numerals import many
from privledger.reports import GrantReport, LedgerReport, ledger_report
from privledger.reports.brief import brief_report, is_long
from privledger.rounding import exact

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text
    from rich.tree import Tree

MOST_LINES = 8
MOST_REFUSALS = 5



@click.command(cls=Guarded)
@ledger_argument
@click.option("--all", "whole", is_flag=True,
              help="Read and price everything again, and list every grant, however many there are.")
@format_option
def show(ledger: str, whole: bool, format_: str) -> None:
    """Totals, what is left, and the tree of what was granted and released.

    Opens the ledger read-only. Exit code 3 if the history cannot be trusted. Of a history of more
    than 100,000 entries every hash is checked, the totals are the ledger's own, and the last grants
    are listed: the first line says so.
    """
    with reading_store(ledger) as store:
        report = brief_report(store) if not whole and is_long(store) else None
    if report is None:
        with reading_state(ledger) as (store, state):
            report = ledger_report(store, state)
    emit(format_, report.as_dict(), lambda out: render_ledger(out, report))
    if not report.trusted:
        click.get_current_context().exit(NOT_TRUSTED)


def render_ledger(out: Console, report: LedgerReport) -> None:
    """The whole page."""
    out.print(verdict_text(report.verdict), soft_wrap=True)
    out.print()
    mode = text("simulation, NOT PRIVATE", RED) if report.mode != "private" else text("private")
    out.print(pairs([
        ("ledger", report.location),
        ("budget", f"epsilon {exact(report.epsilon)}, delta {exact(report.delta)}, "
                   f"{promise(report.relation)}"),
        ("spent", f"epsilon {charge(report.spent)}, delta {charge(report.spent_delta)} "
                  "(reservations included)"),
        ("left", f"a plan of epsilon {remainder(report.left)} would still be granted "
                 "(plans add up by the filter below, not epsilon by epsilon)"),
        ("filter", f"{report.filter}: {report.theorem}"),
        ("mode", mode),
        ("noise", "; ".join(report.noise)),
        *([("windows", ", ".join(report.windows[-5:]) + " (the last one is open)")]
          if report.windows else []),
        *([("policy", "its own; what it forbids is refused before anything is read")]
          if report.policy is not None else []),
        ("history", f"{many(report.entries, 'entry', 'entries')}, head "
                    f"{report.head[:16]}, {report.uuid}"),
    ]))
    if report.dead:
        out.print(text(f"dead holders: {len(report.dead)} ({', '.join(report.dead[:5])}); what "
                       "they had reserved stays spent", YELLOW))
    out.print()
    out.print(grants_tree(report))
    if report.refusals:
        out.print()
        render_refusals(out, report)
    if report.findings:
        out.print(findings_table(report.findings))


def grants_tree(report: LedgerReport, *, plans: bool = True) -> Tree:
    """Grants, the plan each reserved, and what was released under it."""
    from rich.tree import Tree

    number = len(report.grants)
    title = many(number, "grant") if number else "nothing granted yet"
    if report.unlisted:
        title = (f"the last {number} of {number + report.unlisted} grants (privledger log has all, "
                 "privledger top adds them up)")
    root = Tree(text(title, "bold"), guide_style="dim")
    for grant in report.grants:
        add_grant(root, grant, plans=plans)
    return root


def add_grant(root: Tree, grant: GrantReport, *, plans: bool) -> None:
    """One grant as a branch; `plans` shows what it reserved, too."""
    who = " ".join(part for part in (grant.learner, f"on {grant.data}" if grant.data else "")
                   if part)
    line = text(f"{grant.name}  {who}  epsilon {charge(grant.epsilon)}  ")
    if grant.learner:
        line.append_text(claim(grant))
    line.append_text(text(grant.status, RED if grant.status == "crashed" else ""))
    if grant.isolation:
        line.append_text(text(f"  {grant.isolation}", "dim"))
    branch = root.add(line)
    if grant.note:
        branch.add(text(grant.note, YELLOW))
    if plans:
        grow(branch.add(text(f"reserved: {grant.plan.label}")), grant.plan)
    if grant.lines:
        done = branch.add(text(f"released: {grant.releases}"))
        for item in grant.lines[:MOST_LINES]:
            cells = f", {many(item.cells, 'cell')}" if item.cells > 1 else ""
            done.add(text(f"{item.count} x {item.mechanism}: {item.question}{cells}",
                          YELLOW if item.asserted else ""))
        if len(grant.lines) > MOST_LINES:
            done.add(text(f"... and {len(grant.lines) - MOST_LINES} more kinds", "dim"))


def claim(grant: GrantReport) -> Text:
    """What the paper states for the plan beside what was charged; "-" where nothing is known."""
    ratio = "-" if grant.ratio is None else f"{charge(grant.ratio)} x"
    worse = grant.ratio is not None and grant.ratio > 1.0005
    claimed = "-" if grant.claimed is None else charge(grant.claimed)
    return text(f"claimed {claimed}, ratio {ratio}  ", RED if worse else "dim")


def render_refusals(out: Console, report: LedgerReport) -> None:
    """The last refusals; none of them read anything."""
    rows = [(body.get("time", ""), body.get("learner", ""), _figure(body.get("asked"), charge),
             _figure(body.get("left"), remainder), body.get("unit", ""))
            for body in report.refused[-MOST_REFUSALS:]]
    out.print(grid(("when", "who", "asked", "left", "unit"), rows,
                   title=f"{report.refusals} refused, nothing was read"))


def _figure(value: Any, shown: Callable[[float], str]) -> str:
    known = isinstance(value, int | float) and not math.isnan(value)
    return shown(float(value)) if known else "-"
