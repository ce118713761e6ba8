"""Conversions round against the one who spends, and undo each other."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from privledger.accounting import (
    RdpCurve,
    delta_from_rdp,
    epsilon_from_mu,
    epsilon_from_rdp,
    gaussian_rdp,
    pure_rdp,
    rdp_cap,
)
from privledger.errors import InvalidValue
from tests.all_cases import all_cases

BAD = [math.nan, math.inf, -1.0, True, "1", None, 1e-310]


def test_known_value() -> None:
    epsilon, order = epsilon_from_rdp(RdpCurve((2.0, 8.0), (0.04, 0.16)), 1e-5)
    assert epsilon == pytest.approx(0.16 + math.log(7 / 8) - math.log(8e-5) / 7, rel=1e-12)
    assert order == 8.0


@given(st.floats(0.05, 100), st.floats(1e-30, 0.1))
def test_the_two_directions_are_inverse(noise: float, delta: float) -> None:
    curve = gaussian_rdp(noise)
    epsilon, _ = epsilon_from_rdp(curve, delta)
    back, _ = delta_from_rdp(curve, epsilon)
    assert back <= delta * (1 + 1e-8)
    if epsilon > 0:
        assert back >= delta * (1 - 1e-6)


@given(st.floats(0.02, 1000), st.floats(1e-30, 0.1))
def test_never_below_the_truth(noise: float, delta: float) -> None:
    assert epsilon_from_rdp(gaussian_rdp(noise), delta)[0] >= epsilon_from_mu(1 / noise, delta)


@given(st.floats(0.01, 20), st.floats(0, 20))
def test_delta_is_never_below_randomized_response(pure: float, epsilon: float) -> None:
    if 0 < epsilon < 1e-300:
        return
    exact = (math.exp(pure) - math.exp(epsilon)) / (math.exp(pure) + 1)
    assert delta_from_rdp(pure_rdp(pure), epsilon)[0] >= exact


@given(st.floats(0.01, 50), st.floats(1e-30, 0.1), st.floats(1.01, 1e6))
def test_a_spent_cap_proves_its_epsilon(epsilon: float, delta: float, order: float) -> None:
    cap = rdp_cap(epsilon, delta, order)
    assert cap >= 0
    if cap > 1e-300:
        assert epsilon_from_rdp(RdpCurve((order,), (cap,)), delta)[0] <= epsilon


def test_infinite_bounds_prove_nothing() -> None:
    assert epsilon_from_rdp(RdpCurve((2.0, 4.0), (math.inf, 1.0)), 1e-6)[1] == 4.0
    assert epsilon_from_rdp(RdpCurve((2.0,), (math.inf,)), 1e-6)[0] == math.inf
    assert delta_from_rdp(RdpCurve((2.0,), (math.inf,)), 1.0)[0] == 1.0


def test_zero_curve_is_free() -> None:
    assert epsilon_from_rdp(RdpCurve.zero(), 1e-300)[0] == 0
    assert delta_from_rdp(RdpCurve.zero(), 0.0)[0] == 0


@all_cases("bad", [*BAD, 0.0, 1.0])
def test_bad_delta_is_refused(bad: float) -> None:
    for call in (lambda: epsilon_from_rdp(gaussian_rdp(1), bad), lambda: rdp_cap(1.0, bad, 2.0)):
        with pytest.raises(InvalidValue):
            call()


@pytest.mark.parametrize("bad", BAD)
def test_bad_epsilon_or_order_is_refused(bad: float) -> None:
    for call in (
        lambda: delta_from_rdp(gaussian_rdp(1), bad), lambda: rdp_cap(bad, 1e-5, 2.0),
        lambda: rdp_cap(1.0, 1e-5, bad), lambda: epsilon_from_rdp(bad, 1e-5),
    ):
        with pytest.raises(InvalidValue):
            call()
