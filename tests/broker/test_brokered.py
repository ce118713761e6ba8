"""A learner in its own process gives what it gives in the owner's."""

import json
import os
import shutil
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner

import privledger as pl
from privledger.broker import RemoteLearner
from privledger.broker.sandbox import BROKEN
from privledger.cli import main
from privledger.plugins import find_learner
from tests.bodies import body_of
from tests.worlds import schema_of

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"


def simulated():
    """Ledgers whose noise repeats itself, so that two fits can be compared exactly."""
    return pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-6), mode="simulation", seed=5)


@pytest.fixture
def tiny_simulated():
    def make():
        schema = schema_of("tiny", {"x": (0.0, 1.0)}, label=["no", "yes"])
        ledger = simulated()
        x = np.random.default_rng(0).random(300)
        return ledger, ledger.protect({"x": x}, np.where(x > 0.4, "yes", "no"), schema, name="p")

    return make


def test_every_derivation_and_query_gives_the_same_answers(start, tiny_simulated):
    import hostile  # on the path while `start` is in use

    here, data = tiny_simulated()
    direct = hostile.Filtering(schema=data.schema).fit(data)
    there, elsewhere = tiny_simulated()
    remote = start("Filtering", schema=data.schema).fit(elsewhere)
    assert json.loads(remote.predict({"x": [0.5]})[0]) == json.loads(
        direct.predict({"x": [0.5]})[0])
    assert here.spent == there.spent
    lines = [[body_of(grant)["plan"], grant.releases] for ledger in (here, there)
             for grant in ledger.state.grants.values()]
    assert lines[0] == lines[1]
    assert there.verify() == []


@pytest.mark.parametrize("options", [{}, {"individual_filter": "gdp", "rollover": True},
                                     {"individual_filter": "renyi", "sampling_rate": 0.5}])
def test_s_gbdt_is_the_same_model(options):
    """Same noise, same public choices: the same predictions, up to the last bits of a float."""
    same_model({"epsilon": 1.0, "delta": 1e-6, "n_trees": 20, "random_state": 3} | options)


def test_bins_that_a_confined_learner_buys_are_the_same():
    """Declared rows say that the table is large: histograms are released, cuts come back."""
    owned = same_model({"epsilon": 1.0, "random_state": 3}, "joint-tree-regressor",
                       expected_rows=10**7, expected_rows_provenance="declared")
    assert any(owned.forest_.trees[0].cells.bins.cuts)


def same_model(params, name="sgbdt-regressor", **facts):
    """The learner that was fitted here; a confined one predicts the same."""
    schema = evolve(pl.Schema.load(EXAMPLES / "pay.schema.json"), **facts)
    X, y = pl.read_table(EXAMPLES / "pay.csv", schema)
    here = find_learner(name).load()(**params, schema=schema)
    there = remote(params, schema, name)
    found = [learner.fit(simulated().protect(X, y, schema)).predict(X) for learner in (here, there)]
    there.close()
    np.testing.assert_allclose(*found, rtol=1e-12)
    return here


def remote(params, schema, name="sgbdt-regressor"):
    try:
        return RemoteLearner.start(find_learner(name), params, schema, "add_remove")
    except pl.errors.IsolationUnavailable as error:
        assert BROKEN not in str(error)
        pytest.skip(str(error))


@pytest.fixture
def pay(tmp_path, monkeypatch):
    monkeypatch.delenv("PRIVLEDGER_DATA", raising=False)
    for path in EXAMPLES.glob("pay.*"):
        if path.suffix != ".ledger":
            shutil.copy(path, tmp_path)
    return tmp_path / "pay.toml"


def call(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def skip_if_not_here(result):
    if "isolation is not available here" in result.output and BROKEN not in result.output:
        pytest.skip(result.output)


def test_the_command_line_from_end_to_end(pay):
    done = call("run", pay, "--isolate", "--format", "json")
    skip_if_not_here(done)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["isolation"] == "brokered"
    assert found["evaluation"]["rows"] > 0
    assert found["evaluation"]["model"]["rmse"] < found["evaluation"]["baseline"]["rmse"]
    book = pay.with_suffix(".ledger")
    shown = json.loads(call("show", book, "--format", "json").stdout)
    assert [grant["isolation"] for grant in shown["grants"]] == ["brokered"]
    claims = json.loads(call("plan", pay, "--ledger", pay.with_suffix(".new"), "--format",
                             "json").stdout)["claims"]
    assert [grant["claimed"] for grant in shown["grants"]] == [claims[-1]["claimed"]]
    assert "brokered" in call("show", book).stdout
    assert call("verify", book).exit_code == 0


def test_a_plan_asked_in_a_confined_process_is_the_same_plan(pay):
    found = []
    for more in ([], ["--isolate"]):
        done = call("plan", pay, *more, "--format", "json")
        skip_if_not_here(done)
        assert done.exit_code == 0, done.output
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]


def test_without_the_option_the_ledger_says_guarded(pay):
    found = json.loads(call("run", pay, "--format", "json").stdout)
    assert found["isolation"] == "guarded"
    shown = json.loads(call("show", pay.with_suffix(".ledger"), "--format", "json").stdout)
    assert [grant["isolation"] for grant in shown["grants"]] == ["guarded"]


def test_the_learner_is_never_imported_by_the_owner(pay, tmp_path):
    """A fresh owner's process: the plugin's modules are not in it when the run is over."""
    import subprocess

    program = ("import sys\nfrom privledger.cli import main\n"
               f"code = main(['run', {str(pay)!r}, '--isolate'], standalone_mode=False)\n"
               "print('privledger_learners' in sys.modules, 'sklearn' in sys.modules, code)")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                          timeout=120, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    if "not available here" in done.stderr and BROKEN not in done.stderr:
        pytest.skip(done.stderr)
    assert done.stdout.splitlines()[-1] == "False False None", done.stderr


def test_a_model_that_cannot_be_written_is_refused_before_anything_happens(pay, tmp_path):
    done = call("run", pay, "--isolate", "--model", tmp_path / "no" / "m.model")
    assert done.exit_code == 2
    assert "folder" in done.output
    assert not pay.with_suffix(".ledger").exists()


def test_a_refusal_has_the_usual_exit_code(pay):
    done = call("run", pay, "--isolate", "--format", "json")
    skip_if_not_here(done)
    text = pay.read_text(encoding="utf-8").replace("epsilon = 1.0", "epsilon = 1.99")
    pay.write_text(text, encoding="utf-8")
    again = call("run", pay, "--isolate", "--format", "json")
    assert again.exit_code == 1
    assert json.loads(again.stdout)["error"] == "BudgetExceeded"


def test_a_machine_that_cannot_confine_refuses_to_start(pay, monkeypatch, tmp_path):
    """The owner believes the child's word that it could not be confined, and reads nothing."""
    from privledger.broker import remote as module

    boot = tmp_path / "boot.py"
    real = module.BOOT.read_text(encoding="utf-8").replace(
        'os.path.dirname(os.path.abspath(__file__))', repr(str(module.BOOT.parent)))
    boot.write_text(real.replace("sandbox.confine(", "sandbox.MACHINES.clear(); sandbox.confine("),
                    encoding="utf-8")
    monkeypatch.setattr(module, "BOOT", boot)
    done = call("run", pay, "--isolate", "--format", "json")
    assert done.exit_code == 2
    found = json.loads(done.stdout)
    assert found["error"] == "IsolationUnavailable"
    assert "isolation needs Linux" in found["message"]
    assert not pay.with_suffix(".ledger").exists()


def test_a_learner_in_a_package_beside_the_data(tmp_path, monkeypatch):
    """Only the package itself can be read, not the folder it lies in."""
    package = tmp_path / "beside"
    package.mkdir()
    (package / "__init__.py").write_text("from beside.learner import Beside\n", encoding="utf-8")
    (package / "learner.py").write_text(
        "import os\nfrom pathlib import Path\nimport privledger as pl\n\n\n"
        "class Beside:\n"
        "    info = pl.LearnerInfo('beside', 'x', '', ('add_remove',), ('regression',))\n"
        "    def __init__(self, schema=None):\n        pass\n"
        "    def plan(self, schema):\n        return pl.Gaussian(9.0)\n"
        "    def claimed(self, schema):\n        return ()\n"
        "    def fit(self, data):\n        return self\n"
        "    def predict(self, X):\n"
        "        seen = os.listdir(Path(__file__).parents[1])\n"
        "        return [float(len(seen))] * len(X)\n", encoding="utf-8")
    (tmp_path / "rows.csv").write_text("size,target\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    schema = schema_of("s", {"size": (0.0, 1.0)}, target=(0.0, 1.0))
    point = EntryPoint("beside", "beside:Beside", "privledger.learners")
    try:
        learner = RemoteLearner.start(point, {}, schema, "add_remove",
                                      private=(tmp_path / "rows.csv",))
    except pl.errors.IsolationUnavailable as error:
        assert BROKEN not in str(error)
        pytest.skip(str(error))
    assert "beside" not in sys.modules
    with pytest.raises(pl.errors.IsolationError, match="Permission denied"):
        learner.predict({"size": [0.5]})  # it may not even list the folder
    learner.close()
    with pytest.raises(pl.errors.IsolationUnavailable, match="move it elsewhere"):
        RemoteLearner.start(point, {}, schema, "add_remove", private=(package / "rows.csv",))
