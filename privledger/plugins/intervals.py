"""Intervals of 95 % from released values: of the noise, and of the noise and the sample.

docs/proofs/summaries.md has the formulas, what is exact, and the coverage that was measured.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NORMAL = 1.959963984540055
ONE_SIDED = 1.6448536269514722
PLUS = 8.0
"""Squared ranges that a sample's spread is raised by: values that a small group did not show.
Without noise 4 covers .934 of binomial samples at worst, 8 covers .943 (docs/proofs/summaries.md).
"""
_APART = 1e-3
_STEPS = 400
_FEW_STEPS = 100  # with more than three entries, whose widths take longer to find
_FAR = 20.0  # standard deviations of a sum of Laplace noise: less than e^-25 is beyond
_LAPLACE = -math.log(0.05) / math.sqrt(2.0)  # 95 % half width of one, in standard deviations
_AREA = 1.98  # of a normal law .9523: what is beyond the first order has thicker tails


def laplace_quantile(weights: tuple[float, ...], outside: float = 0.05) -> float:
    """t with P(|sum of weights_i L_i| > t) = outside for independent Laplace of scale 1.

    Of equal sizes as a mixture of Erlang laws; up to three others by partial fractions, which need
    sizes that differ: equal ones are raised by a thousandth. A larger weight never makes the tail
    smaller, so that only widens. More from the characteristic function.
    """
    return repeated_quantile(tuple(Counter(map(abs, weights)).items()), outside)


@lru_cache(maxsize=4096)
def repeated_quantile(counted: tuple[tuple[float, int], ...], outside: float) -> float:
    """`laplace_quantile` of (size, how often) pairs; sizes are at least 0."""
    if len(counted) == 1:
        return counted[0][0] * _equal_quantile(counted[0][1], outside)
    if sum(many for _, many in counted) > 3:
        return _inverted(np.array(counted), outside)
    weights = [size for size, many in counted for _ in range(many)]
    sizes: list[float] = []
    for size in sorted(one for one in weights if one > 1e-9 * max(weights)):
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


def _inverted(counted: Floats, outside: float) -> float:
    """The same from the characteristic function, prod 1 / (1 + sizes_i^2 u^2), by the rule of
    midpoints, which is exact but for what lies beyond `_FAR`. What is cut off is added."""
    sizes, often = counted.T
    scale = math.sqrt(2 * float(often @ sizes**2))
    if not scale:
        return 0.0
    step, wanted, cut = math.pi / _FAR, 128, 1.0
    while cut > 1e-6 and wanted < 1 << 16:
        wanted *= 2
        places = (np.arange(wanted) + 0.5) * step
        law = np.exp(-np.log1p(np.square(np.outer(places, sizes / scale))) @ often)
        cut = float(law[-1]) + 1e-9
    law /= places
    low, high = 0.0, _FAR / 2
    for _ in range(34):
        middle = (low + high) / 2
        tail = 1 - 2 / math.pi * step * float(np.sin(places * middle) @ law) + cut
        low, high = (middle, high) if tail > outside else (low, middle)
    return high * scale


def _equal_quantile(many: int, outside: float) -> float:
    """The same for so many of weight one: (1 - s)^-k (1 + s)^-k in powers of 1 - s."""
    from scipy.special import gammaincc  # a list of learners needs none

    orders = np.arange(many, 0, -1)
    shares = np.array([math.comb(2 * many - order - 1, many - order) / 2.0 ** (2 * many - order)
                       for order in orders.tolist()])
    low, high = 0.0, 20.0 * many
    for _ in range(80):
        middle = (low + high) / 2
        tail = 2 * float((shares * gammaincc(orders, middle)).sum())
        low, high = (middle, high) if tail > outside else (low, middle)
    return high


@frozen
class Shares:
    """Entries of a record that are not negative and sum to one, and a value that they say.

    Attributes:
        values: in [0, 1], of a record that is wholly in one entry.
        spread: for means m, weights of the entries whose sum is that of (value - m)^2, or more,
            shape (means, entries).
    """

    values: tuple[float, ...]
    spread: Callable[[Floats], Floats]


MOMENTS = Shares((1.0, 0.5, 0.0),
                 lambda m: np.stack([(1 - m) ** 2, (0.5 - m) ** 2 - 0.25, m * m], axis=1))
"""u, from (u^2, 2u(1-u), (1-u)^2)."""


@lru_cache(maxsize=16)
def _half_widths(values: tuple[float, ...]) -> Floats:
    """Of sum (u - m) for m between neighbours of a grid of [0, 1], for Laplace noise of scale 1:
    that of the largest weights there, as larger ones never make the tail smaller."""
    steps = _STEPS if len(values) <= 3 else _FEW_STEPS
    ends = np.abs(np.array(values) - np.linspace(0.0, 1.0, steps + 1)[:, None])
    return np.array([laplace_quantile(tuple(each)) for each in
                     np.maximum(ends[:-1], ends[1:]).tolist()])


def noise_half_width(m: Floats, scale: float, kind: str, shares: Shares = MOMENTS) -> Floats:
    """95 % bound on the noise in sum (u - m); rounded outwards.

    Args:
        scale: of the noise of one entry: the parameter (laplace) or standard deviation (gaussian).
    """
    if kind == "gaussian":
        apart = np.square(np.array(shares.values) - m[:, None])
        return np.asarray(NORMAL * scale * np.sqrt(apart.sum(axis=1)))
    widths = _half_widths(shares.values)
    cell = np.minimum((np.clip(m, 0.0, 1.0) * len(widths)).astype(int), len(widths) - 1)
    return np.asarray(scale * widths[cell])


def mean_intervals(blocks: Floats, scale: float, kind: str, *, sampling: bool,
                   shares: Shares = MOMENTS) -> tuple[Floats, Floats, Floats]:
    """(estimate, low, high) of means in [0, 1] from noisy blocks, each of shape (groups,).

    A mean m is kept where sum (u - m) is no further from 0 than noise, and sampling, explain; low
    and high are the ends of what is kept. Where nothing is kept, the nearest bound.

    Args:
        blocks: noisy sums of the shares, shape (groups, entries).
    """
    counts, entries = blocks.sum(axis=1), blocks.shape[1]
    totals = blocks @ np.array(shares.values)
    sd = entry_sd(scale, kind)

    def kept(m: Floats) -> NDArray[np.bool_]:
        allowed = noise_half_width(m, scale, kind, shares) ** 2
        if sampling:
            v = shares.spread(m)
            upper = (v * blocks).sum(axis=1) + ONE_SIDED * sd * np.sqrt((v * v).sum(axis=1))
            most = np.maximum(counts + ONE_SIDED * sd * math.sqrt(entries), 1.0) * m * (1 - m)
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


def area_intervals(above: Floats, below: Floats, scale: float, kind: str, *, sampling: bool
                   ) -> tuple[float, float, float]:
    """(estimate, low, high) of the area under a ROC curve: how often a record of one class has a
    higher score than one of the other; in one interval of scores they count half.

    An area is kept as `area_kept` says: approximate.

    Args:
        above, below: noisy counts of either class by intervals of the score, shape (intervals,).
    """
    areas = np.linspace(0.0, 1.0, 2001)
    many, few = float(above.sum()), float(below.sum())
    wins = _wins(len(above))
    estimate = float(np.clip(above @ wins @ below / max(many * few, 1.0), 0.0, 1.0))
    kept = np.flatnonzero(area_kept(areas, above, below, scale, kind, sampling=sampling))
    if not len(kept):
        return estimate, estimate, estimate
    return (estimate, min(estimate, float(areas[max(kept[0] - 1, 0)])),
            max(estimate, float(areas[min(kept[-1] + 1, len(areas) - 1)])))


def area_kept(areas: Floats, above: Floats, below: Floats, scale: float, kind: str, *,
              sampling: bool) -> NDArray[np.bool_]:
    """Whether T = sum (w - area) above below is no further from 0 than its first-order noise, and
    sampling, explain; both taken at upper ends of what noisy counts say (docs/proofs/score.md).

    Args:
        areas: shape (k,). above, below: shape (intervals,), or (k, intervals).
    """
    sd, wins = entry_sd(scale, kind), _wins(above.shape[-1])
    many, few, each = above.sum(axis=-1), below.sum(axis=-1), areas[:, None]
    of_above = below @ wins.T - each * few[..., None]  # derivatives of T
    of_below = above @ wins - each * many[..., None]
    whole = np.square(of_above).sum(axis=1) + np.square(of_below).sum(axis=1)
    moves = np.concatenate([of_below @ wins.T - each * of_below.sum(axis=1, keepdims=True),
                            of_above @ wins - each * of_above.sum(axis=1, keepdims=True)], axis=1)
    whole += 2 * ONE_SIDED * sd * np.linalg.norm(moves, axis=1)
    allowed = (_LAPLACE if kind == "laplace" else _AREA) ** 2 * sd**2 * whole
    if sampling:
        squares = np.square(of_above), np.square(of_below)
        spread = ((squares[0] * np.maximum(above, 0.0)).sum(axis=1)
                  + (squares[1] * np.maximum(below, 0.0)).sum(axis=1)
                  + ONE_SIDED * sd * np.linalg.norm(np.concatenate(squares, axis=1), axis=1))
        allowed += NORMAL**2 * (spread + many**2 + few**2)
    off = (of_above * above).sum(axis=1)
    return np.asarray(np.square(off) <= allowed)


def _wins(bins: int) -> Floats:
    """How often the higher of two intervals wins, in halves."""
    return np.asarray(np.tril(np.ones((bins, bins)), -1) + np.eye(bins) / 2)


def entry_sd(scale: float, kind: str) -> float:
    """Standard deviation of the noise of one entry."""
    return scale * (math.sqrt(2.0) if kind == "laplace" else 1.0)


def sum_half_width(weights: tuple[float, ...], scale: float, kind: str) -> float:
    """95 % half width of a weighted sum of noisy entries."""
    if kind == "laplace":
        return scale * laplace_quantile(tuple(float(one) for one in weights))
    return NORMAL * scale * math.hypot(*weights)
