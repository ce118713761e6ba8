"""Many choices of one bounded range, each made after the last was seen: the best profile there is.

Every single choice has two-point pairs of losses t and t - eta; which t is worst depends on what
was lost so far. The profile of k choices is k times the operator

    (T h)(a) = sup over t of  p(t) h(a e^-t) + (1 - p(t)) h(a e^(eta - t))

on h(a) = max(0, 1 - a): the highest chord over a between two points of h whose quotient is e^eta.
Above it by chords of a polygon, below it by pairs on a grid: docs/proofs/bounded-range.md,
"Many choices".
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.pairs import AtomPair, BoundedRangePair, Items, Pair
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair
from privledger.rounding import down, multiply_up, up

MOST_ROUNDS = 128  # in one profile; the profiles of more are put together as any pairs are
LARGEST_RANGE, SMALLEST_RANGE = 2.0, 1e-6
USUAL, RARE = 8.0, 12.5  # deviations of the loss that are held; what is beyond counts as lost
_BELOW = 6.0  # the same on the side of large losses, where all is lost anyhow
_FINE = 96  # steps of the grid in one range, more for less than 16 rounds
_LOOSE = 4e-14  # relative error of one round, with room to spare

Places = NDArray[np.int64]


@frozen(eq=False)
class Ranges:
    """A profile on a grid: `value` at the likelihood ratios exp(step * j), from j = -low on.

    Attributes:
        step: nats.
        value: of an upper bound, which between two places is at most their chord, or attained.
        slope: of an attained one only: ratio times the Q mass of larger losses.
    """

    step: float
    low: int
    value: Array
    slope: Array

    def places(self) -> Places:
        """The numbers of the places."""
        return np.arange(-self.low, len(self.value) - self.low)


@frozen(eq=False)
class _Chords:
    """Chords over the places of a grid: `left` and `right` are how much each end counts, by how
    many steps the place is from the left one, shape (fine + 1,)."""

    step: float
    left: Array
    right: Array
    whole: float

    @property
    def fine(self) -> int:
        return len(self.left) - 1

    def over(self, held: Array, first: Places, offset: Places) -> Array:
        """Heights of the chords that start at `first`, so many steps further on."""
        return held[first] * self.left[offset] + held[first + self.fine] * self.right[offset]


def _fine(count: int) -> int:
    return _FINE * -(-16 // min(count, 16))


def _chords(step: float, fine: int) -> _Chords:
    offset, whole = np.arange(fine + 1), math.expm1(fine * step)
    return _Chords(step, np.expm1((fine - offset) * step) * np.exp(offset * step) / whole,
                   np.expm1(offset * step) / whole, whole)


@frozen(eq=False)
class _Grid:
    """Ratios of all places that some round needs; `centre` is that of 1."""

    fine: int
    eta: float
    wide: float
    ratio: Array
    centre: int

    @classmethod
    def of(cls, eta: float, count: int, wide: float, chords: _Chords) -> _Grid:
        most = (count + 2) * chords.fine
        low, high = (min(most, _reach(eta, count, one, chords.fine) + chords.fine)
                     for one in (_BELOW, wide))
        ratio = np.exp(np.arange(-low, high + 1) * chords.step)
        return cls(chords.fine, eta, wide, ratio, low)

    def reach(self, rounds: int) -> tuple[int, int]:
        """How many places are held on either side after so many rounds."""
        return (_reach(self.eta, rounds, _BELOW, self.fine),
                _reach(self.eta, rounds, self.wide, self.fine))

    def between(self, low: int, high: int) -> Array:
        return self.ratio[self.centre - low:self.centre + high + 1]


def _reach(eta: float, rounds: int, wide: float, fine: int) -> int:
    return min(rounds * fine, math.ceil(
        (wide * 0.5 * math.sqrt(rounds) + rounds * eta / 8 + 2) * fine))


def _wider(held: Array, more: tuple[int, int], low: Array, high: float) -> Array:
    """The same on more places: the first of `low` on the left, `high` on the right."""
    return np.concatenate([low[:more[0]], held, np.full(more[1], high)])


def _guess(chords: _Chords, held: Array, ratio: Array, at: Places) -> Places:
    """About how many steps before each place its highest chord starts.

    The chord from x touches the highest ones at x (1 + (E - 1) a / (E c + a)), E its quotient,
    a and c by how much the profile is steeper at its start, and less steep at its end.
    """
    fine, grown = chords.fine, 1 + chords.whole
    steep = np.gradient(held, ratio)
    slope = (held[fine:] - held[:-fine]) / (ratio[:-fine] * chords.whole)
    first = np.maximum(slope - steep[:-fine], 0.0)
    # Where the profile is straight, both are noise: then no chord touches before its start.
    last = np.maximum(steep[fine:] - slope, 1e-11 * np.abs(slope) + 1e-290)
    starts = np.arange(len(slope))
    touched = starts + np.log1p(chords.whole * first / (grown * last + first)) / chords.step
    start = np.interp(at, np.maximum.accumulate(touched), starts)
    return np.clip(np.rint(at - start).astype(np.int64), 0, fine)


def _best(chords: _Chords, held: Array, tried: Places, at: Places) -> tuple[Array, Places]:
    """The highest of a few chords over each place; proves nothing of the others."""
    value, best = chords.over(held, at - tried, tried), tried
    for step in (-1, 1):
        other = np.clip(tried + step, 0, chords.fine)
        height = chords.over(held, at - other, other)
        higher = height > value
        value, best = np.where(higher, height, value), np.where(higher, other, best)
    return value, best


def _raise_inside(chords: _Chords, held: Array, ratio: Array, at: Places, value: Array) -> None:
    """Chords that start and end inside two cells: the highest of a cell, wherever it stands out.

    With intercepts a and slopes b of both cells the chord from x has the height
    const - ratio A / x - B x, so it is highest at x = sqrt(ratio A / B).
    """
    fine, step = chords.fine, chords.step
    cells = len(held) - 1 - fine
    slope = np.diff(held) / (ratio[:-1] * math.expm1(step))
    meets = held[:-1] - slope * ratio[:-1]
    first = (meets[:cells] - meets[fine:]) / (chords.whole * ratio[:cells])
    last = (slope[fine:] - slope[:cells]) * (ratio[:cells] * ((1 + chords.whole) / chords.whole))
    where = np.flatnonzero((first > 1e-290) & (last > 1e-290))
    start, end = np.sqrt(first[where]), np.sqrt(last[where])
    touched = 2 * np.log(end / start) / step - math.log(ratio[0]) / step
    nearest = np.ceil(np.clip(touched, -1, len(held)) - 1e-6).astype(np.int64)
    for more in (0, 1, 2):  # it stands out between `touched` and two steps further
        place = nearest + more
        kept = np.flatnonzero((place >= at[0]) & (place <= at[-1])
                              & (place >= where) & (place <= where + fine))
        over, cell = place[kept], where[kept]
        stands = np.sqrt(ratio[over]) * start[kept] - end[kept]
        height = chords.over(held, cell, over - cell) + stands * stands
        np.maximum.at(value, over - at[0], height)


def _above_all(chords: _Chords, held: Array, ratio: Array, at: Places, value: Array) -> Array:
    """`value` made convex, and raised by what any chord is above it.

    Over a convex polygon a line is highest where the slopes cross; what is lacking there is
    added wherever the chord is asked.
    """
    fine, starts = chords.fine, np.arange(len(held) - chords.fine)
    falls, convex = _convex(value, np.diff(ratio[at]))
    slope = (held[fine:] - held[:-fine]) / (ratio[:-fine] * chords.whole)
    place = np.clip(np.searchsorted(falls, slope) + at[0],
                    np.maximum(starts, at[0]), np.minimum(starts + fine, at[-1]))
    lacking = chords.over(held, starts, place - starts) - convex[place - at[0]]
    blocks = -(-len(held) // fine)
    most = np.zeros(blocks * fine)
    most[:len(starts)] = np.maximum(lacking, 0.0)
    by_block = most.reshape(blocks, fine).max(axis=1)
    # A chord over a place starts in its block or in the one before.
    spread = np.maximum(by_block, np.append(0.0, by_block[:-1]))
    raised: Array = (convex + np.repeat(spread, fine)[at]) * (1 + _LOOSE)
    return raised


def _convex(value: Array, width: Array) -> tuple[Array, Array]:
    """Rising slopes, none above 0, and the convex polygon of them: nowhere below `value`."""
    falls = np.minimum.accumulate(np.minimum(np.diff(value) / width, 0.0)[::-1])[::-1]
    return falls, value[-1] + np.append(np.cumsum((-falls * width)[::-1])[::-1], 0.0)


@lru_cache(maxsize=64)
def ranges_above(eta: float, count: int, wide: float = USUAL) -> Ranges:
    """At least the profile of `count` adaptive choices of range `eta`.

    Args:
        eta: nats, in [SMALLEST_RANGE, LARGEST_RANGE]. count: 1 to `MOST_ROUNDS`.
        wide: deviations of the loss that are held.
    """
    fine = _fine(count)
    chords = _chords(up(eta / fine), fine)
    grid = _Grid.of(eta, count, wide, chords)
    low = high = 0
    value = np.zeros(1)
    for turn in range(1, count + 1):
        check_time()
        (new_low, new_high), was = grid.reach(turn), grid.between(low, high)
        ratio = grid.between(new_low + fine, new_high + fine)
        # Left of the grid no profile falls faster than 1 - ratio; on the right it falls.
        held = _wider(value, (new_low + fine - low, new_high + fine - high),
                      1 - ratio + (value[0] - (1 - was[0])), float(value[-1]))
        at = np.arange(fine, fine + new_low + new_high + 1)
        value, _ = _best(chords, held, _guess(chords, held, ratio, at), at)
        _raise_inside(chords, held, ratio, at, value)
        value, low, high = _above_all(chords, held, ratio, at, value), new_low, new_high
    return Ranges(chords.step, low, value, np.zeros(0))


@lru_cache(maxsize=64)
def ranges_below(eta: float, count: int, wide: float = USUAL) -> Ranges:
    """What some adaptive choices of range `eta` attain at each ratio of the grid, with slopes."""
    fine = _fine(count)
    chords = _chords(down(eta / fine), fine)
    grid = _Grid.of(eta, count, wide, chords)
    low = high = 0
    value, slope = np.zeros(1), np.zeros(1)
    for turn in range(1, count + 1):
        check_time()
        new_low, new_high = grid.reach(turn)
        ratio = grid.between(new_low + fine, new_high + fine)
        # Beyond the grid: as if all that is left were one and the same for both.
        more = (new_low + fine - low, new_high + fine - high)
        held, lost = _wider(value, more, 1 - ratio, 0.0), _wider(slope, more, ratio, 0.0)
        at = np.arange(fine, fine + new_low + new_high + 1)
        best, offset = _best(chords, held, _guess(chords, held, ratio, at), at)
        value, slope = best * (1 - _LOOSE), chords.over(lost, at - offset, offset)
        low, high = new_low, new_high
    return Ranges(chords.step, low, value, slope)


def wide_for(delta: float) -> float:
    """Deviations of the loss that have to be held for this delta."""
    return USUAL if delta >= 1e-12 else RARE


def epsilon_above(eta: float, count: int, delta: float) -> float:
    """Where the profile has `delta`, rounded up; infinity where the grid does not say."""
    found = ranges_above(eta, count, wide_for(delta))
    over = np.flatnonzero(found.value > delta)
    if len(over) == 0 or over[-1] < found.low:
        return 0.0
    place = int(over[-1])
    if place == len(found.value) - 1:
        return math.inf
    high, low = float(found.value[place]), float(found.value[place + 1])
    share = min(1.0, (high - delta) / (high - low) * (1 + 1e-12))
    left = (place - found.low) * found.step
    return up((left + math.log1p(share * math.expm1(found.step))) * (1 + 1e-14))


def mesh_of(eta: float, count: int) -> tuple[float, int, float]:
    """Step in nats, places of one range, and what share of epsilon the mesh adds, about."""
    fine = _fine(count)
    return eta / fine, fine, 1.0 / fine**2


def delta_above(eta: float, count: int, epsilon: float) -> float:
    """The profile at `epsilon`, rounded up."""
    if epsilon >= count * eta * (1 + 1e-14):
        return 0.0
    found = ranges_above(eta, count, RARE)
    place = math.floor(epsilon / found.step * (1 - 1e-14)) + found.low
    if place >= len(found.value) - 1:
        return min(1.0, float(found.value[-1]))
    high, low = float(found.value[place]), float(found.value[place + 1])
    share = math.expm1(epsilon - (place - found.low) * found.step) / math.expm1(found.step)
    share = min(1.0, max(0.0, share * (1 - 1e-9)))
    return min(1.0, (high + share * min(0.0, low - high)) * (1 + 1e-12))


def epsilon_below(eta: float, count: int, delta: float) -> float:
    """What epsilon is at least at `delta`: a curve that is attained lies above its tangents."""
    found = ranges_below(eta, count, wide_for(delta))
    over = (found.value > delta) & (found.slope > 0)
    if not bool(over.any()):
        return 0.0
    slope = found.slope[over] * (1 + count * _LOOSE)
    reached = (found.places()[over] * found.step
               + np.log1p((found.value[over] - delta) / slope))
    return max(0.0, float(reached.max()) * (1 - 1e-12))


@lru_cache(maxsize=16)
def ranges_pair(eta: float, count: int, wide: float = USUAL) -> AtomPair:
    """A pair whose profile is that of `ranges_above`, made convex: dominates them all together."""
    found = ranges_above(eta, count, wide)
    loss = found.places() * found.step
    ratio = np.exp(loss)
    falls, convex = _convex(found.value, np.diff(ratio))
    # The chord to the profile at ratio 0, which is 1; where that is not convex, a little above.
    first = min(float(falls[0]), (float(convex[0]) - 1) / float(ratio[0]))
    p = np.diff(np.concatenate([[first], falls, [0.0]])) * ratio
    kept = p > 0
    return AtomPair(tuple(loss[kept].tolist()), tuple((p[kept] * (1 + 1e-12)).tolist()),
                    float(found.value[-1]), max(0.0, 1 + first), tight=False, raised=4e-12)


# --- Which of a composition's choices are priced together, as `ranges` does.


def forms(items: Items) -> Iterator[Items]:
    """Compositions that dominate the same mechanisms; the least price counts.

    A choice of range eta on a Poisson sample of rate q, its sample told, has the range
    log(1 + q (e^eta - 1)) (docs/proofs/bounded-range.md, "Many choices").
    """
    yield items
    found: dict[Pair, int] = {}
    for pair, count in items:
        one = _unsampled(pair)
        found[one] = found.get(one, 0) + count
    if found.keys() != dict(items).keys():
        yield tuple(found.items())


def _unsampled(pair: Pair) -> Pair:
    if not (isinstance(pair, RemovePair | AddPair) and isinstance(pair.inner, BoundedRangePair)
            and pair.inner.eta <= LARGEST_RANGE):
        return pair
    more = multiply_up(pair.rate, up(up(math.expm1(pair.inner.eta))))
    return BoundedRangePair(min(pair.inner.eta, up(up(math.log1p(more)))))


def only_ranges(items: Items) -> tuple[float, int] | None:
    """Range and number where equal choices are all there is, and one profile holds them."""
    if len(items) != 1:
        return None
    pair, count = items[0]
    if isinstance(pair, BoundedRangePair) and _held(pair, count) and count <= MOST_ROUNDS:
        return pair.eta, count
    return None


def _held(pair: BoundedRangePair, count: int) -> bool:
    return count > 1 and SMALLEST_RANGE <= pair.eta <= LARGEST_RANGE


def with_ranges(items: Items, wide: float) -> Items:
    """The same with the choices of one range, those that weigh most, as pairs of many rounds.

    Of one range only: in which order choices of different ranges cost most is not known.

    Args:
        wide: deviations of the loss that are held.
    """
    held = [(count * pair.eta**2, pair, count) for pair, count in items
            if isinstance(pair, BoundedRangePair) and _held(pair, count)]
    if not held:
        return items
    _, chosen, count = max(held, key=lambda one: one[0])
    found: dict[Pair, int] = {pair: often for pair, often in items if pair != chosen}
    whole, rest = divmod(count, MOST_ROUNDS)
    if whole:
        found[ranges_pair(chosen.eta, MOST_ROUNDS, wide)] = whole
    if rest:
        found[chosen if rest == 1 else ranges_pair(chosen.eta, rest, wide)] = 1
    return tuple(found.items())
