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
    number,
    plain_float,
    plain_int,
    positive,
    probability,
)


def numbers(value: object) -> tuple[float, ...]:
    """A list of numbers, as a tuple of floats."""
    if not isinstance(value, Iterable) or isinstance(value, str | bytes):
        raise InvalidMechanism("coefficients, shares, sensitivities or probabilities",
                               type(value).__name__, "a list of numbers")
    return tuple([plain_float(one) for one in value])


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
    shares: tuple[float, ...] = field(default=(), converter=numbers)

    def __attrs_post_init__(self) -> None:
        moderate("Gaussian noise_multiplier", self.noise_multiplier)
        for share in self.shares:
            moderate("Gaussian share", share)
        if self.shares and not math.fsum(self.shares) <= 1:
            raise InvalidMechanism("Gaussian shares", self.shares, "of sum at most one")


MOST_AMOUNTS = 256
_NEARLY_ONE = 1e-9  # what a sum of probabilities may be off by, as in dp_accounting


@frozen(cache_hash=True)
class MixtureOfGaussians:
    """Gaussian noise on a sum to which one record adds a random amount, drawn anew for this node
    by a public law, apart from all other records and never published.

    For plans and for runs that other programs make (`ledger.foreign`); the guard draws no amounts.

    Attributes:
        standard_deviation: of the noise, spherical, in the unit of the sensitivities.
        sensitivities: L2 norms that the amount has at most, one at least above 0; at most 256.
        probabilities: of each. They sum to 1 within 1e-9: what is missing is counted at the
            largest sensitivity, and what is too much is taken off the smallest.
    """

    standard_deviation: float = field(converter=plain_float)
    sensitivities: tuple[float, ...] = field(converter=numbers)
    probabilities: tuple[float, ...] = field(converter=numbers)

    def __attrs_post_init__(self) -> None:
        deviation = moderate("MixtureOfGaussians standard_deviation", self.standard_deviation)
        for one in self.sensitivities:
            if number("MixtureOfGaussians sensitivity", one) != 0:
                moderate("MixtureOfGaussians sensitivity", one)
        for one in self.probabilities:
            probability("MixtureOfGaussians probability", one, one=True)
        most = max(self.sensitivities, default=0.0)
        if not (most and len(self.sensitivities) <= MOST_AMOUNTS):
            raise InvalidMechanism("MixtureOfGaussians sensitivities", len(self.sensitivities),
                                   f"1 to {MOST_AMOUNTS} of them, one above 0")
        moderate("MixtureOfGaussians standard_deviation / largest sensitivity", deviation / most)
        if len(self.probabilities) != len(self.sensitivities) or not abs(
                math.fsum(self.probabilities) - 1) <= _NEARLY_ONE:
            raise InvalidMechanism("MixtureOfGaussians probabilities", len(self.probabilities),
                                   "one for each sensitivity, of sum 1")


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
