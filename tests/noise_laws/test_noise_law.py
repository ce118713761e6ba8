"""The suite `noise-law`: right noise passes, by proof; wrong noise does not.

Number bounds have no false alarm. Each chi-square has one of 1e-9 by design; seeds are fixed, so
a test gives the same answer every time. `pool` looks at real entropy: false alarm 2**-30.
"""

import decimal
import math

import mpmath
import numpy as np
import pytest
from scipy import stats

from privledger.errors import InvalidValue
from privledger.guard import ledger as _guard  # noqa: F401  (the patched modules are loaded)
from privledger.noise.seeded import SeededSource
from privledger.noise.source import SystemSource
from tests.all_cases import all_cases
from tests.noise_laws import distances, edge_laws, noise_law, stratified
from tests.noise_laws.noise_law import LAWS, LawResult
from tests.worlds import refused

SMALL = 1 << 16


def seen(law, seed=0, size=SMALL):
    (result,) = noise_law.noise_law(laws=[law], size=size, seed=seed)
    return not result.holds


# --- right noise --------------------------------------------------------------------------------

@pytest.mark.parametrize("law", LAWS)
def test_right_noise_holds(law):
    assert not seen(law)


QUICK = ("bernoulli", "uniform", "exponential", "permute-and-flip",
         "randomized-response", "session-sample", "session-coins", "session-exponential",
         "session-responses", "session-fixed", "session-truncated", "session-allocation")


@all_cases("law", QUICK)
def test_right_noise_holds_with_other_seeds(law):
    assert not [seed for seed in (1, 2) if seen(law, seed, 1 << 14)]


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
def test_right_noise_holds_with_many_seeds(law):
    assert not [seed for seed in range(100, 125) if seen(law, seed, 1 << 18)]


@pytest.mark.slow
def test_a_seeded_source_is_seen_to_use_no_words():
    """Its noise is floats of another generator: nothing says that it has the law."""
    results = noise_law.noise_law(lambda deal: SeededSource(1), laws=["gaussian", "bernoulli"])
    assert not any(result.holds for result in results)


# --- the suite itself ---------------------------------------------------------------------------

def test_a_seed_repeats():
    asked = {"laws": ["exponential", "session-exponential"], "size": 1 << 14}
    assert noise_law.noise_law(**asked, seed=3) == noise_law.noise_law(**asked, seed=3)
    assert noise_law.noise_law(**asked, seed=3) != noise_law.noise_law(**asked, seed=4)
    assert all(type(result) is LawResult for result in noise_law.noise_law(**asked))


@pytest.mark.parametrize("wrong", [{"laws": ["no such"]}, {"size": 100}, {"size": 2**30},
                                   {"size": True}, {"seed": -1}, {"seed": 0.5}])
def test_impossible_arguments_are_refused(wrong):
    refused(InvalidValue, lambda: noise_law.noise_law(**{"laws": ["bernoulli"]} | wrong))


@pytest.mark.parametrize("size", [2, 3, 5, 1000, 4097, 1 << 14])
def test_each_stratum_has_one_word(size):
    words = stratified.strata(size, SeededSource(size)).tolist()
    assert sorted(word * size >> 64 for word in words) == list(range(size))
    assert stratified.in_order(size, SeededSource(1)).tolist() == sorted(
        stratified.in_order(size, SeededSource(1)).tolist())


def test_a_dealer_knows_what_was_asked_of_it():
    random = SeededSource(1)
    deck = np.arange(8, dtype=np.uint64)
    deal = stratified.Dealer(deck, random)
    assert deal(5).tolist() == [0, 1, 2, 3, 4] and not deal.clean
    assert deal(1)[0] > 8  # an extension: from beside the deck
    assert deal(3).tolist() == [5, 6, 7] and deal.clean and deal.rounds == 0
    assert len(deal(4)) == 4 and len(deal(0)) == 0 and deal.rounds == 1
    over = stratified.Dealer(deck, random, singles=True)
    assert over(1).tolist() == [0] and len(over(20)) == 20 and not over.clean


def test_the_source_of_the_suite_is_not_private():
    source = stratified.DealtSource(stratified.Dealer(np.zeros(0, dtype=np.uint64),
                                                      SeededSource(0)))
    assert isinstance(source, SystemSource)
    assert not source.private and "NOT PRIVATE" in source.describe()


# --- the laws themselves, against mpmath and SciPy ----------------------------------------------

def test_tails_agree_with_mpmath():
    points = np.concatenate([np.linspace(0, 12, 400), 2.0 ** np.arange(-40, 4)])
    for ours, true in ((distances.gaussian_tail, lambda t: mpmath.erfc(t / mpmath.sqrt(2))),
                       (distances.laplace_tail, lambda t: mpmath.exp(-t))):
        with mpmath.workprec(120):
            for t, found in zip(points.tolist(), ours(points).tolist(), strict=True):
                right = true(mpmath.mpf(t))
                assert abs(found - right) <= right * mpmath.mpf(2) ** -43


def test_the_tail_in_decimals_agrees_with_mpmath():
    with mpmath.workdps(90), decimal.localcontext() as context:
        context.prec = 70
        for t in ("0.001", "0.5", "1.75", "3.1", "4.9"):
            found = mpmath.mpf(str(edge_laws.normal_tail(decimal.Decimal(t))))
            assert abs(found - mpmath.erfc(mpmath.mpf(t) / mpmath.sqrt(2))) < mpmath.mpf(10) ** -60


@pytest.mark.parametrize("scale", [0.3, 3.7, 1e6])
def test_rounded_laws_agree_with_scipy(scale):
    k = np.unique(np.rint(np.linspace(-6 * scale, 6 * scale, 60)))
    for tail, law in ((distances.gaussian_tail, stats.norm), (distances.laplace_tail,
                                                              stats.laplace)):
        np.testing.assert_allclose(distances.rounded_to(tail, scale)(k),
                                   law.cdf((k + 0.5) / scale), rtol=0, atol=1e-13)
        np.testing.assert_allclose(distances.continuous(tail, scale)(k), law.cdf(k / scale),
                                   rtol=0, atol=1e-13)
        cut = distances.rounded_to(tail, scale, within=2.0**-5)(k)
        edge = law.isf(2.0**-6)
        inside = np.abs((k + 0.5) / scale) <= edge
        np.testing.assert_allclose(cut[inside], 0.5, atol=1e-9)


def test_flips_agree_with_their_definition():
    """All orders and all coins, by hand: three candidates."""
    import itertools

    scores, rate = [0.0, -0.7, -1.1], 1.3
    heads = [math.exp(rate * score) for score in scores]
    chances = np.zeros(3)
    for order in itertools.permutations(range(3)):
        none = 1.0
        for one in order:
            chances[one] += none * heads[one] / 6
            none *= 1 - heads[one]
    np.testing.assert_allclose(distances.by_flips(scores, rate), chances, atol=1e-12)


def test_numbers_of_trials_agree_with_scipy():
    np.testing.assert_allclose(distances.poisson(6.5, 40), stats.poisson(6.5).pmf(range(41)),
                               atol=1e-13)
    np.testing.assert_allclose(distances.negative_binomial(1.0, 0.2, 60)[1:],
                               stats.geom(0.2).pmf(range(1, 61)), atol=1e-13)
    np.testing.assert_allclose(distances.negative_binomial(0.0, 0.1, 60)[1:],
                               stats.logser(0.9).pmf(range(1, 61)), atol=1e-13)
    for shape in (2.5, -0.5):
        total = math.fsum(distances.negative_binomial(shape, 0.3, 400))
        assert total == pytest.approx(1, abs=1e-12)


def test_a_distance_is_that_of_two_distribution_functions():
    draws = np.array([0, 0, 1, 3])
    law = [0.25, 0.25, 0.25, 0.25]

    def at(k):
        return np.clip((k + 1) / 4, 0, 1)

    assert distances.kolmogorov(draws, at, lambda k: at(k - 1)) == 0.25
    assert distances.of_table(draws, law) == 0.25
    assert distances.of_table(np.array([4]), law) == math.inf
    assert distances.kolmogorov(np.zeros(0), at, at) == math.inf
    assert distances.chi_square([0, 0], [0.5, 0.5]).distance == math.inf
