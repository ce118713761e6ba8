"""Units of weight and digests: what makes two tables' runs comparable."""

from itertools import pairwise

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.testing.lockstep.kept import Below, Chosen
from privledger.testing.lockstep.replay import Digester
from privledger.testing.lockstep.tap import (
    Steering,
    Tap,
    in_units,
    of_units,
    offset_within,
    unit_within,
)
from tests.worlds import protected, schema_of


@st.composite
def choices(draw):
    """Segments of runs: lengths times a measure, and one chosen run in each."""
    segments = draw(st.lists(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 5)),
                                      min_size=1, max_size=5), min_size=1, max_size=4))
    lengths = np.array([length for part in segments for length, _ in part])
    measures = np.array([measure for part in segments for _, measure in part])
    starts = np.concatenate([[0], np.cumsum([len(part) for part in segments])])
    chosen = np.array([draw(st.integers(int(a), int(b) - 1)) for a, b in pairwise(starts)])
    within = np.array([draw(st.integers(0, int(lengths[place]) - 1)) for place in chosen])
    call = Chosen("exponential", np.zeros(len(lengths)), lengths * measures, starts, 1.0, chosen)
    return call, Below(lengths[chosen], within)


@given(choices())
def test_an_outcome_and_its_unit_are_one(case):
    call, offset = case
    units = unit_within(call, offset)
    assert (units < in_units(call).totals).all()
    found, rest = of_units(call, units)
    assert found.tolist() == call.result.tolist()
    again = offset_within(rest, call.weights[found], offset.bounds)
    assert again.tolist() == offset.result.tolist()


@given(choices())
def test_other_outcomes_are_other_units(case):
    call, offset = case
    every = set()
    for place in range(int(call.starts[0]), int(call.starts[1])):
        for within in range(int(call.weights[place])):
            chosen = call.result.copy()
            chosen[0] = place
            one = evolve(call, result=chosen)
            bounds = offset.bounds.copy()
            bounds[0] = call.weights[place]
            places = offset.result.copy()
            places[0] = within
            every.add(int(unit_within(one, Below(bounds, places))[0]))
    assert every == set(range(int(in_units(call).totals[0])))


def test_digests_tell_questions_apart_and_not_the_names_of_handles():
    schema = schema_of("t", {"x": (0.0, 1.0)})
    said = []
    for bound in (0.5, 0.5, 0.25):
        _, data = protected(pl.Budget(1.0), {"x": [0.1, 0.9]}, None, schema)
        parts = data.partition(pl.questions.IntervalCells("x", (bound,)))
        digester = Digester()
        said.append((digester.of(parts[0].count()), digester.of(parts[1].count()),
                     digester.of(data.poisson(0.5).count())))
    assert said[0] == said[1]
    assert said[0][0] != said[0][1]
    assert said[0][0] != said[2][0]
    assert said[0][2] == said[2][2]


@pytest.mark.parametrize("inside", [0.0, 0.5, 1.0])
def test_a_coin_that_shows_one_side_only_is_not_steered(inside):
    tap = Tap(np.random.default_rng(1), Steering(inside=inside))
    for _ in range(20):
        assert tap.bernoulli(1.0, 4).all() and not tap.bernoulli(0.0, 4).any()
        assert inside == 0.5 or tap.bernoulli(0.3, 4)[-1] == inside
    assert tap.bernoulli(0.3, 0).tolist() == []
