"""The public questions to the accountant: epsilon and delta of `Losses`, both lanes."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import evolve, frozen

from privledger.accounting.gaussian import delta_from_mu, epsilon_from_mu
from privledger.accounting.pld.accountant import (
    TOLERANCE,
    Found,
    delta_upper,
    epsilon_lower,
    epsilon_upper,
)
from privledger.accounting.pld.attained import attained_items
from privledger.accounting.pld.contour import (
    Reached,
    delta_at_most,
    delta_on_line,
    epsilon_on_line,
)
from privledger.accounting.pld.grid import TooMuch
from privledger.accounting.pld.lattice import LEAST_COUNT
from privledger.accounting.pld.losses import Losses, alternatives, resolve
from privledger.accounting.pld.pairs import UNIT, AtomPair, GaussianPair, Items, Pair
from privledger.accounting.pld.ranges import (
    RARE,
    delta_above,
    epsilon_above,
    epsilon_below,
    forms,
    mesh_of,
    only_ranges,
    wide_for,
    with_ranges,
)
from privledger.rounding import up

# --- Exact answers where no convolution is needed: one run of one pair, or many of one coin.

_STEPS = 200
_HIGHEST = 1e7  # nats
_WIDE = 500.0  # nats beyond which Q masses would underflow


def delta_of_one(pair: Pair, epsilon: float, *, upper: bool = True) -> float:
    """H(exp(epsilon)) of one run, rounded up (or down)."""
    sign = 1.0 if upper else -1.0
    bands, atoms = pair.bands(np.array([epsilon, math.inf])), pair.atoms()
    # Beyond what a float can hold, what Q takes off is left out of an upper bound.
    grow = math.exp(epsilon) if epsilon <= 700 else 0.0
    if grow == 0 and not upper:
        return 0.0
    # Rounding may have put the edge a little off; the profile has slope -Q <= 1 there.
    value = float(bands.p[0]) - grow * float(bands.q[0])
    loose = float(bands.slack_p[0]) + grow * float(bands.slack_q[0])
    loose += 4 * UNIT * (1 + epsilon) * float(bands.p[0])
    # Atoms are computed too: each loss may be a few units in its last place off.
    loss = atoms.loss + sign * 4 * UNIT * np.abs(atoms.loss)
    beyond = loss > epsilon
    excess = -np.expm1(epsilon - loss[beyond])
    padded = 1e-14 if upper else 1e-14 + atoms.raised
    rest = float(np.sum(atoms.p[beyond] * excess)) * (1 + sign * padded)
    # A tiny mass at infinity may stand for a tail that was cut off: no lower bound has it.
    if upper or atoms.infinite > 1e-100:
        rest += atoms.infinite * (1 + sign * 4 * UNIT)
    return min(1.0, max(0.0, value + sign * loose) + rest)


def epsilon_of_one(pair: Pair, delta: float, *, upper: bool = True) -> float:
    """Where one run has `delta`, to 1e-13 relative; infinity if nowhere below 10^7."""
    def met(epsilon: float) -> bool:
        return delta_of_one(pair, epsilon, upper=upper) <= delta

    if met(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while not met(high):
        low, high = high, 2 * high
        if high > _HIGHEST:
            return math.inf if upper else low
    for _ in range(_STEPS):
        middle = 0.5 * (low + high)
        if not low < middle < high or high - low <= 1e-14 * high:
            break
        low, high = (low, middle) if met(middle) else (middle, high)
    return high if upper else low


MOST_COINS = 1_000_000


def coin(pair: Pair) -> float | None:
    """The epsilon of binary randomized response, if `pair` is that; else None."""
    if not isinstance(pair, AtomPair) or pair.infinite or len(pair.loss) != 2:
        return None
    low, high = pair.loss
    return high if low == -high and abs(sum(pair.p) - 1) < 1e-14 else None


def delta_of_coins(epsilon0: float, count: int, epsilon: float) -> float:
    """delta of `count` randomized responses: two binomial tails [Kairouz, Oh, Viswanath 2015]."""
    log_p, log_q = _log_tails(epsilon0, count, epsilon)
    loose = _loose(epsilon0, count)
    kept = math.exp(min(log_p + loose, 0.0))
    lost = math.exp(min(epsilon + log_q, 0.0) - loose)
    return min(1.0, max(0.0, kept - lost))


def _log_tails(epsilon0: float, count: int, epsilon: float) -> tuple[float, float]:
    """Logs of P and Q mass of losses (2k - count) epsilon0 above epsilon."""
    from scipy.special import betainc

    if epsilon >= count * epsilon0:  # also where the quotient below would be infinite
        return -math.inf, -math.inf
    k = math.floor((epsilon / epsilon0 + count) / 2) + 1
    while k > 0 and (2 * (k - 1) - count) * epsilon0 > epsilon:
        k -= 1
    while (2 * k - count) * epsilon0 <= epsilon:
        k += 1
    if k > count:
        return -math.inf, -math.inf
    if k <= 0:
        return 0.0, 0.0
    if count * epsilon0 > _WIDE:
        return _summed_tails(epsilon0, count, k)
    likely, rare = 1 / (1 + math.exp(-epsilon0)), 1 / (1 + math.exp(epsilon0))
    p, q = (float(betainc(k, count - k + 1, share)) for share in (likely, rare))
    return (math.log(p) if p > 0 else -math.inf), (math.log(q) if q > 0 else -math.inf)


def _summed_tails(epsilon0: float, count: int, least: int) -> tuple[float, float]:
    """The same, term by term in logarithms: Q mass is far below the smallest float here."""
    from scipy.special import gammaln

    k = np.arange(least, count + 1, dtype=np.float64)
    log_p = (gammaln(count + 1) - gammaln(k + 1) - gammaln(count - k + 1)
             - (count - k) * epsilon0 - count * math.log1p(math.exp(-epsilon0)))
    log_q = log_p - (2 * k - count) * epsilon0
    return float(np.logaddexp.reduce(log_p)), float(np.logaddexp.reduce(log_q))


def _loose(epsilon0: float, count: int) -> float:
    """Relative error that we allow a tail."""
    if count * epsilon0 > _WIDE:
        return 1e-14 * count * (epsilon0 + math.log(count + 1.0))
    if count <= 1000:
        return 1e-13
    # The probability of a face is rounded: the logarithm of a tail feels that by its distance.
    return 1e-11 + 64 * UNIT * math.sqrt(count) * 40


def epsilon_of_coins(epsilon0: float, count: int, delta: float) -> float:
    """Epsilon of `count` randomized responses at `delta`, to about 1e-11 relative, rounded up."""
    low, high = math.ceil(count / 2) - 2, count  # losses are (2k - count) epsilon0
    if delta_of_coins(epsilon0, count, 0.0) <= delta:
        return 0.0
    while high - low > 1:
        middle = (low + high) // 2
        at = max(0.0, (2 * middle - count) * epsilon0)
        low, high = (low, middle) if delta_of_coins(epsilon0, count, at) <= delta else (
            middle, high)
    left = max(0.0, (2 * low - count) * epsilon0)
    # A product is rounded, and it may be the answer itself.
    right = up(max(0.0, (2 * high - count) * epsilon0))
    (log_p, log_q), loose = _log_tails(epsilon0, count, left), _loose(epsilon0, count)
    rest = math.exp(min(log_p + loose, 0.0)) - delta
    if rest <= 0 or log_q == -math.inf:
        return right
    value = math.log(rest) - log_q + loose
    return min(max(value + 4e-16 * (abs(log_q) + 1), left), right)


_GLANCE = 2e-3  # tolerance of a first look at the lane that is probably cheaper
_GLANCE_SIZE = 1 << 13
_FINER = 4  # times that a tiny delta is asked again
_FEW = 64  # pairs, of which a coarse lattice is quickly made


@frozen
class Price:
    """A certified number and how it was found.

    Attributes:
        value: epsilon or delta, an upper bound.
        mesh: lattice step in nats; points: FFT length; tilt: exponential tilt. Without a
            lattice the mesh is 0, and points are the frequencies of an integral on a line.
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
        return _glance(items, best, delta) > delta

    return _dearest(losses, 1e-9 * delta, exceeds,
                    lambda items: _epsilon(items, delta, tolerance))


def delta_by_pld(losses: Losses, epsilon: float, tolerance: float = TOLERANCE) -> Price | None:
    """A delta proved at `epsilon`; None if nothing could be certified."""
    def exceeds(items: Items, best: float) -> bool:
        return _glance(items, epsilon, best) > best

    found: Price | None = None
    tail = 1e-20
    for _ in range(_FINER):
        one = _dearest(losses, tail, exceeds, lambda items: _delta(items, epsilon, tolerance))
        if one is None or (found is not None and not one.value < found.value):
            break
        found, tail = one, max(1e-9 * one.value, 1e-290)
        if not found.value < 1e-12:  # else what products send to infinity may be all of it
            break
    return found


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


def _glance(items: Items, epsilon: float, enough: float) -> float:
    """About delta, from above; of many pairs any bound that is at most `enough`."""
    many = len(items) > _FEW or any(count >= LEAST_COUNT for _, count in items)
    if len(items) > _FEW and (quick := delta_at_most(items, epsilon)) <= enough:
        return quick
    line = delta_on_line(items, epsilon) if many else None
    if line is not None:
        return line.value
    return delta_upper(items, epsilon, _GLANCE, _GLANCE_SIZE).value


def _epsilon(items: Items, delta: float, tolerance: float) -> Price:
    def price(form: Items) -> Price:
        if _alone(form):
            return _single_epsilon(form, delta)
        ranges = only_ranges(form)
        if ranges is not None:
            return _ranged(epsilon_above(*ranges, delta), *ranges)
        if (line := epsilon_on_line(form, delta)) is not None:
            return _on_line(line, form)
        return _price(epsilon_upper(with_ranges(form, wide_for(delta)), delta, tolerance))

    return min(map(price, forms(items)), key=lambda one: one.value)


def _delta(items: Items, epsilon: float, tolerance: float) -> Price:
    def price(form: Items) -> Price:
        if _alone(form):
            return _single_delta(form, epsilon)
        ranges = only_ranges(form)
        if ranges is not None:
            return _ranged(delta_above(*ranges, epsilon), *ranges)
        if (line := delta_on_line(form, epsilon)) is not None:
            return _on_line(line, form)
        return _price(delta_upper(with_ranges(form, RARE), epsilon, tolerance))

    return min(map(price, forms(items)), key=lambda one: one.value)


def _ranged(value: float, eta: float, count: int) -> Price:
    """Renyi DP says less of the same choices where the mesh adds more, and is always asked."""
    step, points, added = mesh_of(eta, count)
    return Price(value, step, points, added=added * value, tight=False, renyi=-math.inf,
                 chosen=True)


def epsilon_lower_by_pld(losses: Losses, delta: float) -> float:
    """What epsilon is at least at `delta`, by any accountant; 0 if nothing is proved."""
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
        return _exact(pair, epsilon_from_mu(pair.mu, delta))
    return _exact(pair, epsilon_of_one(pair, delta) if count == 1 else epsilon_of_coins(
        coin(pair) or 0.0, count, delta))


def _single_delta(items: Items, epsilon: float) -> Price:
    pair, count = items[0]
    if isinstance(pair, GaussianPair):
        return _exact(pair, delta_from_mu(pair.mu, epsilon))
    return _exact(pair, delta_of_one(pair, epsilon) if count == 1 else delta_of_coins(
        coin(pair) or 0.0, count, epsilon))


def _exact(pair: Pair, value: float) -> Price:
    """Of what is pure and no more is known, such as a tuning, Renyi DP may say less."""
    asked = isinstance(pair, AtomPair) and not pair.tight
    return Price(value, tight=pair.tight, renyi=-math.inf if asked else math.inf)


def _on_line(found: Reached, items: Items) -> Price:
    return Price(found.value, 0.0, found.frequencies, found.beta, added=found.added * found.value,
                 tight=all(pair.tight for pair, _ in items))


def _price(found: Found) -> Price:
    lattice = found.lattice
    return Price(found.value, lattice.step, lattice.size, lattice.tilt, "both", lattice.added,
                 found.tight, found.renyi)
