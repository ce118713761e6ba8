"""`privledger report`: one self-contained page about a ledger."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privledger.cli.output import (
    LedgerPlace,
    Reply,
    Witness,
    check_free,
    command,
    kept_elsewhere,
    key_option,
    note,
    public_option,
    reading_store,
    receipt_option,
)
from privledger.cli.terminal import flow, quiet_option, text, verdict_text
from privledger.errors import LedgerCorrupt, PrivledgerError
from privledger.gate import NOT_TRUSTED
from privledger.ledger import History
from privledger.ledger.view_records import note_of
from privledger.numerals import many
from privledger.reading import write_whole
from privledger.reports import Survey
from privledger.reports.page import Page, ShownPerson, distrusted, page_of, render_page
from privledger.reports.spend import laid_out
from privledger.reports.survey import LedgerVerdict
from privledger.storage import shown

if TYPE_CHECKING:
    from rich.console import Console

PRIVATE_FILE, OPEN_FILE = 0o600, 0o666
CONFIDENTIAL = "CONFIDENTIAL: the page shows what records spent, which depends on private data"


@command
@click.argument("ledger", metavar="LEDGER", type=LedgerPlace())
@click.option("-o", "--output", metavar="FILE", required=True, help="Where to write the page.")
@click.option("--include-records", is_flag=True,
              help="Embed what every single record spent. CONFIDENTIAL: for auditors.")
@click.option("--publishable", is_flag=True, help="Leave out everything that may depend on the "
                                                  "rows.")
@click.option("--force", is_flag=True, help="Overwrite what is there.")
@receipt_option
@key_option
@public_option
@quiet_option
def report(ledger: str, output: str, include_records: bool, publishable: bool, force: bool,
           receipt: str | None, key_file: str | None, public_key: str | None) -> Reply:
    """Write one HTML page: verdict, gauges, cost by area and time, grants, single records.

    The page needs no network and no other file. The ledger is opened read-only and verified.
    Exit code 3 if it cannot be trusted; the page then says so.
    """
    if include_records and publishable:
        raise click.UsageError("--publishable leaves out what --include-records asks for")
    check_free(output, ledger, force=force)
    known = kept_elsewhere(receipt, None, key_file, public_key)
    page = read_page(ledger, ShownPerson(vectors=include_records), publishable, known)
    data, body, verdict = render_page(page).encode("utf-8"), page.content, page.verdict
    write(output, data, confidential=not page.publishable)
    if page.confidential:
        note(CONFIDENTIAL)
    report = None if body is None else body.report
    value = {"ledger": shown(ledger), "output": output, "bytes": len(data),
             "verdict": verdict.word, "judgement": verdict.as_dict(),
             "publishable": page.publishable, "trusted": report is not None and report.trusted,
             "private": None if report is None else report.private,
             "confidential": page.confidential, "records": body is not None and body.vectors,
             "grants": None if body is None else len(body.rows),
             "receipt": None if report is None else report.receipt}
    return Reply(value, lambda out: _render(out, value, verdict),
                 0 if value["trusted"] else NOT_TRUSTED)


def read_page(ledger: str, records: ShownPerson, publishable: bool,
              known: Witness | None = None) -> Page:
    """The page's record, from one reading of the store, compared with what is known of it."""
    known = known or Witness()
    with _undisturbed(), reading_store(ledger) as store:
        seen = known.read(store)
        try:
            found, state, entries = laid_out(store, seen, known.comparison)
            if any(map(note_of, (*state.grants.values(), *seen.seen.grants.kept))):
                state = History(store, writable=False).full()  # what records spent needs all
            return page_of(store, state, found, entries, shown=records, publishable=publishable)
        except Exception as error:
            rows = list(store.rows())
            # An edited entry may hold anything: what is wrong with it is found already.
            if not rows or not seen.findings or (isinstance(error, PrivledgerError)
                                                 and not isinstance(error, LedgerCorrupt)):
                raise
            verdict = Survey(seen.findings, seen.seen.past).verdict(seen.findings, known.comparison)
            return distrusted(rows, store.location, verdict, publishable=publishable)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Without looking for circles among 10^6 new records again and again: there are none."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def write(output: str, data: bytes, *, confidential: bool) -> None:
    """The whole file at once: no reader ever sees a half, and an old page stays until then."""
    try:
        write_whole(Path(output), data, PRIVATE_FILE if confidential else OPEN_FILE)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from None


def _render(out: Console, value: dict[str, Any], verdict: LedgerVerdict) -> None:
    flow(out, verdict_text(verdict))
    if value["grants"] is None:
        flow(out, text(f"{value['output']}: what is wrong, and the entries as written; no total "
                       "could be computed"))
        return
    out.print(text(f"{value['output']}: {value['bytes'] / 1000:.0f} kB, "
                   f"{many(value['grants'], 'grant')}; open it in a browser, it "
                   "needs no network"))
