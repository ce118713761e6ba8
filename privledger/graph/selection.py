"""Mechanisms that choose."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from attrs import field, frozen

from privledger.errors import InvalidMechanism
from privledger.rounding import (
    MOST_COUNT,
    as_promised,
    count,
    moderate,
    number,
    part_up,
    plain_float,
    plain_int,
    probability,
    up,
)


def _pair_of_floats(value: object) -> tuple[float, ...]:
    if not isinstance(value, Iterable):
        raise InvalidMechanism("score_change", type(value).__name__, "two numbers")
    return tuple([plain_float(item) for item in value])


@frozen(cache_hash=True)
class Exponential:
    """Selection with probability proportional to exp(epsilon * score / (2 * sensitivity)).

    Candidates must be public.

    Attributes:
        epsilon: no unit.
        score_change: the smallest and largest amount by which one record may change any score,
            in units of the sensitivity. Log-probabilities of two outcomes move apart by at
            most `range` = epsilon (high - low) / 2: epsilon for any score, half of it for
            monotone ones, (0, 1) (docs/proofs/bounded-range.md).
    """

    epsilon: float = field(converter=plain_float)
    score_change: tuple[float, ...] = field(default=(-1.0, 1.0), converter=_pair_of_floats)

    def __attrs_post_init__(self) -> None:
        moderate("Exponential epsilon", self.epsilon)
        ends = [number("Exponential score_change", end) for end in self.score_change]
        if not (len(ends) == 2 and -1 <= ends[0] < ends[1] <= 1):
            raise InvalidMechanism("Exponential score_change", self.score_change,
                                   "two rising numbers from -1 to 1")

    @property
    def range_part(self) -> Fraction:
        """Bounded range, nats, as a fraction."""
        low, high = map(Fraction, self.score_change)
        return as_promised(self.epsilon) * (high - low) / 2

    @property
    def range(self) -> float:
        """Bounded range, nats, rounded up."""
        return part_up(self.range_part)


@frozen(cache_hash=True)
class PermuteAndFlip:
    """Candidates in random order, each accepted with probability exp(c (score - best)).

    c = epsilon / (2 * sensitivity), or epsilon / sensitivity for monotone scores. Pure DP at
    `epsilon`, without the bounded range of the exponential mechanism (docs/proofs/
    bounded-range.md has a counterexample).
    """

    epsilon: float = field(converter=plain_float)

    def __attrs_post_init__(self) -> None:
        moderate("PermuteAndFlip epsilon", self.epsilon)


NOISES = ("exponential", "laplace", "gumbel")


@frozen(cache_hash=True)
class ReportNoisyMax:
    """The candidate whose score plus noise is largest. Pure DP at `epsilon`.

    Noise of scale 2 * sensitivity / epsilon on each score, or sensitivity / epsilon for
    monotone scores. With `gumbel` noise this is the exponential mechanism, and priced as such;
    `exponential` is permute-and-flip.
    """

    epsilon: float = field(converter=plain_float)
    noise: Literal["exponential", "laplace", "gumbel"] = "exponential"

    def __attrs_post_init__(self) -> None:
        moderate("ReportNoisyMax epsilon", self.epsilon)
        if self.noise not in NOISES:
            raise InvalidMechanism("ReportNoisyMax noise", self.noise, ", ".join(NOISES))


@frozen(cache_hash=True)
class TopK:
    """The canonical Lipschitz mechanism's unordered set of `k` of the candidates.

    Pure DP at `epsilon` for all k together. With `gumbel` noise on the utility classes it is
    the exponential mechanism over sets, and priced by its bounded range.
    """

    k: int = field(converter=plain_int)
    epsilon: float = field(converter=plain_float)
    noise: Literal["exponential", "gumbel"] = "exponential"

    def __attrs_post_init__(self) -> None:
        count("TopK k", self.k, most=MOST_COUNT)
        moderate("TopK epsilon", self.epsilon)
        if self.noise not in ("exponential", "gumbel"):
            raise InvalidMechanism("TopK noise", self.noise, "exponential or gumbel")


@frozen(cache_hash=True)
class SparseVector:
    """Which of a stream of queries is above a threshold, until `cutoff` of them were.

    Laplace noise of `threshold_scale` on the threshold, drawn once, and of `query_scale` on
    every query; no numeric answers (docs/proofs/sparse-vector.md).

    Attributes:
        sensitivity: L1 sensitivity of each query.
        monotone: whether one record moves all queries in the same direction.
    """

    threshold_scale: float = field(converter=plain_float)
    query_scale: float = field(converter=plain_float)
    cutoff: int = field(default=1, converter=plain_int)
    sensitivity: float = field(default=1.0, converter=plain_float)
    monotone: bool = False

    def __attrs_post_init__(self) -> None:
        moderate("SparseVector threshold_scale", self.threshold_scale)
        moderate("SparseVector query_scale", self.query_scale)
        count("SparseVector cutoff", self.cutoff, most=MOST_COUNT)
        moderate("SparseVector sensitivity", self.sensitivity)
        if not isinstance(self.monotone, bool):
            raise InvalidMechanism("SparseVector monotone", self.monotone, "True or False")


@frozen(cache_hash=True)
class RandomizedResponse:
    """With probability `noise_parameter` a uniform draw from the buckets replaces the truth.

    Stated for the replace-one relation only.
    """

    noise_parameter: float = field(converter=plain_float)
    num_buckets: int = field(default=2, converter=plain_int)

    def __attrs_post_init__(self) -> None:
        probability("RandomizedResponse noise_parameter", self.noise_parameter, one=True)
        count("RandomizedResponse num_buckets", self.num_buckets, least=2, most=MOST_COUNT)


GEOMETRIC_SCALES = (0.125, 1000.0)
"""Of geometric noise. Its law is a list of about 2 log(1/delta) scale whole numbers."""
LEAST_SHOWN = 9e-13
"""Least delta of geometric noise: its law is made of 64-bit words."""


@frozen(cache_hash=True)
class PartitionSelection:
    """Which groups have a noisy number of people of at least `threshold`, and that number.

    A person speaks for at most `groups_per_person` groups; an empty group is never published.
    Stated for add-or-remove-one only (docs/proofs/partition-selection.md).

    Attributes:
        threshold: people, above 1. Half of the groups of this size show, or more.
        scale: of the noise on each count: Laplace parameter, or standard deviation.
        noise: geometric is least for one or two groups per person, Gaussian from three on.
            Geometric noise is whole and bounded, of 1/scale nats for each group, and names as
            many groups as any rule of its price can; `GEOMETRIC_SCALES`, `LEAST_SHOWN`.
    """

    threshold: float = field(converter=plain_float)
    scale: float = field(converter=plain_float)
    groups_per_person: int = field(default=1, converter=plain_int)
    noise: Literal["laplace", "gaussian", "geometric"] = "laplace"

    def __attrs_post_init__(self) -> None:
        moderate("PartitionSelection threshold", self.threshold)
        moderate("PartitionSelection scale", self.scale)
        count("PartitionSelection groups_per_person", self.groups_per_person, most=10**6)
        if not self.threshold > 1:
            raise InvalidMechanism("PartitionSelection threshold", self.threshold, "above 1: else "
                                   "a group of one person is published more often than not")
        if self.noise not in ("laplace", "gaussian", "geometric"):
            raise InvalidMechanism("PartitionSelection noise", self.noise,
                                   "laplace, gaussian or geometric")
        least, most = GEOMETRIC_SCALES
        if self.noise == "geometric" and not (
                least <= self.scale <= most and self.shown_alone >= LEAST_SHOWN):
            raise InvalidMechanism(
                "PartitionSelection geometric", (self.threshold, self.scale), f"a scale from "
                f"{least} to {most}, and a threshold that shows a group of one person with "
                f"probability {LEAST_SHOWN} or more; else take laplace")

    @property
    def shown_alone(self) -> float:
        """Probability, rounded up, with which a group of one person is published."""
        far = (self.threshold - 1) / self.scale * (1 - 1e-15)
        shown = (math.erfc(far / math.sqrt(2)) / 2 if self.noise == "gaussian" else
                 math.exp(-far) * (0.5 if self.noise == "laplace" else
                                   math.tanh(0.5 / self.scale)))
        return max(1e-300, up(shown * (1 + 1e-12)))
