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
from collections.abc import Sequence

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.bands import UNIT
from privledger.accounting.pld.lattice import Lattice, harmless
from privledger.accounting.pld.masses import Masses
from privledger.accounting.pld.near_one import LEAST_COUNT, close, near

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


def compose(items: Sequence[tuple[Masses, int]], lattice: Lattice) -> Composed:
    """Convolve each masses' `count`-fold power on the lattice's window."""
    size = lattice.size
    half = size // 2 + 1
    product = np.ones(half, dtype=np.complex128)
    log_reach = np.zeros(half)  # log of a bound on the product's size
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
        reach = np.sqrt(value.real**2 + value.imag**2) + off
        log_reach += count * np.log(reach)
        finer = _finer(tilted, count, reach) if len(items) <= _FEW else None
        if finer is None:
            parts.append(_Part(count, off, reach if len(items) <= _FEW else reach[:1]))
            product *= _power(value, count, reach)
        else:
            parts.append(_Part(count, off, reach, finer[1]))
            product *= finer[0]
    product[log_reach < _VANISHING] = 0
    forward = _forward_error(parts, log_reach, size)
    result = _irfft(product, size)
    backward = _fft_error(size) * float(np.sqrt(np.dot(result, result)))
    offset = math.fsum(count * masses.offset for masses, count in items)
    # The window was chosen by rough numbers, with all offsets: keep it around the real mean.
    moved = round((mean - lattice.mean if math.isfinite(mean) else -offset) / lattice.step)
    lattice = evolve(lattice, first=lattice.first + moved,
                     centre=lattice.centre + moved * lattice.step)
    start = lattice.first % size
    result = np.concatenate([result[start:], result[:start]])
    fair = harmless(lattice)
    above, outside, around = _outside(items, lattice, log_moment, fair)
    blur = sum(count * masses.blur for masses, count in items) * (1 + 1e-12)
    blur += 4 * UNIT * sum(count * abs(masses.offset) for masses, count in items)
    return Composed(lattice, result, log_moment, log_slack, 1.01 * (forward + backward),
                    _infinite(items), above, outside,
                    sum(count * masses.first for masses, count in items) >= lattice.first,
                    sum(count * (masses.first + len(masses.p) - 1) for masses, count in items),
                    blur, offset, around, fair,
                    sum(count * masses.lost for masses, count in items))


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
    full = np.exp(np.minimum(log_reach, 1.0))
    squared = sum(part.count for part in parts if part.relative is None) + len(parts)
    total = 8 * UNIT * squared * 2 * float(full.sum())
    for part in parts:
        if part.relative is not None:
            total += 2 * float(np.dot(full, part.relative))
            continue
        rest = full / part.reach if len(part.reach) == len(full) else np.full(len(full), 1.01)
        total += part.count * part.off * math.sqrt(2 * float(np.dot(rest, rest)))
    return 1.01 * total / size + math.exp(_VANISHING)


def _rfft(values: Array) -> NDArray[np.complex128]:
    from scipy.fft import rfft

    return np.asarray(rfft(values))


def _irfft(values: NDArray[np.complex128], size: int) -> Array:
    from scipy.fft import irfft

    return np.asarray(irfft(values, size))


def _fft_error(size: int) -> float:
    """Relative error in the 2-norm of an FFT with factors 2, 3 and 5.

    A stage of radix r computes sums of r products: at most sqrt(r) (r + 4) roundings' worth,
    below 9 for each binary digit of r; Higham 2002, Theorem 24.2, for radix 2.
    """
    return 0.5 * UNIT * 16 * (math.log2(size) + 2)


def _tilt(masses: Masses, lattice: Lattice) -> tuple[Array, float, float]:
    """Normalised tilted masses folded into the window's length, log of their sum, mean."""
    exponent = lattice.tilt * lattice.step * (masses.first + np.arange(len(masses.p)))
    with np.errstate(divide="ignore"):
        peak = float(np.max(np.log(masses.p) + exponent))
    weighted = masses.p * np.exp(np.minimum(exponent - peak, 700.0))
    total = float(weighted.sum())
    size, place = lattice.size, masses.first % lattice.size
    folded = np.zeros(size)
    done = 0
    while done < len(weighted):
        room = min(size - place, len(weighted) - done)
        folded[place:place + room] += weighted[done:done + room]
        done, place = done + room, 0
    mean = masses.first + float(np.dot(weighted, np.arange(len(weighted)))) / total
    return folded / total, peak + math.log(total), mean * lattice.step


def _power(value: NDArray[np.complex128], count: int, reach: Array) -> NDArray[np.complex128]:
    """value**count by squaring; what becomes smaller than exp(-90) is zero already."""
    if count == 1:
        return value
    base = np.where(count * np.log(reach) < _VANISHING, 0, value)
    result: NDArray[np.complex128] | None = None
    while count:
        if count & 1:
            result = base.copy() if result is None else result * base
        count >>= 1
        if count:
            base = base * base
    assert result is not None
    return result


def log_moment_at(items: Sequence[tuple[Masses, int]], step: float, tilt: float) -> float:
    """Log moment generating function of the sum at `tilt`, rounded up."""
    total = 0.0
    for masses, count in items:
        with np.errstate(divide="ignore"):
            exponent = np.log(masses.p) + tilt * step * (
                masses.first + np.arange(len(masses.p)))
        peak = float(np.max(exponent))
        value = peak + math.log(float(np.exp(exponent - peak).sum()))
        total += count * (value + 1e-14 * (2 + abs(peak) + abs(value)))
    return total


def _outside(
    items: Sequence[tuple[Masses, int]], lattice: Lattice, log_moment: float, fair: int
) -> tuple[float, float, float]:
    """Bounds on P mass above the window, on tilted mass outside it, and on what of that wraps
    to `fair` or above: all from below, and from above what is so much farther."""
    step, first, tilt = lattice.step, lattice.first, lattice.tilt
    last = first + lattice.size
    low = sum(count * masses.first for masses, count in items)
    high = sum(count * (masses.first + len(masses.p) - 1) for masses, count in items)
    above = far = under = farther = -math.inf
    down, up, away = lattice.turns
    if high >= last:
        above = _chernoff(items, step, tilt, log_moment, last * step, up)
        far = _chernoff(items, step, tilt, log_moment, last * step, away)
    if high >= last + fair - first:
        farther = min(far, _chernoff(items, step, tilt, log_moment,
                                     (last + fair - first) * step, away))
    if low < first:
        under = _chernoff(items, step, tilt, log_moment, first * step, down)
    # P mass: undo the tilt, at its smallest weight beyond the window.
    beyond = math.exp(min(0.0, above + log_moment - tilt * last * step))
    below = math.exp(min(0.0, under))
    return beyond, math.exp(min(0.0, far)) + below, math.exp(min(0.0, farther)) + below


def _chernoff(
    items: Sequence[tuple[Masses, int]], step: float, tilt: float, log_moment: float,
    end: float, turn: float,
) -> float:
    """log of P_tilt(S >= end) for turn > 0, of P_tilt(S <= end) for turn < 0."""
    if turn == 0:
        return 0.0
    shifted = log_moment_at(items, step, tilt + turn)
    return shifted - log_moment - turn * end + 1e-12 * (abs(shifted) + abs(log_moment))


def _infinite(items: Sequence[tuple[Masses, int]]) -> float:
    """1 - product of (1 - infinite), with totals that rounding pushed above 1."""
    grown = sum(count * max(0.0, float(masses.p.sum()) + masses.infinite - 1)
                for masses, count in items)
    single = sum(count * masses.infinite for masses, count in items)
    return min(1.0, single * math.exp(min(grown, 50.0)) * (1 + 1e-12))
