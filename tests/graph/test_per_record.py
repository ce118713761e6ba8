"""Per-record prices of nodes: they agree with the node's own price, or are refused."""

import math

import numpy as np
import pytest

import privledger as pl
from tests.accounting import contour
from tests.all_cases import all_cases
from tests.worlds import refused

ORDERS = [1.5, 2.0, 4.0, 16.0, 64.0]
G, L = pl.Gaussian(1.3), pl.Laplace(2.0, 1.5)
SAMPLED_LAPLACE = [  # several on one sample are priced as one, which is looser
    pl.PoissonSample(0.05, L), pl.PoissonSample(0.1, pl.Sequential([L, pl.Repeat(L, 2)])),
    pl.Repeat(pl.Sequential([pl.PoissonSample(0.2, L), pl.Repeat(L, 2), pl.nodes.Public("n")]), 5)]
NODES = [
    G, L, pl.Gaussian(2.0, (0.25, 0.75)), pl.PoissonSample(0.05, G),
    pl.PoissonSample(1.0, G), pl.PoissonSample(0.1, pl.Repeat(G, 3)),
    pl.PoissonSample(0.1, pl.Sequential([G, pl.nodes.PostProcess("mean")])),
    pl.Repeat(G, 7), pl.Repeat(pl.PoissonSample(0.05, G), 100), pl.Sequential([G, L, G]),
    pl.Repeat(pl.Sequential([pl.PoissonSample(0.2, G), pl.Repeat(L, 2), pl.nodes.Public("n")]), 5)]


@all_cases("node", NODES, ids=pl.nodes.label)
def test_the_full_share_costs_what_the_node_costs(node):
    found = pl.nodes.rdp_per_record(node, np.array([1.0, 0.0]), ORDERS)
    assert found[0] == pytest.approx(pl.rdp(node, ORDERS), rel=1e-12)
    assert not found[1].any()


def shrunk(node, share):
    """The same node for a record that uses a share of each sensitivity."""
    if isinstance(node, pl.Gaussian):
        return pl.Gaussian(node.noise_multiplier / share, node.shares)
    if isinstance(node, pl.Laplace):
        return pl.Laplace(node.scale / share, node.l1_sensitivity)
    if isinstance(node, pl.PoissonSample):
        return pl.PoissonSample(node.rate, shrunk(node.node, share))
    if isinstance(node, pl.Repeat):
        return pl.Repeat(shrunk(node.node, share), node.count)
    if isinstance(node, pl.Sequential):
        return pl.Sequential([shrunk(child, share) for child in node.nodes])
    return node


@all_cases("node", NODES, ids=pl.nodes.label)
def test_a_share_costs_what_the_node_of_smaller_sensitivity_costs(node):
    shares = np.concatenate((np.random.default_rng(3).random(25), [1e-4, 0.03]))
    found = pl.nodes.rdp_per_record(node, shares, ORDERS)
    exact = np.array([pl.rdp(shrunk(node, share), ORDERS) for share in shares.tolist()])
    assert found.shape == exact.shape and found.dtype == np.float64
    assert (found >= exact * (1 - 1e-12)).all() and (found <= exact * 1.01).all()


def true_sample(rate, shifts, order):
    """Renyi divergence of Laplaces on one sample by quadrature, the larger of both directions."""
    loss, log_q = np.zeros(1), np.zeros(1)
    for shift in shifts:
        law = contour.laplaces(shift)
        loss = np.add.outer(loss, law.log_p - law.log_q).ravel()
        log_q = np.add.outer(log_q, law.log_q).ravel()
    up = rate * np.expm1(loss)

    def mean(power):
        return float(np.exp(log_q) @ (np.expm1(power * np.log1p(up)) - power * up))

    return math.log1p(max(mean(order), mean(1 - order))) / (order - 1)


SAMPLES = [(pl.PoissonSample(0.05, L), 0.05, [0.75]), (SAMPLED_LAPLACE[1], 0.1, [0.75] * 3),
           (pl.PoissonSample(0.6, pl.Laplace(0.5)), 0.6, [2.0])]


@pytest.mark.parametrize(("node", "rate", "shifts"), SAMPLES)
def test_a_sampled_laplace_is_never_too_cheap(node, rate, shifts):
    """By quadrature, as `rdp` is itself above the truth where several share a sample."""
    shares = np.array([1.0, 0.5, 0.03, 1e-3, 0.0])
    found = pl.nodes.rdp_per_record(node, shares, ORDERS)
    for row, share in zip(found[:-1], shares[:-1].tolist(), strict=True):
        for bound, order in zip(row.tolist(), ORDERS, strict=True):
            true = true_sample(rate, [share * shift for shift in shifts], order)
            assert bound >= true * (1 - 1e-9)
            assert bound <= 1.012 * true or len(shifts) > 1
    assert not found[-1].any()


@pytest.mark.parametrize("node", SAMPLED_LAPLACE, ids=pl.nodes.label)
def test_a_full_share_of_sampled_laplaces_costs_no_more_than_the_node(node):
    found = pl.nodes.rdp_per_record(node, np.array([1.0, 0.0]), ORDERS)
    assert (found[0] <= np.array(pl.rdp(node, ORDERS)) * (1 + 1e-12)).all()
    assert not found[1].any()


def test_an_order_may_be_listed_anywhere():
    shares = np.array([0.2, 0.9])
    found = pl.nodes.rdp_per_record(pl.PoissonSample(0.1, G), shares, [8, 2.0, 8.0])
    rising = pl.nodes.rdp_per_record(pl.PoissonSample(0.1, G), shares, [2.0, 8.0])
    assert np.array_equal(found, rising[:, [1, 0, 1]])


def test_nothing_costs_nothing():
    for node in (pl.Sequential([]), pl.nodes.PostProcess("x"),
                 pl.PoissonSample(0.5, pl.nodes.Public("y"))):
        assert not pl.nodes.rdp_per_record(node, np.array([0.5, 1.0]), ORDERS).any()


@all_cases("node", [
    pl.Exponential(1.0), pl.DiscreteGaussian(2.0), pl.DiscreteLaplace(1.0), pl.Asserted(1.0, "x"),
    pl.Parallel([G, G]), pl.nodes.Group(2, G), pl.IndividualFilter("gdp", 1.0, node=G),
    pl.PoissonSample(0.1, pl.Sequential([G, L])), pl.PoissonSample(0.1, pl.PoissonSample(0.1, G)),
    pl.PoissonSample(0.1, pl.nodes.Group(2, G)), pl.PoissonSample(0.1, pl.Exponential(1.0)),
    pl.PoissonSample(0.1, pl.IndividualFilter("gdp", 1.0)), pl.Sequential([G, pl.Parallel([G])]),
], ids=pl.nodes.label)
def test_no_proof_means_refused(node):
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.nodes.rdp_per_record(node, np.array([0.5]), ORDERS)


def test_relations():
    shares = np.array([0.5])
    same = pl.nodes.rdp_per_record(G, shares, ORDERS, "replace_one")
    assert np.array_equal(same, pl.nodes.rdp_per_record(G, shares, ORDERS))
    with pytest.raises(pl.errors.RelationMismatch):
        pl.nodes.rdp_per_record(pl.PoissonSample(0.1, G), shares, ORDERS, "replace_one")
    refused(pl.InvalidValue, lambda: pl.nodes.rdp_per_record(G, shares, ORDERS, "neighbours"))


@all_cases("bad", [
    np.array([0.7312345, math.nan]), np.array([0.7312345, 1.5]), np.array([0.7312345, -0.1]),
    np.array([[0.7312345]]), np.array([True]), np.array(["0.7312345"]), [0.7312345], None])
def test_bad_shares_are_refused_without_saying_one(bad):
    with pytest.raises(pl.InvalidValue) as caught:
        pl.nodes.rdp_per_record(pl.PoissonSample(0.1, G), bad, ORDERS)
    assert "73123" not in str(caught.value)


@pytest.mark.parametrize("bad", [[], [1.0], [0.5, 2.0], [math.nan], [math.inf], [True], ["2"]])
def test_bad_orders_are_refused(bad):
    refused(pl.PrivledgerError, lambda: pl.nodes.rdp_per_record(G, np.array([0.5]), bad))


def test_no_node_no_price():
    with pytest.raises(pl.errors.InvalidMechanism):
        pl.nodes.rdp_per_record("Gaussian", np.array([0.5]), ORDERS)


def test_the_shares_are_left_as_they_were():
    shares = np.array([0.25, 0.5])
    pl.nodes.rdp_per_record(pl.Repeat(pl.Sequential([G, L]), 3), shares, ORDERS)
    assert shares.tolist() == [0.25, 0.5]
