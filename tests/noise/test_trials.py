"""The number of trials has exactly the law that the price of `Tuning` rests on."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import privledger as pl
from privledger.accounting.tuning import negative_binomial_mean
from privledger.noise.seeded import SeededSource
from privledger.noise.trials_law import TrialsLaw, number_of_trials
from tests.all_cases import all_cases

NB = "negative_binomial"
LAWS = [TrialsLaw(NB, 1.0, 0.1), TrialsLaw(NB, 0.0, 0.05), TrialsLaw(NB, -0.5, 0.01),
        TrialsLaw(NB, 2.5, 0.3), TrialsLaw(NB, 1e-6, 0.2), TrialsLaw(NB, 40.0, 0.9),
        TrialsLaw("poisson", mean=3.0), TrialsLaw("poisson", mean=0.01),
        TrialsLaw("poisson", mean=800.0)]


def mean_of(law):
    return law.mean if law.mean else negative_binomial_mean(law.shape, law.success)


def masses(law, most):
    low, high = law.at_least(30)
    low, high = Fraction(low), Fraction(high)
    assert 0 < high - low <= high * Fraction(3, 10**30)
    found = [float(low)]
    for k in range(law.least, law.least + most):
        found.append(found[-1] * float(law.factor(k)))
    return np.array(found)


@all_cases("law", LAWS, ids=str)
def test_the_law_sums_to_one_and_has_the_priced_mean(law):
    most = int(60 * mean_of(law) + 2000) if law.mean < 100 else 1500
    found = masses(law, most) if law.mean < 700 else None
    if found is None:
        found = stats.poisson.pmf(np.arange(most), law.mean)
        assert float(law.at_least(30)[0]) == pytest.approx(math.exp(-law.mean), rel=1e-9, abs=0)
    ks = law.least + np.arange(len(found))
    assert found.sum() == pytest.approx(1.0, rel=1e-6)
    assert (found * ks).sum() == pytest.approx(mean_of(law), rel=1e-5)


def test_against_known_laws():
    assert masses(LAWS[0], 20) == pytest.approx(stats.geom.pmf(np.arange(1, 22), 0.1))
    assert masses(LAWS[1], 20) == pytest.approx(stats.logser.pmf(np.arange(1, 22), 0.95))
    nb = stats.nbinom.pmf(np.arange(1, 22), 2.5, 0.3) / (1 - 0.3**2.5)
    assert masses(LAWS[3], 20) == pytest.approx(nb)


@pytest.mark.parametrize("law", LAWS[:7], ids=str)
def test_draws_follow_the_law(law):
    """Largest distance of distribution functions of 1000 draws; Massart's bound: alarm 1e-7."""
    source, n = SeededSource(3), 1000
    mean = mean_of(law)
    drawn = np.array([number_of_trials(law, mean, source) for _ in range(n)])
    assert drawn.min() >= law.least
    most = int(drawn.max()) + 1
    found = np.cumsum(masses(law, most))
    seen = np.array([(drawn <= law.least + place).mean() for place in range(most + 1)])
    assert np.abs(found - seen).max() <= math.sqrt(math.log(2 / 1e-7) / (2 * n))


def test_a_large_mean_is_found_where_it_is():
    found = number_of_trials(TrialsLaw("poisson", mean=800.0), 800.0, SeededSource(1))
    assert 600 < found < 1000


class Words:
    """A source whose words are given, so that V sits where we want it."""

    def __init__(self, *words):
        self.words = list(words)

    def integers64(self, size):
        return np.array([self.words.pop(0) for _ in range(size)], dtype=np.uint64)


def test_the_edge_between_two_numbers_is_decided_by_more_bits():
    law = TrialsLaw(NB, 1.0, 0.5)  # F(1) is exactly one half
    half = 1 << 63
    assert number_of_trials(law, 2.0, Words(half, 1)) == 2
    assert number_of_trials(law, 2.0, Words(half - 1, 7)) == 1
    assert number_of_trials(law, 2.0, Words(2**64 - 1, 1 << 40, 0)) > 60


def test_what_would_run_for_ever_is_refused():
    with pytest.raises(pl.errors.UnsupportedNode, match="expected runs"):
        number_of_trials(TrialsLaw(NB, 1.0, 1e-6), 1e6, SeededSource(0))
