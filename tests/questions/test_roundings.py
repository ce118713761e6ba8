"""Every bound that a float only comes near to lies on the safe side of its exact number.

Against fractions: a bound that is rounded to the nearest fails for about half of the examples.
"""

from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.graph import fold_rules
from privledger.graph.fold import cost_of
from privledger.questions import Query
from privledger.questions.feature_choice import FeatureChoice, rank_sensitivity
from privledger.questions.question import Bound, rate_of
from privledger.questions.sums import cell_sums
from privledger.rounding import as_promised
from tests.worlds import schema_of

parts = st.floats(1e-9, 0.999)
sizes = st.floats(1e-6, 1e6)
full = st.integers(2**52, 2**53 - 1).map(lambda whole: whole / 2**52)  # every bit of its own


@settings(max_examples=400)
@given(full, full, full)
def test_no_choice_is_steeper_than_its_epsilon(epsilon, sensitivity, width):
    """One record moves all scores by `width` sensitivities at most, apart from each other."""
    choice = SimpleNamespace(bound=Bound(sensitivity, (1 - width, 1.0)),
                             sensitivity=lambda relation: sensitivity,
                             check_chooser=lambda mechanism: None)
    exact = 1 - Fraction(1 - width)
    rate = rate_of(pl.PermuteAndFlip(epsilon), choice, "add_remove")
    assert Fraction(rate) * Fraction(sensitivity) * exact <= as_promised(epsilon)
    rate = rate_of(pl.Exponential(epsilon), choice, "add_remove")
    assert 2 * Fraction(rate) * Fraction(sensitivity) <= as_promised(epsilon)


@given(sizes)
def test_a_replacement_in_two_cells_is_as_long_as_it_may_be(clip):
    """A removal here and an arrival there, each of the clip: by Pythagoras."""
    block = SimpleNamespace(clip=clip, signed=False, width=2)
    for moves in (False, True):
        question = SimpleNamespace(_moves=lambda relation, moves=moves: moves)
        found = Query.sensitivity(question, block, "replace_one", 2)
        assert Fraction(found) ** 2 >= 2 * Fraction(clip) ** 2


@pytest.mark.parametrize("classes", [*range(2, 40), 999, 1000])
def test_ranks_move_no_further_than_said(classes):
    schema = schema_of("toy", {"a": (0.0, 1.0)}, t=[*map(str, range(classes))])
    most = Fraction(rank_sensitivity(schema))
    assert most >= 1 + (1 - Fraction(1, classes - 1)) / 2
    low, high = FeatureChoice.bound_of("rank", schema).change
    assert low == -1 and (high == 1 or Fraction(high) * most >= 1)


@given(parts, parts)
def test_what_fails_in_a_sample_fails_no_less_often_than_it_is_sampled(rate, failure):
    node = pl.PoissonSample(rate, pl.Asserted(1.0, "somebody says so", delta=failure))
    assert cost_of(node).failure >= Fraction(rate) * Fraction(failure)


@given(st.integers(2, 10**6), st.data())
def test_a_share_of_a_fixed_number_is_no_smaller_than_its_fraction(out_of, data):
    size, seen = data.draw(st.integers(1, out_of - 1)), []
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fixed_size", "poisson_pure_epsilon"):
            true = getattr(fold_rules, name)
            patch.setattr(fold_rules, name, lambda rate, inner, true=true: (
                seen.append(rate), true(rate, inner))[1])
        found = cost_of(pl.nodes.FixedSizeSample(size, out_of, pl.Asserted(
            1.0, "somebody says so", delta=1e-3)), "replace_one").failure
        cost_of(pl.nodes.FixedSizeSample(size, out_of, pl.Laplace(3.0)), "replace_one")
    assert len(seen) >= 2 and all(rate >= Fraction(size, out_of) for rate in seen)
    assert found >= Fraction(size, out_of) * Fraction(1e-3)


def test_a_count_in_grid_steps_is_the_sum_of_ones():
    cells = np.array([0, 2, 2, 1, 2])
    for grid in (1.0, 0.25, 2.0**-20):
        counted = cell_sums(None, grid, cells, 3, 5, 1, 1 / grid)
        summed = cell_sums(np.ones(5), grid, cells, 3, 5, 1, 1 / grid)
        assert counted.tolist() == summed.tolist() == [[1 / grid], [1 / grid], [3 / grid]]
