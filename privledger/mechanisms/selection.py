"""Mechanisms that choose, and a cost that somebody vouches for."""

from __future__ import annotations

from attrs import field, frozen

from privledger.errors import InvalidMechanism
from privledger.rounding import count, plain_float, plain_int, positive, probability


@frozen(cache_hash=True)
class Exponential:
    """Selection with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    Bounded range `epsilon`: log-probabilities of any two outcomes move apart by at most
    epsilon (Durfee and Rogers 2019). Candidates must be public.
    """

    epsilon: float = field(converter=plain_float)

    def __attrs_post_init__(self) -> None:
        positive("Exponential epsilon", self.epsilon)


@frozen(cache_hash=True)
class RandomizedResponse:
    """With probability `noise_parameter` a uniform draw from the buckets replaces the truth.

    Stated for the replace-one relation only.
    """

    noise_parameter: float = field(converter=plain_float)
    num_buckets: int = field(default=2, converter=plain_int)

    def __attrs_post_init__(self) -> None:
        probability("RandomizedResponse noise_parameter", self.noise_parameter, one=True)
        count("RandomizedResponse num_buckets", self.num_buckets, least=2)


@frozen(cache_hash=True)
class Asserted:
    """A pure-DP cost that somebody vouches for. Marked as asserted wherever it appears."""

    epsilon: float = field(converter=plain_float)
    why: str

    def __attrs_post_init__(self) -> None:
        positive("Asserted epsilon", self.epsilon)
        if not isinstance(self.why, str) or not self.why.strip():
            raise InvalidMechanism("Asserted why", self.why, "a sentence")
