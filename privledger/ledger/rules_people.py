"""Checks of what a ledger of people keeps by their places: who is known, and who spent."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from privledger.errors import LedgerCorrupt
from privledger.findings import Finding
from privledger.ledger.codec_lines import Line, LineOf
from privledger.ledger.events import Created, Enrolled, Granted, Settled
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.limits import MOST_TOTAL_RECORDS
from privledger.ledger.people_spent import each_piece
from privledger.ledger.pieces import read_whole
from privledger.ledger.roster import Roster, members_of
from privledger.ledger.state import State
from privledger.ledger.store import Store

Findings = Iterable[Finding]


class PeopleMatch:
    """Batches follow each other and name nobody twice; who is in a table is known; what people
    spent is what its settlement names, and nobody is past the cap in all tables together."""

    name = "people-match"

    def __init__(self, store: Store) -> None:
        self._store, self._roster = store, Roster()
        self._person = False
        self._scopes: dict[str, str] = {}
        self._totals: dict[str, NDArray[np.int64]] = {}
        self._records = 0

    def idle(self, line: Line) -> bool:
        """Only people and what they spent are looked at."""
        event = line.event
        return not self._person or not (
            event.scope if isinstance(event, Granted) else
            event.vector if isinstance(event, Settled) else None)

    def on_created(self, line: LineOf[Created], state: State | None) -> Findings:
        """Note whom the promise is about."""
        self._person = line.event.unit == "person"
        return ()

    def on_enrolled(self, line: LineOf[Enrolled], state: State | None) -> Findings:
        """The new ones follow those before; who is in the table is known by then."""
        event = line.event
        self._roster.enrol(self._store, event)
        there = members_of(self._store, event)
        if len(there) > self._roster.size:
            yield Finding(self.name, line.position, "a table has people who are not known")

    def on_granted(self, line: LineOf[Granted], state: State | None) -> Findings:
        """Note which scope the grant draws on: what is spent under it is the scope's."""
        if line.event.scope:
            self._scopes[line.event.grant] = line.event.scope
        return ()

    def on_settled(self, line: LineOf[Settled], state: State | None) -> Findings:
        """What was spent has to be there, as it is named."""
        note = line.event.vector
        if not self._person or not note:
            return
        count = read_whole(self._store, note).count
        if count > self._roster.size:
            raise LedgerCorrupt("people spent who are not known")
        self._records += count
        if self._records > MOST_TOTAL_RECORDS:
            yield Finding("within-the-limits", line.position,
                          f"the vectors up to here hold more than {MOST_TOTAL_RECORDS} records: "
                          "not read")
            return
        scope = self._scopes.get(line.event.grant, note.name)
        before = self._totals.get(scope, np.zeros(0, np.int64))
        total = np.zeros(self._roster.size, np.int64)
        total[:len(before)] = before
        self._totals[scope] = total
        for first, taken, rounds in each_piece(self._store, note):
            some = total[first:first + len(taken)]
            wrong = int(taken.min()) < 0 or int(taken.max()) > RECORD_UNITS
            if not wrong:
                some += taken
            if wrong or int(some.max()) > RECORD_UNITS or int(rounds.min()) < 0:
                yield Finding(self.name, line.position, "a person is past the cap")
                return
