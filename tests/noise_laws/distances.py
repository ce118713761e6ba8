"""How far draws are from a law, and the laws, by formulas that share nothing with the samplers.

Distances are Kolmogorov's: the largest difference of two distribution functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray
from scipy.special import chdtri, erfc

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Distribution = Callable[[Floats], Floats]
Survival = Callable[[Floats], Floats]

FALSE_ALARM = 1e-9
"""Of one chi-square, by design. With a seed the answer is always the same."""

FLOATS = 2.0**-40
"""What the formulas below may be wrong by, generously: tests compare them with mpmath."""


@frozen
class LawResult:
    """One law of the noise, looked at.

    Attributes:
        law: its name.
        distance: from the true law: Kolmogorov's, or chi-square, or a number of wrong words.
        bound: what a right sampler never passes (a chi-square: with probability 1e-9).
        holds: whether distance <= bound and the words were used as they should be.
        draws: how many there were.
    """

    law: str
    distance: float
    bound: float
    holds: bool
    draws: int


@frozen
class Finding:
    """One distance, before it has a name; `sound`: every word was used, once."""

    distance: float
    bound: float
    draws: int
    sound: bool = True

    @property
    def holds(self) -> bool:
        """False for NaN, too."""
        return self.sound and self.distance <= self.bound


def worst(law: str, found: Sequence[Finding]) -> LawResult:
    """The finding that is nearest to its bound, or past it; any failed one fails the law."""
    last = max(found, key=lambda one: (not one.holds, one.distance / max(one.bound, 1e-300)))
    return LawResult(law, last.distance if last.sound else math.inf, last.bound,
                     all(one.holds for one in found), sum(one.draws for one in found))


def kolmogorov(draws: Ints | Floats, at: Distribution, before: Distribution) -> float:
    """Distance of draws from a law.

    Args:
        at: P(X <= x). before: P(X < x), or P(X <= x - 1) for whole numbers.
    """
    if not len(draws):
        return math.inf
    values, counts = np.unique(draws, return_counts=True)
    share = np.cumsum(counts) / len(draws)
    points = values.astype(np.float64)
    above = np.abs(share - at(points))
    below = np.abs(share - counts / len(draws) - before(points))
    return float(max(above.max(), below.max()))


def of_table(draws: Ints, chances: Sequence[float]) -> float:
    """Distance of draws from 0 to len(chances) - 1 from the law `chances`."""
    if len(draws) == 0 or int(draws.min()) < 0 or int(draws.max()) >= len(chances):
        return math.inf
    share = np.bincount(draws, minlength=len(chances)) / len(draws)
    return float(np.abs(np.cumsum(share - np.array(chances))).max())


def chi_square(counts: Sequence[int] | Ints, chances: Sequence[float] | Floats) -> Finding:
    """Pearson's statistic, and what it passes with probability 1e-9.

    The tail is asymptotic: give at least 25 expected draws to every cell.
    """
    found, law = np.array(counts, dtype=np.float64), np.array(chances, dtype=np.float64)
    total = int(found.sum())
    if not total or len(found) != len(law):
        return Finding(math.inf, 0.0, total)
    expected = law * total
    statistic = float((np.square(found - expected) / expected).sum())
    return Finding(statistic, float(chdtri(len(law) - 1, FALSE_ALARM)), total)


def gaussian_tail(t: Floats) -> Floats:
    """P(|X| > t), X standard normal, t >= 0."""
    result: Floats = erfc(t / math.sqrt(2))
    return result


def laplace_tail(t: Floats) -> Floats:
    """P(|X| > t), X of density exp(-|x|) / 2, t >= 0."""
    return np.exp(-t)


def rounded_to(tail: Survival, scale: float, within: float = 1.0) -> Distribution:
    """P(floor(scale X + 1/2) <= k) for a symmetric X, given that P(|X| > |x|) < `within`."""
    def at(k: Floats) -> Floats:
        edge = (k + 0.5) / scale
        half = 0.5 * np.minimum(tail(np.abs(edge)) / within, 1.0)
        return np.where(edge < 0, half, 1.0 - half)

    return at


def continuous(tail: Survival, scale: float) -> Distribution:
    """P(scale X <= x)."""
    def at(x: Floats) -> Floats:
        half = 0.5 * tail(np.abs(x) / scale)
        return np.where(x < 0, half, 1.0 - half)

    return at


def by_weight(scores: Sequence[float], weights: Sequence[int], rate: float) -> list[float]:
    """The exponential mechanism's law."""
    best = max(scores)
    masses = [weight * math.exp(rate * (score - best))
              for score, weight in zip(scores, weights, strict=True)]
    total = math.fsum(masses)
    return [mass / total for mass in masses]


def by_flips(scores: Sequence[float], rate: float) -> list[float]:
    """Permute-and-flip's law: p_i times the integral of the product of 1 - p_j x, 0 < x < 1.

    x is the time at which i comes in a random order; nobody before it was accepted. The same is
    the law of the largest score plus exponential noise (Ding et al. 2021, arXiv:2105.07260).
    """
    best = max(scores)
    heads = [math.exp(rate * (score - best)) for score in scores]
    nodes, sizes = np.polynomial.legendre.leggauss(len(scores) + 1)
    times, found = (nodes + 1) / 2, []
    for i, head in enumerate(heads):
        product = np.ones_like(times)
        for other in heads[:i] + heads[i + 1 :]:
            product *= 1 - other * times
        found.append(head * float((sizes * product).sum()) / 2)
    return found


def negative_binomial(shape: float, success: float, most: int) -> list[float]:
    """P(K = 0), ..., P(K = most); shape 0 is the logarithmic law."""
    if shape == 0:
        return [0.0] + [(1 - success) ** k / (k * math.log(1 / success))
                        for k in range(1, most + 1)]
    whole = math.lgamma(shape)
    over = math.expm1(-shape * math.log(success))
    # Gamma(k + shape) / (k! Gamma(shape)); for shape in (-1, 0) both signs are negative.
    return [0.0] + [math.exp(math.lgamma(k + shape) - whole - math.lgamma(k + 1)
                             + k * math.log1p(-success)) / abs(over)
                    for k in range(1, most + 1)]


def poisson(mean: float, most: int) -> list[float]:
    """P(K = 0), ..., P(K = most)."""
    return [math.exp(k * math.log(mean) - mean - math.lgamma(k + 1)) for k in range(most + 1)]
