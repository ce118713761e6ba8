"""Who holds a grant, since when, and whether that process still runs."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from privledger.ledger.events import Granted, Holder


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
