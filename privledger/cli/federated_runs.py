"""Both ends of a run of several owners: whoever trains, and an owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from privledger.cli.federated_file import LABEL, FederatedFile, load
from privledger.cli.federated_receipts import write_receipts
from privledger.cli.output import note
from privledger.cli.printing import GREEN, charge, pairs, remainder, text
from privledger.cli.run import check_outputs, fit, open_ledger, refuse_early, save
from privledger.errors import InvalidPlan
from privledger.facts.values import Json
from privledger.federation import Federation, InProcess, OwnerLine, Party, verify_statements
from privledger.federation.calls import Callers, answer_calls
from privledger.federation.cards import Identity, read_identity
from privledger.guard import Ledger
from privledger.numerals import many
from privledger.reports import release_count
from privledger.rounding import exact
from privledger.tables.sources import read_table

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def _party(found: FederatedFile, own: Identity, table: str) -> Iterator[tuple[Party, Ledger]]:
    """An owner's own side: its ledger open, its table behind the guard."""
    name = found.card_of(own).owner.name
    prepared = found.prepared
    if prepared.run.wait:
        raise InvalidPlan("[ledger] wait", prepared.run.wait,
                          "left out: the other owners would wait, too")
    if not Path(table).exists():
        raise InvalidPlan("data", table, "a file")
    with open_ledger(prepared) as book:
        refuse_early(prepared, book)
        book.owner_labels = prepared.run.labels | {LABEL: found.run.digest.hex()[:16]}
        X, y = read_table(table, prepared.schema)
        data = book.protect(X, y, prepared.schema, name=prepared.run.data_name or table)
        party = Party(found.run, name, data, own.secret)
        try:
            yield party, book
        finally:
            party.close()


def joined(run_file: str, secret: str, data_dir: str | None, table: str, ledger: str,
           receipt: str | None, wait: float) -> Json:
    """Take part; what `join` prints."""
    check_outputs(None, receipt)
    own, found = read_identity(secret), load(run_file, data_dir, ledger)
    with _party(found, own, table) as (party, book):
        note(f"{party.name}: calling {found.address}, run {found.run.digest.hex()[:16]}")
        answer_calls(party, own, found.coordinator, found.address, wait=wait,
                     silence=max(7200.0, 2 * found.attempts * found.patience))
        signed: Json = party.statement or {}
        if receipt:
            write_receipts(receipt, found.run, [signed])
        return {"owner": party.name, "run": found.run.name, "digest": found.run.digest.hex(),
                "rounds": signed["rounds"], "ledger": book.path, "spent": book.spent,
                "left": book.left, "budget": book.budget, "relation": book.relation,
                "receipt": signed["receipt"]}


def served(run_file: str, secret: str, data_dir: str | None, table: str | None,
           ledger: str | None, model: str | None, receipts: str | None, wait: float, *,
           talks: bool) -> Json:
    """Wait, train, end; what `serve` prints."""
    check_outputs(model, receipts)
    own, found = read_identity(secret), load(run_file, data_dir, ledger)
    if own.card != found.coordinator:
        raise InvalidPlan("secret", own.card.owner.name, "of the run file's coordinator")
    if (table is None) != (own.card not in found.cards) or (table is None) != (ledger is None):
        raise InvalidPlan("--data and --ledger", "another choice", "given if whoever trains is "
                          "an owner too, and only then")
    callers = tuple(card for card in found.cards if card != own.card)
    with Callers(found.run, callers, own, found.address, found.patience) as calls:
        if talks:
            note(f"listening at {found.address} for {many(len(callers), 'owner')}, run "
                 f"{found.run.digest.hex()[:16]}")
        if table is None:
            return _trained(found, calls, {}, model, receipts, wait, talks=talks)
        with _party(found, own, table) as (party, _):
            return _trained(found, calls, {party.name: InProcess(party)}, model, receipts, wait,
                            talks=talks)


def _trained(found: FederatedFile, calls: Callers, own: dict[str, OwnerLine], model: str | None,
             receipts: str | None, wait: float, *, talks: bool) -> Json:
    calls.wait(wait, (lambda name: note(f"{name} is there")) if talks else lambda name: None)
    prepared = found.prepared
    federation = Federation(found.run, prepared.schema, own | calls.lines, prepared.run.budget,
                            found.attempts)
    total = release_count(prepared.node)
    federation.on_round = _told(total) if talks else lambda done: None
    try:
        fitted = fit(prepared, federation.data)
    finally:
        federation.end()
    if receipts:
        write_receipts(receipts, found.run, federation.statements)
    result = {"learner": prepared.run.learner, "run": found.run.name,
              "digest": found.run.digest.hex(), "owners": found.run.names,
              "rounds": federation.rounds, "epsilon": prepared.price.charged,
              "delta": prepared.price.charged_delta, "relation": prepared.run.relation,
              "statements": federation.statements,
              "wrong": verify_statements(found.run, federation.statements)}
    if model:
        told = result | {"isolation": "federated", "private": True,
                         "receipt": federation.statements[0]["receipt"]}
        save(told | {"model": fitted}, evolve(prepared), model)
        result["model"] = model
    return result


def _told(total: int | None) -> Callable[[int], None]:
    every = max(1, (total or 100) // 10)

    def said(done: int) -> None:
        if done % every == 0:
            note(f"round {done}" + ("" if total is None else f" of about {total}"))

    return said


def render_served(out: Console, result: Json) -> None:
    """What was trained, with whom, at what price for each."""
    out.print(text(f"{result['learner']}: trained with {many(len(result['owners']), 'owner')}",
                   GREEN))
    out.print(pairs([
        ("run", f"{result['run']}, digest {result['digest']}"),
        ("owners", ", ".join(result["owners"])),
        ("each ledger books", f"epsilon {charge(result['epsilon'])} at delta "
                              f"{exact(result['delta'])}"),
        ("rounds", result["rounds"]),
        ("statements", "of one transcript" if not result["wrong"] else result["wrong"][0]),
    ]))


def render_joined(out: Console, result: Json) -> None:
    """What an owner's own ledger says afterwards."""
    out.print(text(f"{result['owner']}: done, {many(result['rounds'], 'round')} answered", GREEN))
    out.print(pairs([
        ("run", f"{result['run']}, digest {result['digest']}"),
        ("ledger total", f"epsilon {charge(result['spent'])} of {exact(result['budget'].epsilon)} "
                         f"spent, {remainder(result['left'])} would still be granted"),
        ("ledger", result["ledger"]),
        ("next", f"privledger show {result['ledger']}"),
    ]))
