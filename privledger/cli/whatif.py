"""`privledger whatif`: would another plan fit, and what if neighbours were something else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from attrs import evolve

from privledger.accounting import RELATIONS, check_relation
from privledger.cli.explain import find_grant, node_from_text
from privledger.cli.output import (
    FILE,
    Reply,
    command,
    complete_grant,
    complete_learner,
    complete_table,
    ledger_argument,
    reading,
    without_effect,
)
from privledger.cli.plan import Prepared, filter_rows, fitting
from privledger.cli.plan_gate import Sketch, sketched
from privledger.cli.terminal import GREEN, RED, charge, grid, pairs, text
from privledger.errors import InvalidPlan
from privledger.gate import REFUSED
from privledger.graph import Node, Repeat, cost_of, from_json
from privledger.ledger import State, plain_labels
from privledger.ledger.events import Granted
from privledger.ledger.view_charges import Forecast, forecast
from privledger.reports import pricing
from privledger.rounding import exact
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


@command
@ledger_argument
@click.option("--learner", shell_complete=complete_learner,
              help="Would a fit of this learner be granted? Needs --schema and --epsilon.")
@click.option("--schema", type=FILE, help="For --learner.")
@click.option("--epsilon", type=float, help="For --learner.")
@click.option("--delta", type=float, help="Of the plan [default: the budget's].")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE",
              help="For --learner: one of its parameters, as TOML writes it.")
@click.option("--plan", "node_file", type=FILE, help="Would this node tree (JSON) be granted?")
@click.option("--again", metavar="GRANT", shell_complete=complete_grant,
              help="Would the plan of this grant be granted once more?")
@click.option("--table", shell_complete=complete_table,
              help="Table of the plan: its caps apply [default: the table of --again; else every "
                   "cap applies].")
@click.option("--label", "labels", multiple=True, metavar="NAME=TEXT",
              help="Label of the request, such as team=a: its caps apply.")
@click.option("--times", type=click.IntRange(min=1), default=1, show_default=True,
              help="Number of runs of the plan.")
@click.option("--how-many", "how_many", is_flag=True,
              help="How often the plan still fits, one request after another; exact.")
@click.option("--relation", type=click.Choice(RELATIONS),
              help="What the ledger's plans cost under another relation.")
@click.option("--rows", type=click.IntRange(min=1),
              help="The promise to a person with this many rows.")
def whatif(ledger: str, learner: str | None, schema: str | None, epsilon: float | None,
           delta: float | None, params: tuple[str, ...], node_file: str | None,
           again: str | None, table: str | None, labels: tuple[str, ...], times: int,
           how_many: bool, relation: str | None, rows: int | None) -> Reply:
    """What would fit, or change, in a ledger. Opens no data and writes nothing.

    Exit code 1 if the plan would be refused, or nothing is proved.
    """
    asked = [one for one in (learner, node_file, again) if one is not None]
    if len(asked) > 1 or (not asked and relation is None and rows is None):
        raise click.UsageError("ask one thing: --learner, --plan or --again; or --relation, --rows")
    if learner is None:
        without_effect("without --learner", "schema", "epsilon", "params")
    if not asked:
        without_effect("without --learner, --plan or --again", "delta", "table", "labels", "times")
    with reading(ledger) as opened:
        state, receipt = opened.state, opened.receipt.as_dict()
    assert state.budget is not None
    at = state.budget.delta if delta is None else delta
    others = [] if relation is None else pricing.other_prices(state, relation)
    others += [] if rows is None else [pricing.group_price(state, rows)]
    price, fits, room = None, "", None
    if how_many and not asked:
        raise click.UsageError("--how-many needs --learner, --plan or --again")
    if asked:
        request = _request(table, labels, again, at, state)
        found = None if learner is None else evolve(
            _learner(learner, schema, epsilon, at, params, state, request), state=state)
        node = _plan_of(node_file, again, state) if found is None else found.node
        node = node if times == 1 else Repeat(node, times)
        price = pricing.price_plan(node, at, budget=state.budget, state=state, data=request.data,
                           labels=request.labels, everywhere=not request.data)
        if not price.fits:
            own = fitting(found) if found is not None and times == 1 else ""
            fits = "; ".join(filter(None, (own, _advice(node, state))))
        room = _room(node, request, state) if how_many else None
    refused = (price is not None and not price.fits) or any(one.epsilon is None for one in others)
    return Reply({"ledger": shown(ledger), "fits": None if price is None else price.fits,
                  "price": price, "instead": fits, "how_many": room, "others": others,
                  "receipt": receipt},
                 lambda out: _render(out, price, fits, others, room), REFUSED if refused else 0)




def _request(table: str | None, labels: tuple[str, ...], again: str | None, delta: float,
             state: State) -> Granted:
    """For whom it is asked: a table and labels, of a grant that is asked for again or as given.
    Without a table every cap counts."""
    pairs_ = [one.partition("=") for one in labels]
    if not all(name and mark for name, mark, _ in pairs_):
        raise click.UsageError("--label takes NAME=TEXT")
    given = Granted("", "", table or "", {}, delta, 0, 0,
                    labels=dict(plain_labels({name: text_ for name, _, text_ in pairs_})))
    if again is None:
        return given
    event = find_grant(state, again).event
    return evolve(given, data=table or event.data, labels=given.labels or event.labels)


def _learner(learner: str, schema: str | None, epsilon: float | None, delta: float,
             params: tuple[str, ...], state: State, request: Granted) -> Prepared:
    found = sketched(Sketch(learner, schema, epsilon, delta, state.relation, params, "guarded",
                            request.data, tuple(request.labels.items())))
    run = evolve(found.run, budget=state.budget or found.run.budget, filter=state.filter_asked)
    return evolve(found, run=run if request.data else evolve(run, table=""))


def _plan_of(node_file: str | None, again: str | None, state: State) -> Node:
    if node_file is not None:
        return node_from_text(node_file)
    assert again is not None
    plan = find_grant(state, again).plan
    if plan is None:
        raise InvalidPlan("grant", again, "a grant that still promises something")
    return from_json(plan)


def _advice(node: Node, state: State) -> str:
    assert state.budget is not None
    rule = state.rule or pricing.rule_for(node, state.budget, state.relation, state.filter_asked)
    return pricing.what_fits(node, state.relation, rule, rule.cap_units, state).text


def _room(node: Node, request: Granted, state: State) -> Forecast:
    """By every budget that a request falls under."""
    assert state.budget is not None
    rule = state.rule or pricing.rule_for(node, state.budget, state.relation, state.filter_asked)
    cost = cost_of(node, check_relation(state.relation), rule.orders)
    return forecast(state, rule, cost, request)


def _render_room(out: Console, room: Forecast) -> None:
    if room.times is None:
        out.print(text("it costs nothing: any number would be granted", GREEN))
        return
    out.print(text(f"exactly {room.times} more would be granted, without other requests", "bold"))
    for one in room.rooms if len(room.rooms) > 1 else ():
        out.print(text(f"  by {one.name}: {'any number' if one.times is None else one.times}"))


def _render(out: Console, price: pricing.PriceFigures | None, fits: str,
            others: list[pricing.OtherPrice], room: Forecast | None) -> None:
    if price is not None:
        if price.fits:
            out.print(text(f"it would fit: epsilon {charge(price.spent)} is spent before it, "
                           f"{charge(price.total)} after it", GREEN))
        else:
            out.print(text(f"it would be refused: {price.refusal}", RED))
        out.print(pairs([
            ("alone", f"epsilon {charge(price.epsilon)} at delta {exact(price.delta)}"),
            ("proved by", price.theorem),
            ("charge", f"{charge(price.amount)} of {charge(price.cap)} {price.unit}"),
            *filter_rows(price.filter, price.fixes, price.cheaper, price.like_it),
            *([("instead", fits)] if fits else []),
        ]))
    if room is not None:
        _render_room(out, room)
    if others:
        out.print(grid(("everything paid for", "epsilon", "delta", "why"), [
            (one.what, text(charge(one.epsilon), "" if one.epsilon is not None else RED),
             exact(one.delta), one.why) for one in others]))
