"""What composites cost, and what is refused because nothing is proved."""

import math

import numpy as np
import pytest

import privledger as pl
from privledger.graph import fold
from tests.all_cases import all_cases
from tests.worlds import refused

G, L = pl.Gaussian(1.0), pl.Laplace(1.0)
ORDERS = [1.5, 2.0, 4.0, 16.0, 64.0]


def bounds(node, relation="add_remove"):
    return pl.rdp(node, ORDERS, relation)


def test_sequence_adds_and_parts_take_the_dearest():
    assert bounds(pl.Sequential([G, L])) == pytest.approx(bounds(G) + bounds(L), rel=1e-12)
    assert np.all(bounds(pl.Parallel([G, L])) == np.maximum(bounds(G), bounds(L)))


def test_parts_cost_two_under_replace_one():
    """A record may leave one part and enter another; a histogram bin pair shows it is exact."""
    assert pl.epsilon(pl.Parallel([L, L]), relation="replace_one") >= 2.0
    assert pl.epsilon(pl.Parallel([L]), relation="replace_one") == pytest.approx(1.0)


def test_certificates():
    assert np.all(bounds(pl.Parallel([G, G], "index"), "replace_one") == bounds(G, "replace_one"))
    refused(pl.errors.RelationMismatch, lambda: bounds(pl.Parallel([G, G], "index")))


def test_free_nodes_are_free():
    free = pl.Sequential([pl.nodes.PostProcess("argmax"), pl.nodes.Public("schema"),
                          pl.Sequential([])])
    assert pl.epsilon(free) == 0 and not bounds(free).any()
    assert np.all(bounds(pl.Sequential([G, free])) <= bounds(G) * (1 + 1e-12))


@pytest.mark.parametrize("rate", [0.001, 0.1, 0.9])
@pytest.mark.parametrize("noise", [0.8, 2.0])
def test_sampled_gaussian_covers_the_exact_divergence_in_both_directions(rate, noise):
    x = np.linspace(-40, 60, 400_001) * noise / 2
    step = x[1] - x[0]
    q = np.exp(-(x**2) / (2 * noise**2)) / math.sqrt(2 * math.pi) / noise
    p = (1 - rate) * q + rate * np.exp(-((x - 1) ** 2) / (2 * noise**2)) / math.sqrt(
        2 * math.pi) / noise
    keep = (p > 1e-280) & (q > 1e-280)
    p, q = p[keep], q[keep]
    for order in (1.5, 2.0, 4.0):
        bound = pl.rdp(pl.PoissonSample(rate, pl.Gaussian(noise)), [order])[0]
        for a, b in ((p, q), (q, p)):
            exact = math.log(float(np.sum(b * (a / b) ** order) * step)) / (order - 1)
            assert exact <= bound * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("node", [G, L, pl.Repeat(G, 3), pl.Exponential(0.5),
                                  pl.Sequential([G, L]), pl.DiscreteGaussian(2.0)])
def test_sampling_never_costs_more_than_everybody(node):
    whole = bounds(node)
    assert np.all(bounds(pl.PoissonSample(0.3, node)) <= whole * (1 + 1e-9))
    assert np.all(bounds(pl.PoissonSample(1.0, node)) == whole)


def test_many_releases_on_one_sample_cost_more_than_on_many_samples():
    once = pl.PoissonSample(0.01, pl.Repeat(G, 30))
    often = pl.Repeat(pl.PoissonSample(0.01, G), 30)
    assert pl.epsilon(once, 1e-6) > 3 * pl.epsilon(often, 1e-6)


@all_cases(("node", "relation"), [
    (pl.PoissonSample(0.1, G), "replace_one"), (pl.IndividualFilter("gdp", 1.0), "replace_one"),
    (pl.RandomizedResponse(0.5), "add_remove"),
    (pl.PoissonSample(0.1, pl.IndividualFilter("gdp", 1.0)), "add_remove"),
    (pl.PoissonSample(0.1, pl.Repeat(pl.IndividualFilter("renyi", 1.0, 4.0), 2)), "add_remove"),
    (pl.PoissonSample(0.1, pl.nodes.Group(2, G)), "add_remove"),
    (pl.nodes.Group(2, pl.IndividualFilter("renyi", 1.0, 4.0)), "add_remove"),
    (pl.nodes.FixedSizeSample(1, 10, G), "add_remove"), (pl.nodes.AsReplaceOne(G), "add_remove"),
    (pl.nodes.FixedSizeSample(1, 10, pl.nodes.Group(2, G)), "replace_one"),
    (pl.nodes.AsReplaceOne(pl.IndividualFilter("gdp", 1.0)), "replace_one"),
    (pl.nodes.Tuning(pl.Asserted(1.0, "why", 1e-6), success=0.1), "add_remove")])
def test_no_proof_means_refused(node, relation):
    refused(pl.errors.UnsupportedNode, lambda: pl.epsilon(node, 1e-6, relation))


def test_filters_cost_their_cap_whatever_runs_inside():
    inside = pl.Repeat(pl.Gaussian(0.01), 10**6)
    gdp = pl.IndividualFilter("gdp", 0.25, node=inside)
    assert pl.epsilon(gdp, 1e-6) == pytest.approx(pl.epsilon(pl.Gaussian(2.0), 1e-6), rel=1e-9)
    renyi = pl.IndividualFilter("renyi", 0.25, 8.0, inside)
    found = pl.rdp(renyi, [2.0, 8.0, 8.5])
    assert found[0] <= 0.25 and found[1] == 0.25 and math.isinf(found[2])


def test_group_prices():
    assert pl.epsilon(pl.nodes.Group(3, L)) == pytest.approx(3.0)
    assert pl.epsilon(pl.nodes.Group(3, G), 1e-6) == pytest.approx(
        pl.epsilon(pl.Gaussian(1 / 3), 1e-6), rel=1e-9)
    assert pl.nodes.Group(1, G) != G and pl.epsilon(pl.nodes.Group(1, G), 1e-6) == pl.epsilon(G,
                                                                                              1e-6)


@pytest.mark.parametrize("accountant", ["prv", "exact", "", None, 1])
def test_unknown_accountant_is_refused(accountant):
    refused(pl.PrivledgerError, lambda: pl.epsilon(G, 1e-6, accountant=accountant))


def test_certificate_names_its_theorem():
    found = pl.certify(pl.Repeat(G, 3), 1e-6)
    assert found.accountant == "gdp" and "Gaussian" in found.theorem
    assert found.epsilon == pl.epsilon(pl.Repeat(G, 3), 1e-6)


def test_epsilon_and_delta_are_inverse_bounds():
    node = pl.Repeat(pl.PoissonSample(0.05, G), 40)
    epsilon = pl.epsilon(node, 1e-6)
    assert pl.delta(node, epsilon) <= 1e-6 * (1 + 1e-6)
    assert pl.delta(node, epsilon * 0.99) > 1e-6


def test_a_huge_plan_is_priced_without_unrolling_it():
    node = pl.Repeat(pl.Repeat(pl.Gaussian(1e9), 10**6), 10**6)
    assert 0 < pl.epsilon(node, 1e-6) < 1e-2


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_one_of_costs_its_dearest_member(relation):
    node = pl.nodes.OneOf([pl.Repeat(pl.Laplace(8.0), 3), pl.Gaussian(4.0), pl.Laplace(2.0)])
    assert np.all(bounds(node, relation) == np.maximum.reduce(
        [bounds(member, relation) for member in node.nodes]))
    laplaces = pl.nodes.OneOf([pl.Repeat(pl.Laplace(8.0), 3), pl.Laplace(2.0)])
    assert pl.epsilon(laplaces, relation=relation) == pytest.approx(0.5)
    for delta in (1e-3, 1e-6):
        worst = max(pl.epsilon(member, delta, relation) for member in node.nodes)
        assert pl.epsilon(node, delta, relation) >= worst * (1 - 1e-12)


def test_a_long_plan_that_grows_is_copied_once_until_it_changes(monkeypatch):
    """Each appended node costs what is new; a member that was changed in place is seen."""
    calls, copied = [], fold._copied
    monkeypatch.setattr(fold, "_copied", lambda *given, **named: (
        calls.append(1), copied(*given, **named))[1])
    first = pl.Gaussian(2.0**61)  # of one hash with 1.0
    plan = pl.Sequential([first, *(pl.Gaussian(1000.0 + place) for place in range(1500))])
    flat = [*plan.nodes]
    for step in range(3):
        flat.append(pl.Gaussian(60.0 + step))
        plan = pl.Sequential([plan, flat[-1]])
        calls.clear()
        assert pl.epsilon(plan, 1e-6) == pytest.approx(
            pl.epsilon(pl.Sequential(flat), 1e-6), rel=1e-12)
        assert pl.epsilon(plan, 1e-5) < pl.epsilon(plan, 1e-6)
    calls.clear()
    before = pl.epsilon(pl.Sequential([plan, pl.Gaussian(70.0)]), 1e-6)
    assert len(calls) < 30 and before < 1
    object.__setattr__(first, "noise_multiplier", 1.0)
    assert pl.epsilon(pl.Sequential([plan, pl.Gaussian(70.0)]), 1e-6) > 4
