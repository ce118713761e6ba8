"""Prices that are computed once. What a ledger charges by is kept apart from everybody else's.

A cache keeps the first node that was asked about as its key. If that node is a stranger's, the
stranger can change it afterwards, into another node of the same hash: 2.0**61 and 1.0 have one,
and the second would be charged at the first one's price. So a ledger decides by a cache of its
own, which only nodes that it built itself have ever entered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
_CHARGING: ContextVar[bool] = ContextVar("charging", default=False)


@contextmanager
def charging() -> Iterator[None]:
    """Here prices are charged: every node was built from the ledger's own text."""
    token = _CHARGING.set(True)
    try:
        yield
    finally:
        _CHARGING.reset(token)


def remembered(most: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """`lru_cache` of `most` entries, twice: for charges, and for whoever asks for a price."""

    def wrap(function: Callable[P, T]) -> Callable[P, T]:
        asked, charged = (lru_cache(most)(function) for _ in range(2))

        @wraps(function)
        def call(*given: P.args, **named: P.kwargs) -> T:
            cache = charged if _CHARGING.get() else asked
            return cache(*given, **named)  # type: ignore[arg-type]

        def clear() -> None:
            asked.cache_clear()
            charged.cache_clear()

        call.cache_clear = clear  # type: ignore[attr-defined]
        return call

    return wrap
