"""From a filter's total to epsilon, and from a budget to the cap of a filter."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from .reading import Bad, NoPrice

UNIT, DELTA_UNIT = 2**192, 2**512
SLACK = 10**9  # another machine may round the last digits otherwise
FILTERS = ("gdp", "zcdp", "rdp", "basic")


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Balle, Wang 2018 (arXiv:1805.06530), Theorem 8; Phi(-x) = erfc(x / sqrt 2) / 2."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    return first - times_tail(epsilon, epsilon / mu + mu / 2)


def times_tail(epsilon: float, x: float) -> float:
    """exp(epsilon) Phi(-x), also where one factor is no float."""
    if x < 25:
        return math.exp(epsilon) * math.erfc(x / math.sqrt(2)) / 2
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6
    return math.exp(epsilon - x * x / 2) / (x * math.sqrt(2 * math.pi)) * series


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_of_mu(mu, epsilon) <= delta, by bisection."""
    if not delta > 0:
        raise Bad("Gaussian noise has no price at delta 0")
    if delta < 1e-50:
        raise NoPrice("a Gaussian at delta below 1e-50")
    if mu > 1e4:
        raise NoPrice("a Gaussian of almost no noise")
    low, high = 0.0, 1.0
    if mu == 0 or mu < 2 * delta or delta_of_mu(mu, low) <= delta:
        return 0.0
    while delta_of_mu(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_mu(mu, middle) > delta else (low, middle)
    return high


def epsilon_of_renyi(order: float, bound: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Prop. 12; 0 if total variation <= delta."""
    if min(math.sqrt(bound / 2), math.sqrt(-math.expm1(-bound))) <= delta:
        return 0.0
    rest = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(0.0, bound + rest)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Order times rho at every order; over the 200 orders that a ledger looks at."""
    best = math.sqrt(-math.log(delta) / rho)
    orders = [1 + max(best * 0.2 * 25 ** (place / 199), 1e-9) for place in range(200)]
    return min(epsilon_of_renyi(order, order * rho, delta) for order in orders)


def epsilon_of(kind: str, total: Fraction, order: float, delta: float) -> float:
    """Epsilon, at `delta`, that a filter's total certifies."""
    if kind == "basic" or not total:
        return float(total)
    if not delta > 0:
        raise Bad(f"a {kind} filter promises nothing at delta 0")
    if kind == "gdp":
        return epsilon_of_mu(math.sqrt(total), delta)
    if kind == "rdp":
        return epsilon_of_renyi(order, float(total), delta)
    return epsilon_of_rho(float(total), delta)


class Caps:
    """Units that a budget allows under one filter."""

    def __init__(self, kind: str, order: float) -> None:
        self.kind, self.order = kind, order

    def of(self, epsilon: float, delta: float, purse: float) -> tuple[int, int]:
        """Units and delta units, with a little room for another machine's rounding; `purse` is the
        part of delta for plans with one of their own, where not all of it adds up."""
        units = largest(self.kind, self.order, epsilon, beside(delta, purse))
        allowed = int(Fraction(delta if self.kind == "basic" else purse) * DELTA_UNIT)
        return units + units // SLACK, allowed


def beside(delta: float, purse: float) -> float:
    """What is left of delta beside the purse, rounded down."""
    exact = Fraction(delta) - Fraction(purse)
    if purse and exact <= 0:
        raise Bad("a purse that is not below delta")
    found = float(exact)
    return math.nextafter(found, 0.0) if Fraction(found) > exact else found


@lru_cache(maxsize=256)
def largest(kind: str, order: float, epsilon: float, delta: float) -> int:
    """Units of the largest total that certifies no more than the budget."""
    if kind == "basic":
        return int(Fraction(epsilon) * UNIT)
    if not delta > 0:
        return 0
    if kind == "rdp":
        spread = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        return int(Fraction(max(0.0, epsilon - spread)) * UNIT)
    if kind == "zcdp":
        low, high = 0.0, max(1.0, epsilon)
        for _ in range(70):
            middle = (low + high) / 2
            low, high = ((middle, high) if epsilon_of_rho(middle, delta) <= epsilon
                         else (low, middle))
        return int(Fraction(high) * UNIT)
    low, high = 0.0, 1.0
    epsilon_of_mu(high, delta)  # says so where there is no price
    while delta_of_mu(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_mu(middle, epsilon) <= delta else (low, middle)
    # The upper end: no digit of what is allowed may be lost to bisection.
    return int(Fraction(high) ** 2 * UNIT)
