"""Masses of the two distributions of a pair between consecutive privacy losses."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from privledger.accounting.moments import Array

UNIT = float(np.finfo(np.float64).eps)
"""Distance from 1 to the next float: one elementary rounding is at most half of it."""


@frozen(eq=False)
class Bands:
    """The continuous part of a pair on the bands (edge[i], edge[i + 1]].

    Attributes:
        p: mass under P, shape (len(edges) - 1,); q: the same under Q.
        slack_p, slack_q: bounds on the error of each mass, same shape.
        below: mass under P at losses up to the first edge, and `below_q` under Q.
        above: mass under P at finite losses beyond the last edge, and `above_q` under Q.
        blur: what rounding may have moved any edge by, in nats of loss.
    """

    p: Array
    q: Array
    slack_p: Array
    slack_q: Array
    below: float
    below_q: float
    above: float
    above_q: float
    blur: float


@frozen(eq=False)
class Atoms:
    """Losses that have positive probability.

    Attributes:
        loss: shape (n,), nats, finite. p: their mass under P; under Q it is p exp(-loss).
        infinite: P mass where Q has none. q_only: Q mass where P has none.
        blur: what rounding may have moved the losses by, besides their last digits.
        raised: by how much, relatively, the masses may have been rounded up.
    """

    loss: Array
    p: Array
    infinite: float = 0.0
    q_only: float = 0.0
    blur: float = 0.0
    raised: float = 0.0


NO_ATOMS = Atoms(np.zeros(0), np.zeros(0))


def no_bands(edges: Array) -> Bands:
    """A pair that has atoms only."""
    none = np.zeros(len(edges) - 1)
    return Bands(none, none, none, none, 0.0, 0.0, 0.0, 0.0, 0.0)
