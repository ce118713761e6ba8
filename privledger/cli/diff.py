"""`privledger diff`: what changed between two ledgers, a ledger and a receipt, or two plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from itertools import combinations
from typing import TYPE_CHECKING, Any

import click
from attrs import asdict, evolve, frozen

from privledger.accounting import check_relation, promise
from privledger.cli.output import (
    LedgerPlace,
    Reply,
    command,
    data_option,
    note,
    reading,
    reading_store,
    without_effect,
)
from privledger.cli.terminal import GREEN, RED, charge, findings_table, flow, grid, remainder, text
from privledger.errors import UnsupportedNode
from privledger.findings import Finding
from privledger.gate import NOT_TRUSTED, REFUSED
from privledger.graph import Node, certify, from_json
from privledger.ledger import State
from privledger.ledger.history import fold_rows
from privledger.ledger.view_figures import Figure
from privledger.numerals import many
from privledger.reading import load_json
from privledger.reports import load_receipt, receipt_is_in_history
from privledger.reports.changes import (
    Change,
    Changes,
    ForkedCopies,
    Overlap,
    Shared,
    briefly,
    divergence,
    ledger_changes,
    overlaps,
    plan_changes,
    shared_people,
)
from privledger.rounding import add_up, exact
from privledger.storage import is_url, shown

if TYPE_CHECKING:
    from rich.console import Console


# `privledger overlap`: was one table opened under several ledgers, or one ledger forked.

CONFIDENTIAL_PEOPLE = "confidential, for auditors: the number of people in both ledgers is private"


@command
@click.argument("ledgers", metavar="LEDGER...", nargs=-1, required=True)
def overlap(ledgers: tuple[str, ...]) -> Reply:
    """Find one ledger with two histories, and tables that several of these ledgers protected.

    Copies of one ledger that went different ways are a fork: its budget was spent twice. Each
    ledger keeps its own promise; for the records of a table that several know by one
    fingerprint, and for people whom several know by one key, they add up. Exit
    code 3 for a fork, 1 for an older copy or for what is shared.
    """
    states, receipts = {}, {}
    for place in ledgers:
        with reading(place) as opened:
            states[place] = opened.state
            receipts[shown(place)] = opened.receipt.as_dict()
    apart, people = copies(states), same_people(states)
    found = overlaps({shown(place): state for place, state in states.items()})
    if people:
        note(CONFIDENTIAL_PEOPLE)
    return Reply({"ledgers": [shown(place) for place in ledgers],
                  "copies": [{**asdict(one), "text": one.text} for one in apart],
                  "overlaps": found, "people": people, "receipts": receipts},
                 lambda out: _render_overlap(out, apart, found, people),
                 NOT_TRUSTED if any(one.fork for one in apart) else
                 REFUSED if apart or found or people else 0)


def copies(states: Mapping[str, State]) -> list[ForkedCopies]:
    """Places of one ledger that do not hold the same history; forks first."""
    found = []
    for (one, state), (other, more) in combinations(states.items(), 2):
        if state.uuid != more.uuid:
            continue
        with reading_store(one) as first, reading_store(other) as second:
            apart = divergence(first.rows(), second.rows())
        if apart is not None:
            position, entries, others, fork = apart
            epsilons, deltas = zip(_spent(state), _spent(more), strict=True)
            found.append(ForkedCopies(state.uuid, shown(one), shown(other), position,
                                (entries, others), add_up(epsilons), add_up(deltas), fork))
    return sorted(found, key=lambda one: not one.fork)


def same_people(states: Mapping[str, State]) -> list[Shared]:
    """Pairs of ledgers of people that know some of them by one key."""
    with ExitStack() as stack:
        stores = {place: stack.enter_context(reading_store(place))
                  for place, state in states.items() if state.unit == "person"}
        found = shared_people(states, stores)
    return [evolve(one, first=evolve(one.first, ledger=shown(one.first.ledger)),
                   second=evolve(one.second, ledger=shown(one.second.ledger))) for one in found]


def _spent(state: State) -> tuple[float, float]:
    return (state.rule.epsilon_of(state.units) if state.rule else 0.0,
            state.budget.delta if state.budget and state.units else 0.0)


def _render_overlap(out: Console, apart: list[ForkedCopies], found: list[Overlap],
            people: list[Shared]) -> None:
    for one in apart:
        flow(out, text(one.text, f"bold {RED}" if one.fork else RED))
        if one.fork:
            out.print(text(f"both together: at most epsilon {charge(one.epsilon)} "
                           f"at delta {exact(one.delta)}", RED))
    for pair in people:
        out.print(text(f"{many(pair.people, 'person', 'people')} in both "
                       f"{pair.first.ledger} and {pair.second.ledger}: epsilon "
                       f"{charge(pair.epsilon)} at delta {charge(pair.delta)} together",
                       RED))
    if not found:
        out.print(text("no table with a fingerprint is in two of these ledgers",
                       "" if apart or people else GREEN))
        return
    for shared in found:
        out.print(text(f"one table under {many(len(shared.uses), 'ledger')}: epsilon "
                       f"{charge(shared.epsilon)} at delta {charge(shared.delta)} together", RED))
        out.print(grid(("ledger", "as", "epsilon", "delta"), [
            (use.ledger, use.data, charge(use.epsilon), charge(use.delta))
            for use in shared.uses]))


@frozen
class Side:
    """One of the two: a ledger's place, a receipt, or a plan with its price."""

    name: str
    ledger: str | None = None
    receipt: dict[str, Any] | None = None
    plan: Node | None = None
    facts: dict[str, Any] | None = None


def read_side(path: str, data_dir: str | None, delta: float | None) -> Side:
    """By name: RUN.toml, a JSON file (a receipt or a node tree), else a ledger."""
    if is_url(path) or not path.endswith((".toml", ".json")):
        return Side(shown(path), ledger=path)
    if path.endswith(".toml"):
        from privledger.cli.plan import prepare

        prepared = prepare(path, data_dir)
        run = prepared.run
        facts = {"learner": run.learner, **{f"parameter {name}": value
                                            for name, value in run.params.items()},
                 "budget epsilon": run.budget.epsilon, "budget delta": run.budget.delta}
        return Side(path, plan=prepared.node, facts=facts | _price(
            prepared.node, run.params["delta"] if delta is None else delta, run.relation))
    value = load_json(path, "receipt or node tree")
    if isinstance(value, dict) and isinstance(value.get("node"), str):
        node = from_json(value)
        return Side(path, plan=node, facts=_price(node, 1e-6 if delta is None else delta,
                                                  "add_remove"))
    return Side(path, receipt=load_receipt(path))


def _price(node: Node, delta: float, relation: str) -> dict[str, Any]:
    stated = {"relation": promise(relation), "delta": delta}
    try:
        return stated | {"epsilon": certify(node, delta, check_relation(relation)).epsilon}
    except UnsupportedNode as error:
        return stated | {"epsilon": f"no proof: {error}"}


@command
@click.argument("before", metavar="A", type=LedgerPlace())
@click.argument("after", metavar="B", type=LedgerPlace())
@click.option("--delta", type=float, help="For plans [default: the run's; 1e-06 for NODE.json].")
@click.option("--all", "whole", is_flag=True, help="Show every line, even where several are alike.")
@data_option
def diff(before: str, after: str, delta: float | None, whole: bool, data_dir: str | None) -> Reply:
    """What is different in B: two ledgers, a ledger and a receipt, or two plans.

    A receipt stands for the ledger as it was when the receipt was made: the other side must
    be that ledger. Exit code 3 if it is not in its history, or if the two are
    one ledger with two histories. Nothing else is verified.
    """
    if not any(path.endswith(".toml") for path in (before, after)):
        without_effect("unless one of the two is a run file", "data_dir")
    sides = [read_side(path, data_dir, delta) for path in (before, after)]
    if all(side.plan is None for side in sides):
        without_effect("unless the two are plans", "delta")
    findings: list[Finding] = []
    found: Changes | None
    if all(side.plan is not None for side in sides):
        found = _plans(sides)
    elif any(side.plan is not None for side in sides):
        raise click.UsageError("a plan can be compared with another plan only")
    elif all(side.receipt is not None for side in sides):
        raise click.UsageError("a receipt has no grants: one of the two must be a ledger")
    else:
        found, findings = _ledgers(sides)
    receipts = {side.name: _receipt(side.ledger) for side in sides if side.ledger is not None}
    short = found if whole or found is None else briefly(found)
    return Reply({"before": sides[0].name, "after": sides[1].name, "changes": found,
                  "findings": findings, "receipts": receipts},
                 lambda out: _render(out, short, findings), NOT_TRUSTED if findings else 0)


def _receipt(place: str) -> dict[str, Any]:
    with reading(place) as opened:
        return opened.receipt.as_dict()


def _plans(sides: list[Side]) -> Changes:
    first, second = sides
    assert first.plan is not None
    assert second.plan is not None
    return plan_changes(first.plan, second.plan, [first.facts or {}, second.facts or {}])


def _ledgers(sides: list[Side]) -> tuple[Changes | None, list[Finding]]:
    """Two states; a receipt is the other side's ledger, as far as it had come then."""
    states: list[State] = []
    for side, other in (sides, sides[::-1]):
        place = side.ledger or other.ledger
        assert place is not None
        with reading(place) as opened:  # says what is wrong with it
            state = opened.state
        if side.receipt is not None:
            with reading_store(place) as store:
                findings = list(receipt_is_in_history(store.read(), side.receipt))
                most = side.receipt["entries"]
                past = None if findings else fold_rows(
                    (row for row in store.rows() if row[0] < most), compact=False)
            if past is None:
                return None, findings
            state = past
        states.append(state)
    return ledger_changes(states[0], states[1]), _fork(sides, states)


def _fork(sides: list[Side], states: list[State]) -> list[Finding]:
    """Whether two copies of one ledger went different ways."""
    places = [side.ledger for side in sides if side.ledger is not None]
    if len(places) < 2 or states[0].uuid != states[1].uuid:
        return []
    return [one.finding() for one in copies(dict(zip(places, states, strict=True))) if one.fork]


def _render(out: Console, found: Changes | None, findings: list[Finding]) -> None:
    if found is None:
        out.print(text("NOT TRUSTED: the receipt is not in this history", RED))
        out.print(findings_table(findings))
        return
    for finding in findings:
        flow(out, text(f"NOT TRUSTED: {finding.message}", RED))
    if found.empty:
        out.print(text("nothing is different", GREEN))
        return
    if found.same_ledger is False:
        out.print(text("two different ledgers: their promises add up", RED))
    for title, changes in (("facts", found.facts), ("grants", found.grants),
                           ("what spends, and how often", found.nodes)):
        if changes:
            out.print(grid(("", "before", "after"), [_cells(change) for change in changes],
                           title=title))
            out.print()


def _cells(change: Change) -> tuple[str, str, str]:
    shown = _SHOWN.get(change.what, charge)
    return change.what, _cell(change.before, shown), _cell(change.after, shown)


# What an author chose is shown as chosen, what is left is rounded down, the rest are charges.
_SHOWN: dict[str, Callable[[float], str]] = {
    "left": remainder, "budget epsilon": exact, "budget delta": exact, "delta": exact}


def _cell(value: Any, shown: Callable[[float], str]) -> str:
    if isinstance(value, Figure):
        return value.text(4)
    return "-" if value is None else shown(value) if isinstance(value, float) else str(value)
