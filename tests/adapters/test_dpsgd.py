"""The contracts of Opacus and jax-privacy, without either: order of calls, and every pitfall."""

import copy
import pickle
from types import SimpleNamespace

import pytest

import privledger as pl
from privledger.adapters.dpsgd import LedgerAccountant, reserve_plan
from tests.all_cases import all_cases
from tests.worlds import refused

N, BATCH = 60_000, 256


class UniformWithReplacementSampler:
    def __init__(self, sample_rate):
        self.sample_rate = sample_rate


class BatchSampler:
    sample_rate = 1 / 235


class DPOptimizer:
    """As Opacus' optimizer: noise, then the hook, then the update."""

    def __init__(self, noise=1.0, iterations=1, expected=BATCH):
        self.noise_multiplier, self.accumulated_iterations = noise, iterations
        self.expected_batch_size, self.updates, self.step_hook = expected, 0, None

    def step(self):
        if self.step_hook:
            self.step_hook(self)
        self.updates += 1


class DistributedDPOptimizer(DPOptimizer):
    pass


LOADER = SimpleNamespace(batch_sampler=UniformWithReplacementSampler(1 / 235))


def made(**options):
    ledger = pl.Ledger.create(None, budget=pl.Budget(4.0, 1e-5), **options)
    return ledger


def accountant(ledger, **change):
    return LedgerAccountant(ledger, **{
        "table": "mnist", "rows": N, "batch": BATCH, "noise": 1.0, "steps": 5,
        "version": "1.6.0"} | change)


def attached(optimizer, one, rate=1 / 235):
    optimizer.step_hook = one.get_optimizer_hook_fn(rate)
    return optimizer


def test_a_whole_run_is_charged_first_and_its_steps_are_counted():
    ledger = made()
    one = accountant(ledger)
    before = ledger.spent
    assert before > 0
    one.check_loader(LOADER)
    optimizer = attached(DPOptimizer(), one)
    for _ in range(5):
        optimizer.step()
    refused(pl.NotGranted, lambda: optimizer.step())
    assert optimizer.updates == len(one) == 5 and ledger.spent == before
    assert one.history == [(1.0, max(1 / 235, BATCH / N), 5)]
    one.close()
    assert ledger.spent == before and ledger.verify() == []


@pytest.mark.parametrize(("optimizer", "rate"), [
    (DPOptimizer(noise=0.99), 1 / 235),
    (DPOptimizer(), 1 / 200),
    (DPOptimizer(expected=300), 1 / 235),  # the rate that was named is a worker's
    (DPOptimizer(iterations=8), 1 / 235),
    (DistributedDPOptimizer(), 1 / 940),
], ids=["noise", "rate", "batch", "micro", "workers"])
def test_a_step_that_costs_more_updates_nothing(optimizer, rate):
    one = accountant(made())
    one.check_loader(LOADER)
    refused(pl.NotGranted, lambda: attached(optimizer, one, rate).step())
    assert optimizer.updates == len(one) == 0


@pytest.mark.parametrize("sampler", [BatchSampler(), None, UniformWithReplacementSampler(0.1)])
def test_only_poisson_samples_of_the_reserved_rate(sampler):
    one = accountant(made())
    refused(pl.NotGranted, lambda: one.check_loader(SimpleNamespace(batch_sampler=sampler)))
    refused(pl.NotGranted, lambda: attached(DPOptimizer(), one).step(), match="check_loader")


def test_two_runs_are_paid_twice():
    ledger = made(filter="rdp", order=6.0)
    accountant(ledger, steps=1175).close()
    once = ledger.state.units
    accountant(ledger, steps=1175).close()
    assert ledger.state.units == 2 * once


def test_copies_are_the_same_and_pickles_are_refused():
    one = accountant(made())
    assert copy.deepcopy(one) is one and copy.copy(one) is one
    refused(TypeError, lambda: pickle.dumps(one))
    refused(pl.errors.UnsupportedNode, lambda: one.get_epsilon(1e-5))


@all_cases("change", [
    {"rows": 0}, {"batch": 0}, {"batch": N + 1}, {"noise": 0.0}, {"noise": float("nan")},
    {"steps": 0}, {"steps": True}, {"rows": 1.5}])
def test_numbers_are_checked(change):
    ledger = made()
    refused(pl.InvalidValue, lambda: accountant(ledger, **change))
    assert ledger.spent == 0


def test_another_relation_is_refused():
    refused(pl.errors.RelationMismatch, lambda: accountant(made(relation="replace_one")))


def test_a_plan_of_jax_privacy_is_priced_by_its_event():
    dp_event = pytest.importorskip("dp_accounting", reason="no dp_accounting here").dp_event
    event = dp_event.SelfComposedDpEvent(
        dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0)), 20)
    add = SimpleNamespace(dp_event=event,
                          neighboring_relation=SimpleNamespace(name="ADD_OR_REMOVE_ONE"))
    ledger = made()
    with reserve_plan(ledger, add, table="t", version="2.0.0") as run:
        assert run.plan == pl.Repeat(pl.PoissonSample(0.01, pl.Gaussian(1.0)), 20)
    spent = ledger.spent
    assert spent > 0
    for name in ("REPLACE_ONE", "REPLACE_SPECIAL", None):
        other = SimpleNamespace(dp_event=event, neighboring_relation=SimpleNamespace(name=name))
        with pytest.raises(pl.errors.RelationMismatch):
            reserve_plan(ledger, other, table="t", version="2.0.0")
    assert ledger.spent == spent


def test_with_opacus_itself():
    pytest.importorskip("opacus", reason="opacus (and torch) is not installed")
    import torch
    from opacus import PrivacyEngine

    rows = 64
    X, y = torch.randn(rows, 3), torch.zeros(rows, dtype=torch.long)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, y), batch_size=8)
    model = torch.nn.Linear(3, 2)
    engine = PrivacyEngine()
    engine.accountant = one = accountant(made(), rows=rows, batch=8, steps=3)
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), data_loader=loader,
        noise_multiplier=1.0, max_grad_norm=1.0)
    one.check_loader(loader)

    def epoch():
        for X_, y_ in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(X_), y_).backward()
            optimizer.step()

    refused(pl.NotGranted, epoch)
    assert len(one) == 3
