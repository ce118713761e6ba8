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
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import islice
from pathlib import Path
from secrets import token_bytes, token_hex
from typing import cast

import msgspec
from attrs import define, field, frozen

from privledger.errors import LedgerError
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
from privledger.ledger.entries import GENESIS, now, parse_body
from privledger.ledger.events import EVENTS, Event, Settled
from privledger.ledger.limits import Efforts
from privledger.ledger.state import GrantState, State
from privledger.ledger.store import Chain, Look, Row, Store
from privledger.numerals import many
from privledger.reading import write_whole

LEAST = 5000
"""Entries of a history, and behind its last epoch, that are worth another."""
BLOCK = 2048
"""Entries that are hashed together once their chain was found unbroken."""
MORE = 4
"""Of these that a writer hashes at a time."""
MOST_EPOCH = 96 << 20
"""Bytes; a history that adds up to more is read whole each time."""
_KINDS = frozenset(map(str.encode, EVENTS))
_MAC, _KEY, _CHAIN = 32, "epochs.key", b"chain"
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

    def follow(self, store: Store, chain: Chain, look: Look | None = None) -> bool:
        """Whether the chain of the stretch is unbroken, and ends as it did.

        Args:
            chain: goes on behind the last of its entries. look: as of `Chain.follow`.
        """
        blocks = _walked(store, self.state.uuid, chain, self.sealed.entries, look)
        return blocks is not None and chain.previous == self.sealed.head


def _walked(store: Store, uuid: str, chain: Chain, entries: int,
            look: Look | None = None) -> list[bytes] | None:
    """The blocks of so many entries, if their chain is unbroken."""
    blocks = follow_blocks(store, uuid, chain, entries // BLOCK, look)
    rest = islice(store.rows(chain.expected - 1), entries - chain.expected)
    return blocks if chain.follow(rest, look) and chain.expected == entries else None


def _digest(columns: Sequence[bytes]) -> bytes:
    return sha256(b"".join(sha256(column).digest() for column in columns)).digest()


@define
class Remembered:
    """Takes what an `Epoch` keeps while an audit goes on."""

    efforts: Efforts = field(factory=Efforts)
    checkpoint: str = ""
    rows: dict[tuple[str, str], list[Row]] = field(factory=dict)

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


# Which first entries were found unbroken: who looks again hashes them by the block.

def follow_blocks(store: Store, uuid: str, chain: Chain, most: int | None = None,
                  look: Look | None = None, *, behind: bool = False) -> list[bytes]:
    """Go along a history by the block, as far as its chain is unbroken, and keep how far that was.

    A block that is byte for byte as this user's own process found it, like all before it, is
    right; every other is looked at entry by entry.

    Args:
        chain: at the first entry; afterwards behind the last that was found right.
        most: blocks. look: as of `Chain.follow`.
        behind: begin behind the blocks that are known, with `MORE` of them.

    Returns:
        Digests of what is stored, `BLOCK` entries in each.
    """
    path = state_path(uuid, "chain")
    known, head = _blocks_in(read_ours(path, MOST_EPOCH), _key())
    found, same = list[bytes](), True
    if behind:
        found, chain.expected, chain.previous = [*known], len(known) * BLOCK, head
        most = len(known) + MORE
    while len(found) != most and (columns := store.columns(chain.expected, BLOCK)) is not None:
        digest = _digest(columns)
        same = same and known[len(found):len(found) + 1] == [digest]
        if not (same or _is_unbroken(columns, chain)):
            break
        digests = columns[-1].decode("ascii").split("\n")
        if look is not None:
            look(chain.expected, *digests)
        chain.expected, chain.previous = chain.expected + BLOCK, digests[-1]
        found.append(digest)
    if found != known[:len(found)] and store.location != ":memory:":
        _keep(path, _CHAIN + msgspec.msgpack.encode((found, chain.previous)))
    return found


def _blocks_in(data: bytes, key: bytes) -> tuple[list[bytes], str]:
    mac, text = data[:_MAC], data[_MAC:]
    if not key or not text.startswith(_CHAIN) or not hmac.compare_digest(mac, _mac(key, text)):
        return [], GENESIS
    return msgspec.msgpack.decode(text[len(_CHAIN):], type=tuple[list[bytes], str])


def _is_unbroken(columns: Sequence[bytes], chain: Chain) -> bool:
    """Whether all of a block come next and are whole: as `Chain.follow` says of its rows. A text
    with a line feed is none."""
    digests, last = columns[-1], columns[-1].rpartition(b"\n")[2]
    places, kinds, texts, before = (column.split(b"\n") for column in columns[:-1])
    if not (all(map(bytes.isascii, columns)) and len(before) == len(kinds) == len(texts) == BLOCK
            and places == [b"%d" % (chain.expected + place) for place in range(BLOCK)]
            and columns[-2] + b"\n" + last == chain.previous.encode() + b"\n" + digests
            and _KINDS.issuperset(kinds)):
        return False
    found = [sha256(b'%b[%b,"%b",%b]' % row).hexdigest()
             for row in zip(before, places, kinds, texts, strict=True)]
    return "\n".join(found).encode() == digests


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _keep(path: Path, text: bytes) -> None:
    """Write it behind its MAC; where that cannot be done, all is read again the next time."""
    with suppress(OSError):
        if key := _key(make=True):
            write_whole(path, _mac(key, text) + text)


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
            mac, _mac(key, text)):
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
    entries, chain = state.position + 1, Chain()
    if store.location == ":memory:" or not state.compact or (
            entries - (0 if before is None else before.entries) < LEAST):
        return
    blocks = None
    with suppress(LedgerError):
        blocks = _walked(store, state.uuid, chain, entries)
    if blocks is None or chain.previous != state.head:
        return
    mark = take_checkpoint(state, NamesDigest().bring(state.closed, len(state.closed)))
    rows = sorted(row for several in kept.rows.values() for row in several)
    text = msgspec.msgpack.encode({
        "code": _code(), "entries": entries, "head": state.head, "time": now(), "rows": rows,
        "state": [mark.position, mark.head, mark.state, mark.seal],
        "names": names_text(state.closed), "checkpoint": kept.checkpoint, "seen": seen(),
        "blocks": blocks,
        "efforts": [kept.efforts.total, kept.efforts.kind, sorted(kept.efforts._seen)]})
    if len(text) + _MAC > MOST_EPOCH:
        return
    _keep(state_path(state.uuid, "epoch"), text)
