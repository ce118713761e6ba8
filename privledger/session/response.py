"""Randomised response from uniform words, exactly (docs/proofs/relations.md)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from privledger.noise.source import NoiseSource

_WORDS = 2**64


def randomized_response(
    source: NoiseSource, codes: NDArray[np.int64], buckets: int, noise_parameter: float
) -> NDArray[np.int64]:
    """Each code, or instead a uniform bucket with probability `noise_parameter`, rounded up to
    a multiple of 2**-64. Codes in 0 to buckets - 1; shape (n,) in and out."""
    least = math.ceil(Fraction(noise_parameter) * _WORDS)
    replaced = np.ones(len(codes), dtype=np.bool_)
    if least < _WORDS:
        replaced = source.integers64(len(codes)) < np.uint64(least)
    # Drawn for everybody: how many words are used tells nothing about the codes.
    return np.where(replaced, uniform(source, len(codes), buckets), codes).astype(np.int64)


def uniform(source: NoiseSource, size: int, buckets: int) -> NDArray[np.int64]:
    """Exactly uniform on 0 to buckets - 1, by rejection, shape (size,)."""
    most = np.uint64(_WORDS - _WORDS % buckets - 1)  # the last word that is used
    words = source.integers64(size)
    late = np.flatnonzero(words > most)
    while len(late):
        words[late] = source.integers64(len(late))
        late = late[words[late] > most]
    return (words % np.uint64(buckets)).astype(np.int64)
