"""Sealed epochs: what an audit without a finding came to, kept, so that the next one goes on there.

An epoch says: this user's own process, with this very code, audited the history up to the entry
with this hash, found no fault, and this is what it added up to. It lies outside of the ledger,
where checkpoints' seals lie, under a key of the same place. It is used only if its key, its code,
the hash of its last entry and, anew, the chain up to there are right. It is never evidence:
anything else about it, and any finding after it, has the whole history read again.
Format: docs/ledger-format.md.
"""

from __future__ import annotations

import hmac
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import cast

import msgspec
from attrs import define, field, frozen

from privledger.ledger.checkpoint import (
    Checkpoint,
    NamesDigest,
    Packed,
    names_text,
    read_ours,
    restore_state,
    state_folder,
    state_path,
    take_checkpoint,
)
from privledger.ledger.entries import now, parse_body
from privledger.ledger.events import Event, Settled
from privledger.ledger.limits import Efforts
from privledger.ledger.state import GrantState, State
from privledger.ledger.store import Chain, Look, Row, Store
from privledger.numerals import many
from privledger.reading import write_whole

LEAST = 5000
"""Entries of a history, and behind its last epoch, that are worth another."""
BLOCK = 4096
"""Entries that are hashed together where a seal covers them."""
MOST_BLOCK = 4 << 20
"""Bytes of such entries: of longer ones each is hashed alone."""
MOST_EPOCH = 96 << 20
"""Bytes; a history that adds up to more is read whole each time."""
_MAC, _KEY = 32, "epochs.key"
BY: dict[str, str | None] = {
    "granted": "grant", "released": "grant", "settled": "grant", "aborted": "grant",
    "protected": "data", "created": "", "filter": "", "scope": "", "enrolled": "",
    "refused": None, "crashed": None, "corrected": None, "window": None}
"""Kind of entry -> by which of its fields rules remember it: the last of a data set, all of a grant
until it ends; empty for always, None for not at all."""


@frozen
class SealedStretch:
    """Which stretch was not read again but for its bytes: so many entries, audited then."""

    entries: int
    head: str
    time: str

    @property
    def text(self) -> str:
        """What was read of it now, and when the rest was found right; a clause."""
        return ("every stored byte was checked; the first "
                f"{many(self.entries, 'entry', 'entries')} were re-priced by this user on "
                f"{self.time}, all others now (verify --all re-prices everything)")


@frozen
class Epoch:
    """What a stretch of a history came to.

    Attributes:
        sealed: which stretch. state: at its end, compact.
        rows: what rules remember something of, as stored: of grants that are open, have a vector
            or drew on a scope, and of what these need. They are read again.
        efforts: what pricing its plans took.
        checkpoint: which one was compared in it; empty if none was.
        blocks: digests of its entries as they are stored, `BLOCK` in each.
    """

    sealed: SealedStretch
    state: State
    rows: tuple[Row, ...]
    efforts: Efforts
    checkpoint: str
    blocks: list[bytes]
    _seen: msgspec.Raw

    @property
    def seen(self) -> Packed:
        """What who went along keeps, taken apart anew: it is large."""
        return cast(Packed, msgspec.msgpack.decode(self._seen))

    def unchanged(self, store: Store) -> Iterator[list[bytes] | None]:
        """Columns of its blocks, `BLOCK` entries in each, while they are what they were byte for
        byte: an audit had nothing to say of these. None of the first that is not; the end where
        the store gives none."""
        for place, block in enumerate(self.blocks):
            columns = store.columns(place * BLOCK, BLOCK)
            if columns is None:
                return
            yield columns if _digest(columns) == block else None

    def follow(self, store: Store, chain: Chain, look: Look | None, kept: Remembered) -> bool:
        """Whether every stored byte of the stretch is what it was, and its chain unbroken.

        Args:
            chain: goes on behind the last of its entries. look: as of `Chain.follow`.
            kept: takes the blocks, and what does not fill one.
        """
        for columns in self.unchanged(store):
            if columns is None:
                return False
            digests = columns[-1].decode("ascii").split("\n")
            if look is not None:
                look(chain.expected, *digests)
            kept.blocks.append(self.blocks[chain.expected // BLOCK])
            chain.expected, chain.previous = chain.expected + BLOCK, digests[-1]
        rest = islice(store.rows(chain.expected - 1), self.sealed.entries - chain.expected)
        return chain.follow(kept.stored(rest), look) and (
            (chain.expected, chain.previous) == (self.sealed.entries, self.sealed.head))


def _digest(columns: Sequence[bytes]) -> bytes:
    return sha256(b"".join(sha256(column).digest() for column in columns)).digest()


@define
class Remembered:
    """Takes what an `Epoch` keeps while an audit goes on."""

    efforts: Efforts = field(factory=Efforts)
    checkpoint: str = ""
    rows: dict[tuple[str, str], list[Row]] = field(factory=dict)
    blocks: list[bytes] = field(factory=list)
    _part: list[Row] = field(factory=list)
    _room: int = field(factory=lambda: MOST_BLOCK)

    def stored(self, rows: Iterable[Row]) -> Iterator[Row]:
        """Rows that are read, of which `blocks` is kept until one is too long."""
        for row in rows:
            if self._room > 0:
                self._part.append(row)
                self._room -= len(str(row[2]))
                if len(self._part) == BLOCK:
                    self._block()
            yield row

    def _block(self) -> None:
        """Without a line feed in any text, joined columns stand for these rows alone."""
        columns = ["\n".join(map(str, column)).encode("utf-8", "replace")
                   for column in zip(*self._part, strict=True)]
        self._part, self._room = [], 0
        if all(column.count(b"\n") == BLOCK - 1 for column in columns):
            self.blocks.append(_digest(columns))
            self._room = MOST_BLOCK

    def take(self, row: Row, event: Event) -> None:
        """The next row, before the state takes it."""
        by = BY.get(event.kind)
        if by is not None:
            kept = self.rows.setdefault((by, event.__dict__.get(by, "") if by else str(row[0])), [])
            if by == "data":
                kept.clear()
            kept.append(row)

    def ended(self, grant: GrantState) -> None:
        """A grant that the state lets go of: rules do, too, unless it has a vector."""
        if not (isinstance(grant.end, Settled) and grant.end.vector):
            self.rows.pop(("grant", grant.grant), None)


def checkpoint_mark(kept: Checkpoint, names: str) -> str:
    """Which checkpoint it is, with its names."""
    return sha256(f"{kept.seal}\n{kept.sound}\n{names}".encode("utf-8", "replace")).hexdigest()


@cache
def _code() -> str:
    """This package as it is installed, and what its numbers rest on: other code prices anew."""
    from importlib.metadata import version  # short ledgers need none

    root, found = Path(__file__).parents[1], sha256(sys.version.encode())
    for name in ("numpy", "scipy"):
        found.update(version(name).encode())
    paths = sorted(root.rglob("*.py"))
    for path in paths:
        found.update(f"\n{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest() if paths else token_hex(_MAC)  # what cannot be read is never the same


def _key(*, make: bool = False) -> bytes:
    path = state_folder() / _KEY
    if make and not read_ours(path, _MAC):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(path, token_bytes(_MAC))
    key = read_ours(path, _MAC)
    return key if len(key) == _MAC else b""


def _is_long(store: Store, count: int) -> bool:
    return next(iter(store.rows(after=count - 1)), None) is not None


def find_epoch(store: Store) -> Epoch | None:
    """The epoch of a store's history; None if there is none that can be used. The chain up to its
    end is still to be checked."""
    if store.location == ":memory:" or not _is_long(store, LEAST):
        return None
    try:
        uuid = parse_body(next(iter(store.rows()))[2])["uuid"]
        return _read(store, read_ours(state_path(uuid, "epoch"), MOST_EPOCH), _key())
    except Exception:  # whatever is wrong with it, the history itself is still there
        return None


def _read(store: Store, data: bytes, key: bytes) -> Epoch | None:
    mac, text = data[:_MAC], data[_MAC:]
    if not key or not text or len(data) > MOST_EPOCH or not hmac.compare_digest(
            mac, hmac.digest(key, text, "sha256")):
        return None
    fields = msgspec.msgpack.decode(text, type=dict[str, msgspec.Raw])
    seen = fields.pop("seen")
    value: Packed = {name: msgspec.msgpack.decode(one) for name, one in fields.items()}
    sealed = SealedStretch(value["entries"], value["head"], value["time"])
    last = next(iter(store.rows(after=sealed.entries - 2)), None)
    if value["code"] != _code() or last is None or last[4] != sealed.head:
        return None
    found = restore_state(Checkpoint(*value["state"]), value["names"])
    if found is None or (found[0].position + 1, found[0].head) != (sealed.entries, sealed.head):
        return None
    total, kind, plans = value["efforts"]
    rows = tuple((each[0], each[1], each[2], each[3], each[4]) for each in value["rows"])
    return Epoch(sealed, found[0], rows, Efforts(total, kind, set(plans)), value["checkpoint"],
                 value["blocks"], seen)


def seal_epoch(store: Store, state: State, kept: Remembered, before: SealedStretch | None,
               seen: Callable[[], Packed]) -> None:
    """Keep what an audit without a finding came to; where that cannot be done, the next one takes
    longer.

    Args:
        state: at the end. before: the epoch that the audit went on from.
        seen: what who went along keeps; asked only if there is an epoch to keep.
    """
    entries = state.position + 1
    if store.location == ":memory:" or not state.compact or (
            entries - (0 if before is None else before.entries) < LEAST):
        return
    mark = take_checkpoint(state, NamesDigest().bring(state.closed, len(state.closed)))
    rows = sorted(row for several in kept.rows.values() for row in several)
    text = msgspec.msgpack.encode({
        "code": _code(), "entries": entries, "head": state.head, "time": now(), "rows": rows,
        "state": [mark.position, mark.head, mark.state, mark.seal],
        "names": names_text(state.closed), "checkpoint": kept.checkpoint, "seen": seen(),
        "blocks": kept.blocks,
        "efforts": [kept.efforts.total, kept.efforts.kind, sorted(kept.efforts._seen)]})
    if len(text) + _MAC > MOST_EPOCH:
        return
    with suppress(OSError):
        key = _key(make=True)
        if key:
            write_whole(state_path(state.uuid, "epoch"),
                        hmac.digest(key, text, "sha256") + text)
