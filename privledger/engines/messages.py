"""What a driver asks of a worker, and what it says: sealed, and each for one release."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from typing import TypeAlias

import attrs
import numpy as np
from attrs import frozen

from privledger.errors import EngineError
from privledger.questions.asking import Sketch, Task
from privledger.questions.feature_scores import Products
from privledger.questions.order_sketch import KeyTally, Ordered, Tallied
from privledger.questions.tallies import Tabled, Tally
from privledger.questions.votes import VoteSums
from privledger.tables.layout import Array, ChunkNote, Layout
from privledger.tables.parts import FilePart

# Messages that only owners of a spool's key can read or make: a mask, and a mark.  The mask is a
# SHAKE-256 stream under the key and a fresh nonce, the mark an HMAC over all of it. So a
# scheduler, a wire and their logs see uniform bytes, and cannot change one unnoticed.


_NONCE, _MARK = 16, 32


def seal(key: bytes, purpose: str, text: bytes) -> bytes:
    """A message for a holder of the key that expects this purpose."""
    nonce = secrets.token_bytes(_NONCE)
    body = nonce + _masked(key, purpose, nonce, text)
    return body + _mark(key, purpose, body)


def unseal(key: bytes, purpose: str, message: bytes) -> bytes:
    """The text of a message.

    Raises:
        EngineError: it is not one under this key and for this purpose.
    """
    body, mark = message[:-_MARK], message[-_MARK:]
    if len(body) < _NONCE or not hmac.compare_digest(mark, _mark(key, purpose, body)):
        raise EngineError("a message that was not written with the chunk store's key")
    return _masked(key, purpose, body[:_NONCE], body[_NONCE:])


def _masked(key: bytes, purpose: str, nonce: bytes, text: bytes) -> bytes:
    mask = hashlib.shake_256(_derived(key, "mask", purpose) + nonce).digest(len(text))
    mixed = np.frombuffer(text, dtype=np.uint8) ^ np.frombuffer(mask, dtype=np.uint8)
    return mixed.tobytes()


def _mark(key: bytes, purpose: str, body: bytes) -> bytes:
    return hmac.digest(_derived(key, "mark", purpose), body, "sha256")


def _derived(key: bytes, use: str, purpose: str) -> bytes:
    return hmac.digest(key, f"privledger {use}\0{purpose}".encode(), "sha256")


# Sketches as bytes: whole numbers, in tuples and known records, and nothing else.  What a worker
# says is not trusted with code: a reply is a tree of names and arrays of whole numbers.


RECORDS: tuple[type[attrs.AttrsInstance], ...] = (
    Tally, Tabled, Ordered, Tallied, KeyTally, Products, VoteSums)
"""Records that sketches are made of; their fields are whole numbers and arrays of them. What is no
argument of theirs (scores that were found) stays behind."""

Tree: TypeAlias = "int | str | list[Tree] | dict[str, Tree] | None"


def message_to_bytes(sketch: Sketch) -> bytes:
    """A sketch, as `from_bytes` reads it."""
    arrays: list[Array] = []
    head = json.dumps(_tree(sketch, arrays)).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(
        np.ascontiguousarray(array).tobytes() for array in arrays)


def _tree(what: object, arrays: list[Array]) -> Tree:
    if isinstance(what, np.ndarray):
        if what.dtype.kind not in "iub":
            raise EngineError("a sketch of anything but whole numbers")
        arrays.append(what)
        return {"is": what.dtype.str, "shape": list(what.shape)}
    if isinstance(what, tuple | list):
        return [_tree(one, arrays) for one in what]
    for kind in RECORDS:
        if type(what) is kind:
            return {"of": kind.__name__, "with": [
                _tree(getattr(what, one.name), arrays) for one in attrs.fields(kind) if one.init]}
    if what is None or type(what) is int:
        return what
    raise EngineError(f"a sketch that holds a {type(what).__name__}")


def message_from_bytes(text: bytes) -> Sketch:
    """The inverse of `to_bytes`.

    Raises:
        EngineError: the bytes are no sketch.
    """
    try:
        size = int.from_bytes(text[:8], "little")
        reader = _Reader(memoryview(text)[8 + size :])
        found = reader.built(json.loads(text[8 : 8 + size]))
    except Exception:  # whatever it was made to be
        raise EngineError("a reply that is no sketch") from None
    if reader.place != len(reader.rest):
        raise EngineError("a reply of another length")
    return found


class _Reader:
    def __init__(self, rest: memoryview) -> None:
        self.rest, self.place = rest, 0

    def built(self, tree: Tree) -> Sketch:
        if isinstance(tree, list):
            return tuple(self.built(one) for one in tree)
        if not isinstance(tree, dict):
            return tree
        if "of" in tree:
            kind = next(kind for kind in RECORDS if kind.__name__ == tree["of"])
            fields = tree["with"]
            assert isinstance(fields, list)
            return kind(*(self.built(one) for one in fields))
        dtype, shape = np.dtype(str(tree["is"])), tree["shape"]
        if dtype.kind not in "iub" or not isinstance(shape, list):
            raise ValueError
        size = dtype.itemsize * int(np.prod([int(str(side)) for side in shape], dtype=object))
        held = self.rest[self.place : self.place + size]
        if len(held) != size:
            raise ValueError
        self.place += size
        return np.frombuffer(held, dtype=dtype).reshape([int(str(side)) for side in shape]).copy()


ASKED, SAID = "asked", "said"
DONE, FAILED, SPOOL, LATE = "done", "failed", "spool", "late"
STATUSES = (DONE, FAILED, SPOOL, LATE)


@frozen(eq=False, repr=False)
class Spending:
    """Where the records of a table stand under the filter of a round.

    What a round leaves is named after its release, so that one that runs late or twice changes
    nothing of another's.

    Attributes:
        label: of grant and filter. cap: of the filter.
        last: the release that all chunks were done with last; "" for none.
        gone: one before it, whose numbers are not needed any more; "" for none.
        before: whether earlier grants' spends are there.
    """

    label: str
    cap: float
    last: str
    gone: str
    before: bool


@frozen(eq=False, repr=False)
class Asked:
    """One block of chunks, for one release.

    Attributes:
        release: 32 hexadecimal digits, of this release alone.
        layout: of the chunks. notes: the chunks.
        task: what is asked. session: whose samples and parts they are.
        secret: of the table's coins. held: which release fixed what, by label.
        spending: of the filter; None where there is none.
    """

    release: str
    layout: Layout
    notes: tuple[ChunkNote, ...]
    task: Task
    session: str
    secret: bytes
    held: dict[str, str]
    spending: Spending | None


@frozen(eq=False, repr=False)
class Filling:
    """One part of a source, to be read from its files and written to chunks.

    Attributes:
        release: 32 hexadecimal digits, of this ingest alone.
        layout: of the chunks. part: where the rows are.
        notes: the chunks to write; one that an earlier run wrote has the hash of its file.
        unlabelled: whether cells of the target may be missing.
    """

    release: str
    layout: Layout
    notes: tuple[ChunkNote, ...]
    part: FilePart
    unlabelled: bool


@frozen(eq=False, repr=False)
class Said:
    """A worker's reply.

    Attributes:
        release: which one it answers. chunks: of which chunks, by number.
        layout: digest of their layout. rows: how many it read.
        status: `done`, or why not: never anything about a record.
        fresh: what was fixed in this release, by label.
        sketch: merged over the chunks; of chunks that were written, what each hashes to.
    """

    release: str
    chunks: tuple[int, ...]
    layout: str
    rows: int
    status: str
    fresh: tuple[str, ...] = ()
    sketch: Sketch = None


def asked_to_bytes(key: bytes, head: dict[str, str | int], text: bytes) -> bytes:
    """A task, sealed.

    Args:
        head: `release`, `catalogue` and how many `lines` of it the task speaks of.
        text: an `Asked` or a `Filling`, as the catalogue describes it.
    """
    named = json.dumps(head).encode()
    return seal(key, ASKED, len(named).to_bytes(8, "little") + named + text)


def headed(text: bytes) -> tuple[dict[str, str | int], bytes]:
    """Head and text of a task that was opened."""
    size = int.from_bytes(text[:8], "little")
    return json.loads(text[8 : 8 + size]), text[8 + size :]


def said_to_bytes(key: bytes, said: Said) -> bytes:
    """A reply, sealed."""
    head = json.dumps([said.release, said.chunks, said.layout, said.rows, said.status,
                       said.fresh]).encode()
    body = message_to_bytes(said.sketch) if said.status == DONE else b""
    return seal(key, SAID, len(head).to_bytes(8, "little") + head + body)


def message_said(key: bytes, message: bytes) -> Said:
    """The inverse of `said_to_bytes`.

    Raises:
        EngineError: no reply of a holder of the key, or none that can be read.
    """
    text = unseal(key, SAID, message)
    size = int.from_bytes(text[:8], "little")
    try:
        release, chunks, layout, rows, status, fresh = json.loads(text[8 : 8 + size])
        found = Said(str(release), tuple(int(one) for one in chunks), str(layout), int(rows),
                     str(status), tuple(str(one) for one in fresh))
    except (ValueError, TypeError):
        raise EngineError("a reply that cannot be read") from None
    if found.status not in STATUSES:
        raise EngineError("a reply of unknown status")
    if found.status != DONE:
        return found
    return attrs.evolve(found, sketch=message_from_bytes(text[8 + size :]))
