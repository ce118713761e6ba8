"""`privledger record`: what one record spent, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from privledger.cli.output import (
    Reply,
    Witness,
    asks_json,
    command,
    complete_table,
    ledger_argument,
    note,
    people_key_option,
    reading,
    where_option,
    without_effect,
)
from privledger.cli.terminal import RED, YELLOW, charge, grid, text
from privledger.errors import InvalidValue
from privledger.gate import NOT_TRUSTED
from privledger.ledger.view_charges import aspect_of, chosen
from privledger.numerals import many
from privledger.reports import plain
from privledger.reports.risk import ledger_risk, letter_to
from privledger.reports.spend import (
    ASPECTS,
    PersonRank,
    Rank,
    RecordRank,
    highest_people,
    highest_records,
    ranking,
)
from privledger.reports.survey import read_once
from privledger.rounding import exact, upward_percent
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from privledger.guard import RecordSpend
    from privledger.ledger.view_people import PersonSpend
    from privledger.ledger.view_records import SpendLine


CONFIDENTIAL_PERSON = ("confidential, for this person and for auditors: what a person spent "
                       "depends on private data")
CONFIDENTIAL_PEOPLE = "confidential, for auditors: what a person spent depends on private data"
CONFIDENTIAL = "confidential, for auditors: a record's spend depends on private data"
UNKNOWN = ("this ledger never counted the table's records, so it cannot tell whether such a record "
           "exists. Every record that exists was charged this")


@command
@ledger_argument
@click.argument("row", metavar="[ROW]", type=click.IntRange(min=0), required=False)
@click.option("--data", shell_complete=complete_table,
              help="Which data set, if the ledger knows several.")
@click.option("--person", help="The id of a person, over all tables of a ledger of people.")
@people_key_option
@click.option("--letter", is_flag=True, help="A statement in plain words, for that person.")
def record(ledger: str, row: int | None, data: str | None, person: str | None,
           people_key: str | None, letter: bool) -> Reply | None:
    """What one record spent, and on what; or one person, over all tables.

    ROW is its position in the protected table, from 0. A person is asked for by --person, with
    the key file of the ledger's people. Confidential: it depends on private data.
    """
    if (row is None) == (person is None):
        raise click.UsageError("give the position of a row, or --person")
    if letter and (person is None or asks_json()):
        raise click.UsageError("--letter goes with --person, and is text")
    if person is not None:
        without_effect("with --person, which is over all tables", "data")
        return _person(ledger, person, people_key, letter)
    assert row is not None
    without_effect("without --person", "people_key")
    with reading(ledger) as opened:
        spend, receipt = opened.record(row, data), opened.receipt.as_dict()
        rule = opened._history.refresh().rule
        unit, of_people = rule.unit if rule else "", opened.unit == "person"
        delta, simulated = opened.budget.delta, opened.mode != "private"
    notice = CONFIDENTIAL_PEOPLE if of_people else CONFIDENTIAL
    value = spend_dict(spend, unit, delta, simulated,
                       notice if spend.known else f"{notice}; {UNKNOWN}")
    return Reply(value | {"row": spend.row, "data": spend.data, "known": spend.known,
                          "receipt": receipt},
                 lambda out: render_record(out, spend, unit, simulated, of_people, delta))


def _person(ledger: str, person: str, people_key: str | None, letter: bool) -> Reply | None:
    if people_key is None:
        raise click.UsageError("--person needs --people-key: people are found by their key only")
    with reading(ledger, people_key) as opened:
        spend = opened.record(person=person)
        receipt, budget = opened.receipt.as_dict(), opened.budget
        simulated = opened.mode != "private"
        found = ledger_risk(Witness().report(opened._history.store).view)
    if letter:
        click.echo(letter_to(spend, budget, found))
        return None

    def render(out: Console) -> None:
        out.print(text(f"this person: epsilon {charge(spend.epsilon)} of the ledger's "
                       f"{charge(spend.bound)} so far, at delta {exact(budget.delta)}", "bold"))
        out.print(text(CONFIDENTIAL_PERSON, YELLOW))
        told = text(f"in {many(len(spend.tables), 'table')}: {', '.join(spend.tables)}; "
                    f"{charge(spend.total)} {spend.unit} in all")
        _render_lines(out, spend.lines, simulated, told)

    value = spend_dict(spend, spend.unit, budget.delta, simulated, CONFIDENTIAL_PERSON)
    return Reply(value | {"tables": list(spend.tables), "risk": found.as_dict(),
                          "receipt": receipt}, render)


def spend_dict(spend: RecordSpend | PersonSpend, unit: str, delta: float, simulated: bool,
               notice: str) -> dict[str, Any]:
    """A record's or a person's spend as JSON values; no id is among them."""
    return {"unit": unit, "total": spend.total, "epsilon": spend.epsilon, "bound": spend.bound,
            "delta": delta, "private": not simulated, "notice": notice,
            "lines": [plain(line) | {"share": line.share} for line in spend.lines]}


def render_record(out: Console, spend: RecordSpend, unit: str, simulated: bool,
                  of_people: bool = False, delta: float = 0.0) -> None:
    """What it adds up to, and where it came from; in a ledger of people `spend.row` is a person's
    place."""
    who = "person number" if of_people else "record"
    total = f"{charge(spend.total)} {unit} spent" if spend.lines else "nothing spent"
    out.print(text(f"{who} {spend.row} of {spend.data}: {total}", "bold"))
    out.print(text(f"epsilon {charge(spend.epsilon)} of the ledger's {charge(spend.bound)} so far, "
                   f"at delta {exact(delta)}"))
    out.print(text(CONFIDENTIAL_PEOPLE if of_people else CONFIDENTIAL, YELLOW))
    if not spend.known:
        out.print(text(UNKNOWN, YELLOW))
    _render_lines(out, spend.lines, simulated)


def _render_lines(out: Console, lines: Sequence[SpendLine], simulated: bool, *told: Text) -> None:
    """One paragraph per grant, in order of the history."""
    from rich.text import Text

    said = [text("NOT PRIVATE: simulation", RED)] if simulated else []
    said += told
    for one in lines:
        rounds = "all rounds" if one.rounds is None else many(one.rounds, "round")
        said += [text(f"{one.time or 'undated'}  {one.learner or 'no learner named'} on "
                      f"{one.data} ({one.grant})"),
                 text(f"    {charge(one.amount)} of {charge(one.cap)} "
                      f"({upward_percent(one.share)}), {rounds}, {one.basis}"),
                 *([text(f"    {one.origin}")] if one.origin else []),
                 text(f"    {one.node}", "dim")]
    if said:  # together: to print each takes longer than all the rest
        out.print(Text("\n").join(said))


# `privledger top`: who spent most.

def _aspects(context: click.Context, option: click.Parameter,
             given: tuple[str, ...]) -> tuple[str, ...]:
    for one in given:
        try:
            aspect_of("table" if one == "data" else one)
        except InvalidValue as error:
            raise click.BadParameter(str(error)) from None
    return given


@command
@ledger_argument
@click.option("--by", "aspects", multiple=True, callback=_aspects, metavar="ASPECT",
              help="Show only this ranking; may be repeated: learner, mechanism, data (or table), "
                   "grant, team, window, isolation, library, cap, or label:KEY "
                   "[default: the first four].")
@where_option
@click.option("--most", type=click.IntRange(min=1), default=10, show_default=True,
              help="Number of lines in each ranking.")
@click.option("--records", is_flag=True,
              help="Also the records that individual filters charged most. CONFIDENTIAL.")
@click.option("--people", "persons", is_flag=True,
              help="Also who spent most over all tables of a ledger of people. CONFIDENTIAL.")
def top(ledger: str, aspects: tuple[str, ...], where: tuple[str, ...], most: int, records: bool,
        persons: bool) -> Reply:
    """Who spent most: learners, mechanisms, tables, grants; asserted ones are marked.

    Exit code 3 if the history cannot be trusted: then nothing is ranked.
    """
    with reading(ledger) as opened:
        store, seen = opened._history.store, read_once(opened._history.store)
        findings, view = seen.findings, seen.view
        receipt, simulated = opened.receipt.as_dict(), opened.mode != "private"
        if view is not None and where:
            view = evolve(view, charges=tuple(filter(chosen(where), view.charges)), parts={})
        found = {} if findings or view is None else {
            aspect: ranking(view, aspect, most) for aspect in aspects or ASPECTS}
        if persons and opened.unit != "person":
            raise click.UsageError("--people: this ledger protects rows")
        if records and opened.unit != "row":
            raise click.UsageError("--records: this ledger protects people. Use --people")
        rows = highest_records(store, opened.state, most) if records and not findings else []
        people = highest_people(store, opened.state, most) if persons and not findings else []
        rule = opened._history.refresh().rule
        unit = rule.unit if rule else ""
    if records or persons:
        note(CONFIDENTIAL if records else CONFIDENTIAL_PEOPLE)
    return Reply({"ledger": shown(ledger), "trusted": not findings, "private": not simulated,
                  "findings": findings, "top": found, "unit": unit,
                  "records": rows if records else None, "people": people if persons else None,
                  "receipt": receipt},
                 lambda out: _render(out, found, [*rows, *people], unit, len(findings), simulated),
                 NOT_TRUSTED if findings else 0)


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
            title="CONFIDENTIAL: people who spent most, by their number in the ledger"))
