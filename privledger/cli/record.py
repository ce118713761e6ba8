"""`privledger record`: what one record spent, and on what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from privledger.cli.opening import ledger_argument, people_key_option, reading
from privledger.cli.output import Guarded, emit, format_option, without_effect
from privledger.cli.printing import RED, YELLOW, charge, text
from privledger.ledger.view import view_of
from privledger.numerals import many
from privledger.reports.letter import letter_to
from privledger.reports.risk import ledger_risk
from privledger.rounding import exact, upward_percent

if TYPE_CHECKING:
    from rich.console import Console

    from privledger.guard import RecordSpend
    from privledger.ledger.view_people import PersonSpend
    from privledger.ledger.view_records import SpendLine

CONFIDENTIAL_PERSON = ("confidential, for this person and for auditors: what somebody spent "
                       "depends on private data")
CONFIDENTIAL_PEOPLE = "confidential, for auditors: what a person spent depends on private data"
CONFIDENTIAL = "confidential, for auditors: a record's spend depends on private data"
UNKNOWN = ("this ledger never counted the table's records: it cannot tell whether there is such a "
           "record; every one that is there was charged this")


@click.command(cls=Guarded)
@ledger_argument
@click.argument("row", metavar="[ROW]", type=click.IntRange(min=0), required=False)
@click.option("--data", help="Which data set, if the ledger knows several.")
@click.option("--person", help="The id of a person, over all tables of a ledger of people.")
@people_key_option
@click.option("--letter", is_flag=True, help="In plain words, for that person.")
@format_option
def record(ledger: str, row: int | None, data: str | None, person: str | None,
           people_key: str | None, letter: bool, format_: str) -> None:
    """What one record spent, and on what; or one person, over all tables.

    ROW is its position in the protected table, from 0. A person is asked for by --person, with
    the key file of the ledger's people. Confidential: it depends on private data.
    """
    if (row is None) == (person is None):
        raise click.UsageError("give the position of a row, or --person")
    if letter and (person is None or format_ == "json"):
        raise click.UsageError("--letter goes with --person, and is text")
    if person is not None:
        without_effect("with --person, which is over all tables", "data")
        return _person(ledger, person, people_key, format_, letter)
    assert row is not None
    without_effect("without --person", "people_key")
    with reading(ledger) as opened:
        spend = opened.record(row, data)
        receipt = opened.receipt.as_dict()
        rule = opened.state.rule
        unit, of_people = rule.unit if rule else "", opened.unit == "person"
        delta, simulated = opened.budget.delta, opened.mode != "private"
    emit(format_, record_dict(spend, unit, simulated, of_people, delta) | {"receipt": receipt},
         lambda out: render_record(out, spend, unit, simulated, of_people, delta))


def _person(ledger: str, person: str, people_key: str | None, format_: str,
            letter: bool) -> None:
    if people_key is None:
        raise click.UsageError("--person needs --people-key: without the key nobody is known")
    with reading(ledger, people_key) as opened:
        spend = opened.record(person=person)
        receipt, delta = opened.receipt.as_dict(), opened.budget.delta
        budget, simulated = opened.budget, opened.mode != "private"
        found = ledger_risk(view_of(opened._history.full(), opened._history.store.read()))
    if letter:
        return click.echo(letter_to(spend, budget, found))
    emit(format_, person_dict(spend, delta, simulated) | {
            "risk": found.as_dict(), "receipt": receipt},
         lambda out: render_person(out, spend, delta, simulated))


def person_dict(spend: PersonSpend, delta: float, simulated: bool) -> dict[str, object]:
    """A person's spend as JSON values; the id is not among them."""
    return {
        "unit": spend.unit, "total": spend.total, "epsilon": spend.epsilon,
        "bound": spend.bound, "delta": delta, "tables": list(spend.tables),
        "private": not simulated, "notice": CONFIDENTIAL_PERSON,
        "lines": [_line(line) for line in spend.lines],
    }


def render_person(out: Console, spend: PersonSpend, delta: float, simulated: bool) -> None:
    """What it adds up to, and where it came from."""
    out.print(text(f"this person: epsilon {charge(spend.epsilon)} of the ledger's "
                   f"{charge(spend.bound)} so far, at delta {exact(delta)}", "bold"))
    out.print(text(CONFIDENTIAL_PERSON, YELLOW))
    if simulated:
        out.print(text("NOT PRIVATE: simulation", RED))
    out.print(text(f"in {many(len(spend.tables), 'table')}: {', '.join(spend.tables)}; "
                   f"{charge(spend.total)} {spend.unit} in all"))
    _render_lines(out, spend.lines)


def _line(line: SpendLine) -> dict[str, object]:
    return {"grant": line.grant, "learner": line.learner, "node": line.node,
            "amount": line.amount, "cap": line.cap, "share": line.share,
            "rounds": line.rounds, "basis": line.basis, "scope": line.scope,
            "data": line.data, "time": line.time, "origin": line.origin}


def _render_lines(out: Console, lines: Sequence[SpendLine]) -> None:
    """One paragraph per grant, in order of the history."""
    for line in lines:
        out.print(text(f"{line.time or 'undated'}  {line.learner or 'nobody named'} on "
                       f"{line.data} ({line.grant})"))
        rounds = "all rounds" if line.rounds is None else many(line.rounds, "round")
        out.print(text(f"    {charge(line.amount)} of {charge(line.cap)} "
                       f"({upward_percent(line.share)}), {rounds}, {line.basis}"))
        if line.origin:
            out.print(text(f"    {line.origin}"))
        out.print(text(f"    {line.node}", "dim"))


def record_dict(spend: RecordSpend, unit: str, simulated: bool, of_people: bool = False,
                delta: float = 0.0) -> dict[str, Any]:
    """A record's spend as JSON values; in a ledger of people that of a person's place."""
    notice = CONFIDENTIAL_PEOPLE if of_people else CONFIDENTIAL
    return {
        "row": spend.row, "data": spend.data, "unit": unit, "total": spend.total,
        "epsilon": spend.epsilon, "bound": spend.bound, "delta": delta,
        "private": not simulated, "known": spend.known,
        "notice": notice if spend.known else f"{notice}; {UNKNOWN}",
        "lines": [_line(line) for line in spend.lines],
    }


def render_record(out: Console, spend: RecordSpend, unit: str, simulated: bool,
                  of_people: bool = False, delta: float = 0.0) -> None:
    """As `render_person`; in a ledger of people `spend.row` is a person's place."""
    who = "the person at place" if of_people else "record"
    total = f"{charge(spend.total)} {unit} spent" if spend.lines else "nothing spent"
    out.print(text(f"{who} {spend.row} of {spend.data}: {total}", "bold"))
    out.print(text(f"epsilon {charge(spend.epsilon)} of the ledger's {charge(spend.bound)} so far, "
                   f"at delta {exact(delta)}"))
    out.print(text(CONFIDENTIAL_PEOPLE if of_people else CONFIDENTIAL, YELLOW))
    if not spend.known:
        out.print(text(UNKNOWN, YELLOW))
    if simulated:
        out.print(text("NOT PRIVATE: simulation", RED))
    _render_lines(out, spend.lines)
