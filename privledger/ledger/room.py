"""What a history has left of the limits that add up, for a writer that keeps to them."""

from __future__ import annotations

from typing import Any

from attrs import define, field

from privledger.errors import LedgerCorrupt
from privledger.ledger.codec import decode
from privledger.ledger.entries import parse_body
from privledger.ledger.events import (
    EVENTS,
    Aborted,
    Corrected,
    Event,
    FilterFixed,
    Granted,
    ScopeOpened,
    Settled,
)
from privledger.ledger.limits import Efforts, check_plan, is_free
from privledger.ledger.limits import effort as effort_of
from privledger.ledger.store import Store
from privledger.ledger.vectors import check_vectors, records_in

_PLANS = (Granted, ScopeOpened, Corrected)


@define
class _Sums:
    """Of a history up to `position`."""

    efforts: Efforts = field(factory=Efforts)
    records: int = 0
    position: int = -1


@define
class Room:
    """Sums over a history as far as it was followed. Two writers may count a plan each that the
    other does not know yet: half of every limit is left for that."""

    _sums: _Sums = field(factory=_Sums)

    def check_plan(self, store: Store, rule: str, plan: Any, *, whole: bool = False) -> None:
        """Refuse a plan that takes too long to price again.

        Args:
            rule: kind of the ledger's filter.
            plan: JSON values of a node.
            whole: by its privacy-loss distribution, see `effort`.

        Raises:
            InvalidPlan: nothing was read.
        """
        needed = effort_of(plan, rule, whole=whole)
        check_plan(needed)
        if self._sums.efforts.is_new(plan, needed, whole=whole):
            efforts = self._follow(store).efforts
            if efforts.is_new(plan, needed, whole=whole):
                check_plan(needed, efforts.total)

    def check_vector(self, store: Store, records: int) -> None:
        """Refuse a filter whose vector would pass a limit.

        Raises:
            InvalidPlan: nothing was answered.
        """
        check_vectors(records, self._follow(store).records)

    def _follow(self, store: Store) -> _Sums:
        """Read what was appended since; only what counts is parsed."""
        # On a copy that takes its place at once: threads may be here together.
        sums = _Sums(self._sums.efforts.copy(), self._sums.records, self._sums.position)
        for position, kind, text, _, _ in store.rows(sums.position):
            sums.position = position
            what = EVENTS.get(kind)
            if what is FilterFixed or (what in _PLANS and not is_free(text)) or (
                    what in (Settled, Aborted) and '"vector":' in text):
                _add(sums, store, decode(kind, parse_body(text)))
        self._sums = sums
        return sums


def _add(sums: _Sums, store: Store, event: Event) -> None:
    if isinstance(event, FilterFixed):
        sums.efforts.kind = str(event.rule)
    elif isinstance(event, _PLANS):
        sums.efforts.add(event.plan, event.delta_units)
    elif isinstance(event, Settled):
        sums.records += _records(store, event)


def _records(store: Store, settled: Settled) -> int:
    try:
        data = None if settled.vector is None else store.vector(settled.vector.name)
        return 0 if data is None else records_in(data)
    except LedgerCorrupt:
        return 0  # an audit says so
