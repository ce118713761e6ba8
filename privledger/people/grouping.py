"""Equal values among millions, without a Python object for each: whole numbers and short texts."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

_DENSE = 4
"""A table of places is used for whole numbers that span at most so many times their count."""
_LONGEST, _WORD = 32, 8
_BLOCK = 1 << 18
_ODD = np.uint64(0x9E3779B97F4A7C15)


Whole: TypeAlias = NDArray[np.integer[Any]]


def grouped(values: Whole) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Which of some whole numbers are equal.

    Returns:
        The first position of each different number, rising; and for each of `values` the place of
        its number in that order, shape (n,).
    """
    if not len(values):
        return np.zeros(0, np.int64), np.zeros(0, np.int32)
    if values.dtype.itemsize < 8:
        values = values.astype(np.int64)
    low, high = int(values.min()), int(values.max())
    if high - low >= _DENSE * len(values) + 1024:
        _, starts, inverse = np.unique(values, return_index=True, return_inverse=True)
        order = np.argsort(starts, kind="stable")
        place = np.empty(len(starts), dtype=np.int32)
        place[order] = np.arange(len(starts), dtype=np.int32)
        return starts[order].astype(np.int64), place[inverse.reshape(-1)]
    shifted = (values - values.dtype.type(low)).astype(np.int64)
    first = np.full(high - low + 1, -1, dtype=np.int64)
    # The last assignment to a place stays, so from the end: each number's first position.
    first[shifted[::-1]] = np.arange(len(values) - 1, -1, -1)
    held = np.flatnonzero(first >= 0)
    order = np.argsort(first[held], kind="stable")
    place = np.zeros(high - low + 1, dtype=np.int32)
    place[held[order]] = np.arange(len(held), dtype=np.int32)
    return first[held[order]], place[shifted]


def text_keys(texts: list[str]) -> NDArray[np.uint64] | None:
    """A number for each text, equal exactly where the texts are; None where that is not sure:
    for long texts, letters beyond ASCII, and two texts that fall on one number."""
    width = max(map(len, texts), default=0)
    if not 0 < width <= _LONGEST or not all(map(str.isascii, texts)):
        return None
    words = np.zeros((len(texts), -(-width // _WORD)), np.uint64)
    for start in range(0, len(texts), _BLOCK):
        some = slice(start, start + _BLOCK)
        letters = np.array(texts[some], dtype=f"S{words.shape[1] * _WORD}")
        words[some] = letters.view(np.uint64).reshape(-1, words.shape[1])
    keys = words[:, 0].copy()
    if words.shape[1] == 1:
        return keys
    for place in range(1, words.shape[1]):
        keys ^= keys >> np.uint64(29)
        keys *= _ODD
        keys += words[:, place]
    starts, codes = grouped(keys)
    for start in range(0, len(texts), _BLOCK):
        some = slice(start, start + _BLOCK)
        if not np.array_equal(words[some], words[starts[codes[some]]]):
            return None
    return keys
