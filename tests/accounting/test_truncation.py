"""Poisson samples that are cut off: against the exact law of the worst table that we know."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import privledger as pl
from privledger.accounting.allocation import full_probability, truncated_gaussian_rdp
from tests.accounting import contour
from tests.all_cases import all_cases

Cut = pl.nodes.TruncatedPoissonSample


def exact(rate, most, out_of, noise):
    """All others send -1, the record +1, the output is their sum: two mixtures of normals."""
    without, with_record = {}, {}
    for size in range(out_of):
        mass = binom.pmf(size, out_of - 1, rate)
        kept = min(size, most)
        enters = rate if size < most else rate * most / (size + 1)
        moved = 1 - size if size < most else 2 - most
        for law, centre, weight in ((without, -kept, mass), (with_record, -kept,
                                    mass * (1 - enters)), (with_record, moved, mass * enters)):
            if weight > 1e-30:
                law[centre / noise] = law.get(centre / noise, 0.0) + weight
    return contour.normals(with_record, without, 3000)


@pytest.mark.parametrize(("rate", "most", "out_of", "noise", "count"), [
    (0.2, 3, 12, 1.0, 1), (0.2, 3, 12, 2.0, 20), (0.5, 5, 8, 1.5, 4), (0.05, 1, 30, 1.0, 10),
    (0.1, 8, 20, 0.8, 30),
])
def test_never_below_the_exact_law(rate, most, out_of, noise, count):
    law = exact(rate, most, out_of, noise)
    world = [(law, count), (contour.Normal(1 / 20), 1)]
    mirrored = [(law.turned(), count), (contour.Normal(1 / 20), 1)]
    node = pl.Sequential([pl.Repeat(Cut(rate, most, out_of, pl.Gaussian(noise)), count),
                          pl.Gaussian(20.0)])
    for delta in (1e-3, 1e-6):
        truth = max(contour.epsilon(world, delta), contour.epsilon(mirrored, delta))
        assert truth * (1 - 1e-8) <= pl.epsilon(node, delta)
        assert truth * (1 - 1e-8) <= pl.epsilon(node, delta, accountant="rdp")


def exchanged(rate, most, out_of, noise, other, here, there):
    """All others send `other`, the record `here` in one table and `there` in the other one."""
    laws = {}, {}
    for size in range(out_of):
        mass = binom.pmf(size, out_of - 1, rate)
        kept = min(size, most)
        enters = rate if size < most else rate * most / (size + 1)
        without = kept if size < most else most - 1
        for law, own in zip(laws, (here, there), strict=True):
            for centre, weight in ((kept * other, mass * (1 - enters)),
                                   (without * other + own, mass * enters)):
                if weight > 1e-30:
                    law[centre / noise] = law.get(centre / noise, 0.0) + weight
    return contour.normals(*laws, 3000)


@pytest.mark.parametrize(("rate", "most", "out_of", "noise", "count"), [
    (0.2, 3, 12, 1.0, 1), (0.2, 3, 12, 2.0, 20), (0.5, 5, 8, 1.5, 4), (0.05, 1, 30, 1.0, 10),
    (0.1, 8, 20, 0.8, 10),
])
def test_an_exchange_is_never_below_the_exact_law(rate, most, out_of, noise, count):
    """In small tables with large and small others; and far below what two steps would cost."""
    node = pl.Sequential([pl.Repeat(pl.nodes.AsReplaceOne(
        Cut(rate, most, out_of, pl.Gaussian(noise))), count), pl.nodes.AsReplaceOne(
            pl.Gaussian(40.0))])
    for delta in (1e-3, 1e-6):
        ours = pl.epsilon(node, delta, "replace_one")
        for other, here, there in ((0, 1, -1), (-1, 1, -1), (-1, 1, 0), (1, 1, -1)):
            law = exchanged(rate, most, out_of, noise, other, here, there)
            for one in (law, law.turned()):
                truth = contour.epsilon([(one, count), (contour.Normal(1 / 20), 1)], delta)
                assert truth * (1 - 1e-8) <= ours


@pytest.mark.parametrize(("full", "count"), [(0.0, 100), (1e-3, 100), (1.0, 20)])
def test_the_ends_of_an_exchange_are_those_of_samples(full, count, monkeypatch):
    monkeypatch.setattr("privledger.graph.fold_rules.full_probability", lambda *_: full)
    def of(sample):
        return pl.epsilon(pl.Repeat(pl.nodes.AsReplaceOne(sample), count), 1e-6, "replace_one")
    # Another node each time: prices of equal ones are remembered.
    ours = of(Cut(0.02, 7, 31 + count + round(1000 * full), pl.Gaussian(1.0)))
    usual, rare = (of(pl.PoissonSample(0.02, pl.Gaussian(noise))) for noise in (1.0, 0.5))
    assert usual * (1 - 1e-4) <= ours <= rare * (1 + 1e-4)
    assert full or ours == pytest.approx(usual, rel=1e-4)
    assert full < 1 or ours == pytest.approx(rare, rel=1e-3)


@pytest.mark.parametrize(("rate", "full", "noise", "count"), [(0.01, 0.3, 1.0, 100),
                                                              (0.1, 1e-3, 2.0, 20)])
def test_the_coin_pair_is_priced_closely(rate, full, noise, count, monkeypatch):
    """Against the contour integral of the same mixture, in both directions."""
    monkeypatch.setattr("privledger.graph.fold_rules.full_probability", lambda *_: full)
    parts = [contour.normals({0.0: 1 - rate, shift / noise: rate}, {0.0: 1.0})
             for shift in (1, 2)]
    logs = math.log1p(-full), math.log(full)
    law = contour.Pair(*(np.concatenate([log + getattr(part, side) for log, part in zip(
        logs, parts, strict=True)]) for side in ("log_p", "log_q")))
    extra = contour.Normal(1 / 10)
    truth = max(contour.epsilon([(law, count), (extra, 1)], 1e-6),
                contour.epsilon([(law.turned(), count), (extra, 1)], 1e-6))
    node = pl.Sequential([pl.Repeat(Cut(rate, 7, 31 + count, pl.Gaussian(noise)), count),
                          pl.Gaussian(10.0)])
    assert truth * (1 - 1e-8) <= pl.epsilon(node, 1e-6) <= truth * (1 + 1e-3)


@all_cases("rate", [1e-3, 0.1, 0.6])
@all_cases("out_of", [2, 30, 5000, 10**7])
def test_chance_of_a_full_sample(rate, out_of):
    for most in {1, 2, out_of // 2 or 1, out_of - 1, math.ceil(1.2 * rate * out_of) + 1}:
        found, truth = full_probability(rate, most, out_of), binom.sf(most - 1, out_of - 1, rate)
        assert truth * (1 - 1e-9) <= found <= 1
    assert full_probability(rate, out_of, out_of) == 0


@pytest.mark.parametrize(("rate", "most", "out_of"), [(0.01, 150, 10_000), (0.1, 140, 1000),
                                                      (0.5, 600, 1001), (1e-4, 300, 10**6)])
def test_the_chance_is_close_where_it_is_small(rate, most, out_of):
    """Chernoff's bound alone is up to fifty times too large here."""
    found, truth = full_probability(rate, most, out_of), binom.sf(most - 1, out_of - 1, rate)
    assert truth <= found <= 1.15 * truth


def test_ends():
    usual = pl.PoissonSample(0.1, pl.Gaussian(2.0))
    assert pl.epsilon(Cut(0.1, 100, 100, pl.Gaussian(2.0)), 1e-6) == pl.epsilon(usual, 1e-6)
    never = pl.epsilon(Cut(0.1, 1, 10**15, pl.Gaussian(2.0)), 1e-6)
    assert never == pytest.approx(
        pl.epsilon(pl.PoissonSample(0.1, pl.Gaussian(1.0)), 1e-6), rel=1e-4)
    assert pl.epsilon(Cut(1.0, 5, 9, pl.Gaussian(2.0)), 1e-6) == pytest.approx(
        pl.epsilon(pl.Gaussian(1.0), 1e-6), rel=1e-9)
    costs = [pl.epsilon(Cut(0.1, most, 100, pl.Gaussian(2.0)), 1e-6) for most in (5, 15, 25, 40)]
    assert costs == sorted(costs, reverse=True)
    curve = truncated_gaussian_rdp(0.1, 1.0, 0.5, (1.5, 8.0, 300.0))
    assert curve.at(300.0) <= pl.rdp(pl.PoissonSample(0.1, pl.Gaussian(0.5)), [300.0])[0]
    few = pl.epsilon(usual, 1e-6)  # as with so few others that nothing is cut off
    assert few * (1 - 1e-3) <= pl.epsilon(Cut(0.1, 5, 100, pl.Gaussian(2.0)), 1e-6,
                                          explain=True).lower <= few


@pytest.mark.parametrize("node", [
    Cut(0.1, 5, 9, pl.Laplace(1.0)), Cut(0.1, 5, 9, pl.PoissonSample(0.1, pl.Gaussian(1.0))),
    Cut(0.1, 5, 9, pl.IndividualFilter("gdp", 0.5)),
    Cut(0.1, 5, 9, pl.nodes.Group(2, pl.Gaussian(1.0))),
    pl.PoissonSample(0.1, Cut(0.1, 5, 9, pl.Gaussian(1.0))),
    pl.nodes.RandomAllocation(4, Cut(0.1, 5, 9, pl.Gaussian(1.0))),
])
def test_what_is_not_proved_is_refused(node):
    with pytest.raises(pl.errors.UnsupportedNode, match="no proof"):
        pl.epsilon(node, 1e-6)


def test_other_relations():
    node = Cut(0.1, 5, 9, pl.Gaussian(4.0))
    with pytest.raises(pl.errors.RelationMismatch, match="AsReplaceOne"):
        pl.epsilon(node, 1e-6, "replace_one")
    assert pl.epsilon(pl.nodes.AsReplaceOne(node), 1e-6, "replace_one") > pl.epsilon(node, 1e-6)
    with pytest.raises(pl.errors.UnsupportedNode, match="LabelOnly"):
        pl.epsilon(pl.nodes.LabelOnly(pl.nodes.AsReplaceOne(node)), 1e-6, "replace_label")
