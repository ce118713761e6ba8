"""Costs that somebody vouches for. Marked as asserted wherever they appear."""

from __future__ import annotations

from attrs import field, frozen

from privledger.errors import InvalidMechanism
from privledger.rounding import plain_float, positive, probability


def _check_why(name: str, why: object) -> None:
    if not isinstance(why, str) or not why.strip():
        raise InvalidMechanism(f"{name} why", why, "a sentence")


@frozen(cache_hash=True)
class Asserted:
    """An (epsilon, delta)-DP cost that somebody vouches for; pure DP if delta is 0."""

    epsilon: float = field(converter=plain_float)
    why: str
    delta: float = field(default=0.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        positive("Asserted epsilon", self.epsilon)
        probability("Asserted delta", self.delta, zero=True)
        _check_why("Asserted", self.why)


@frozen(cache_hash=True)
class AssertedZCDP:
    """A zero-concentrated-DP cost `rho` (nats) that somebody vouches for."""

    rho: float = field(converter=plain_float)
    why: str

    def __attrs_post_init__(self) -> None:
        positive("AssertedZCDP rho", self.rho)
        _check_why("AssertedZCDP", self.why)
