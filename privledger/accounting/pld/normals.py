"""Moments of the loss between mixtures of normal laws, on a line, by the trapezoid rule.

P is a mixture U of N(a, 1), Q a mixture D of N(-a, 1), a >= 0, both written as what multiplies
the density of N(0, 1). Everything that is an integral here is of a function that is analytic
around the real line, and its error falls as exp(-2 pi a / h) (docs/proofs/privacy-loss.md,
lemma 10).
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.moments import Array
from privledger.accounting.pld.mixtures import MixturePair
from privledger.accounting.pld.pairs import UNIT, GaussianPair, Pair
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair

Complex = NDArray[np.complex128]

_CELLS, _OUTER = 176, 16
_MOST_NODES, _MANY_NODES = 12_000, 1000
_WIDEST = 1.5  # radians that the farthest normal law turns by
_HEIGHTS, _NEAR = np.geomspace(1 / 128, 1.0, 8), np.geomspace(0.5, 2.0, 7)
_HIGHEST = 8.0  # off the real line
_FARTHEST = 2000.0  # deviations
_ROUGH = 4000
_IDLE = np.array([1e-6, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
_LARGEST = 400.0  # nats
_LARGEST_SPACING = 1.0
_AWAY, _NARROWEST = 10.0, 0.1  # deviations of a window outside of what is kept; the least one
_ONE_THREAD = 1 << 17  # products of two complex numbers


@frozen(eq=False)
class Nodes:
    """E_P exp(z L) on a line, divided by exp(log_total): 1 + sum of weight (exp(i t loss) - 1).

    Attributes:
        loss, weight: shape (n,). log_total: log of the moment at beta.
        fixed, grows: the error at z is at most fixed + grows |z|, of 1.
        cells: bounds on the tilted law, which `total` divides.
    """

    loss: Array
    weight: Array
    log_total: float
    fixed: float
    grows: float
    cells: _Cells
    total: float

    def error(self, size: Array) -> Array:
        """What the transform is off by at most, where |z| is `size`."""
        return self.fixed + self.grows * size

    @property
    def variance(self) -> float:
        """Of the tilted loss, an upper bound."""
        return self.cells.variance() / self.total * (1 + 1e-9)

    def most(self) -> tuple[Array, Array]:
        """`idle` and `variation`: the transform at frequency t is at most idle[i] +
        variation[i] / t, a tilted mass and the total variation of the rest's density."""
        idle, variation = self.cells.variation()
        return idle / self.total * (1 + 1e-9), variation / self.total * (1 + 1e-9)

    def at(self, points: Array) -> Complex:
        """The transform less 1 at frequencies."""
        found = np.empty(len(points), dtype=np.complex128)
        many = max(1, (1 << 20) // len(self.loss))
        for start in range(0, len(points), many):
            part = slice(start, start + many)
            half = 0.5 * points[part, None] * self.loss
            sine = np.sin(half)
            found[part] = (-2 * sine * (sine - 1j * np.cos(half)) * self.weight).sum(axis=1)
        return found

    def along(self, spacing: float, many: int) -> Complex:
        """The same at 0, spacing, 2 spacing, ...: of two angles the turns less 1 are e, f, and
        that of their sum is e + f + e f."""
        block = math.isqrt(many - 1) + 1
        near = _turns(spacing * self.loss, block)
        far = _turns(spacing * block * self.loss, -(-many // block))
        far *= self.weight
        both = far.sum(axis=1)[:, None] + np.array([(row * self.weight).sum() for row in near])
        # In parts so small that BLAS starts no threads, which wait for each other.
        width = max(64, _ONE_THREAD // (len(near) * len(far)))
        for start in range(0, len(self.loss), width):
            part = slice(start, start + width)
            both += far[:, part] @ near[:, part].T
        return np.asarray(both.ravel()[:many])


def _turns(angle: Array, many: int) -> Complex:
    """exp(i k angle) - 1 for k = 0, ..., many - 1, small where the angle is; shape (many, n)."""
    found = np.zeros((many, len(angle)), dtype=np.complex128)
    done = 1
    while done < many:
        more = found[done:2 * done]
        half = 0.5 * done * angle
        sine = np.sin(half)
        once = -2 * sine * (sine - 1j * np.cos(half))
        np.multiply(found[:len(more)], once + 1, out=more)
        more += once
        done *= 2
    return found


@frozen(eq=False)
class _Side:
    """A mixture over N(0, 1): its logarithm, the logarithm's slope, shape of x each."""

    log: Array
    slope: Array
    size: Array


@frozen(eq=False)
class Normals:
    """sum up[i] N(rise[i], 1) against sum down[i] N(-fall[i], 1); shifts from 0 on, rising.

    The first weight of a side is what the others leave of 1. loose: relative error of weights.
    """

    up: Array
    rise: Array
    down: Array
    fall: Array
    loose: float = 0.0

    @property
    def farthest(self) -> float:
        """The largest shift."""
        return float(max(self.rise[-1], self.fall[-1]))

    def nodes(self, beta: float, reach: float, target: float) -> Nodes | None:
        """Nodes whose errors are about `target` up to the frequency `reach`; None for too many."""
        cells = _Cells.of(self, beta, reach, target)
        if cells is None:
            return None
        low, high, cut = cells.kept(target)
        heights = np.minimum(_HEIGHTS * _WIDEST / self.farthest, _HIGHEST)
        height, spacing = cells.highest(heights, reach, target, low, high)
        if (high - low) / spacing > _MANY_NODES:
            near = np.minimum(height * _NEAR, heights[-1])
            spacing = cells.highest(near, reach, target, low, high)[1]
        low, high = low + spacing, high - spacing
        if not (high - low) / spacing <= _MOST_NODES:
            return None
        x = spacing * np.arange(math.floor(low / spacing), math.ceil(high / spacing) + 1,
                                dtype=np.float64)
        up, down = _side(self.up, self.rise, x), _side(self.down, self.fall, -x)
        loss, grown = up.log - down.log, (beta + 1) * up.log - beta * down.log
        exponent = grown - 0.5 * x * x
        if float(exponent.max()) > _LARGEST:
            return None
        scale = spacing / math.sqrt(2 * math.pi)
        weight, plain = scale * np.exp(exponent), scale * np.exp(-0.5 * x * x)
        less_one = np.where(np.abs(grown) < 1, plain * np.expm1(np.clip(grown, -2, 2)),
                            weight - plain)
        total = 1 + float(less_one.sum())
        # Errors, all divided by the total, which is 1 at least but for them.
        moved = UNIT * 8 * (up.size + down.size + np.abs(loss)) + 4 * self.loose
        bulk = UNIT * (64 + x * x)  # numpy adds in pairs, BLAS one by one
        # An angle is the sum of a dozen at most, each of which adds a few roundings of its size.
        grows = float(weight @ (moved + (bulk + UNIT * (len(x) + 256)) * np.abs(loss)))
        fixed = float(bulk @ np.abs(less_one)) + cut + 0.51 * target
        return Nodes(loss, weight / total, math.log1p(float(less_one.sum())),
                     fixed / total * (1 + 1e-9), 2 * grows / total * (1 + 1e-9), cells, total)


    def rough(self, beta: float, whole: Nodes) -> Nodes:
        """Nodes for large frequencies and few digits: sums over cells, and what the integrand
        can change by within one."""
        cells = whole.cells
        log = cells.factor() + cells.log_normal
        seen = np.flatnonzero(log > log.max() - 14.0)
        x = np.linspace(cells.edges[seen[0]], cells.edges[seen[-1] + 1], _ROUGH + 1)
        up, down = _side(self.up, self.rise, x), _side(self.down, self.fall, -x)
        grown = (beta + 1) * up.log - beta * down.log
        most = np.maximum(np.abs(x[:-1]), np.abs(x[1:]))
        least = np.where(x[:-1] > 0, x[:-1], np.minimum(x[1:], 0.0))
        wide = np.diff(x)
        top = np.exp(grown[1:] - 0.5 * least**2 + 1e-9) / math.sqrt(2 * math.pi) / whole.total
        weight = wide * np.exp(grown[:-1] - 0.5 * x[:-1] ** 2) / math.sqrt(
            2 * math.pi) / whole.total
        off = 0.5 * wide * wide * top
        fixed = float(off @ (most + (beta + 1) * up.slope[1:] + beta * down.slope[:-1]))
        outside = np.delete(log, np.arange(seen[0], seen[-1] + 1))
        fixed += (float(np.exp(outside).sum()) + sum(
            math.exp(min(one, 600.0)) for one in cells.beyond(0.0))) / whole.total
        grows = float(off @ (up.slope[1:] + down.slope[:-1]))
        # The weights are those of cells: what they lack to 1 turns with none of them.
        return Nodes((up.log - down.log)[:-1], weight, whole.log_total,
                     (fixed + abs(1 - float(weight.sum()))) * (1 + 1e-9), grows * (1 + 1e-9),
                     cells, whole.total)


def normals_of(pair: Pair) -> Normals | None:
    """A pair as mixtures of normal laws; None for all others."""
    none = np.ones(1), np.zeros(1)
    if isinstance(pair, RemovePair | AddPair) and isinstance(pair.inner, GaussianPair):
        if not pair.rate < 1:
            return None
        drawn = np.array([1 - pair.rate, pair.rate]), np.array([0.0, pair.inner.mu])
        return Normals(*drawn, *none) if isinstance(pair, RemovePair) else Normals(*none, *drawn)
    if isinstance(pair, MixturePair):
        sides = [(np.array(weights), pair.shifts(weights)) for weights in (pair.up, pair.down)]
        if any(shifts[0] > 0 or not bool((weights > 0).all()) for weights, shifts in sides):
            return None
        return Normals(*sides[0], *sides[1], loose=pair.loose)
    return None


def _side(weights: Array, shifts: Array, x: Array) -> _Side:
    """log of sum of weights exp(shift x - shift^2 / 2), the first shift 0."""
    if len(weights) == 1:
        none = np.zeros(len(x))
        return _Side(none, none, none)
    added = _only if len(weights) == 2 else _added
    shift, rest = shifts[1:, None], weights[1:, None]
    height = shift * x - 0.5 * shift * shift
    peak = np.maximum(height.max(axis=0), 0.0)
    part = rest * np.exp(height - peak)
    whole = added(part) + weights[0] * np.exp(-peak)
    small = np.minimum(peak, 1.0)
    gain = added(rest * np.expm1(np.minimum(height, small)))
    near = (peak < 1) & (gain > -0.5)
    log = np.where(near, np.log1p(np.where(near, gain, 0.0)), peak + np.log(whole))
    slope = added(part * shift) / whole
    rounded = added(part * (np.abs(height) + shift * shift)) / whole
    # The logarithm is rounded itself; where that of the whole is taken, all of its parts are.
    return _Side(log, slope, rounded + np.abs(log) + np.where(near, 0.0, 1.0 + peak))


def _added(rows: Array) -> Array:
    return np.asarray(rows.sum(axis=0))


def _only(rows: Array) -> Array:
    return np.asarray(rows[0])


def _turned(weights: Array, shifts: Array, x: Array, height: Array) -> tuple[Array, Array]:
    """Log of the least real part, and the largest angle, of a side `height` off the real line.

    Shapes (heights, len(x)).
    """
    grow = shifts[:, None] * x - 0.5 * shifts[:, None] ** 2
    peak = grow.max(axis=0)
    part = weights[:, None] * np.exp(grow - peak)
    angle = height[:, None] * shifts
    real, odd = np.cos(angle) @ part, np.sin(angle) @ part
    return peak + np.log(real) - 1e-12, np.arctan2(odd, real) * (1 + 1e-12) + 1e-15


def _log_tail(at: float) -> float:
    """log of the normal tail, not rounded down."""
    from scipy.special import log_ndtr

    return float(log_ndtr(-at)) + 1e-9


@frozen(eq=False)
class _Cells:
    """Bounds on cells of the real line: everything here rises or falls with x.

    `edges`: shape (n + 1,). `log_normal`: log of the largest density times the width, shape (n,).
    `left`, `right`: largest log of the tilted factor beyond both ends, at height 0.
    """

    law: Normals
    beta: float
    edges: Array
    log_normal: Array
    up: _Side
    down: _Side
    spare: float

    @classmethod
    def of(cls, law: Normals, beta: float, reach: float, target: float) -> _Cells | None:
        most = -beta * math.log(float(law.down[0]))
        near = math.sqrt(2 * (most - math.log(target) + 3))
        # Off the line a factor may be as large as this: farther out the density is smaller.
        far = math.sqrt(near**2 + 4 * reach * min(_WIDEST, _HIGHEST * law.farthest))
        slope, spare = (beta + 1) * float(law.rise[-1]), law.farthest + 1
        low, high = -near - 2 * spare, slope + math.hypot(slope, near) + 2 * spare
        ends = low - far + near, slope + math.hypot(slope, far) + 2 * spare
        if not max(-ends[0], ends[1]) < _FARTHEST:
            return None
        # Outside narrow at first: angles rise where the density still matters.
        outer = np.linspace(0.0, 1.0, _OUTER + 1)[1:] ** 3
        edges = np.concatenate([low + (ends[0] - low) * outer[::-1],
                                np.linspace(low, high, _CELLS + 1),
                                high + (ends[1] - high) * outer])
        nearest = np.where(edges[:-1] > 0, edges[:-1], np.minimum(edges[1:], 0.0))
        log_normal = (-0.5 * nearest * nearest + np.log(np.maximum(np.diff(edges), 1e-300))
                      - 0.5 * math.log(2 * math.pi) + 1e-12)
        return cls(law, beta, edges, log_normal, _side(law.up, law.rise, edges),
                   _side(law.down, law.fall, -edges), spare)

    def beyond(self, slope: float, more: float = 0.0) -> tuple[float, float]:
        """Log of the tilted mass left and right of all cells times exp(slope |x| + more).

        To the left both factors are at most what they are at the first edge; to the right U is
        at most exp(farthest x), and D at least its first weight.
        """
        law, low, high = self.law, float(self.edges[0]), float(self.edges[-1])
        first = (self.beta + 1) * float(self.up.log[0]) - self.beta * float(self.down.log[0])
        steep = (self.beta + 1) * float(law.rise[-1]) + slope
        const = -self.beta * math.log(float(law.down[0]))
        return (max(first, 0.0) + 0.5 * slope * slope + _log_tail(-low - slope) + more,
                const + 0.5 * steep * steep + _log_tail(high - steep) + more)

    def factor(self) -> Array:
        """Largest log of U^(beta + 1) D^-beta on each cell: both rise with x."""
        return np.asarray((self.beta + 1) * self.up.log[1:] - self.beta * self.down.log[1:]
                          + 1e-9)

    def highest(self, height: Array, reach: float, target: float, low: float,
                high: float) -> tuple[float, float]:
        """That of some heights which the rule gains most by, and the spacing of its nodes.

        The integrand is taken times a window, two normal law functions whose middles lie `_AWAY`
        deviations outside of `low` and `high`: what is not kept need not be smooth.
        """
        law, beta = self.law, self.beta
        log = self.log_normal + (beta + 1) * self.up.log[1:] + np.zeros((len(height), 1))
        if len(law.up) > 1:
            log += reach * _turned(law.up, law.rise, self.edges[1:], height)[1]
        if len(law.down) > 1:
            real, angle = _turned(law.down, law.fall, -self.edges, height)
            log += reach * angle[:, :-1] - beta * real[:, 1:]
        wide = np.maximum(_NARROWEST, height)[:, None]
        outside = np.maximum(np.maximum(low - self.edges[1:], self.edges[:-1] - high) / wide
                             - _AWAY, 0.0)
        log -= 0.5 * outside * outside
        peak = log.max(axis=1)
        inside = peak + np.log(np.exp(log - peak[:, None]).sum(axis=1))
        turned = 2 * reach * height * law.farthest  # both sides, wherever they are
        beyond = np.logaddexp(*self.beyond(0.0)) + turned
        whole = np.logaddexp(np.logaddexp(inside, beyond), 0.0) + 0.5 * height**2 + 1e-9
        whole += (height / wide[:, 0])**2
        spacing = 2 * math.pi * height / (whole + math.log(4 / target))
        best = int(np.argmax(spacing))
        return float(height[best]), min(float(spacing[best]), _LARGEST_SPACING)

    def kept(self, target: float) -> tuple[float, float, float]:
        """Between which places nodes are needed, and a bound on what all others, and the windows
        of `highest`, change."""
        width = np.maximum(np.diff(self.edges), 1e-300)
        log = np.logaddexp(self.factor(), 0.0) + self.log_normal
        most = np.exp(np.minimum(log, 600.0)) * (1 + _LARGEST_SPACING / width)
        left, right = self.beyond(0.0)
        # A node at the end counts, too: a normal density is below its tail times 1 + its place.
        ends = [(math.exp(min(one, 600.0)) + math.exp(_log_tail(abs(float(edge)))))
                * (1 + _LARGEST_SPACING * (2 + abs(float(edge))))
                for one, edge in ((left, self.edges[0]), (right, self.edges[-1]))]
        below, above = np.cumsum(most), np.cumsum(most[::-1])
        first = int(np.searchsorted(below, target / 16))
        last = int(np.searchsorted(above, target / 16))
        cut = (float(below[first - 1]) if first else 0.0) + (
            float(above[last - 1]) if last else 0.0) + ends[0] + ends[1]
        # As an integral and as a sum; within, the windows lack two tails of _AWAY.
        cut = 2 * (cut + 2 * math.exp(_log_tail(_AWAY)) * float(below[-1]))
        return float(self.edges[first]), float(self.edges[len(most) - last]), cut * (1 + 1e-9)

    def variance(self) -> float:
        """Of the loss under the tilted law, times its total."""
        loss = self.up.log - self.down.log
        log = self.factor() + self.log_normal
        share = np.exp(log - log.max())
        middle = float(share @ loss[1:]) / float(share.sum())
        off = np.maximum(np.abs(loss[:-1] - middle), np.abs(loss[1:] - middle)) + 1e-12
        inside = float(np.exp(np.minimum(log, 600.0)) @ (off * off))
        # Beyond the cells: y^2 <= e^y for y >= 0.
        law = self.law
        more = abs(middle) - math.log(float(law.down[0])) - math.log(float(law.up[0]))
        ends = self.beyond(float(law.rise[-1] + law.fall[-1]), more)
        return inside * (1 + 1e-9) + sum(math.exp(min(one, 600.0)) for one in ends)

    def variation(self) -> tuple[Array, Array]:
        """The tilted mass beyond some edges, times the total, and the total variation of the
        rest's density over the loss's slope, with where that begins.

        The slope of one normal law against several is least where these are rare: only that
        side may be left out.
        """
        law, beta = self.law, self.beta
        slopes = self.up.slope, self.down.slope
        least = (slopes[0][:-1] + slopes[1][1:]) * (1 - 1e-9)
        if not bool((least > 0).all()):
            return np.ones(1), np.full(1, math.inf)
        most = np.maximum(np.abs(self.edges[:-1]), np.abs(self.edges[1:]))
        most = (most + (beta + 1) * slopes[0][1:] + beta * slopes[1][:-1]
                + law.farthest) * (1 + 1e-9)
        mass = np.exp(np.minimum(self.factor() + self.log_normal, 600.0))
        density = mass / np.maximum(np.diff(self.edges), 1e-300) / least
        change, slow = mass / least * most, math.log(1 + (2 * beta + 2) * law.farthest + 1)
        # |x| + steep <= (1 + steep) e^|x|; beyond the ends the slope falls by e^-|farthest x|.
        tails, beyond = [], self.beyond(0.0)
        for place in (0, -1):
            slope = float(slopes[0][place] + slopes[1][place])
            tails.append(self.beyond(law.farthest + 1, slow - math.log(slope) - law.farthest
                                      * abs(float(self.edges[place])))[place])
        if law.rise[-1] == 0:  # rises to the left: seen from the right
            mass, change, density = mass[::-1], change[::-1], density[::-1]
            tails, beyond = tails[::-1], beyond[::-1]
        right = np.cumsum(change[::-1])[::-1] + math.exp(min(tails[1], 600.0))
        left = np.append(0.0, np.cumsum(mass)[:-1]) + math.exp(min(beyond[0], 600.0))
        chosen = np.unique(np.searchsorted(left, left[-1] * _IDLE).clip(1, len(left) - 1))
        return left[chosen], (right + density)[chosen]

    def apart(self, number: int) -> tuple[Array, Array]:
        """Gaps g, rising, and E[Y^2; |Y| <= g] times the total squared, rounded down: Y is the
        difference of two independent tilted losses."""
        mass = self.factor() + self.log_normal
        seen = np.flatnonzero(mass > mass.max() - 6.0)
        x = np.linspace(self.edges[seen[0]], self.edges[seen[-1] + 1], number + 1)
        up, down = _side(self.law.up, self.law.rise, x), _side(self.law.down, self.law.fall, -x)
        loss = up.log - down.log
        far = np.maximum(np.abs(x[:-1]), np.abs(x[1:]))
        grown = ((self.beta + 1) * up.log - self.beta * down.log)[:-1] - 0.5 * far * far
        share = np.exp(grown - 1e-9) * np.diff(x) / math.sqrt(2 * math.pi)
        one, two = np.triu_indices(number, 1)
        gap = loss[two + 1] - loss[one]
        least = np.maximum(loss[two] - loss[one + 1], 0.0) * (1 - 1e-9) - 1e-15 * abs(loss[two])
        square = 2 * share[one] * share[two] * np.maximum(least, 0.0) ** 2
        order = np.argsort(gap)
        return gap[order] * (1 + 1e-9), np.cumsum(square[order]) * (1 - 1e-9)
