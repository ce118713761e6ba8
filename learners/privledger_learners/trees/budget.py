"""How far a plan can be scaled up within a budget."""

from __future__ import annotations

from collections.abc import Callable

import privledger as pl

_SPARE = 1 - 1e-9  # so that rounding against ourselves never takes a plan over its budget


def scale_within(make: Callable[[float], pl.Node], epsilon: float, delta: float,
                 relation: str) -> float:
    """The factor for which `make(factor)` costs (epsilon, delta).

    Every mechanism of `make(factor)` must have pure epsilon in proportion to `factor`.
    """
    pure = epsilon / pl.epsilon(make(1.0), 0.0, relation) * _SPARE
    if delta == 0.0:
        return pure
    return max(pure, pl.calibrate(make, epsilon, delta, relation, largest=True))
