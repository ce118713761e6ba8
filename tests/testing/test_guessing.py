"""Audits by guessing: no false alarm by exact sums, power where there is a lie, silence else."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from cheats.breaking import LessNoise
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from privledger.errors import PrivledgerError
from privledger.graph.additive import Gaussian, Laplace
from privledger.testing import guess, guessing_audit
from privledger.testing.guessing import _epsilon_low, _Game, _goal, fits_needed, plan_claims
from privledger.testing.scoring import (
    LEVELS,
    NAMES,
    SHARES,
    BetAccount,
    BetClaim,
    for_a_group,
    learned,
    log_sum,
    shares_of_bets,
)
from tests.all_cases import all_cases
from tests.worlds import refused

epsilons, deltas = st.floats(0, 6), st.sampled_from([0.0, 1e-6, 1e-3, 0.2])


def worst(claim):
    """Two laws on four outputs that meet the claim with equality: randomised response, and leaks.

    Shape (2, 4): both tables lie about their name with odds e^epsilon, or tell it outright.
    """
    told, price = claim.delta, math.exp(claim.epsilon)
    lie = (1 - told) / (1 + price)
    return np.array([[told, price * lie, lie, 0], [0, lie, price * lie, told]])


@given(epsilons, deltas)
@settings(max_examples=60, deadline=None)
def test_no_bet_gains_on_average_where_the_claim_holds(epsilon, delta):
    """Every rule that says, of each of four outputs, one table or none: an exact sum."""
    claim = BetClaim(epsilon, delta)
    laws, stakes = worst(claim), claim.stakes()
    assert stakes[0] == pytest.approx(-1) and stakes.min() >= -1 - 1e-12
    means = []
    for rule in itertools.product((-1, 0, 1), repeat=4):
        outcomes = np.array([[said * truth for said in rule] for truth in (-1, 1)])
        means.append(float((laws / 2 * stakes[outcomes + 1]).sum()))
    assert max(means) <= 1e-12  # and the best rule is fair: the claim is tight
    assert max(means) == pytest.approx(0, abs=1e-9)


@given(st.floats(0.01, 3), deltas, st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_a_group_is_so_many_steps(epsilon, delta, records):
    """The chain of inequalities, taken one step at a time."""
    price, told = 1.0, 0.0
    for _ in range(records):
        price, told = price * math.exp(epsilon), told * math.exp(epsilon) + delta
    claim = for_a_group(epsilon, delta, records)
    assert math.exp(claim.epsilon) == pytest.approx(price)
    assert claim.delta == pytest.approx(min(1.0, told))


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
@settings(max_examples=30, deadline=None)
def test_wealth_is_the_sum_of_the_bettors(seed, claims):
    """Against products of plain numbers, bettor by bettor."""
    rng = np.random.default_rng(seed)
    every = [BetClaim(0.3 * (place + 1), 0.01 * place) for place in range(claims)]
    purse = BetAccount(every, np.outer([0.75, 0.25], [0.5, 0.5]))
    outcomes = rng.integers(-1, 2, (5, 2, 2))
    path = purse.settle(outcomes)
    total = 0.0
    for score, level in itertools.product(range(2), range(2)):
        for claim, share in itertools.product(every, SHARES):
            wealth = (0.75, 0.25)[score] / 2 / claims / len(SHARES)
            for said in outcomes[:, score, level]:
                wealth *= 1 + share * claim.stakes()[said + 1]
            total += wealth
    assert path[-1] == pytest.approx(math.log(total))


def played(n_claims, times=3):
    """A game of two scores that are right more often than not."""
    rng = np.random.default_rng(3)
    weights = np.full((2, 3), 1 / 6)
    game = _Game(BetAccount([BetClaim(0.4 + 0.1 * one) for one in range(n_claims)], weights))
    game.scores = tuple(SimpleNamespace(guesses=lambda v, far=far: np.where(
        rng.random((len(v), 3)) < far, 1, -1) * np.where(v[:, :1] > 0, 1, -1)) for far in (.7, .95))
    for _ in range(times):
        second = rng.random(40) < 0.5
        game.play(np.where(second, 1.0, -1.0)[:, None], second)
    return game


def test_wealth_is_what_the_bettors_hold_after_the_last_fit():
    for times in (1, 2, 5):
        game = played(2, times)
        assert game.wealth == pytest.approx(float(log_sum(game.purse.held.reshape(1, -1))[0]))
        assert game.wealth <= game.most and game.bets == len(game.second) == 40 * times


def test_what_guesses_prove_of_epsilon_does_not_depend_on_other_claims():
    found = {_epsilon_low(played(n_claims), 0.0, 1, 8.0) for n_claims in (1, 2, 7)}
    assert len(found) == 1 and found.pop() > 1.0


def test_a_single_far_output_of_many_is_far_from_the_middle():
    near = np.random.default_rng(0).normal(size=(30, 3)) / 10
    second = np.arange(30) < 15
    values = near + 10 * second[:, None] * np.eye(3)[np.arange(30) % 3]
    far = learned(values, second)[NAMES.index("distance from the middle")].of(values)
    assert far[second].min() > far[~second].max()


def test_an_output_that_was_seen_more_often_on_one_table_speaks_for_it():
    """Three of four: at the level that leaves nothing out."""
    values, second = np.repeat([[0.0], [5.0]], 4, axis=0), np.array([1, 1, 1, 0, 0, 0, 0, 1], bool)
    for name in ("one output as a whole", "likelier bins"):
        score = learned(values, second)[NAMES.index(name)]
        assert score.guesses(np.array([[0.0], [5.0]]))[:, 0].tolist() == [1, -1]


def noisy(part, *, law="laplace", epsilon=2.0, seed=0, size=1):
    """A fit: one number moves by 1, and gets `part` of the noise that epsilon (or mu) needs."""
    rng = np.random.default_rng(seed + 10**6)

    def fit(table):
        found = getattr(rng, law)(0, part / epsilon, size)
        found[-1] += table
        return found
    return fit


def claims_of(law, epsilon):
    """All of the law's own (epsilon, delta), at a few places."""
    if law == "laplace":
        return [(share * epsilon, 1 - math.exp((share - 1) * epsilon / 2))
                for share in (0, 0.25, 0.5, 0.75)]
    return [(at, float(norm.cdf(epsilon / 2 - at / epsilon)
                       - math.exp(at) * norm.cdf(-epsilon / 2 - at / epsilon)))
            for at in (0, 0.5 * epsilon, epsilon, 1.5 * epsilon)]


def caught(part, law, runs, *, fits=4000, epsilon=3.0, first=0, **named):
    """Audits of the same mechanism, seeded."""
    top = (epsilon, 0.0) if law == "laplace" else (3 * epsilon, 0.2)
    return [guess(noisy(part, law=law, epsilon=epsilon, seed=first + run), epsilon=top[0],
                  delta=top[1], fits=fits, seed=first + run, claims=claims_of(law, epsilon),
                  **named) for run in range(runs)]


@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_half_of_the_noise_is_caught_soon(law):
    """Seeded."""
    found = caught(0.5, law, 5)
    assert not any(one.holds for one in found)
    assert np.median([one.fits for one in found]) <= 600
    assert all(one.stopped == "disproved" and one.wealth >= _goal(1e-6) for one in found)


@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_all_of_the_noise_is_not(law):
    """Seeded. An accusation has probability at most 1e-6 each."""
    for one in caught(1.0, law, 1, fits=1500):
        assert one.holds and one.epsilon_low <= one.claimed and one.fits == 1500


@pytest.mark.slow
@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_four_fifths_of_the_noise_are_caught_nine_times_in_ten(law):
    """Seeded: 4,000 fits, claims of the law at epsilon or mu 3."""
    assert np.mean([not one.holds for one in caught(0.8, law, 100)]) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("law", ["laplace", "normal"])
def test_a_thousand_honest_audits(law):
    """Seeded. An accusation has probability at most 1e-6 each, 1e-3 in all."""
    assert all(one.holds for one in caught(1.0, law, 500, fits=2000, first=5000))


def test_a_whole_leak_is_proved_as_soon_as_the_kit_hopes():
    for epsilon in (0.1, 0.5, 1.0, 2.0):
        for seed in range(5):
            found = guess(lambda table: [table], epsilon=epsilon, fits=fits_needed(epsilon),
                          seed=seed)
            assert not found.holds and found.epsilon_low >= epsilon


@all_cases("seed", range(20))
def test_outputs_that_never_overlap_are_always_told_apart(seed):
    """As filed: a cut at the largest output that was seen left some of the next beyond it."""
    rng = np.random.default_rng(seed)
    found = guess(lambda table: 3 * table + (1 + 4 * table) * rng.random(1), epsilon=1.2,
                  fits=fits_needed(1.2) + 40, seed=seed)
    assert not found.holds


def test_a_leak_in_one_direction_of_many_outputs_is_found():
    rng = np.random.default_rng(3)
    secret = rng.standard_normal(30)
    found = guess(lambda table: table * secret + 3 * rng.standard_normal(30), epsilon=0.5, seed=3)
    assert not found.holds and found.event == NAMES[0]


def test_a_leak_in_the_combination_of_outputs_is_found():
    """Each output alone says nothing; together they are equal on one table only."""
    coins = np.random.default_rng(4)

    def fit(table):
        coin = int(coins.integers(0, 2))
        return [coin, coin ^ table]
    found = guess(fit, epsilon=3.0, seed=4)
    assert not found.holds


def test_outputs_far_from_the_middle_are_found():
    """The second table has twice the noise: no output speaks for it but large ones."""
    rng = np.random.default_rng(5)
    found = guess(lambda table: rng.standard_normal(1) * (1 + 5 * table), epsilon=0.7, seed=5)
    assert not found.holds


def test_delta_is_taken_off():
    """A leak in one run of twenty: infinite epsilon at delta 0, none at delta 0.1."""
    def leaks(seed):
        rng = np.random.default_rng(seed)
        return lambda table: [table * (rng.random() < 0.05)]
    assert guess(leaks(6), epsilon=0.5, seed=6).epsilon_low >= 0.5
    assert guess(leaks(7), epsilon=0.5, delta=0.1, seed=7).epsilon_low == 0.0


def test_hopeless_audits_stop_early():
    found = guess(noisy(1.0, epsilon=1.0), epsilon=1.0, fits=fits_needed(1.0), seed=1,
                  patient=False)
    assert found.holds and found.stopped == "hopeless" and found.fits < 0.8 * fits_needed(1.0)
    assert np.mean([not one.holds for one in caught(0.5, "laplace", 3, patient=False)]) == 1


def test_no_difference_proves_nothing():
    """Seeded; and outputs may be anything that is a float."""
    rng = np.random.default_rng(2)
    strange = np.array([0.0, 1.0, np.inf, -np.inf, np.nan])
    found = guess(lambda table: rng.choice(strange, 3), epsilon=0.1, fits=600, seed=2)
    assert found.holds and found.epsilon_low == 0.0


def test_coins_are_the_operating_systems_unless_seeded():
    tables = []
    guess(lambda table: tables.append(table) or [0.0], epsilon=1.0, fits=400)
    assert 100 < sum(tables) < 300  # outside with probability below 1e-20


def test_scores_wait_for_both_tables():
    assert learned(np.zeros((5, 1)), np.ones(5, dtype=bool)) == ()
    scores = learned(np.arange(12.0)[:, None], np.arange(12) > 5)
    assert [score.name for score in scores] == list(NAMES)
    ways = np.repeat([[-1, 0, -1], [1, 1, 0]], len(LEVELS), axis=1)
    assert scores[0].guesses(np.array([[-9.0], [99.0]])).tolist() == ways.tolist()
    assert shares_of_bets().sum() == pytest.approx(1) and shares_of_bets().size == ways.shape[1]


@all_cases("wrong", [
    {"epsilon": math.nan}, {"epsilon": -1.0}, {"epsilon": True}, {"delta": 1.5},
    {"delta": math.nan}, {"false_alarm": 0.0}, {"false_alarm": 1.0}, {"false_alarm": True},
    {"fits": 0}, {"fits": 1.5}, {"records": 0}, {"claims": [(0.1, math.nan)]},
    {"claims": [(math.inf, 0.1)]}])
def test_impossible_numbers_are_refused(wrong):
    refused(PrivledgerError, lambda: guess(lambda table: [0.0], **({"epsilon": 1.0} | wrong)))


def test_a_plan_says_more_than_its_epsilon():
    """Three records under Laplace noise of epsilon 1; nine under a Gaussian of mu .268."""
    found = plan_claims(Laplace(1.0, 1.0), 1.0, "add_remove")
    assert found.records == 3
    for (at, delta), (same, exact) in zip(found.claims, claims_of("laplace", 3.0), strict=True):
        assert at == pytest.approx(same) and exact <= delta <= exact * 1.001
    found = plan_claims(Gaussian(1 / 0.268), 1.0, "add_remove")
    assert found.records == 9 and found.claims[0][1] == pytest.approx(2 * norm.cdf(1.206) - 1)
    assert plan_claims(Laplace(1.0, 1.0), 1.0, "add_remove", most=1).records == 1


@pytest.mark.slow
def test_a_learner_with_four_fifths_of_its_noise():
    """The noise is fresh: of the honest one, an accusation has probability at most 1e-6 each."""
    class Less(LessNoise):
        part = 0.8
    assert sum(not guessing_audit(Less(epsilon=1.0)).holds for _ in range(4)) >= 2
    assert all(guessing_audit(LessNoise(epsilon=1.0)).holds for _ in range(2))
