"""Simulation noise repeats, and says that it is not private."""

from __future__ import annotations

import math

import numpy as np
import pytest

from privledger.errors import InvalidValue
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource
from tests.worlds import refused


def test_it_is_marked_not_private() -> None:
    source = SeededSource(12)
    assert isinstance(source, NoiseSource)
    assert source.private is False
    assert source.describe() == "NOT PRIVATE (simulation, seed 12)"


def test_the_same_seed_repeats() -> None:
    def draws(seed: int) -> list[list[int]]:
        source = SeededSource(seed)
        return [
            source.gaussian(50.0, 40).tolist(),
            source.laplace(np.full(40, 50.0), 40).tolist(),
            source.bernoulli(0.5, 40).tolist(),
            source.integers64(40).tolist(),
            [source.integer_below(10**6)]]

    assert draws(1) == draws(1)
    assert draws(1) != draws(2)


def test_shapes_types_and_spread() -> None:
    source = SeededSource(3)
    for draws in (source.gaussian(100.0, 50_000), source.laplace(100 / math.sqrt(2), 50_000)):
        assert draws.dtype == np.int64
        assert draws.std() == pytest.approx(100, rel=0.05)
    assert source.gaussian(1.0, 0).shape == (0,)
    assert source.bernoulli(1, 5).all()
    assert not source.bernoulli(0, 5).any()


@pytest.mark.parametrize("seed", [-1, 1.5, True, "1", None])
def test_impossible_seeds_are_refused(seed: object) -> None:
    refused(InvalidValue, lambda: SeededSource(seed))  # type: ignore[arg-type]


@pytest.mark.parametrize("scale", [math.nan, 0, -1.0, True, "1"])
def test_impossible_scales_are_refused(scale: object) -> None:
    refused(InvalidValue, lambda: SeededSource(0).gaussian(scale, 1),
            lambda: SeededSource(0).laplace(scale, 1))
