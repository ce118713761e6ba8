"""History: the only code that appends. Everything goes through `commit`, under the store's lock.

Threads that commit at the same time share one transaction: each puts its decision into a queue,
the first of them decides all in that order, and all of them wait for the one write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast

from attrs import define, frozen

from privledger import mutex
from privledger.errors import LedgerCorrupt, LedgerError
from privledger.ledger.checkpoint import (
    Checkpoint,
    NamesDigest,
    Receipt,
    covered,
    is_due,
    is_known,
    names_text,
    receipt_later,
    remember_checkpoint,
    restore_state,
    take_checkpoint,
)
from privledger.ledger.codec import decode
from privledger.ledger.codec_lines import Line, LineReader, Usual, event_as
from privledger.ledger.decide import Room
from privledger.ledger.entries import (
    Entry,
    is_gone,
    is_whole,
    lease_is_over,
    make_entry,
    now,
    parse_body,
)
from privledger.ledger.epochs import Epoch, find_epoch, follow_blocks
from privledger.ledger.events import Corrected, Crashed, Event, Granted, Protected
from privledger.ledger.queue import CommitQueue, Decision, Ticket
from privledger.ledger.state import GrantIsClosed, GrantState, State
from privledger.ledger.store import (
    Chain,
    Row,
    Store,
    StoredRows,
    Transaction,
    check_head,
    check_spend_vectors,
    read_back,
)
from privledger.ledger.view_columns import EndedGrants
from privledger.reading import stepwise

# What a store keeps -> a state: from its checkpoint, or from the first entry on.

@define
class Mark:
    """What this process knows of the checkpoint that the store keeps.

    Attributes:
        broken: it could not be used, so the next one is not built on it.
        seal: of the one that was written by this process just now, else empty.
    """

    position: int
    names: NamesDigest
    broken: bool = False
    seal: str = ""


def resumed(store: Store, kept: Checkpoint, text: str) -> tuple[State, Mark] | None:
    """The state from a checkpoint on; None if it is not of this history, or not made by us."""
    found = restore_state(kept, text)
    if found is None:
        return None
    state, names = found
    if not is_known(store.location, state.uuid, kept.seal):
        return None
    mark = Mark(state.position, names)
    return (state, mark) if _goes_on(store, state) else None


def _goes_on(store: Store, state: State) -> bool:
    """Whether the last entry of a state that was kept is there; what comes behind it is folded."""
    entries = store.read(state.position - 1)
    last = entries[0] if entries else None
    if last is None or (last.position, last.hash) != (state.position, state.head) or (
            not is_whole(last)):
        return False
    follow(store, state, entries[1:])
    return True


def fold_rows(rows: Iterable[Row], *, compact: bool,
              ended: Callable[[GrantState], None] | None = None,
              begun: tuple[State, Chain] | None = None) -> State | None:
    """The state of a whole history, every hash checked; None if there is anything wrong with it.

    None also where a compact state is too small. A caller that gets None folds the entries one by
    one, which says what is wrong.

    Args:
        ended: as of `State`. begun: what is known before the first of the rows.
    """
    state, chain = begun or (State(compact=compact, ended=ended), Chain())
    reader = LineReader()
    try:
        for row in rows:
            if chain.add(row):
                return None
            line = reader.read(*row[:3])
            line.hash = row[4]
            state.take(cast(Entry, line))
    except (LedgerError, ValueError, TypeError, RecursionError):
        return None
    return state


def state_of(epoch: Epoch, ended: Callable[[GrantState], None],
             wanted: Callable[[str], bool]) -> State:
    """The state of an epoch, with its tables, as one that lets go of grants that are over.

    Args:
        ended: takes those on tables that are `wanted`, as far as they are over; as of `State`.
    """
    state, seen, found = epoch.state, epoch.seen, dict[str, Protected]()
    for row in epoch.rows:
        if row[1] == "protected":
            event = cast(Protected, decode(row[1], parse_body(row[2])))
            found[event.data] = event
    state.tables = {name: found[name] for name, _ in seen["tables"]}
    for grant in EndedGrants.unpacked(seen["grants"]).each(wanted):
        ended(grant)
    state.compact, state.ended = False, ended
    return state


def each_row(store: Store, after: int = -1) -> Iterator[tuple[Row, Usual | Line | Entry]]:
    """Every row behind `after`, and what it is as (`LineReader.usual`), or else its line, or its
    entry where it is not the canonical text. Never more than one of them is in memory, but for the
    plans that they share.

    Raises:
        LedgerCorrupt: one is no JSON, or too large.
    """
    reader = LineReader()
    for row in stepwise("entries read", StoredRows(store, after)):
        position, kind, text, previous, digest = row
        found: Usual | Line | None = None
        try:
            if type(position) is int and type(previous) is type(digest) is str:
                found = reader.usual(kind, text) or reader.read(position, kind, text)
        except (ValueError, TypeError, RecursionError):
            pass
        yield row, found or reader.entry(row, store.location)


def each_entry(store: Store) -> Iterator[Entry]:
    """Every entry; as `each_row`."""
    for (position, _, text, previous, digest), found in each_row(store):
        yield found if isinstance(found, Entry) else Entry(
            position, event_as(found), previous, digest, text)


class SameEntries:
    """The entries of a store again, as often as needed, as far as a state knows them."""

    def __init__(self, store: Store, state: State) -> None:
        self._store, self._head, self._count = store, state.head, state.position + 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Entry]:
        """Raises: LedgerCorrupt: they are others by now."""
        chain = Chain()
        for one in each_entry(self._store):
            if chain.previous == self._head:
                return
            if chain.add((one.position, one.event.kind, one.text, one.previous, one.hash)):
                break
            yield one
        else:
            if chain.previous == self._head:
                return
        raise LedgerCorrupt(f"{self._store.location}: the history changed while it was read. Try "
                            "again")


def follow(store: Store, state: State, entries: Sequence[Entry],
           before: Sequence[Entry] = ()) -> None:
    """Fold entries that `state` does not know yet; `before` may have the whole history."""
    for entry in entries:
        if entry.position > state.position:
            try:
                state.apply(entry)
            except GrantIsClosed as closed:
                bring_back(store, state, closed.grant, before=before)
                state.apply(entry)


def bring_back(store: Store, state: State, grant: str, more: Sequence[Entry] = (),
               before: Sequence[Entry] = ()) -> None:
    """Bring back a grant that is over, from the whole history and `more` after it."""
    kept = [entry for entry in before or store.read() if entry.position <= state.position]
    state.grants[grant] = _folded([*kept, *more]).grants[grant]


def _folded(entries: Iterable[Entry]) -> State:
    state = State()
    for entry in entries:
        state.apply(entry)
    return state


T = TypeVar("T")
Written = list[tuple[Ticket, list[Entry]]]

MOST_NOTES = 1000


@frozen
class _Flight:
    """A transaction that is being committed.

    Attributes:
        written: tickets, and the entries they become if it arrives.
        last: the last of these entries; it is in the history exactly if all of them are.
        notes: what else was written.
    """

    written: Written
    last: Entry
    notes: list[Event]


class History:
    """A store and the compact state it folds to. Thread safe; an interrupt may come at any line.

    `state` is what is durable. A leader works on a state of its own, the draft, which takes its
    place once the store has said that everything in it is durable. What an interrupted leader
    was committing stays in flight: the next one asks the store whether it arrived.
    """

    def __init__(self, store: Store, *, writable: bool = True) -> None:
        self._writable = writable
        self.store = store
        self.state = State(compact=True)
        self._draft: State | None = None
        self._mark = Mark(-1, NamesDigest())
        self._pending: list[Event] = []
        self._torn = False  # `state` is being folded on, or an interrupt came while it was
        self.room = Room()
        self.ended: set[str] = set()
        """Places in line that are over, as the store says."""
        self._begin_here()

    def _begin_here(self) -> None:
        """The line of this process: a forked child would wait in it for its parent's threads."""
        self._lock = mutex.Mutex()  # of `state` and `_pending`; never held while waiting
        self._queue = CommitQueue(self._write)
        self._draft = None
        self._flight: _Flight | None = None
        self.unsettled: dict[str, Any] = {}  # grant -> Settlement that could not be written yet
        self.recoverable: set[str] = set()  # grants of which there is a spill
        self._pid = mutex.threads.process()

    def _check_process(self) -> None:
        if self._pid != mutex.threads.process():
            self._begin_here()

    def refresh(self) -> State:
        """Fold what other processes appended since."""
        self._check_process()
        while True:
            self._mend()
            if self.state.position < 0:
                self._load()
            entries = self.store.read(self.state.position)
            # Read here: no thread waits for the store while holding the lock.
            recall = any(isinstance(entry.event, Corrected) for entry in entries)
            before = self.store.read() if recall else ()
            with self._lock:
                if not self._torn:
                    self._fold(entries, before)
                    return self.state

    def _fold(self, entries: Sequence[Entry], before: Sequence[Entry]) -> None:
        """Fold on the state that all threads see, under the lock."""
        self._torn = True
        try:
            follow(self.store, self.state, entries, before)
        except Exception:
            self._torn = False  # it would fail again, after reading everything
            raise
        self._torn = False

    def _mend(self) -> None:
        """Read everything again if an interrupt came while the state was being folded on."""
        with self._lock:
            torn = self._torn
        if torn:
            state = State(compact=True)
            follow(self.store, state, self.store.read())
            with self._lock:
                if self._torn:
                    self._draft, self.state = None, state
                    self._torn = False

    def _fork(self) -> State:
        """A state of one's own, under the lock; an empty one if what there is was torn."""
        return State(compact=True) if self._torn else self.state.fork()

    def _load(self) -> None:
        """Begin with the checkpoint, if there is one of this history that we made ourselves."""
        kept = self.store.checkpoint()
        found = None if kept is None else resumed(self.store, *kept)
        self._mark.broken = kept is not None
        epoch = find_epoch(self.store) if found is None else None
        if epoch is not None and _goes_on(self.store, epoch.state):
            found = epoch.state, self._mark
        if found is None:
            return self._load_all()
        with self._lock:
            if self.state.position < 0:
                self._draft = None
                self.state, self._mark = found

    def _load_all(self) -> None:
        """Fold everything: at once if nothing is wrong, else one by one, which says what is."""
        state = fold_rows(stepwise("entries read", StoredRows(self.store)), compact=True)
        if state is None:
            state = State(compact=True)
            for entry in each_entry(self.store):
                follow(self.store, state, [entry])
        with self._lock:
            if self.state.position < 0:
                self._draft, self.state = None, state

    def full(self, table: str | None = None) -> State:
        """Every grant, folded afresh from the whole history: a copy of the caller's own.

        Args:
            table: of grants that are over on another table, each table's first is enough.
        """
        state = None if table is None else self._of(table)
        state = state or fold_rows(stepwise("entries read", StoredRows(self.store)), compact=False)
        return _folded(each_entry(self.store)) if state is None else state

    def _of(self, table: str) -> State | None:
        kept, others = list[GrantState](), set[str]()

        def wanted(data: str) -> bool:
            return data == table or data not in others

        def ended(grant: GrantState) -> None:
            if wanted(grant.event.data):
                kept.append(grant)
                others.add(grant.event.data)

        epoch, chain, begun = find_epoch(self.store), Chain(), None
        if epoch is not None and epoch.follow(self.store, chain):
            begun = state_of(epoch, ended, wanted), chain
        state = fold_rows(stepwise("entries read", StoredRows(
            self.store, -1 if begun is None else chain.expected - 1)), compact=False,
            ended=ended, begun=begun)
        if state is not None:
            kept += state.grants.values()
            state.grants = {one.grant: one for one in sorted(kept, key=lambda one: one.position)}
            state.ended = None
        return state

    def look(self, at: Callable[[State], T]) -> T:
        """What `at` says of the newest durable state, which does not change meanwhile."""
        while True:
            self.refresh()
            with self._lock:
                if not self._torn:
                    return at(self.state)

    def known(self, at: Callable[[State], T]) -> T:
        """As `look`, of what this process knows: the store is not asked."""
        self._check_process()
        with self._lock:
            return at(self.state)

    def commit(
        self, decide: Decision, vectors: dict[str, bytes] | None = None
    ) -> list[Entry]:
        """Under the write lock: catch up, let `decide` choose the lines, make them durable.

        `decide` may raise; then nothing of it is written, and no other request is affected. If the
        transaction fails, every request in it fails. After an interrupt of the thread that writes,
        the others are decided again, unless what was written for them has arrived. The state
        moves only after the store has said that the entries are durable. `decide` must not use
        this history, and may be asked more than once.

        Returns:
            The entries as the store gave them back inside the transaction: their bodies are
            made from the stored text, and share nothing with what `decide` returned.
        """
        self._check_process()
        return self._queue.run(Ticket(decide, vectors or {}))

    def _write(self, tickets: Sequence[Ticket]) -> None:
        """Decide every ticket in order, in one transaction. Called by one thread at a time."""
        self._land()
        tickets = [ticket for ticket in tickets if not ticket.done]
        with self._lock:
            draft = self._draft if self._draft is not None else self._fork()
            self._draft, notes = None, list(self._pending)
        with self.store.transaction() as transaction:
            check_head(transaction, draft.position, draft.head, self.store.location)
            follow(self.store, draft, transaction.read(draft.position))
            entries: list[Entry] = []
            for ticket in tickets:
                ticket.entries, ticket.error = [], None
                draft = self._add(draft, ticket, notes, entries)
            for entry in entries:
                transaction.append(entry)
            for ticket in tickets:
                if ticket.error is None:
                    for name, data in ticket.vectors.items():
                        transaction.put_vector(name, data)
            mark = self._checkpoint(draft, transaction)
            # Last of all, so that nothing in the store can undo it before the commit.
            given_back = read_back(transaction, entries, self.store.location)
            for ticket in tickets:
                if ticket.error is None:
                    check_spend_vectors(transaction, ticket.vectors, self.store.location)
                    ticket.entries = [given_back[entry.position] for entry in ticket.entries]
            if entries:
                written = [(one, one.entries) for one in tickets if one.error is None]
                self._flight = _Flight(written, entries[-1], notes)
        with self._lock:
            if entries:
                self._forget(notes)
            self._swap(draft, entries)
            self._mark = mark or self._mark
        for ticket in tickets:
            ticket.done = True
        self._flight = None
        if mark is not None and mark.seal:
            remember_checkpoint(self.store.location, draft.uuid, mark.seal)
            with suppress(LedgerError, OSError):  # what was written is durable all the same
                follow_blocks(self.store, draft.uuid, Chain(), behind=True)

    def _land(self) -> None:
        """What became of a transaction whose thread was interrupted."""
        flight = self._flight
        if flight is None:
            return
        with self.store.transaction() as transaction:  # waits until the lost one has ended
            there = transaction.read(flight.last.position - 1)[:1]
        if there and there[0].hash == flight.last.hash:
            self.refresh()
            with self._lock:
                self._forget(flight.notes)
            for ticket, entries in flight.written:
                ticket.answer(entries)
        self._flight = None

    def _forget(self, notes: Sequence[Event]) -> None:
        """Notes that are durable, by identity: it may be said twice."""
        written = {id(note) for note in notes}
        self._pending = [note for note in self._pending if id(note) not in written]

    def _swap(self, draft: State, entries: Sequence[Entry]) -> None:
        """Show the draft; what was shown until now becomes the next one, if it is whole."""
        behind, whole = self.state, not self._torn
        self.state = draft
        self._torn = False
        if whole:
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

    def _add(self, draft: State, ticket: Ticket, notes: Sequence[Event],
             entries: list[Entry]) -> State:
        """Decide one ticket and fold its lines into the draft; a refusal leaves it as it was.

        Notes come before the first lines of a transaction.
        """
        count, recalled = len(entries), ""
        while True:
            try:
                lines = ticket.decide(draft)
                for one in lines if entries else [*notes, *lines]:
                    entries.append(make_entry(draft.position + 1, one, draft.head))
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
                bring_back(self.store, draft, recalled, entries)

    def _without(self, entries: Sequence[Entry]) -> State:
        """A draft that knows what is durable and `entries`, and nothing else."""
        with self._lock:
            draft = self._fork()
        first = entries[0].position if entries else None
        follow(self.store, draft, [entry for entry in self.store.read(draft.position)
                                   if first is None or entry.position < first])
        follow(self.store, draft, entries)
        return draft

    def _checkpoint(self, draft: State, transaction: Transaction) -> Mark | None:
        """Keep a checkpoint of the draft if one is due. O(1) for each entry, all in all."""
        if not is_due(draft, self._mark.position):
            return None
        kept = None if self._mark.broken else transaction.last_checkpoint()
        # Another process may have been here.
        if kept is not None and covered(kept) and kept.position <= draft.position and (
                not is_due(draft, kept.position)):
            return Mark(kept.position, self._mark.names)
        names = self._mark.names.copy()
        there = None if kept is None else covered(kept)
        first = 0
        if there is not None and names.count <= there[0] <= len(draft.closed) and (
                names.bring(draft.closed, there[0]) == there[1]):
            first = there[0]
        text = names_text(draft.closed[first:])
        checkpoint = take_checkpoint(draft, names.bring(draft.closed, len(draft.closed)))
        transaction.put_checkpoint(checkpoint, text, afresh=first == 0)
        return Mark(draft.position, names, seal=checkpoint.seal)

    def note(self, event: Event) -> None:
        """Remember what costs nothing; it is written with the next commit."""
        self._check_process()
        with self._lock:
            if self._writable and len(self._pending) < MOST_NOTES:
                self._pending.append(event)

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
            if grant.status == "granted" and (why := _why_gone(grant.event, moment))})
        believed = self.store.markable(gone) if gone else set()
        gone = {name: why for name, why in gone.items() if name in believed}
        if gone:
            self.commit(lambda state: [
                Crashed(name, moment, why)
                for name, why in gone.items()
                if name in state.grants and state.grants[name].status == "granted"
            ])
        return len(gone)

    def ask_who_left(self) -> bool:
        """Ask the store whose places in line are over; whether these are more than before."""
        waiting = self.known(lambda state: set(state.line))
        more = self.store.ended(waiting - self.ended) if waiting - self.ended else set()
        self.ended = self.ended & waiting | more
        return bool(more)

    def receipt(self) -> Receipt:
        """What the ledger looks like now, and when that is."""
        return self.receipt_later()()

    def receipt_later(self) -> Callable[[], Receipt]:
        """As `receipt`, of now, when it is asked for."""
        self._mend()
        with self._lock:
            return receipt_later(self.state, now())


def first_entries(lines: Sequence[Event]) -> list[Entry]:
    """The beginning of a history, from its first lines.

    Raises:
        LedgerError: no history begins like that.
    """
    state, entries = State(), list[Entry]()
    for one in lines:
        entries.append(make_entry(state.position + 1, one, state.head))
        state.apply(entries[-1])
    return entries


def _why_gone(granted: Granted, moment: str) -> str:
    if is_gone(granted.holder):
        return "the process that held it has ended"
    return "its lease has expired" if lease_is_over(granted, moment) else ""
