"""Whoever types a name almost right is told which one is meant: one function says so."""

import json

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.broker import Limits
from privledger.cli.app import main
from privledger.ledger.policy import Policy
from privledger.runs import RunFile
from tests.all_cases import all_cases
from tests.worlds import refused

RUN = {"run": {"learner": "x"}, "data": {"schema": "s", "table": "t"}, "budget": {"epsilon": 1.0}}
COLUMN = {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}


def run_with(table, key, value=1):
    return RunFile.from_dict(RUN | {table: {**RUN.get(table, {}), key: value}}, pl_path())


def pl_path():
    from pathlib import Path

    return Path("run.toml")


@all_cases(("ask", "meant"), [
    (lambda: pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="zcpd"), "zcdp"),
    (lambda: pl.Ledger.create(None, budget=pl.Budget(1.0), relation="add_remov"), "add_remove"),
    (lambda: pl.Ledger.create(None, budget=pl.Budget(1.0), mode="simulate"), "simulation"),
    (lambda: pl.epsilon(pl.Gaussian(1.0), 1e-6, accountant="plds"), "pld"),
    (lambda: pl.Parallel([pl.Gaussian(1.0)], "public_predicat"), "public_predicate"),
    (lambda: pl.nodes.from_json({"node": "Gausian"}), "Gaussian"),
    (lambda: pl.nodes.from_json({"node": "Gaussian", "noise_multipler": 1.0}), "noise_multiplier"),
    (lambda: run_with("buget", "x"), "budget"),
    (lambda: run_with("budget", "epsilom"), "epsilon"),
    (lambda: run_with("ledger", "filter", "gpd"), "gdp"),
    (lambda: run_with("isolation", "memory"), "memory_mb"),
    (lambda: run_with("engine", "worker"), "workers"),
    (lambda: run_with("engine", "name", "locl"), "local"),
    (lambda: Policy.from_dict({"policy": {"max_epsilon": 1, "max_dleta": 0}}), "max_delta"),
    (lambda: Policy.from_dict({"policy": {"max_epsilon": 1, "max_delta": 0,
                            "mechanisms": ["Gausian"]}}), "Gaussian"),
    (lambda: Limits.of({"cpu_second": 3}), "cpu_seconds"),
    (lambda: pl.Schema.from_dict({"name": "t", "columns": [COLUMN | {"uper": 1}]}), "upper"),
    (lambda: pl.Schema.from_dict({"name": "t", "colums": [COLUMN]}), "columns"),
    (lambda: pl.Gausian(1.0), "Gaussian"),
    (lambda: pl.Budjet(1.0), "Budget"),
    (lambda: pl.Correlated, "nodes.Correlated")])
def test_an_error_names_what_is_meant(ask, meant):
    refused((pl.PrivledgerError, AttributeError), ask, match=rf"'{meant}'(\?| is meant)")


@pytest.mark.parametrize(("line", "meant"), [
    ("shwo x", "show"), ("verfy x", "verify"), ("federate joinn", "join"),
    ("export x --as cvs", "csv"), ("learners --format jsn", "json"),
    ("check --learner x --relation add_remov", "add_remove")])
def test_a_command_or_a_choice_of_an_option_too(line, meant):
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 2
    assert f"did you mean '{meant}'?" in result.stderr


def test_nothing_is_said_where_nothing_is_near():
    with pytest.raises(pl.InvalidValue) as error:
        pl.Ledger.create(None, budget=pl.Budget(1.0), relation="qqqqq")
    assert "did you mean" not in str(error.value)
    result = CliRunner().invoke(main, ["qqqqq"])
    assert "did you mean" not in result.stderr and result.exit_code == 2
    answer = CliRunner().invoke(main, ["shwo", "--format", "json"])
    assert json.loads(answer.stdout)["error"] if answer.stdout else "show" in answer.stderr
