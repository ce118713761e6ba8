"""The true epsilon of a tree, written apart from `privledger.accounting`.

With L the loss of one world against another, P the likelier one and M(s) = E_P[exp(s L)],

    delta(epsilon) = 1/(2 pi i) integral over Re s = c > 0 of exp(-s epsilon) M(s) / (s (s + 1)) ds,

and M of a sequence is the product of its parts' M. Every M here is a closed form, a finite sum or
a quadrature that converges geometrically; the integral is a trapezoid rule on a line through
about the saddle point, which converges likewise as long as an unsampled Gaussian is in the tree.
Trees of finite laws are enumerated in rational numbers or mpmath instead.

A tree is drawn together with one world (a pair of laws) that some neighbours have: no sound
price may be below what that world loses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize_scalar

Array = NDArray[np.float64]
Complex = NDArray[np.complex128]


@dataclass(frozen=True)
class Pair:
    """Masses of quadrature nodes, in logarithms, under both worlds: shape (n,) each."""

    log_p: Array
    log_q: Array

    def log_moment(self, s: Complex) -> Complex:
        """log M at every s; p first, then the loss, so that neither overflows."""
        loss = self.log_p - self.log_q
        exponent = self.log_p + s[:, None] * loss
        peak = exponent.real.max(axis=1)
        return peak + np.log(np.exp(exponent - peak[:, None]).sum(axis=1))

    def along(self, c: float, step: float, many: int) -> Complex:
        """log M at c + i k `step` for k < `many`: real parts are alike there, and phases of one
        block turn into those of the next by a factor for every mass."""
        loss = self.log_p - self.log_q
        exponent = self.log_p + c * loss
        peak = float(exponent.max())
        weights, block = np.exp(exponent - peak), math.isqrt(many - 1) + 1
        phases = np.exp(1j * step * np.arange(block)[:, None] * loss)
        found = [phases @ (weights * np.exp(1j * (step * k) * loss))
                 for k in range(0, many, block)]
        return peak + np.log(np.concatenate(found)[:many])

    def turned(self) -> Pair:
        return Pair(self.log_q, self.log_p)


@dataclass(frozen=True)
class Normal:
    """N(mu, 1) against N(0, 1)."""

    mu: float

    def log_moment(self, s: Complex) -> Complex:
        return 0.5 * s * (s + 1) * self.mu**2

    def along(self, c: float, step: float, many: int) -> Complex:
        return self.log_moment(c + 1j * step * np.arange(many))

    def turned(self) -> Normal:
        return self


Law = Pair | Normal
World = list[tuple[Law, int]]


def normals(up: dict[float, float], down: dict[float, float], points: int = 500) -> Pair:
    """A mixture of unit normals (centre: weight) against another."""
    centres = [*up, *down]
    x = np.linspace(min(centres) - 12, max(centres) + 12, points)

    def log_density(weights: dict[float, float]) -> Array:
        terms = [math.log(weight) - 0.5 * (x - centre) ** 2
                 for centre, weight in weights.items() if weight > 0]
        return np.logaddexp.reduce(terms) - 0.5 * math.log(2 * math.pi) + math.log(x[1] - x[0])

    return Pair(log_density(up), log_density(down))


def laplaces(shift: float, rate: float = 1.0) -> Pair:
    """(1 - rate) Laplace at 0 + rate Laplace at `shift`, scale 1, against Laplace at 0."""
    nodes, weights = np.polynomial.legendre.leggauss(60)
    x = 0.5 * shift * (nodes + 1)
    plain = np.concatenate([[0.5], 0.25 * shift * weights * np.exp(-x),
                            [0.5 * math.exp(-shift)]])
    ratio = np.concatenate([[math.exp(-shift)], np.exp(2 * x - shift), [math.exp(shift)]])
    return Pair(np.log(plain) + np.log(1 - rate + rate * ratio), np.log(plain))


def finite(p: list[float], q: list[float]) -> Pair:
    return Pair(np.log(np.array(p)), np.log(np.array(q)))


def whole_laplace(parameter: float, shift: int) -> Pair:
    """Two-sided geometric noise on 0 and on `shift`."""
    z = np.arange(-int(45 / parameter) - 1, shift + int(45 / parameter) + 2)
    norm = math.log(math.tanh(parameter / 2))
    return Pair(norm - parameter * np.abs(z - shift), norm - parameter * np.abs(z))


def whole_gaussian(sigma: float, shift: int) -> Pair:
    """Discrete Gaussian noise on 0 and on `shift`."""
    reach = math.ceil(14 * sigma)
    z = np.arange(-reach, shift + reach + 1)
    at, off = -0.5 * (z - shift) ** 2 / sigma**2, -0.5 * z**2 / sigma**2
    return Pair(at - np.logaddexp.reduce(at), off - np.logaddexp.reduce(off))


def epsilon(world: World, delta: float) -> float:
    """The epsilon of `world` at `delta`, to about 1e-9; 0 if delta is met there already."""
    def log_moment(s: Complex) -> Complex:
        return np.asarray(sum(count * law.log_moment(s) for law, count in world))

    def real(c: float) -> float:
        return float(log_moment(np.array([complex(c)])).real[0])

    def chernoff(log_c: float) -> float:
        c = math.exp(log_c)
        return (real(c) - math.log(delta) - math.log1p(c)) / c

    found = minimize_scalar(chernoff, bounds=(math.log(0.05), math.log(2000.0)),
                            method="bounded", options={"xatol": 0.02})
    c = math.exp(found.x)
    smooth = sum(count * law.mu**2 for law, count in world if isinstance(law, Normal))
    step, many = _line(log_moment, c, delta, real, smooth)
    at = step * np.arange(many)
    values = np.asarray(sum(count * law.along(c, step, many) for law, count in world))

    def rest(epsilon: float) -> float:
        s = c + 1j * at
        terms = np.exp(values - s * epsilon - math.log(delta)) / (s * (s + 1))
        return float((terms.real.sum() - 0.5 * terms.real[0]) * (at[1] - at[0]) / math.pi) - 1

    high = max(1e-6, float(found.fun) * 1.2 + 1e-3)
    # Far below the saddle point the terms cancel and signs mean nothing: come from above.
    low = high
    while low > 0 and rest(low) <= 0:
        low = max(0.0, low - 0.02 * high)
    return brentq(rest, low, high, xtol=1e-13, rtol=1e-12) if low > 0 or rest(0.0) > 0 else 0.0


def _line(
    log_moment: Callable[[Complex], Complex], c: float, delta: float,
    real: Callable[[float], float], smooth: float,
) -> tuple[float, int]:
    """Step and number of nodes on Re s = c, up to where the moment has vanished.

    Of losses on a lattice it vanishes and comes back, a period later: no moment is larger than
    the one at c, so it is gone where the unsampled Gaussian's is, of squared mu `smooth`.
    """
    h = 1e-3 * c
    spread = math.sqrt(max(1e-12, (real(c + h) - 2 * real(c) + real(c - h)) / h**2))
    window = max(40 * spread, (45 - math.log(delta)) / c)
    top = 1.0
    peak = real(c)
    while not smooth and log_moment(np.array([complex(c, top)])).real[0] - peak > -45 and (
            top < 1e5):
        top *= 1.3
    if smooth:
        top = math.sqrt(2 * 45 / smooth)
    step = 2 * math.pi / window
    if top / step > 60_000:
        raise ValueError("a moment that does not vanish")
    return step, math.ceil((top + step) / step)
