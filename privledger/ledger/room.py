"""What a history has left of the limits that add up, for a writer that keeps to them."""

from __future__ import annotations

import json
from typing import Any

from attrs import define, field

from privledger.errors import LedgerCorrupt
from privledger.ledger.limits import Efforts, check_plan, is_free
from privledger.ledger.limits import effort as effort_of
from privledger.ledger.store import Store
from privledger.ledger.vectors import check_vectors, records_in

_PLANS = ("granted", "scope", "corrected")


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

    def check_plan(self, store: Store, kind: str, body: dict[str, Any], *,
                   whole: bool = False) -> None:
        """Refuse a plan that takes too long to price again; `body` is of its entry.

        Raises:
            InvalidPlan: nothing was read.
        """
        needed = effort_of(body["plan"], kind, whole=whole)
        check_plan(needed)
        if self._sums.efforts.is_new(body["plan"], needed, whole=whole):
            efforts = self._follow(store).efforts
            if efforts.is_new(body["plan"], needed, whole=whole):
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
            if kind == "filter":
                sums.efforts.kind = str(json.loads(text)["kind"])
            elif kind in _PLANS and not is_free(text):
                sums.efforts.add(json.loads(text))
            elif kind in ("settled", "aborted") and '"vector":' in text:
                sums.records += _records(store, json.loads(text))
        self._sums = sums
        return sums


def _records(store: Store, body: dict[str, Any]) -> int:
    try:
        data = store.vector(body["vector"]["name"])
        return 0 if data is None else records_in(data)
    except LedgerCorrupt:
        return 0  # an audit says so
