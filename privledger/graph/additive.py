"""Mechanisms that add noise to a number or a vector."""

from __future__ import annotations

import math
from collections.abc import Iterable

from attrs import field, frozen

from privledger.errors import InvalidMechanism
from privledger.rounding import (
    MOST_COUNT,
    count,
    moderate,
    plain_float,
    plain_int,
    positive,
    probability,
)


def _shares(value: object) -> tuple[float, ...]:
    if not isinstance(value, Iterable):
        raise InvalidMechanism("Gaussian shares", type(value).__name__, "a list of numbers")
    return tuple(plain_float(share) for share in value)


@frozen(cache_hash=True)
class Laplace:
    """Laplace noise of parameter `scale` on a query of known L1 sensitivity.

    Assumes the sensitivity holds for the relation the node is priced under.
    Pure DP at epsilon = l1_sensitivity / scale.
    """

    scale: float = field(converter=plain_float)
    l1_sensitivity: float = field(default=1.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        moderate("Laplace scale", self.scale)
        moderate("Laplace l1_sensitivity", self.l1_sensitivity)


@frozen(cache_hash=True)
class Gaussian:
    """Gaussian noise on a query of known L2 sensitivity, spherical or per block of coordinates.

    Attributes:
        noise_multiplier: standard deviation / L2 sensitivity, no unit; the node is exactly
            mu-GDP with mu = 1 / noise_multiplier, for the relation it is priced under.
        shares: for a joint release of several blocks, the share of mu squared that each block
            takes: block b, of sensitivity s_b, gets standard deviation
            s_b * noise_multiplier / sqrt(shares[b]). Empty for one block. The shares sum to
            at most one, so the cost does not depend on them (docs/proofs/gaussian.md).
    """

    noise_multiplier: float = field(converter=plain_float)
    shares: tuple[float, ...] = field(default=(), converter=_shares)

    def __attrs_post_init__(self) -> None:
        moderate("Gaussian noise_multiplier", self.noise_multiplier)
        for share in self.shares:
            moderate("Gaussian share", share)
        if self.shares and not math.fsum(self.shares) <= 1:
            raise InvalidMechanism("Gaussian shares", self.shares, "of sum at most one")


@frozen(cache_hash=True)
class DiscreteLaplace:
    """Integer noise with mass proportional to exp(-parameter * |x|) on an integer query."""

    parameter: float = field(converter=plain_float)
    sensitivity: int = field(default=1, converter=plain_int)

    def __attrs_post_init__(self) -> None:
        moderate("DiscreteLaplace parameter", self.parameter)
        count("DiscreteLaplace sensitivity", self.sensitivity, most=MOST_COUNT)


@frozen(cache_hash=True)
class DiscreteGaussian:
    """Integer noise with mass proportional to exp(-x**2 / (2 sigma**2)) on an integer query.

    Has the zCDP curve of the Gaussian of equal sigma (Canonne, Kamath, Steinke 2020,
    arXiv:2004.00010v4, Theorem 4), not its exact Gaussian-DP profile.
    """

    sigma: float = field(converter=plain_float)
    sensitivity: int = field(default=1, converter=plain_int)

    def __attrs_post_init__(self) -> None:
        moderate("DiscreteGaussian sigma", self.sigma)
        count("DiscreteGaussian sensitivity", self.sensitivity, most=MOST_COUNT)


# --- Costs that an author vouches for. Marked as asserted wherever they appear.


def _check_why(name: str, why: object) -> None:
    if not isinstance(why, str) or not why.strip():
        raise InvalidMechanism(f"{name} why", why, "a sentence")


@frozen(cache_hash=True)
class Asserted:
    """An (epsilon, delta)-DP cost that an author vouches for; pure DP if delta is 0."""

    epsilon: float = field(converter=plain_float)
    why: str
    delta: float = field(default=0.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        positive("Asserted epsilon", self.epsilon)
        probability("Asserted delta", self.delta, zero=True)
        _check_why("Asserted", self.why)


@frozen(cache_hash=True)
class AssertedZCDP:
    """A zero-concentrated-DP cost `rho` (nats) that an author vouches for."""

    rho: float = field(converter=plain_float)
    why: str

    def __attrs_post_init__(self) -> None:
        positive("AssertedZCDP rho", self.rho)
        _check_why("AssertedZCDP", self.why)
