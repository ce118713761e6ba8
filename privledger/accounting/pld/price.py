"""The public questions to the accountant: epsilon and delta of `Losses`, both lanes."""

from __future__ import annotations

import math

from attrs import frozen

from privledger.accounting.pld.accountant import (
    TOLERANCE,
    Found,
    Items,
    delta_upper,
    epsilon_lower,
    epsilon_upper,
)
from privledger.accounting.pld.losses import Losses, resolve
from privledger.accounting.pld.single import (
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
        value: epsilon or delta, an upper bound; infinity or 1 if nothing could be certified.
        mesh: lattice step in nats; points: FFT length; tilt: exponential tilt.
        direction: the lane that decides, "remove" or "add"; "both" if they are the same.
        added: estimate of what the mesh added to epsilon.
        tight: whether every pair inside is attained by some neighbours.
    """

    value: float
    mesh: float = 0.0
    points: int = 0
    tilt: float = 0.0
    direction: str = "both"
    added: float = 0.0
    tight: bool = True


def _lanes(losses: Losses, tail: float) -> tuple[Items, Items | None]:
    first = resolve(losses.remove, tail)
    return first, None if losses.symmetric else resolve(losses.add, tail)


def epsilon_by_pld(losses: Losses, delta: float, tolerance: float = TOLERANCE) -> Price:
    """An epsilon proved at `delta`.

    The lane of removal is computed to `tolerance`; the other is first asked, coarsely, whether
    it has at most `delta` there.
    """
    remove, add = _lanes(losses, 1e-9 * delta)
    if not remove:
        return Price(0.0)
    if _alone(remove, add):
        return max((_single_epsilon(lane, delta) for lane in (remove, add) if lane),
                   key=lambda one: one.value)
    found = epsilon_upper(remove, delta, tolerance)
    price = _price(found, "both" if add is None else "remove")
    if not add or found.value == math.inf:
        return price
    if delta_upper(add, found.value, _GLANCE, _GLANCE_SIZE).value <= delta:
        return price
    other = _price(epsilon_upper(add, delta, tolerance), "add")
    return max(price, other, key=lambda one: one.value)


def delta_by_pld(losses: Losses, epsilon: float, tolerance: float = TOLERANCE) -> Price:
    """A delta proved at `epsilon`."""
    remove, add = _lanes(losses, 1e-20)
    if not remove:
        return Price(0.0)
    if _alone(remove, add):
        return max((_single_delta(lane, epsilon) for lane in (remove, add) if lane),
                   key=lambda one: one.value)
    found = delta_upper(remove, epsilon, tolerance)
    price = _price(found, "both" if add is None else "remove")
    if not add or found.value >= 1:
        return price
    if delta_upper(add, epsilon, _GLANCE, _GLANCE_SIZE).value <= found.value:
        return price
    other = _price(delta_upper(add, epsilon, tolerance), "add")
    return max(price, other, key=lambda one: one.value)


def epsilon_lower_by_pld(losses: Losses, delta: float) -> float:
    """What epsilon is at least at `delta`, whoever accounts; 0 if nothing is proved."""
    best = 0.0
    for items in _lanes(losses, 1e-9 * delta):
        if not items or not all(pair.tight for pair, _ in items):
            continue
        if _alone(items, None):
            pair, count = items[0]
            value = (epsilon_of_one(pair, delta, upper=False) if count == 1
                     else _single_epsilon(items, delta).value * (1 - 1e-10))
        else:
            value = epsilon_lower(items, delta).value
        best = max(best, value)
    return best


def _alone(remove: Items, add: Items | None) -> bool:
    """Whether no convolution is needed."""
    return all(len(lane) == 1 and (lane[0][1] == 1 or coin(lane[0][0]) is not None)
               for lane in (remove, add) if lane)


def _single_epsilon(lane: Items, delta: float) -> Price:
    pair, count = lane[0]
    if count == 1:
        return Price(epsilon_of_one(pair, delta), tight=pair.tight)
    return Price(epsilon_of_coins(coin(pair) or 0.0, count, delta), tight=pair.tight)


def _single_delta(lane: Items, epsilon: float) -> Price:
    pair, count = lane[0]
    if count == 1:
        return Price(delta_of_one(pair, epsilon), tight=pair.tight)
    return Price(delta_of_coins(coin(pair) or 0.0, count, epsilon), tight=pair.tight)


def _price(found: Found, direction: str) -> Price:
    lattice = found.lattice
    return Price(found.value, lattice.step, lattice.size, lattice.tilt, direction,
                 lattice.added, found.tight)
