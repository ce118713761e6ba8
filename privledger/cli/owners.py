"""Runs of several owners: the run file, who joins and who serves, and receipts of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from privledger.accounting import check_relation
from privledger.cli.output import note
from privledger.cli.plan import Prepared, priced
from privledger.cli.run import check_outputs, fit, open_ledger, refuse_early, save
from privledger.cli.terminal import GREEN, charge, pairs, room, text
from privledger.errors import InvalidPlan, UnsupportedNode
from privledger.federation import Federation, InProcess, OwnerLine, Party, Run, verify_statements
from privledger.federation.calls import Callers, answer_calls
from privledger.federation.cards import Card, Identity, read_card, read_identity
from privledger.federation.party import check_sums
from privledger.graph import alone, certify
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.numerals import many
from privledger.reading import load_json, load_toml, path_in
from privledger.reports import release_count
from privledger.rounding import exact, positive
from privledger.runs import RunFile
from privledger.tables.schema import Schema
from privledger.tables.sources import read_table
from privledger.tables.values import Json, table

if TYPE_CHECKING:
    from rich.console import Console





# A run file of several owners: an ordinary one, and a table [federation]. No data is opened.

KEYS = ("name", "address", "coordinator", "owners", "patience", "attempts", "noise", "colluding",
        "least_honest", "owners_per_person")
LABEL = "federated"
"""Label of an owner's grant; its value is the run's digest."""


@frozen
class FederatedFile:
    """What all owners agreed to, read and priced.

    Attributes:
        prepared: the run as one owner alone would have it; the ledger is an owner's own.
        run: what goes into every mask and signature.
        address: where the coordinator listens, host:port.
        coordinator: its card; it may be an owner.
        cards: of the owners, in the roster's order.
        patience: seconds that one reply may take. attempts: how often a round may be tried.
    """

    prepared: Prepared
    run: Run
    address: str
    coordinator: Card
    cards: tuple[Card, ...]
    patience: float
    attempts: int

    @property
    def alone(self) -> float:
        """Epsilon of the plan, at its price's delta, if all other owners give their noise away."""
        price = self.prepared.price
        if self.run.noise == "local":
            return price.epsilon
        return certify(alone(self.run.reserved), price.delta,
                       check_relation(price.relation)).epsilon

    @property
    def of_person(self) -> float | None:
        """Epsilon, at the price's delta, of a person with rows at as many owners as are declared;
        None where no owner declares it.

        Raises:
            UnsupportedNode: the plan has no price for that.
        """
        if self.run.owners_per_person is None:
            return None
        price = self.prepared.price
        return certify(self.run.of_person, price.delta, check_relation(price.relation)).epsilon

    def card_of(self, own: Identity) -> Card:
        """The card of the roster that a secret is of.

        Raises:
            InvalidPlan: it is of no owner on the roster.
        """
        for card in self.cards:
            if card == own.card:
                return card
        raise InvalidPlan("secret", own.card.owner.name, "of an owner of this run")


def load_owners(path: str, data_dir: str | None = None, ledger: str | None = None) -> FederatedFile:
    """Read the run file, its schema and its cards, and price the plan.

    Args:
        ledger: an owner's own, to price against.

    Raises:
        InvalidPlan: a key that is unknown or missing, or a card that is none.
        UnsupportedNode: a run that owners cannot do together.
    """
    place = Path(path)
    value = load_toml(place, "run file")
    told = _checked(value.pop("federation", None))
    _refused(value)
    data = value.setdefault("data", {})
    if isinstance(data, dict):  # what else it is, `RunFile` refuses by name
        data["table"] = "(each owner has its own)"
    base = RunFile.from_dict(value, place)
    schema = Schema.load(base.data_path(base.schema, data_dir))
    prepared = priced(base, schema, base.ledger_path(ledger) if ledger else None)
    if not ledger:
        prepared = evolve(prepared, ledger="set by each owner")
    cards = tuple(_card(place, name, "owners") for name in told["owners"])
    run = Run.of(_text(told["name"], "name"), tuple(card.owner for card in cards), schema,
                 prepared.node, delta=base.params["delta"], learner=base.learner,
                 relation=base.relation, noise=_text(told.get("noise", "local"), "noise"),
                 colluding=_whole(told, "colluding", 0),
                 least_honest=_whole(told, "least_honest", 1),
                 owners_per_person=_whole(told, "owners_per_person", 1)
                 if "owners_per_person" in told else None)
    check_sums(run.reserved)  # what cannot be shared is refused here, not by the owners
    return FederatedFile(prepared, run, _text(told["address"], "address"),
                         _card(place, told["coordinator"], "coordinator"),
                         cards, positive("[federation] patience", told.get("patience", 600.0)),
                         _whole(told, "attempts", 3))


def _checked(value: object) -> Json:
    if not isinstance(value, dict):
        raise InvalidPlan("[federation]", "a run file without it", "there, with name, address, "
                          "coordinator and owners")
    for key in value:
        if key not in KEYS:
            raise InvalidPlan("[federation] key", str(key), f"one of {', '.join(KEYS)}")
    for key in KEYS[:4]:
        if key not in value:
            raise InvalidPlan("[federation]", "a table without it", f"given {key}")
    if not isinstance(value["owners"], list) or not value["owners"]:
        raise InvalidPlan("[federation] owners", value["owners"], "a list of card files")
    return value


def _refused(value: Json) -> None:
    for name, why in (("engine", "each owner's table is read in memory"),
                      ("evaluate", "public rows are scored with privledger predict"),
                      ("isolation", "the training party has no rows to be isolated from")):
        if name in value:
            raise UnsupportedNode(f"[{name}] does not apply to a run of several owners: {why}. "
                                  "Nothing was read")
    if isinstance(value.get("data"), dict) and "table" in value["data"]:
        raise InvalidPlan("[data] table", "in a file that all owners share",
                          "left out: each owner names its own table with --data")


def _text(value: object, key: str) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidPlan(f"[federation] {key}", value, "given as a text")
    return value


def _card(place: Path, value: object, key: str) -> Card:
    return read_card(place.parent / path_in(f"[federation] {key}", _text(value, key)))


def _whole(told: Json, key: str, usual: int) -> int:
    value = told.get(key, usual)
    if type(value) is not int:
        raise InvalidPlan(f"[federation] {key}", value, "a whole number")
    return value


# Files with what owners of one run signed, each with the run that it is about.

KIND = "privledger federation receipts 1"
_KEYS = {"kind", "run", "statements"}


def write_receipts(path: str, run: Run, statements: Sequence[Json]) -> None:
    """A new file of one run with what some or all of its owners signed."""
    value = {"kind": KIND, "run": run.agreed, "statements": list(statements)}
    with open(path, "w", encoding="utf-8") as file:
        json.dump(value, file, indent=2)
        file.write("\n")


def read_all(paths: Sequence[str]) -> tuple[Run, list[Json]]:
    """The one run that all files are about, and every statement; the same one counts once.

    Raises:
        InvalidPlan: not such a file, or of different runs.
    """
    found: list[Json] = []
    runs: dict[bytes, Run] = {}
    for path in paths:
        value = load_json(path, "receipt")
        try:
            if set(value) != _KEYS or value["kind"] != KIND:
                raise ValueError
            run = Run.from_agreed(table(value["run"]))
            statements = [table(one) for one in value["statements"]]
        except Exception:
            raise InvalidPlan("receipt", Path(path).name,
                              "one of privledger federate serve or join") from None
        runs[run.digest] = run
        found += [one for one in statements if one not in found]
    if len(runs) > 1:
        raise InvalidPlan("receipts", f"{len(runs)} runs", "all of one run")
    return next(iter(runs.values())), found


# Both ends of a run of several owners: the coordinator, and an owner.

@contextmanager
def _party(found: FederatedFile, own: Identity, table: str) -> Iterator[tuple[Party, Ledger]]:
    """An owner's own side: its ledger open, its table behind the guard."""
    name = found.card_of(own).owner.name
    prepared = found.prepared
    if prepared.run.wait:
        raise InvalidPlan("[ledger] wait", prepared.run.wait,
                          "left out: all other owners would have to wait")
    if not Path(table).exists():
        raise InvalidPlan("data", table, "a file")
    def protecting(book: Ledger) -> Dataset:
        X, y = read_table(table, prepared.schema)
        return book.protect(X, y, prepared.schema, name=prepared.run.data_name or table)

    with open_ledger(prepared, Path(table), protecting) as book:
        refuse_early(prepared, book)
        book.owner_labels = prepared.run.labels | {LABEL: found.run.digest.hex()[:16]}
        data = protecting(book)
        with closing(Party(found.run, name, data, own.secret)) as party:
            yield party, book


def joined_owners(run_file: str, secret: str, data_dir: str | None, table: str, ledger: str,
           receipt: str | None, wait: float) -> Json:
    """Take part; what `join` prints."""
    check_outputs(None, receipt)
    own, found = read_identity(secret), load_owners(run_file, data_dir, ledger)
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
    own, found = read_identity(secret), load_owners(run_file, data_dir, ledger)
    if own.card != found.coordinator:
        raise InvalidPlan("secret", own.card.owner.name, "of the run file's coordinator")
    if (table is None) != (own.card not in found.cards) or (table is None) != (ledger is None):
        raise InvalidPlan("--data and --ledger", "another choice", "given exactly if the training "
                                                                   "party is an owner, too")
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
                         f"spent. {room(result['left'], result['budget'].epsilon)}"),
        ("ledger", result["ledger"]),
        ("next", f"privledger show {result['ledger']}"),
    ]))
