"""Closed forms: many coins, and one run of any pair."""

from __future__ import annotations

import math

import mpmath as mp  # type: ignore[import-untyped]
import pytest

import privledger as pl
from privledger.accounting.pld.by_pld import (
    coin,
    delta_of_coins,
    delta_of_one,
    epsilon_of_coins,
    epsilon_of_one,
)
from privledger.accounting.pld.pairs import AtomPair, LaplacePair, pure_pair, response_pair

COINS = [
    (0.1, 2), (0.5, 30), (1.0, 7), (3.0, 1000), (0.01, 5000), (1e-3, 20_000),
    # A total loss above 500 and above 700: exp of it is no float, nor is a Q mass.
    (1.8449018258830805, 385), (2.0, 354), (2.0, 360), (5.0, 1000), (30.0, 40),
]


NOISE = mp.mpf(10) ** -50  # of the reference
TINY = mp.mpf(10) ** -300  # no float


def exact_delta(epsilon0: float, count: int, epsilon: float) -> mp.mpf:
    """Two binomial tails, all terms in mpmath."""
    with mp.workdps(60):
        e0, e = mp.mpf(epsilon0), mp.mpf(epsilon)
        likely, log_rare = 1 / (1 + mp.exp(-e0)), -mp.log1p(mp.exp(e0))
        least = max(0, int(mp.floor((e / e0 + count) / 2)) - 1)
        total = mp.mpf(0)
        term = mp.binomial(count, count) * likely**count
        for k in range(count, least - 1, -1):  # from the largest loss down
            loss = (2 * k - count) * e0
            if loss <= e:
                break
            total += term * -mp.expm1(e - loss)
            term *= mp.mpf(k) / (count - k + 1) * mp.exp(log_rare) / likely
            if k < count * likely and term < mp.mpf(10) ** -400:
                break
        return min(total, mp.mpf(1))


@pytest.mark.parametrize(("epsilon0", "count"), COINS)
def test_delta_of_coins(epsilon0: float, count: int) -> None:
    whole = epsilon0 * count
    spread = epsilon0 * math.sqrt(count)
    mean = whole * math.tanh(epsilon0 / 2)
    for epsilon in (0.0, 0.3 * epsilon0, mean, mean + spread, mean + 3.3 * spread, 0.97 * whole):
        if not 0 <= epsilon < whole:
            continue
        true, found = exact_delta(epsilon0, count, epsilon), delta_of_coins(
            epsilon0, count, epsilon)
        assert true <= found * (1 + NOISE) + TINY, epsilon
        assert found <= float(true) * (1 + 1e-6) + 1e-9 * (whole > 500) + 1e-12, epsilon


@pytest.mark.parametrize(("epsilon0", "count"), COINS)
@pytest.mark.parametrize("delta", [1e-2, 1e-6, 1e-22, 5e-29])
def test_epsilon_of_coins(epsilon0: float, count: int, delta: float) -> None:
    found = epsilon_of_coins(epsilon0, count, delta)
    assert 0 <= found <= epsilon0 * count * (1 + 1e-15)
    if found < epsilon0 * count:
        assert exact_delta(epsilon0, count, found) <= delta
    less = found * (1 - 1e-8) - 1e-12
    if less > 0:
        assert exact_delta(epsilon0, count, less) > delta * (1 - 1e-9)


@pytest.mark.parametrize(("epsilon0", "count", "delta"), [
    (1.8449018258830805, 385, 5.3e-29), (2.0, 354, 1e-22), (2.0, 360, 1e-22), (5.0, 1000, 1e-6)])
def test_total_losses_above_700_were_priced_too_low(
    epsilon0: float, count: int, delta: float
) -> None:
    node = pl.Repeat(pl.Asserted(epsilon0, "vouched for"), count)
    for accountant in ("best", "pld"):
        found = pl.epsilon(node, delta, "replace_one", accountant)
        assert exact_delta(epsilon0, count, found) <= delta
        assert pl.delta(node, found * (1 - 1e-9), "replace_one", accountant) >= exact_delta(
            epsilon0, count, found * (1 - 1e-9)) * (1 - NOISE) - TINY


def test_what_counts_as_a_coin() -> None:
    assert coin(pure_pair(0.4)) == 0.4 and coin(response_pair(0.5, 2)) is not None
    assert coin(pure_pair(0.4, 1e-3)) is None and coin(response_pair(0.5, 3)) is None
    assert coin(LaplacePair(0.4)) is None
    assert coin(AtomPair((-0.4, 0.4), (0.3, 0.3))) is None
    assert coin(AtomPair((-0.4, 0.5), (0.5, 0.5))) is None


def test_one_run_and_one_coin_agree() -> None:
    for epsilon0 in (1e-3, 0.7, 12.0):
        pair = pure_pair(epsilon0)
        for delta in (1e-2, 1e-5, 1e-9):
            assert epsilon_of_one(pair, delta) == pytest.approx(
                epsilon_of_coins(epsilon0, 1, delta), rel=1e-9, abs=1e-12)
        for epsilon in (0.0, 0.5 * epsilon0, 0.99 * epsilon0):
            assert delta_of_one(pair, epsilon) == pytest.approx(
                delta_of_coins(epsilon0, 1, epsilon), rel=1e-9, abs=1e-12)


def test_nothing_is_certified_below_what_is_lost_openly() -> None:
    assert epsilon_of_one(pure_pair(0.4, 1e-3), 1e-4) == math.inf
    assert epsilon_of_one(pure_pair(0.4, 1e-3), 1e-4, upper=False) > 600
    assert epsilon_of_one(pure_pair(0.4, 1e-3), 2e-3) <= 0.4
