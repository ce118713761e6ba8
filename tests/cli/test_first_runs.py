"""Two first runs beside each other: one makes the ledger, the other goes on with it."""

import importlib

import pytest

import privledger as pl
from tests.cli.test_planning import edit

run_module = importlib.import_module("privledger.cli.run")


def beaten(monkeypatch, budget, run_file):
    """Somebody makes the ledger after this run saw that there was none."""
    def first(prepared, receipt):
        with pl.Ledger.create(prepared.ledger, budget=budget):
            pass

    monkeypatch.setattr(run_module, "refuse_if_remembered", first)


def test_the_second_of_two_first_runs_goes_on_with_the_ledger(call, as_json, run_file, monkeypatch):
    edit(run_file, "rounds = 3", "rounds = 3\nepsilon = 0.4")
    beaten(monkeypatch, pl.Budget(1.0, 1e-6), run_file)
    result = call("run", run_file)
    assert result.exit_code == 0, result.output
    assert as_json("verify", run_file.parent / "run.ledger")["trusted"]


@pytest.mark.parametrize("budget", [pl.Budget(2.0, 1e-6), pl.Budget(1.0, 1e-5)])
def test_and_is_told_what_the_first_promised_where_that_differs(call, run_file, monkeypatch,
                                                                budget):
    beaten(monkeypatch, budget, run_file)
    result = call("run", run_file)
    assert result.exit_code == 2, result.output
    assert "budget" in result.stderr and "was created with" in result.stderr
    with pl.Ledger.open(run_file.parent / "run.ledger", read_only=True) as ledger:
        assert ledger.spent == 0
