"""History: the only code that appends. Everything goes through `commit`, under the store's lock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from attrs import asdict, frozen

from privledger.errors import LedgerCorrupt
from privledger.ledger.entries import Entry, make_entry
from privledger.ledger.holder import is_gone, lease_is_over
from privledger.ledger.state import State
from privledger.ledger.store import Store

Line = tuple[str, dict[str, Any]]
Decision = Callable[[State], Sequence[Line]]


@frozen
class Receipt:
    """Travels with every released model, so that a cut tail or an old copy is found.

    Attributes:
        uuid: identity of the ledger.
        entries: how many entries it had.
        head: hash of the last of them.
        epsilon, delta: what had been spent or reserved by then.
        mode: `private`, or `simulation` (NOT PRIVATE).
        counter: how often the totals moved (charges, refunds, corrections). It never falls in
            one history; unlike `epsilon` it also moves when a refund is spent again. It lies in
            the file, so an old copy brings the old counter back: keep the receipt elsewhere.
    """

    uuid: str
    entries: int
    head: str
    epsilon: float
    delta: float
    mode: str
    counter: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def now() -> str:
    """Wall clock, for information only: nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class History:
    """A store and the state it folds to. Thread safe."""

    def __init__(self, store: Store, *, writable: bool = True) -> None:
        self._writable = writable
        self.store = store
        self.state = State()
        self._lock = threading.RLock()
        self._pending: list[Line] = []

    def refresh(self) -> State:
        """Fold what other processes appended since."""
        with self._lock:
            for entry in self.store.read(self.state.position):
                self.state.apply(entry)
            return self.state

    def commit(
        self, decide: Decision, vectors: dict[str, bytes] | None = None
    ) -> list[Entry]:
        """Under the write lock: catch up, let `decide` choose the lines, make them durable.

        `decide` may raise; then nothing is written. The state moves only after the store
        has said that the entries are durable.
        """
        with self._lock:
            with self.store.transaction() as transaction:
                for entry in transaction.read(self.state.position):
                    self.state.apply(entry)
                lines = [*self._pending, *decide(self.state)]
                entries: list[Entry] = []
                position, head = self.state.position, self.state.head
                for kind, body in lines:
                    position += 1
                    entry = make_entry(position, kind, body, head)
                    head = entry.hash
                    entries.append(entry)
                    transaction.append(entry)
                for name, data in (vectors or {}).items():
                    transaction.put_vector(name, data)
            self._pending.clear()
            for entry in entries:
                self.state.apply(entry)
            return entries

    def note(self, kind: str, body: dict[str, Any]) -> None:
        """Remember a line that costs nothing; it is written with the next commit."""
        with self._lock:
            if self._writable and len(self._pending) < 1000:
                self._pending.append((kind, body))

    def flush(self) -> None:
        """Write what `note` kept."""
        with self._lock:
            if self._pending:
                self.commit(lambda state: [])

    def mark_crashed(self) -> int:
        """Record grants whose holder is gone, or whose lease is over.

        Their whole reservation stays spent.
        """
        moment = now()
        gone = {grant.grant: why for grant in self.refresh().grants.values()
                if grant.status == "granted" and (why := _why_gone(grant.body, moment))}
        if gone:
            self.commit(lambda state: [
                ("crashed", {"grant": name, "time": moment, "why": why})
                for name, why in gone.items() if state.grants[name].status == "granted"
            ])
        return len(gone)

    def receipt(self) -> Receipt:
        """What the ledger looks like now, in seven values."""
        return receipt_of(self.state)


def receipt_of(state: State) -> Receipt:
    """The receipt of what `state` was folded from."""
    if state.budget is None:
        raise LedgerCorrupt("the history is empty: not a ledger")
    epsilon = state.rule.epsilon_of(state.units) if state.rule else 0.0
    return Receipt(state.uuid, state.position + 1, state.head, epsilon, state.budget.delta,
                   state.mode, state.charges)


def _why_gone(body: dict[str, Any], moment: str) -> str:
    if is_gone(body["holder"]):
        return "the process that held it is gone"
    return "its lease is over" if lease_is_over(body, moment) else ""
