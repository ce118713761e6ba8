"""Published formulas that do not hold. Shown beside the sound cost; never charged."""

from __future__ import annotations

import math

from privledger.errors import InvalidValue
from privledger.rounding import non_negative, number, probability


def published_sgbdt_epsilon(order: float, bound: float, delta: float) -> float:
    """What S-GBDT prints as its epsilon: (bound + log(1/delta)) / order.

    **This is wrong and too small.** A sound conversion has epsilon itself, not
    order * epsilon, on the left: bound + (log(1/delta) + ...) / (order - 1), see
    `epsilon_from_rdp`. For one Gaussian with noise multiplier 1 at order 1000 and delta 1e-5
    the rule reports .51, while epsilon is 4.38. Kept only to compare a claim with its cost.

    Args:
        order: Renyi order, above 1.
        bound: Renyi bound in nats at this order.
        delta: strictly between 0 and 1.

    Raises:
        InvalidValue: a parameter outside its range.

    References:
        S-GBDT, arXiv:2309.12041, Algorithm 7 line 6 and Theorem 18.

    >>> round(published_sgbdt_epsilon(1000.0, 500.0, 1e-5), 4)
    0.5115
    """
    wanted, spent = number("order", order), non_negative("bound", bound)
    if not wanted > 1:
        raise InvalidValue("order", order, "above 1")
    return (spent - math.log(probability("delta", delta))) / wanted
