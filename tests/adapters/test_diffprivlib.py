"""diffprivlib: `check` before any read, `spend` after; with a stand-in, and with itself."""

import copy
import importlib
import pickle
import sys
import types
import warnings

import numpy as np
import pytest

import privledger as pl
from tests.worlds import refused

NAME = "privledger.adapters.diffprivlib"


def stand_in():
    """What the adapter uses of diffprivlib, with the calls in its order."""
    accountant, utils = types.ModuleType("diffprivlib.accountant"), types.ModuleType(
        "diffprivlib.utils")

    class BudgetAccountant:
        def __init__(self, epsilon=float("inf"), delta=1.0):
            self.limits = epsilon, delta

    accountant.BudgetAccountant = BudgetAccountant
    utils.BudgetError = type("BudgetError", (ValueError,), {})
    utils.PrivacyLeakWarning = type("PrivacyLeakWarning", (RuntimeWarning,), {})
    whole = types.ModuleType("diffprivlib")
    return {"diffprivlib": whole, "diffprivlib.accountant": accountant, "diffprivlib.utils": utils}


@pytest.fixture
def adapter(monkeypatch):
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    for name, module in stand_in().items():
        monkeypatch.setitem(sys.modules, name, module)
    found = importlib.import_module(NAME)
    monkeypatch.setattr(found, "version", lambda name: "0.6.6")
    with warnings.catch_warnings():
        yield found
    sys.modules.pop(NAME, None)


def made(epsilon=1.0, **options):
    return pl.Ledger.create(None, budget=pl.Budget(epsilon, 1e-6), **options)


def test_each_fit_is_charged_by_its_check_and_settled_by_its_spend(adapter):
    ledger = made(filter="basic")
    budget = adapter.LedgerBudget(ledger, table="t")
    assert budget.check(0.25, 0) and ledger.spent == 0.25
    assert budget.spend(0.25, 0) is budget and ledger.spent == 0.25
    assert [grant.status for grant in ledger.state.grants.values()] == ["settled"]
    budget.spend(0.5, 0)  # nobody checked first: charged all the same
    assert ledger.spent == 0.75 and budget.spent_budget == [(0.25, 0.0), (0.5, 0.0)]
    refused(sys.modules["diffprivlib.utils"].BudgetError, lambda: budget.check(0.5, 0))
    assert ledger.spent == 0.75 and ledger.verify() == []


def test_a_fit_that_fails_after_check_stays_paid(adapter):
    ledger = made(filter="basic")
    adapter.LedgerBudget(ledger, table="t").check(0.25, 0)
    assert ledger.spent == 0.25


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -1, True, "1", None])
def test_numbers_are_checked(adapter, bad):
    ledger = made(filter="basic")
    budget = adapter.LedgerBudget(ledger, table="t")
    for call in (budget.check, budget.spend):
        with pytest.raises(pl.PrivledgerError):
            call(bad, 0)
        with pytest.raises(pl.PrivledgerError):
            call(0.1, bad)
    assert ledger.spent == 0 and budget.check(0, 0)


def test_copies_pay_too_and_other_processes_cannot(adapter):
    budget = adapter.LedgerBudget(made(), table="t")
    assert copy.deepcopy(budget) is budget and copy.copy(budget) is budget
    refused(TypeError, lambda: pickle.dumps(budget), match="othing was charged")


def test_a_leak_before_the_first_check_is_an_error(adapter):
    """History: mean, var, sum and quantile read bounds off the data and warn, then check."""
    adapter.LedgerBudget(made(filter="basic"), table="t")
    leak = sys.modules["diffprivlib.utils"].PrivacyLeakWarning
    refused(leak, lambda: warnings.warn("bounds from the data", leak, stacklevel=1))


def test_a_leak_is_an_error_and_a_seed_is_refused(adapter):
    budget = adapter.LedgerBudget(made(filter="basic"), table="t")
    budget.check(0.1, 0)
    refused(RuntimeWarning, lambda: warnings.warn("bounds from the data",
            sys.modules["diffprivlib.utils"].PrivacyLeakWarning, stacklevel=1))
    seeded = types.SimpleNamespace(get_params=lambda: {"clf__random_state": 0})
    refused(pl.InvalidValue, lambda: adapter.refuse_fixed_noise(seeded))
    adapter.refuse_fixed_noise(types.SimpleNamespace(get_params=lambda: {"random_state": None}))


def test_with_diffprivlib_itself():
    """Needs scikit-learn before 1.6, so an environment of its own."""
    pytest.importorskip("diffprivlib", reason="diffprivlib is not installed (scikit-learn < 1.6)")
    try:
        from diffprivlib import models, tools
        from diffprivlib.utils import BudgetError, PrivacyLeakWarning
    except ImportError:
        pytest.skip("diffprivlib does not work with this scikit-learn")
    from sklearn.model_selection import GridSearchCV

    adapter = importlib.import_module(NAME)
    X = np.random.default_rng(0).uniform(size=(120, 2))
    y = (X[:, 0] > 0.5).astype(int)
    ledger = made(10.0, filter="basic")
    budget = adapter.LedgerBudget(ledger, table="t")
    with warnings.catch_warnings():
        tools.mean(X[:, 0], epsilon=0.25, bounds=(0, 1), accountant=budget)
        assert ledger.spent == pytest.approx(0.25)
        model = models.GaussianNB(epsilon=0.5, bounds=(0, 1), accountant=budget)
        GridSearchCV(model, {"var_smoothing": [1e-9, 1e-3]}, cv=3).fit(X, y)
        assert ledger.spent == pytest.approx(0.25 + 7 * 0.5) and len(budget.spent_budget) == 8
        with pytest.raises((TypeError, pickle.PicklingError)):
            GridSearchCV(model, {"var_smoothing": [1e-9, 1e-3]}, cv=3, n_jobs=2).fit(X, y)
        assert ledger.spent == pytest.approx(3.75)
        with pytest.raises(PrivacyLeakWarning):
            models.GaussianNB(epsilon=0.5, accountant=budget).fit(X, y)
        reader = Reading(X[:, 0])
        with pytest.raises(BudgetError):
            tools.mean(reader, epsilon=50.0, bounds=(0, 1), accountant=budget)
    assert ledger.verify() == []


class Reading(np.ndarray):
    """A plain view: diffprivlib may look at its shape before it asks."""

    def __new__(cls, values):
        return np.asarray(values).view(cls)
