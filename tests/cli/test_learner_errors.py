"""What a learner says when it fails is not passed on: it could quote a record."""

import json

import pytest

import privledger as pl
from privledger.cli.export import entry_line
from privledger.cli.output import reading_store
from tests.cli.conftest import Tiny
from tests.faults.test_hostile_text import ERRORS, SECRET


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("touched", [False, True])
def test_a_failing_learner_leaks_nothing(call, run_file, tmp_path, monkeypatch, name, form,
                                         touched):
    def fit(self, data):
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data, learner="tiny", delta=self.delta) as session:
            if touched:
                session.release(plan.node, data.count())
            raise ERRORS[name]()

    monkeypatch.setattr(Tiny, "fit", fit)
    done = call("run", str(run_file), "--format", form)
    assert done.exit_code == 4
    assert SECRET not in done.stdout + done.stderr and "\x1b" not in done.stdout + done.stderr
    assert "fit failed" in done.stderr
    if form == "json":
        assert json.loads(done.stdout)["exit"] == 4
    with reading_store(tmp_path / "run.ledger") as store:
        assert SECRET not in "".join(entry_line(entry) for entry in store.read())


def test_our_own_refusals_are_passed_on(call, run_file, monkeypatch):
    """A learner that asks for too much: the ledger's own words arrive."""
    def fit(self, data):
        data.ledger.request(pl.Gaussian(0.01), data)

    monkeypatch.setattr(Tiny, "fit", fit)
    done = call("run", str(run_file))
    assert done.exit_code == 1 and "refused, nothing was read" in done.stderr


def test_a_bad_number_is_named_and_not_quoted(call, run_file, monkeypatch):
    monkeypatch.setattr(Tiny, "fit", lambda self, data: pl.Gaussian(-4711.25))
    done = call("run", str(run_file))
    assert done.exit_code == 4 and SECRET not in done.stderr
    assert "noise" in done.stderr
