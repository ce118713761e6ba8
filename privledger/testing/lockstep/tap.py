"""A noise source that keeps every call, and steers or repeats what it says. NOT PRIVATE.

Draws come from the real samplers over seeded words. A steered draw is another one of the same
law's support: any path may be looked at, and some show more than likely ones.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from attrs import define, evolve, field, frozen
from numpy.typing import NDArray

from privledger.noise.seeded import Generator
from privledger.noise.source import SystemSource
from privledger.testing.lockstep.kept import (
    Additive,
    AdditiveLaw,
    Below,
    Chosen,
    ChosenSet,
    Draw,
    Floats,
    Ints,
    RecordedCoins,
    Responses,
    Words,
)

# Outcomes of a choice as units of weight: the same outcomes on both of two tables.
#
# Candidates of a cut are runs of cut points between records, so their number depends on the
# records. A run's weight is a public measure times its length. The units of a segment, counted
# from its first candidate, are therefore the same outcomes whatever the records are.


@frozen(eq=False)
class Units:
    """Where each candidate's units begin and end within its segment.

    Attributes:
        first, end: shape (candidates,). totals: of every segment, shape (segments,).
    """

    first: Ints
    end: Ints
    totals: Ints


def in_units(call: Chosen) -> Units:
    """The candidates of a choice in units of weight."""
    ends = np.concatenate([[0], np.cumsum(call.weights)])
    base = np.repeat(ends[call.starts[:-1]], np.diff(call.starts))
    totals = ends[call.starts[1:]] - ends[call.starts[:-1]]
    return Units(ends[:-1] - base, ends[1:] - base, totals)


def unit_within(call: Chosen, offset: Below | None) -> Ints:
    """Which unit of each segment was chosen, shape (segments,).

    Args:
        offset: the place within each chosen run, where one was drawn.
    """
    first = in_units(call).first[call.result]
    if offset is None or len(offset.result) != len(first):
        return np.asarray(first)
    measure = call.weights[call.result] // np.maximum(offset.bounds, 1)
    return np.asarray(first + offset.result * measure)


def of_units(call: Chosen, units: Ints) -> tuple[Ints, Ints]:
    """The candidates that hold these units, and how many units into them, shape (segments,)."""
    held = in_units(call)
    chosen = np.zeros(len(units), dtype=np.int64)
    for segment, unit in enumerate(units.tolist()):
        part = slice(int(call.starts[segment]), int(call.starts[segment + 1]))
        place = int(np.searchsorted(held.end[part], unit, side="right"))
        chosen[segment] = part.start + min(place, part.stop - part.start - 1)
    return chosen, np.asarray(units - held.first[chosen])


def offset_within(units: Ints, weights: Ints, bounds: Ints) -> Ints | None:
    """The place within each chosen run that a unit is; None where the bounds are not its length.

    Args:
        units: into each chosen run. weights: of the chosen runs: a measure times the length.
    """
    if len(units) != len(bounds) or (bounds < 1).any() or (weights % bounds).any():
        return None
    return np.asarray(np.minimum(units // (weights // bounds), bounds - 1))


S = TypeVar("S", bound=np.generic)
D = TypeVar("D", Additive, Below, Chosen, ChosenSet, RecordedCoins, Responses, Words)


class SeededWords(SystemSource):
    """The real samplers over words that a seed repeats."""

    private = False

    def __init__(self, rng: Generator) -> None:
        super().__init__()
        self._rng = rng

    def _words(self, size: int) -> NDArray[np.uint64]:
        return self._rng.integers(0, 1 << 64, size=size, dtype=np.uint64)


@frozen
class Steering:
    """How a run's draws are made unusual.

    Attributes:
        wide: noise is this many times wider than asked for.
        sign: -1 or 1 for noise of one sign, 0 for both.
        uniform: probability of a choice that ignores its scores.
        inside: probability that the last record's own coin shows heads, None for its law's.
    """

    wide: float = 1.0
    sign: int = 0
    uniform: float = 0.0
    inside: float | None = None


@define(eq=False)
class Tap:
    """The NoiseSource of a lock's runs.

    Attributes:
        rng: of everything that is drawn here.
        steering: of fresh draws.
        script: draws of an earlier run, in order; none for a run that is recorded.
        quiet: whether additive noise is zero, so that answers show what stands below.
        repeat: whether choices are those of the script; else they are drawn anew.
        shared: whether coins of records are those of the script; else they are drawn anew.
        draws: what was drawn so far, in order.
        parted: the first call that the script did not have, in words; empty for none.
    """

    rng: Generator
    steering: Steering = Steering()
    script: tuple[Draw, ...] = ()
    quiet: bool = False
    repeat: bool = True
    shared: bool = True
    draws: list[Draw] = field(factory=list)
    parted: str = ""
    _source: SeededWords = field(init=False)
    _pending: tuple[Ints, Ints] | None = field(init=False, default=None)

    private = False

    def __attrs_post_init__(self) -> None:
        self._source = SeededWords(self.rng)

    @property
    def coins(self) -> Tap:
        """As `NoiseSource.coins`."""
        return self

    def describe(self) -> str:
        """One line for reports and records."""
        return "NOT PRIVATE (a lock's tap)"

    def integers64(self, size: int) -> NDArray[np.uint64]:
        """As `NoiseSource.integers64`; a record that both runs have gets the same word, and so
        has each group of a person: the person that differs has the last ones."""
        fresh = self._source.integers64(size)
        told = self._told(Words)
        if told is not None:
            fresh = _shared(told.result, fresh, most=size)
        return self._keep(Words(fresh), fresh)

    def gaussian(self, sigma: object, size: int) -> Ints:
        return self._additive("gaussian", sigma, size)

    def laplace(self, scale: object, size: int) -> Ints:
        return self._additive("laplace", scale, size)

    def discrete_laplace(self, parameter: float, size: int) -> Ints:
        return self._additive("discrete_laplace", 1 / parameter, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Ints:
        return self._additive("discrete_gaussian", sigma, size)

    def _additive(self, law: AdditiveLaw, scale: object, size: int) -> Ints:
        """Whole steps are never zero: a step is seen by what was added."""
        width = np.array(scale, dtype=np.float64)
        scales: Floats = np.broadcast_to(width, (size,)).copy()
        self._told(Additive)
        found = np.zeros(size, dtype=np.int64)
        if not self.quiet and law in ("gaussian", "laplace"):
            found = getattr(self._source, law)(np.minimum(scales * self.steering.wide, 2.0**52),
                                               size)
        elif not self.quiet:
            wide = min(float(width) * self.steering.wide, 2.0**50)
            found = getattr(self._source, law)(1 / wide if law == "discrete_laplace" else wide,
                                               size)
            found[found == 0] = 1
        if self.steering.sign:
            found = self.steering.sign * np.abs(found)
        return self._keep(Additive(law, scales, found), found)

    def bernoulli(self, rate: float, size: int) -> NDArray[np.bool_]:
        """As `NoiseSource.bernoulli`; a record that both runs have gets the same coin."""
        fresh = self._source.bernoulli(rate, size)
        if size and self.steering.inside is not None and 0 < rate < 1:
            fresh[-1] = self.rng.random() < self.steering.inside
        told = self._told(RecordedCoins)
        if told is not None and self.shared:
            fresh = _shared(told.result, fresh)
        return self._keep(RecordedCoins(float(rate), fresh), fresh)

    def integer_below(self, bound: int) -> int:
        return int(self.uniform_below(np.array([bound], dtype=np.int64))[0])

    def uniform_below(self, bounds: Ints) -> Ints:
        """As `NoiseSource.uniform_below`; the place within a chosen run follows its unit."""
        bounds = np.asarray(bounds, dtype=np.int64)
        pending, after = self._pending, self.draws[-1] if self.draws else None
        told = self._told(Below)
        fresh = self._source.uniform_below(bounds)
        within = None if pending is None else offset_within(*pending, bounds)
        if within is not None:
            fresh = within
        elif told is not None and (self.repeat or not isinstance(after, Chosen)):
            fits = len(told.result) == len(bounds)
            fresh = np.where(told.result < bounds, told.result, fresh) if fits else fresh
        return self._keep(Below(bounds, fresh), fresh)

    def choose(self, scores: Floats, weights: Ints, starts: Ints, rate: float) -> Ints:
        """As `NoiseSource.choose`; in a repeated run the option that holds the same unit."""
        return self._chosen("exponential", scores, weights, starts, rate)

    def permute_and_flip(self, scores: Floats, starts: Ints, rate: float) -> Ints:
        weights = np.ones(len(scores), dtype=np.int64)
        return self._chosen("permute_and_flip", scores, weights, starts, rate)

    def _chosen(self, law: Literal["exponential", "permute_and_flip"], scores: Floats,
                weights: Ints, starts: Ints, rate: float) -> Ints:
        place, pending = len(self.draws), None
        told = self._told(Chosen)
        call = Chosen(law, scores.copy(), weights.copy(), starts.copy(), float(rate),
                      np.zeros(len(starts) - 1, dtype=np.int64))
        if told is not None and self.repeat:
            result, pending = self._same_units(told, place, call)
        elif len(starts) > 1 and self.rng.random() < self.steering.uniform:
            units = self.rng.integers(0, in_units(call).totals)
            result, within = of_units(call, units)
            pending = within, call.weights[result]
        elif law == "exponential":
            result = self._source.choose(scores, weights, starts, rate)
        else:
            result = self._source.permute_and_flip(scores, starts, rate)
        kept = self._keep(evolve(call, result=result), result)
        self._pending = pending
        return kept

    def _same_units(self, told: Chosen, place: int,
                    call: Chosen) -> tuple[Ints, tuple[Ints, Ints] | None]:
        """What the script chose, found in this table's candidates."""
        following = self.script[place + 1] if place + 1 < len(self.script) else None
        offset = following if isinstance(following, Below) else None
        units = unit_within(told, offset)
        if len(units) != len(call.result):
            self._part("another number of choices")
            units = np.zeros(len(call.result), dtype=np.int64)
        found, within = of_units(call, units)
        return found, None if offset is None else (within, call.weights[found])

    def randomized_response(self, codes: Ints, buckets: int, noise_parameter: float) -> Ints:
        found = self._source.randomized_response(codes, buckets, noise_parameter)
        told = self._told(Responses)
        if self.rng.random() < self.steering.uniform:
            found = self.rng.integers(0, buckets, size=len(codes))
        if told is not None and self.repeat and len(told.result) == len(codes):
            found = told.result
        call = Responses(codes.copy(), int(buckets), float(noise_parameter), found)
        return self._keep(call, found)

    def top_k(self, scores: Floats, k: int, rate: float,
              noise: Literal["exponential", "gumbel"], gamma: float = 0.5) -> Ints:
        found = self._source.top_k(scores, k, rate, noise, gamma)
        told = self._told(ChosenSet)
        if self.rng.random() < self.steering.uniform:
            found = np.sort(self.rng.choice(len(scores), size=k, replace=False))
        if told is not None and self.repeat and len(told.result) == k:
            found = told.result
        call = ChosenSet(scores.copy(), int(k), float(rate), noise, float(gamma), found)
        return self._keep(call, found)

    def _told(self, kind: type[D]) -> D | None:
        """The script's draw at this place; None in a run that is recorded, or once parted."""
        if not self.script or self.parted:
            return None
        place = len(self.draws)
        told = self.script[place] if place < len(self.script) else None
        if not isinstance(told, kind):
            self._part(f"draw {place} is of kind {kind.__name__}")
            return None
        return told

    def _part(self, why: str) -> None:
        self.parted = self.parted or why

    def _keep(self, draw: Draw, said: NDArray[S]) -> NDArray[S]:
        self.draws.append(draw)
        self._pending = None
        return said.copy()


def _shared(told: NDArray[S], fresh: NDArray[S], most: int = 1) -> NDArray[S]:
    """What records of both runs got before; the record that differs comes last.

    Args:
        most: in so many places the runs may differ in length.
    """
    if abs(len(told) - len(fresh)) > most:
        return fresh
    both = min(len(told), len(fresh))
    fresh[:both] = told[:both]
    return fresh
