"""What a store keeps -> a state: from its checkpoint, or from the first entry on."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from attrs import define

from privledger.errors import LedgerError
from privledger.graph import canonical
from privledger.ledger.checkpoint import Checkpoint, NamesDigest, restore
from privledger.ledger.codec_lines import LineReader
from privledger.ledger.entries import Entry, is_whole
from privledger.ledger.seals import is_known
from privledger.ledger.state import GrantIsClosed, State
from privledger.ledger.store import Row, Store


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
    found = restore(kept, text)
    if found is None:
        return None
    state, names = found
    if not is_known(store.location, state.uuid, kept.seal):
        return None
    entries = store.read(state.position - 1)
    if not entries or not _is_head(state, entries[0]):
        return None
    follow(store, state, entries[1:])
    return state, Mark(entries[0].position, names)


def from_the_first(store: Store) -> State:
    """Fold everything: at once if nothing is wrong, else one by one, which says what is."""
    state = fold_rows(store.rows(), compact=True)
    if state is None:
        state = State(compact=True)
        for entry in _one_by_one(store):
            follow(store, state, [entry])
    return state


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


def in_full(store: Store) -> State:
    """Every grant, folded afresh from the whole history."""
    state = fold_rows(store.rows(), compact=False)
    return _folded(_one_by_one(store)) if state is None else state


def _one_by_one(store: Store) -> Iterator[Entry]:
    """Every entry; never more than one of them in memory, but for its plans."""
    reader = LineReader()
    for row in store.rows():
        yield reader.entry(row, store.location)


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


def _is_head(state: State, entry: Entry) -> bool:
    """Whether `entry` is the last that a state from a checkpoint says it knows."""
    return entry.position == state.position and state.head == entry.hash and is_whole(entry)
