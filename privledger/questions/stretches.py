"""Rows in runs that fit a processor's cache: nothing that is computed depends on where they end."""

from __future__ import annotations

from collections.abc import Iterator

RUN = 2**15
"""Rows at a time: a quarter of a megabyte of numbers."""


def runs(n: int, size: int = RUN) -> Iterator[slice]:
    """Slices that cover 0, 1, ..., n - 1 in order."""
    for first in range(0, n, size):
        yield slice(first, min(n, first + size))
