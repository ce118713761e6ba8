"""The random number of trials of a `Tuning` node, drawn exactly.

The law of the number is part of the theorem (docs/proofs/tuning.md), so no float decides it. The
number is the k at which the distribution function passes a uniform V. Every probability is
enclosed between two integers, from the first by exact rational factors, and V gains bits until it
lies outside the enclosures. More bits never change a decision already made.
"""

from __future__ import annotations

import decimal
import math
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from attrs import frozen

from privledger.errors import UnsupportedNode
from privledger.noise.highprecision import LazyUniform
from privledger.noise.source import NoiseSource

MOST_MEAN = 10_000.0
_GUARD = 64  # outward roundings cost a unit per step; steps number far below 2**32
_SLACK = 45  # decimal digits lost to cancellation and to exp of a large number, generously


@frozen
class TrialsLaw:
    """P(K = first) and the exact factors P(K = k + 1) / P(K = k).

    Attributes:
        distribution, shape, success, mean: as in `Tuning`; floats are taken as exactly the
            numbers they are.
    """

    distribution: Literal["negative_binomial", "poisson"]
    shape: float = 1.0
    success: float = 0.0
    mean: float = 0.0

    @property
    def least(self) -> int:
        """The smallest number of trials."""
        return 0 if self.distribution == "poisson" else 1

    def factor(self, k: int) -> Fraction:
        """P(K = k + 1) / P(K = k)."""
        if self.distribution == "poisson":
            return Fraction(self.mean) / (k + 1)
        return (1 - Fraction(self.success)) * (k + Fraction(self.shape)) / (k + 1)

    def at_least(self, digits: int) -> tuple[Decimal, Decimal]:
        """P(K = least), between two decimals about 10**-digits apart, relatively.

        Decimal's ln and exp are correctly rounded; what a sum, product or difference loses is
        within `_SLACK` digits for every law that `Tuning` admits.
        """
        with decimal.localcontext() as context:
            context.prec = digits + _SLACK + 10
            context.Emax, context.Emin = decimal.MAX_EMAX, decimal.MIN_EMIN
            value = self._first()
            slack = value.scaleb(-digits)
            return value - slack, value + slack

    def _first(self) -> Decimal:
        if self.distribution == "poisson":
            return (-Decimal(self.mean)).exp()
        fails = 1 - Decimal(self.success)
        cost = -Decimal(self.success).ln()
        if self.shape == 0:
            return fails / cost
        shape = Decimal(self.shape)
        return fails * shape / ((shape * cost).exp() - 1)


def number_of_trials(law: TrialsLaw, mean: float, source: NoiseSource) -> int:
    """One exact draw. It must never be shown, nor what follows from it.

    Args:
        mean: of the law, to refuse what would run for ever.

    Raises:
        UnsupportedNode: more than 10,000 trials are expected.
    """
    if not mean <= MOST_MEAN:
        raise UnsupportedNode(f"a tuning of {mean:g} expected runs: at most {MOST_MEAN:g} are run. "
                              "Nothing was read")

    def word() -> int:
        return int(source.integers64(1)[0])

    uniform = LazyUniform(word(), 64, word)
    while True:
        found = _decided(law, uniform.numerator, uniform.bits)
        if found is not None:
            return found
        uniform.refine()


def _decided(law: TrialsLaw, numerator: int, bits: int) -> int | None:
    """The k with F(k - 1) <= V < F(k), or None if the bits of V do not decide it."""
    digits = bits // 3 + 20
    first_low, first_high = law.at_least(digits)
    small = max(0, -first_high.adjusted()) * 10 // 3 + 4  # P(K = least) may be tiny
    width = bits + small + _GUARD
    low = math.floor(Fraction(first_low) * (1 << width))
    high = math.ceil(Fraction(first_high) * (1 << width))
    shift = width - bits
    below, above = numerator << shift, (numerator + 1) << shift
    total_low, total_high, k = low, high, law.least
    while True:
        if above <= total_low:
            return k
        if below < total_high:
            return None
        factor = law.factor(k)
        if high <= 1 and factor < 1:  # V is beyond what this precision can tell apart
            return None
        low = low * factor.numerator // factor.denominator
        high = -(-high * factor.numerator // factor.denominator)
        total_low, total_high, k = total_low + low, total_high + high, k + 1
