"""Choices of one bounded range, each after the last was seen: between two sides, and by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.accounting.pld import ranges
from privledger.accounting.pld.accountant import delta_upper, epsilon_upper
from privledger.accounting.pld.by_pld import delta_of_one
from privledger.accounting.pld.pairs import BoundedRangePair
from privledger.accounting.pld.ranges import (
    MOST_ROUNDS,
    delta_above,
    epsilon_above,
    epsilon_below,
    forms,
    mesh_of,
    only_ranges,
    ranges_above,
    ranges_below,
    ranges_pair,
    with_ranges,
)
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair
from tests.all_cases import all_cases

SIZES = st.floats(1e-3, 2.0)


def two_losses(eta, offset):
    """(loss, P mass) of a choice between two candidates whose losses are `offset` and less eta."""
    likely = math.expm1(eta - offset) / math.expm1(eta) * math.exp(offset)
    return (offset, likely), (offset - eta, 1 - likely)


def attained(eta, left, ratio, offset_of):
    """E_P max(0, 1 - ratio exp(-loss)) of choices whose offsets follow a rule, by every path."""
    if left == 0:
        return max(0.0, 1 - ratio)
    return sum(mass * attained(eta, left - 1, ratio * math.exp(-loss), offset_of)
               for loss, mass in two_losses(eta, offset_of(left, ratio)) if mass > 0)


@settings(max_examples=60)
@given(eta=SIZES, count=st.integers(1, 7), epsilon=st.floats(0.0, 1.0), rule=st.integers(0, 2**30))
def test_no_rule_of_choosing_attains_more(eta, count, epsilon, rule):
    """Any rule at all is a mechanism of this range: by enumeration, sharing nothing."""
    at = epsilon * count * eta

    def offset_of(left, ratio):
        share = math.sin(rule * (1 + left) + 3 * math.log(max(ratio, 1e-300)))  # wild, but a rule
        return eta * (0.5 + 0.45 * share)

    def sensible(left, ratio):
        return eta * min(1.0, max(0.0, 0.5 + 0.5 * math.log(ratio) / (left * eta)))

    for one in (offset_of, sensible, lambda left, ratio: eta / 2):
        assert attained(eta, count, math.exp(at), one) <= delta_above(eta, count, at) + 1e-14


@settings(max_examples=20)
@given(eta=SIZES, count=st.integers(2, 128), log_delta=st.floats(-30.0, -1.0))
@example(eta=1.0, count=2, log_delta=-20.0)
@example(eta=0.001, count=3, log_delta=-20.0)
def test_both_sides_meet(eta, count, log_delta):
    """The profile at `above` is delta, and at most 1e-9 of the profile one place before.

    Proof: in a cell it is the chord `high + share (low - high)`, low >= 0. `epsilon_above` takes
    the share where the chord is delta, and `delta_above` 1e-9 of it less: at most 1e-9 high more.
    """
    delta = 10**log_delta
    below, above = epsilon_below(eta, count, delta), epsilon_above(eta, count, delta)
    assert below <= above <= count * eta * (1 + 1e-12)
    if 0.01 * count * eta < above < 0.9 * count * eta:  # near the top pure DP says the same
        assert above <= below * (1 + 5e-4)
    if above > 0:
        before = delta_above(eta, count, max(0.0, above - 1.5 * mesh_of(eta, count)[0]))
        assert delta_above(eta, count, above) <= delta * (1 + 1e-6) + 1.1e-9 * before


def test_one_choice_is_the_closed_form():
    pair = BoundedRangePair(0.7)
    for epsilon in (0.0, 0.2, 0.5, 0.69):
        exact = delta_of_one(pair, epsilon)
        assert exact <= delta_above(0.7, 1, epsilon) <= exact * (1 + 1e-4) + 1e-9


def test_the_two_sides_on_a_grid_of_all_chords():
    """Every offset of the grid, tried one by one: what the search from below has to find."""
    eta, count = 0.3, 4
    fine = ranges.mesh_of(eta, count)[1]
    chords = ranges._chords(eta / fine, fine)
    reach = count * fine
    ratio = np.exp(np.arange(-reach - fine, reach + fine + 1) * chords.step)
    held = np.maximum(1 - ratio, 0.0)
    at = np.arange(fine, fine + 2 * reach + 1)
    for _ in range(count):
        best = held[at].copy()
        for offset in range(fine + 1):
            best = np.maximum(best, chords.over(held, at - offset, np.full_like(at, offset)))
        held[fine:-fine] = best
    found, most = ranges_below(eta, count), ranges_above(eta, count)
    low, high = found.low, len(found.value) - found.low - 1
    whole = held[fine + reach - low:fine + reach + high + 1]
    assert np.all(found.value <= whole * (1 + 1e-12))
    assert np.all(found.value >= whole * (1 - 1e-9) - 1e-15)
    assert np.all(most.value >= whole * (1 - 1e-12))


@pytest.mark.parametrize("broken", ["_raise_inside", "_above_all"])
def test_what_is_left_out_is_seen(monkeypatch, broken):
    """Neither the search nor what stands out between the places is for show."""
    ranges_above.cache_clear()
    whole = ranges_above(0.2, 10).value
    ranges_above.cache_clear()
    if broken == "_raise_inside":
        monkeypatch.setattr(ranges, "_raise_inside", lambda *given: None)
        assert np.all(ranges_above(0.2, 10).value <= whole * (1 + 1e-11))
        assert np.any(ranges_above(0.2, 10).value < whole * (1 - 1e-6))
    else:
        # A search that finds nothing at all is still made good: each chord is asked for.
        monkeypatch.setattr(ranges, "_best", lambda chords, held, tried, at: (held[at], tried))
        assert np.all(ranges_above(0.2, 10).value >= whole * (1 - 1e-9))
    ranges_above.cache_clear()


def test_prices_fall_to_it_and_say_how_far_from_the_least_they_are():
    """100 choices of .1: 2.4008 by Renyi DP, 2.6118 by the product of single profiles."""
    plan = pl.Repeat(pl.Exponential(0.1), 100)
    found = pl.explain(plan, 1e-6)
    assert 2.25082 < found.lower <= found.certificate.epsilon < 2.25099
    assert found.certificate.pld.added >= found.certificate.epsilon - 2.25095
    assert pl.epsilon(pl.Repeat(pl.Exponential(0.1), 1000), 1e-6) < 8.3327


@given(eta=st.floats(0.01, 0.5), count=st.integers(2, 400), noise=st.floats(2.0, 50.0))
@settings(max_examples=10)
def test_beside_others_they_cost_no_less_than_alone_and_no_more_than_before(eta, count, noise):
    choices = pl.Repeat(pl.Exponential(eta), count)
    alone = pl.epsilon(choices, 1e-6)
    both = pl.epsilon(pl.Sequential((choices, pl.Gaussian(noise))), 1e-6)
    assert both >= alone * (1 - 1e-4)
    before = epsilon_upper(((BoundedRangePair(eta), count),), 1e-6).value
    assert alone <= before * (1 + 1e-4)
    assert pl.explain(choices, 1e-6).lower <= alone


def test_many_rounds_are_put_together_from_profiles():
    items = ((BoundedRangePair(0.1), 2 * MOST_ROUNDS + 1), (BoundedRangePair(0.01), 3))
    found = dict(with_ranges(items, 8.0))
    assert found == {BoundedRangePair(0.01): 3, BoundedRangePair(0.1): 1,
                     ranges_pair(0.1, MOST_ROUNDS, 8.0): 2}
    assert only_ranges(items) is None and only_ranges(items[1:]) == (0.01, 3)
    assert with_ranges(((BoundedRangePair(5.0), 9),), 8.0) == ((BoundedRangePair(5.0), 9),)


@pytest.mark.parametrize("eta", [0.05, 0.4])
@pytest.mark.parametrize("count", [2, 17, 128])
def test_the_pair_has_the_profile(eta, count):
    pair = ranges_pair(eta, count, 8.0)
    for share in (0.0, 0.1, 0.3):
        at = share * count * eta
        exact = delta_above(eta, count, at)
        assert exact * (1 - 1e-9) <= delta_of_one(pair, at) <= exact * (1 + 1e-6) + 1e-15
    assert delta_upper(((pair, 1),), 0.1 * count * eta).value >= delta_above(
        eta, count, 0.1 * count * eta) * (1 - 1e-9)


@all_cases("kind", [RemovePair, AddPair])
@all_cases("rate", [1e-6, 0.01, 0.5, 0.999])
def test_a_sampled_choice_is_one_of_a_smaller_range(kind, rate):
    """Once, its profile is above that of the sampled pair, which is exact then."""
    items = ((kind(rate, BoundedRangePair(0.8)), 1),)
    first, ((pair, count),) = forms(items)
    assert first == items and count == 1
    assert 0 < pair.eta <= 0.8
    for epsilon in (0.0, 0.01 * pair.eta, 0.5 * pair.eta, 0.99 * pair.eta):
        assert delta_of_one(pair, epsilon) >= delta_of_one(items[0][0], epsilon) * (1 - 1e-9)
    assert list(forms(((BoundedRangePair(0.8), 4),))) == [((BoundedRangePair(0.8), 4),)]


def test_delta_asks_renyi_where_pairs_only_dominate():
    """It was .033 where epsilon had been found at 1e-7."""
    plan = pl.Repeat(pl.Exponential(2.6), 300)
    assert pl.delta(plan, pl.epsilon(plan, 1e-7)) <= 1.01e-7


@pytest.mark.parametrize(("rate", "eta", "count", "epsilon"), [(0.2, 1.0, 20, 0.5),
                                                               (0.5, 0.3, 12, 0.3)])
def test_sampled_choices_cost_the_least_of_what_dominates_them(rate, eta, count, epsilon):
    """The sample is told: each is a choice of a smaller range, too."""
    node = pl.Repeat(pl.PoissonSample(rate, pl.Exponential(eta)), count)
    told = math.log1p(rate * math.expm1(eta))
    assert pl.delta(node, epsilon=epsilon) <= delta_above(told, count, epsilon) * (1 + 1e-9)
    assert pl.epsilon(node, 1e-6) <= pl.epsilon(
        pl.Repeat(pl.Exponential(told), count), 1e-6) * (1 + 1e-9)
