"""A long ledger in a moment: its own totals, its hashes checked, its last grants.

To read and price everything again takes seconds for a million entries, and `verify` does that.
What is said here rests on the totals that the ledger itself keeps, and says so.
"""

from __future__ import annotations

from attrs import evolve

from privledger.errors import LedgerCorrupt
from privledger.findings import Finding
from privledger.ledger import Entry, History, State, Store
from privledger.ledger.auditing import chain_findings
from privledger.ledger.entries import entries_of
from privledger.ledger.events import Corrected, Crashed, Granted, Released, Settled
from privledger.reports.spend import LedgerReport, ledger_report
from privledger.reports.verdict import OVER

LONG = 100_000
"""Entries: a longer history is not priced again unless somebody asks for it."""

LAST = 20
"""Grants that are listed."""

_TAIL = 400  # entries that are looked at for them
_OF_GRANTS = (Granted, Released, Settled, Crashed, Corrected)


def is_long(store: Store) -> bool:
    """Whether a history is so long that only its hashes are read again."""
    return next(iter(store.rows(after=LONG - 1)), None) is not None


def brief_report(store: Store) -> LedgerReport:
    """Totals, the last grants, and every fault of the place and of the chain."""
    findings = list(store.inspect())
    state = History(store, writable=False).refresh()
    broken, head = chain_findings(store)
    findings += broken
    if state.broken:  # its own totals say so: nothing has to be priced for that
        findings.append(Finding(OVER, state.position, state.broken))
    if state.head != head and not broken:
        raise LedgerCorrupt(f"{store.location}: the history moved while it was read; ask again")
    tail = store.read(max(0, state.position - _TAIL))
    listed = _listed(state, tail)
    first = entries_of([next(iter(store.rows()))], store.location)
    report = ledger_report(store, listed, ([*first, *tail], findings))
    known = state.closed_names | state.grants.keys() | state.scopes.keys()
    return evolve(report, entries=state.position + 1, repriced=False, tables=(),
                  unlisted=len(known) - len(report.grants))


def _listed(state: State, tail: list[Entry]) -> State:
    """The totals of the whole history, with the grants of its last entries only."""
    recent = evolve(state, compact=False, grants={}, closed=[], closed_names=set())
    for entry in tail:
        event = entry.event
        if isinstance(event, _OF_GRANTS) and (isinstance(event, Granted)
                                              or event.grant in recent.grants):
            recent.take(entry)
    return evolve(state, compact=False, grants=dict(list(recent.grants.items())[-LAST:]),
                  scopes=dict(list(state.scopes.items())[-LAST:]))
