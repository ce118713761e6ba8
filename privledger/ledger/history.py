"""History: the only code that appends. Everything goes through `commit`, under the store's lock.

Threads that commit at the same time share one transaction: each puts its decision into a queue,
the first of them decides all in that order, and everybody waits for the one write.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from attrs import asdict, define, frozen

from privledger.errors import LedgerCorrupt
from privledger.ledger.checkpoint import NamesDigest, covered, is_due, names_text, restore, take
from privledger.ledger.entries import Entry, chain_hash, make_entry
from privledger.ledger.folding import fold_rows
from privledger.ledger.holder import is_gone, lease_is_over
from privledger.ledger.queue import CommitQueue, Decision, Line, Ticket
from privledger.ledger.state import GrantIsClosed, State
from privledger.ledger.store import Store, Transaction

T = TypeVar("T")

MOST_NOTES = 1000


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


@define
class _Mark:
    """What this process knows of the checkpoint that the store keeps.

    Attributes:
        broken: it could not be used, so the next one is not built on it.
    """

    position: int
    names: NamesDigest
    broken: bool = False


class History:
    """A store and the compact state it folds to. Thread safe.

    `state` is what is durable. A leader works on a state of its own, the draft, which takes its
    place once the store has said that everything in it is durable.
    """

    def __init__(self, store: Store, *, writable: bool = True) -> None:
        self._writable = writable
        self.store = store
        self.state = State(compact=True)
        self._draft: State | None = None
        self._mark = _Mark(-1, NamesDigest())
        self._pending: list[Line] = []
        self._begin_here()

    def _begin_here(self) -> None:
        """Locks of this process: a forked child would inherit them as they happened to be."""
        self._pid = os.getpid()
        self._lock = threading.RLock()  # of `state` and `_pending`; never held while waiting
        self._queue = CommitQueue(self._write)
        self._draft = None

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._begin_here()

    def refresh(self) -> State:
        """Fold what other processes appended since."""
        self._check_process()
        if self.state.position < 0:
            self._load()
        entries = self.store.read(self.state.position)
        with self._lock:
            self._follow(self.state, entries)
            return self.state

    def _load(self) -> None:
        """Begin with the checkpoint, if there is one and it is of this history."""
        kept = self.store.checkpoint()
        found = None if kept is None else restore(*kept)
        self._mark.broken = kept is not None
        if found is None:
            return self._load_all()
        state, names = found
        entries = self.store.read(state.position - 1)
        if not entries or not _is_head(state, entries[0]):
            return self._load_all()
        self._follow(state, entries[1:])
        with self._lock:
            if self.state.position < 0:
                self._draft = None
                self.state, self._mark = state, _Mark(entries[0].position, names)

    def _load_all(self) -> None:
        """Fold everything, if nothing is wrong; `refresh` goes on from wherever this got."""
        state = fold_rows(self.store.rows(), compact=True)
        with self._lock:
            if state is not None and self.state.position < 0:
                self._draft, self.state = None, state

    def _follow(self, state: State, entries: Sequence[Entry]) -> None:
        """Fold entries that `state` does not know yet."""
        for entry in entries:
            if entry.position > state.position:
                try:
                    state.apply(entry)
                except GrantIsClosed as closed:
                    self._recall(state, closed.grant)
                    state.apply(entry)

    def _recall(self, state: State, grant: str, more: Sequence[Entry] = ()) -> None:
        """Bring back a grant that is over, from the whole history and `more` after it."""
        before = [entry for entry in self.store.read() if entry.position <= state.position]
        state.grants[grant] = _folded([*before, *more]).grants[grant]

    def full(self) -> State:
        """Every grant, folded afresh from the whole history: a copy of the caller's own."""
        state = fold_rows(self.store.rows(), compact=False)
        return _folded(self.store.read()) if state is None else state

    def look(self, at: Callable[[State], T]) -> T:
        """What `at` says of the newest durable state, which nobody changes meanwhile."""
        self.refresh()
        with self._lock:
            return at(self.state)

    def commit(
        self, decide: Decision, vectors: dict[str, bytes] | None = None
    ) -> list[Entry]:
        """Under the write lock: catch up, let `decide` choose the lines, make them durable.

        `decide` may raise; then nothing of it is written, and nobody else is affected. If the
        transaction fails, everybody in it fails. The state moves only after the store has said
        that the entries are durable. `decide` must not use this history.
        """
        self._check_process()
        return self._queue.run(Ticket(decide, vectors or {}))

    def _write(self, tickets: Sequence[Ticket]) -> None:
        """Decide every ticket in order, in one transaction. Called by one thread at a time."""
        with self._lock:
            draft = self._draft if self._draft is not None else self.state.fork()
            self._draft, notes = None, list(self._pending)
        with self.store.transaction() as transaction:
            self._follow(draft, transaction.read(draft.position))
            entries: list[Entry] = []
            for ticket in tickets:
                draft = self._add(draft, ticket, notes, entries)
            for entry in entries:
                transaction.append(entry)
            for ticket in tickets:
                if ticket.error is None:
                    for name, data in ticket.vectors.items():
                        transaction.put_vector(name, data)
            mark = self._checkpoint(draft, transaction)
        with self._lock:
            if entries:
                del self._pending[: len(notes)]
            behind, self.state, self._mark = self.state, draft, mark or self._mark
            self._catch_up(behind, entries)

    def _catch_up(self, behind: State, entries: Sequence[Entry]) -> None:
        """Let the state that was shown until now become the next draft."""
        try:
            for entry in entries:
                if entry.position == behind.position + 1:
                    behind.take(entry)
            self._draft = behind
        except GrantIsClosed:
            self._draft = None  # the next leader forks another

    def _add(self, draft: State, ticket: Ticket, notes: Sequence[Line],
             entries: list[Entry]) -> State:
        """Decide one ticket and fold its lines into the draft; a refusal leaves it as it was.

        Notes come before the first lines of a transaction.
        """
        count, recalled = len(entries), ""
        while True:
            try:
                lines = ticket.decide(draft)
                for kind, body in lines if entries else [*notes, *lines]:
                    entries.append(make_entry(draft.position + 1, kind, body, draft.head))
                    draft.take(entries[-1])
                ticket.entries = entries[count:]
                return draft
            except Exception as error:
                if len(entries) > count:  # some of its lines were folded in already
                    del entries[count:]
                    draft = self._without(entries)
                if recalled or not isinstance(error, GrantIsClosed):
                    ticket.error = error
                    draft.grants.pop(recalled, None)
                    return draft
                recalled = error.grant
                self._recall(draft, recalled, entries)

    def _without(self, entries: Sequence[Entry]) -> State:
        """A draft that knows what is durable and `entries`, and nothing else."""
        with self._lock:
            draft = self.state.fork()
        first = entries[0].position if entries else None
        self._follow(draft, [entry for entry in self.store.read(draft.position)
                             if first is None or entry.position < first])
        self._follow(draft, entries)
        return draft

    def _checkpoint(self, draft: State, transaction: Transaction) -> _Mark | None:
        """Keep a checkpoint of the draft if one is due. O(1) for each entry, all in all."""
        if not is_due(draft, self._mark.position):
            return None
        kept = None if self._mark.broken else transaction.last_checkpoint()
        # Another process may have been here.
        if kept is not None and covered(kept) and kept.position <= draft.position and (
                not is_due(draft, kept.position)):
            return _Mark(kept.position, self._mark.names)
        names = self._mark.names.copy()
        there = None if kept is None else covered(kept)
        first = 0
        if there is not None and names.count <= there[0] <= len(draft.closed) and (
                names.bring(draft.closed, there[0]) == there[1]):
            first = there[0]
        text = names_text(draft.closed[first:])
        checkpoint = take(draft, names.bring(draft.closed, len(draft.closed)))
        transaction.put_checkpoint(checkpoint, text, afresh=first == 0)
        return _Mark(draft.position, names)

    def note(self, kind: str, body: dict[str, Any]) -> None:
        """Remember a line that costs nothing; it is written with the next commit."""
        self._check_process()
        with self._lock:
            if self._writable and len(self._pending) < MOST_NOTES:
                self._pending.append((kind, body))

    def flush(self) -> None:
        """Write what `note` kept."""
        if self._pending:
            self.commit(lambda state: [])

    def mark_crashed(self) -> int:
        """Record grants whose holder is gone, or whose lease is over.

        Their whole reservation stays spent.
        """
        moment = now()
        gone = self.look(lambda state: {
            grant.grant: why for grant in state.grants.values()
            if grant.status == "granted" and (why := _why_gone(grant.body, moment))})
        if gone:
            self.commit(lambda state: [
                ("crashed", {"grant": name, "time": moment, "why": why})
                for name, why in gone.items()
                if name in state.grants and state.grants[name].status == "granted"
            ])
        return len(gone)

    def receipt(self) -> Receipt:
        """What the ledger looks like now, in seven values."""
        with self._lock:
            return receipt_of(self.state)


def receipt_of(state: State) -> Receipt:
    """The receipt of what `state` was folded from."""
    if state.budget is None:
        raise LedgerCorrupt("the history is empty: not a ledger")
    epsilon = state.rule.epsilon_of(state.units) if state.rule else 0.0
    return Receipt(state.uuid, state.position + 1, state.head, epsilon, state.budget.delta,
                   state.mode, state.charges)


def _folded(entries: Sequence[Entry]) -> State:
    state = State()
    for entry in entries:
        state.apply(entry)
    return state


def _is_head(state: State, entry: Entry) -> bool:
    """Whether `entry` is the last that a state from a checkpoint says it knows."""
    return entry.position == state.position and state.head == entry.hash == chain_hash(
        entry.position, entry.kind, entry.body, entry.previous)


def _why_gone(body: dict[str, Any], moment: str) -> str:
    if is_gone(body["holder"]):
        return "the process that held it is gone"
    return "its lease is over" if lease_is_over(body, moment) else ""
