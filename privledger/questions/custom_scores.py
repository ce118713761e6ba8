"""Scores of features that somebody vouches for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import Copier
from privledger.rounding import moderate, number


@frozen(eq=False)
class CustomScores:
    """Scores that somebody vouches for. Recorded as asserted.

    Attributes:
        function: takes the features, shape (n_records, features), NaN where missing, and the
            target; returns one number per feature.
        sensitivity: the largest change as a record comes or goes; in a ledger that protects
            people, as everything of one person does.
        change: smallest and largest change as a record comes, in units of the sensitivity.
        why: why that holds; goes into the ledger.
    """

    function: Callable[[NDArray[Any], NDArray[Any]], NDArray[Any]]
    sensitivity: float
    why: str
    change: tuple[float, float] = (-1.0, 1.0)

    def __attrs_post_init__(self) -> None:
        moderate("sensitivity", self.sensitivity)
        if not isinstance(self.why, str) or not self.why.strip():
            raise InvalidValue("why", self.why, "a sentence that goes into the ledger")
        if not callable(self.function):
            raise InvalidValue("function", type(self.function).__name__, "something to call")
        ends = [number("change", end) for end in self.change]
        if not (len(ends) == 2 and -1 <= ends[0] < ends[1] <= 1):
            raise InvalidValue("change", self.change, "two rising numbers from -1 to 1")

    def own(self, to: Copier) -> CustomScores:
        """The guard's copy."""
        low, high = self.change
        return CustomScores(self.function, number("sensitivity", self.sensitivity), self.why,
                            (number("change", low), number("change", high)))
