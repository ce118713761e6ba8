"""How often intervals of the area under a ROC curve hold it: 10,000 simulated tables in each case.

    OMP_NUM_THREADS=1 python tests/bench/areas.py [--tables 10000] [--seed 1]

The first shapes are those that an earlier rule was judged by; the others were not looked at while
the rule was made. An area is counted as held where `area_kept` keeps it: the interval is the hull
of what is kept, so it holds no less. Tables in which a class may have no record have no interval.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np

from privledger.plugins.intervals import NORMAL, area_kept, entry_sd

KNOWN = [((6, 3, 1), (1, 3, 6)), ((1, 1, 1), (1, 1, 1)), ((20, 1, 0), (0, 1, 20)),
         ((1,) * 8, (1,) * 8), (range(1, 9), range(8, 0, -1)), ((1,) * 7 + (30,), (30,) + (1,) * 7)]
FRESH = [((30, 10, 3, 1), (1, 3, 10, 30)), ((7, 1, 1, 1, 7), (1, 7, 7, 7, 1)),
         ((500, 1), (1, 500)), ((2, 0, 0, 1), (0, 1, 0, 2)), (range(1, 17), (1,) * 16),
         ((1, 0, 0, 0, 99), (1, 0, 0, 0, 199)), (range(32, 0, -1), range(1, 33))]
ROWS, SHARES, SCALES = (40, 100, 300, 1000, 5000), (0.5, 0.1), (0.25, 1.0, 3.0, 10.0)


def coverage(shape: tuple, rows: int, share: float, scale: float, kind: str, tables: int,
             words: np.random.Generator) -> tuple[float, float] | None:
    """Of the noise, and of noise and sample; None where half of the tables have no interval."""
    laws = [np.array(one, dtype=float) / sum(one) for one in shape]
    bins, few = len(laws[0]), round(rows * share)
    wins = np.tril(np.ones((bins, bins)), -1) + np.eye(bins) / 2
    counts = [words.multinomial(many, law, tables).astype(float)
              for many, law in zip((rows - few, few), laws, strict=True)]
    draw = words.laplace if kind == "laplace" else words.normal
    noisy = [one + draw(0, scale, one.shape) for one in counts]
    least = NORMAL * entry_sd(scale, kind) * math.sqrt(bins)
    shown = np.logical_and(*(one.sum(axis=1) > least for one in noisy))
    if shown.mean() < 0.5:
        return None
    own = ((counts[1] @ wins) * counts[0]).sum(axis=1) / (few * (rows - few))
    truths = own, np.full(tables, laws[1] @ wins @ laws[0])
    kept = [area_kept(true, noisy[1], noisy[0], scale, kind, sampling=sampling)[shown].mean()
            for sampling, true in enumerate(truths)]
    return float(kept[0]), float(kept[1])


def main() -> None:
    """Print the smallest and the median coverage of the old and of the fresh shapes."""
    asked = argparse.ArgumentParser()
    asked.add_argument("--tables", type=int, default=10_000)
    asked.add_argument("--seed", type=int, default=1)
    chosen = asked.parse_args()
    words = np.random.default_rng(chosen.seed)
    for name, shapes in (("known", KNOWN), ("fresh", FRESH)):
        found = {}
        for case in itertools.product(shapes, ROWS, SHARES, SCALES, ("laplace", "gaussian")):
            told = coverage(*case, chosen.tables, words)
            if told is not None:
                found[case] = told
        for place, kind in enumerate(("noise", "noise and sample")):
            worst = min(found, key=lambda case, place=place: found[case][place])
            middle = float(np.median([one[place] for one in found.values()]))
            shape = tuple(map(tuple, worst[0]))
            print(f"{name} shapes, {len(found)} cases, {kind}: smallest {found[worst][place]:.4f} "
                  f"({shape}, {worst[1:]}), median {middle:.4f}, standard error "
                  f"{math.sqrt(0.05 * 0.95 / chosen.tables):.4f}", flush=True)


if __name__ == "__main__":
    main()
