"""Many sampled Gaussians between few: dominated by the coin, composed within the error bounds."""

from __future__ import annotations

import math

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from privledger.accounting.pld import accountant, between, blended, compose
from privledger.accounting.pld.accountant import profile
from privledger.accounting.pld.blended import Blended
from privledger.accounting.pld.lattice import Lattice, good_size
from privledger.accounting.pld.masses import Masses
from privledger.accounting.pld.pairs import GaussianPair, LaplacePair
from privledger.accounting.pld.sampled_pairs import AddPair, RemovePair
from tests.accounting import contour
from tests.accounting.pld import exact

STEP, RATE = 0.125, 0.05
KNOTS = (
    Masses(-2, np.array([0.1, 0.2, 0.0, 0.4, 0.3]), 0.0),
    Masses(-3, np.array([0.1, 0.1, 0.2, 0.0, 0.4, 0.19]), 1e-2),
    Masses(-1, np.array([0.5, 0.3, 0.15, 0.05]), 0.0),
)
PLACE, SHARE, COUNT = (0, 1, 0, 1, 0), (0.25, 0.5, 0.0, 1.0, 0.7), (1, 2, 1, 1, 3)


def blend(share=SHARE) -> Blended:
    return Blended(KNOTS, np.array(PLACE), np.array(share), np.array(COUNT))


def blend_as_items() -> list[tuple[Masses, int]]:
    """The same with every item's masses written out."""
    found = []
    for place, share, count in zip(PLACE, SHARE, COUNT, strict=True):
        low, high = KNOTS[place], KNOTS[place + 1]
        p, first = np.zeros(10), -3
        for one, weight in ((low, 1 - share), (high, share)):
            start = one.first - first
            p[start:start + len(one.p)] += weight * one.p
        found.append((Masses(first, p, (1 - share) * low.infinite + share * high.infinite),
                      count))
    return found


def placed(tilt: float, first: int, size: int, alone=()) -> Lattice:
    lattice = Lattice(STEP, first, size, tilt, STEP * (first + size / 2), 0.0,
                      (-2.0, 2.0, 2.0), 0.0)
    moved = compose.compose(alone, lattice, [blend()]).lattice.first - first
    return evolve(lattice, mean=moved * STEP)


# --- the theorem ------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(low=st.floats(1e-4, 8.0), wide=st.floats(1e-4, 1.0), inside=st.floats(0.0, 1.0),
       at=st.floats(-4.0, 4.0))
def test_the_coin_dominates(low: float, wide: float, inside: float, at: float) -> None:
    """At many digits, at any loss; and it keeps the total variation, so it is not far above."""
    high = low * (1 + wide)
    mu = min(max(low + inside * (high - low), low), high)
    share = float(between.shares(np.array([mu]), np.array([low]), np.array([high]))[0])
    with mp.workdps(40):
        one, two, true = (exact.at(exact.gaussian(m), at * mu) for m in (low, high, mu))
        assert (1 - mp.mpf(share)) * one + share * two >= true * (1 - mp.mpf(10) ** -30)
        centre = [mp.erf(mp.mpf(m) / mp.sqrt(8)) for m in (mu, low, high)]
        kept = (centre[0] - centre[1]) / (centre[2] - centre[1])
        assert kept <= share <= kept + 1e-6


@pytest.mark.parametrize("make", [RemovePair, AddPair])
def test_samples_keep_the_order(make) -> None:
    low, mu, high = 0.5, 0.7, 0.8
    share = float(between.shares(np.array([mu]), np.array([low]), np.array([high]))[0])
    for x in np.linspace(-0.04, 1.0, 27).tolist():
        one, two, true = (exact.at_float(make(RATE, GaussianPair(m)), x)
                          for m in (low, high, mu))
        assert true <= (1 - share) * one + share * two + 1e-15, x


# --- the sum ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tilt", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("alone", [(), ((Masses(-1, np.array([0.3, 0.3, 0.4]), 1e-3), 2),)])
def test_blends_are_their_items_written_out(tilt: float, alone) -> None:
    total = exact.convolved([*blend_as_items(), *alone])
    size = good_size(80)
    lattice = placed(tilt, -40, size, alone)
    composed = compose.compose(alone, lattice, [blend()])
    plain = compose.compose([*blend_as_items(), *alone], lattice)
    assert composed.lattice.first == plain.lattice.first
    assert abs(composed.log_moment - plain.log_moment) <= composed.log_slack + plain.log_slack
    assert np.max(np.abs(composed.tilted - plain.tilted)) <= composed.error + plain.error
    assert (composed.whole, composed.offset) == (plain.whole, plain.offset)
    highest = total.first + max(k for k, mass in enumerate(total.p) if mass > 0)
    assert highest <= composed.highest <= plain.highest
    curve, where = profile(composed, upper=True), np.linspace(-3.0, 3.0, 25).tolist()
    for x, true in zip(where, exact.of_masses(total, STEP, where), strict=True):
        assert true <= curve.delta(x) <= float(true) * 1.02 + 1e-9


@pytest.mark.parametrize("first", [-20, -4, 4])
def test_a_small_window_never_underprices(first: int) -> None:
    total = exact.convolved(blend_as_items())
    for tilt in (0.0, 3.0):
        composed = compose.compose([], placed(tilt, first, 16), [blend()])
        where = np.linspace(STEP * first, STEP * (first + 16), 9).tolist()
        for x, true in zip(where, exact.of_masses(total, STEP, where), strict=True):
            assert true <= profile(composed, upper=True).delta(x), (x, tilt)


# --- the price --------------------------------------------------------------------------------

NEAR = 2e-2
NOISES = [0.9 + 0.05 * place for place in range(14)]


def few(monkeypatch: pytest.MonkeyPatch, ratio: float = 0.1) -> None:
    """Put fourteen pairs between a few, coarsely."""
    monkeypatch.setattr(between, "_LEAST", 4)
    monkeypatch.setattr(between, "_FEWER", 1)
    monkeypatch.setattr(between, "_COST", math.inf)
    monkeypatch.setattr(between.gathered, "__defaults__", (ratio,))


def true_epsilon(make, delta: float) -> float:
    world: contour.World = [(contour.Normal(0.3), 1)]
    for noise in NOISES:
        law = contour.normals({0.0: 1 - RATE, 1 / noise: RATE}, {0.0: 1.0})
        world.append((law if make is RemovePair else law.turned(), 3))
    return contour.epsilon(world, delta)


def mixed(make) -> accountant.Items:
    return ((GaussianPair(0.3), 1),
            *((make(RATE, GaussianPair(1 / noise)), 3) for noise in NOISES))


@pytest.mark.parametrize("make", [RemovePair, AddPair])
def test_never_below_the_truth(make, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = true_epsilon(make, 1e-6)
    few(monkeypatch)
    whole, probe, tilt = accountant._gather(
        mixed(make), lambda probe: accountant.tilt_for_delta(probe, 1e-6))
    assert len(whole.between) == 1 and len(whole.rough()) < 9
    found = accountant.epsilon_upper(mixed(make), 1e-6)
    assert truth * (1 - 1e-8) <= found.value <= truth * (1 + NEAR)
    # What the coins add is owned up to, about.
    assert found.value - truth <= 2 * whole.added(probe, tilt) + 1e-4
    assert accountant.delta_upper(mixed(make), truth).value >= 1e-6 * (1 - 1e-6)


def test_too_many_transforms_are_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair is then computed by itself, on the same lattice."""
    few(monkeypatch)
    rough = accountant.epsilon_upper(mixed(RemovePair), 1e-6)
    monkeypatch.setattr(between, "_MOST_HELD", 1000)
    assert true_epsilon(RemovePair, 1e-6) <= accountant.epsilon_upper(
        mixed(RemovePair), 1e-6).value < rough.value


def test_fewer_are_refined_or_left_alone() -> None:
    """Some pairs stay as they are: of another kind, few of a rate, too far apart."""
    pairs = [(RemovePair(RATE, GaussianPair(0.5 + 1e-4 * k)), 1) for k in range(600)]
    other = [(LaplacePair(0.5), 2), (RemovePair(0.1, GaussianPair(0.5)), 1),
             (RemovePair(RATE, LaplacePair(0.5)), 1)]
    whole = between.gathered(pairs + other)
    assert set(whole.alone) == set(other) and len(whole.between) == 1
    assert math.isclose(whole.between[0].weights().sum(), 600)
    assert between.gathered(pairs[:200]).between == ()
    assert between.refined(pairs, whole, 0.0, 1.0) is whole
    finer = between.refined(pairs + other, whole, 1e-3, 1.0)
    assert len(finer.rough()) > len(whole.rough())
    far = [(RemovePair(RATE, GaussianPair(10.0**(k / 100))), 1) for k in range(-300, 100)]
    assert between.gathered(far).between == ()


FAULTS = {
    "shares rounded to the lower neighbour": lambda patch: patch.setattr(
        between, "shares", lambda mu, low, high: np.zeros(len(mu))),
    "shares of the shift": lambda patch: patch.setattr(
        between, "shares", lambda mu, low, high: 0.5 * (mu - low) / (high - low)),
    "one run of each": lambda patch: patch.setattr(
        blended.Blended, "multiply", _once),
    "totals of the lower neighbour": lambda patch: patch.setattr(
        blended.Blended, "log_total",
        lambda self, each: float(np.dot(self.count, each[self.place]))),
    "no item between": lambda patch: patch.setattr(
        between.Gathered, "rough", lambda self: [(p, float(c)) for p, c in self.alone]),
}


def _once(self, product, members, weights, low, high) -> None:
    for k in members:
        product *= weights[0][k] * low + weights[1][k] * high


@pytest.mark.parametrize("name", FAULTS)
def test_faults_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = true_epsilon(RemovePair, 1e-6)
    few(monkeypatch)
    FAULTS[name](monkeypatch)
    try:
        found = accountant.epsilon_upper(mixed(RemovePair), 1e-6).value
    except (ArithmeticError, IndexError, ValueError):
        return
    assert not truth * (1 - 1e-8) <= found <= truth * (1 + NEAR)
