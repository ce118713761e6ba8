"""Renyi bounds across several steps: two tables that differ in more than one record.

D_o(P, R) <= (o - 1/p)/(o - 1) D_(p o)(P, Q) + D_(1 + p'(o - 1))(Q, R), 1/p + 1/p' = 1
[Mironov 2017, arXiv:1702.07476v3, Proposition 11]. With p = 1 + (k - 1)(o - 1)/o for a path of
k steps a zCDP bound rho becomes k^2 rho, exactly (docs/proofs/relations.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from privledger.accounting.curve import RdpCurve, check_orders
from privledger.accounting.moments import MARGIN
from privledger.errors import InvalidValue
from privledger.rounding import count

MOST_STEPS = 64

CurveAt = Callable[[tuple[float, ...]], RdpCurve]


def steps_rdp(curve_at: CurveAt, steps: int, orders: tuple[float, ...]) -> RdpCurve:
    """Renyi bounds for tables `steps` records apart.

    Args:
        curve_at: the curve for one record at any orders above 1, for both directions.
        steps: 1 to 64.

    Raises:
        InvalidValue: `steps` outside its range.
    """
    k = count("steps", steps)
    if k > MOST_STEPS:
        raise InvalidValue("steps", steps, f"at most {MOST_STEPS}")
    order = np.array(check_orders(orders))
    terms = [(np.ones_like(order), order * k)]
    for j in range(k, 1, -1):
        at = order * k / j
        share = at / (1 + at + (j - 1) * (at - 1) - 1)  # 1/p
        terms.append(((at - share) / (at - 1), at + (j - 1) * (at - 1)))
    # A Renyi divergence grows with its order, so an order is rounded up.
    asked = [np.nextafter(place * (1 + 1e-15), np.inf) for _, place in terms]
    grid = tuple(np.unique(np.concatenate(asked)).tolist())
    known = curve_at(grid).as_array()
    total = np.zeros_like(order)
    for (factor, _), place in zip(terms, asked, strict=True):
        total = total + factor * known[np.searchsorted(grid, place)]
    return RdpCurve.from_array(orders, np.where(total == 0, 0.0, total * MARGIN))
