"""Exchanged rows and groups on a Poisson sample of any child: enumerated worlds, and what is
attained by a row that moves one way against a row that moves the other."""

from __future__ import annotations

import itertools
import math

import mpmath as mp  # type: ignore[import-untyped]
import numpy as np
import pytest

import privledger as pl
from privledger.accounting import delta_from_mu
from privledger.accounting.pld.by_pld import delta_of_one
from privledger.accounting.pld.envelopes import choices
from privledger.accounting.pld.losses import Losses, Sampled, _slopes, resolve
from privledger.accounting.pld.mixtures import binomial
from privledger.accounting.pld.pairs import (
    AtomPair,
    BoundedRangePair,
    GaussianPair,
    LaplacePair,
    pure_pair,
)
from privledger.accounting.pld.several_rows import _of_any
from privledger.accounting.pld.shifted import after, chained_pair, shifted_pair, slopes
from privledger.cli.export import entry_line
from privledger.graph import cost_of
from tests.all_cases import all_cases
from tests.alone import verify_history

ONE = pl.nodes.AsReplaceOne
LEVELS = np.exp(np.linspace(-2.5, 2.5, 21))


def profile(p, q, level):
    return float(np.maximum(0.0, p - level * q).sum())


def profile_of(pair: AtomPair, level: float) -> float:
    atoms = pair.atoms()
    return float(np.maximum(0.0, atoms.p * (1 - level * np.exp(-atoms.loss))).sum()
                 + atoms.infinite)


@pytest.mark.parametrize(("inside", "price"), [
    (pl.Laplace(1.0), 2.2532), (pl.DiscreteGaussian(4.0), 0.6483), (pl.Exponential(1.0), 1.5531),
    (pl.Asserted(1.0, "x"), 2.4692), (pl.PermuteAndFlip(1.0), 2.2532)])
def test_the_numbers_of_the_issue(inside, price):
    """Laplace noise costs 2.248 at least (a test of its own), the discrete Gaussian .6465."""
    plan = ONE(pl.Repeat(pl.PoissonSample(0.01, inside), 1000))
    found = pl.certify(plan, 1e-6, relation="replace_one")
    assert found.accountant == "pld" and price - 2e-4 < found.epsilon < price


def test_no_exchanged_row_of_a_random_child_passes_the_pair():
    """Two tables of other rows; R is uniform, and A and B are rearranged: one power function,
    which is not its own mirror image."""
    source, nearest = np.random.default_rng(6), 0.0
    for _ in range(150):
        many, rate = int(source.integers(2, 6)), float(source.choice([0.01, 0.2, 0.7]))
        r = np.full(many, 1 / many)
        a = r * np.exp(source.uniform(-1, 1, many) * source.choice([0.5, 2.0]))
        a /= a.sum()
        pair = shifted_pair("replace", (1 - rate, rate), [slopes(np.log(a / r), a, 0.0, 0.0)])
        mixed = source.dirichlet(np.ones(2))
        worlds = [(source.permutation(a), source.permutation(a)) for _ in mixed]
        for level in LEVELS.tolist():
            bound = profile_of(pair, level)
            each = [profile((1 - rate) * r + rate * x, (1 - rate) * r + rate * y, level)
                    for x, y in worlds]
            assert max(each) <= bound + 1e-12
            nearest = max(nearest, max(each) / bound if bound > 1e-9 else 0.0)
            assert mixed @ each <= bound + 1e-12
            # It is its own mirror image.
            assert bound == pytest.approx(1 - level + level * profile_of(pair, 1 / level),
                                          abs=1e-10)
    assert nearest > 0.99


def test_no_group_of_a_random_pure_child_passes_the_pair():
    source, e = np.random.default_rng(7), 0.7
    for rate, rows in itertools.product((0.02, 0.5), (2, 3)):
        chances = binomial(rate, rows)
        lane = _of_any(Sampled("remove", rate, pure_pair(e, tight=False)), rows)
        assert lane is not None and len(lane.steps) == rows
        pairs = {kind: resolve(Sampled(kind, rate, lane.inner, rows, lane.steps, lane.weights),
                               1e-30)[0][0] for kind in ("remove", "add", "replace")}

        def chain(start, rows=rows):
            laws = [start]
            for _ in range(rows):
                one = laws[-1] * np.exp(e * (source.random(len(start)) < 0.5))
                laws.append(one / one.sum())
            return laws

        for _ in range(40):
            r = source.dirichlet(np.ones(4))
            with_them = sum(c * law for c, law in zip(chances, chain(r), strict=True))
            others = sum(c * law for c, law in zip(chances, chain(r), strict=True))
            for level in LEVELS.tolist():
                for kind, p, q in (("remove", with_them, r), ("add", r, with_them),
                                   ("replace", with_them, others)):
                    assert profile(p, q, level) <= profile_of(pairs[kind], level) + 1e-12


# --- What is attained: noise on a sum to which a row adds 1, or takes 1 from it.


def shifted(law, by):
    return np.concatenate([np.zeros(by), law[:len(law) - by]]) if by >= 0 else (
        np.concatenate([law[-by:], np.zeros(-by)]))


def whole(kind, size):
    z = np.arange(-400, 401)
    law = np.exp(-size * np.abs(z)) if kind == "laplace" else np.exp(-z * z / (2.0 * size * size))
    return law / law.sum()


def fine_laplace(e):
    """Laplace noise whose outputs are told to a 400th of the shift; the rest is put together."""
    edge = np.arange(-14_000, 14_001) / 400 * e
    cdf = np.where(edge < 0, np.exp(np.minimum(edge, 0)) / 2, 1 - np.exp(-np.maximum(edge, 0)) / 2)
    return np.diff(np.concatenate([[0.0], cdf, [1.0]]))


@all_cases("rate", [0.01, 0.3])
@all_cases(("node", "law", "step"), [
    (pl.Laplace(1.0), fine_laplace(1.0), 400),
    (pl.DiscreteLaplace(0.4, 1), whole("laplace", 0.4), 1),
    (pl.DiscreteLaplace(0.4, 3), whole("laplace", 0.4), 3),
    (pl.DiscreteGaussian(2.0, 1), whole("normal", 2.0), 1),
    (pl.DiscreteGaussian(2.0, 2), whole("normal", 2.0), 2)])
def test_a_row_that_moves_one_way_attains_it(node, law, step, rate):
    plain = pl.PoissonSample(rate, node)
    for rows, relation in ((1, "replace_one"), (2, "replace_one"), (2, "add_remove"),
                           (3, "add_remove")):
        chances = binomial(rate, rows)
        grouped = pl.nodes.Group(rows, plain) if rows > 1 else plain
        priced = ONE(grouped) if relation == "replace_one" else grouped
        ups = sum(c * shifted(law, j * step) for j, c in enumerate(chances))
        downs = sum(c * shifted(law, -j * step) for j, c in enumerate(chances))
        for epsilon in (0.0, 0.3 * rate, 0.02, 0.4 * rate * rows):
            level = math.exp(epsilon)
            truth = profile(ups, downs, level) if relation == "replace_one" else max(
                profile(ups, law, level), profile(law, downs, level))
            found = pl.delta(priced, epsilon, relation=relation, accountant="pld")
            assert truth * (1 - 1e-6) - 1e-12 <= found
            assert found <= truth * 1.01 + 1e-9


def test_weaker_plans_cost_no_more():
    """Fewer rows, smaller rates, more noise, fewer rounds."""
    def price(noise=1.0, rate=0.05, rows=3, rounds=40, inside=pl.Laplace):
        plan = pl.nodes.Group(rows, pl.Repeat(pl.PoissonSample(rate, inside(noise)), rounds))
        return pl.epsilon(plan, 1e-6), pl.epsilon(ONE(plan), 1e-6, relation="replace_one")

    for inside in (pl.Laplace, lambda noise: pl.Exponential(1 / noise), pl.DiscreteGaussian,
                   lambda noise: pl.Asserted(1 / noise, "x")):
        dear = price(inside=inside)
        assert dear[0] <= dear[1]
        for weaker in ({"noise": 1.3}, {"rate": 0.04}, {"rows": 2}, {"rows": 1}, {"rounds": 30}):
            cheap = price(inside=inside, **weaker)
            assert cheap[0] <= dear[0] * (1 + 1e-9) and cheap[1] <= dear[1] * (1 + 1e-9)


def test_many_rows_stand_for_every_rare_number():
    lane = _of_any(Sampled("remove", 0.01, pure_pair(0.5, tight=False)), 40)
    assert lane is not None and len(lane.steps) < 40
    assert abs(math.fsum(lane.weights) - 1) < 1e-14
    assert lane.steps[-1].top == pytest.approx(20.0)
    known, whole_one = (pl.epsilon(pl.nodes.Group(rows, pl.PoissonSample(
        0.01, pl.Asserted(0.5, "x"))), 1e-6) for rows in (40, 39))
    assert whole_one <= known


def test_a_mixture_on_one_sample_and_one_round():
    inside = pl.Sequential([pl.Laplace(2.0), pl.Gaussian(3.0)])
    plan = ONE(pl.Repeat(pl.PoissonSample(0.01, inside), 1000))
    apart = ONE(pl.Repeat(pl.Sequential([pl.PoissonSample(0.01, one) for one in inside.nodes]),
                          1000))
    together, less = (pl.epsilon(one, 1e-6, relation="replace_one") for one in (plan, apart))
    assert less < together < 1.561
    pair = resolve(cost_of(ONE(pl.PoissonSample(0.3, pl.Exponential(1.0))),
                           "replace_one").losses.remove, 1e-30)[0][0]
    assert delta_of_one(pair, 0.0) < delta_of_one(pure_pair(0.7), 0.0)
    assert pair.top < 1.0


def test_both_readers_take_such_a_plan():
    """Priced by losses in a ledger that adds up epsilons and deltas."""
    budget = pl.Budget(6.0, 1e-5)
    ledger = pl.Ledger.create(None, budget=budget, relation="replace_one", filter="basic")
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, pl.Schema(
        "one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),)))
    for inside in (pl.Laplace(1.0), pl.DiscreteGaussian(4.0), pl.Exponential(1.0)):
        plan = ONE(pl.Repeat(pl.PoissonSample(0.01, inside), 200))
        ledger.request(plan, data, delta=1e-6, learner="t").close()
    assert ledger.verify() == []
    book = verify_history.Book()
    for entry in ledger._history.store.read():
        book.take(entry_line(entry).encode("ascii"))
    book.finish({}.get)
    assert not book.faults


# --- Any other release: one power function after another.


def corners_of(r, a):
    """Q and P masses of the best tests of a against r, exactly."""
    order = sorted(range(len(r)), key=lambda place: -(a[place] / r[place]))
    return [(mp.fsum(r[one] for one in order[:k]), mp.fsum(a[one] for one in order[:k]))
            for k in range(len(r) + 1)]


def between(points, at):
    for (x, y), (u, v) in itertools.pairwise(points):
        if at <= u:
            return y + (v - y) * (at - x) / (u - x)
    return mp.mpf(1)


def law(source, many):
    r, moves = source.dirichlet(np.ones(many)), source.uniform(-1, 1, many)
    size = mp.mpf(float(source.choice((0.01, 0.5, 3))))
    first = [mp.mpf(float(one)) for one in r]
    second = [one * mp.exp(mp.mpf(float(move)) * size)
              for one, move in zip(first, moves, strict=True)]
    return [[one / mp.fsum(side) for one in side] for side in (first, second)]


def test_two_steps_of_random_laws_are_never_below_and_hardly_above():
    """At 40 digits: tables one after another, whose best tests are nested, attain the pair."""
    source = np.random.default_rng(35)
    with mp.workdps(40):
        for _ in range(40):
            steps = [law(source, int(source.integers(2, 7))) for _ in range(2)]
            made = chained_pair(after(*(slopes(
                np.array([float(mp.log(y / x)) for x, y in zip(r, a, strict=True)]),
                np.array([float(y) for y in a]), 0.0, 0.0) for r, a in steps))).atoms()
            first, second = (corners_of(r, a) for r, a in steps)
            mirrored = [(y, x) for x, y in first]
            ends = {x for x, _ in first} | {between(mirrored, x) for x, _ in second}
            for level in map(mp.mpf, LEVELS[::3].tolist()):
                true = max(between(second, between(first, x)) - level * x for x in ends)
                found = made.infinite + mp.fsum(
                    max(0, mp.mpf(p) * (1 - level * mp.exp(-mp.mpf(loss))))
                    for loss, p in zip(made.loss.tolist(), made.p.tolist(), strict=True))
                assert 0 <= found - true < 1e-10


@pytest.mark.parametrize(("one", "two"), [(0.3, 0.3), (0.01, 0.02), (3.0, 1.0)])
def test_two_gaussian_steps_are_one_of_both_shifts(one, two):
    pair = chained_pair(after(_slopes(GaussianPair(one)), _slopes(GaussianPair(two))))
    for epsilon in (0.0, 0.01, 0.1, 1.0):
        truth = delta_from_mu(one + two, epsilon)
        if truth > 1e-20:
            assert 1 - 1e-12 < delta_of_one(pair, epsilon) / truth < 1.001


def test_many_steps_stay_near_and_infinite_losses_are_passed_on():
    found = _slopes(LaplacePair(0.1))
    for _ in range(5):
        found = after(found, found)
    assert len(found.loss) <= 8000
    assert 1 <= delta_of_one(chained_pair(found), 1.0) / -math.expm1((1 - 3.2) / 2) < 1.0005
    told = slopes(np.array([0.5, -0.5]), np.array([0.6, 0.3]), 0.0, 0.1)
    assert after(told, told).infinite >= 0.1 + 0.1 * math.exp(0.5) - 1e-15


@pytest.mark.parametrize(("node", "relation", "price", "before"), [
    (ONE(pl.nodes.RandomAllocation(10, pl.Gaussian(1.0))), "replace_one", 4.5281, 6.88),
    (pl.nodes.Group(2, pl.nodes.FixedSizeSample(10, 1000, pl.Gaussian(1.0))), "replace_one",
     0.8866, 2.83),
    (pl.nodes.Group(2, pl.Repeat(pl.nodes.TruncatedPoissonSample(
        0.1, 120, 1000, pl.Gaussian(1.0)), 10)), "add_remove", 19.9534, 34.4)])
def test_schemes_are_priced_step_by_step(node, relation, price, before):
    found = pl.certify(node, 1e-6, relation=relation)
    assert found.accountant == "pld" and price - 1e-3 < found.epsilon < price
    assert pl.epsilon(node, 1e-6, relation, "rdp") > before


def test_what_has_no_q_mass_to_hold_is_never_lost() -> None:
    """e^-800 is no float: the P mass there has an infinite loss, before and after another step."""
    one = slopes(np.array([800.0, 2.0, -1.0]), np.array([0.25, 0.5, 0.25]), 0.0, 0.125)
    assert one.infinite >= 0.375 and one.loss.max() < 3
    assert after(one, one).infinite >= 1 - 0.625**2
    assert slopes(np.array([800.0]), np.array([1.0]), 0.0, 0.0).infinite == 1


def test_several_rows_of_a_sampled_choice_are_no_choices_of_its_range() -> None:
    lane = BoundedRangePair(0.5)
    for more in ({"rows": 2}, {"kind": "replace"}, {"kind": "fixed"}):
        one, other = (Sampled(**({"kind": kind} | more), rate=0.5, inner=lane)
                      for kind in ("remove", "add"))
        assert choices(Losses(one, other)) is None
    assert choices(Losses(Sampled("remove", 0.5, lane), Sampled("add", 0.5, lane))) == (0.5, 1)
