"""The sum of losses against exact convolution, its error bounds, and windows that are too small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from privledger.accounting.pld.accountant import profile
from privledger.accounting.pld.compose import Composed, compose
from privledger.accounting.pld.lattice import Lattice, good_size
from privledger.accounting.pld.masses import Masses, upper_masses
from privledger.accounting.pld.merged import lower_masses
from privledger.accounting.pld.pairs import BoundedRangePair, GaussianPair, LaplacePair, pure_pair
from tests.accounting.pld import exact
from tests.all_cases import all_cases

Items = Sequence[tuple[Masses, int]]
STEP = 0.125
SMALL = (
    [(Masses(-2, np.array([0.1, 0.2, 0.0, 0.4, 0.3]), 0.0), 3)],
    [(Masses(-1, np.array([0.3, 0.3, 0.4]), 1e-3), 4), (Masses(0, np.array([0.5, 0.5]), 0.0), 2)],
    [(Masses(-4, np.array([1e-9, 1e-4, 0.5, 0.4, 0.0999]), 1e-7), 5)],
    [(Masses(3, np.array([0.25, 0.75]), 0.0), 1), (Masses(-7, np.array([1.0]), 0.0), 6),
     (Masses(-1, np.array([0.2, 0.6, 0.2]), 0.0), 2)],
)


def window(first: int, size: int, tilt: float, *, turn: float = 2.0) -> Lattice:
    """A lattice by hand; `mean` is unknown, so that the window stays where it is put."""
    return Lattice(STEP, first, size, tilt, STEP * (first + size / 2), 0.0,
                   (-turn, turn, turn), 0.0)


def placed(items: Items, lattice: Lattice) -> Lattice:
    """`lattice` with the mean that `compose` will find: it then leaves the window alone."""
    once = compose(items, lattice)
    moved = once.lattice.first - lattice.first
    return evolve(lattice, mean=lattice.mean + moved * lattice.step)


def roomy(items: Items, tilt: float) -> Lattice:
    """A window that holds every sum."""
    low = sum(count * masses.first for masses, count in items)
    high = sum(count * (masses.first + len(masses.p) - 1) for masses, count in items)
    return placed(items, window(low - 3, good_size(high - low + 8), tilt))


def exact_tilted(composed: Composed, total: Masses) -> list[mp.mpf]:
    """The exact sum's tilted masses, wrapped into the window of `composed`."""
    lattice = composed.lattice
    h, t = mp.mpf(lattice.step), mp.mpf(lattice.tilt)
    weights = [mass * mp.exp(t * h * (total.first + k)) for k, mass in enumerate(total.p)]
    moment = mp.fsum(weights)
    found = [mp.mpf(0)] * lattice.size
    for k, weight in enumerate(weights):
        found[(total.first + k - lattice.first) % lattice.size] += weight / moment
    return found


@all_cases("tilt", [0.0, 0.7, 5.0, 40.0])
@all_cases("items", SMALL)
def test_exact_convolution_within_the_error_bound(items: Items, tilt: float) -> None:
    composed = compose(items, roomy(items, tilt))
    with mp.workdps(exact.DIGITS):
        total = exact.convolved(items)
        true = exact_tilted(composed, total)
        assert len(composed.tilted) == len(true)
        assert max(abs(a - b) for a, b in zip(composed.tilted, true, strict=True)) \
            <= composed.error
        assert composed.error < 1e-12
        moment = mp.log(mp.fsum(
            mass * mp.exp(mp.mpf(tilt) * STEP * (total.first + k))
            for k, mass in enumerate(total.p)))
        assert moment <= composed.log_moment + composed.log_slack <= moment + 1e-12
        assert total.infinite <= composed.infinite <= total.infinite * (1 + 1e-2)
    assert composed.beyond == composed.wrapped == 0 and composed.whole


@pytest.mark.parametrize("tilt", [0.0, 2.0, 9.0])
def test_the_error_bound_holds_for_powers(tilt: float) -> None:
    """Numpy's direct convolution of positive numbers has a small relative error in each mass."""
    rng = np.random.default_rng(8)
    masses = Masses(-40, rng.dirichlet(np.full(90, 0.3)), 0.0)
    direct = np.array([1.0])
    for _ in range(37):
        direct = np.convolve(direct, masses.p)
    composed = compose([(masses, 37)], roomy([(masses, 37)], tilt))
    lattice = composed.lattice
    log = tilt * STEP * (37 * -40 + np.arange(len(direct)))
    weight = np.exp(log + np.log(np.maximum(direct, 1e-300)) - composed.log_moment)
    start = 37 * -40 - lattice.first
    found = composed.tilted[start:start + len(direct)]
    assert np.max(np.abs(found - weight)) <= composed.error + 3e-11 * weight.max()


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 6), tilt=st.floats(0.0, 30.0),
       first=st.integers(-5, 5))
def test_any_masses_within_the_error_bound(data, count, tilt, first) -> None:
    p = np.array(data.draw(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=7)))
    if not p.sum() > 1e-3:
        p[0] = 1.0
    items = [(Masses(first, p / p.sum(), 0.0), count)]
    composed = compose(items, roomy(items, tilt))
    with mp.workdps(exact.DIGITS):
        true = exact_tilted(composed, exact.convolved(items))
        assert max(abs(a - b) for a, b in zip(composed.tilted, true, strict=True)) \
            <= composed.error


# --- profiles of sums -------------------------------------------------------------------------


@cache
def long_total(which: int) -> Masses:
    return exact.convolved(LONG[which])


def points(items: Items) -> list[float]:
    high = STEP * sum(count * (masses.first + len(masses.p) - 1) for masses, count in items)
    low = STEP * sum(count * masses.first for masses, count in items)
    return sorted({*np.linspace(low - 0.3, high + 0.3, 31).tolist(), 0.0})


@all_cases("tilt", [0.0, 0.7, 5.0])
@all_cases("items", SMALL)
def test_profiles_enclose_the_sum(items: Items, tilt: float) -> None:
    total, where = exact.convolved(items), points(items)
    lattice = roomy(items, tilt)
    upper = profile(compose(items, lattice), upper=True)
    lower = profile(compose(items, lattice), upper=False)
    for x, true in zip(where, exact.of_masses(total, STEP, where), strict=True):
        assert lower.delta(x) - lower.extra <= true <= upper.delta(x)
        assert upper.delta(x) <= float(true) * (1 + 2e-2) + 1e-9


@pytest.mark.parametrize("items", SMALL)
def test_any_tilt_gives_the_same(items: Items) -> None:
    curves = [profile(compose(items, roomy(items, tilt)), upper=True)
              for tilt in (0.0, 0.5, 2.0, 4.0)]
    for x in points(items):
        values = [curve.delta(x) for curve in curves]
        assert max(values) - min(values) <= 1e-11 + 1e-9 * max(values)
    for delta in (0.3, 1e-2, 2e-3):
        values = [curve.epsilon(delta) for curve in curves]
        if math.isfinite(max(values)):
            assert max(values) - min(values) <= 1e-8


def test_tilt_keeps_digits_of_small_deltas() -> None:
    items = [(upper_masses(GaussianPair(0.5), STEP, -60, 70), 8)]
    total = exact.convolved(items)
    for x, tilt in ((14.0, 6.0), (18.0, 8.5)):
        upper = profile(compose(items, roomy(items, tilt)), upper=True)
        true = exact.of_masses(total, STEP, [x])[0]
        assert true < 1e-15
        assert true <= upper.delta(x) <= float(true) * (1 + 1e-6) + upper.extra


# --- windows that are too small ---------------------------------------------------------------

LONG = (
    [(upper_masses(LaplacePair(0.6), STEP, -6, 6), 12)],
    [(upper_masses(pure_pair(1.0, 1e-5), STEP, -9, 9), 10)],
    [(upper_masses(BoundedRangePair(1.3), STEP, -12, 12), 7)],
    [(upper_masses(GaussianPair(0.4), STEP, -40, 50), 6)],
)


@all_cases("size", [16, 40, 64])
@all_cases("start", [-48, -4, 8, 20])
@all_cases("which", range(4))
def test_a_small_window_never_underprices(which: int, start: int, size: int) -> None:
    items, total = LONG[which], long_total(which)
    inside = np.linspace(STEP * start, STEP * (start + size), 9)
    truth = exact.of_masses(total, STEP, inside.tolist())
    for tilt, turn in ((0.0, 1.0), (1.0, 0.5), (3.0, 6.0), (8.0, 2.0)):
        lattice = placed(items, window(start, size, tilt, turn=turn))
        upper = profile(compose(items, lattice), upper=True)
        lower = profile(compose(items, lattice), upper=False)
        for x, true in zip(inside, truth, strict=True):
            assert true <= upper.delta(float(x)), (x, tilt)
            found = upper.epsilon(float(true) * (1 - 1e-13))
            assert found >= x - 1e-9, (x, tilt)
            assert lower.delta(float(x)) <= true * (1 + mp.mpf(10) ** -12), (x, tilt)


@pytest.mark.parametrize("which", range(4))
def test_epsilons_below_a_small_window_are_not_underpriced(which: int) -> None:
    items, total = LONG[which], long_total(which)
    for tilt in (0.0, 1.0, 8.0):
        upper = profile(compose(items, placed(items, window(8, 32, tilt))), upper=True)
        where = [0.0, 0.5, 0.9]
        for x, true in zip(where, exact.of_masses(total, STEP, where), strict=True):
            assert true <= upper.delta(x), (x, tilt)


def test_steps_far_below_the_mesh() -> None:
    """On the lattice the sum spreads far more than its losses do, and wrapped from below."""
    small, count = 1e-3, 400
    items = [(upper_masses(pure_pair(small), STEP, -1, 1), count)]
    below = [(lower_masses(pure_pair(small), STEP, -1, 1), count)]
    total = exact.coin(small).power(count)
    spread = small * math.sqrt(count)
    for tilt in (0.0, 2.0, 1 / spread):
        size = good_size(16 + math.ceil(16 * spread / STEP))
        lattice = placed(items, window(-size // 2, size, tilt, turn=1 / spread))
        upper = profile(compose(items, lattice), upper=True)
        for x in (0.0, spread, 2 * spread):
            true = exact.at(total, x)
            assert true <= upper.delta(x)
            assert upper.epsilon(float(true)) >= x - 1e-12
            lower = profile(compose(below, placed(below, lattice)), upper=False)
            assert lower.delta(x) <= true


def test_fft_lengths() -> None:
    for least in (1, 16, 17, 100, 1000, 4097, 123457):
        size = good_size(least)
        assert size >= least and size % 2 == 0
        rest = size
        for factor in (2, 3, 5):
            while rest % factor == 0:
                rest //= factor
        assert rest == 1 and size <= max(16, 1.3 * least)
