"""The total by hand: the printed script, run, gives the ledger's own number."""

import json
import math

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.reports.pricing import MOST_TERMS, NOTHING
from tests.worlds import protected, schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})


def made(path, kind, times, plan=None):
    ledger, data = protected(pl.Budget(2.0, 1e-6), {"x": np.arange(50) / 50}, SCHEMA, place=path,
                             filter=kind, order=12.0 if kind == "rdp" else None, name="t")
    for place in range(times):
        node = plan or (pl.Laplace(30.0 + place) if kind == "basic" else pl.Gaussian(20.0 + place))
        ledger.request(node, data, learner="a").close()
    return ledger


def explained(path):
    done = CliRunner().invoke(main, ["explain", path, "--format", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.output)


@pytest.mark.parametrize("kind", ["gdp", "zcdp", "rdp", "basic"])
@pytest.mark.parametrize("times", [1, 3, MOST_TERMS + 3])
def test_the_script_gives_the_total(tmp_path, capsys, kind, times):
    path = str(tmp_path / "l.ledger")
    ledger = made(path, kind, times)
    found = explained(path)
    exec(compile(found["script"], "script", "exec"), {})
    value = float(capsys.readouterr().out)
    assert value == pytest.approx(ledger.spent, rel=2e-4)
    assert value <= ledger.spent * (1 + 1e-9)  # what is shown is rounded up, and never below
    assert len(found["script"].splitlines()) <= 10
    assert len(found["terms"]) == min(times, MOST_TERMS)
    assert found["others"] == max(0, times - MOST_TERMS)
    parts = [*(term["value"] for term in found["terms"]), found["rest"]]
    assert math.fsum(parts) == pytest.approx(found["total"], rel=1e-14)


def test_every_number_of_the_formula_is_printed_whole(tmp_path):
    path = str(tmp_path / "l.ledger")
    made(path, "gdp", 2)
    found = explained(path)
    text = " ".join(CliRunner().invoke(main, ["explain", path]).output.split())
    for number in (found["total"], math.sqrt(found["total"])):
        assert repr(number)[:14] in text
    assert "Phi(" in text and "from scipy.stats import norm" in text


def test_an_unused_ledger_has_nothing_to_redo(tmp_path):
    path = str(tmp_path / "l.ledger")
    made(path, "gdp", 0)
    assert explained(path)["script"] == ""
    assert NOTHING in CliRunner().invoke(main, ["explain", path]).output


def test_what_is_for_one_grant_is_refused_for_all(tmp_path):
    path = str(tmp_path / "l.ledger")
    made(path, "gdp", 1)
    for option in (("--node", "0"), ("--delta", "1e-5")):
        assert CliRunner().invoke(main, ["explain", path, *option]).exit_code == 2
