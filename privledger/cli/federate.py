"""`privledger federate`: several owners, one model, and a ledger with each of them."""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import click

from privledger.cli.output import FILE, PLACE, Reply, asks_json, command, data_option
from privledger.cli.plan import run_argument
from privledger.cli.terminal import GREEN, RED, charge, pairs, text
from privledger.errors import InvalidPlan
from privledger.gate import NOT_TRUSTED, REFUSED
from privledger.numerals import many
from privledger.tables.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from privledger.cli.owners import FederatedFile

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its own log speaks of addresses
EXTRA = "one with the extra that a federation needs: pip install 'privledger[federated]'"

secret_option = click.option("--secret", required=True, metavar="FILE", type=FILE,
                             help="Your own key file, from privledger federate keygen.")


def needed() -> None:
    """Raises `InvalidPlan` where the packages of the extra are not there."""
    for name in ("cryptography", "grpc"):
        try:
            import_module(name)
        except ImportError:
            raise InvalidPlan("this installation", f"none of {name}", EXTRA) from None


@click.group()
def federate() -> None:
    """Train one model on the rows of several owners, each with its own ledger.

    Rows stay with their owners. Each reserves the whole price in its own ledger and adds the whole
    noise to its own sums; only their masked sums leave it.
    """


part = partial(command, group=federate)


@part
@click.argument("name")
@click.option("-o", "--output-dir", default=".", show_default=True,
              type=click.Path(exists=True, file_okay=False), help="Where to write both files.")
def keygen(name: str, output_dir: str) -> Reply:
    """Make NAME.card, to give to the others, and NAME.secret, which stays with you."""
    needed()
    from privledger.federation.cards import new_identity, write_identity

    identity = new_identity(name)
    card, secret = write_identity(identity, output_dir)
    fingerprint = identity.card.owner.key.hex()

    return Reply({"name": name, "card": str(card), "secret": str(secret), "key": fingerprint},
                 lambda out: out.print(pairs([
                     ("card", f"{card}: give it to the other owners"),
                     ("secret", f"{secret}: keep it secret"),
                     ("key", f"{fingerprint}: compare it with the other owners, for example by "
                             "telephone")])))


@part
@run_argument
@data_option
@click.option("--ledger", type=PLACE, help="Your own ledger, to price against.")
def plan(run_file: str, data_dir: str | None, ledger: str | None) -> Reply:
    """Price a run of several owners, and say who they are. Opens no data and writes nothing.

    Exit code 1 if it would be refused.
    """
    needed()
    from privledger.cli.owners import load_owners
    from privledger.cli.plan import render_plan

    found = load_owners(run_file, data_dir, ledger)

    def render(out: Console) -> None:
        out.print(pairs([
            ("run", f"{found.run.name}, digest {found.run.digest.hex()}"),
            ("trains", f"{found.coordinator.owner.name} at {found.address}, "
                       f"key {found.coordinator.owner.key.hex()}"),
            *((f"owner {place + 1}", f"{card.owner.name}, key {card.owner.key.hex()}")
              for place, card in enumerate(found.cards)),
            *trusted_owners(found)]))
        out.print(text("Compare the digest and the keys with the other owners before any owner "
                       "joins.",
                       "bold"))
        out.print()
        render_plan(out, found.prepared)

    return Reply(found.prepared.as_dict() | described_party(found), render,
                 0 if found.prepared.price.fits else REFUSED)


def trusted_owners(found: FederatedFile) -> list[tuple[str, str]]:
    """Whom an owner trusts, both prices, and that of a person with rows at several owners."""
    several, of_person = found.run.owners_per_person, found.of_person
    if of_person is None:
        return _both(found)
    return [*_both(found), ("of a person", (
        f"epsilon {charge(of_person)} for a person with rows at {many(several or 1, 'owner')}, the "
        "most that the owners declare"))]


def _both(found: FederatedFile) -> list[tuple[str, str]]:
    declared = found.prepared.price.epsilon
    if found.run.noise == "local":
        return [("noise", "whole: each owner's promise holds whatever the others do"),
                ("declared", f"epsilon {charge(declared)}"),
                ("alone", f"epsilon {charge(declared)}: trust lowers nothing")]
    return [("noise", f"SHARED: each owner adds a part; {found.run.honest} of {len(found.cards)} "
                      "owners, including your own, must keep their noise secret"),
            ("declared", f"epsilon {charge(declared)}: what each ledger books"),
            ("alone", f"epsilon {charge(found.alone)}: if all other owners reveal their noise")]


def described_party(found: FederatedFile) -> Json:
    """The run and its owners, for JSON."""
    return {"name": found.run.name, "digest": found.run.digest.hex(), "address": found.address,
            "trains": {"name": found.coordinator.owner.name,
                       "key": found.coordinator.owner.key.hex()},
            "owners": [{"name": card.owner.name, "key": card.owner.key.hex()}
                       for card in found.cards], "noise": found.run.noise,
            "colluding": found.run.colluding, "least_honest": found.run.least_honest,
            "owners_per_person": found.run.owners_per_person,
            "declared": found.prepared.price.epsilon, "alone": found.alone,
            "of_person": found.of_person}


@part
@run_argument
@secret_option
@data_option
@click.option("--data", "table", metavar="TABLE", help="Your own table, where you are an owner.")
@click.option("--ledger", type=PLACE, help="Your own ledger, then.")
@click.option("--model", type=PLACE, help="Where to save the fitted model.")
@click.option("--receipts", type=PLACE, metavar="FILE",
              help="Where to write what all owners signed, for privledger federate verify.")
@click.option("--wait", type=click.FloatRange(min=0, min_open=True), default=600.0,
              show_default=True, help="Seconds to wait for all owners to call.")
def serve(run_file: str, secret: str, data_dir: str | None, table: str | None,
          ledger: str | None, model: str | None, receipts: str | None, wait: float) -> Reply:
    """Wait for the owners of a run, train with them, and end.

    Listens at the run file's address, and only to the certificates on the cards. Exit code 1 if an
    owner's ledger refuses: then none is charged. 4 if an owner is gone.
    """
    needed()
    from privledger.cli.owners import render_served, served

    result = served(run_file, secret, data_dir, table, ledger, model, receipts, wait,
                    talks=not asks_json())
    return Reply(result, lambda out: render_served(out, result))


@part
@run_argument
@secret_option
@data_option
@click.option("--data", "table", metavar="TABLE", required=True,
              help="Your own table: CSV, Parquet or NPZ.")
@click.option("--ledger", type=PLACE, required=True,
              help="Your own ledger, continued if it exists.")
@click.option("--receipt", type=PLACE, metavar="FILE",
              help="Where to write what you signed, for privledger federate verify.")
@click.option("--wait", type=click.FloatRange(min=0, min_open=True), default=600.0,
              show_default=True, help="Seconds to wait for the training party.")
def join(run_file: str, secret: str, data_dir: str | None, table: str, ledger: str,
         receipt: str | None, wait: float) -> Reply:
    """Take part in a run with your own table and ledger.

    What the run may cost is in the run file; the training party cannot raise it. Exit code 1 if
    your ledger refuses: then no row is read. 4 if the run ended early: what was charged stands.
    """
    needed()
    from privledger.cli.owners import joined_owners, render_joined

    result = joined_owners(run_file, secret, data_dir, table, ledger, receipt, wait)
    return Reply(result, lambda out: render_joined(out, result))


@part
@click.argument("receipts", nargs=-1, required=True, metavar="RECEIPT...", type=FILE)
def verify(receipts: tuple[str, ...]) -> Reply:
    """Check that what all owners of one run signed is of one transcript.

    RECEIPTs are those of `serve` and `join`; together they must be of every owner. Exit code 3 if
    one is missing, edited, of another run, or of a run in which owners were asked different things.
    """
    needed()
    from privledger.cli.owners import read_all
    from privledger.federation import verify_statements

    run, statements = read_all(receipts)
    wrong = verify_statements(run, statements)

    def render(out: Console) -> None:
        out.print(pairs([("run", f"{run.name}, digest {run.digest.hex()}"),
                         ("owners", ", ".join(run.names))]))
        for line in wrong:
            out.print(text(line, RED))
        if not wrong:
            out.print(text(f"accepted: {many(len(statements), 'receipt')} of one transcript",
                           GREEN))

    return Reply({"run": run.name, "digest": run.digest.hex(), "owners": run.names,
                  "accepted": not wrong, "wrong": wrong}, render, NOT_TRUSTED if wrong else 0)
