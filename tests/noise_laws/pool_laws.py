"""Where the words themselves come from: the buffered pool of `SystemSource`, on real entropy.

That the operating system's words are uniform and independent is assumed, and not looked at.
What is looked at: no word is handed out twice, none stays behind, none is a wiped one.
"""

from __future__ import annotations

import os
import sys
import threading
import warnings

import numpy as np

from privledger.noise.source import SystemSource
from tests.noise_laws.distances import FLOATS, Finding, kolmogorov
from tests.noise_laws.sampler_laws import WORD, Bench
from tests.noise_laws.stratified import Deck, strata

_BUFFER = 8192  # words
_SIZES = (1, 128, 5000, 4000, 9000, 3, _BUFFER - 1, 1, _BUFFER, _BUFFER + 1, 64, 700) * 3


def words(bench: Bench) -> list[Finding]:
    """Words that are asked for as such are handed on as they are."""
    source, dealer = bench.over(strata(bench.size, bench.random))
    drawn = source.integers64(bench.size).astype(np.float64) / WORD
    distance = kolmogorov(drawn, lambda x: x, lambda x: x)
    return [Finding(distance, 1 / bench.size + FLOATS, bench.size, dealer.clean)]


def pool(bench: Bench) -> list[Finding]:
    """No word twice: at the buffer's end, between threads, after a fork. Used words are wiped.

    Chance alone repeats one of these 160,000 words with probability below 2**-30.
    """
    source = SystemSource()
    drawn = [source.integers64(size) for size in _SIZES]
    drawn += _by_threads(source) + _by_children()
    drawn.append(source.integers64(40))
    every = np.concatenate(drawn)
    repeated = len(every) - len(np.unique(every))
    wiped = int((every == 0).sum())
    kept = int(np.isin(every, source._pool._words).sum())
    other = np.isin(SystemSource().integers64(_BUFFER - 1), every).sum()
    return [Finding(float(repeated), 0.0, len(every)), Finding(float(wiped), 0.0, len(every)),
            Finding(float(kept), 0.0, len(every)), Finding(float(other), 0.0, _BUFFER)]


def _by_threads(source: SystemSource) -> list[Deck]:
    found: list[Deck] = []

    def draw() -> None:
        found.extend(source.integers64(37) for _ in range(200))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # a missing lock shows
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(usual)
    return found


def _by_children() -> list[Deck]:
    """What two forked children, then their parent, draw from a buffer that the parent has begun.

    A source of its own: its buffer is nearly full, so that a child who kept it has no need of
    fresh words. How far threads have come in theirs is the scheduler's choice.
    """
    if not hasattr(os, "fork"):
        return []
    source = SystemSource()
    first = source.integers64(1)
    children = [np.frombuffer(_child(source), dtype=np.uint64) for _ in range(2)]
    return [first, *children, source.integers64(40)]


def _child(source: SystemSource) -> bytes:
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads: the child needs none
        child = os.fork()
    if child == 0:
        try:
            os.write(send, source.integers64(40).tobytes())
        finally:
            os._exit(0)
    os.close(send)
    with os.fdopen(receive, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer
