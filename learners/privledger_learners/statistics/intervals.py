"""Intervals of 95 % from released values: of the noise, and of the noise and the sample.

docs/proofs/summaries.md has the formulas, what is exact, and the coverage that was measured.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaincc

NORMAL = 1.959963984540055
ONE_SIDED = 1.6448536269514722
PLUS = 8.0
"""Squared ranges that a sample's spread is raised by: values that a small group did not show.
Without noise 4 covers .934 of binomial samples at worst, 8 covers .943 (docs/proofs/summaries.md).
"""
_APART = 1e-3
_STEPS = 400


@lru_cache(maxsize=4096)
def laplace_quantile(weights: tuple[float, ...], outside: float = 0.05) -> float:
    """t with P(|sum of weights_i L_i| > t) = outside for independent Laplace of scale 1.

    Of equal sizes as a mixture of Erlang laws; else by partial fractions, which need sizes that
    differ: equal ones are raised by a thousandth. A larger weight never makes the tail smaller,
    so that only widens.
    """
    if len(set(map(abs, weights))) == 1:
        return abs(weights[0]) * _equal_quantile(len(weights), outside)
    sizes: list[float] = []
    for size in sorted(abs(one) for one in weights if abs(one) > 1e-9 * max(map(abs, weights))):
        sizes.append(max(size, sizes[-1] * (1 + _APART)) if sizes else size)
    if not sizes:
        return 0.0
    parts = [math.prod(a * a / ((a - b) * (a + b)) for b in sizes if b != a) for a in sizes]
    low, high = 0.0, sum(sizes) * 40.0
    for _ in range(80):
        middle = (low + high) / 2
        tail = sum(part * math.exp(-middle / size) for part, size in zip(parts, sizes, strict=True))
        low, high = (middle, high) if tail > outside else (low, middle)
    return high


def _equal_quantile(many: int, outside: float) -> float:
    """The same for so many of weight one: (1 - s)^-k (1 + s)^-k in powers of 1 - s."""
    orders = np.arange(many, 0, -1)
    shares = np.array([math.comb(2 * many - order - 1, many - order) / 2.0 ** (2 * many - order)
                       for order in orders.tolist()])
    low, high = 0.0, 20.0 * many
    for _ in range(80):
        middle = (low + high) / 2
        tail = 2 * float((shares * gammaincc(orders, middle)).sum())
        low, high = (middle, high) if tail > outside else (low, middle)
    return high


@lru_cache(maxsize=1)
def _half_widths() -> np.ndarray:
    """Of sum (u - m) at m = 0, 1/400, ..., 1, for Laplace noise of scale 1."""
    grid = np.linspace(0.0, 1.0, _STEPS + 1)
    return np.array([laplace_quantile((1 - m, 0.5 - m, -m)) for m in grid])


def noise_half_width(m: np.ndarray, scale: float, kind: str) -> np.ndarray:
    """95 % bound on the noise in sum (u - m) of a block of three; rounded outwards.

    Args:
        scale: of the noise of one entry: the parameter (laplace) or standard deviation (gaussian).
    """
    if kind == "gaussian":
        return np.asarray(NORMAL * scale * np.sqrt((1 - m) ** 2 + (0.5 - m) ** 2 + m * m))
    table, place = _half_widths(), np.clip(m, 0.0, 1.0) * _STEPS
    near = np.maximum(table[np.floor(place).astype(int)], table[np.ceil(place).astype(int)])
    return np.asarray(scale * near)


def mean_intervals(blocks: np.ndarray, scale: float, kind: str, *, sampling: bool
                   ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(estimate, low, high) of means in [0, 1] from noisy blocks, each of shape (groups,).

    A mean m is kept where sum (u - m) is no further from 0 than noise, and sampling, explain; low
    and high are the ends of what is kept. Where nothing is kept, the nearest bound.

    Args:
        blocks: noisy sums of u^2, 2u(1-u), (1-u)^2, shape (groups, 3).
    """
    counts = blocks.sum(axis=1)
    totals = blocks[:, 0] + blocks[:, 1] / 2
    sd = scale * (math.sqrt(2.0) if kind == "laplace" else 1.0)

    def kept(m: np.ndarray) -> np.ndarray:
        allowed = noise_half_width(m, scale, kind) ** 2
        if sampling:
            v = np.stack([(1 - m) ** 2, (0.5 - m) ** 2 - 0.25, m * m], axis=1)
            upper = (v * blocks).sum(axis=1) + ONE_SIDED * sd * np.sqrt((v * v).sum(axis=1))
            most = np.maximum(counts + ONE_SIDED * sd * math.sqrt(3.0), 1.0) * m * (1 - m)
            allowed = allowed + NORMAL**2 * (np.clip(upper, 0.0, most) + PLUS)
        return np.asarray((totals - m * counts) ** 2 <= allowed)

    estimate = np.clip(totals / np.maximum(counts, 1.0), 0.0, 1.0)
    ends = []
    for end in (0.0, 1.0):  # from the far end towards the estimate
        good, bad = estimate.copy(), np.full_like(estimate, end)
        found = np.zeros(len(estimate), dtype=bool)
        for step in range(25):
            point = end + (estimate - end) * step / 24
            here = kept(point) & ~found
            good[here] = point[here]
            found |= here
            bad[~found] = point[~found]
        inner = good != end
        for _ in range(45):
            middle = (good + bad) / 2
            here = kept(middle)
            good, bad = np.where(here, middle, good), np.where(here, bad, middle)
        ends.append(np.where(inner, good, end))
    return estimate, ends[0], ends[1]


def sum_half_width(weights: tuple[float, ...], scale: float, kind: str) -> float:
    """95 % half width of a weighted sum of noisy entries."""
    if kind == "laplace":
        return scale * laplace_quantile(tuple(float(one) for one in weights))
    return NORMAL * scale * math.hypot(*weights)
