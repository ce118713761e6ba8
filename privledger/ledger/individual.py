"""Individual filters: what each record has spent, and who may still take part in a round.

Theorems: docs/proofs/filters.md. A record's cost of a round is a function of that record, of
earlier outputs and of public parameters only. The admission test happens before the round.
"""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.rounding import positive

RECORD_UNITS = 1 << 52
"""Every cap is this many units, so that integer spends in float64 arithmetic are exact."""


PARTS = 40
"""A unit has 2**40 parts: what rounding each cost up to a unit would lose is kept in them."""
_TOGETHER = 1 << 15
"""Records whose costs are looked at together: their numbers stay in the processor's cache."""


def whole_and_parts(costs: NDArray[np.float64],
                    cap: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Per-record costs in units of cap / 2**52 and in 2**-40 units, rounded up at those.

    Returns:
        Units and parts, shape (n_records,) each. Parts may be a little below zero or above one
        unit. The sum is no less than the exact quotient, and no more than 2 parts above it.
    """
    _check(costs)
    lead, power = math.frexp(cap)
    with np.errstate(over="ignore", under="ignore"):
        # More than two caps never fits; less than 2**-100 of one is the least part.
        scaled = np.clip(np.ldexp(costs, -power), np.where(costs > 0, 2.0**-100, 0.0), 2.0)
    quotient = scaled / lead
    # The remainder of the division, exactly: the product in two floats (Dekker 1971).
    high, low = _halves(lead)
    first, second = _halves(quotient)
    product = quotient * lead
    missing = ((first * high - product) + first * low + second * high) + second * low
    remainder = (scaled - product) - missing
    units = quotient * RECORD_UNITS
    whole = np.floor(units)
    parts = (units - whole) + remainder * (RECORD_UNITS / lead)
    parts = np.ceil(parts * (1 << PARTS)) + (costs > 0)
    return whole.astype(np.int64), parts.astype(np.int64)


def _check(costs: NDArray[np.float64]) -> None:
    if not np.all(costs >= 0):  # NaN fails this
        raise InvalidValue("individual cost", "one of them", "a non-negative number")


def _halves(value: Any) -> tuple[Any, Any]:
    """A float as the sum of two of 26 bits (Veltkamp)."""
    shifted = value * 134217729.0
    high = shifted - (shifted - value)
    return high, value - high


def _whole_up(parts: NDArray[np.int64]) -> NDArray[np.int64]:
    return -((-parts) >> PARTS)


def admit(spent: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Charge every record that can pay; return who could. `spent` is changed in place.

    A record that cannot pay is left out of the round and charged nothing.
    """
    after = spent + units
    active = after <= RECORD_UNITS
    np.copyto(spent, after, where=active)
    return active


@define(eq=False)
class ScopeSpend:
    """Running per-record spend of one filter scope on one data set, inside one grant.

    Attributes:
        cap: mu squared or Renyi bound that no record may pass.
        spent: shape (n_records,), int64, in cap / 2**52.
        rounds: shape (n_records,), int32, rounds each record took part in.
    """

    cap: float
    spent: NDArray[np.int64]
    rounds: NDArray[np.int32]
    before: NDArray[np.int64] = field(init=False)
    # Parts by which `spent` is above the sum of the costs: less than a unit.
    _above: NDArray[np.int64] = field(init=False)

    def __attrs_post_init__(self) -> None:
        positive("scope cap", self.cap)
        self.before = self.spent.copy()
        self._above = np.zeros(len(self.spent), np.int64)

    @classmethod
    def again(cls, cap: float, spent: NDArray[np.int64], rounds: NDArray[np.int32],
              above: NDArray[np.int64]) -> Self:
        """One that was kept between two rounds.

        Args:
            above: as the one before had it: parts by which `spent` is above the sum of costs.
        """
        found = cls(cap, spent, rounds)
        found._above = above
        return found

    @property
    def above(self) -> NDArray[np.int64]:
        """Parts by which `spent` is above the sum of the costs: less than a unit."""
        return self._above

    def left(self) -> NDArray[np.float64]:
        """What each record has left, rounded down, in the units of `cap`: a cost of that fits."""
        # Four parts less, of which rounding the cost up takes two at most.
        free = np.maximum((RECORD_UNITS - self.spent) - 4 * 2.0**-PARTS, 0.0)
        left: NDArray[np.float64] = free * (self.cap / RECORD_UNITS * (1 - 2.0**-50))
        return left

    def admit(self, costs: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Run the filter for one round; see `admit`."""
        _check(costs)  # all of them, before any is charged
        if costs.shape != self.spent.shape:
            raise InvalidValue("individual costs", costs.shape, "one for each record")
        active = np.empty(len(costs), dtype=np.bool_)
        for start in range(0, len(costs), _TOGETHER):
            at = slice(start, start + _TOGETHER)
            whole, parts = whole_and_parts(costs[at], self.cap)
            parts -= self._above[at]
            more = _whole_up(parts)
            active[at] = admit(self.spent[at], whole + more)
            np.copyto(self._above[at], (more << PARTS) - parts, where=active[at])
        self.rounds += active
        return active

    def taken(self) -> NDArray[np.int64]:
        """What this grant alone charged to each record."""
        return self.spent - self.before


def worst_units(worst: float, cap: float) -> int:
    """Units that an unfinished grant may have charged to any record: the plan, or the cap."""
    if not math.isfinite(worst) or worst >= cap:
        return RECORD_UNITS
    return min(RECORD_UNITS, math.ceil(worst / cap * RECORD_UNITS * (1 + 2.0**-50)))
