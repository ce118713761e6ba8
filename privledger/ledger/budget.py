"""The promise a ledger keeps."""

from __future__ import annotations

from fractions import Fraction

from attrs import field, frozen

from privledger.errors import InvalidValue
from privledger.rounding import as_written, count, down, plain_float, positive, probability


@frozen
class Budget:
    """A cap in (epsilon, delta): epsilon in nats above zero, delta in [0, 1).

    Attributes:
        failure: the part of delta that is a purse for plans with a delta of their own, in a ledger
            by `gdp`, `zcdp` or `rdp`; what they charge to it adds up, and everything else is
            converted at the rest of delta. A `basic` ledger needs none: all of its delta adds up.
    """

    epsilon: float = field(converter=plain_float)
    delta: float = field(default=0.0, converter=plain_float)
    failure: float = field(default=0.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        positive("Budget epsilon", self.epsilon)
        probability("Budget delta", self.delta, zero=True)
        probability("Budget failure", self.failure, zero=True)
        if self.failure and not self.failure < self.delta:
            raise InvalidValue("Budget failure", self.failure, "below delta")

    @property
    def rest(self) -> float:
        """Delta less the purse, rounded down."""
        exact = Fraction(self.delta) - Fraction(self.failure)
        found = float(exact)
        return down(found) if Fraction(found) > exact else found

    def split(self, parts: int) -> tuple[Budget, ...]:
        """So many equal budgets that fit into this one together.

        Each is rounded down to a float where a part is none: `1 / 3` is a little less.
        """
        many = count("parts", parts)
        return (Budget(*(_part(whole, many) for whole in (
            self.epsilon, self.delta, self.failure))),) * many

    def as_dict(self) -> dict[str, float]:
        """For JSON; a purse is written where there is one."""
        found = {"epsilon": float(self.epsilon), "delta": float(self.delta)}
        return found | ({"failure": float(self.failure)} if self.failure else {})


def _part(whole: float, parts: int) -> float:
    """The largest float that, as it is written too, fits so many times."""
    most = as_written(whole)
    found = float(most / parts)
    while as_written(found) * parts > most:
        found = down(found)
    return found
