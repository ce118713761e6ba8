"""Changes to a ledger file that leave its schema as it was: as whoever knows the format makes."""

from __future__ import annotations

import os
import sqlite3

from privledger.storage.sqlite_schema import TRIGGERS


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
