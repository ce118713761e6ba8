"""audit: a cheat is disproved, an honest learner is not, and neither needs a table."""

import itertools
import json
from types import SimpleNamespace

import numpy as np
import pytest

import privledger as pl
from privledger.cli import audit
from privledger.plugins import load_learner
from privledger.testing.lockstep import locking


class Leaks:
    """Buys one noisy count, and tells the exact mean label."""

    info = pl.LearnerInfo("leaks", "cheats", tasks=("classification",))

    def __init__(self, epsilon=1.0, delta=0.0, schema=None, honest=False, mode="private"):
        self.epsilon, self.delta, self.schema, self.honest = epsilon, delta, schema, honest
        self.mode = mode

    def plan(self, schema):
        return pl.Laplace(1 / (self.epsilon * (1 - 1e-9)), 1.0)

    def claimed(self, schema):
        return ()

    def fit(self, data, y=None):
        caught = []

        def grab(columns):
            caught.append(columns["target"].mean())
            return np.ones(len(columns["target"]))

        with data.ledger.request(self.plan(data.schema), data) as session:
            noisy = session.release(self.plan(None), data.custom(grab, 1.0, "counts, it says"))
        self.mean_ = float(noisy) if self.honest else caught[0]
        return self

    def predict(self, X):
        return np.full(len(X["x"]), self.mean_)


@pytest.fixture
def schema_file(run_file, monkeypatch):
    monkeypatch.setattr(audit, "load_learner",
                        lambda name: Leaks if name == "leaks" else load_learner(name))
    (run_file.parent / "table.csv").unlink()
    return run_file.parent / "schema.json"


@pytest.fixture
def counted(monkeypatch):
    """A clock of 20 ms a look: how many tables a second has room for depends on no machine."""
    looks = itertools.count()
    monkeypatch.setattr(locking, "time", SimpleNamespace(process_time=lambda: 0.02 * next(looks)))


def test_a_leak_is_disproved(call, as_json, schema_file):
    page = call("audit", "leaks", "--schema", schema_file, "--epsilon", 1, "--fits", 400)
    assert page.exit_code == 1
    assert "DISPROVED" in page.stdout and "differ in 3 records" in page.stdout
    found = as_json("audit", "leaks", "--schema", schema_file, "--epsilon", 1, "--fits", 400)
    assert not found["holds"] and found["stopped"] == "disproved" and found["fits"] < 400
    assert found["records"] == 3 and 0.5 < found["epsilon_low"] < 2.5
    assert 0.9 * found["guesses"] < found["right"] <= found["guesses"]


def test_an_honest_learner_is_not(call, as_json, schema_file):
    """An accusation would be a false alarm, of probability at most 1e-6."""
    given = ("audit", "leaks", "--schema", schema_file, "--epsilon", 0.5, "--fits", 150,
             "--param", "honest=true")
    page = call(*given)
    assert page.exit_code == 0
    assert "This is no proof" in page.stdout and "DISPROVED" not in page.stdout
    assert as_json(*given)["false_alarm"] == 1e-6


def test_an_installed_learner(as_json, schema_file):
    found = as_json("audit", "joint-tree-classifier", "--schema", schema_file, "--epsilon", 1,
                    "--fits", 40, "--relation", "replace_one", "--param", "depth=1")
    assert found["holds"] and found["relation"] == "replace_one" and found["delta"] == 0.0


def test_a_leak_breaks_a_premise(call, as_json, schema_file, counted):
    given = ("audit", "leaks", "--schema", schema_file, "--epsilon", 1, "--lockstep",
             "--seconds", 0.2)
    page = call(*given)
    assert page.exit_code == 1 and "DISPROVED" in page.stdout and "premise P1" in page.stdout
    found = as_json(*given)
    assert not found["holds"] and found["premise"] == "P1" and found["witness"]["format"] == 1


def test_an_honest_learner_breaks_none(call, as_json, schema_file, counted):
    given = ("audit", "leaks", "--schema", schema_file, "--epsilon", 0.5, "--lockstep",
             "--seconds", 0.2, "--param", "honest=true")
    page = call(*given)
    assert page.exit_code == 0 and "This is no proof" in page.stdout
    found = as_json(*given)
    assert found["holds"] and found["premise"] == "" and 0.9 < found["ratio"] <= 1
    assert found["claimed"] == 0.5 and found["relation"] == "add_remove" and found["tables"] > 2


def test_tables_fit_schemas_of_every_kind_of_column(call, tmp_path):
    """Of whole numbers, and of texts: what the guard refuses looks like a fault of the learner."""
    schema = pl.Schema("ages", (pl.Column("age", "numeric", lower=16, upper=70, integer=True),
                                pl.Column("job", "categorical", categories=("clerk", "nurse")),
                                pl.Column("city", "text", "key"),
                                pl.Column("pay", "numeric", "target", 0, 9, integer=True)))
    path = tmp_path / "ages.json"
    path.write_text(json.dumps(schema.to_dict()), encoding="utf-8")
    page = call("audit", "joint-tree-regressor", "--schema", path, "--epsilon", 1, "--lockstep",
                "--seconds", 0.5)
    assert page.exit_code == 0 and "This is no proof" in page.stdout


@pytest.mark.parametrize(("wrong", "word"), [
    (("leaks", "--epsilon", "1", "--seconds", "1"), "lockstep"),
    (("leaks", "--epsilon", "nan"), "epsilon"),
    (("leaks", "--epsilon", "1", "--delta", "2"), "delta"),
    (("leaks", "--epsilon", "1", "--fits", "3"), "fits"),
    (("nobody", "--epsilon", "1"), "nobody"), (("leaks", "--epsilon", "1", "--param", "x"), "KEY"),
    (("leaks", "--epsilon", "1", "--param", "x=1"), "x"),
    (("leaks", "--epsilon", "1", "--param", 'mode="simulation"'), "private"),
    (("leaks", "--epsilon", "1", "--relation", "replace_one"), "relation")])
def test_what_cannot_be_audited_is_a_usage_error(call, schema_file, wrong, word):
    done = call("audit", *wrong, "--schema", schema_file)
    assert done.exit_code in (1, 2) and word in done.stderr.replace("supports", "relation")
    assert "Traceback" not in done.output


def test_parameters_are_json_or_text():
    assert audit.audit_parameters(("a=1", "b=x", 'c="1"', "d=[1, null]", "e=")) == {
        "a": 1, "b": "x", "c": "1", "d": [1, None], "e": ""}
    assert json.dumps(audit.audit_parameters(())) == "{}"
