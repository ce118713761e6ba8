"""Dominating pairs of the mechanisms, each with exact masses between any two privacy losses.

A pair (P, Q) has the loss L = log dP/dQ and the profile H(a) = sup_S P(S) - a Q(S). A pair
dominates a mechanism if its profile is at least the mechanism's for every a >= 0. Then its
powers and products dominate compositions (docs/proofs/privacy-loss.md, lemma 2).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from fractions import Fraction
from functools import cache, lru_cache
from typing import Protocol

import numpy as np
from attrs import field, frozen

from privledger.accounting.moments import Array
from privledger.rounding import up

# --- Masses of the two distributions of a pair between consecutive privacy losses.

UNIT = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next float: one elementary rounding is at most half of it."""


@frozen(eq=False)
class Bands:
    """The continuous part of a pair on the bands (edge[i], edge[i + 1]].

    Attributes:
        p: mass under P, shape (len(edges) - 1,); q: the same under Q.
        slack_p, slack_q: bounds on the error of each mass, same shape.
        below: mass under P at losses up to the first edge, and `below_q` under Q.
        above: mass under P at finite losses beyond the last edge, and `above_q` under Q.
        blur: what rounding may have moved any edge by, in nats of loss.
    """

    p: Array
    q: Array
    slack_p: Array
    slack_q: Array
    below: float
    below_q: float
    above: float
    above_q: float
    blur: float


@frozen(eq=False)
class Atoms:
    """Losses that have positive probability.

    Attributes:
        loss: shape (n,), nats, finite. p: their mass under P; under Q it is p exp(-loss).
        infinite: P mass where Q has none. q_only: Q mass where P has none.
        blur: what rounding may have moved the losses by, besides their last digits.
        raised: by how much, relatively, the masses may have been rounded up.
    """

    loss: Array
    p: Array
    infinite: float = 0.0
    q_only: float = 0.0
    blur: float = 0.0
    raised: float = 0.0


NO_ATOMS = Atoms(np.zeros(0), np.zeros(0))


def no_bands(edges: Array) -> Bands:
    """A pair that has atoms only."""
    none = np.zeros(len(edges) - 1)
    return Bands(none, none, none, none, 0.0, 0.0, 0.0, 0.0, 0.0)


class Pair(Hashable, Protocol):
    """What the accountant needs to know of a pair. Implementations are frozen and hashable."""

    @property
    def top(self) -> float:
        """Largest finite loss; infinity if unbounded."""

    @property
    def tight(self) -> bool:
        """Whether some neighbouring tables attain the profile, so that lower bounds hold."""

    def bands(self, edges: Array) -> Bands:
        """Masses of the continuous part on increasing `edges` (ends may be infinite)."""

    def atoms(self) -> Atoms:
        """The part with positive probability."""

    def probe(self) -> tuple[Array, Array]:
        """Rough (losses, P masses) of the finite part, to choose meshes by. Proves nothing."""

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Bound on log E_P[exp(beta L)] over finite continuous losses above `edge`.

        Infinity where nothing is known.
        """


Items = tuple[tuple[Pair, int], ...]
"""Pairs, and how often each occurs."""


def bounded_tail(pair: Pair, edge: float) -> float:
    """For pairs with a largest loss: nothing lies above it."""
    return -math.inf if edge >= pair.top else math.inf


def _tail_error(z: Array) -> Array:
    """Relative error of a computed normal tail: exp(-z^2/2) multiplies the rounding of z^2."""
    return UNIT * (8 + np.minimum(z * z, 4000.0))


def _differences(tail: Array, side: Array) -> Array:
    """Masses between cut points from the smaller tail at each: 1 - a - b across the centre."""
    low, high = tail[..., :-1], tail[..., 1:]
    right, left = side[..., :-1] >= 0, side[..., 1:] <= 0
    return np.where(right, low - high, np.where(left, high - low, 1 - low - high))


def normal_masses(
    at: Array, moved: Array | float = 0.0
) -> tuple[Array, Array, float, float]:
    """N(0, 1) masses between rising cut points, bounds on their errors, and both ends.

    Args:
        moved: what rounding may have moved the points by, besides a unit in their last place.
    """
    from scipy.special import ndtr

    return (*inner_masses(at, moved),
            float(ndtr(at[0])) * (1 + 1e-12), float(ndtr(-at[-1])) * (1 + 1e-12))


def inner_masses(at: Array, moved: Array | float) -> tuple[Array, Array]:
    """The same without the ends; `at` of any shape, rising along its last axis."""
    from scipy.special import ndtr

    tail = ndtr(-np.abs(at))
    held = tail > 0
    z = np.where(held, at, 0.0)
    loose = np.where(held, tail * (_tail_error(z) + np.where(held, moved, 0.0)
                                   * (1 + np.abs(z))), 0.0)
    mass = np.maximum(_differences(tail, at), 0.0)
    return mass, loose[..., :-1] + loose[..., 1:] + UNIT * mass


@frozen
class GaussianPair:
    """N(mu, 1) against N(0, 1): the loss is N(mu^2/2, mu^2) under P.

    Dong, Roth, Su 2019 (arXiv:1905.02383v3), section 2. It is `tight` unless it stands for
    whole-number noise, of which it is a little above the truth.
    """

    mu: float
    tight: bool = True
    top: float = field(default=math.inf, init=False)

    def bands(self, edges: Array) -> Bands:
        """Differences of normal tails, each from the side where it is small; see `Pair.bands`."""
        with np.errstate(invalid="ignore"):
            p, slack_p, below, above = normal_masses(edges / self.mu - 0.5 * self.mu)
            q, slack_q, below_q, above_q = normal_masses(edges / self.mu + 0.5 * self.mu)
        finite = edges[np.isfinite(edges)]
        blur = 4 * UNIT * (float(np.max(np.abs(finite), initial=0.0)) + self.mu * self.mu)
        return Bands(p, q, slack_p, slack_q, below, below_q, above, above_q, blur)

    def atoms(self) -> Atoms:
        """None: the loss of a normal pair is continuous."""
        return NO_ATOMS

    def probe(self) -> tuple[Array, Array]:
        """161 places out to 17 deviations, further down for a large `mu`; see `Pair.probe`."""
        # Down to where Q has its mass, so that a sampled pair can be probed through this one.
        z = np.linspace(-17.0 - min(self.mu, 20.0), 17.0, 161)
        weight = np.exp(-0.5 * z * z)
        return self.mu * z + 0.5 * self.mu**2, weight / weight.sum()

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """exp(beta L) moves the mean of L by beta mu^2."""
        from scipy.special import log_ndtr

        whole = 0.5 * beta * (beta + 1) * self.mu**2
        above = float(log_ndtr(self.mu * (beta + 0.5) - edge / self.mu))
        return whole * (1 + 1e-14) + above * (1 - 1e-12)


def _exponential_bands(edges: Array, width: float, scale: float, low: float) -> Bands:
    """P density proportional to exp(x/2) on [-width, width], Q the same mirrored.

    `scale` is the P density at x = width over 1/2; `low` the Q mass factor, see callers.
    """
    cut = np.clip(edges, -width, width)
    rise = np.expm1(0.5 * np.diff(cut))
    p = scale * np.exp(0.5 * (cut[:-1] - width)) * rise
    q = scale * low * np.exp(0.5 * (width - cut[1:])) * rise
    slack = 8 * UNIT * (1 + width)

    def total(start: float, stop: float) -> tuple[float, float]:
        grow = math.expm1(0.5 * (stop - start))
        return (scale * math.exp(0.5 * (start - width)) * grow,
                scale * low * math.exp(0.5 * (width - stop)) * grow)

    below, above = total(-width, float(cut[0])), total(float(cut[-1]), width)
    return Bands(p, q, p * slack, q * slack, below[0], below[1], above[0], above[1],
                 4 * UNIT * width)


@cache
def _legendre() -> tuple[Array, Array]:
    nodes, weights = np.polynomial.legendre.leggauss(32)
    return 0.5 * (1 + nodes), 0.5 * weights


def _spread_probe(width: float, density: float) -> tuple[Array, Array]:
    nodes, weights = _legendre()
    if width > 1:  # the mass sits within a few nats of the top
        reach = min(2 * width, 90.0)
        x, grow = width - reach * nodes**2, 2 * reach * nodes
    else:
        x, grow = width * (2 * nodes - 1), 2 * width + 0 * nodes
    return x, 0.5 * density * np.exp(0.5 * (x - width)) * grow * weights


@frozen
class LaplacePair:
    """Laplace noise at `epsilon` = shift / scale: atoms at both ends, a density between.

    A vector of total L1 shift is dominated by one coordinate that takes all of it
    (docs/proofs/privacy-loss.md, lemma 6).
    """

    epsilon: float
    tight: bool = field(default=True, init=False)

    @property
    def top(self) -> float:
        """Epsilon: half of the mass lies exactly there."""
        return self.epsilon

    def bands(self, edges: Array) -> Bands:
        """Masses between the two atoms, where the loss moves with the output; see `Pair.bands`."""
        return _exponential_bands(edges, self.epsilon, 0.5, math.exp(-self.epsilon))

    def atoms(self) -> Atoms:
        """The losses plus and minus epsilon, which outputs beyond both centres have."""
        rare = 0.5 * math.exp(-self.epsilon)
        return Atoms(np.array([-self.epsilon, self.epsilon]), np.array([rare, 0.5]))

    def probe(self) -> tuple[Array, Array]:
        """Places between the atoms, and the two atoms; see `Pair.probe`."""
        x, p = _spread_probe(self.epsilon, 0.5)
        atoms = self.atoms()
        return np.append(x, atoms.loss), np.append(p, atoms.p)

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Minus infinity from epsilon on, unknown below it."""
        return bounded_tail(self, edge)


@frozen
class BoundedRangePair:
    """The exponential mechanism of bounded range `eta`.

    H(exp(x)) = (1 - exp((x - eta)/2))^2 / (1 - exp(-eta)) for |x| <= eta: the largest profile
    of two-point pairs with losses t and t - eta (docs/proofs/bounded-range.md). It dominates;
    the product of such pairs need not be attained, so it gives no lower bound.
    """

    eta: float
    tight: bool = field(default=False, init=False)

    @property
    def top(self) -> float:
        """The range `eta`: the worst pair has an offset for every epsilon up to it."""
        return self.eta

    def bands(self, edges: Array) -> Bands:
        """Masses of a density that falls exponentially over the range; see `Pair.bands`."""
        return _exponential_bands(edges, self.eta, -1 / math.expm1(-self.eta),
                                  math.exp(-self.eta))

    def atoms(self) -> Atoms:
        """None: the loss of the pair is continuous."""
        return NO_ATOMS

    def probe(self) -> tuple[Array, Array]:
        """Places over the whole range; see `Pair.probe`."""
        return _spread_probe(self.eta, -1 / math.expm1(-self.eta))

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Minus infinity from the end of the range on, unknown below it."""
        return bounded_tail(self, edge)


@frozen(eq=True, cache_hash=True)
class AtomPair:
    """A pair with finitely many losses.

    Attributes:
        loss, p: as tuples, so that equal pairs are found equal.
        infinite: P mass without Q mass. q_only: the reverse.
        steps: where it is discrete Laplace noise, the parameter and the whole shift: so many
            steps of that epsilon each. normal: where it is discrete Gaussian noise, sigma and
            the whole shift.
    """

    loss: tuple[float, ...]
    p: tuple[float, ...]
    infinite: float = 0.0
    q_only: float = 0.0
    tight: bool = True
    raised: float = 4 * UNIT
    steps: tuple[float, int] | None = field(default=None, eq=False)
    normal: tuple[float, int] | None = field(default=None, eq=False)

    @property
    def top(self) -> float:
        """The largest finite loss; minus infinity where there is none."""
        return max(self.loss, default=-math.inf)

    def bands(self, edges: Array) -> Bands:
        """No mass: all of it is in atoms."""
        return no_bands(edges)

    def atoms(self) -> Atoms:
        """The losses and masses as they were given."""
        return Atoms(np.array(self.loss), np.array(self.p), self.infinite, self.q_only, 0.0,
                     self.raised)

    def probe(self) -> tuple[Array, Array]:
        """The atoms themselves; see `Pair.probe`."""
        return np.array(self.loss), np.array(self.p)

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Minus infinity from the largest atom on, unknown below it."""
        return bounded_tail(self, edge)


def pure_pair(epsilon: float, delta: float = 0.0, *, tight: bool = True) -> AtomPair:
    """The dominating pair of everything that is (epsilon, delta)-DP.

    Kairouz, Oh, Viswanath 2015 (arXiv:1311.0776), section 3: randomized response that fails
    openly with probability delta.
    """
    likely = (1 - delta) / (1 + math.exp(-epsilon))
    rare = (1 - delta) * math.exp(-epsilon) / (1 + math.exp(-epsilon))
    return AtomPair((-epsilon, epsilon), (rare * (1 + 4 * UNIT), likely * (1 + 4 * UNIT)),
                    delta, delta, tight, steps=None if delta else (epsilon, 1))


def response_loss(noise_parameter: float, num_buckets: int) -> float:
    """Largest loss of k-ary randomized response, rounded up.

    Where one coin is thrown often and delta is tiny, a multiple of it is the answer.
    """
    noise = Fraction(noise_parameter)
    odds = num_buckets * (1 - noise) / noise  # exactly
    if odds == 0:
        return 0.0
    if odds > 10**300:
        return (math.log(odds.numerator + odds.denominator) - math.log(odds.denominator)) * (
            1 + 1e-14)
    ratio = float(odds)
    if Fraction(ratio) < odds:
        ratio = up(ratio)
    return up(up(math.log1p(ratio)))  # twice: a logarithm may be off by more than half a unit


def response_pair(noise_parameter: float, num_buckets: int) -> AtomPair:
    """k-ary randomized response between two answers."""
    wrong = noise_parameter / num_buckets
    right = 1 - noise_parameter + wrong
    loss = response_loss(noise_parameter, num_buckets)
    if num_buckets == 2:
        return AtomPair((-loss, loss), (wrong, right))
    return AtomPair((-loss, 0.0, loss), (wrong, wrong * (num_buckets - 2), right))


def discrete_laplace_pair(
    parameter: float, sensitivity: int, *, tight: bool = True
) -> AtomPair | None:
    """Two-sided geometric noise; None if there are too many losses to list."""
    if sensitivity > 4096:
        return None
    base = -math.expm1(-parameter) / (1 + math.exp(-parameter))
    steps = np.arange(1, sensitivity)
    loss = parameter * (2.0 * steps - sensitivity)
    inner = base * np.exp(-parameter * (sensitivity - steps))
    end = parameter * sensitivity
    top = 1 / (1 + math.exp(-parameter))
    bottom = top * math.exp(-end)
    raised = 16 * UNIT * (1 + end)
    masses = np.concatenate([[bottom], inner, [top]]) * (1 + raised)
    return AtomPair((-end, *loss.tolist(), end), tuple(masses.tolist()), tight=tight,
                    raised=2 * raised, steps=(parameter, sensitivity))


MOST_LISTED = 2000.0
"""Sigma of the widest discrete Gaussian whose losses are listed one by one."""
_SMOOTHED = 64.0  # tau squared: 2 exp(-2 pi^2 tau^2) is below 1e-547


def wide_discrete_mu(sigma: float, sensitivity: int) -> float | None:
    """mu of a Gaussian above whole-number Gaussian noise this wide; None for a narrow one.

    Normal noise of variance sigma^2 - tau^2, then discrete noise of parameter tau, has the
    discrete law's chances but for a factor that no float sees (docs/proofs/privacy-loss.md,
    lemma 9).
    """
    if sigma <= MOST_LISTED:
        return None
    return up(sensitivity / sigma / math.sqrt(1 - _SMOOTHED / sigma / sigma) * (1 + 8 * UNIT))


@lru_cache(maxsize=16)
def discrete_gaussian_pair(sigma: float, sensitivity: int) -> AtomPair | None:
    """Discrete Gaussian noise on one integer; None if there are too many losses to list.

    What lies beyond 28 sigma, less than 1e-160, is counted as a loss of infinity or zero.
    """
    reach = math.ceil(28 * sigma) + 1
    if sigma > MOST_LISTED or sensitivity > 20 * sigma:
        return None
    noise = np.arange(-reach, reach + 1, dtype=np.float64)
    weight = np.exp(-noise * noise / (2 * sigma * sigma))
    p = weight / weight.sum()
    loss = (sensitivity / sigma) * (sensitivity / sigma) / 2 + noise * (sensitivity / sigma**2)
    slack = 1 + 16 * UNIT * (1 + 400.0)
    keep = p > 1e-290
    return AtomPair(tuple(loss[keep].tolist()), tuple((p[keep] * slack).tolist()), 1e-150,
                    raised=4e-12, normal=(sigma, sensitivity))
