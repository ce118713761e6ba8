"""The public questions to the accountant: epsilon and delta of `Losses`, both lanes."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import evolve, frozen

from privledger.accounting.gaussian import delta_from_mu, epsilon_from_mu
from privledger.accounting.pld.accountant import (
    TOLERANCE,
    Found,
    Items,
    delta_upper,
    epsilon_lower,
    epsilon_upper,
)
from privledger.accounting.pld.attained import attained_items
from privledger.accounting.pld.grid import TooMuch
from privledger.accounting.pld.losses import Losses, alternatives, resolve
from privledger.accounting.pld.pairs import GaussianPair
from privledger.accounting.pld.range_forms import forms, only_ranges, with_ranges
from privledger.accounting.pld.ranges import (
    RARE,
    delta_above,
    epsilon_above,
    epsilon_below,
    mesh_of,
    wide_for,
)
from privledger.accounting.pld.single import (
    MOST_COINS,
    coin,
    delta_of_coins,
    delta_of_one,
    epsilon_of_coins,
    epsilon_of_one,
)

_GLANCE = 2e-3  # tolerance of a first look at the lane that is probably cheaper
_GLANCE_SIZE = 1 << 13


@frozen
class Price:
    """A certified number and how it was found.

    Attributes:
        value: epsilon or delta, an upper bound.
        mesh: lattice step in nats; points: FFT length; tilt: exponential tilt.
        direction: the lane that decides, "remove" or "add"; "both" if they are the same.
        added: estimate of what the mesh added to epsilon.
        tight: whether every pair inside is attained by some neighbours.
        renyi: estimate of what Renyi DP would say where one is not.
        chosen: whether it is of equal choices alone, each made after the last was seen.
    """

    value: float
    mesh: float = 0.0
    points: int = 0
    tilt: float = 0.0
    direction: str = "both"
    added: float = 0.0
    tight: bool = True
    renyi: float = math.inf
    chosen: bool = False


def _lanes(losses: Losses, tail: float) -> list[tuple[str, Items]]:
    """Every lane whose price counts, named by its direction; what loses nothing is left out."""
    if losses.symmetric:
        named = [("both", one) for one in alternatives(losses.remove)]
    else:
        named = [("remove", one) for one in alternatives(losses.remove)]
        named += [("add", one) for one in alternatives(losses.add)]
    found: dict[Items, str] = {}
    for direction, lane in named:
        items = resolve(lane, tail)
        if items:
            found.setdefault(items, direction)
    return [(direction, items) for items, direction in found.items()]


def epsilon_by_pld(losses: Losses, delta: float, tolerance: float = TOLERANCE) -> Price | None:
    """An epsilon proved at `delta`; None if nothing could be certified.

    The first lane is computed to `tolerance`; each other is first asked, coarsely, whether it
    has at most `delta` there.
    """
    def exceeds(items: Items, best: float) -> bool:
        return delta_upper(items, best, _GLANCE, _GLANCE_SIZE).value > delta

    return _dearest(losses, 1e-9 * delta, exceeds,
                    lambda items: _epsilon(items, delta, tolerance))


def delta_by_pld(losses: Losses, epsilon: float, tolerance: float = TOLERANCE) -> Price | None:
    """A delta proved at `epsilon`; None if nothing could be certified."""
    def exceeds(items: Items, best: float) -> bool:
        return delta_upper(items, epsilon, _GLANCE, _GLANCE_SIZE).value > best

    return _dearest(losses, 1e-20, exceeds, lambda items: _delta(items, epsilon, tolerance))


def _dearest(
    losses: Losses, tail: float, exceeds: Callable[[Items, float], bool],
    price: Callable[[Items], Price],
) -> Price | None:
    try:
        return _dearest_lane(_lanes(losses, tail), exceeds, price)
    except TooMuch:
        return None


def _dearest_lane(
    lanes: list[tuple[str, Items]], exceeds: Callable[[Items, float], bool],
    price: Callable[[Items], Price],
) -> Price | None:
    best = Price(0.0)
    for position, (direction, items) in enumerate(lanes):
        # A lane without a convolution is as quickly priced as looked at.
        if position and not _alone(items) and not exceeds(items, best.value):
            continue
        found = evolve(price(items), direction=direction)
        if not found.value < math.inf:
            return None
        best = max(best, found, key=lambda one: one.value)
    return best


def _epsilon(items: Items, delta: float, tolerance: float) -> Price:
    def price(form: Items) -> Price:
        if _alone(form):
            return _single_epsilon(form, delta)
        ranges = only_ranges(form)
        if ranges is not None:
            return _ranged(epsilon_above(*ranges, delta), *ranges)
        return _price(epsilon_upper(with_ranges(form, wide_for(delta)), delta, tolerance))

    return min(map(price, forms(items)), key=lambda one: one.value)


def _delta(items: Items, epsilon: float, tolerance: float) -> Price:
    def price(form: Items) -> Price:
        if _alone(form):
            return _single_delta(form, epsilon)
        ranges = only_ranges(form)
        if ranges is not None:
            return _ranged(delta_above(*ranges, epsilon), *ranges)
        return _price(delta_upper(with_ranges(form, RARE), epsilon, tolerance))

    return min(map(price, forms(items)), key=lambda one: one.value)


def _ranged(value: float, eta: float, count: int) -> Price:
    """No other accountant says less of the same choices, but by what the mesh adds."""
    step, points, added = mesh_of(eta, count)
    return Price(value, step, points, added=added * value, tight=False, chosen=True)


def epsilon_lower_by_pld(losses: Losses, delta: float) -> float:
    """What epsilon is at least at `delta`, whoever accounts; 0 if nothing is proved."""
    try:
        return _highest_lane(_lanes(losses, 1e-9 * delta), delta)
    except TooMuch:
        return 0.0


def _highest_lane(lanes: list[tuple[str, Items]], delta: float) -> float:
    best = 0.0
    for _, lane in lanes:
        ranges = only_ranges(lane)
        if ranges is not None:
            best = max(best, epsilon_below(*ranges, delta))
            continue
        items = attained_items(lane)
        if not items:
            continue
        pair, count = items[0]
        if len(items) == 1 and isinstance(pair, GaussianPair):
            value = epsilon_from_mu(pair.mu, delta) * (1 - 1e-10)
        elif len(items) == 1 and count == 1:
            value = epsilon_of_one(pair, delta, upper=False)
        else:
            value = epsilon_lower(items, delta).value
        best = max(best, value)
    return best


def _alone(items: Items) -> bool:
    """Whether no convolution is needed."""
    if len(items) != 1:
        return False
    pair, count = items[0]
    return count == 1 or (count <= MOST_COINS and coin(pair) is not None)


def _single_epsilon(items: Items, delta: float) -> Price:
    pair, count = items[0]
    if isinstance(pair, GaussianPair):
        return Price(epsilon_from_mu(pair.mu, delta))
    if count == 1:
        return Price(epsilon_of_one(pair, delta), tight=pair.tight)
    return Price(epsilon_of_coins(coin(pair) or 0.0, count, delta), tight=pair.tight)


def _single_delta(items: Items, epsilon: float) -> Price:
    pair, count = items[0]
    if isinstance(pair, GaussianPair):
        return Price(delta_from_mu(pair.mu, epsilon))
    if count == 1:
        return Price(delta_of_one(pair, epsilon), tight=pair.tight)
    return Price(delta_of_coins(coin(pair) or 0.0, count, epsilon), tight=pair.tight)


def _price(found: Found) -> Price:
    lattice = found.lattice
    return Price(found.value, lattice.step, lattice.size, lattice.tilt, "both", lattice.added,
                 found.tight, found.renyi)
