"""Changes to a ledger file that leave its schema as it was: as whoever knows the format makes."""

from __future__ import annotations

import os
import sqlite3

from privledger.ledger.codec import decode
from privledger.ledger.entries import Entry
from privledger.storage.sqlite_open import TRIGGERS


def entries_of(lines: list[dict]) -> list[Entry]:
    """Entries from what an export says of them, right or wrong."""
    return [Entry(line["position"], decode(line["kind"], line["body"]), line["previous"],
                  line["hash"]) for line in lines]


def doctor(path: str | os.PathLike[str], *statements: str | tuple) -> None:
    """Run SQL on a closed ledger without its triggers, and put them back to the letter."""
    connection = sqlite3.connect(path)
    for name in ("entries_keep", "entries_stay"):
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(*([statement] if isinstance(statement, str) else statement))
    for trigger in TRIGGERS:
        connection.execute(trigger)
    connection.commit()
    connection.close()
