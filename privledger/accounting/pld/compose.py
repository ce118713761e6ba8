"""The distribution of a sum of losses, by FFT under a tilt, with a bound on every error.

Tilting multiplies each mass by exp(tilt * loss) and normalises. A sum's tilted masses are the
convolution of the tilted ones, so the region of interest keeps about 10 digits however small
delta is. Errors (docs/proofs/privacy-loss.md, lemma 5):

    wrap        sums outside the window land inside it: bounded by Chernoff's inequality
    forward     each transformed value is off by at most `_fft_error` in the 2-norm
    power       |z^n - w^n| <= n |z - w| max(|z|, |w|)^(n - 1)
    backward    as forward, on the result
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array, by_doubling
from privledger.accounting.pld.blended import Blended
from privledger.accounting.pld.grid import TooMuch
from privledger.accounting.pld.lattice import LEAST_COUNT, Lattice, close, harmless, near
from privledger.accounting.pld.masses import Masses
from privledger.accounting.pld.pairs import UNIT

_FEW = 4
_VANISHING = -90.0  # log size below which a power is set to zero


@frozen(eq=False)
class Composed:
    """Tilted masses of the sum: mass i belongs to the loss offset + (first + i) * step.

    Attributes:
        lattice: where. tilted: shape (size,), each within `error` of the wrapped truth.
        log_moment: log of the untilted sum of P mass times exp(tilt * loss); `log_slack` is
            what rounding may have changed in it.
        error: absolute, per mass.
        infinite: P mass at infinity, an upper bound.
        beyond: P mass of finite sums above the window, an upper bound.
        wrapped: tilted mass of sums outside the window, an upper bound.
        around: of these, what wraps to lattice numbers from `fair` on, an upper bound.
        whole: whether no sum lies below the window.
        highest: the largest lattice number that a sum can have.
        blur: what rounding may have moved any sum by, in nats.
        offset: the sum of the items' offsets. `lattice` and all moments are without it.
        lost: about what the items lost of their log moments; proves nothing.
    """

    lattice: Lattice
    tilted: Array
    log_moment: float
    log_slack: float
    error: float
    infinite: float
    beyond: float
    wrapped: float
    whole: bool
    highest: int
    blur: float
    offset: float
    around: float
    fair: int
    lost: float


def compose(items: Sequence[tuple[Masses, int]], lattice: Lattice,
            blends: Sequence[Blended] = ()) -> Composed:
    """Convolve each masses' `count`-fold power on the lattice's window, and all `blends`."""
    size = lattice.size
    half = size // 2 + 1
    product = np.ones(half, dtype=np.complex128)
    log_reach = np.zeros(half)  # log of a bound on the product's size
    few = len(items) <= _FEW and not blends
    parts: list[_Part] = []
    log_moment = log_slack = mean = 0.0
    for masses, count in items:
        check_time()
        tilted, log_total, place = _tilt(masses, lattice)
        mean += count * place
        log_moment += count * log_total
        log_slack += count * 16 * UNIT * (2 + abs(log_total))
        value = _rfft(tilted)
        off = _fft_error(size) * math.sqrt(size) * float(np.sqrt(np.dot(tilted, tilted)))
        reach = _sizes(value, off)
        log_reach += count * np.log(reach)
        finer = _finer(tilted, count, reach) if few else None
        if finer is None:
            parts.append(_Part(count, off, reach if few else reach[:1]))
            product *= _power(value, count, reach)
        else:
            parts.append(_Part(count, off, reach, finer[1]))
            product *= finer[0]
    knots = [_Knots.of(group, lattice) for group in blends]
    for group, found in zip(blends, knots, strict=True):
        log_moment += group.log_total(found.log_total)
        log_slack += group.log_slack(found.log_total)
        mean += found.mean(group)
        log_reach += found.log_reach(group, parts)
    product[log_reach < _VANISHING] = 0
    at = np.flatnonzero(log_reach >= _VANISHING)
    for group, found in zip(blends, knots, strict=True):
        product[at] = found.times(product[at], group, at)
    forward = _forward_error(parts, log_reach, size)
    result = _irfft(product, size)
    backward = _fft_error(size) * float(np.sqrt(np.dot(result, result)))
    offset = math.fsum([count * masses.offset for masses, count in items]
                       + [group.runs * group.offset for group in blends])
    # The window was chosen by rough numbers, with all offsets: keep it around the real mean.
    moved = round((mean - lattice.mean if math.isfinite(mean) else -offset) / lattice.step)
    lattice = evolve(lattice, first=lattice.first + moved,
                     centre=lattice.centre + moved * lattice.step)
    start = lattice.first % size
    result = np.concatenate([result[start:], result[:start]])
    fair = harmless(lattice)
    summed = _Sum(items, blends)
    above, outside, around = _outside(summed, lattice, log_moment, fair)
    blur = sum(count * masses.blur for masses, count in items) * (1 + 1e-12)
    blur += sum(group.worst(np.array([one.blur for one in group.knots])) * (1 + 1e-12)
                for group in blends)
    blur += 4 * UNIT * sum(count * abs(masses.offset) for masses, count in items)
    blur += 4 * UNIT * sum(group.runs * abs(group.offset) for group in blends)
    return Composed(lattice, result, log_moment, log_slack, 1.01 * (forward + backward),
                    _infinite(summed), above, outside, summed.lowest() >= lattice.first,
                    summed.highest(), blur, offset, around, fair,
                    sum(count * masses.lost for masses, count in items))


@frozen(eq=False)
class _Knots:
    """What is computed once of each knot.

    `log_total`, `place`: logs of tilted totals and tilted means in nats, shape (knots,). `off`:
    2-norms of the errors of `value`. `band`: the items between each two neighbours.
    """

    log_total: Array
    place: Array
    value: list[NDArray[np.complex128]]
    off: list[float]
    band: list[NDArray[np.int64]]
    weights: tuple[Array, Array]

    @classmethod
    def of(cls, group: Blended, lattice: Lattice) -> _Knots:
        log_total, place, value, off = [], [], [], []
        for masses in group.knots:
            check_time()
            tilted, log_one, mean = _tilt(masses, lattice)
            log_total.append(log_one)
            place.append(mean)
            value.append(_rfft(tilted))
            off.append(_fft_error(lattice.size) * math.sqrt(lattice.size)
                       * float(np.sqrt(np.dot(tilted, tilted))))
        totals = np.array(log_total)
        return cls(totals, np.array(place), value, off, group.bands(), group.tilted(totals))

    def mean(self, group: Blended) -> float:
        """Tilted mean of all items' sum, in nats."""
        one, two = self.weights
        return float(np.dot(group.count, one * self.place[group.place]
                            + two * self.place[group.place + 1]))

    def reach(self, knot: int) -> Array:
        """Bound on the size of a knot's transform at each frequency."""
        return _sizes(self.value[knot], self.off[knot])

    def log_reach(self, group: Blended, parts: list[_Part]) -> Array:
        """Log of a bound on the size of all items' product; each band's part is added."""
        total = np.zeros(len(self.value[0]))
        seen, last = -1, total
        for members in self.band:
            low = int(group.place[members[0]])
            both = last if seen == low else self.reach(low), self.reach(low + 1)
            seen, last = low + 1, both[1]
            total += group.log_reach(members, self.weights, *both)
            parts.append(_Part(int(group.count[members].sum()),
                               max(self.off[low], self.off[low + 1]), np.minimum(*both)))
        return total

    def times(self, product: NDArray[np.complex128], group: Blended,
              at: NDArray[np.int64]) -> NDArray[np.complex128]:
        """The product at frequencies `at`, with all items."""
        for members in self.band:
            check_time()
            low = int(group.place[members[0]])
            group.multiply(product, members, self.weights, self.value[low][at],
                           self.value[low + 1][at])
        return product


@frozen(eq=False)
class _Part:
    """One item's transform: how often it runs, the 2-norm of its error, bounds on its size.

    `relative`: of its power at every frequency, where that was computed apart.
    """

    count: int
    off: float
    reach: Array
    relative: Array | None = None


def _finer(tilted: Array, count: int, reach: Array) -> tuple[NDArray[np.complex128], Array] | None:
    """The power of a transform close to 1, with its relative error; None where it is not."""
    if count < LEAST_COUNT:
        return None
    size = len(tilted)
    at = np.flatnonzero(count * np.log(reach) >= _VANISHING)
    half = near(size, len(at))
    if not half:
        return None
    far = tilted.copy()
    far[:half] = 0
    far[size - half:] = 0
    off = _fft_error(size) * math.sqrt(size) * float(np.sqrt(np.dot(far, far)))
    return close(tilted, at, half, _rfft(far), off).power(count, size)


def _forward_error(parts: Sequence[_Part], log_reach: Array, size: int) -> float:
    """Error per mass: the mean over frequencies of sum_j count_j |e_j| product / reach_j.

    By Cauchy and Schwarz with the 2-norm of each e_j. With many items, product / reach_j, a
    product of reaches of at most 1 + error, is bounded by 1.01 instead. Powers computed apart
    have relative errors at each frequency.
    """
    full = np.minimum(log_reach, 1.0)
    np.exp(full, out=full)
    squared = sum(part.count for part in parts if part.relative is None) + len(parts)
    total = 8 * UNIT * squared * 2 * float(full.sum())
    for part in parts:
        if part.relative is not None:
            total += 2 * float(np.dot(full, part.relative))
            continue
        rest = full / part.reach if len(part.reach) == len(full) else np.full(len(full), 1.01)
        total += part.count * part.off * math.sqrt(2 * float(np.dot(rest, rest)))
    return 1.01 * total / size + math.exp(_VANISHING)


def _sizes(value: NDArray[np.complex128], off: float) -> Array:
    """Bound on the size of numbers that are each off by `off` at most."""
    found = value.real**2
    found += value.imag**2
    np.sqrt(found, out=found)
    found += off
    return np.asarray(found)


def _rfft(values: Array) -> NDArray[np.complex128]:
    from scipy.fft import rfft

    return np.asarray(rfft(values))


def _irfft(values: NDArray[np.complex128], size: int) -> Array:
    from scipy.fft import irfft

    return np.asarray(irfft(values, size, overwrite_x=True))


def _fft_error(size: int) -> float:
    """Relative error in the 2-norm of an FFT with factors 2, 3 and 5.

    A stage of radix r computes sums of r products: at most sqrt(r) (r + 4) roundings' worth,
    below 9 for each binary digit of r; Higham 2002, Theorem 24.2, for radix 2.
    """
    return 0.5 * UNIT * 16 * (math.log2(size) + 2)


def _tilt(masses: Masses, lattice: Lattice) -> tuple[Array, float, float]:
    """Normalised tilted masses folded into the window's length, log of their sum, mean.

    Raises:
        TooMuch: there are none.
    """
    exponent = lattice.tilt * lattice.step * (masses.first + np.arange(len(masses.p)))
    with np.errstate(divide="ignore"):
        peak = float(np.max(np.log(masses.p) + exponent))
    weighted = masses.p * np.exp(np.minimum(exponent - peak, 700.0))
    total = float(weighted.sum())
    if not total > 0:  # giant losses lie where a tilt leaves nothing of them
        raise TooMuch
    size, place = lattice.size, masses.first % lattice.size
    folded = np.zeros(size)
    done = 0
    while done < len(weighted):
        room = min(size - place, len(weighted) - done)
        folded[place:place + room] += weighted[done:done + room]
        done, place = done + room, 0
    mean = masses.first + float(np.dot(weighted, np.arange(len(weighted)))) / total
    folded /= total
    return folded, peak + math.log(total), mean * lattice.step


def _power(value: NDArray[np.complex128], count: int, reach: Array) -> NDArray[np.complex128]:
    """value**count by squaring; what becomes smaller than exp(-90) is zero already."""
    if count == 1:
        return value
    kept = np.flatnonzero(count * np.log(reach) >= _VANISHING)
    power = np.zeros_like(value)
    power[kept] = by_doubling(value[kept], count, operator.mul)
    return power


@frozen(eq=False)
class _Sum:
    """All items of a composition."""

    items: Sequence[tuple[Masses, int]]
    blends: Sequence[Blended]

    def lowest(self) -> int:
        """The smallest lattice number that the sum can have."""
        return (sum(count * masses.first for masses, count in self.items)
                + sum(group.lowest() for group in self.blends))

    def highest(self) -> int:
        """The largest one."""
        return (sum(count * (masses.first + len(masses.p) - 1) for masses, count in self.items)
                + sum(group.highest() for group in self.blends))

    def log_moment(self, step: float, tilt: float) -> float:
        """Log moment generating function of the sum at `tilt`, rounded up."""
        total = sum(count * _log_moment(masses, step, tilt) for masses, count in self.items)
        for group in self.blends:
            each = np.array([_log_moment(masses, step, tilt) for masses in group.knots])
            total += group.log_total(each) + group.log_slack(each)
        return total


def _infinite(summed: _Sum) -> float:
    """1 - product of (1 - infinite), with totals that rounding pushed above 1."""
    grown = sum(count * _grown(masses) for masses, count in summed.items)
    if any(masses.infinite >= 1 for masses, _ in summed.items):
        return 1.0
    log_none = sum(count * -math.log1p(-masses.infinite) for masses, count in summed.items)
    for group in summed.blends:
        grown += group.total(np.array([_grown(masses) for masses in group.knots]))
        log_none += group.total(-np.log1p(-np.array([masses.infinite for masses in group.knots])))
    return min(1.0, -math.expm1(-log_none) * math.exp(min(grown, 50.0)) * (1 + 1e-12))


def _grown(masses: Masses) -> float:
    return max(0.0, float(masses.p.sum()) + masses.infinite - 1)


def _log_moment(masses: Masses, step: float, tilt: float) -> float:
    with np.errstate(divide="ignore"):
        exponent = np.log(masses.p) + tilt * step * (
            masses.first + np.arange(len(masses.p)))
    peak = float(np.max(exponent))
    value = peak + math.log(float(np.exp(exponent - peak).sum()))
    return value + 1e-14 * (2 + abs(peak) + abs(value))


def _outside(
    summed: _Sum, lattice: Lattice, log_moment: float, fair: int
) -> tuple[float, float, float]:
    """Bounds on P mass above the window, on tilted mass outside it, and on what of that wraps
    to `fair` or above: all from below, and from above what is so much farther."""
    step, first, tilt = lattice.step, lattice.first, lattice.tilt
    last = first + lattice.size
    low, high = summed.lowest(), summed.highest()
    above = far = under = farther = -math.inf
    down, up, away = lattice.turns
    if high >= last:
        above = _chernoff(summed, step, tilt, log_moment, last * step, up)
        far = _chernoff(summed, step, tilt, log_moment, last * step, away)
    if high >= last + fair - first:
        farther = min(far, _chernoff(summed, step, tilt, log_moment,
                                     (last + fair - first) * step, away))
    if low < first:
        under = _chernoff(summed, step, tilt, log_moment, first * step, down)
    # P mass: undo the tilt, at its smallest weight beyond the window.
    beyond = math.exp(min(0.0, above + log_moment - tilt * last * step))
    below = math.exp(min(0.0, under))
    return beyond, math.exp(min(0.0, far)) + below, math.exp(min(0.0, farther)) + below


def _chernoff(
    summed: _Sum, step: float, tilt: float, log_moment: float, end: float, turn: float,
) -> float:
    """log of P_tilt(S >= end) for turn > 0, of P_tilt(S <= end) for turn < 0."""
    if turn == 0:
        return 0.0
    shifted = summed.log_moment(step, tilt + turn)
    return shifted - log_moment - turn * end + 1e-12 * (abs(shifted) + abs(log_moment))
