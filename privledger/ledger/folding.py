"""Stored rows -> state, without parsing what differs from an earlier row in names and times."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import cast

from privledger.errors import LedgerError
from privledger.graph import canonical
from privledger.ledger.codec_lines import LineReader
from privledger.ledger.entries import Entry
from privledger.ledger.state import State
from privledger.ledger.store import Row


def fold_rows(rows: Iterable[Row], *, compact: bool) -> State | None:
    """The state of a whole history, every hash checked; None if there is anything wrong with it.

    None also where a compact state is too small. Whoever gets None folds the entries one by one,
    which says what is wrong.
    """
    state, reader, names = State(compact=compact), LineReader(), dict[str, str]()
    try:
        for position, kind, text, previous, digest in rows:
            named = names.get(kind)
            if named is None:
                named = names[kind] = canonical(kind)
            whole = f"{previous}[{position},{named},{text}]".encode("ascii")
            if (position != state.position + 1 or previous != state.head
                    or hashlib.sha256(whole).hexdigest() != digest):
                return None
            line = reader.read(position, kind, text)
            line.hash = digest
            state.take(cast(Entry, line))
    except (LedgerError, ValueError, TypeError, RecursionError):
        return None
    return state
