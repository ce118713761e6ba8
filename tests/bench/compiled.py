"""Would a compiled kernel pay? One tree's joint histogram by NumPy and, if installed, by numba."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from measure import table

ROWS, FEATURES, DEPTH, PLACES = 1_000_000, 20, 6, 512


def best(make: Any, times: int = 3) -> float:
    """Least CPU seconds of some runs."""
    found = []
    for _ in range(times):
        start = time.process_time()
        make()
        found.append(time.process_time() - start)
    return min(found)


def report(_: object = None) -> str:
    source = np.random.default_rng(0)
    codes = source.integers(0, 64, (FEATURES, ROWS)).astype(np.uint8)
    cuts, asked = source.integers(0, 64, DEPTH).astype(np.uint8), np.arange(DEPTH)
    score = source.integers(0, PLACES, ROWS).astype(np.int16)
    label = source.integers(0, 2, ROWS).astype(np.int8)
    cells = 2 * PLACES << DEPTH

    def plain() -> Any:
        leaf = np.zeros(ROWS, np.int32)
        for feature, cut in zip(asked, cuts, strict=True):
            leaf = 2 * leaf + (codes[feature] > cut)
        return np.bincount((2 * leaf + label) * PLACES + score, minlength=cells)

    rows = [["NumPy", "", "", f"{best(plain) / ROWS * 1e9:.1f}"]]
    start = time.process_time()
    try:
        import numba  # type: ignore[import-not-found]
    except ImportError:
        return table(["kernel", "import, s", "compilation, s", "ns a row"], rows)
    imported = time.process_time() - start

    @numba.njit(nogil=True)  # type: ignore[untyped-decorator]
    def kernel(codes: Any, cuts: Any, score: Any, label: Any, found: Any) -> None:
        for row in range(codes.shape[1]):
            leaf = 0
            for place in range(cuts.shape[0]):
                leaf = 2 * leaf + (codes[place, row] > cuts[place])
            found[(2 * leaf + label[row]) * PLACES + score[row]] += 1

    found = np.zeros(cells, np.int64)
    compiled = best(lambda: kernel(codes[:, :9].copy(), cuts, score[:9], label[:9], found), 1)
    found[:] = 0
    kernel(codes, cuts, score, label, found)
    assert (found == plain()).all()
    took = best(lambda: kernel(codes, cuts, score, label, found))
    rows.append([f"numba {numba.__version__}", f"{imported:.2f}", f"{compiled:.2f}",
                 f"{took / ROWS * 1e9:.1f}"])
    return table(["kernel", "import, s", "compilation, s", "ns a row"], rows)


if __name__ == "__main__":
    print(report())
