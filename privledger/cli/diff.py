"""`privledger diff`: what changed between two ledgers, a ledger and a receipt, or two plans."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from privledger.accounting import check_relation, promise
from privledger.cli.opening import LedgerPlace, data_option, reading, reading_store
from privledger.cli.output import Guarded, emit, format_option, without_effect
from privledger.cli.overlap import copies
from privledger.cli.printing import GREEN, RED, charge, findings_table, grid, remainder, text
from privledger.errors import UnsupportedNode
from privledger.findings import Finding
from privledger.gate import NOT_TRUSTED
from privledger.graph import Node, certify, from_json
from privledger.ledger import State
from privledger.ledger.history import fold_rows
from privledger.ledger.view_figures import Figure
from privledger.reading import load_json
from privledger.reports import load_receipt, receipt_is_in_history
from privledger.reports.changes import (
    Change,
    Changes,
    briefly,
    ledger_changes,
    plan_changes,
)
from privledger.rounding import exact
from privledger.storage import is_url, shown

if TYPE_CHECKING:
    from rich.console import Console


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
        from privledger.cli.prepared import prepare

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
        return stated | {"epsilon": f"not proved: {error}"}


@click.command(cls=Guarded)
@click.argument("before", metavar="A", type=LedgerPlace())
@click.argument("after", metavar="B", type=LedgerPlace())
@click.option("--delta", type=float, help="For plans [default: the run's; 1e-06 for NODE.json].")
@click.option("--all", "whole", is_flag=True, help="Fold nothing that looks alike.")
@data_option
@format_option
def diff(before: str, after: str, delta: float | None, whole: bool, data_dir: str | None,
         format_: str) -> None:
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
        raise click.UsageError("a plan can be compared with a plan only")
    elif all(side.receipt is not None for side in sides):
        raise click.UsageError("a receipt has no grants: one of the two must be a ledger")
    else:
        found, findings = _ledgers(sides)
    receipts = {side.name: _receipt(side.ledger) for side in sides if side.ledger is not None}
    emit(format_, {"before": sides[0].name, "after": sides[1].name, "changes": found,
                   "findings": findings, "receipts": receipts},
         lambda out: _render(out, sides, found if whole or found is None else briefly(found),
                             findings))
    if findings:
        click.get_current_context().exit(NOT_TRUSTED)


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


def _render(out: Console, sides: list[Side], found: Changes | None,
            findings: list[Finding]) -> None:
    if found is None:
        out.print(text("NOT TRUSTED: the receipt is not in this history", RED))
        out.print(findings_table(findings))
        return
    for finding in findings:
        out.print(text(f"NOT TRUSTED: {finding.message}", RED), soft_wrap=True)
    if found.empty:
        out.print(text("nothing is different", GREEN))
        return
    if found.same_ledger is False:
        out.print(text("two different ledgers: what they promise adds up", RED))
    for title, changes in (("facts", found.facts), ("grants", found.grants),
                           ("what spends, and how often", found.nodes)):
        if changes:
            out.print(grid(("", "before", "after"), [_cells(change) for change in changes],
                           title=title))
            out.print()


def _cells(change: Change) -> tuple[str, str, str]:
    shown = _SHOWN.get(change.what, charge)
    return change.what, _cell(change.before, shown), _cell(change.after, shown)


# What somebody chose is shown as it was chosen, what is left is rounded down, the rest are charges.
_SHOWN: dict[str, Callable[[float], str]] = {
    "left": remainder, "budget epsilon": exact, "budget delta": exact, "delta": exact}


def _cell(value: Any, shown: Callable[[float], str]) -> str:
    if isinstance(value, Figure):
        return value.text(4)
    return "-" if value is None else shown(value) if isinstance(value, float) else str(value)
