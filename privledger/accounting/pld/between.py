"""Many sampled Gaussians of one rate, each a coin between two of a few.

For a Gaussian pair of shift mu, H(exp(x)) has the slope exp(x/2 - x^2 / (2 mu^2)) in the total
variation t = 2 Phi(mu / 2) - 1. It grows with mu, so H is convex in t, for every x at once: the
pair is dominated by its two neighbours under a public coin that keeps t. A Poisson sample's
profile is a linear function of the inner one (docs/proofs/privacy-loss.md, lemma 8).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array
from privledger.accounting.pld.grid import Probe
from privledger.accounting.pld.pairs import UNIT, GaussianPair, Pair
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair

RATIO = 1e-2  # of neighbouring shifts, less 1, on average
_LEAST = 256  # pairs of one kind, below which each is computed
_FEWER = 2  # how many times fewer the neighbours must be
_FARTHEST = 20.0  # shift beyond which the total variation has too few digits
_COST = 3e-5  # share of epsilon that the coins may add; about half of it is true
_FINEST = 0.1  # of `RATIO`
_MOST_HELD = 1 << 25  # points of all transforms together: some 400 MB

Items = Sequence[tuple[Pair, int]]


@frozen(eq=False)
class Between:
    """Items that lie between neighbours of a rising list of pairs.

    Attributes:
        knots: pairs of one rate and direction, shape (m,), by rising shift.
        place: the lower neighbour of each item, shape (n,).
        share: probability of the upper one, rounded up, shape (n,).
        count: how often each item runs, shape (n,).
    """

    knots: tuple[Pair, ...]
    place: NDArray[np.int64]
    share: Array
    count: NDArray[np.int64]

    def weights(self) -> Array:
        """How often each knot runs on average, shape (m,)."""
        found = np.zeros(len(self.knots))
        np.add.at(found, self.place, (1 - self.share) * self.count)
        np.add.at(found, self.place + 1, self.share * self.count)
        return found

    def added(self, log_moments: Array) -> float:
        """About what the coins add to the log moment of the sum, of the knots' log moments."""
        if len(self.knots) < 3:
            return math.inf
        up = np.exp(np.minimum(np.diff(log_moments), 50.0))
        bend = np.abs(up[1:] - 2 + 1 / up[:-1])
        bend = np.concatenate([bend[:1], bend, bend[-1:]])
        each = 0.5 * self.share * (1 - self.share) * np.maximum(
            bend[self.place], bend[self.place + 1])
        return float(self.count @ each)


@frozen(eq=False)
class Gathered:
    """A composition: pairs that are computed each, and others between few.

    Attributes:
        alone: pairs and how often they run. between: all the rest.
        items: the whole, as it was.
    """

    alone: Items
    between: tuple[Between, ...]
    items: Items

    def apart(self, size: int) -> bool:
        """Whether the neighbours' transforms of this length are more than is held at once."""
        return size * sum(len(group.knots) for group in self.between) > _MOST_HELD

    def rough(self) -> list[tuple[Pair, float]]:
        """Every pair whose masses are needed, with how often it runs on average."""
        found: list[tuple[Pair, float]] = [(pair, float(count)) for pair, count in self.alone]
        for group in self.between:
            found += zip(group.knots, group.weights().tolist(), strict=True)
        return found

    def added(self, probe: Probe, tilt: float) -> float:
        """About what the coins add to epsilon; `probe` is that of `rough`."""
        moments, start, total = probe.each(tilt), len(self.alone), 0.0
        for group in self.between:
            total += group.added(moments[start:start + len(group.knots)])
            start += len(group.knots)
        return total / max(tilt, 1e-3)


def gathered(items: Items, ratio: float = RATIO) -> Gathered:
    """Put many sampled Gaussians of one rate between few; everything else stays alone."""
    if len(items) < _LEAST:
        return Gathered(items, (), items)
    kinds: dict[tuple[bool, float], list[tuple[float, int]]] = {}
    alone: list[tuple[Pair, int]] = []
    for pair, count in items:
        if (isinstance(pair, RemovePair | AddPair) and isinstance(pair.inner, GaussianPair)
                and pair.inner.mu <= _FARTHEST):
            kind = isinstance(pair, RemovePair), pair.rate
            kinds.setdefault(kind, []).append((pair.inner.mu, count))
        else:
            alone.append((pair, count))
    between = []
    for (remove, rate), found in kinds.items():
        make = RemovePair if remove else AddPair
        low, high = min(found)[0], max(found)[0]
        number = max(3, math.ceil(math.log(high / low) / ratio) + 1)
        if len(found) < max(_LEAST, _FEWER * number):
            alone += [(make(rate, GaussianPair(mu)), count) for mu, count in found]
        else:
            knots = np.unique(np.linspace(low, high, number))
            between.append(_between(found, knots, [make(rate, GaussianPair(mu))
                                                   for mu in knots.tolist()]))
    return Gathered(alone, tuple(between), items)


def refined(items: Items, gathering: Gathered, added: float, epsilon: float) -> Gathered:
    """The same with neighbours closer together, where the coins add too much to `epsilon`."""
    if not gathering.between or added <= _COST * epsilon:
        return gathering
    share = _COST * epsilon / added if added < math.inf else 0.0
    return gathered(items, RATIO * max(_FINEST, 0.9 * math.sqrt(share)))


def _between(found: list[tuple[float, int]], knots: Array, pairs: Sequence[Pair]) -> Between:
    mu = np.array([one for one, _ in found])
    place = np.clip(np.searchsorted(knots, mu, side="right") - 1, 0, len(knots) - 2)
    return Between(tuple(pairs), place.astype(np.int64), shares(mu, knots[place], knots[place + 1]),
                   np.array([count for _, count in found], dtype=np.int64))


def shares(mu: Array, low: Array, high: Array) -> Array:
    """Probability of the upper neighbour that keeps the total variation, rounded up."""
    from scipy.special import erf, erfc

    scaled = [one / math.sqrt(8.0) for one in (mu, low, high)]
    near = mu < 1.0
    at, bottom, top = (np.where(near, erf(one), -erfc(one)) for one in scaled)
    whole = top - bottom
    # Each of the three is off by a few units, and by what rounding its argument moves it.
    size = np.maximum(np.abs(bottom), np.abs(top)) * (1 + high * high)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (at - bottom) / whole + 64 * UNIT * size / whole
    return np.where(mu <= low, 0.0, np.where(share < 1, np.maximum(share, 0.0), 1.0))
