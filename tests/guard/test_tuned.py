"""The best of a random number of trials: what is enforced, and what the price rests on."""

import math
import subprocess
import sys

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner

import privledger as pl
from privledger.accounting.tuning import (
    negative_binomial_mean,
    negative_binomial_pure,
    poisson_pure,
)
from privledger.cli import main
from tests.alone import VERIFIER
from tests.bodies import body_of
from tests.worlds import protected, refused, schema_of

SCHEMA = schema_of("one", {"x": (0.0, 1.0)})
LEAF = pl.Laplace(10.0, 1.0)
NODE = pl.nodes.Tuning(pl.Repeat(LEAF, 2), shape=1.0, success=0.3)
ROWS = {"x": np.linspace(0, 1, 50)}


def opened(node=NODE, **options):
    ledger, data = protected(pl.Budget(5.0, 1e-6), ROWS, SCHEMA, name="t", **options)
    return ledger, ledger.request(node, data)


def honest(data, candidate):
    with data.ledger.request(LEAF, data) as session:
        score = session.release(LEAF, data.count())
        return score, (candidate, session.release(LEAF, data.sum("x")))


def kinds(ledger):
    return [entry.event.kind for entry in ledger._history.store.read()]


def test_one_release_is_in_the_history_however_many_ran():
    ran = []
    for _ in range(20):
        ledger, session = opened()
        times = []

        def trial(data, candidate, times=times):
            times.append(candidate)
            return honest(data, candidate)

        with session:
            best = session.best_of(NODE, 3, trial)
        assert best.candidate == best.output[0] and best.candidate in times
        ran.append(len(times))
        (line,) = [body_of(e) for e in ledger._history.store.read() if e.event.kind == "released"]
        assert len(line["items"]) == 1 and session.releases == 1
        assert line["nodes"][0]["leaf"] == pl.nodes.to_json(NODE)
        assert ledger.verify() == []
        assert ledger.spent == pytest.approx(pl.epsilon(NODE, 1e-6), rel=1e-4)
    assert len(set(ran)) > 2  # P(equal) is below 1e-6


def test_the_best_is_returned():
    scores = []

    def trial(data, candidate):
        scores.append(honest(data, candidate)[0])
        return scores[-1], scores[-1]

    _, session = opened()
    with session:
        best = session.best_of(NODE, 1, trial)
    assert best.score == best.output == max(scores)


@pytest.mark.parametrize("wrong", [
    evolve(NODE, success=0.2), evolve(NODE, node=LEAF), evolve(NODE, shape=0.5),
    pl.nodes.Tuning(pl.Repeat(LEAF, 2), "poisson", mean=3.0)])
def test_another_node_than_the_reserved_one_is_refused_unread(wrong):
    ledger, session = opened()
    with session:
        refused(pl.NotGranted, lambda: session.best_of(wrong, 1, honest), match="Nothing was read")
        changed = evolve(NODE)
        object.__setattr__(changed, "success", 0.01)
        refused(pl.NotGranted, lambda: session.best_of(changed, 1, honest))
    assert session.releases == 0
    assert ledger.verify() == []


@pytest.mark.parametrize("wrong", [LEAF, None, "best", pl.Repeat(LEAF, 2)])
def test_what_is_no_tuning_is_refused(wrong):
    _, session = opened()
    with session, pytest.raises(pl.InvalidValue):
        session.best_of(wrong, 1, honest)


@pytest.mark.parametrize("candidates", [0, -1, True, 1.5, math.nan])
def test_impossible_numbers_of_candidates(candidates):
    _, session = opened()
    with session, pytest.raises(ValueError):
        session.best_of(NODE, candidates, honest)


def test_a_node_serves_once():
    _, session = opened()
    with session:
        session.best_of(NODE, 1, honest)
        refused(pl.NotGranted, lambda: session.best_of(NODE, 1, honest))


def test_a_trial_gets_one_run_and_not_more():
    extra = []

    def greedy(data, candidate):
        found = honest(data, candidate)
        with data.ledger.request(LEAF, data) as session:
            try:
                session.release(LEAF, data.count())
            except pl.NotGranted:
                extra.append("refused")
        return found

    _, session = opened()
    with session:
        session.best_of(NODE, 1, greedy)
    assert extra and set(extra) == {"refused"}


def test_a_handle_outlives_its_trial_by_nothing():
    kept = []

    def keeps(data, candidate):
        kept.append((data, data.ledger.request(LEAF, data)))
        return 1.0, None

    _, session = opened()
    with session:
        session.best_of(NODE, 1, keeps)
        data, part = kept[0]
        assert not part.active
        refused(pl.NotGranted, lambda: part.release(LEAF, data.count()),
                lambda: session.release(LEAF, session.data.count()))


def test_another_trials_handle_is_refused():
    kept = []

    def mixes(data, candidate):
        kept.append(data)
        if len(kept) > 1:
            refused(pl.InvalidValue, lambda: data.ledger.request(LEAF, kept[0]))
        return 1.0, None

    _, session = opened(evolve(NODE, success=0.01))
    with session:
        session.best_of(evolve(NODE, success=0.01), 1, mixes)


def test_a_trial_that_fails_ranks_lowest_and_is_no_missing_trial():
    calls = []

    def fails(data, candidate):
        calls.append(candidate)
        if len(calls) == 1:
            raise ZeroDivisionError
        return -1e300, "good"

    node = evolve(NODE, success=0.01)  # a single trial has probability 1/100, then it is published
    _, session = opened(node)
    with session:
        try:
            assert session.best_of(node, 1, fails).output == "good"
        except ZeroDivisionError:
            assert len(calls) == 1


def test_when_all_fail_the_failure_is_published_and_charged():
    def fails(data, candidate):
        honest(data, candidate)
        raise KeyError("public")

    ledger, session = opened()
    with pytest.raises(KeyError, match="public"), session:
        session.best_of(NODE, 1, fails)
    assert ledger.spent > 0 and ledger.verify() == []


def test_nan_ranks_lowest():
    _, session = opened()
    with session:
        assert session.best_of(NODE, 1, lambda data, one: (math.nan, None)).score == -math.inf


def test_no_run_is_an_answer():
    node = pl.nodes.Tuning(LEAF, "poisson", mean=1e-9)
    ledger, session = opened(node)
    with session:
        assert session.best_of(node, 1, honest) is None  # but with probability 1e-9
    assert ledger.verify() == []


def test_asserted_questions_are_said_beforehand():
    def asks(data, candidate):
        with data.ledger.request(LEAF, data) as session:
            return session.release(LEAF, data.custom(lambda t: t["x"], 1.0, "trust me")), None

    _, session = opened()
    with session, pytest.raises(pl.NotGranted, match="needs a reason"):
        session.best_of(NODE, 1, asks)
    ledger, session = opened()
    with session:
        session.best_of(NODE, 1, asks, why="trust me")
    (line,) = [body_of(e) for e in ledger._history.store.read() if e.event.kind == "released"]
    assert line["questions"][0].startswith("asserted:")
    strict = pl.Policy(5.0, 1e-6)
    ledger, session = opened(policy=strict)
    with session, pytest.raises(pl.errors.PolicyViolation, match="asserted-node"):
        session.best_of(NODE, 1, asks, why="trust me")
    assert ledger.verify() == []


@pytest.mark.parametrize("kind", ["basic", "rdp"])
def test_the_standalone_verifier_agrees(tmp_path, kind):
    path, place = tmp_path / "t.ledger", tmp_path / "t.jsonl"
    with pl.Ledger.create(path, budget=pl.Budget(5.0, 1e-6), filter=kind) as ledger:
        with ledger.request(NODE, ledger.protect(ROWS, SCHEMA)) as session:
            session.best_of(NODE, 1, honest)
        assert ledger.verify() == []
    assert CliRunner().invoke(main, ["export", str(path), "-o", str(place)]).exit_code == 0
    done = subprocess.run([sys.executable, str(VERIFIER), str(place)], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_weighted_coins_divide_as_they_say():
    """Of 20,000 coins of weight 4:1, 600 more or fewer than a fifth: probability below 1e-25."""
    ledger, data = protected(pl.Budget(500.0), {"x": np.zeros(20_000)}, SCHEMA)
    parts = data.partition((4, 1))
    exact = pl.Laplace(0.01, 1.0)
    with ledger.request(pl.Parallel([exact, exact], certificate="iid_per_record"), data) as session:
        train, held = (session.release(exact, parts[place].count()) for place in (0, 1))
    assert round(train + held) == 20_000 and abs(held - 4000) < 600
    for wrong in ((4,), (0, 1), (1.5, 2), (True, 2), (-1, 2), ()):
        with pytest.raises(ValueError):
            data.partition(wrong)


# What the price rests on, by enumeration -----------------------------------------------------

def pair(rng, size, epsilon):
    """Two laws on `size` ranked outputs whose likelihood ratio stays within epsilon."""
    one = rng.dirichlet(np.ones(size))
    tilt = rng.choice([-1.0, 1.0], size) * epsilon / 2
    other = one * np.exp(tilt)
    return one, other / other.sum()


def winner(law, generating):
    """Law of the best of a random number of draws, ties by a fair coin among equals."""
    ends = np.concatenate([[0.0], np.cumsum(law)])
    return np.diff(generating(ends))


def truncated(shape, success):
    def of(x):
        inside = 1 - (1 - success) * x
        if shape == 0:
            return np.log(inside) / math.log(success)
        return (inside**-shape - 1) / (success**-shape - 1)
    return of


@pytest.mark.parametrize("shape", [-0.5, 0.0, 1.0, 3.0])
def test_no_pair_of_laws_beats_the_pure_price(shape):
    rng = np.random.default_rng(11)
    worst = 0.0
    for _ in range(300):
        success = float(rng.uniform(0.01, 0.9))
        one, other = pair(rng, int(rng.integers(2, 7)), float(rng.uniform(0.05, 2.0)))
        single = float(np.abs(np.log(one / other)).max())
        if single < 1e-6:  # all tilts alike: nothing to tell
            continue
        best = [winner(law, truncated(shape, success)) for law in (one, other)]
        assert best[0].sum() == pytest.approx(1.0)
        ratio = float(np.abs(np.log(best[0] / best[1])).max())
        worst = max(worst, ratio / negative_binomial_pure(single, shape))
    assert 0.3 < worst <= 1 + 1e-9


def test_no_pair_of_laws_beats_the_poisson_price():
    rng = np.random.default_rng(12)
    for _ in range(300):
        mean = float(rng.uniform(0.1, 8.0))
        one, other = pair(rng, int(rng.integers(2, 7)), float(rng.uniform(0.05, 2.0)))
        single = float(np.abs(np.log(one / other)).max())
        if single < 1e-6:  # all tilts alike: nothing to tell
            continue
        best = [winner(law, lambda x, m=mean: np.exp(m * (x - 1))) for law in (one, other)]
        ratio = float(np.abs(np.log(best[0] / best[1])).max())
        assert ratio <= poisson_pure(single, mean) * (1 + 1e-9)


@pytest.mark.parametrize(("shape", "success"), [(0.0, 0.05), (1.0, 0.1), (-0.5, 0.02)])
def test_no_pair_of_laws_beats_the_renyi_price(shape, success):
    """Of one noisy answer on neighbours, cut into ranks: Renyi divergence at whole orders."""
    from scipy import stats

    from privledger.graph import cost_of

    noise = 4.0
    edges = np.linspace(-20, 21, 120)
    laws = [np.diff(stats.norm.cdf(edges, loc=where, scale=noise)) for where in (0.0, 1.0)]
    laws = [law / law.sum() for law in laws]
    node = pl.nodes.Tuning(pl.Gaussian(noise * (1 - 1e-3)), shape=shape, success=success)
    for order in (2.0, 4.0, 8.0):
        priced = cost_of(node, "add_remove", (order, 16.0, 32.0)).curve.bounds[0]
        for one, other in (laws, laws[::-1]):
            first, second = (winner(law, truncated(shape, success)) for law in (one, other))
            found = math.log(float((first**order * second**(1 - order)).sum())) / (order - 1)
            assert found <= priced


def test_the_mean_is_that_of_the_sampler():
    assert negative_binomial_mean(1.0, 0.3) == pytest.approx(1 / 0.3)
