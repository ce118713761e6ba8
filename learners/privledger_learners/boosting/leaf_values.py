"""Leaf values from noisy sums: post-processing, the same for every boosted learner."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from attrs import define, frozen

DRIFT = 0.03  # of the total mass, from tree to tree, as a share of it
LEAST_LEFT = 0.1  # of the squared residuals, for the clip
UNCLIPPED = 0.80  # share of records whose gradient is within the clip


@lru_cache(maxsize=256)
def _correlation(size: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(size)
    return correlation ** np.abs(places[:, None] - places), places


@frozen
class LeafRule:
    """How noisy sums become leaf values; none of it is charged.

    Attributes:
        rate: learning rate.
        width: prior standard deviation of a leaf value, in units of the clip (squared loss) or
            of the score.
        ratio: the papers' leaf, noisy sum over noisy count, instead of the posterior mean.
        regularization: smallest count of a `ratio` leaf.
        loss: `squared`, `logistic` or `softmax`. classes: of softmax.
    """

    rate: float
    width: float
    ratio: bool
    regularization: float
    loss: str
    classes: int

    @property
    def most_mass(self) -> float:
        """The largest hessian that one record can have."""
        return {"squared": 1.0, "logistic": 0.25}.get(self.loss, (1 - 1 / self.classes) / 2)

    def divided(self, counts: np.ndarray, S: np.ndarray, clip: float) -> np.ndarray:
        """Noisy sums over noisy counts, each value at most rate * clip."""
        return ratio_values(counts, S, rate=self.rate, regularization=self.regularization,
                            clip=clip)

    def spread(self, clip: float) -> float:
        """Variance of one record's gradient around its leaf's mean, per unit of mass."""
        return 0.25 * clip * clip if self.loss == "squared" else 1.0

    def posterior(self, mass: np.ndarray, unsure: np.ndarray, S: np.ndarray, *, clip: float,
                  sd_s: float, correlation: float = 0.0, scale: float | None = None) -> Posterior:
        """Posterior means of leaf values; see `posterior_values`.

        Args:
            mass, unsure: hessian mass of each leaf and its variance, shape (leaves,).
            correlation: of neighbouring leaves, where they have an order.
            scale: what the prior's width is a share of, under squared loss; None for the clip.
        """
        tau = self.width
        if self.loss == "squared":
            tau *= clip if scale is None else scale
        return posterior_values(mass, unsure, S, sd_s=sd_s, tau=tau, rate=self.rate,
                                extra=self.spread(clip), correlation=correlation)


@frozen(eq=False)
class Posterior:
    """What a tree's noisy sums say of its leaves.

    Attributes:
        values: leaf values, shape as S.
        trace: sum over the leaves of how much a value moves with its own sum. Times the noise's
            variance it is what noise alone adds, on average, to the sum of value times S.
    """

    values: np.ndarray
    trace: float


def posterior_values(
    mass: np.ndarray, unsure: np.ndarray, S: np.ndarray, *, sd_s: float, tau: float,
    rate: float, extra: float, correlation: float,
) -> Posterior:
    """Posterior mean of leaf values v, times the learning rate.

    Model: S = a v + noise, a of mean `mass` and variance `unsure`, noise variance
    sd_s^2 + extra * a; prior v ~ N(0, tau^2 R), R[i, j] = correlation^|i - j| (neighbouring
    cells of one ordered feature).

    Args:
        mass, unsure: shape (leaves,). S: shape (leaves,) or (leaves, classes).

    Returns:
        Values clipped to twice rate * tau; the trace is that of values that are not.
    """
    a = mass
    ridge = (sd_s**2 + extra * a) / tau**2 + unsure
    if correlation > 0 and len(a) > 1:
        R, places = _correlation(len(a), correlation)
        system = a[:, None] * R * a
        system[places, places] += ridge
        inverse = a[:, None] * np.linalg.inv(system)
        values, trace = R @ (inverse @ S), float((R * inverse).sum())
    else:
        weight = a / (a * a + ridge)
        values = weight[:, None] * S if S.ndim == 2 else weight * S
        trace = float(weight.sum())
    most = 2 * rate * tau
    return Posterior(np.clip(rate * values, -most, most), rate * trace)


def ratio_values(H: np.ndarray, S: np.ndarray, *, rate: float, regularization: float,
                 clip: float) -> np.ndarray:
    """The paper's leaf: noisy sum over noisy count, the count at least `regularization`."""
    weight = rate / np.maximum(regularization, H)
    values = weight[:, None] * S if S.ndim == 2 else weight * S
    return np.asarray(np.clip(values, -rate * clip, rate * clip))


@define
class Clip:
    """The gradient clip: it falls as what is left to explain falls. Public before each round.

    Every bound follows from values released before its round, and the noise is scaled to it, so
    a round costs what it costs with a fixed one (docs/proofs/gaussian.md).

    Attributes:
        first: of the first tree. left: share of the squared residuals that is not explained yet.
        squares: sum of squared residuals at the start, estimated. falls: else it stays.
    """

    first: float
    squares: float
    falls: bool
    left: float = 1.0

    @property
    def now(self) -> float:
        """Bound of the coming round: at least `LEAST_LEFT` ** .5 of the first, at most all."""
        if not self.falls:
            return self.first
        return self.first * math.sqrt(min(max(self.left, LEAST_LEFT), 1.0))

    def follow(self, mass: np.ndarray, S: np.ndarray, found: Posterior, sd_s: float) -> None:
        """What a tree explains: 2 sum v S - sum mass v^2, less what its noise explains.

        Args:
            mass: shape (leaves,). S: shape (leaves,), of standard deviation `sd_s` each.
        """
        if not self.falls:
            return
        v = found.values
        gain = 2 * (float(v @ S) - sd_s**2 * found.trace) - float(mass @ (v * v))
        self.left = min(self.left - gain / self.squares, 1.0)


@define
class Beliefs:
    """What the releases so far say about all records together: two Kalman filters.

    Attributes:
        total, total_variance: hessian mass of all records; under a curved loss it drifts.
        variance: of the error of the starting mean, on the scaled target.
    """

    curved: bool
    total: float
    total_variance: float
    variance: float

    def follow_total(self, H: np.ndarray, sd_h: float) -> None:
        """Learn from one tree's masses, shape (leaves,), each of standard deviation `sd_h`."""
        if self.curved:
            self.total_variance += (DRIFT * self.total) ** 2
        weight = self.total_variance / (self.total_variance + len(H) * sd_h**2)
        self.total = max(self.total + weight * (float(H.sum()) - self.total), 1.0)
        self.total_variance *= 1 - weight

    def follow_intercept(self, mass: np.ndarray, unsure: np.ndarray, S: np.ndarray, sd_s: float,
                         extra: float) -> float:
        """What the sum of S over the leaves says is missing from the starting mean."""
        slope = UNCLIPPED * float(mass.sum())
        noise = len(S) * sd_s**2 + extra * slope + float(unsure.sum()) * self.variance
        weight = slope * self.variance / (slope**2 * self.variance + noise)
        self.variance *= 1 - weight * slope
        return weight * float(S.sum())
