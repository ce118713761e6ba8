"""Rows of a person, or an exchanged row, on a Poisson sample of Gaussian releases; and rows that
add a random amount.

P is a mixture of N(j mu, 1), Q of N(-j mu, 1), j >= 0: how many of the rows are in the sample.
The loss rises with x, so every best test is a half-line (docs/proofs/relations.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cache, lru_cache

import numpy as np
from attrs import field, frozen

from privledger.accounting.moments import Array, by_doubling
from privledger.accounting.pld.pairs import (
    NO_ATOMS,
    UNIT,
    Atoms,
    Bands,
    Pair,
    inner_masses,
)
from privledger.rounding import part_up, up

MOST_ROWS = 64
_LEAST = -640.0  # log of a chance
_TABLE = 4096
_FEWEST, _STEPS = 2, 40  # of Newton's method, or halving, from a table


def held(rate: float, rows: int) -> bool:
    """Whether floats hold every chance of `binomial`, and so few rows are listed here."""
    return rows <= MOST_ROWS and min(rate, 1 - rate) > 0 and (
        rows * math.log(min(rate, 1 - rate)) > _LEAST)


@cache
def binomial(rate: float, rows: int) -> tuple[float, ...]:
    """Chances that 0, 1, ... of `rows` are in a sample, each to half a unit in its last place."""
    share = Fraction(rate)
    return tuple(float(math.comb(rows, j) * share**j * (1 - share) ** (rows - j))
                 for j in range(rows + 1))


@frozen
class Drawn:
    """A law of how many rows are in a sample: the binomial law, or one that is larger.

    Attributes:
        chances: shape (n,), each within the relative error `loose`. places: numbers of rows, n of
            them, rising. exact: whether it is the binomial law.
    """

    chances: tuple[float, ...]
    places: tuple[float, ...]
    loose: float = 0.0
    exact: bool = True


_MOST_PLACES = 128
_TAIL = 1e-40  # chance that goes to the first place, and to all rows at once


@cache
def drawn(rate: float, rows: int) -> Drawn:
    """How many of `rows` are in a sample: stochastically larger where not all can be listed.

    The rare upper end goes to all rows at once, which is where a bound may put it; numbers in
    between are rounded up to the end of their block (docs/proofs/relations.md, "Many rows").
    """
    if held(rate, rows):
        return Drawn(binomial(rate, rows), tuple(map(float, range(rows + 1))))
    mode = min(rows, math.floor((rows + 1) * rate))
    odds = rate / (1 - rate)
    reach = math.ceil(40 * math.sqrt(rows * rate * (1 - rate)) + 400)
    up = np.arange(mode, min(rows, mode + reach), dtype=np.float64)
    down = np.arange(mode, max(0, mode - reach), -1, dtype=np.float64)
    with np.errstate(under="ignore"):
        above = np.cumprod((rows - up) / (up + 1) * odds)
        below = np.cumprod(down / (rows - down + 1) / odds)
    share = np.concatenate([below[::-1], [1.0], above])
    share /= share.sum()
    first = int(np.count_nonzero(np.cumsum(share) <= _TAIL))
    beyond = np.cumsum(share[::-1])[::-1]
    last = int(np.count_nonzero(beyond > _TAIL))
    width = -(-(last - first) // _MOST_PLACES)
    starts = np.arange(first, last, width)
    chances = np.add.reduceat(share[:last], starts)
    chances[0] += share[:first].sum()
    ends = mode - len(below) + np.minimum(starts + width, last) - 1.0
    # What lies beyond the ratios above is less than they: each falls faster than the last.
    tail = 4 * _TAIL
    if ends[-1] < rows:
        chances, ends = np.append(chances, tail), np.append(ends, float(rows))
    return Drawn(tuple(chances.tolist()), tuple(ends.tolist()), 16 * UNIT * (len(share) + 8), False)


# --- The amount that a row adds, drawn by a law of its own.

_ALIKE = 64 * UNIT  # of two sums, relatively, that are meant to be equal
_MOST_SUMS = 512  # places of a sum
_LEAST_CHANCE = 1e-280  # smaller ones lose their digits


def amounts(sensitivities: Sequence[float], chances: Sequence[float], deviation: float) -> Drawn:
    """The law of the shift of one row, in deviations of the noise, rounded up.

    Chances count from the largest sensitivity down, up to 1; what they lack to 1 counts there, too.
    """
    each = dict[float, Fraction]()
    for place, chance in zip(sensitivities, chances, strict=True):
        each[place] = each.get(place, Fraction(0)) + Fraction(chance)
    left, missing = Fraction(1), max(Fraction(0), 1 - sum(each.values()))
    places, found = list[float](), list[float]()
    for place in sorted(each, reverse=True):
        share = min(each[place] + missing, left)
        left, missing = left - share, Fraction(0)
        if share > 0:
            places.append(up(place / deviation) if place else 0.0)
            found.append(part_up(share))
    return Drawn(tuple(found[::-1]), tuple(places[::-1]))


def thinned(law: Drawn, rate: float) -> Drawn:
    """The same amount where the row is on a Poisson sample, and else 0."""
    chances, places = [rate * one for one in law.chances], list(law.places)
    if places[0]:
        chances, places = [0.0, *chances], [0.0, *places]
    chances[0] += 1 - rate
    return _listed(np.array(places), np.array(chances), law.loose + 4 * UNIT, law.exact)


def sum_of_rows(law: Drawn, rows: int) -> Drawn:
    """The sum of the amounts of so many rows, each drawn by itself; or one that is larger."""
    return by_doubling(law, rows, _added)


def _added(one: Drawn, other: Drawn) -> Drawn:
    places = np.add.outer(np.array(one.places), np.array(other.places)).ravel()
    chances = np.multiply.outer(np.array(one.chances), np.array(other.chances)).ravel()
    order = np.argsort(places, kind="stable")
    return _listed(places[order], chances[order],
                   one.loose + other.loose + UNIT * (len(order) + 4), one.exact and other.exact)


def _listed(places: Array, chances: Array, loose: float, exact: bool) -> Drawn:
    """A law of few places; each of the others is rounded up to the next that is kept."""
    kept = np.append(np.diff(places) > _ALIKE * places[1:], True)
    starts = np.append(0, np.flatnonzero(kept)[:-1] + 1)
    places = np.where(places[kept] > 0, np.nextafter(places[kept], np.inf), 0.0)
    chances = np.add.reduceat(chances, starts)
    chances[-1] = max(chances[-1], _LEAST_CHANCE)  # taken off the likeliest, where it is nothing
    kept = chances >= _LEAST_CHANCE
    if np.count_nonzero(kept) > _MOST_SUMS:
        exact, beyond = False, np.cumsum(chances[::-1])[::-1]
        kept[:-1] &= (np.cumsum(chances)[:-1] > _TAIL) & (beyond[:-1] > _TAIL)
    if np.count_nonzero(kept) > _MOST_SUMS:
        # Dense where larger amounts are not rare, and not too far apart elsewhere.
        reach = np.cumsum((beyond ** (1 / 6) + 0.1) * np.diff(places, prepend=0.0) * kept)
        kept[:-1] &= (np.diff(np.floor(reach * _MOST_SUMS / reach[-2])) > 0)
    starts = np.append(0, np.flatnonzero(kept)[:-1] + 1)
    return Drawn(tuple(np.add.reduceat(chances, starts).tolist()), tuple(places[kept].tolist()),
                 loose + UNIT * len(kept), exact)


@frozen(cache_hash=True)
class MixturePair:
    """Sum of up[i] N(places[i] mu, 1) against the sum of down[i] N(-places[i] mu, 1).

    Attributes:
        places: rising from 0 or more; 0, 1, 2, ... if left out.
        loose: relative error of the weights.
        tight: false if a place stands for smaller ones, too: those above the place before it;
            or if the normal laws are not attained, as `normal` says.
    """

    up: tuple[float, ...]
    down: tuple[float, ...]
    mu: float
    places: tuple[float, ...] = ()
    loose: float = 0.0
    tight: bool = True
    normal: bool = True

    @property
    def law(self) -> Drawn:
        """Of the shift, where the other side is one normal law, or its mirror image."""
        return Drawn(max(self.up, self.down, key=len), self.places, self.loose, self.tight)

    def shifts(self, weights: tuple[float, ...]) -> Array:
        """Of the normal laws of one side, `up` or `down`; shape (n,)."""
        if len(weights) == 1:
            return np.zeros(1)
        places = self.places or range(len(weights))
        return np.array(places, dtype=np.float64) * self.mu

    @property
    def top(self) -> float:
        """-log(down[0]) if P is one normal law; else infinity."""
        return math.inf if len(self.up) > 1 or self._moved else -math.log(self.down[0])

    @property
    def _least(self) -> float:
        return -math.inf if len(self.down) > 1 or self._moved else math.log(self.up[0])

    @property
    def _moved(self) -> bool:
        return bool(self.places) and self.places[0] > 0

    def _side(self, weights: tuple[float, ...], x: Array) -> tuple[Array, Array, Array]:
        """log of a mixture's density over N(0, 1)'s at x; its slope; size of what was rounded."""
        shift = self.shifts(weights)[:, None]
        with np.errstate(divide="ignore"):
            start = np.log(np.array(weights))[:, None] - 0.5 * shift * shift
        height, slope, size = np.empty(len(x)), np.empty(len(x)), np.empty(len(x))
        many = max(1, _CELLS // len(weights))
        for begin in range(0, len(x), many):
            part = slice(begin, begin + many)
            rise = shift * x[part]
            exponent = start + rise
            peak = exponent.max(axis=0)
            share = np.exp(exponent - peak)
            total = share.sum(axis=0)
            share /= total
            rounded = np.where(share > 0, np.where(np.isfinite(start), np.abs(start), 0.0)
                               + np.abs(rise), 0.0)
            height[part] = peak + np.log(total)
            slope[part] = (share * shift).sum(axis=0)
            size[part] = (share * rounded).sum(axis=0)
        return height, slope, size

    def loss(self, x: Array) -> tuple[Array, Array, Array]:
        """Loss at x, its slope, and a bound on the rounding of the loss; each of x's shape."""
        above, rise, size = self._side(self.up, x)
        below, fall, other = self._side(self.down, -x)
        rounding = UNIT * (8 * (size + other) + 8 * (len(self.up) + len(self.down)))
        rounding += 4 * self.loose  # the logarithm of a weight is off by as much
        return above - below, rise + fall, rounding

    def _places(self, edges: Array) -> tuple[Array, float]:
        """Where the loss is each of `edges`, and how far off it is there at most."""
        x = np.where(edges > 0, np.inf, -np.inf)
        seen = np.isfinite(edges) & (edges > self._least) & (edges < self.top)
        if not bool(seen.any()):
            return x, 0.0
        aim = edges[seen]
        low, high = -40.0, 40.0
        while self.loss(np.array([low]))[0][0] > aim[0] and low > -_FARTHEST:
            low *= 2
        while self.loss(np.array([high]))[0][0] < aim[-1] and high < _FARTHEST:
            high *= 2
        table, known = _table(self, low, high)
        right = np.clip(np.searchsorted(known, aim), 1, _TABLE - 1)
        guess, left, end = np.interp(aim, known, table), table[right - 1], table[right]
        for number in range(_STEPS):
            value, slope, rounding = self.loss(guess)
            if number >= _FEWEST and bool((np.abs(value - aim) <= rounding).all()):
                break
            left, end = np.where(value < aim, guess, left), np.where(value > aim, guess, end)
            step = guess - (value - aim) / np.where(slope > 0, slope, 1.0)
            guess = np.where((left <= step) & (step <= end), step, 0.5 * (left + end))
        guess = np.maximum.accumulate(guess)
        value, _, rounding = self.loss(guess)
        x[seen] = guess
        return x, float(np.max(np.abs(value - aim) + rounding))

    def bands(self, edges: Array) -> Bands:
        """Mixed masses of normal laws between the places of the edges; see `Pair.bands`."""
        x, off = self._places(edges)
        sides = [_mixed(self.up, x, self.shifts(self.up), self.loose),
                 _mixed(self.down, x, -self.shifts(self.down), self.loose)]
        (p, slack_p, below, above), (q, slack_q, below_q, above_q) = sides
        size = float(np.max(np.abs(edges[np.isfinite(edges)]), initial=0.0))
        return Bands(p, q, slack_p, slack_q, below, below_q, above, above_q,
                     off + 8 * UNIT * (1 + size))

    def atoms(self) -> Atoms:
        """None: the loss is continuous."""
        return NO_ATOMS

    def probe(self) -> tuple[Array, Array]:
        """Places 17 deviations around all normal laws of P; see `Pair.probe`."""
        likely = np.array(self.up) > _SEEN
        reach = float(self.shifts(self.up)[likely].max())
        x = np.linspace(-17.0, 17.0 + reach, 161 + min(800, math.ceil(10 * reach)))
        density, _, _ = self._side(self.up, x)
        log_p = density - 0.5 * x * x
        weight = np.exp(log_p - log_p.max())
        return self.loss(x)[0], weight / weight.sum()

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """Beyond the place of the edge the loss is below a line, as P's part of it is convex with
        slopes below the last shift, and Q's part is concave."""
        from scipy.special import log_ndtr

        if edge >= self.top:
            return -math.inf
        x, rise, off = _line(self, edge)
        if not abs(x) < math.inf:
            return math.inf
        start, slope, shift = beta * (edge + off), beta * rise, self.shifts(self.up)
        terms = [np.log(np.maximum(self.up, 1e-300)), np.full(len(shift), start),
                 slope * (shift - x), np.full(len(shift), 0.5 * slope * slope),
                 log_ndtr(shift + slope - x)]
        size = sum(map(np.abs, terms)) + slope * abs(x)
        return float(np.logaddexp.reduce(sum(terms) + self.loose + 16 * UNIT * (1 + size)))


@lru_cache(maxsize=64)
def _table(pair: MixturePair, low: float, high: float) -> tuple[Array, Array]:
    """Places, and their losses, rising."""
    places = np.linspace(low, high, _TABLE)
    return places, np.maximum.accumulate(pair.loss(places)[0])


@lru_cache(maxsize=1024)
def _line(pair: MixturePair, edge: float) -> tuple[float, float, float]:
    """Where the loss is `edge`, a slope that it does not pass from there on, and how far off."""
    (x,), off = pair._places(np.array([edge]))
    if not abs(x) < math.inf:
        return x, math.inf, 0.0
    fall = float(pair._side(pair.down, np.array([-x]))[1][0])
    return float(x), (float(pair.shifts(pair.up)[-1]) + fall) * (1 + 1e-12), off


_FARTHEST = 1e6
_CELLS = 1 << 18  # of a table of exponentials at a time
_SEEN = 1e-36  # a weight below it is far away, and no mesh is chosen by it


def _mixed(
    weights: tuple[float, ...], x: Array, shifts: Array, off: float
) -> tuple[Array, Array, float, float]:
    """Masses of a mixture between cut points, bounds on their errors, and the two ends."""
    from scipy.special import ndtr

    mass, slack = np.zeros(len(x) - 1), np.zeros(len(x) - 1)
    share = np.array(weights)
    many, loose = max(1, _CELLS // len(x)), 2 * off + 4 * UNIT * (1 + len(weights))
    for begin in range(0, len(share), many):
        part = slice(begin, begin + many)
        shift, weight = shifts[part, None], share[part]
        inner, more = inner_masses(x - shift, 4 * UNIT * (np.abs(x) + np.abs(shift)))
        mass += weight @ inner
        slack += weight @ more + loose * (weight @ inner)
    below = float(share @ ndtr(x[0] - shifts))
    above = float(share @ ndtr(shifts - x[-1]))
    grown = 1 + 1e-12 + 2 * off
    return mass, slack, below * grown, above * grown


# --- One of two pairs, by a coin that both worlds show alike.


@frozen(cache_hash=True)
class CoinPair:
    """`rare` with probability `share`, else `usual`; `rare` is the dearer, so a larger share
    dominates. Not attained by what is priced so: it gives no lower bound."""

    share: float
    usual: Pair
    rare: Pair
    tight: bool = field(default=False, init=False)

    @property
    def top(self) -> float:
        """The larger of both largest losses."""
        return max(self.usual.top, self.rare.top)

    def _blend(self, usual: Array | float, rare: Array | float) -> Array:
        return np.asarray(((1 - self.share) * np.asarray(usual) + self.share * np.asarray(rare))
                          * (1 + 4 * UNIT))

    def bands(self, edges: Array) -> Bands:
        """Both pairs' masses, each with its probability; see `Pair.bands`."""
        one, two = self.usual.bands(edges), self.rare.bands(edges)
        return Bands(
            self._blend(one.p, two.p), self._blend(one.q, two.q),
            self._blend(one.slack_p, two.slack_p) + 4 * UNIT * self._blend(one.p, two.p),
            self._blend(one.slack_q, two.slack_q) + 4 * UNIT * self._blend(one.q, two.q),
            float(self._blend(one.below, two.below)), float(self._blend(one.below_q, two.below_q)),
            float(self._blend(one.above, two.above)), float(self._blend(one.above_q, two.above_q)),
            max(one.blur, two.blur))

    def atoms(self) -> Atoms:
        """The atoms of both, each with its probability; see `Pair.atoms`."""
        one, two = self.usual.atoms(), self.rare.atoms()
        p = np.concatenate([(1 - self.share) * one.p, self.share * two.p]) * (1 + 4 * UNIT)
        return Atoms(np.concatenate([one.loss, two.loss]), p,
                     float(self._blend(one.infinite, two.infinite)),
                     float(self._blend(one.q_only, two.q_only)),
                     max(one.blur, two.blur), max(one.raised, two.raised) + 8 * UNIT)

    def probe(self) -> tuple[Array, Array]:
        """Places of both, with their shares; see `Pair.probe`."""
        (one, p), (two, q) = self.usual.probe(), self.rare.probe()
        return (np.concatenate([one, two]),
                np.concatenate([(1 - self.share) * p / p.sum(), self.share * q / q.sum()]))

    def log_tail_moment(self, edge: float, beta: float) -> float:
        """At most the sum of both."""
        return float(np.logaddexp(self.usual.log_tail_moment(edge, beta),
                                  self.rare.log_tail_moment(edge, beta)))
