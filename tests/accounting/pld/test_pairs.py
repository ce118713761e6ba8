"""Each pair against its closed form: masses, profiles, both directions, tails."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest
from attrs import evolve

from privledger.accounting.pld.by_pld import delta_of_one, epsilon_of_one
from privledger.accounting.pld.grid import GridPair, largest_step, product
from privledger.accounting.pld.losses import pair_rdp
from privledger.accounting.pld.pairs import (
    UNIT,
    AtomPair,
    Atoms,
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

CLOSE = 1e-12
TINY = mp.mpf(10) ** -290  # masses below are no floats


@dataclass(frozen=True)
class Case:
    pair: Pair
    profile: exact.Profile
    symmetric: bool = True
    padded: bool = False  # whether its masses are raised by more than a few ulps

    @property
    def close(self) -> float:
        return CLOSE * (20 if self.padded else 1)


BASE = {
    "gaussian": Case(GaussianPair(1.0), exact.gaussian(1.0)),
    "weak gaussian": Case(GaussianPair(0.01), exact.gaussian(0.01)),
    "strong gaussian": Case(GaussianPair(7.3), exact.gaussian(7.3)),
    "laplace": Case(LaplacePair(1.0), exact.laplace(1.0)),
    "weak laplace": Case(LaplacePair(1e-4), exact.laplace(1e-4)),
    "strong laplace": Case(LaplacePair(9.7), exact.laplace(9.7)),
    "bounded range": Case(BoundedRangePair(0.7), exact.bounded_range(0.7)),
    "weak range": Case(BoundedRangePair(1e-5), exact.bounded_range(1e-5)),
    "strong range": Case(BoundedRangePair(11.0), exact.bounded_range(11.0)),
    "pure": Case(pure_pair(1.3), exact.coin(1.3).profile()),
    "pure and delta": Case(pure_pair(0.4, 1e-3), exact.coin(0.4, 1e-3).profile()),
    "response": Case(response_pair(0.5, 2), exact.response(0.5, 2).profile()),
    "response of five": Case(response_pair(0.3, 5), exact.response(0.3, 5).profile()),
    "discrete laplace": Case(discrete_laplace_pair(0.25, 3),
                             exact.discrete_laplace(0.25, 3).profile()),
    "strong discrete laplace": Case(discrete_laplace_pair(7.0, 1),
                                    exact.discrete_laplace(7.0, 1).profile()),
    "discrete gaussian": Case(discrete_gaussian_pair(1.5, 1),
                              exact.discrete_gaussian(1.5, 1).profile(), padded=True),
    "narrow discrete gaussian": Case(discrete_gaussian_pair(0.3, 2),
                                     exact.discrete_gaussian(0.3, 2).profile(), padded=True),
}


def sampled() -> dict[str, Case]:
    found = {}
    for name, rate in [("gaussian", 0.01), ("gaussian", 0.6), ("strong gaussian", 1e-5),
                       ("laplace", 0.1), ("strong laplace", 0.9), ("bounded range", 0.3),
                       ("pure", 0.2), ("pure and delta", 0.2), ("response of five", 0.05),
                       ("discrete gaussian", 0.25)]:
        inner = BASE[name]
        found[f"remove {name} at {rate}"] = Case(
            RemovePair(rate, inner.pair), exact.removed(rate, inner.profile), False, inner.padded)
        found[f"add {name} at {rate}"] = Case(
            AddPair(rate, inner.pair), exact.added(rate, inner.profile), False, inner.padded)
        found[f"fixed {name} at {rate}"] = Case(
            FixedSizePair(rate, inner.pair), exact.fixed(rate, inner.profile), True, inner.padded)
    return found


SAMPLED = sampled()
CASES = {**BASE, **SAMPLED}
everywhere = pytest.mark.parametrize("name", CASES)


def places(pair: Pair) -> list[float]:
    """Losses to look at: where the mass is, around it, the ends and both sides of zero."""
    loss, _ = pair.probe()
    top = pair.top if math.isfinite(pair.top) else float(loss.max())
    span = max(abs(top), abs(float(loss.min())))
    near = np.linspace(max(-span, -20.0), min(span, 20.0), 23)
    return sorted({0.0, top, -top, top * (1 - 1e-9), 1.5 * span, *near.tolist(),
                   *np.clip(loss[:: max(1, len(loss) // 12)], -30, 30).tolist()})


def edges_of(pair: Pair) -> np.ndarray:
    """Increasing edges of all sizes of bands, some of which are empty."""
    return np.unique(np.concatenate([places(pair), np.linspace(-1.0, 1.0, 41) * 1.7]))


# --- profiles ---------------------------------------------------------------------------------


@everywhere
def test_profile_is_the_closed_form(name: str) -> None:
    case = CASES[name]
    for x in places(case.pair):
        with mp.workdps(exact.DIGITS):
            true = case.profile(mp.mpf(x))
            found = exact.at_float(case.pair, x)
            # exp(x) times the rounding of a Q mass, and an edge that is off by an ulp of x.
            loose = case.close * (1 + 1e-3 * math.exp(min(x, 7.0)))
            assert abs(found - true) <= loose, x


@everywhere
def test_one_run_is_bounded_from_both_sides(name: str) -> None:
    """At losses a few ulps beside those of atoms; exactly on them: see the next test."""
    case = CASES[name]
    for x in places(case.pair):
        if x < 0:
            continue
        upper, lower = (delta_of_one(case.pair, x, upper=side) for side in (True, False))
        with mp.workdps(exact.DIGITS):
            beside = 16 * UNIT * (1 + mp.mpf(x))
            assert case.profile(mp.mpf(x) + beside) <= upper * (1 + 4 * UNIT) + TINY, x
            if not case.padded and case.pair.tight:
                assert lower <= case.profile(mp.mpf(x) - beside) * (1 + mp.mpf(10) ** -13), x
            assert upper - lower <= case.close * (1 + 1e-3 * math.exp(min(x, 7.0))), x


@all_cases("name", [
    "response", "response of five", "remove response of five at 0.05", "add laplace at 0.1",
    "remove laplace at 0.1", "add strong laplace at 0.9", "remove pure at 0.2",
    "fixed pure and delta at 0.2", "laplace", "bounded range", "gaussian"])
def test_rounded_losses_of_atoms_stay_on_the_safe_side(name: str) -> None:
    """The top loss is rounded to a float: that must not lower an upper bound by its ulp."""
    case = CASES[name]
    top = case.pair.top if math.isfinite(case.pair.top) else 3.0
    for x in (top, np.nextafter(top, 0), np.nextafter(top, 0) - 2 * UNIT * top, top * (1 - 1e-9)):
        with mp.workdps(exact.DIGITS):
            true = case.profile(mp.mpf(float(x)))
            assert true <= delta_of_one(case.pair, float(x)), x
            if case.pair.tight:
                assert delta_of_one(case.pair, float(x), upper=False) <= true, x


@everywhere
def test_epsilon_of_one_run(name: str) -> None:
    case = CASES[name]
    for delta in (1e-2, 1e-6, 1e-12):
        upper = epsilon_of_one(case.pair, delta)
        if upper == math.inf:
            assert case.pair.atoms().infinite > delta
            continue
        with mp.workdps(exact.DIGITS):
            assert case.profile(mp.mpf(upper)) <= delta
            if upper > 0:
                less = upper * (1 - 1e-6) - 1e-9
                assert less < 0 or case.profile(mp.mpf(less)) > delta * (1 - 1e-9)


def test_exact_in_the_far_tail() -> None:
    for mu in (0.3, 1.0, 4.0):
        profile, pair = exact.gaussian(mu), GaussianPair(mu)
        for delta in (1e-20, 1e-60, 1e-200):
            found = epsilon_of_one(pair, delta)
            with mp.workdps(exact.DIGITS):
                assert profile(mp.mpf(found)) <= delta
                assert profile(mp.mpf(found) * (1 - mp.mpf(10) ** -11)) > delta


# --- masses -----------------------------------------------------------------------------------


@everywhere
def test_masses_sum_to_one(name: str) -> None:
    pair = CASES[name].pair
    for edges in (edges_of(pair), np.array([-0.3, 0.2]), np.array([0.0, 0.7]),
                  np.array([0.05, 0.3]), np.array([-0.9, -0.04])):
        bands, atoms = pair.bands(edges), pair.atoms()
        under_p = bands.p.sum() + bands.below + bands.above + atoms.p.sum() + atoms.infinite
        under_q = (bands.q.sum() + bands.below_q + bands.above_q + atoms.q_only
                   + float(np.sum(atoms.p * np.exp(-atoms.loss))))
        # Masses come rounded up; what a pair might have lost is added once more.
        assert under_p == pytest.approx(1, abs=8e-12)
        assert under_q == pytest.approx(1, abs=8e-12)
        assert min(bands.p.min(), bands.q.min(), atoms.p.min(initial=0.0)) >= 0


@everywhere
def test_ratio_of_each_cell_lies_between_its_edges(name: str) -> None:
    pair = CASES[name].pair
    edges = edges_of(pair)
    bands = pair.bands(edges)
    blur = 1e-12 + 4 * bands.blur
    low, high = np.exp(edges[:-1] - blur), np.exp(edges[1:] + blur)
    assert (bands.p + bands.slack_p >= low * (bands.q - bands.slack_q)).all()
    assert (bands.p - bands.slack_p <= high * (bands.q + bands.slack_q)).all()


@everywhere
def test_no_loss_lies_above_the_top(name: str) -> None:
    pair = CASES[name].pair
    if pair.top < math.inf:
        past = pair.top + 1e-12 * (1 + abs(pair.top))
        assert pair.bands(np.array([past, math.inf])).p[0] <= 1e-15
        assert (pair.atoms().loss <= past).all()
        reached = exact.at_float(pair, pair.top - 1e-3 * (1 + abs(pair.top)))
        assert reached > pair.atoms().infinite or CASES[name].padded


@pytest.mark.parametrize("mu", [0.5, 1.0, 2.0])
def test_gaussian_slack_is_the_whole_error(mu: float) -> None:
    """Edges whose arithmetic is exact: what is left is the error that slack promises to bound."""
    edges = np.arange(-160, 161) / 8.0
    bands = GaussianPair(mu).bands(edges)
    with mp.workdps(exact.DIGITS):
        for place, found, slack in ((-0.5, bands.p, bands.slack_p), (0.5, bands.q, bands.slack_q)):
            tails = [mp.ncdf(-abs(mp.mpf(float(x)) / mu + place * mu)) for x in edges]
            side = [float(x) / mu + place * mu >= 0 for x in edges]
            for i in range(len(found)):
                low, high = tails[i], tails[i + 1]
                true = (low - high if side[i] else high - low if not side[i + 1]
                        else 1 - low - high)
                assert abs(found[i] - true) <= slack[i] + TINY, edges[i]


@pytest.mark.parametrize("width", [0.5, 2.0, 8.0])
def test_laplace_slack_is_the_whole_error(width: float) -> None:
    edges = np.arange(-64, 65) * width / 64
    for pair, ends in ((LaplacePair(width), exact.laplace), (BoundedRangePair(width), None)):
        bands = pair.bands(edges)
        with mp.workdps(exact.DIGITS):
            w = mp.mpf(width)
            scale = mp.mpf(1) / 2 if ends else 1 / -mp.expm1(-w)
            for i in range(len(bands.p)):
                low, high = mp.mpf(float(edges[i])), mp.mpf(float(edges[i + 1]))
                under_p = scale * (mp.exp((high - w) / 2) - mp.exp((low - w) / 2))
                under_q = scale * (mp.exp((-low - w) / 2) - mp.exp((-high - w) / 2))
                assert abs(bands.p[i] - under_p) <= bands.slack_p[i]
                assert abs(bands.q[i] - under_q) <= bands.slack_q[i]


# --- both directions --------------------------------------------------------------------------


def seen(atoms: Atoms) -> Atoms:
    """Without the atom that stands for what rounding may have lost."""
    kept = atoms.p > 1e-11
    return evolve(atoms, loss=atoms.loss[kept], p=atoms.p[kept])


def mirrored(pair: Pair, other: Pair) -> None:
    """`other` is `pair` with P and Q exchanged."""
    edges = np.array([-5.0, -1.1, -0.25, -0.01, 0.0, 0.03, 0.4, 1.5, 6.0])
    one, two = pair.bands(edges), other.bands(-edges[::-1])
    for left, right in ((one.p, two.q[::-1]), (one.q, two.p[::-1]),
                        (one.below, two.above_q), (one.above, two.below_q),
                        (one.below_q, two.above), (one.above_q, two.below)):
        np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-14)
    atoms, back = seen(pair.atoms()), seen(other.atoms())
    order, turned = np.argsort(atoms.loss), np.argsort(-back.loss)
    np.testing.assert_allclose(atoms.loss[order], -back.loss[turned], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(
        atoms.p[order], (back.p * np.exp(-back.loss))[turned], rtol=1e-9, atol=1e-14)
    assert atoms.infinite == pytest.approx(back.q_only, rel=1e-12, abs=1e-140)
    assert atoms.q_only == pytest.approx(back.infinite, rel=1e-12, abs=1e-140)


@all_cases("name", [name for name, case in CASES.items()
                    if case.symmetric and not case.padded])
def test_symmetric_pairs_mirror_themselves(name: str) -> None:
    mirrored(CASES[name].pair, CASES[name].pair)


@all_cases("name", [name.removeprefix("remove ") for name, case in SAMPLED.items()
                    if name.startswith("remove ") and not case.padded])
def test_removal_and_addition_mirror_each_other(name: str) -> None:
    mirrored(CASES[f"remove {name}"].pair, CASES[f"add {name}"].pair)


@everywhere
def test_duality(name: str) -> None:
    """H_a(P, Q) = 1 - a + a H_(1/a)(Q, P), by the masses on each side of a loss."""
    case = CASES[name]
    back = case.profile
    if not case.symmetric:
        way, other = name.split(" ", 1)
        back = CASES[f"{'add' if way == 'remove' else 'remove'} {other}"].profile
    for x in (-1.5, -0.2, 0.0, 0.3, 2.0):
        with mp.workdps(exact.DIGITS):
            a = mp.exp(mp.mpf(x))
            expected = 1 - a + a * back(-mp.mpf(x))
            found = exact.at_float(case.pair, x)
            assert abs(found - expected) <= case.close * (1 + math.exp(x))


# --- tails and Renyi divergences --------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("beta", [0.5, 3.0, 20.0])
def test_tail_moments_are_upper_bounds(name: str, beta: float) -> None:
    pair = CASES[name].pair
    for edge in (0.05, 0.4, 2.0, 8.0):
        bands = pair.bands(edge + np.linspace(0.0, 30.0, 2001))
        left = edge + np.linspace(0.0, 30.0, 2001)[:-1]
        held = bands.p > 1e-290
        # Each band counted at its left end: a lower bound.
        logs = np.log(np.maximum(bands.p - bands.slack_p, 1e-300))[held] + beta * left[held]
        least = float(np.logaddexp.reduce(logs, initial=-math.inf))
        assert pair.log_tail_moment(edge, beta) >= least - 1e-9


@pytest.mark.parametrize("order", [1.25, 2.0, 7.5, 40.0, 64.0, 300.0])
def test_renyi_divergence_of_pairs(order: float) -> None:
    with mp.workdps(30):
        a = mp.mpf(order)
        coin = exact.coin(1.3)
        known = {
            "gaussian": a / 2,
            "strong gaussian": mp.mpf(7.3) ** 2 * a / 2,
            "laplace": mp.log(a / (2 * a - 1) * mp.exp(a - 1)
                              + (a - 1) / (2 * a - 1) * mp.exp(-a)) / (a - 1),
            "pure": mp.log(mp.fsum(p**a * q ** (1 - a) for p, q in zip(
                coin.p, coin.q, strict=True))) / (a - 1),
        }
    for name, true in known.items():
        found = float(pair_rdp(BASE[name].pair, (order,))[0])
        assert true <= found <= true * (1 + 1e-3), name


# --- pairs on a lattice -----------------------------------------------------------------------


def covers(pair: Pair, profile: exact.Profile, points: np.ndarray, loose: float) -> None:
    """`pair` dominates `profile`, by no more than `loose` (relative) where that matters."""
    atoms = pair.atoms()
    assert pair.bands(np.array([-1.0, 1.0])).p[0] == 0
    found = exact.of_atoms(atoms.loss.tolist(), atoms.p.tolist(), atoms.infinite)
    with mp.workdps(exact.DIGITS):
        for x in map(mp.mpf, points.tolist()):
            true, ours = profile(x), found(x)
            assert true <= ours, x
            assert ours <= true * (1 + loose) + 1e-9, x


def test_product_of_gaussians() -> None:
    pair = product([(GaussianPair(0.6), 1), (GaussianPair(0.8), 1)], 1e-12)
    covers(pair, exact.gaussian(1.0), np.linspace(-3, 6, 19), 1e-3)


def test_product_of_finite_pairs() -> None:
    tables = [exact.coin(1.3), exact.coin(1.3), exact.discrete_laplace(0.25, 3)]
    pair = product([(pure_pair(1.3), 2), (discrete_laplace_pair(0.25, 3), 1)], 1e-12)
    covers(pair, exact.product_of(tables), np.linspace(-3, 3.3, 23), 3e-3)


def test_product_keeps_what_is_lost_openly() -> None:
    pair = product([(pure_pair(0.5, 1e-3), 3)], 1e-12)
    covers(pair, exact.coin(0.5, 1e-3).power(3), np.linspace(-1, 1.2, 13), 5e-2)


def test_product_of_one_is_itself() -> None:
    pair = LaplacePair(0.5)
    assert product([(pair, 1)], 1e-9) is pair and largest_step([pair], 1e-9) is pair


def test_largest_is_at_least_each() -> None:
    cases = [BASE["laplace"], BASE["gaussian"], BASE["bounded range"], BASE["pure and delta"]]
    pair = largest_step([case.pair for case in cases], 1e-12)
    covers(pair, lambda x: max(case.profile(x) for case in cases), np.linspace(-2, 5, 29), 1e-5)


def test_samples_of_a_product() -> None:
    inner = product([(pure_pair(1.3), 1), (pure_pair(0.7), 1)], 1e-12)
    whole = exact.coin(1.3) * exact.coin(0.7)
    assert isinstance(inner, GridPair) and not inner.tight
    for lane, kind in (("remove", RemovePair), ("add", AddPair)):
        covers(kind(0.2, inner), whole.sampled(0.2, lane).profile(),
               np.linspace(-0.9, 0.9, 13), 3e-3)


# --- records ----------------------------------------------------------------------------------


def test_what_is_attained_and_what_is_not() -> None:
    attained = {"bounded range", "weak range", "strong range"}
    assert all(case.pair.tight is (name not in attained) for name, case in BASE.items())
    assert RemovePair(0.1, LaplacePair(1.0)).tight and AddPair(0.1, LaplacePair(1.0)).tight
    assert not RemovePair(0.1, BoundedRangePair(1.0)).tight
    assert not FixedSizePair(0.1, LaplacePair(1.0)).tight


def test_equal_pairs_are_found_equal() -> None:
    assert RemovePair(0.1, pure_pair(1.0)) == RemovePair(0.1, pure_pair(1.0))
    assert hash(RemovePair(0.1, pure_pair(1.0))) == hash(RemovePair(0.1, pure_pair(1.0)))
    assert RemovePair(0.1, pure_pair(1.0)) != AddPair(0.1, pure_pair(1.0))
    assert pure_pair(1.0) != pure_pair(1.0, tight=False)


def test_too_many_losses_are_not_listed() -> None:
    assert discrete_laplace_pair(0.1, 5000) is None
    assert discrete_gaussian_pair(1e5, 1) is None
    assert isinstance(discrete_gaussian_pair(100.0, 3), AtomPair)
    assert np.finfo(float).eps == UNIT
