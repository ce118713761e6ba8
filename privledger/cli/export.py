"""`privledger export`: the history as text, for a reader that shares no code with us."""

from __future__ import annotations

import base64
import io
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from privledger.cli.output import (
    FILE,
    LedgerPlace,
    Reply,
    asks_json,
    check_free,
    command,
    note,
    reading_store,
    receipt_or_none,
)
from privledger.cli.terminal import quiet_option, text
from privledger.errors import LedgerCorrupt, PrivledgerError
from privledger.graph import canonical
from privledger.ledger import Entry, Store, folded
from privledger.ledger.checkpoint import remembered_receipt
from privledger.ledger.codec_lines import event_as
from privledger.ledger.entries import body_text
from privledger.ledger.epochs import find_epoch
from privledger.ledger.events import EVENTS, Enrolled, Settled
from privledger.ledger.history import each_entry, each_row
from privledger.ledger.vectors import stored_under
from privledger.numerals import many
from privledger.reading import load_toml
from privledger.reports.formats import FORMATS, deployment, written_format
from privledger.reports.survey import read_once
from privledger.standalone.build import one_file
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console

STDOUT, DEPLOYMENT = "-", "deployment"
IN_MEMORY = 1 << 23  # bytes; of a longer history the rest waits in a file without a name
USUAL = '{{"body":{2},"hash":"{4}","kind":"{1}","position":{0},"previous":"{3}"}}\n'.format
EMPTY = "the history is empty: not a ledger"
PRIVATE_FILE = 0o600
CONFIDENTIAL = ("CONFIDENTIAL: the export contains what single records spent, which depends on "
                "private data")


@command
@click.argument("ledger", metavar="LEDGER", type=LedgerPlace(), required=False)
@click.option("-o", "--output", metavar="FILE", help="Where to write the history; - for stdout.")
@click.option("--as", "kind", type=click.Choice((*FORMATS, DEPLOYMENT)), default="jsonl",
              show_default=True,
              help="Lines of the history; or for other tools: entries as one JSON list or as CSV, "
                   "the plans as events of dp_accounting; or an entry of OpenDP's registry of "
                   "deployments.")
@click.option("--human", type=FILE,
              help="For --as deployment: TOML file with the facts that only the owner knows.")
@click.option("--include-records", is_flag=True,
              help="Append the per-record vectors. CONFIDENTIAL: for auditors.")
@click.option("--exact", is_flag=True,
              help="For --as dp-event: refuse a plan that no event states exactly.")
@click.option("--verifier", metavar="FILE",
              help="Write the stand-alone verifier, with or without a LEDGER.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@quiet_option
def export(ledger: str | None, output: str | None, kind: str, human: str | None,
           include_records: bool, exact: bool, verifier: str | None, force: bool) -> Reply | None:
    """Write the whole history as JSON lines, one entry per line exactly as it was hashed.

    Or, with --as, for other tools; only the lines can be verified afterwards.

    The stand-alone verifier checks such a file with Python's standard library alone. Nothing is
    verified here. Per-record vectors stay out unless they are asked for.
    """
    _check_usage(ledger, output, include_records, verifier, force)
    if kind != "jsonl" and include_records:
        raise click.UsageError("--include-records goes with the lines only")
    if exact and kind != "dp-event":
        raise click.UsageError("--exact goes with --as dp-event only")
    if (human is None) == (kind == DEPLOYMENT):
        raise click.UsageError("--as deployment and --human FILE go together")
    value: dict[str, Any] = {
        "ledger": None if ledger is None else shown(ledger), "output": output, "as": kind,
        "entries": None, "head": None, "receipt": None, "records": include_records,
        "verifier": verifier,
    }
    if ledger is not None and output is not None:
        with (reading_store(ledger) as store,
              tempfile.SpooledTemporaryFile(IN_MEMORY) as kept):  # nothing is written of a half
            lines = (_lines(store, value, records=include_records) if kind == "jsonl"
                     else [_deployment(store, human, value)] if human is not None
                     else [_written(kind, store, exact, value)])
            for some in lines:  # all together would be written before it is a file
                kept.write(some.encode("utf-8"))
            if include_records:
                note(CONFIDENTIAL)
            if asks_json():
                value["receipt"] = receipt_or_none(ledger)
            kept.seek(0)
            _write(output, kept, force, confidential=include_records)
    if verifier is not None:
        _write(verifier, io.BytesIO(one_file().encode("utf-8")), force)
    return None if STDOUT in (output, verifier) else Reply(value, lambda out: _render(out, value))


def _lines(store: Store, value: dict[str, Any], *, records: bool) -> Iterator[str]:
    """Every entry, many lines at a time; then what is kept by record or by person where it is
    asked for."""
    epoch = None if records else find_epoch(store)  # which vectors there are, entries have to say
    first, named = 0, list[Enrolled | Settled]()
    for columns in () if epoch is None else epoch.unchanged(store):
        if columns is None:
            break
        texts = [column.decode("ascii").split("\n") for column in columns]
        yield "".join(map(USUAL, *texts))
        first += len(texts[0])
        value["head"] = texts[-1][-1]
    row = first - 1, "", "", "", value["head"]
    for row, found in each_row(store, first - 1):  # one by one: they may be large
        yield entry_line(found) if isinstance(found, Entry) else _line(*row)
        if records:
            event = found.event if isinstance(found, Entry) else event_as(found)
            named += [event] if isinstance(event, Enrolled | Settled) else []
    if row[0] < 0:
        raise LedgerCorrupt(EMPTY)
    value |= {"entries": row[0] + 1, "head": row[4]}
    yield from vector_lines(store, named)


def _written(kind: str, store: Store, exact: bool, value: dict[str, Any]) -> str:
    entries = list(each_entry(store))
    if not entries:
        raise LedgerCorrupt(EMPTY)
    value |= {"entries": len(entries), "head": entries[-1].hash}
    try:
        found, said = written_format(kind, entries, folded(entries), exact=exact)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, PrivledgerError):
            raise
        raise LedgerCorrupt("the history cannot be read: run privledger verify") from None
    if said is not None:
        for what, how in ((said.weaker, "written as an event that promises less"),
                          (said.unsaid, "written as no event")):
            if what:
                parts = many(sum(what.values()), "part")
                note(f"INEXACT: {parts} of the plans {'is' if sum(what.values()) == 1 else 'are'} "
                     f"{how}: {', '.join(what)}")
    return found


def _deployment(store: Store, human: str, value: dict[str, Any]) -> str:
    """An entry of the registry, of a history in which an audit found no fault."""
    seen = read_once(store)
    if seen.findings or seen.view is None or seen.state is None:
        raise LedgerCorrupt("no deployment entry for a ledger that cannot be trusted: run "
                            "privledger verify" if seen.seen.past.entries else EMPTY)
    value |= {"entries": seen.view.entries, "head": seen.view.head}
    return deployment(seen.view, load_toml(human, "deployment"),
                      remembered_receipt(seen.state).as_dict())


def entry_line(entry: Entry) -> str:
    """One entry as canonical JSON. Its body is the text that was hashed."""
    return _line(entry.position, entry.event.kind, body_text(entry), entry.previous, entry.hash)


def _line(position: int, kind: str, text: str, previous: str, digest: str) -> str:
    digests = digest + previous
    if kind in EVENTS and digests.isascii() and digests.isalnum():  # what nearly all are
        return USUAL(position, kind, text, previous, digest)
    rest = canonical({"position": position, "kind": kind, "previous": previous, "hash": digest})
    return f'{{"body":{text},{rest[1:]}\n'


def vector_lines(store: Store, events: Iterable[Enrolled | Settled]) -> list[str]:
    """Everything kept by record or by person that events name, in order of the history."""
    names: dict[str, None] = {}
    for event in events:
        if isinstance(event, Enrolled):
            names |= dict.fromkeys([*stored_under(store, event.people),
                                    *stored_under(store, event.members)])
        elif event.vector is not None:
            names |= dict.fromkeys(stored_under(store, event.vector))
    found = ((name, store.vector(name)) for name in names)
    return [canonical({"vector": name, "data": base64.b64encode(data).decode("ascii")}) + "\n"
            for name, data in found if data is not None]


def _check_usage(ledger: str | None, output: str | None, records: bool, verifier: str | None,
                 force: bool) -> None:
    if (ledger is None) != (output is None) or (ledger is None and verifier is None):
        raise click.UsageError("give LEDGER and -o FILE, or --verifier FILE, or all of them")
    if records and ledger is None:
        raise click.UsageError("--include-records needs a LEDGER")
    places = [place for place in (output, verifier) if place is not None]
    if STDOUT in places and (len(places) > 1 or asks_json()):
        raise click.UsageError("stdout can take one output: give -o - or --verifier - alone, "
                               "without --format json")
    if len(places) == 2 and Path(places[0]).absolute() == Path(places[1]).absolute():
        raise click.UsageError("the history and the verifier need two files")
    for place in places:
        if place != STDOUT:
            check_free(place, ledger, force=force)


def _write(place: str, data: IO[bytes], force: bool, *, confidential: bool = False) -> None:
    """Whole, or an error that says so: a file cut short has no last line end."""
    if place == STDOUT:
        for part in iter(lambda: data.read(IN_MEMORY), b""):
            click.echo(part, nl=False)
        return
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if force else os.O_EXCL)
    flags |= getattr(os, "O_BINARY", 0)
    try:
        with os.fdopen(os.open(place, flags, PRIVATE_FILE if confidential else 0o666),
                       "wb") as file:
            shutil.copyfileobj(data, file)
    except OSError as error:
        raise click.UsageError(f"{place} cannot be written: {error.strerror}") from None


def _render(out: Console, value: dict[str, Any]) -> None:
    if value["output"] is not None:
        out.print(text(f"{value['output']}: {many(value['entries'], 'entry', 'entries')}, "
                       f"head {value['head']}"))
    if value["verifier"] is not None:
        history = value["output"] if value["output"] and value["as"] == "jsonl" else "HISTORY"
        out.print(text(f"check it with: python -I {value['verifier']} {history}"))
