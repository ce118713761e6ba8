"""`privledger top`: who spent most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from attrs import evolve

from privledger.cli.opening import ledger_argument, reading, where_option
from privledger.cli.output import Guarded, emit, format_option, note
from privledger.cli.printing import RED, YELLOW, charge, grid, text
from privledger.cli.record import CONFIDENTIAL, CONFIDENTIAL_PEOPLE
from privledger.errors import InvalidValue
from privledger.gate import NOT_TRUSTED
from privledger.ledger import audit
from privledger.ledger.view import view_of
from privledger.ledger.view_charges import aspect_of, chosen
from privledger.numerals import many
from privledger.reports.ranking import (
    ASPECTS,
    PersonRank,
    Rank,
    RecordRank,
    highest_people,
    highest_records,
    ranking,
)
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


def _aspects(context: click.Context, option: click.Parameter,
             given: tuple[str, ...]) -> tuple[str, ...]:
    for one in given:
        try:
            aspect_of("table" if one == "data" else one)
        except InvalidValue as error:
            raise click.BadParameter(str(error)) from None
    return given


@click.command(cls=Guarded)
@ledger_argument
@click.option("--by", "aspects", multiple=True, callback=_aspects, metavar="ASPECT",
              help="Only this ranking; may be repeated: learner, mechanism, data (or table), "
                   "grant, team, window, isolation, library, cap, or label:KEY "
                   "[default: the first four].")
@where_option
@click.option("--most", type=click.IntRange(min=1), default=10, show_default=True,
              help="Lines of each ranking.")
@click.option("--records", is_flag=True,
              help="Also the records that individual filters charged most. CONFIDENTIAL.")
@click.option("--people", "persons", is_flag=True,
              help="Also who spent most over all tables of a ledger of people. CONFIDENTIAL.")
@format_option
def top(ledger: str, aspects: tuple[str, ...], where: tuple[str, ...], most: int, records: bool,
        persons: bool, format_: str) -> None:
    """Who spent most: learners, mechanisms, tables, grants; asserted ones are marked.

    Exit code 3 if the history cannot be trusted: then nothing is ranked.
    """
    with reading(ledger) as opened:
        store, state = opened._history.store, opened.state
        findings = audit(store)
        receipt, simulated = opened.receipt.as_dict(), opened.mode != "private"
        wanted = () if findings else (aspects or ASPECTS)
        view = view_of(state, store.read() if wanted else ())
        if where:
            view = evolve(view, charges=tuple(filter(chosen(where), view.charges)), parts={})
        found = {aspect: ranking(view, aspect)[:most] for aspect in wanted}
        if persons and state.unit != "person":
            raise click.UsageError("--people: the promise of this ledger is about rows")
        if records and state.unit != "row":
            raise click.UsageError("--records: the promise of this ledger is about people; "
                                   "ask with --people")
        rows = highest_records(store, state, most) if records and not findings else []
        people = highest_people(store, state, most) if persons and not findings else []
        unit = state.rule.unit if state.rule else ""
    if records or persons:
        note(CONFIDENTIAL if records else CONFIDENTIAL_PEOPLE)
    emit(format_, {"ledger": shown(ledger), "trusted": not findings, "private": not simulated,
                   "findings": findings, "top": found, "unit": unit,
                   "records": rows if records else None,
                   "people": people if persons else None, "receipt": receipt},
         lambda out: _render(out, found, [*rows, *people], unit, len(findings), simulated))
    if findings:
        click.get_current_context().exit(NOT_TRUSTED)


def _render(out: Console, found: dict[str, list[Rank]],
            rows: Sequence[RecordRank | PersonRank], unit: str, findings: int,
            simulated: bool) -> None:
    if findings:
        out.print(text(f"NOT TRUSTED: {many(findings, 'finding')}; verify lists them", RED))
        return
    if simulated:
        out.print(text("NOT PRIVATE: simulation", RED))
    for aspect, ranks in found.items():
        out.print(grid((aspect, "epsilon", "of the budget", "grants", ""), [
            (rank.name, rank.epsilon.text(4), rank.share.text(), rank.grants,
             text("ASSERTED" if rank.asserted else "", YELLOW)) for rank in ranks]))
        out.print()
    records = [one for one in rows if isinstance(one, RecordRank)]
    if records:
        out.print(grid(("record", "of", f"spent ({unit})", "of its cap"), [
            (one.row, one.data, charge(one.spent), charge(one.cap)) for one in records],
            title="CONFIDENTIAL: records charged most by individual filters"))
    people = [one for one in rows if isinstance(one, PersonRank)]
    if people:
        out.print(grid(("place", f"spent ({unit})", "of at most"), [
            (one.place, charge(one.spent), charge(one.cap)) for one in people],
            title="CONFIDENTIAL: people who spent most, by their place in the ledger"))
