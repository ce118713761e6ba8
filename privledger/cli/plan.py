"""`privledger plan`: price a run, open no data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, field, frozen

from privledger.accounting import promise
from privledger.broker import DEFAULTS, ISOLATION, Limits, RemoteLearner
from privledger.cli.output import FILE, PLACE, Reply, command, data_option, note, reading
from privledger.cli.terminal import GREEN, RED, charge, grid, pairs, text, tree
from privledger.errors import (
    InvalidPlan,
    IsolationUnavailable,
    LearnerError,
    LedgerMissing,
    PrivledgerError,
)
from privledger.graph import Node, to_json
from privledger.guard.creating import differing
from privledger.ledger import State
from privledger.ledger.checkpoint import remembered_receipt
from privledger.plugins import ClaimStep, configured, find_learner, is_shipped, load_learner
from privledger.reports import outline, plain, release_count
from privledger.reports.outline import height, screenful, too_few
from privledger.reports.pricing import PriceFigures, price_plan
from privledger.rounding import MOST_COUNT, exact, number, positive
from privledger.runs import RunFile
from privledger.storage import is_url, shown
from privledger.tables.listing import members
from privledger.tables.schema import Schema

if TYPE_CHECKING:
    from rich.console import Console


# A run file, read and priced: what `plan`, `run` and `check` begin with. No table is opened.

@frozen
class Prepared:
    """A run that was priced: no data has been opened.

    Attributes:
        model: the learner with its parameters.
        exists: whether the ledger file is there already, and will be continued.
    """

    run: RunFile
    schema: Schema
    model: Any
    node: Node
    claims: tuple[ClaimStep, ...]
    price: PriceFigures
    ledger: Path | str = field(repr=shown)
    exists: bool
    state: State | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what would run, its price and claims, and whether it fits the ledger."""
        info, few = self.model.info, too_few(self.node, self.schema)
        return ({} if few is None else {"too_few": few}) | {
            "run": str(self.run.path), "learner": self.run.learner, "summary": info.summary,
            "paper": info.paper, "params": self.run.params, "ledger": shown(self.ledger),
            "receipt": None if self.state is None else remembered_receipt(self.state).as_dict(),
            "ledger_exists": self.exists, "price": self.price, "fits": self.price.fits,
            "releases": release_count(self.node), "budget": self.run.budget,
            "claims": [claim_dict(step) for step in self.claims], "plan": to_json(self.node),
        }


def claim_dict(step: ClaimStep) -> dict[str, Any]:
    """A claim as JSON values, with its ratio."""
    return dict(plain(step), ratio=step.ratio)


def build_learner(run: RunFile, schema: Schema) -> Any:
    """An instance of the run's learner; unknown parameters are refused by name."""
    return configured(load_learner(run.learner), run.learner, run.params, schema, run.relation)


def prepare(path: str, data_dir: str | None, ledger: str | None = None,
            make: Callable[[RunFile, Schema], Any] | None = None) -> Prepared:
    """Read the run file and the schema, build the plan, price it. The table is not touched.

    Args:
        make: the learner with its parameters; `build` unless it runs elsewhere.
    """
    run = RunFile.load(path)
    if run.without_delta:
        note("[budget] gives no delta, so it is 0: the learner can use pure epsilon only, and Auto "
             "selects another learner. Set delta = 0.0 if that is intended; otherwise set a delta "
             "well below one over the number of people, such as 1e-6")
    return priced(run, Schema.load(run.data_path(run.schema, data_dir)), run.ledger_path(ledger),
                  make)


def state_at(place: Path | str) -> State | None:
    """The state of the ledger there; None if there is none. Any other failure is raised."""
    if not is_url(place) and not Path(place).exists():
        return None
    try:
        with reading(place) as opened:
            return opened.state
    except LedgerMissing:
        return None


def priced(run: RunFile, schema: Schema, place: Path | str | None,
           make: Callable[[RunFile, Schema], Any] | None = None) -> Prepared:
    """Build the plan of a run and price it, on top of what the ledger at `place` has spent."""
    run.unit_for(schema)
    schema.rows_for(run.relation)  # what no ledger of this relation protects has no price here
    model = (make or build_learner)(run, schema)
    node = run_plan(run, model, schema)
    state = None if place is None else state_at(place)
    if state is not None:
        check_same(run, state, run.unit_for(schema))
    with model.resources.pricing() if isinstance(model, RemoteLearner) else nullcontext():
        price = price_run(run, node, state)
    return Prepared(run, schema, model, node, tuple(model.claimed(schema)), price, place or "",
                    state is not None, state)


def price_run(run: RunFile, node: Node, state: State | None) -> PriceFigures:
    """What the plan of a run costs, on top of what its ledger has spent."""
    return price_plan(node, run.params["delta"], budget=run.budget, relation=run.relation,
                      filter=run.filter, state=state, data=run.data, labels=run.labels,
                      everywhere=not run.data)


def run_plan(run: RunFile, model: Any, schema: Schema) -> Node:
    """What the run reserves: the learner's plan, and a private score beside it."""
    if run.score is None:
        found: Node = model.plan(schema)
        return found
    if isinstance(model, RemoteLearner):
        raise InvalidPlan("[evaluate] epsilon", "given", "left out where the learner is isolated: "
                          "its process would see the rows that it predicts")
    return run.score.plan(model, schema, run.relation)


def fitting(prepared: Prepared, most: float = math.inf) -> str:
    """What epsilon of this learner would be granted: by its own plans, and the ledger's decision.

    Args:
        most: epsilon that may be spent in all afterwards.
    """
    asked = prepared.run.params.get("epsilon")
    if isinstance(prepared.model, RemoteLearner) or not isinstance(asked, float | int):
        return ""

    def fits(epsilon: float) -> bool:
        run = evolve(prepared.run, params=prepared.run.params | {"epsilon": epsilon})
        try:
            node = run_plan(run, build_learner(run, prepared.schema), prepared.schema)
            price = price_run(run, node, prepared.state)
        except PrivledgerError:
            return False
        return price.fits and price.total <= most

    low, high = 0, 1000  # thousandths of what was asked for
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_thousandths(asked, middle)) else (low, middle)
    if not low:
        return "no plan of this learner fits"
    return f"epsilon {exact(_thousandths(asked, low))} of this learner would fit"


def _thousandths(asked: float, part: int) -> float:
    """A part of an epsilon, to three digits, rounded down: what is printed is what was tried."""
    return float(Decimal(asked * part / 1000).normalize(Context(prec=3, rounding=ROUND_FLOOR)))


def check_same(run: RunFile, state: State, unit: str) -> None:
    """A run file continues a ledger only if it promises the same."""
    for name, asked, there in differing(state, run.budget, run.relation, unit, run.filter):
        raise InvalidPlan("[budget]" if name == "budget" else f"[ledger] {name}", str(asked),
                          f"that of the ledger it continues: {there}")


# `--isolate`: the run's learner in a confined process instead of this one.
#
# The default for learners that are not shipped with this package; `--no-isolate` says otherwise.

Make = Callable[[RunFile, Schema], Any]
GUARDED = "guarded"
HERE = "left out where the learner runs in this process: see --isolate"

isolate_option = click.option(
    "--isolate/--no-isolate", default=None,
    help="Run the learner in a confined process that never receives rows, or in this process "
         "[default: isolate unless the learner is shipped with privledger].")


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in value:
        name, sign, number = item.partition("=")
        try:
            found[name] = int(number) if number.isdecimal() else float(number)
        except ValueError:
            sign = ""
        if not sign:
            raise click.BadParameter(f"{item!r}: give NAME=NUMBER")
    return found


limit_option = click.option(
    "--limit", "limits", multiple=True, metavar="NAME=NUMBER", callback=_pairs,
    help="A limit of the isolated learner's process, over the run file's [isolation]: "
         + ", ".join(Limits().as_dict()) + ".")


def isolation(model: Any) -> str:
    """The word for how a learner is kept from the rows, as its grants record it."""
    return ISOLATION if isinstance(model, RemoteLearner) else GUARDED


def wanted(isolate: bool | None, name: str) -> bool:
    """Whether to isolate the learner called `name`; None for the default."""
    if isolate is not None:
        return isolate
    try:
        return not is_shipped(find_learner(name))
    except LearnerError:
        return False  # it is not there: loading it says so


def usual_isolation(name: str) -> str:
    """How `run` keeps a learner from the rows when it is not told."""
    return ISOLATION if wanted(None, name) else GUARDED


@contextmanager
def making(isolate: bool | None, data_dir: str | None, ledger: str | None,
           given: dict[str, Any] | None = None, patience: float | None = None,
           also: tuple[Path, ...] = ()) -> Iterator[Make | None]:
    """How to make the learner; None for the usual way. The process ends with the block.

    Args:
        isolate: None for the default. given: limits over the run file's.
        also: more that the process must not be able to read.
    """
    if isolate is False:
        _no_limits(given, patience)
        yield None
        return
    started: list[RemoteLearner] = []

    def make(run: RunFile, schema: Schema) -> Any:
        if not wanted(isolate, run.learner):
            _no_limits(given, patience)
            return built_here(run, schema, isolate)
        limits = Limits.of(run.limits.as_dict() | (given or {}))
        if patience is not None:
            limits = evolve(limits, silence_seconds=patience)
        with saying_how(isolate):
            learner = RemoteLearner.start(
                find_learner(run.learner), run.params, schema, run.relation,
                private=(*private_files(run, data_dir, ledger), *also), labels=run.labels,
                limits=limits)
        started.append(learner)
        return learner

    try:
        yield make
    finally:
        for learner in started:
            learner.close()


def built_here(run: RunFile, schema: Schema, isolate: bool | None) -> Any:
    """As `build`, of a run file whose limits, if it has any, are for a process of its own."""
    if run.limits != DEFAULTS and not wanted(isolate, run.learner):
        raise InvalidPlan("[isolation]", "given", HERE)
    return build_learner(run, schema)


def _no_limits(given: dict[str, Any] | None, patience: float | None) -> None:
    """Refuse limits of a process that is not started."""
    if given or patience is not None:
        raise InvalidPlan("--limit, --isolate-timeout", "given", HERE)


@contextmanager
def saying_how(isolate: bool | None) -> Iterator[None]:
    """Where isolation was not asked for but is the default, say what the other choice is."""
    try:
        yield
    except IsolationUnavailable as error:
        if isolate is not None:
            raise
        raise IsolationUnavailable(
            f"{error}. This learner is not shipped with privledger, so it is isolated. "
            "--no-isolate runs it in this process, with all your access rights") from None


def private_files(run: RunFile, data_dir: str | None, ledger: str | None) -> tuple[Path, ...]:
    """What the learner's process must not be able to read, wherever it lies."""
    names = [run.table]
    if run.evaluate is not None and run.evaluate.test is not None:
        names.append(run.evaluate.test)
    there = [run.data_path(name, data_dir, must_exist=False, several=True) for name in names]
    book = run.ledger_path(ledger)
    return (run.path, *([book] if isinstance(book, Path) else []), *there,
            *(file for path in there for file in members(path)))


run_argument = click.argument("run_file", metavar="RUN.toml", type=FILE)


@command
@click.argument("run_file", metavar="[RUN.toml]", required=False, type=FILE)
@data_option
@click.option("--ledger", type=PLACE, help="Ledger to price against [default: the run file's].")
@click.option("--all", "whole", is_flag=True, help="The whole plan, and a note on every claim.")
@isolate_option
@limit_option
@click.option("--for", "wanted_", metavar="STATISTIC", multiple=True,
              help="In place of a run: say which epsilon this needs, such as \"mean(pay)\". May be "
                   "repeated. Needs --within and --schema.")
@click.option("--within", type=float, metavar="WIDTH",
              help="For --for: half the width of each answer's 95 % interval, in its own unit.")
@click.option("--schema", "schema_file", type=FILE, help="For --for: public facts about the table.")
@click.option("--by", multiple=True, metavar="COLUMN", help="For --for: answer by groups.")
@click.option("--rows", type=float, help="For --for: a public number of rows [default: the "
                                         "schema's].")
@click.option("--sampling", is_flag=True, help="For --for: the interval of noise and sample.")
def plan(run_file: str | None, data_dir: str | None, ledger: str | None, isolate: bool | None,
         limits: dict[str, Any], wanted_: tuple[str, ...], within: float | None,
         schema_file: str | None, whole: bool, **asked: Any) -> Reply:
    """Price a run. Opens no data and writes nothing.

    Exit code 0 if the run fits its budget, 1 if it would be refused. With --for and --within
    there is no run: the least epsilon is printed that makes statistics this exact.
    """
    if not wanted_:
        if run_file is None or within is not None or schema_file or any(asked.values()):
            raise click.UsageError("name a run file, or --for with --within and --schema")
    elif within is None or not schema_file or run_file or data_dir or ledger or limits or (
            isolate is not None) or whole:
        raise click.UsageError("--for goes with --within and --schema, and with no run file or "
                               "option of one")
    else:
        return _sized(wanted_, positive("--within", within), Schema.load(schema_file), **asked)
    assert run_file is not None
    with making(isolate, data_dir, ledger, limits) as make:
        prepared = prepare(run_file, data_dir, ledger, make)
    instead = "" if prepared.price.fits else fitting(prepared)
    return Reply(prepared.as_dict() | {"instead": instead},
                 lambda out: render_plan(out, prepared, instead, whole=whole),
                 int(not prepared.price.fits))


def _sized(statistics: tuple[str, ...], within: float, schema: Schema, by: tuple[str, ...],
           rows: float | None, sampling: bool) -> Reply:
    """The least epsilon with which `statistics` are as exact as was asked."""
    import privledger

    offered: Any = privledger
    if not hasattr(offered, "summary"):
        raise click.UsageError("no installed package offers summaries: install privledger whole")
    found = offered.summary(*statistics, by=list(by)).forecast_within(
        within, schema, rows=None if rows is None else number("--rows", rows), sample=sampling)
    values = {"epsilon": found.price, "delta": found.delta, "within": within,
              "assumed": found.assumed, "plan": to_json(found.plan),
              "expected": [dict(zip(found.table()[0], row, strict=True))
                           for row in found.table()[1]]}
    return Reply(values, lambda out: click.echo(str(found)))


MOST_PLAN = 12
"""Lines of a plan that leave room on a screen for its price."""


def render_plan(out: Console, prepared: Prepared, instead: str = "", *,
                whole: bool = False) -> None:
    """Whether the run fits; what it is, and what it costs.

    Args:
        whole: fold nothing, and say what there is to say about every claim.
    """
    run, info = prepared.run, prepared.model.info
    # The last line: granted or not.
    price = prepared.price
    if price.refusal is None:
        out.print(text(f"The run fits: epsilon {charge(price.spent)} is spent before it, "
                       f"{charge(price.total)} after it", GREEN))
    else:
        out.print(text(price.refusal, RED))
    if instead:
        out.print(text(f"{instead[:1].upper()}{instead[1:]}."))
    few = too_few(prepared.node, prepared.schema)
    if few is not None:
        out.print(text(few, RED))
    out.print()
    render_price(out, prepared.price, release_count(prepared.node), run.unit_for(prepared.schema))
    out.print(pairs([
        ("learner", f"{run.learner}: {info.summary}"),
        ("paper", info.paper or "-"),
        ("parameters", ", ".join(f"{key}={value}" for key, value in run.params.items())),
        ("ledger", f"{shown(prepared.ledger)} ({'continued' if prepared.exists else 'new'})"),
    ]))
    out.print()
    render_composition(out, prepared.node, whole=whole)
    out.print()
    render_claims(out, prepared.claims, notes=whole)


def render_composition(out: Console, node: Node, *, whole: bool = False) -> None:
    """What the plan is made of, in a few lines."""
    line = outline(node)
    brief = line if whole else screenful(line, MOST_PLAN)
    out.print(tree(brief, text("composition", "bold")))
    if brief != line:
        out.print(text(f"  folded: --all prints all {height(line)} lines", "dim"))


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
        *filter_rows(price.filter, price.fixes, price.cheaper, price.like_it),
        ("releases", "as many as the filter admits" if releases is None else releases),
    ]))


Booked = tuple[tuple[str, float], ...]


def filter_rows(own: str, fixes: Booked, cheaper: Booked,
                like_it: int = 0) -> list[tuple[str, str]]:
    """That the first plan fixes the filter, or did, and what the plan would cost by others."""
    others = ", ".join(f"{kind} {charge(epsilon)}" for kind, epsilon in fixes or cheaper
                       if kind != own)
    if not fixes:
        return [("fixed for life", f"the first plan fixed the filter {own}; this plan by other "
                                   f"filters, in a new ledger: epsilon {others}")] if others else []
    more = f", {like_it} like it fit" * (0 < like_it < MOST_COUNT) + (
        f"; this plan by other filters: epsilon {others}" * bool(others))
    return [("fixed for life", f"the first granted plan fixes the filter {own} for every later "
                               f"plan{more}")]


def render_claims(out: Console, claims: tuple[ClaimStep, ...], *, notes: bool = False) -> None:
    """Claimed by the paper beside what is proved; nothing here is charged."""
    if not claims:
        return
    rows = []
    for step in claims:
        worse = step.ratio is not None and step.ratio > 1.0005
        ratio = "-" if step.ratio is None else f"{charge(step.ratio)} x"
        rows.append((step.step, charge(step.claimed), text(charge(step.sound),
                     RED if worse else ""), ratio, step.reference, step.note)[:6 if notes else 5])
    heads = ("step", "claimed", "sound", "ratio", "where", "note")
    out.print(grid(heads[:len(rows[0])], rows,
                   title=f"epsilon as published and as proved, at delta {exact(claims[0].delta)}"))
