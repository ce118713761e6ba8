"""Squared mu and rho of lanes: in closed form, or from the polygon above a power function.

The power function of a pair is the largest P mass of tests with a given Q mass. It is concave, so
its tangents are a polygon above it, and where all corners of that lie below the curve of a
Gaussian, the polygon does, since that curve is concave too (docs/proofs/currencies.md). A corner
is kept with what is left of both masses to 1, so that neither end loses digits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, TypeGuard

import numpy as np

from privledger.accounting.currencies import (
    laplace_currencies,
    range_currencies,
    steps_currencies,
)
from privledger.accounting.moments import Array, log_gain, log_mix
from privledger.accounting.pld.losses import Dearest, Lane, Losses, Sampled, Together
from privledger.accounting.pld.pairs import (
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    pure_pair,
)
from privledger.accounting.pld.ranges import LARGEST_RANGE, SMALLEST_RANGE, ranges_above
from privledger.rounding import add_up, multiply_up, up

_NEAR = 2e-7  # what a squared mu that is found by halving may have too much, relatively
_NEAR_RHO = 5e-4
_ROUNDS = 40
_MOST_ORDERS = 400
_MESH = 56
_FIRST = 1e-7  # order less 1, from which on Renyi bounds are looked at
_MOST_ATOMS = 256
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_MOST_CHOICES = 32  # whose squared mu is found together


class Corners(NamedTuple):
    """Of a polygon: Q masses, P masses, and what either lacks to 1; shape (n,) each."""

    q: Array
    p: Array
    q_left: Array
    p_left: Array

    def mixed(self, rate: float, kind: str) -> Corners:
        """On a Poisson sample: (1 - rate) Q + rate P against Q, or P against its mirror image."""
        rest = 1 - rate
        if kind == "remove":
            return self._replace(p=rest * self.q + rate * self.p,
                                 p_left=rest * self.q_left + rate * self.p_left)
        return self._replace(q=rest * self.p + rate * self.q,
                             q_left=rest * self.p_left + rate * self.q_left)

    def gaps(self) -> Array:
        """Phi^-1(P) - Phi^-1(Q), rounded up: by both ends, or by the least density between."""
        from scipy.special import ndtri

        high = np.where(self.p < 0.5, ndtri(self.p), -ndtri(self.p_left))
        low = np.where(self.q < 0.5, ndtri(self.q), -ndtri(self.q_left))
        far = np.maximum(np.abs(high), np.abs(low))
        rise = np.where(self.p < 0.5, self.p - self.q, self.q_left - self.p_left)
        with np.errstate(over="ignore"):
            mean = rise * _ROOT_TWO_PI * np.exp(0.5 * far * far)
        loose = 4e-16 * (np.where(self.p < 0.5, self.p, self.q_left)) * _ROOT_TWO_PI * np.exp(
            0.5 * np.minimum(far, 37.0)**2)
        found = np.minimum(high - low + 1e-14 * (1 + far), mean * (1 + 1e-12) + loose)
        return np.asarray(np.where((self.q <= 0) | (self.p_left <= 0), -np.inf, found))


# --- Power functions with smooth tangents: a tangent is known by its loss, the log of its slope.


class _Laplace(NamedTuple):
    """Thresholds of Laplace noise: q = exp(-(loss + e)/2)/2 has the slope exp(loss)."""

    top: float

    def touched(self, loss: Array) -> Corners:
        """Where each tangent touches."""
        q, p_left = np.exp(-0.5 * (loss + self.top)) / 2, np.exp(-0.5 * (self.top - loss)) / 2
        return Corners(q, 1 - p_left, 1 - q, p_left)

    def corners(self, high: Array, low: Array) -> Corners:
        """Where the tangents of two losses meet."""
        share = 1 / (1 + np.exp(-0.5 * (high - low)))
        q, p_left = (np.exp(-0.5 * (high + self.top)) * share,
                     np.exp(-0.5 * (self.top - low)) * share)
        return Corners(q, 1 - p_left, 1 - q, p_left)


class _Range(NamedTuple):
    """The profile of a bounded range: p = E q / (1 + (E - 1) q), E = exp(top)."""

    top: float

    def _height(self, loss: Array) -> Array:
        """Where a tangent starts, at Q mass 0."""
        return np.asarray(np.expm1(0.5 * (loss - self.top))**2 / -math.expm1(-self.top))

    def _q(self, high: Array, low: Array) -> Array:
        left, right = 0.5 * (high - self.top), 0.5 * (low - self.top)
        return np.asarray(-(np.expm1(left) + np.expm1(right))
                          / ((np.exp(left) + np.exp(right)) * math.expm1(self.top)))

    def corners(self, high: Array, low: Array) -> Corners:
        """Where the tangents of two losses meet."""
        q, p_left = self._q(high, low), self._q(-low, -high)
        return Corners(q, self._height(high) + np.exp(high) * q,
                       self._height(-low) + np.exp(-low) * p_left, p_left)

    def touched(self, loss: Array) -> Corners:
        """Where each tangent touches."""
        return self.corners(loss, loss)


_Smooth = _Laplace | _Range
_Child = LaplacePair | BoundedRangePair | AtomPair


def _smooth(pair: _Child) -> _Smooth | None:
    if isinstance(pair, LaplacePair):
        return _Laplace(pair.epsilon)
    return _Range(pair.eta) if isinstance(pair, BoundedRangePair) else None


def _ordered(pair: AtomPair) -> tuple[Array, Array, Array]:
    """Losses from the largest, with P and Q masses."""
    atoms = pair.atoms()
    order = np.argsort(-atoms.loss, kind="stable")
    loss, p = atoms.loss[order], atoms.p[order]
    return loss, p, p * np.exp(-loss)


def _atom_corners(pair: AtomPair) -> Corners:
    _, p, q = _ordered(pair)
    p_left, q_left = (np.append(np.cumsum(one[::-1])[::-1][1:], 0.0) for one in (p, q))
    loose = pair.raised + 4e-16 * len(p)
    p_up, q_left = np.cumsum(p) * (1 + loose), q_left * (1 + loose)
    return Corners(np.cumsum(q)[:-1] * (1 - loose), p_up[:-1], q_left[:-1],
                   p_left[:-1] * (1 - loose))


@lru_cache(maxsize=1024)
def _sampled_mu(pair: _Child, rate: float, kind: str) -> float:
    """The largest gap of the polygon's corners, refined where it may be too much."""
    smooth = _smooth(pair)
    if smooth is None:
        assert isinstance(pair, AtomPair)
        return max(0.0, float(_atom_corners(pair).mixed(rate, kind).gaps().max(initial=0.0)))
    loss = np.linspace(smooth.top, -smooth.top, 41)
    highest = 0.0
    for _ in range(_ROUNDS):
        gaps = smooth.corners(loss[:-1], loss[1:]).mixed(rate, kind).gaps()
        least = float(smooth.touched(loss[1:-1]).mixed(rate, kind).gaps().max())
        highest = float(gaps.max())
        wide = np.flatnonzero(gaps > least * (1 + _NEAR))
        if not len(wide):
            break
        more = (loss[wide, None] + (loss[wide + 1] - loss[wide])[:, None]
                * (np.arange(1, 8) / 8)).ravel()
        loss = np.sort(np.append(loss, more))[::-1]
    return highest


# --- zCDP: the largest Renyi bound over its order.


def _masses(pair: _Child) -> tuple[Array, Array, Array]:
    """Losses from the largest with P and Q masses: of the polygon, or as they are."""
    smooth = _smooth(pair)
    if smooth is None:
        assert isinstance(pair, AtomPair)
        return _ordered(pair)
    loss = np.linspace(smooth.top, -smooth.top, _MESH * min(4, math.ceil(smooth.top)))
    known = smooth.corners(loss[:-1], loss[1:])
    half = int(np.searchsorted(-known.p, -0.5))
    first, last = np.append(0.0, known.q), np.append(known.p_left, 0.0)
    q = np.append(np.diff(first), known.q_left[-1])
    p = np.append(1 - known.p_left[0], -np.diff(last))
    # From the side that is small: one of the two masses, and the loss gives the other.
    near = np.arange(len(loss)) <= half
    return loss, np.where(near, q * np.exp(loss), p), np.where(near, q, p * np.exp(-loss))


@lru_cache(maxsize=1024)
def _sampled_rho(pair: _Child, rate: float, kind: str) -> float:
    loss, p, q = _masses(pair)
    if kind == "remove":
        loss = log_mix(loss, rate)
        return _largest_ratio(loss, q * np.exp(loss))
    return _largest_ratio(-log_mix(-loss, rate), p)


def _largest_ratio(loss: Array, p: Array) -> float:
    """The largest of D_order / order over all orders above 1, to some 5e-4 relative, from above.

    Between two orders the log moment psi = (order - 1) D lies below its chord by at least half of
    the least second derivative times the distances to both. That is the variance of a tilted loss,
    whose logarithm changes by no more than the losses' range for one order.
    """
    loss, log_p = loss[p > 0], np.log(p[p > 0])  # those of loss 0 count in the variance
    top, wide = float(loss.max(initial=0.0)), float(np.ptp(loss)) if len(loss) else 0.0
    if top <= 0:
        return 0.0

    def psi(beta: Array) -> Array:
        logs = log_p + log_gain(np.broadcast_to(loss, (len(beta), len(loss))), beta[:, None])
        peak = logs.max(axis=1)
        return np.asarray(np.logaddexp(
            0.0, peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1))))

    def bend(beta: Array) -> Array:
        exponent = log_p + beta[:, None] * loss
        weight = np.exp(exponent - exponent.max(axis=1)[:, None])
        weight /= weight.sum(axis=1)[:, None]
        away = loss - (weight @ loss)[:, None]
        return np.asarray((weight * away * away).sum(axis=1))

    first = float(psi(np.array([_FIRST]))[0]) / _FIRST
    # Beyond the last order the largest loss over the order is less than what the first has.
    beta = np.append(_FIRST, np.exp(np.linspace(
        math.log(1e-3), math.log(max(4.0, 2 * top / first)), 12)))
    known = psi(beta)
    highest = max(first, top / float(beta[-1] + 1))
    for _ in range(_ROUNDS):
        least = float(np.max(known / (beta * (beta + 1))))
        far = _within(beta, known, bend(0.5 * (beta[:-1] + beta[1:])), wide)
        highest = max(first, top / float(beta[-1] + 1), float(far.max()))
        cells = np.flatnonzero(far > least * (1 + _NEAR_RHO))
        if not len(cells) or len(beta) > _MOST_ORDERS:
            break
        grow = (beta[cells + 1] / beta[cells])[:, None]
        more = (beta[cells, None] * grow**(np.arange(1, 4) / 4)).ravel()
        place = np.argsort(np.append(beta, more), kind="stable")
        beta, known = np.append(beta, more)[place], np.append(known, psi(more))[place]
    return highest * (1 + 1e-9)


def _within(beta: Array, known: Array, bend: Array, wide: float) -> Array:
    """Between every two orders, the largest of the bound on psi over order (order - 1).

    The bound is u order^2 + v order + w; its quotient is stationary where
    (u + v) order^2 + 2 w order = w.
    """
    order, width = beta + 1, np.diff(beta)
    low, high = order[:-1], order[1:]
    u = 0.5 * bend * np.exp(-0.5 * wide * width) * (1 - 1e-9)
    slope = np.diff(known) / width
    v, w = slope - u * (low + high), known[:-1] - slope * low + u * low * high
    with np.errstate(divide="ignore", invalid="ignore"):
        root = np.sqrt(np.maximum(w * w + (u + v) * w, 0.0))
        places = [low, high, (-w + root) / (u + v), (-w - root) / (u + v)]
    found = []
    for one in places:
        at = np.clip(np.where(np.isfinite(one), one, low), low, high)
        at_beta = np.clip(at - 1, beta[:-1], beta[1:])
        # From the nearer end, so that what cancels is small.
        value = known[:-1] + slope * (at - low) - u * (at - low) * (high - at)
        found.append(value / (at_beta * at))
    return np.asarray(np.maximum.reduce(found))


# --- Many choices of one range.


@lru_cache(maxsize=1024)
def choices(losses: Losses) -> tuple[float, int] | None:
    """The range and the number of choices, where nothing else is in a node; on a Poisson sample
    each has no wider range."""
    found: list[tuple[float, int]] = []
    for eta, count in _choices(losses.remove, 1):
        found.append((eta, count))
        if not eta == found[0][0] < math.inf:
            return None
    if not found or (not losses.symmetric and found != list(_choices(losses.add, 1))):
        return None
    return found[0][0], sum(count for _, count in found)


def _choices(lane: Lane, times: int) -> Iterator[tuple[float, int]]:
    """Ranges with how often each is in a lane; what is not a choice has the range of infinity."""
    if isinstance(lane, Together):
        for part, count in lane.parts:
            yield from _choices(part, times * count)
    elif _is_poisson(lane):
        yield from _choices(lane.inner, times)
    else:
        yield (lane.eta if isinstance(lane, BoundedRangePair) else math.inf), times


def _is_poisson(lane: Lane) -> TypeGuard[Sampled]:
    """Whether one row comes to a Poisson sample, or leaves it."""
    return isinstance(lane, Sampled) and lane.rows == 1 and lane.kind in ("remove", "add")


def choices_squared(parts: Iterable[tuple[float, int]]) -> float:
    """Squared mu of choices of some ranges, each range as often as it says: those of one range are
    put together, some at a time (docs/proofs/currencies.md, "Many choices")."""
    often: dict[float, int] = {}
    for eta, count in parts:
        often[eta] = often.get(eta, 0) + count
    found = []
    for eta, count in often.items():
        blocks = -(-count // _MOST_CHOICES)
        more, size = count % blocks, count // blocks
        found += [multiply_up(_squared_of(eta, each), up(float(many)))
                  for each, many in ((size + 1, more), (size, blocks - more)) if many]
    return add_up(found)


@lru_cache(maxsize=4096)
def _squared_of(eta: float, count: int) -> float:
    """Of so many choices: from the corners of their profile's tangents, of slopes 1 and more; the
    profile holds in both directions, so the other corners are the mirror images of these."""
    alone = multiply_up(range_currencies(eta)[SQUARED_MU], float(count))
    if count == 1 or not SMALLEST_RANGE <= eta <= LARGEST_RANGE:
        return alone
    known = ranges_above(eta, count, 2 * math.sqrt(count) + 4)
    height = known.value[known.low:]
    slope = np.exp(np.arange(len(height)) * known.step)
    q = -np.diff(height) / np.diff(slope)
    p = (height[:-1] + slope[:-1] * q) * (1 + 1e-12)
    q = q * (1 - 1e-12)
    gaps = Corners(q, p, 1 - q, 1 - p).gaps()[q > 0]
    return min(alone, _squared_up(float(gaps.max())))


# --- Lanes.

SQUARED_MU, RHO = 0, 1


def envelope_currency(losses: Losses, which: int) -> float:
    """Squared mu, or rho, of both lanes, rounded up; infinity where nothing is proved here.

    Args:
        which: `SQUARED_MU` or `RHO`.
    """
    one, other = losses.remove, losses.add
    lanes = [one] if losses.symmetric or _dearer(one, other) else [one, other]
    return max(_of_lane(lane, which) for lane in lanes)


def _dearer(one: Lane, other: Lane) -> bool:
    """Whether the first is a record that leaves a sample, and the second one that comes: of a
    child that is its own mirror image, leaving costs more at every order."""
    return (isinstance(one, Sampled) and isinstance(other, Sampled)
            and (one.kind, other.kind) == ("remove", "add") and one.inner is other.inner
            and one.rate == other.rate and one.rows == other.rows == 1
            and (isinstance(one.inner, LaplacePair | BoundedRangePair)
                 or (isinstance(one.inner, AtomPair) and one.inner.steps is not None)))


def _of_lane(lane: Lane, which: int) -> float:
    if isinstance(lane, Together):
        if which == SQUARED_MU and (known := choices(Losses(lane, lane))) is not None:
            return choices_squared([known])
        return add_up(multiply_up(_of_lane(part, which), up(float(count)))
                      for part, count in lane.parts)
    if isinstance(lane, Dearest):
        return max(_of_lane(one, which) for one in lane.choices)
    if isinstance(lane, GaussianPair):
        squared = multiply_up(lane.mu, lane.mu)
        return (squared, up(0.5 * squared))[which] if lane.tight else math.inf
    if isinstance(lane, LaplacePair):
        return laplace_currencies(lane.epsilon)[which]
    if isinstance(lane, BoundedRangePair):
        return range_currencies(lane.eta)[which]
    if isinstance(lane, AtomPair) and lane.steps is not None:
        return steps_currencies(*lane.steps)[which]
    if isinstance(lane, AtomPair) and _listed(lane):
        if which == RHO:
            loss, p, _ = _ordered(lane)
            return up(_largest_ratio(loss, p))
        return _squared_up(max(0.0, float(_atom_corners(lane).gaps().max(initial=0.0))))
    if _is_poisson(lane):
        return _of_sample(lane.inner, lane.rate, lane.kind, which)
    return math.inf


def _squared_up(mu: float) -> float:
    mu = up(mu * (1 + 1e-13))
    return multiply_up(mu, mu)


def _listed(pair: AtomPair) -> bool:
    return not (pair.infinite or pair.q_only) and len(pair.loss) <= _MOST_ATOMS


def _of_sample(lane: Lane, rate: float, kind: str, which: int) -> float:
    if isinstance(lane, AtomPair) and not _listed(lane):
        return math.inf
    if not isinstance(lane, LaplacePair | BoundedRangePair | AtomPair):
        return math.inf
    if which == SQUARED_MU:
        return _squared_up(_sampled_mu(lane, rate, kind))
    rho = up(_sampled_rho(lane, rate, kind))
    if isinstance(lane, BoundedRangePair):
        # The range of a sample (docs/proofs/bounded-range.md, "On a Poisson sample").
        more = multiply_up(rate, up(up(math.expm1(lane.eta))))
        rho = min(rho, range_currencies(up(math.log1p(more) * (1 + 1e-15)))[1])
    return rho


def sampled_pure(rate: float, epsilon: float, which: int) -> float:
    """Of a Poisson sample of anything that is epsilon-DP: the coin is the worst."""
    if not 1e-12 <= epsilon <= 600:
        return math.inf
    return _of_sample(pure_pair(epsilon, tight=False), rate, "remove", which)
