"""A pair on a lattice: above the exact profile or below it, whatever the mesh."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from privledger.accounting.pld.lattice import offset_of
from privledger.accounting.pld.masses import discounted, moved_by, upper_masses
from privledger.accounting.pld.merged import lower_masses
from privledger.accounting.pld.pairs import (
    UNIT,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    Pair,
    discrete_gaussian_pair,
    discrete_laplace_pair,
    pure_pair,
    response_pair,
)
from privledger.accounting.pld.sampled_pairs import AddPair, FixedSizePair, RemovePair
from tests.accounting.pld import exact
from tests.all_cases import all_cases

MOST = 160  # lattice points
NOISE = mp.mpf(10) ** -55  # of the reference, which has 60 digits
Known = tuple[Pair, exact.Profile]


def gaussian(size: float) -> Known:
    return GaussianPair(size), exact.gaussian(size)


def laplace(size: float) -> Known:
    return LaplacePair(size), exact.laplace(size)


def bounded_range(size: float) -> Known:
    return BoundedRangePair(size), exact.bounded_range(size)


def pure(size: float) -> Known:
    return pure_pair(size), exact.coin(size).profile()


def leaking(size: float) -> Known:
    return pure_pair(size, 1e-4), exact.coin(size, 1e-4).profile()


def response(size: float) -> Known:
    noise = 2 / (1 + math.exp(min(size, 30.0)))
    return response_pair(noise, 3), exact.response(noise, 3).profile()


def whole(size: float) -> Known:
    return discrete_laplace_pair(size / 3, 3), exact.discrete_laplace(size / 3, 3).profile()


KINDS = [gaussian, laplace, bounded_range, pure, leaking, response, whole]
LANES = {
    "all": lambda rate, known: known,
    "remove": lambda rate, known: (RemovePair(rate, known[0]), exact.removed(rate, known[1])),
    "add": lambda rate, known: (AddPair(rate, known[0]), exact.added(rate, known[1])),
    "fixed": lambda rate, known: (FixedSizePair(rate, known[0]), exact.fixed(rate, known[1])),
}


def compare(known: Known, side: str, step: float, first: int, last: int,
            points: list[float], offset: float = 0.0, tilt: float = 0.0) -> None:
    """Lower profile <= exact profile <= upper profile, without tolerance for a density.

    Losses are floats: a profile is compared as far to the side as rounding may have moved.
    """
    pair, profile = known
    points = sorted({*points, *(offset + step * k for k in range(first, last + 1))})
    if side == "upper":
        made = upper_masses(pair, step, first, last, offset)
    else:
        made = lower_masses(pair, step, first, last, offset, tilt)
    ours = exact.of_masses(made, step, points)
    beside = 16 * UNIT if len(pair.atoms().loss) else 0.0
    with mp.workdps(exact.DIGITS):
        for x, found in zip(points, ours, strict=True):
            aside = mp.mpf(max(beside * (1 + abs(x)), made.blur))
            if side == "upper":
                assert profile(mp.mpf(x) + aside) <= found + NOISE, x
            else:
                assert found <= profile(mp.mpf(x) - aside) + NOISE, x


def between(known: Known, step: float, first: int, last: int, points: list[float]) -> None:
    compare(known, "upper", step, first, last, points)
    compare(known, "lower", step, first, last, points)


sides = pytest.mark.parametrize("side", ["upper", "lower"])
POINTS = st.lists(st.floats(-8, 12), min_size=1, max_size=25)
SIZES = st.floats(-5.0, 2.2).map(math.exp)


@sides
@settings(max_examples=120, deadline=None)
@given(kind=st.sampled_from(KINDS), size=SIZES, lane=st.sampled_from(sorted(LANES)),
       rate=st.floats(-8, -0.01).map(math.exp), mesh=st.floats(-4.5, 5.0),
       low=st.floats(0.0, 2.0), high=st.floats(0.0, 2.0), points=POINTS,
       offset=st.floats(-0.5, 0.5), tilt=st.floats(0.0, 100.0))
def test_any_pair_on_any_lattice(
    side, kind, size, lane, rate, mesh, low, high, points, offset, tilt
) -> None:
    """Meshes from a ninetieth of the largest loss to 150 times it, windows that cut it off."""
    known = LANES[lane](rate, kind(size))
    top = known[0].top if math.isfinite(known[0].top) else size * 8 + size * size / 2
    step = max(abs(top), 1e-9) * math.exp(mesh)
    reach = max(abs(top), 1e-9)
    first, last = math.floor(-low * reach / step) - 1, math.ceil(high * reach / step) + 1
    assume(last - first <= MOST and step < 500)
    compare(known, side, step, first, last, [*points, *(x / 5 * reach for x in points)],
            offset * step, tilt)


@pytest.mark.slow
@sides
@settings(max_examples=3000, deadline=None)
@given(kind=st.sampled_from(KINDS), size=SIZES, lane=st.sampled_from(sorted(LANES)),
       rate=st.floats(-8, -0.01).map(math.exp), step=st.floats(-9, 3).map(math.exp),
       first=st.integers(-200, 200), length=st.integers(1, MOST), points=POINTS,
       offset=st.floats(-0.5, 0.5))
def test_any_pair_on_any_window(
    side, kind, size, lane, rate, step, first, length, points, offset
) -> None:
    compare(LANES[lane](rate, kind(size)), side, step, first, first + length, points,
            offset * step)


@pytest.mark.parametrize(("known", "step", "first", "last", "point"), [
    (gaussian(1.0), 8.5, -1, 2, -8.5),
    (LANES["add"](0.2158, bounded_range(6.6839)), 0.7840680728503489, -2, 2, 0.0518),
    (LANES["add"](0.2, laplace(4.6)), 0.7, -2, 2, 0.05),
    (LANES["add"](0.2029, gaussian(0.4103)), 0.037660049614979506, -5, 9, -0.1883),
    (LANES["remove"](0.00429, gaussian(6.9813)), 10.97971204302617, -11, 3, -21.9),
])
def test_a_lower_profile_with_few_points(known, step, first, last, point) -> None:
    """Where a tangent is negative at the last point but one, the chord cannot follow it."""
    compare(known, "lower", step, first, last, [point])


def test_windows_on_one_side_of_zero_keep_what_lies_outside() -> None:
    for first, last in ((0, 1), (1, 4), (-4, -1)):
        for lane in LANES.values():
            for kind in (gaussian, laplace):
                compare(lane(0.3, kind(1.0)), "upper", 0.2, first, last, [-1.0, -0.5, 0.1])


@all_cases("parts", [0.4, 1.0, 2.0, 3.0, 3.5, 7.1])
@all_cases("kind", [pure, leaking, response, whole])
def test_atoms_on_and_off_the_lattice(kind, parts: float) -> None:
    known = kind(1.1)
    step = 1.1 / parts
    for side in ("upper", "lower"):
        compare(known, side, step, math.floor(-1.1 / step) - 1, math.ceil(1.1 / step) + 1,
                np.linspace(-2, 2, 21).tolist(), offset_of(known[0], step), 3.0)
    between(known, step, math.floor(-1.1 / step) - 1, math.ceil(1.1 / step) + 1,
            np.linspace(-2, 2, 21).tolist())


@pytest.mark.parametrize("kind", KINDS)
def test_losses_far_below_the_mesh(kind) -> None:
    """All of the pair lies in the two bands at zero."""
    known = kind(1e-6)
    for step in (1e-4, 0.1, 3.0):
        between(known, step, -2, 2, [-1e-6, -1e-7, 1e-8, 3e-7, 9.99e-7, 1e-6, 2e-6])
        upper = upper_masses(known[0], step, -2, 2)
        assert upper.p.sum() + upper.infinite == pytest.approx(1, abs=1e-10)


def test_the_rounding_of_a_split_is_upward() -> None:
    """Just below its largest loss a profile is a difference of nearly equal numbers."""
    for eta in (0.3, 1.0, 4.0):
        for step in (eta / 128, eta / 2048):
            last = round(eta / step)
            between(bounded_range(eta), step, last - 40, last, [])


def test_discrete_gaussian_on_a_lattice() -> None:
    profile = exact.discrete_gaussian(0.8, 1).profile()
    pair = discrete_gaussian_pair(0.8, 1)
    upper = upper_masses(pair, 0.07, -60, 100)
    points = np.linspace(-3, 7, 29).tolist()
    with mp.workdps(exact.DIGITS):
        for x, high in zip(points, exact.of_masses(upper, 0.07, points), strict=True):
            assert profile(mp.mpf(x)) <= high


@pytest.mark.parametrize("kind", KINDS)
def test_a_fine_mesh_is_nearly_exact(kind) -> None:
    pair, profile = kind(1.0)
    step, first, last = 2.0**-9, -2600, 4600
    points = np.linspace(0.0, 2.0, 9).tolist()
    above = exact.of_masses(upper_masses(pair, step, first, last), step, points)
    below = exact.of_masses(lower_masses(pair, step, first, last), step, points)
    with mp.workdps(exact.DIGITS):
        for x, high, low in zip(points, above, below, strict=True):
            true = profile(mp.mpf(x))
            assert high <= true + 1e-5
            assert low >= true - 2e-3


def test_a_mesh_that_holds_both_atoms_has_a_close_pair_below() -> None:
    """A sampled Laplace: what lies between its atoms is balanced, and the atoms stay."""
    pair = RemovePair(0.01, LaplacePair(1.0))
    low, high = (float(pair.atoms().loss[k]) for k in (0, 1))
    step = (high - low) / 64
    offset = offset_of(pair, step)
    first, last = math.floor(low / step) - 1, math.ceil(high / step) + 1
    profile = exact.removed(0.01, exact.laplace(1.0))
    points = np.linspace(low, 0.99 * high, 9).tolist()
    found = exact.of_masses(lower_masses(pair, step, first, last, offset, 10.0), step, points)
    with mp.workdps(exact.DIGITS):
        for x, ours in zip(points, found, strict=True):
            assert profile(mp.mpf(x)) - ours <= 20 * step * step  # of a density up to 13


@pytest.mark.parametrize(("length", "step"), [(1, 0.1), (7, 2.0), (5000, 1e-4), (900, 9.0)])
def test_discounted_sums(length: int, step: float) -> None:
    weight = np.random.default_rng(4).random(length)
    found = discounted(weight, step)
    expected, carried = np.empty(length), 0.0
    for place in range(length - 1, -1, -1):
        carried = weight[place] + carried * math.exp(-step)
        expected[place] = carried
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("offset", [0.1, -7.3, 1e3 + 0.7, 1e-9])
def test_points_are_no_farther_off_than_is_said(offset):
    whole = np.arange(-900, 901)
    points = offset + 0.013 * whole
    off = max(abs(Fraction(float(point)) - Fraction(offset) - Fraction(0.013) * int(place))
              for place, point in zip(whole, points, strict=True))
    assert off <= moved_by(offset, points) <= 32 * UNIT * (abs(offset) + 12)
    assert moved_by(0.0, points) == 0.0
