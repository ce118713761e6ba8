"""A limit on the processor time that a price may take, for plans of strangers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNTIL: ContextVar[float | None] = ContextVar("pricing", default=None)


class TooDear(Exception):
    """A price took longer than was allowed; the caller that set the limit says what that means."""


@contextmanager
def pricing_within(seconds: float) -> Iterator[None]:
    """Let prices in this block take so many seconds of this thread's processor time in all.

    Raises:
        TooDear: they took longer. It comes between two nodes: one node has a bounded price.
    """
    held = _UNTIL.get()
    until = time.thread_time() + seconds
    token = _UNTIL.set(until if held is None else min(until, held))
    try:
        yield
    finally:
        _UNTIL.reset(token)


def check_time() -> None:
    """Raise `TooDear` if the time that was allowed is over."""
    until = _UNTIL.get()
    if until is not None and time.thread_time() > until:
        raise TooDear
