"""Who holds a grant, and whether that process still runs."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any


def _started(pid: int) -> str:
    """A mark that tells a process from a later one of the same number; empty if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
    return f"{boot}:{text.rpartition(')')[2].split()[19]}"


def this_process() -> dict[str, Any]:
    """Host, process number and start mark of the caller."""
    pid = os.getpid()
    return {"host": platform.node(), "pid": pid, "started": _started(pid)}


def is_gone(holder: dict[str, Any]) -> bool:
    """True only when the holder ran on this host and provably no longer does."""
    if holder.get("host") != platform.node() or not holder.get("started"):
        return False
    return bool(_started(int(holder["pid"])) != holder["started"])
