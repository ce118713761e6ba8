"""From a cost to a guarantee, together with the theorem that it rests on."""

from __future__ import annotations

import math
from collections.abc import Callable

from attrs import frozen

from privledger.accounting.convert import delta_from_rdp, epsilon_from_rdp
from privledger.accounting.cost import Cost
from privledger.accounting.gaussian import delta_from_mu, epsilon_from_mu
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.rounding import non_negative, probability, up

ACCOUNTANTS: tuple[str, ...] = ("best", "pure", "gdp", "rdp")

PURE = "pure composition (Dwork, Roth 2014, Theorem 3.16)"
PURE_AT_DELTA = "pure composition and Kairouz, Oh, Viswanath 2015, section 3"
GAUSSIAN = "Gaussian DP, exact (Balle, Wang 2018, Theorem 8; Dong, Roth, Su 2019)"
GAUSSIAN_BOUND = "Gaussian DP, pure parts as Gaussians (Dong, Roth, Su 2019, Theorem 3.2)"
RENYI = "Renyi DP (Canonne, Kamath, Steinke 2020, Proposition 12)"


@frozen
class Certificate:
    """A proved (epsilon, delta) guarantee.

    Attributes:
        epsilon: nats.
        delta: probability, 0 for pure DP.
        theorem: what the number rests on, for a reader.
        accountant: "gdp", "rdp" or "pure".
        order: Renyi order, for "rdp"; None otherwise.
    """

    epsilon: float
    delta: float
    theorem: str
    accountant: str
    order: float | None = None


def _pure_epsilon(cost: Cost, delta: float) -> Certificate | None:
    if cost.pure == math.inf:
        return None
    if delta == 0 or cost.pure == 0:
        return Certificate(cost.pure, delta, PURE, "pure")
    # Randomized response is the worst case: delta = (e^pure - e^eps) / (e^pure + 1).
    fall = delta * (1 + math.exp(-cost.pure))
    epsilon = 0.0
    if fall < 1:
        epsilon = cost.pure * (1 + 1e-15) + math.log1p(-fall) * (1 - 1e-14)
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
    exact = cost.mu_squared is not None and cost.gdp() == cost.mu_squared
    return GAUSSIAN if exact else GAUSSIAN_BOUND


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


_Price = Callable[[Cost, float], Certificate | None]
_EPSILON: dict[str, _Price] = {"pure": _pure_epsilon, "gdp": _gdp_epsilon, "rdp": _rdp_epsilon}
_DELTA: dict[str, _Price] = {"pure": _pure_delta, "gdp": _gdp_delta, "rdp": _rdp_delta}


def _candidates(
    prices: dict[str, _Price], cost: Cost, at: float, accountant: object
) -> list[Certificate]:
    if not isinstance(cost, Cost):
        raise InvalidValue("cost", cost, "a Cost")
    if accountant == "pld":
        raise UnsupportedNode("privacy-loss distributions are not in this version")
    if not isinstance(accountant, str) or accountant not in ACCOUNTANTS:
        raise InvalidValue("accountant", accountant, "one of " + ", ".join(ACCOUNTANTS))
    chosen = prices.values() if accountant == "best" else (prices[accountant],)
    return [found for price in chosen if (found := price(cost, at)) is not None]


def epsilon_at(cost: Cost, delta: float, accountant: str = "best") -> Certificate:
    """The smallest epsilon that is proved for `cost` at `delta`.

    Args:
        delta: in [0, 1); 0 asks for pure DP.
        accountant: "best" for the smallest, or "pure", "gdp", "rdp" to insist on one.

    Raises:
        InvalidValue: delta is 0 and the node has no pure epsilon; or a bad parameter.
        UnsupportedNode: the accountant proves nothing finite for this node.

    References:
        Balle, Wang 2018 (arXiv:1805.06530v2), Theorem 8; Dong, Roth, Su 2019
        (arXiv:1905.02383v3), Theorem 3.2; Canonne, Kamath, Steinke 2020
        (arXiv:2004.00010v4), Proposition 12.
    """
    chance = probability("delta", delta, zero=True)
    found = _candidates(_EPSILON, cost, chance, accountant)
    if not found and chance == 0:
        raise InvalidValue("delta", delta, "above 0 for this node and accountant")
    if not found:
        raise UnsupportedNode(f"accountant {accountant!r} proves no finite epsilon here")
    return min(found, key=lambda certificate: certificate.epsilon)


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
    found = _candidates(_DELTA, cost, target, accountant)
    if not found:
        raise UnsupportedNode(f"accountant {accountant!r} proves no delta here")
    return min(found, key=lambda certificate: certificate.delta)
