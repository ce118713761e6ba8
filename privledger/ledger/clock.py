"""The wall clock."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Wall clock, for information only: nothing is decided by it."""
    return datetime.now(UTC).isoformat(timespec="seconds")
