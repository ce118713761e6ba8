"""Noise that owners share: each adds its part, pays as declared, and shows what it costs alone."""

import math
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.errors import InvalidPlan, NotGranted, PolicyViolation, UnsupportedNode
from privledger.federation import Federation, InProcess, Owner, Party, Run, new_key, public_key
from privledger.graph import alone, from_json, share_of
from privledger.noise.source import SystemSource
from privledger.reports.spend import ledger_report
from privledger.tables.values import array_out
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.worlds import SIZES as SCHEMA
from tests.worlds import protected, refused

BUDGET = pl.Budget(3.0, 1e-6)
LEAF = pl.Gaussian(20.0)


def table(n):
    return {"size": np.linspace(0, 1, n)}, np.linspace(0, 20, n)


def run_of(k=5, plan=LEAF, *, colluding=1, path=None, budget=BUDGET, policy=None, **more):
    """(ledgers, run, federation) of k owners with 30 rows each."""
    keys = {f"owner {place}": new_key() for place in range(k)}
    run = Run.of("a run", tuple(Owner(name, public_key(key)) for name, key in keys.items()),
                 SCHEMA, plan, delta=0.0, learner="somebody", noise="shared",
                 colluding=colluding, **more)
    ledgers, lines = [], {}
    for place, (name, key) in enumerate(keys.items()):
        where = None if path is None else path / f"{place}.ledger"
        ledgers.append(pl.Ledger.create(where, budget=budget, policy=policy))
        data = ledgers[-1].protect(*table(30), SCHEMA, name="table")
        lines[name] = InProcess(Party(run, name, data, key))
    return ledgers, run, Federation(run, SCHEMA, lines, budget)


def counts(federation, plan, times):
    with federation.data.ledger.request(plan, federation.data) as session:
        return np.array([float(session.release(LEAF, federation.data.count()))
                         for _ in range(times)])


def test_the_sum_has_the_noise_of_all_shares():
    """100 sums of five shares of 20/2 each: their mean square is 500. Of a chi square with 100
    degrees of freedom, below 42 or above 190 has probability under 1e-6."""
    plan = pl.Repeat(LEAF, 100)
    _, _, federation = run_of(plan=plan)
    found = counts(federation, plan, 100)
    assert 42 < float(((found - 150) ** 2).sum()) / 500 < 190


@pytest.mark.parametrize(("k", "colluding"), [(2, 1), (3, 1), (5, 1), (5, 4), (10, 1)])
def test_each_owner_draws_its_share_and_no_less(monkeypatch, k, colluding):
    drawn = []
    real = SystemSource.gaussian

    def gaussian(self, sigma, size):
        drawn.append(float(np.ravel(sigma)[0]))
        return real(self, sigma, size)

    monkeypatch.setattr(SystemSource, "gaussian", gaussian)
    _, run, federation = run_of(k, colluding=colluding)
    counts(federation, LEAF, 1)
    share, step = 20 / math.sqrt(k - colluding), 2.0**-20  # steps of a count with this noise
    assert len(drawn) == k
    assert all(share <= one * step < share * (1 + 1e-9) for one in drawn)
    assert run.reserved.noise == "shared"


def test_ledgers_book_what_is_declared_and_show_what_it_is_alone(tmp_path):
    plan = pl.Repeat(LEAF, 3)
    ledgers, run, federation = run_of(plan=plan, path=tmp_path)
    counts(federation, plan, 3)
    for ledger in ledgers:
        declared = pl.epsilon(plan, BUDGET.delta)
        assert declared <= ledger.spent * (1 + 1e-12) < declared * (1 + 1e-6)
        assert ledger.verify() == []
        (grant,) = ledger.state.grants.values()
        assert from_json(grant.event.plan) == run.reserved
        ledger.close()
    twice = pl.epsilon(pl.Repeat(pl.Gaussian(10.0), 3), BUDGET.delta)
    assert pl.epsilon(alone(run.reserved), BUDGET.delta) == pytest.approx(twice)
    shown = CliRunner().invoke(main, ["show", str(tmp_path / "0.ledger")]).output
    assert "A SHARE of the noise" in " ".join(shown.split())
    found = subprocess.run(
        [sys.executable, verify_history.__file__, str(tmp_path / "0.ledger")],
        capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


def test_an_ordinary_session_gets_no_share():
    """The plan alone does not thin any noise: only a party of a run does, and masks it."""
    ledger, data = protected(BUDGET, *table(30), SCHEMA)
    plan = pl.nodes.Federated(LEAF, 5, 1, noise="shared")
    with ledger.request(plan, data) as session:
        refused(NotGranted, lambda: session.release(pl.Gaussian(10.0), data.count()))
        assert data._vault.opened == 0
        session.release(LEAF, data.count())
    assert ledger.verify() == []


def test_a_history_with_less_than_a_share_is_found():
    """Five owners, one bad: half the noise each. A third of it is in no plan."""
    from privledger.graph import Meter, as_released
    meter = Meter(as_released(pl.nodes.Federated(pl.Repeat(LEAF, 2), 5, 1, noise="shared")))
    for wrong in (pl.Gaussian(9.999999), pl.Gaussian(20.0 / 3)):
        with pytest.raises(NotGranted):
            meter.admit((), wrong)
    meter.admit((), pl.Gaussian(10.0))
    with pytest.raises(NotGranted):  # one or the other, all along
        meter.admit((), LEAF)


@all_cases("honest", [1, 2, 3, 4, 7, 9, 19, 999])
@all_cases("noise", [0.3, 20.0, 129.82547166593642])
def test_both_verifiers_round_a_share_alike(noise, honest):
    assert share_of(pl.Gaussian(noise), honest).noise_multiplier == verify_history.share_of(
        noise, honest)


def policy_of(**rules):
    return pl.Policy(max_epsilon=3.0, max_delta=1e-6, **rules)


def test_policies_hold():
    for policy in (policy_of(forbid_shared_noise=True), policy_of(least_honest=3),
                   policy_of(max_alone_epsilon=0.2)):
        ledgers, _, federation = run_of(policy=policy, least_honest=2)
        with pytest.raises(PolicyViolation):
            counts(federation, LEAF, 1)
        assert all(ledger.spent == 0 for ledger in ledgers)
    _, _, federation = run_of(policy=policy_of(least_honest=3), least_honest=3)
    assert len(counts(federation, LEAF, 1)) == 1


def test_a_policy_looks_at_one_plan_at_a_time():
    """As docs/federated.md says: the sum of what is alone has no limit, and is shown."""
    plan = pl.nodes.Federated(LEAF, 5, 1, noise="shared")
    most = pl.epsilon(alone(plan), BUDGET.delta) * (1 + 1e-6)
    with pl.Ledger.create(None, budget=BUDGET, policy=policy_of(max_alone_epsilon=most)) as ledger:
        data = ledger.protect(*table(30), SCHEMA)
        for _ in range(2):
            with ledger.request(plan, data) as session:
                session.release(LEAF, data.count())
        with pytest.raises(PolicyViolation):
            ledger.request(pl.nodes.Federated(pl.Repeat(LEAF, 2), 5, 1, noise="shared"), data)
        assert ledger_report(ledger._history.store, ledger.state).alone > most


@pytest.mark.parametrize(("k", "colluding", "least"), [(5, 0, 1), (5, 5, 1), (1, 0, 1), (5, 3, 3)])
def test_who_is_trusted_has_bounds(k, colluding, least):
    refused((InvalidPlan, NotGranted), lambda: run_of(k, colluding=colluding, least_honest=least))


def test_whole_noise_trusts_nobody():
    refused(InvalidPlan, lambda: Run("r", (Owner("a", bytes(32)), Owner("b", b"1" * 32)), "0", "{}",
            0.0, "l", "add_remove", colluding=1))


@pytest.mark.parametrize("plan", [pl.Laplace(1.0), pl.IndividualFilter("gdp", 1.0, node=LEAF)])
def test_only_gaussians_add_up(plan):
    ledgers, _, federation = run_of(plan=plan)
    with pytest.raises(pl.errors.PrivledgerError):
        federation.data.ledger.request(plan, federation.data).__enter__()
    assert all(ledger.spent == 0 for ledger in ledgers)


def test_noise_too_small_for_the_proof_is_refused():
    small = pl.Gaussian(2.0**-16)
    ledgers, _, federation = run_of(plan=small, budget=pl.Budget(1e11, 1e-6))
    with pytest.raises(pl.errors.PrivledgerError):
        federation.data.ledger.request(small, federation.data).__enter__()
    assert all(ledger.spent == 0 for ledger in ledgers)


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_a_share_is_never_refused_for_its_size(noise):
    """A refusal is not masked: it said whether one owner's sum, with its own share, passed 2^52."""
    key = new_key()
    own = (Owner("a", public_key(key)), Owner("b", b"1" * 32))
    run = Run.of("a run", own, SCHEMA, LEAF, delta=0.0, learner="somebody", noise=noise,
                 colluding=int(noise == "shared"))
    ledger = pl.Ledger.create(None, budget=BUDGET)
    party = Party(run, "a", ledger.protect(*table(3), SCHEMA, name="t"), key)
    reply = {"answers": [array_out(np.array([2.0**60, -1.0]))], "grids": [1.0]}
    if noise == "local":
        refused(UnsupportedNode, lambda: party._in_steps(reply))
        return
    party._in_steps(reply)
    assert party._vector.tolist() == [2**60, 2**64 - 1]
