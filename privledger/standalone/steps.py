"""Pairs as lists of atoms: of a record in one of several rounds, and of neighbours of neighbours.

Good to a percent or so, as every composition here.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import Callable, NamedTuple  # noqa: UP035

from .leaves import Atom, over_one
from .reading import NoPrice

FINE, SPREAD, FARTHEST = 1 / 20, 1.0, 8.5
DUST, LEAST_SQUARED = 1e-22, 1e-4
SLICES, CELLS = 1200, 4000
Cdf = Callable[[float], float]


class Pair:
    """One mechanism's loss under the likelier table: its atoms, and a cdf of the rest."""

    def __init__(self, low: float, high: float, atoms: tuple[tuple[float, float], ...] = (),
                 cdf: Cdf | None = None) -> None:
        self.low, self.high, self.atoms, self.cdf = low, high, atoms, cdf


def cells(pair: Pair) -> list[Atom]:
    """A pair as atoms: those that it has, and one in the middle of each narrow cell."""
    found, step = list(pair.atoms), (pair.high - pair.low) / CELLS
    before = 0.0
    for place in range(CELLS if pair.cdf is not None else 0):
        after = pair.cdf(pair.low + step * (place + 1)) if pair.cdf is not None else 0.0
        found.append((pair.low + step * (place + 0.5), after - before))
        before = after
    return [one for one in found if one[1] > 0]


def listed(atoms: list[Atom]) -> Pair:
    """A pair of nothing but atoms."""
    return Pair(min(atoms)[0], max(atoms)[0], tuple(atoms))


class Sums(NamedTuple):
    """Of a sum of so many ratios, without the record: its places, and their chances."""

    rounds: int
    places: list[float]
    chances: list[float]


def places_about(mean: float, mu: float, low: float, high: float) -> list[float]:
    """Places that are dense about the mean of so many ratios."""
    found = {1: [mean], -1: [mean]}
    deviation = math.sqrt(mean * (over_one(mu * mu) + mu * mu))
    for sign, end in ((1, high), (-1, low)):
        side = found[sign]
        while (end - side[-1]) * sign > 0:
            side.append(side[-1] + sign * FINE * max(1.0, mu) * min(
                deviation + abs(side[-1] - mean), SPREAD * side[-1]))
    return found[-1][:0:-1] + found[1]


def put(places: list[float], chances: list[float], at: float, chance: float) -> None:
    """Share a chance among three places so that the sum's mean and variance stay."""
    right = min(max(bisect_right(places, at), 1), len(places) - 1)
    near = right - (at - places[right - 1] < places[right] - at)
    near = min(max(near, 1), len(places) - 2)
    a, b, c = places[near - 1:near + 2]
    if at <= 0 or not a <= at <= c:
        chances[near - 1 if at < a else near + 1] += chance
        return
    chances[near - 1] += chance * (at - b) * (at - c) / ((a - b) * (a - c))
    chances[near] += chance * (at - a) * (at - c) / ((b - a) * (b - c))
    chances[near + 1] += chance * (at - a) * (at - b) / ((c - a) * (c - b))


def one_ratio(mu: float) -> Sums:
    """Of exp(mu z - mu^2/2), z normal: a chance at the middle of each narrow slice."""
    half, far = mu * mu / 2, FARTHEST * mu
    places = places_about(1.0, mu, math.exp(-far - half), math.exp(far + half))
    chances, width = [0.0] * len(places), 2 * (FARTHEST + mu) / SLICES
    for k in range(SLICES):
        z = (k + 0.5) * width - FARTHEST
        put(places, chances, math.exp(mu * z - half),
            width * math.exp(-z * z / 2) / math.sqrt(2 * math.pi))
    return Sums(1, places, chances)


def added(one: Sums, other: Sums, mu: float) -> Sums:
    """The sum of both, on places of its own."""
    rounds = one.rounds + other.rounds
    places = places_about(float(rounds), mu, one.places[0] + other.places[0],
                          one.places[-1] + other.places[-1])
    chances = [0.0] * len(places)
    for number, (x, p) in enumerate(zip(one.places, one.chances, strict=True)):
        start = number if one is other else 0
        for y, q in zip(other.places[start:], other.chances[start:], strict=True):
            put(places, chances, x + y, p * q * (1 + (one is other and y is not x)))
    seen = [k for k, (x, p) in enumerate(zip(places, chances, strict=True))
            if abs(p) * max(1.0, x / rounds) > DUST]
    cut = slice(max(0, seen[0] - 1), seen[-1] + 2)
    return Sums(rounds, places[cut], chances[cut])


def allocated_atoms(rounds: int, squared: float) -> tuple[list[Atom], list[Atom]]:
    """Of a record that leaves one of several Gaussian rounds, and that comes to one."""
    if rounds < 2 or not LEAST_SQUARED <= squared <= 25:
        raise NoPrice("an allocation of so little noise")
    mu, rounds = math.sqrt(squared), min(rounds, 1 << 20)
    power, found, left = one_ratio(mu), None, rounds
    while left:
        if left & 1:
            found = power if found is None else added(found, power, mu)
        left >>= 1
        power = added(power, power, mu) if left else power
    assert found is not None
    ratios = [(x / rounds, p) for x, p in zip(found.places, found.chances, strict=True)]
    return ([(math.log(x), x * p) for x, p in ratios], [(-math.log(x), p) for x, p in ratios])


def chained(first: list[Atom], second: list[Atom]) -> list[Atom]:
    """Two steps: the best tests of one after those of the other."""
    steps = [sorted(one, reverse=True) for one in (first, second)]
    cells = [[p for _, p in steps[0]], [p * math.exp(-loss) for loss, p in steps[1]]]
    found, place, rest = list[Atom](), [0, 0], [cells[0][0], cells[1][0]]
    while place[0] < len(cells[0]) and place[1] < len(cells[1]):
        width, rise = min(rest), steps[1][place[1]][0]
        if width > 0:
            found.append((steps[0][place[0]][0] + rise, width * math.exp(rise)))
        for k in range(2):
            rest[k] -= width
            if rest[k] <= 0:
                place[k] += 1
                if place[k] < len(cells[k]):
                    rest[k] = cells[k][place[k]]
    return found


def so_often(one: list[Atom], rows: int) -> list[Atom]:
    """As many steps of one kind, fewer atoms between them."""
    found = one
    for bit in bin(rows)[3:]:
        found = thinner(chained(found, found))
        found = thinner(chained(found, one)) if bit == "1" else found
    return found


def thinner(atoms: list[Atom]) -> list[Atom]:
    """Neighbours put together, at their mean, until few are left."""
    width = -(-len(atoms) // SLICES)
    found = []
    for start in range(0, len(atoms), width):
        part = atoms[start:start + width]
        mass = math.fsum(p for _, p in part)
        if mass > 0:
            found.append((math.fsum(loss * p for loss, p in part) / mass, mass))
    return found
