"""Exact profiles, in mpmath, of the pairs that the accountant computes with in floats.

A profile is H_a(P, Q) = integral of max(0, p - a q) at a = e^x, for every real x. Parameters are
taken as the floats that they are. Nothing is shared with `privledger.accounting.pld` but the
record types.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np

from privledger.accounting.pld.masses import Masses
from privledger.accounting.pld.pairs import Pair

DIGITS = 60
Profile = Callable[[mp.mpf], mp.mpf]


def at(profile: Profile, x: float) -> mp.mpf:
    with mp.workdps(DIGITS):
        return profile(mp.mpf(x))


# --- profiles ---------------------------------------------------------------------------------


def gaussian(mu: float) -> Profile:
    m = mp.mpf(mu)
    return lambda x: mp.ncdf(m / 2 - x / m) - mp.exp(x) * mp.ncdf(-m / 2 - x / m)


def laplace(epsilon: float) -> Profile:
    e = mp.mpf(epsilon)
    return lambda x: (mp.mpf(0) if x >= e else -mp.expm1(x) if x <= -e
                      else -mp.expm1((x - e) / 2))


def bounded_range(eta: float) -> Profile:
    e = mp.mpf(eta)
    return lambda x: (mp.mpf(0) if x >= e else -mp.expm1(x) if x <= -e
                      else mp.expm1((x - e) / 2) ** 2 / -mp.expm1(-e))


@dataclass(frozen=True)
class Table:
    """Outcomes with their probabilities in two worlds, as many digits as wanted."""

    p: tuple[mp.mpf, ...]
    q: tuple[mp.mpf, ...]

    def profile(self) -> Profile:
        return lambda x: mp.fsum(
            max(mp.mpf(0), p - mp.exp(x) * q) for p, q in zip(self.p, self.q, strict=True))

    def __mul__(self, other: Table) -> Table:
        """Both outputs, seen together."""
        return Table(tuple(a * b for a, b in itertools.product(self.p, other.p)),
                     tuple(a * b for a, b in itertools.product(self.q, other.q)))

    def power(self, count: int) -> Profile:
        """The profile of `count` runs, by multinomial outcomes."""
        kinds = len(self.p)
        rows = [(math.factorial(count) // math.prod(map(math.factorial, ks)), ks)
                for ks in _compositions(count, kinds)]
        both = [(ways * mp.fprod(p**k for p, k in zip(self.p, ks, strict=True)),
                 ways * mp.fprod(q**k for q, k in zip(self.q, ks, strict=True)))
                for ways, ks in rows]
        return Table(tuple(p for p, _ in both), tuple(q for _, q in both)).profile()

    def sampled(self, rate: float, lane: str) -> Table:
        """Lane "remove": (1 - rate) Q + rate P against Q; "add": P against (1 - rate) P + rate Q.

        Outcomes are merged where that changes nothing.
        """
        r = mp.mpf(rate)
        if lane == "remove":
            return Table(tuple((1 - r) * q + r * p for p, q in zip(self.p, self.q, strict=True)),
                         self.q)
        return Table(self.p,
                     tuple((1 - r) * p + r * q for p, q in zip(self.p, self.q, strict=True)))


def _compositions(total: int, kinds: int) -> list[tuple[int, ...]]:
    if kinds == 1:
        return [(total,)]
    return [(first, *rest) for first in range(total + 1)
            for rest in _compositions(total - first, kinds - 1)]


def coin(epsilon: float, delta: float = 0.0) -> Table:
    """Randomized response that fails openly with probability `delta`."""
    with mp.workdps(DIGITS):
        e, d = mp.exp(mp.mpf(epsilon)), mp.mpf(delta)
        likely, rare = (1 - d) * e / (1 + e), (1 - d) / (1 + e)
        if not delta:
            return Table((likely, rare), (rare, likely))
        return Table((d, likely, rare, mp.mpf(0)), (mp.mpf(0), rare, likely, d))


def response(noise: float, buckets: int) -> Table:
    with mp.workdps(DIGITS):
        wrong = mp.mpf(noise) / buckets
        right = 1 - mp.mpf(noise) + wrong
        rest = (buckets - 2) * wrong
        return Table((right, rest, wrong), (wrong, rest, right))


def discrete_laplace(parameter: float, shift: int) -> Table:
    with mp.workdps(DIGITS):
        c = mp.mpf(parameter)
        base, tail = mp.tanh(c / 2), 1 / (1 + mp.exp(-c))
        moved = (tail * mp.exp(-c * shift),
                 *(base * mp.exp(-c * (shift - z)) for z in range(1, shift)), tail)
        return Table(moved, moved[::-1])


def discrete_gaussian(sigma: float, shift: int) -> Table:
    with mp.workdps(DIGITS):
        s = mp.mpf(sigma)
        reach = math.ceil(30 * sigma) + shift

        def weight(z: int) -> mp.mpf:
            return mp.exp(-mp.mpf(z) ** 2 / (2 * s * s))

        total = mp.fsum(weight(z) for z in range(-reach, reach + 1))
        outcomes = range(-reach, reach + shift + 1)
        return Table(tuple(weight(z - shift) / total for z in outcomes),
                     tuple(weight(z) / total for z in outcomes))


def removed(rate: float, inner: Profile) -> Profile:
    """H of (1 - r) Q + r P against Q, from that of P against Q."""
    r = mp.mpf(rate)

    def profile(x: mp.mpf) -> mp.mpf:
        ratio = 1 + mp.expm1(x) / r
        return -mp.expm1(x) if ratio <= 0 else r * inner(mp.log(ratio))

    return profile


def added(rate: float, inner: Profile) -> Profile:
    """H of P against (1 - r) P + r Q: p - a ((1 - r) p + r q) = k (p - (a r / k) q)."""
    r = mp.mpf(rate)

    def profile(x: mp.mpf) -> mp.mpf:
        k = 1 - mp.exp(x) * (1 - r)
        return mp.mpf(0) if k <= 0 else k * inner(x + mp.log(r / k))

    return profile


def fixed(rate: float, inner: Profile) -> Profile:
    gains = removed(rate, inner)
    return lambda x: gains(x) if x >= 0 else -mp.expm1(x) + mp.exp(x) * gains(-x)


# --- what the package holds, read exactly -----------------------------------------------------


def of_atoms(loss: Sequence[float], p: Sequence[float], infinite: float = 0.0) -> Profile:
    """The profile of floats taken literally: a mass p at loss l has the Q mass p exp(-l)."""
    with mp.workdps(DIGITS):
        both = [(mp.mpf(float(mass)), mp.mpf(float(mass)) * mp.exp(-mp.mpf(float(x))),
                 mp.mpf(float(x))) for x, mass in zip(loss, p, strict=True)]
    return lambda x: mp.mpf(infinite) + mp.fsum(
        mass - mp.exp(x) * other for mass, other, place in both if place > x)


def of_masses(masses: Masses, step: float, points: Sequence[float]) -> list[mp.mpf]:
    """H of lattice masses at growing `points`; losses are offset + (first + i) * step exactly."""
    with mp.workdps(DIGITS):
        h, start = mp.mpf(step), mp.mpf(masses.offset)
        rising, falling = mp.mpf(masses.infinite), mp.mpf(0)
        found = []
        place = len(masses.p) - 1
        for x in sorted(map(mp.mpf, points), reverse=True):
            while place >= 0 and start + (masses.first + place) * h > x:
                mass = mp.mpf(masses.p[place])
                rising += mass
                falling += mass * mp.exp(-start - (masses.first + place) * h)
                place -= 1
            found.append(rising - mp.exp(x) * falling)
        return found[::-1]


def convolved(items: Sequence[tuple[Masses, int]]) -> Masses:
    """Every product and sum to many digits; masses as mpf, so of no use for floats."""
    total: list[mp.mpf] = [mp.mpf(1)]
    first, finite = 0, mp.mpf(1)
    with mp.workdps(DIGITS):
        for masses, count in items:
            one = [mp.mpf(float(mass)) for mass in masses.p]
            for _ in range(count):
                total = _times(total, one)
                first += masses.first
                finite *= 1 - mp.mpf(masses.infinite)
        infinite = 1 - finite
    return Masses(first, np.array(total, dtype=object), infinite)


def _times(left: list[mp.mpf], right: list[mp.mpf]) -> list[mp.mpf]:
    result = [mp.mpf(0)] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            result[i + j] += a * b
    return result


def product_of(tables: Sequence[Table]) -> Profile:
    return reduce(Table.__mul__, tables).profile()


def at_float(pair: Pair, x: float) -> float:
    """H of a pair as its own bands and atoms say."""
    bands, atoms = pair.bands(np.array([x, math.inf])), pair.atoms()
    beyond = atoms.loss > x
    return float(bands.p[0] - math.exp(x) * bands.q[0] + atoms.infinite
                 - np.sum(atoms.p[beyond] * np.expm1(x - atoms.loss[beyond])))
