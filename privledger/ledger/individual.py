"""Individual filters: what each record has spent, and who may still take part in a round.

Theorems: docs/proofs/filters.md. A record's cost of a round is a function of that record, of
earlier outputs and of public parameters only. The admission test happens before the round.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.rounding import positive

RECORD_UNITS = 1 << 52
"""Every cap is this many units, so that integer spends in float64 arithmetic are exact."""


def costs_to_units(costs: NDArray[np.float64], cap: float) -> NDArray[np.int64]:
    """Per-record costs as integers, rounded up: shape (n_records,), in cap / 2**52."""
    scaled = costs * (RECORD_UNITS / cap * (1 + 2.0**-50))
    np.ceil(scaled, out=scaled)
    np.minimum(scaled, 2.0 * RECORD_UNITS, out=scaled)
    if not np.all(scaled >= 0):  # NaN fails this
        raise InvalidValue("individual cost", "one of them", "a non-negative number")
    return scaled.astype(np.int64)


def admit(spent: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Charge every record that can pay; return who could. `spent` is changed in place.

    A record that cannot pay is left out of the round and charged nothing.
    """
    after = spent + units
    active = after <= RECORD_UNITS
    np.copyto(spent, after, where=active)
    return active


@define
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

    def __attrs_post_init__(self) -> None:
        positive("scope cap", self.cap)
        self.before = self.spent.copy()

    def left(self) -> NDArray[np.float64]:
        """What each record has left, rounded down, in the units of `cap`."""
        free = (RECORD_UNITS - self.spent).astype(np.float64)
        return free * (self.cap / RECORD_UNITS * (1 - 2.0**-50))

    def admit(self, costs: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Run the filter for one round; see `admit`."""
        active = admit(self.spent, costs_to_units(costs, self.cap))
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
