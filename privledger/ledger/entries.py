"""Entries of the history, and the chain that binds them. Format: docs/ledger-format.md."""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from attrs import field, frozen

from privledger.errors import LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.codec import decode, written
from privledger.ledger.events import Event, Granted, Holder
from privledger.ledger.limits import check_text, check_written

FORMAT = 4
"""Version of the history format. A file with a larger one is refused.

1: the first. 2: adds `corrected`. 3: adds `window`, caps by window, and a stored policy.
4: adds the unit of the promise, and `enrolled`. Formats 1 to 3 mean unit `row`.
"""

GENESIS = "0" * 64


@frozen
class Entry:
    """One line of the history.

    Attributes:
        position: 0 for the first entry, without gaps.
        event: what it says.
        previous: hash of the entry before, 64 hexadecimal digits.
        hash: sha256 over `previous` and the canonical JSON of position, kind and body.
        text: canonical JSON of the body, where it was written here; else empty.
    """

    position: int
    event: Event
    previous: str
    hash: str
    text: str = field(default="", eq=False, repr=False)


def is_whole(entry: Entry) -> bool:
    """Whether an entry's hash is that of what it says, written canonically."""
    text = written(entry.event)
    return text_hash(entry.position, entry.event.kind, text, entry.previous) == entry.hash


def text_hash(position: int, kind: str, text: str, previous: str) -> str:
    """The hash that binds an entry to everything before it.

    Args:
        text: canonical JSON of the body.
        previous: hash of the entry before.
    """
    whole = f"{previous}[{position},{canonical(kind)},{text}]"
    return hashlib.sha256(whole.encode("ascii")).hexdigest()


def make_entry(position: int, event: Event, previous: str) -> Entry:
    """A new entry behind the one of which the hash is `previous`.

    Raises:
        InvalidPlan: larger than an entry may be.
    """
    text = written(event)
    check_written(event.kind, text)
    return Entry(position, event, previous, text_hash(position, event.kind, text, previous), text)


def entry_of(row: tuple[Any, ...], location: str) -> Entry:
    """An entry from (position, kind, text of the body, hash before, hash), as they are stored.

    Raises:
        LedgerCorrupt: not JSON, not of these types, or larger than an entry may be.
    """
    position, kind, body, previous, digest = row
    # A flipped bit of a damaged page can change the type of a value.
    if not (type(position) is int and isinstance(kind, str) and isinstance(body, str)
            and isinstance(previous, str) and isinstance(digest, str)):
        raise LedgerCorrupt(f"{location}: an entry is not JSON")
    wrong = check_text(kind, body)
    if wrong:
        raise LedgerCorrupt(f"{location}: entry {position} {wrong}")
    try:
        return Entry(position, decode(kind, parse_body(body)), previous, digest)
    except (ValueError, TypeError, RecursionError):
        raise LedgerCorrupt(f"{location}: an entry is not JSON") from None


def entries_of(rows: Iterable[tuple[Any, ...]], location: str) -> list[Entry]:
    """Rows of (position, kind, body, previous, hash), as every store has them."""
    return [entry_of(row, location) for row in rows]


def body_text(entry: Entry) -> str:
    """Canonical JSON of an entry's body."""
    return entry.text or written(entry.event)


def parse_body(text: str) -> Any:
    """The value of a body's text.

    Raises:
        ValueError, RecursionError: not JSON, or a number that is not finite.
    """
    return _decode(text)


def _refuse(text: str) -> float:
    raise ValueError("NaN and infinity are no JSON")


def _finite(text: str) -> float:
    value = float(text)
    return value if math.isfinite(value) else _refuse(text)


_decode = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite).decode


# Who holds a grant, since when, and whether that process still runs.

def now() -> str:
    """Wall clock, for information only: nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _started(pid: int) -> str:
    """A mark that tells a process from a later one of the same number; empty if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{boot}:{text.rpartition(')')[2].split()[19]}"


_own = lru_cache(maxsize=1)(_started)  # a process does not start twice
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own.cache_clear)


def this_process() -> Holder:
    """Host, process number and start mark of the caller."""
    pid = os.getpid()
    return Holder(platform.node(), pid, _own(pid))


def is_gone(holder: Holder | None) -> bool:
    """True only when the holder ran on this host and provably no longer does."""
    if holder is None or holder.host != platform.node() or not holder.started:
        return False
    return bool(_started(int(holder.pid)) != holder.started)


def lease_is_over(granted: Granted, moment: str) -> bool:
    """Whether a grant's lease ended before `moment` (ISO times). Without a lease: never.

    Clocks of two hosts may differ. That is harmless: a grant whose lease is over keeps its
    whole charge, and a holder that is alive after all may still settle it.
    """
    lease = granted.lease
    if isinstance(lease, bool) or not isinstance(lease, int | float):
        return False
    try:
        begun = datetime.fromisoformat(str(granted.time))
        return (datetime.fromisoformat(moment) - begun).total_seconds() > lease
    except (TypeError, ValueError, OverflowError):
        return False
