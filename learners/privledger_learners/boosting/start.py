"""Initial score, row estimate, gradient clip and depth: post-processing of the start releases."""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

RESIDUAL_EDGES = tuple(2.0**k for k in range(-7, 1))
"""Public edges of the histogram of |y - f0|; y is scaled to [-1, 1]."""


@frozen(eq=False)
class Start:
    """What training begins with.

    Attributes:
        score: shape (1,) or (classes,).
        n_hat: released estimate of the number of records, at least 20.
        clip: gradient clip.
        variance: of the starting mean (regression), on the scaled target.
        total: estimated hessian mass of all records at the start, and its variance.
    """

    score: np.ndarray
    n_hat: float
    clip: float
    variance: float = 0.0
    total: float = 0.0
    total_variance: float = 0.0


def mean_estimate(
    count: float, total: float, sd_count: float, sd_sum: float
) -> tuple[float, float, float]:
    """Records, mean of y in [-1, 1] and its variance, from a noisy count and a noisy sum.

    Far above the noise the plain ratio; otherwise posterior means under a log-uniform prior
    on the number of records and a uniform prior on the mean.
    """
    if count > 30 * sd_count and count > 30 * sd_sum:
        mean_ratio = float(np.clip(total / count, -0.99, 0.99))
        return count, mean_ratio, (sd_sum / count) ** 2 + (mean_ratio * sd_count / count) ** 2
    n = np.exp(np.linspace(math.log(20), math.log(2e7), 240))[:, None]
    mean = np.linspace(-0.99, 0.99, 67)[None, :]
    fit = -0.5 * ((n - count) / sd_count) ** 2 - 0.5 * ((n * mean - total) / sd_sum) ** 2
    weight = np.exp(fit - fit.max())
    weight /= weight.sum()
    centre = float((weight * mean).sum())
    return float((weight * n).sum()), centre, float((weight * (mean - centre) ** 2).sum())


def regression_clip(histogram: np.ndarray, sd: float, n_hat: float, mu: float,
                    factor: float) -> float:
    """Gradient clip from the noisy histogram of |y - f0|.

    Near the 80 % quantile when noise dominates, near the root mean square when it does not.
    """
    upper = np.array([*RESIDUAL_EDGES, 2.0])
    lower = np.concatenate([[0.0], upper[:-1]])
    positive = np.maximum(histogram, 0)
    cumulated = np.cumsum(positive) / max(positive.sum(), 1e-9)
    place = min(int(np.searchsorted(cumulated, 0.8)), len(upper) - 1)
    before = cumulated[place - 1] if place else 0.0
    inside = (0.8 - before) / max(cumulated[place] - before, 1e-9)
    quantile = lower[place] + (upper[place] - lower[place]) * min(max(inside, 0.0), 1.0)
    sure = np.where(histogram > 2 * sd, histogram, 0)
    spread = quantile
    if sure.sum() > 0:
        spread = math.sqrt(float((sure * ((lower + upper) / 2) ** 2).sum() / sure.sum()))
    weight = min(max((math.log2(max(n_hat * mu, 1.0)) - 8) / 5, 0.0), 1.0)
    clip = factor * quantile ** (1 - weight) * max(spread, quantile) ** weight
    return min(max(float(clip), 0.01), 1.0)


def class_prior(histogram: np.ndarray, sd: float) -> np.ndarray:
    """Class probabilities from a noisy histogram, shape (classes,)."""
    prior = np.maximum(histogram, 0) + 0.5 * sd + 1
    return prior / prior.sum()


def tree_depth(n_hat: float, mu: float, offset: float, least: int, most: int) -> int:
    """Depth of mixed trees: half a level for every doubling of signal over noise."""
    return int(np.clip(round(math.log2(max(n_hat * mu, 1.0)) / 2 - offset), least, most))
