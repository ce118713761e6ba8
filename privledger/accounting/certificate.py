"""From a cost to a guarantee, together with the theorem that it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from attrs import evolve, frozen

from privledger.accounting.convert import (
    delta_from_rdp,
    delta_from_zcdp,
    epsilon_from_rdp,
    epsilon_from_zcdp,
)
from privledger.accounting.cost import Cost
from privledger.accounting.gaussian import delta_from_mu, epsilon_from_mu
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.rounding import (
    MOST_COUNT,
    down,
    multiply_up,
    non_negative,
    positive,
    probability,
    up,
)

if TYPE_CHECKING:  # what solves is imported where it solves: many ledgers are read without
    from privledger.accounting.pld.by_pld import Price

ACCOUNTANTS: tuple[str, ...] = ("best", "pure", "gdp", "zcdp", "rdp", "pld")

PURE = "pure composition (Dwork, Roth 2014, Theorem 3.16)"
PURE_AT_DELTA = "pure composition and Kairouz, Oh, Viswanath 2015, section 3"
GAUSSIAN = "Gaussian DP, exact (Balle, Wang 2018, Theorem 8; Dong, Roth, Su 2019)"
GAUSSIAN_BOUND = "Gaussian DP, pure parts as Gaussians (Dong, Roth, Su 2019, Theorem 3.2)"
RENYI = "Renyi DP (Canonne, Kamath, Steinke 2020, Proposition 12)"
ZCDP = ("zero-concentrated DP at its best order (Bun, Steinke 2016, Definition 1.1; Canonne, "
        "Kamath, Steinke 2020, Proposition 12)")
PLD = ("privacy-loss distributions, connect-the-dots (Zhu, Dong, Wang 2022, Theorem 10; "
       "Doroshenko et al. 2022); docs/proofs/privacy-loss.md")
LINE = ("privacy-loss distributions, their moments along a line; docs/proofs/privacy-loss.md, "
        "lemma 10")
CHOICES = ("adaptive choices of one bounded range (the recursion of Dong, Durfee, Rogers 2020); "
           "docs/proofs/bounded-range.md, \"Many choices\"")

_SETTLED = 1e-3  # if the mesh adds less than this, no other accountant can do much better


@frozen
class Certificate:
    """A proved (epsilon, delta) guarantee.

    Attributes:
        epsilon: nats.
        delta: probability, 0 for pure DP.
        theorem: what the number rests on, for a reader.
        accountant: one of `ACCOUNTANTS` but "best".
        order: Renyi order, for "rdp"; None otherwise.
        pld: mesh, size, tilt and direction, for "pld"; None otherwise.
    """

    epsilon: float
    delta: float
    theorem: str
    accountant: str
    order: float | None = None
    pld: Price | None = None


def _pure_epsilon(cost: Cost, delta: float) -> Certificate | None:
    if cost.pure == math.inf:
        return None
    if delta == 0 or cost.pure == 0:
        return Certificate(cost.pure, delta, PURE, "pure")
    # Randomized response is the worst case: delta = (e^pure - e^eps) / (e^pure + 1).
    fall = delta * (1 + math.exp(-cost.pure))
    epsilon = 0.0
    if fall < 1:
        # The rounding of `fall` counts in full where it is close to 1.
        epsilon = cost.pure * (1 + 1e-15) + math.log1p(-fall) * (1 - 1e-14) + 4e-16 / (1 - fall)
    epsilon = min(cost.pure, up(epsilon) if epsilon > 0 else 0.0)
    return Certificate(epsilon, delta, PURE_AT_DELTA, "pure")


def _pure_delta(cost: Cost, epsilon: float) -> Certificate | None:
    if cost.pure == math.inf:
        return None
    if epsilon >= cost.pure:
        return Certificate(epsilon, 0.0, PURE, "pure")
    delta = -math.expm1(epsilon - cost.pure) / (1 + math.exp(-cost.pure))
    return Certificate(epsilon, min(1.0, up(delta * (1 + 1e-14))), PURE_AT_DELTA, "pure")


def _gaussian_theorem(cost: Cost) -> str:
    return GAUSSIAN if _exactly_gaussian(cost) else GAUSSIAN_BOUND


def _exactly_gaussian(cost: Cost) -> bool:
    return cost.mu_squared is not None and cost.gdp() == cost.mu_squared


def _root_up(square: float) -> float:
    return up(math.sqrt(square)) if square else 0.0


def _gdp_epsilon(cost: Cost, delta: float) -> Certificate | None:
    square = cost.gdp()
    if square == math.inf or delta == 0:
        return None
    epsilon = epsilon_from_mu(_root_up(square), delta)
    return Certificate(epsilon, delta, _gaussian_theorem(cost), "gdp")


def _gdp_delta(cost: Cost, epsilon: float) -> Certificate | None:
    square = cost.gdp()
    if square == math.inf:
        return None
    delta = delta_from_mu(_root_up(square), epsilon)
    return Certificate(epsilon, delta, _gaussian_theorem(cost), "gdp")


def _rdp_epsilon(cost: Cost, delta: float) -> Certificate | None:
    if delta == 0:
        return None
    epsilon, order = epsilon_from_rdp(cost.curve, delta)
    return None if epsilon == math.inf else Certificate(epsilon, delta, RENYI, "rdp", order)


def _rdp_delta(cost: Cost, epsilon: float) -> Certificate | None:
    if min(cost.curve.bounds) == math.inf:
        return None
    delta, order = delta_from_rdp(cost.curve, epsilon)
    return Certificate(epsilon, delta, RENYI, "rdp", order)


def _zcdp_epsilon(cost: Cost, delta: float) -> Certificate | None:
    if cost.zcdp == math.inf or delta == 0:
        return None
    return Certificate(epsilon_from_zcdp(cost.zcdp, delta), delta, ZCDP, "zcdp")


def _zcdp_delta(cost: Cost, epsilon: float) -> Certificate | None:
    if cost.zcdp == math.inf:
        return None
    return Certificate(epsilon, delta_from_zcdp(cost.zcdp, epsilon), ZCDP, "zcdp")


def _pld_epsilon(cost: Cost, delta: float) -> Certificate | None:
    if cost.losses is None or delta == 0:
        return None
    from privledger.accounting.pld.by_pld import epsilon_by_pld

    price = epsilon_by_pld(cost.losses, delta)
    return None if price is None else Certificate(price.value, delta, _theorem(price), "pld",
                                                  pld=price)


def _pld_delta(cost: Cost, epsilon: float) -> Certificate | None:
    if cost.losses is None:
        return None
    from privledger.accounting.pld.by_pld import delta_by_pld

    price = delta_by_pld(cost.losses, epsilon)
    return None if price is None else Certificate(epsilon, price.value, _theorem(price), "pld",
                                                  pld=price)


def _theorem(price: Price) -> str:
    return CHOICES if price.chosen else LINE if price.points and not price.mesh else PLD


_Price = Callable[[Cost, float], Certificate | None]
_EPSILON: dict[str, _Price] = {
    "pure": _pure_epsilon, "gdp": _gdp_epsilon, "pld": _pld_epsilon, "zcdp": _zcdp_epsilon,
    "rdp": _rdp_epsilon}
_DELTA: dict[str, _Price] = {
    "pure": _pure_delta, "gdp": _gdp_delta, "pld": _pld_delta, "zcdp": _zcdp_delta,
    "rdp": _rdp_delta}
_BESIDES_FAILURE = ("pure", "gdp", "zcdp", "rdp")  # these speak of what happens unless a part fails


def _check(cost: object, accountant: object) -> None:
    if not isinstance(cost, Cost):
        raise InvalidValue("cost", cost, "a Cost")
    if not isinstance(accountant, str) or accountant not in ACCOUNTANTS:
        raise InvalidValue("accountant", accountant, "one of " + ", ".join(ACCOUNTANTS))


def _order_of_trial(cost: Cost, accountant: str) -> tuple[str, ...]:
    if accountant != "best":
        return (accountant,)
    return ("pure", "gdp") if _exactly_gaussian(cost) else tuple(_EPSILON)


def _settled(found: Certificate, value: float) -> bool:
    """A distribution that is attained and finely meshed leaves nothing to other accountants.

    Where it is only dominated, an estimate says whether Renyi DP is worth asking.
    """
    price = found.pld
    if price is None or price.added > _SETTLED * value:
        return False
    return price.tight or price.renyi > 1.01 * value


def _candidates(
    prices: dict[str, _Price], cost: Cost, accountant: str, at: Callable[[str], float | None],
) -> list[Certificate]:
    found = []
    for name in _order_of_trial(cost, accountant):
        where = at(name)
        certificate = None if where is None else prices[name](cost, where)
        if certificate is not None:
            found.append(certificate)
            if _settled(certificate, certificate.epsilon):
                break
    return found


def epsilon_at(cost: Cost, delta: float, accountant: str = "best") -> Certificate:
    """The smallest epsilon that is proved for `cost` at `delta`.

    Args:
        delta: in [0, 1); 0 asks for pure DP.
        accountant: "best" for the smallest, or one of `ACCOUNTANTS` to insist on it.

    Raises:
        InvalidValue: delta is 0 and the node has no pure epsilon; or a bad parameter.
        UnsupportedNode: the accountant proves nothing finite for this node.

    References:
        Balle, Wang 2018 (arXiv:1805.06530v2), Theorem 8; Dong, Roth, Su 2019
        (arXiv:1905.02383v3), Theorem 3.2; Canonne, Kamath, Steinke 2020
        (arXiv:2004.00010v4), Proposition 12; Zhu, Dong, Wang 2022 (arXiv:2106.08567).
    """
    chance = probability("delta", delta, zero=True)
    _check(cost, accountant)
    return _proved(_This(cost), chance, accountant)


class _This:
    """A cost as a key: this very one. It is kept with its entry, so that no other has its place."""

    __slots__ = ("cost",)

    def __init__(self, cost: Cost) -> None:
        self.cost = cost

    def __hash__(self) -> int:
        return id(self.cost)

    def __eq__(self, other: object) -> bool:
        return type(other) is _This and self.cost is other.cost


@lru_cache(256)
def _proved(this: _This, chance: float, accountant: str) -> Certificate:
    """A plan is priced to choose its ledger's filter, to see whether it fits, and to charge it."""
    cost = this.cost
    left = _without_failure(chance, cost.failure)

    def at(name: str) -> float | None:
        return left if name in _BESIDES_FAILURE else chance

    found = _candidates(_EPSILON, cost, accountant, at)
    if not found and (chance == 0 or left is None):
        raise InvalidValue("delta", chance, "above 0 (and above what is asserted) for this node "
                                           "and accountant")
    if not found:
        raise UnsupportedNode(_nothing(cost, accountant, "epsilon"))
    best = min(found, key=lambda certificate: certificate.epsilon)
    return best if best.delta == chance else evolve(best, delta=chance)


def _without_failure(delta: float, failure: float) -> float | None:
    """What is left of delta where nothing fails, (delta - failure) / (1 - failure); None if the
    failures alone are more than delta."""
    if failure == 0 or not failure <= delta:
        return None if failure else delta
    return down(down(delta - failure) / (1 - failure) * (1 - 4e-16)) if failure < delta else 0.0


def _nothing(cost: Cost, accountant: str, what: str) -> str:
    if accountant == "pld" and cost.losses is None:
        return f"no privacy-loss distribution: {cost.no_losses}"
    return f"accountant {accountant!r} proves no finite {what} for this plan"


def delta_at(cost: Cost, epsilon: float, accountant: str = "best") -> Certificate:
    """The smallest delta that is proved for `cost` at `epsilon`.

    Args:
        epsilon: nats, at least 0.
        accountant: as for `epsilon_at`.

    Raises:
        InvalidValue: a bad parameter.
        UnsupportedNode: the accountant proves nothing for this node.
    """
    target = non_negative("epsilon", epsilon)
    _check(cost, accountant)
    found = [
        certificate if certificate.accountant not in _BESIDES_FAILURE or cost.failure == 0
        else evolve(certificate, delta=min(1.0, up(cost.failure + multiply_up(
            up(1 - cost.failure), certificate.delta))))
        for certificate in _candidates(_DELTA, cost, accountant, lambda _: target)
    ]
    if not found:
        raise UnsupportedNode(_nothing(cost, accountant, "delta"))
    return min(found, key=lambda certificate: certificate.delta)


def epsilon_at_least(cost: Cost, delta: float) -> float:
    """No accountant can prove less than this, in nats; 0 if nothing is known.

    Exact for Gaussians; otherwise a dominated privacy-loss distribution, where every part is
    attained by some pair of neighbouring tables.
    """
    chance = probability("delta", delta)
    if _exactly_gaussian(cost):
        certificate = _gdp_epsilon(cost, chance)
        return 0.0 if certificate is None else certificate.epsilon * (1 - 1e-11)
    from privledger.accounting.pld.by_pld import epsilon_lower_by_pld

    return 0.0 if cost.losses is None else epsilon_lower_by_pld(cost.losses, chance)


# --- The smallest noise that meets a target, found with few evaluations.

_TOLERANCE = 1e-11  # relative width of the final bracket
_STEPS = 200


def smallest(
    epsilon_of: Callable[[float], float],
    target: float,
    *,
    low: float = 1e-140,
    high: float = 1e140,
) -> float:
    """Smallest noise whose epsilon is at most `target`, to 1e-11 relative.

    By default among all the noise that a mechanism may have (`rounding.moderate`).

    Args:
        epsilon_of: epsilon (or any cost) as a non-increasing function of the noise. At small
            noise, or beyond what it allows, it may return infinity or raise OverflowError or
            ZeroDivisionError.
        target: the largest acceptable value, above 0.
        low: no smaller noise is tried; returned if it already meets the target.
        high: no larger noise is tried.

    Returns:
        A noise for which `epsilon_of` was evaluated and did meet the target.

    Raises:
        InvalidValue: no noise up to `high` meets the target, or a bad parameter.

    >>> round(smallest(lambda noise: 2 / noise, 0.5), 9)
    4.0
    """
    aim, least, most = positive("target", target), positive("low", low), positive("high", high)
    if not least < most:
        raise InvalidValue("low", low, "below high")

    def excess(log_noise: float) -> tuple[float, float]:
        noise = min(most, max(least, math.exp(log_noise)))
        return noise, _log_excess(epsilon_of, noise, aim)

    bad, good = _bracket(excess, math.log(least), math.log(most), aim)
    return good[1] if bad is None else _close(excess, bad, good)


_Point = tuple[float, float, float]  # log noise, noise, log(epsilon / target)
_Excess = Callable[[float], tuple[float, float]]


def _log_excess(epsilon_of: Callable[[float], float], noise: float, target: float) -> float:
    """log(epsilon / target); NaN and failures count as infinitely too much."""
    try:
        value = epsilon_of(noise)
    except (OverflowError, ZeroDivisionError, FloatingPointError):
        return math.inf
    if value <= 0:
        return -math.inf
    if not value <= target:
        # At least a trace above zero, although the quotient may round to 1.
        return max(math.log(value / target), 1e-300) if value < math.inf else math.inf
    return min(math.log(value / target), 0.0) if value / target > 0 else -math.inf


def _bracket(
    excess: _Excess, least: float, most: float, target: float
) -> tuple[_Point | None, _Point]:
    """Two neighbouring trials, the first too noisy to the budget, the second meeting it."""
    def trial(at: float) -> _Point:
        return at, *excess(at)

    point = trial(min(most, max(least, 0.0)))
    jump = math.log(2)
    if point[2] <= 0:
        while point[2] <= 0:
            good = point
            if point[0] <= least:
                return None, good
            point, jump = trial(max(least, point[0] - jump)), jump * 1.5
        return point, good
    bad, wall = point, None
    while point[2] > 0:
        # After prices that were finite, an infinite one says that such noise is not allowed.
        if point[2] < math.inf or bad[2] == math.inf:
            bad = point
        else:
            wall = point[0]
        end = most if wall is None else wall
        if end - bad[0] <= _TOLERANCE:
            raise InvalidValue("target", target, "within reach of some allowed noise")
        at = bad[0] + jump if wall is None else 0.5 * (bad[0] + wall)
        point, jump = trial(min(end, at)), jump * 1.5
    return bad, point


def _close(excess: _Excess, bad: _Point, good: _Point) -> float:
    """Shrink the bracket: false position with the Anderson-Bjorck weight, else bisection."""
    weight_bad, weight_good = bad[2], good[2]
    for step in range(_STEPS):
        width = good[0] - bad[0]
        if width <= _TOLERANCE:
            break
        at = _candidate(bad[0], good[0], weight_bad, weight_good, step)
        point = (at, *excess(at))
        if point[2] <= 0:
            weight_bad = _weaken(weight_bad, good[2], point[2])
            good, weight_good = point, point[2]
        else:
            weight_good = _weaken(weight_good, bad[2], point[2])
            bad, weight_bad = point, point[2]
    return good[1]


def _weaken(kept: float, replaced: float, new: float) -> float:
    """Weight of the end that stays: without this false position creeps from one side."""
    if not (math.isfinite(replaced) and math.isfinite(new)) or replaced == 0:
        return kept
    factor = 1 - new / replaced
    return kept * (factor if factor > 0.1 else 0.5)


def _candidate(low: float, high: float, above: float, below: float, step: int) -> float:
    """A point strictly inside, never closer to an end than half the tolerance."""
    middle = 0.5 * (low + high)
    usable = math.isfinite(above) and math.isfinite(below) and above > below
    if not usable or step % 8 == 7:
        return middle
    at = low + (high - low) * above / (above - below)
    # Stepping off the end by half the tolerance closes the bracket once the root is known.
    gap = min(0.45 * _TOLERANCE, 0.25 * (high - low))
    return min(high - gap, max(low + gap, at))


def largest_count(fits: Callable[[int], bool], most: int = MOST_COUNT) -> int:
    """Largest whole number up to `most` that fits, if all smaller ones do.

    Raises:
        InvalidValue: not even 1 fits.

    >>> largest_count(lambda number: number * number <= 50)
    7
    """
    if not fits(1):
        raise InvalidValue("target", "one", "within reach of at least one round")
    low, high = 1, min(2, most + 1)
    while high <= most and fits(high):
        low, high = high, min(2 * high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
