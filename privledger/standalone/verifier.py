"""Check the history of a privacy-budget ledger with Python's standard library alone.

    python -I verify_history.py LEDGER [--receipt receipt.json]

LEDGER is the ledger's SQLite file, or what `privledger export LEDGER -o history.jsonl` wrote.
Exit code: 0 clean, 3 NOT TRUSTED (every fault is listed), 2 usage. Python 3.11 or later.

This reader shares no code with privledger, so a mistake there is not repeated here. The format:
docs/ledger-format.md. What it did not check is printed at the end of every report.
"""

from __future__ import annotations

import argparse
import sqlite3
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import Any

from .book import Book
from .checkpoints import Checkpoint
from .convert import UNIT, beside, epsilon_of
from .places import Database, is_database, lines_of, open_file
from .reading import MALFORMED, Bad, NoPrice, inert, parse, whole

LABELS = "replace_label"
PERSON = "one person, with all rows in all tables"
MOST_RECEIPT = 1 << 20
NEVER = (
    "not checked: whether the noise was drawn, and drawn as it says",
    "not checked: whether times, claimed epsilons, holders and names are true",
    "not checked: whether members of a OneOf that begin alike may have a common price",
)


def many(count: int, one: str, more: str) -> str:
    """A number with its noun, singular or plural."""
    return f"{count} {one if count == 1 else more}"


def compared(receipt: Any) -> str:
    """What the history was compared with, and what therefore cannot have been seen."""
    if receipt is None:
        return ("compared with no receipt: a tail that was cut off, an older copy put back, or a "
                "history rewritten from its beginning cannot be seen")
    date, entries = receipt.get("time"), receipt["entries"]
    which = f"the receipt of {inert(date)}" if date else "a receipt without a date"
    seen = many(entries, "entry", "entries")
    return (f"compared with {which}, {seen}, head "
            f"{inert(receipt['head'])[:12]}: what was cut off or rewritten after entry {entries} "
            "cannot be seen")


def read_receipt(path: str) -> dict[str, Any]:
    """A receipt from a file, or from what `privledger run --format json` prints."""
    with open_file(path) as file:
        raw = file.read(MOST_RECEIPT + 1)
    if len(raw) > MOST_RECEIPT:
        raise Bad("too large for a receipt")
    value = parse(raw, "utf-8")
    value = value.get("receipt", value)  # or what `privledger run --format json` prints
    whole(value["entries"], 1)
    if type(value["uuid"]) is not str or type(value["head"]) is not str:
        raise Bad("not a receipt")
    return dict(value)


def check_receipt(book: Book, receipt: Any) -> None:
    """The receipt's last entry is still where it was."""
    receipt = receipt.get("receipt", receipt)
    entries, seen = len(book.hashes), whole(receipt["entries"], 1)
    if receipt["uuid"] != book.uuid:
        book.fault("the receipt is of another ledger")
    elif entries < seen:
        book.fault(f"{entries} entries, the receipt saw {seen}: a tail was cut, or an old copy")
    elif book.hashes[seen - 1] != receipt["head"]:
        book.fault(f"entry {seen - 1} is not the one the receipt saw: the history was rewritten")


def read_history(path: str) -> Book:
    """The whole history in a file or an export."""
    book = Book()
    if is_database(path):
        read_database(path, book)
        return book
    try:
        for line in lines_of(path):
            book.take(line)
            if book.is_enough():
                return book
    except Bad as error:
        book.fault(str(error))
    if not book.hashes and not book.faults:
        book.fault("the file holds no entry")
    book.finish()
    return book


def read_database(path: str, book: Book) -> None:
    """Read a ledger's own file into `book`, after looking for faults of the file itself."""
    try:
        file = Database(path)
    except sqlite3.Error as error:
        return book.fault(f"the file cannot be opened: {error}")
    try:
        wrong = file.faults()
        for text in wrong:
            book.fault(text)
        if wrong:
            return None
        kept = file.checkpoint()
        book.checkpoint = None if kept is None else Checkpoint(*kept)
        for row in file.rows():
            book.take_row(row)
            if book.is_enough():
                return None
        if not book.hashes:
            book.fault("the history is empty: not a ledger")
        book.finish(file.vector)
    except (sqlite3.Error, Bad, *MALFORMED) as error:
        book.fault(f"the file is damaged: {error}")
    finally:
        file.close()
    return None


def spent(book: Book) -> str:
    """Epsilon that is spent, in twelve digits, rounded up; words where it has no formula here."""
    try:
        value = epsilon_of(book.filter or "basic", Fraction(book.units, UNIT), book.order,
                           beside(book.delta, book.purse))
    except (NoPrice, Bad, *MALFORMED):
        return "not recomputed"
    # Never below what it is.
    return str(Context(prec=12, rounding=ROUND_CEILING).create_decimal(value).normalize())


def report(book: Book, receipt: Any = None) -> None:
    """Print the verdict, the first faults, the promise and the totals."""
    print(compared(receipt))
    print(f"NOT TRUSTED: {many(len(book.faults), 'finding', 'findings')}" if book.faults
          else f"clean: {many(len(book.hashes), 'entry', 'entries')} re-read")
    for position, text in book.faults[:50]:
        print(f"  entry {position}: {inert(text)}")
    print(f"ledger   {inert(book.uuid)}, {inert(book.relation)}, filter {inert(book.filter)}"
          f"{'' if book.mode == 'private' else ', NOT PRIVATE (simulation)'}")
    if book.relation == LABELS:
        print("promise  LABELS ONLY: features are public; nothing is promised about whole records")
    if book.unit == "person":
        print(f"about    {PERSON}")
    print(f"budget   epsilon {book.epsilon:.9g} at delta {book.delta:.9g}")
    print(f"spent    epsilon {spent(book)}, reservations included")
    print(f"entries  {len(book.hashes)}, {many(len(book.grants), 'grant', 'grants')}")
    print(f"head     {inert(book.hashes[-1] if book.hashes else '')}")
    for text, position in book.notes.items():
        print(f"{inert(text)} (entry {position})")
    for text in NEVER:
        print(text)


def main() -> int:
    """Read the arguments and the history; 0 if nothing is wrong with it."""
    parser = argparse.ArgumentParser(description="Check the history of a privacy-budget ledger.")
    parser.add_argument("history", help="a ledger's file, or what `privledger export` wrote")
    parser.add_argument("--receipt", help="a receipt that was kept elsewhere")
    options = parser.parse_args()
    receipt = None
    try:
        if options.receipt:
            receipt = read_receipt(options.receipt)
        book = read_history(options.history)
        if receipt is not None:
            check_receipt(book, receipt)
    except (Bad, *MALFORMED):
        parser.error("the receipt is none")
    except OSError as error:
        parser.error(f"a file cannot be read: {error.strerror}")
    report(book, receipt)
    return 3 if book.faults else 0
