"""Numbers and counterexamples that the pages of docs/proofs state, computed by themselves."""

# ruff: noqa: E501, E731, E741

from __future__ import annotations

import math
from math import erf, sqrt

import numpy as np

import privledger as pl
from privledger.accounting import laplace_currencies, range_currencies, steps_currencies


def test_an_epoch_of_allocations_and_of_samples():
    """docs/proofs/allocation.md."""
    epoch = pl.nodes.RandomAllocation(1000, pl.Gaussian(1.0))
    poisson = pl.Repeat(pl.PoissonSample(1 / 1000, pl.Gaussian(1.0)), 1000)
    assert round(pl.epsilon(epoch, 1e-6), 3) == 0.172
    assert round(pl.epsilon(poisson, 1e-6), 3) == 0.186


def test_permute_and_flip_has_a_wider_range():
    """docs/proofs/bounded-range.md."""
    best = lambda gap: 1 - math.exp(-gap / 2) / 2
    first = math.log(best(0) / best(2)), math.log((1 - best(0)) / (1 - best(2)))
    second = math.log(best(1) / (1 - best(1)))
    assert round(first[0], 3) == -0.490 and round(first[1], 3) == 1.0 and round(2 * second, 3) == 1.664


def test_the_profile_of_a_bounded_range():
    """docs/proofs/bounded-range.md."""
    eta = 1.0
    delta = lambda epsilon: (1 - math.exp((epsilon - eta) / 2)) ** 2 / (1 - math.exp(-eta))
    steps = 20000
    grid = [-eta + (k + 0.5) * 2 * eta / steps for k in range(steps)]
    density = lambda l: math.exp(l / 2) / (4 * math.sinh(eta / 2))
    direct = sum(density(l) * max(0.0, 1 - math.exp(0.5 - l)) for l in grid) * 2 * eta / steps
    assert abs(direct - delta(0.5)) < 1e-6 and abs(delta(0.0) - math.tanh(eta / 4)) < 1e-12


def test_choices_that_adapt_cost_a_little_more():
    """docs/proofs/bounded-range.md."""
    eta, k, m = 0.5, 3, 8
    E, s = math.exp(eta), eta / m
    p = [(E - math.exp(j * s)) / (E - 1) for j in range(m + 1)]
    value = {j: max(0.0, 1 - math.exp(j * s)) for j in range(-5 * m, 5 * m + 1)}
    for _ in range(k):
        value = {j: max(p[o] * value[j - o] + (1 - p[o]) * value[j - o + m] for o in range(m + 1))
                 for j in value if j - m in value and j + m in value}
    adapted = value[m]  # delta at epsilon = eta
    apart = max(sum(math.comb(k, j) * q**j * (1 - q)**(k - j) * max(0.0, 1 - math.exp(eta - j * t + (k - j) * (eta - t)))
                    for j in range(k + 1)) for t, q in ((o * s, p[o]) for o in range(m + 1)))
    assert apart < adapted < 1.05 * apart


def test_gaussian_currencies_of_pure_mechanisms():
    """docs/proofs/currencies.md."""
    e, orders = 1.0, [1 + 10 ** (k / 10 - 3) for k in range(40)]
    renyi = lambda x: math.log((x * math.exp((x - 1) * e) + (x - 1) * math.exp(-x * e)) / (2 * x - 1)) / (x - 1)
    assert max(renyi(x) / x for x in orders) <= laplace_currencies(e)[1] < math.exp(-1) * (1 + 1e-9)
    log_sinh = lambda z: math.log(math.sinh(z / 2) / (z / 2))
    for x in orders[10:]:
        psi = x * log_sinh(x * e) - (x - 1) * log_sinh((x - 1) * e) - log_sinh(e)
        assert psi <= x * (x - 1) * range_currencies(e)[1] * (1 + 1e-9)
    assert steps_currencies(1.0, 2)[0] < steps_currencies(2.0, 1)[0] < 4 * steps_currencies(1.0, 1)[0]


def test_epsilons_chosen_adaptively_pass_a_fixed_plan():
    """docs/proofs/filters.md."""
    p = math.e / (1 + math.e)
    at_zero = (math.e - 1) / (math.e + 1)  # delta of A at epsilon 0; at epsilon 2 it is 0
    fixed = p * at_zero
    adaptive = p * at_zero + (1 - p) * fixed
    assert round(fixed, 3) == 0.338 and round(adaptive, 3) == 0.429


def test_a_pure_child_amplified():
    """docs/proofs/fixed-size.md."""
    eta, epsilon = 0.1, 1.0
    amplified = math.log(1 + eta * math.expm1(epsilon))
    assert round(amplified, 6) == 0.158565


def test_labels_of_two_rows_need_half_a_root():
    """docs/proofs/people.md."""
    one, other = (1.0, 0.0), (0.0, 1.0)  # two rows' labels, and exchanged
    assert math.dist(one, other) > 1.41  # each of norm one: bound 1 broken
    half = math.sqrt(2)
    assert math.dist([x / half for x in one], [x / half for x in other]) <= 1 + 1e-15


def test_coins_in_two_parts_add_up_to_more_than_one():
    """docs/proofs/people.md."""
    q, mu = 0.1, 12.0
    below = lambda x: (1 + erf(x / sqrt(2))) / 2
    whole = q * erf(mu / sqrt(8))  # delta at epsilon 0 of one sample with everything in it
    quiet = below(3.0)  # half of the person, mu / 2, in each of two parts; alarm above 3
    seen = 1 - (q * below(3.0 - mu / 2) + (1 - q) * quiet) ** 2
    assert seen - (1 - quiet**2) > 1.8 * whole  # what two coins add up to was priced as one


def test_dp_sgd_by_its_distribution():
    """docs/proofs/privacy-loss.md."""
    steps = pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 1000)
    found = pl.certify(steps, 1e-5)
    assert found.accountant == "pld" and 1.8282 < found.epsilon < 1.8283
    assert found.epsilon < pl.epsilon(steps, 1e-5, accountant="rdp")


def test_an_exchanged_row_of_dp_sgd():
    """docs/proofs/relations.md."""
    steps = pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 1000)
    exchange = pl.certify(pl.nodes.AsReplaceOne(steps), 1e-5, relation="replace_one")
    assert exchange.accountant == "pld" and 2.8434 < exchange.epsilon < 2.8435


def test_twice_a_sample_is_no_group():
    """docs/proofs/relations.md."""
    q, mu, k = 0.1, 0.5, 2
    w = [(1 - q) ** 2, 2 * q * (1 - q), q * q]
    pair = math.log(sum(w[i] * w[j] * math.exp(i * j * mu * mu) for i in range(3) for j in range(3)))
    single = math.log(1 + q * q * math.expm1(mu * mu))
    assert round(pair, 5) == 0.01164 and round(k * single, 5) == 0.00567


def test_a_label_outside_its_candidates():
    """docs/proofs/relations.md."""
    r, k = 0.3, 4
    inside, other, outside = 1 - r + r / k, r / k, 1 / k
    bound = 1 + k * (1 - r) / r
    assert abs(inside / other - bound) < 1e-12
    assert outside / other <= bound and inside / outside <= bound


def test_renyi_curve_of_a_run():
    """docs/proofs/sparse-vector.md."""
    def laplace(order, e0):
        beta = order - 1
        return math.log((order * math.exp(beta * e0) + beta * math.exp(-order * e0)) / (2 * order - 1)) / beta

    def pure_rdp(order, e0):
        p, beta = 1 / (1 + math.exp(-e0)), order - 1
        return math.log(p * math.exp(beta * e0) + (1 - p) * math.exp(-beta * e0)) / beta

    for order, value in ((2, 0.0056118612), (8, 0.0213999993), (64, 0.0645829025)):
        ours = min(2 * 2 / 80 + laplace(order, 1 / 40), pure_rdp(order, 1 / 40 + 2 * 2 / 80))
        assert round(ours, 10) == value


def test_releases_on_one_sample_are_one_gaussian():
    """docs/proofs/subsampling.md."""
    apart = 2 * pl.rdp(pl.PoissonSample(0.01, pl.Gaussian(1.0)), [2.0])[0]
    together = pl.rdp(pl.PoissonSample(0.01, pl.Repeat(pl.Gaussian(1.0), 2)), [2.0])[0]
    assert round(apart, 6) == 0.000344 and round(together, 6) == 0.000639


def test_a_share_of_a_record():
    """docs/proofs/subsampling.md."""
    node = pl.PoissonSample(0.01, pl.Gaussian(1.0))
    found = pl.nodes.rdp_per_record(node, np.array([0.0, 0.5, 1.0]), [16.0])[:, 0]
    half = pl.rdp(pl.PoissonSample(0.01, pl.Gaussian(2.0)), [16.0])[0]
    assert found[0] == 0 and half <= found[1] <= 1.01 * half and found[2] == pl.rdp(node, [16.0])[0]


def test_a_largest_size_costs_little():
    """docs/proofs/truncated.md."""
    def rounds(sample):
        return pl.epsilon(pl.Repeat(sample, 1000), 1e-6)

    usual = rounds(pl.PoissonSample(0.01, pl.Gaussian(1.0)))
    for most, more in ((150, 1.007), (200, 1.00001)):
        cut = rounds(pl.nodes.TruncatedPoissonSample(0.01, most, 10_000, pl.Gaussian(1.0)))
        assert usual * (1 - 1e-6) <= cut <= usual * more  # both are upper bounds, on their own grids


def test_a_tuned_gaussian():
    """docs/proofs/tuning.md."""
    def tuned(rho, order, eta, gamma, grid):
        mean = 1 / gamma if eta == 1 else eta * (1 / gamma - 1) / (1 - gamma**eta)
        extra = min((1 - 1 / h) * rho(h) + math.log(1 / gamma) / h for h in grid)
        return rho(order) + math.log(mean) / (order - 1) + (1 + eta) * extra

    gauss = lambda order: order * 0.1**2 / 2
    cost = tuned(gauss, 8.0, 1.0, 0.1, [1 + k / 10 for k in range(1, 2000)])
    assert round(cost, 4) == 0.7881
