"""`privledger overlap`: was one table opened under several ledgers, or one ledger forked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import combinations
from typing import TYPE_CHECKING

import click
from attrs import asdict, evolve

from privledger.cli.opening import reading, reading_store
from privledger.cli.output import Guarded, emit, format_option, note
from privledger.cli.printing import GREEN, RED, charge, grid, text
from privledger.gate import NOT_TRUSTED, REFUSED
from privledger.ledger import State
from privledger.numerals import many
from privledger.reports.forks import ForkedCopies, divergence
from privledger.reports.overlap import Overlap, Shared, overlaps, shared_people
from privledger.rounding import add_up, exact
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console


CONFIDENTIAL_PEOPLE = "confidential, for auditors: how many people are in two ledgers is private"


@click.command(cls=Guarded)
@click.argument("ledgers", metavar="LEDGER...", nargs=-1, required=True)
@format_option
def overlap(ledgers: tuple[str, ...], format_: str) -> None:
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
    emit(format_, {"ledgers": [shown(place) for place in ledgers], "copies": [
        {**asdict(one), "text": one.text} for one in apart], "overlaps": found,
                   "people": people, "receipts": receipts},
         lambda out: _render(out, apart, found, people))
    if people:
        note(CONFIDENTIAL_PEOPLE)
    if apart or found or people:
        click.get_current_context().exit(
            NOT_TRUSTED if any(one.fork for one in apart) else REFUSED)


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


def _render(out: Console, apart: list[ForkedCopies], found: list[Overlap],
            people: list[Shared]) -> None:
    for one in apart:
        out.print(text(one.text, f"bold {RED}" if one.fork else RED), soft_wrap=True)
        if one.fork:
            out.print(text(f"what both released together: at most epsilon {charge(one.epsilon)} "
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
