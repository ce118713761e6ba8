"""Each fault of the distributions once: what a hostile reader of this code computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from mpmath import mp

import privledger as pl
from privledger.accounting.pld import losses
from privledger.accounting.pld.losses import pair_rdp
from privledger.accounting.pld.merged import lower_masses
from privledger.accounting.pld.pairs import (
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    discrete_gaussian_pair,
    discrete_laplace_pair,
    pure_pair,
)
from privledger.accounting.pld.sampled_pairs import AddPair, FixedSizePair, RemovePair
from privledger.accounting.pld.shifted import Slopes, chained_pair, slopes
from tests.all_cases import all_cases

INNER = [
    GaussianPair(0.5), GaussianPair(12.0), LaplacePair(0.3), LaplacePair(500.0),
    BoundedRangePair(2.0), pure_pair(1.0), pure_pair(590.0), pure_pair(1.0, 1e-3),
    discrete_laplace_pair(0.3, 1500), discrete_gaussian_pair(1.0, 19),
    discrete_gaussian_pair(0.06, 1),
]


@all_cases("inner", INNER)
@all_cases("kind", [RemovePair, AddPair, FixedSizePair])
@all_cases("rate", [1e-6, 0.5, 0.999])
def test_no_p_mass_is_ever_lost(inner, kind, rate):
    """A removed record leaves (1 - q) Q + q P: all of Q is there, listed or not."""
    pair = kind(rate, inner)
    atoms, bands = pair.atoms(), pair.bands(np.array([-math.inf, math.inf]))
    total = float(atoms.p.sum()) + float(bands.p[0] + bands.slack_p[0]) + atoms.infinite
    assert 1 - 1e-15 <= total <= 1 + 1e-9


@pytest.mark.parametrize("node", [
    pl.DiscreteGaussian(0.02, 1), pl.DiscreteGaussian(1.0, 30), pl.DiscreteLaplace(0.3, 3000),
    pl.Asserted(650.0, "why"), pl.DiscreteLaplace(590.0), pl.DiscreteGaussian(0.06, 1)])
@pytest.mark.parametrize("count", [2, 20])
def test_a_sampled_giant_is_seen_whenever_it_is_sampled(node, count):
    sampled = pl.Repeat(pl.PoissonSample(0.5, node), count)
    assert pl.delta(sampled, 100.0) >= (1 - 0.5**count) * (1 - 1e-9)


@all_cases("noise", [1e-2, 1.3e-3, 1e-6])
def test_a_giant_beside_a_small_release_has_a_price_and_no_bound_from_below(noise):
    """Losses of 10^5 nats and more leave a tilted mesh without any mass; that was a division by
    zero in what says how much a plan costs at least."""
    for beside in (pl.Laplace(300.0), pl.Exponential(0.0038)):
        for made in (pl.Sequential, pl.Parallel):
            node = made([pl.Gaussian(noise), beside])
            for delta in (8.6e-14, 1e-6):
                found = pl.explain(node, delta, "replace_one")
                assert 0 <= found.lower <= found.certificate.epsilon < math.inf


def test_losses_that_no_float_has_the_exponential_of_are_not_held():
    """They were inf, and 0 x inf; a loss far below zero stopped the Renyi bound."""
    for loss, p in (([745.0, 0.0, -745.0], [0.5, 0.4, 0.1]), ([1.0, -745.0], [0.9, 0.1])):
        assert slopes(np.array(loss), np.array(p), 0.0, 0.0).infinite == 1
    pair = chained_pair(Slopes(np.array([745.0, 0.0]), np.array([1e-200, 1.0]), 0.2))
    assert pair.infinite == 1 and all(map(math.isfinite, (*pair.loss, *pair.p)))
    deep = AddPair(0.5, pure_pair(590.0))
    assert all(0 < one < 600 for one in pair_rdp(deep, (1.01, 2.0, 64.0)))


@pytest.mark.parametrize("pair", [
    LaplacePair(2.0), AddPair(0.3, LaplacePair(2.0)), AddPair(0.4, GaussianPair(1.5))], ids=str)
def test_renyi_bounds_hold_wherever_the_mesh_begins(pair, monkeypatch):
    """Q mass below its first point was left out where its P mass went up."""
    orders, mesh = (1.5, 2.0, 8.0), losses._mesh
    whole = pair_rdp(pair, orders)
    for share in (0.2, 0.5, 0.7):
        monkeypatch.setattr(losses, "_mesh", lambda one, share=share: (
            points := mesh(one))[int(share * len(points)):])
        assert (pair_rdp(pair, orders) >= whole * (1 - 1e-9)).all()


def test_parts_by_index_are_no_function_of_the_rows_alone():
    parts = pl.Parallel([pl.Asserted(1.0, "x")] * 2, "index")
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.epsilon(pl.nodes.FixedSizeSample(2, 3, parts), 0.0, "replace_one")


def test_a_sample_of_a_sample_is_drawn_out_of_what_is_there():
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.epsilon(pl.nodes.FixedSizeSample(10, 100,
                                            pl.nodes.FixedSizeSample(1, 1000, pl.Laplace(1.0))),
                   0.0, "replace_one")
    nested = pl.nodes.FixedSizeSample(10, 100, pl.nodes.FixedSizeSample(1, 10, pl.Laplace(1.0)))
    assert pl.epsilon(nested, 0.0, "replace_one") == pytest.approx(
        pl.epsilon(pl.nodes.FixedSizeSample(1, 100, pl.Laplace(1.0)), 0.0, "replace_one"), rel=1e-9)


@pytest.mark.parametrize(("node", "delta"), [
    (pl.DiscreteGaussian(10.0, 1), 1e-200), (pl.DiscreteLaplace(100.0), 1 - 1e-12),
    (pl.Laplace(0.001), 1e-5), (pl.Exponential(1500.0), 1e-5),
    (pl.Repeat(pl.PoissonSample(0.5, pl.Asserted(1000.0, "x")), 2), 1e-5),
    (pl.PoissonSample(0.5, pl.Laplace(0.001)), 1e-5),
    (pl.nodes.Tuning(pl.nodes.Group(100, pl.PoissonSample(0.1, pl.Gaussian(1.0))), "poisson",
                     mean=3.0),
     1e-5)])
def test_extremes_have_an_answer_or_a_typed_refusal(node, delta):
    try:
        found = pl.explain(node, delta)
    except pl.PrivledgerError:
        return
    assert 0 <= found.lower <= found.epsilon < math.inf


@pytest.mark.parametrize("make", [
    lambda n: pl.Repeat(pl.Gaussian(1.0), n), lambda n: pl.nodes.Group(n, pl.Gaussian(1.0)),
    lambda n: pl.DiscreteLaplace(1.0, n), lambda n: pl.RandomizedResponse(0.5, n)])
def test_astronomical_counts_are_refused(make):
    with pytest.raises(pl.InvalidValue):
        make(10**400)


@pytest.mark.parametrize("rate", [1 - 1e-12, 1 - 1e-6, 0.3])
@pytest.mark.parametrize("inner", [pure_pair(20.0), LaplacePair(20.0)])
def test_losses_keep_their_digits_at_rates_near_one(inner, rate):
    """The largest loss of an added record is -log(1 - q + q exp(-20)): q near 1 cancels."""
    with mp.workdps(40):
        true = -mp.log1p(mp.mpf(rate) * mp.expm1(-20))
        assert abs(mp.mpf(AddPair(rate, inner).top) - true) <= 1e-15 * (1 + true)


def test_mass_that_only_the_second_has_counts_in_a_renyi_bound():
    """E_Q (P/Q)^order = 1 + E_P gain + beta r; P = (1), Q = (1 - r, r)."""
    pair = AtomPair((-math.log1p(-0.25),), (1.0,), 0.0, 0.25)
    exact = -math.log1p(-0.25)
    assert (pair_rdp(pair, (1.5, 2.0, 8.0)) >= exact).all()
    assert (pair_rdp(pair, (1.5, 2.0, 8.0)) <= exact * (1 + 1e-9)).all()


@all_cases("far", [2e-10, 1e-9, 1e-12, -2e-10, 0.0])
@all_cases("loss", [1.0, 0.08943053519692623])
def test_an_atom_just_below_a_lattice_point_is_not_moved_up(far, loss):
    """The lower bound took an atom up by a billionth of a step and gave back too little."""
    step = loss * math.exp(far)
    made = lower_masses(pure_pair(loss), step, -2, 2)
    with mp.workdps(60):
        share = 1 / (1 + mp.exp(-mp.mpf(loss)))

        def truth(x):
            return share * max(0, 1 - mp.exp(x - loss)) + (1 - share) * max(0, 1 - mp.exp(x + loss))

        for x in (-step, 0.0, loss / 2, loss * (1 - 1e-10)):
            found = made.infinite + sum(
                mp.mpf(float(mass)) * max(0, 1 - mp.exp(mp.mpf(x) - place * mp.mpf(step)))
                for place, mass in zip(range(-2, 3), made.p, strict=True))
            assert found <= truth(mp.mpf(x) - made.blur)
