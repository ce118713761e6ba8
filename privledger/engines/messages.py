"""What a driver asks of a worker, and what it says: sealed, and each for one release."""

from __future__ import annotations

import json

from attrs import frozen

from privledger.engines.sealing import seal, unseal
from privledger.engines.sketches import from_bytes, to_bytes
from privledger.errors import EngineError
from privledger.kernels.asking import Sketch, Task
from privledger.spool.layout import ChunkNote, Layout

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
        gone: one before it, whose numbers nobody needs any more; "" for none.
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
class Said:
    """A worker's reply.

    Attributes:
        release: which one it answers. chunks: of which chunks, by number.
        layout: digest of their layout. rows: how many it read.
        status: `done`, or why not: never anything about a record.
        fresh: what was fixed in this release, by label.
        sketch: merged over the chunks.
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
        text: an `Asked`, as the catalogue describes it.
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
    body = to_bytes(said.sketch) if said.status == DONE else b""
    return seal(key, SAID, len(head).to_bytes(8, "little") + head + body)


def said_of(key: bytes, message: bytes) -> Said:
    """The inverse of `said_to_bytes`.

    Raises:
        EngineError: no reply of somebody who has the key, or none that can be read.
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
    return Said(found.release, found.chunks, found.layout, found.rows, found.status, found.fresh,
                from_bytes(text[8 + size :]))
