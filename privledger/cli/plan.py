"""`privledger plan`: price a run, open no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from privledger.accounting import promise
from privledger.cli.confined import isolate_option, limit_option, making
from privledger.cli.opening import data_option
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.prepared import Prepared, fitting, prepare
from privledger.cli.printing import GREEN, RED, SCREEN, charge, grid, height, pairs, text, tree
from privledger.plugins import ClaimStep
from privledger.reports import PriceFigures, outline, release_count
from privledger.reports.gist import reserved_line
from privledger.reports.too_few import too_few
from privledger.rounding import exact
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console

run_argument = click.argument("run_file", metavar="RUN.toml",
                              type=click.Path(exists=True, dir_okay=False))


@click.command(cls=Guarded)
@run_argument
@data_option
@click.option("--ledger", type=click.Path(dir_okay=False),
              help="Ledger to price against [default: the run file's].")
@isolate_option
@limit_option
@format_option
def plan(run_file: str, data_dir: str | None, ledger: str | None, isolate: bool | None,
         limits: dict[str, Any], format_: str) -> None:
    """Price a run. Opens no data and writes nothing.

    Exit code 0 if the run fits its budget, 1 if it would be refused.
    """
    with making(isolate, data_dir, ledger, limits) as make:
        prepared = prepare(run_file, data_dir, ledger, make)
    instead = "" if prepared.price.fits else fitting(prepared)
    emit(format_, prepared.as_dict() | {"instead": instead},
         lambda out: render_plan(out, prepared, instead))
    if not prepared.price.fits:
        click.get_current_context().exit(1)


def render_plan(out: Console, prepared: Prepared, instead: str = "") -> None:
    """The whole page."""
    run, info = prepared.run, prepared.model.info
    out.print(pairs([
        ("learner", f"{run.learner}: {info.summary}"),
        ("paper", info.paper or "-"),
        ("parameters", ", ".join(f"{key}={value}" for key, value in run.params.items())),
        ("ledger", f"{shown(prepared.ledger)} ({'continued' if prepared.exists else 'new'})"),
    ]))
    out.print()
    whole = outline(prepared.node)
    if height(whole) > SCREEN:
        out.print(text(f"composition: {reserved_line(whole)}", "bold"))
        out.print(text(f"  (--format json has all {height(whole)} lines of it)"))
    else:
        out.print(tree(whole, text("composition", "bold")))
    out.print()
    render_price(out, prepared.price, release_count(prepared.node), run.unit_for(prepared.schema))
    render_claims(out, prepared.claims)
    few = too_few(prepared.node, prepared.schema)
    if few is not None:
        out.print(text(few, RED))
    render_fit(out, prepared.price)
    if instead:
        out.print(text(f"{instead[:1].upper()}{instead[1:]}."))


def render_price(
    out: Console, price: PriceFigures, releases: int | None, unit: str = "row"
) -> None:
    """What it costs, about whom, and by which theorem."""
    order = "" if price.order is None else f", order {price.order:g}"
    out.print(pairs([
        ("price", text(f"epsilon {charge(price.epsilon)} at delta {exact(price.delta)}, "
                       f"{promise(price.relation, unit)}", "bold")),
        ("proved by", f"{price.theorem} [{price.accountant}{order}]"),
        ("ledger filter", f"{price.filter}: {price.filter_theorem}"),
        ("charge", f"{charge(price.amount)} of {charge(price.cap)} {price.unit}; the ledger "
                   f"books epsilon {charge(price.charged)}"),
        *filter_rows(price.filter, price.fixes, price.cheaper),
        ("releases", "as many as the filter admits" if releases is None else releases),
    ]))


Booked = tuple[tuple[str, float], ...]


def filter_rows(own: str, fixes: Booked, cheaper: Booked) -> list[tuple[str, str]]:
    """That the first plan fixes the filter, or did, and what the plan would cost by others."""
    others = ", ".join(f"{kind} {charge(epsilon)}" for kind, epsilon in fixes or cheaper
                       if kind != own)
    if not fixes:
        return [("fixed for life", f"the first plan fixed the filter: {own}; this plan by "
                                   f"others: epsilon {others}, in a new ledger")] if others else []
    return [("fixed for life", f"the first plan that is granted fixes the filter: {own}, "
             "for every later plan" + (f"; this plan by others: epsilon {others}"
                                       if others else ""))]


def render_claims(out: Console, claims: tuple[ClaimStep, ...]) -> None:
    """Claimed by the paper beside what is proved; nothing here is charged."""
    if not claims:
        return
    rows = []
    for step in claims:
        worse = step.ratio is not None and step.ratio > 1.0005
        ratio = "-" if step.ratio is None else f"{charge(step.ratio)} x"
        rows.append((step.step, charge(step.claimed), text(charge(step.sound),
                     RED if worse else ""), ratio, step.reference, step.note))
    out.print(grid(("step", "claimed", "sound", "ratio", "where", "note"), rows,
                   title=f"epsilon as published and as proved, at delta {exact(claims[0].delta)}"))


def render_fit(out: Console, price: PriceFigures) -> None:
    """The last line: granted or not."""
    if price.refusal is None:
        out.print(text(f"fits: epsilon {charge(price.spent)} is spent before it, "
                       f"{charge(price.total)} after it", GREEN))
    else:
        out.print(text(price.refusal, RED))
