"""`run --wait` and `wait` of a run file: in line for budget that others hold."""

import json
import threading

import pytest

import privledger as pl
from tests.cli.conftest import RUN, SCHEMA


@pytest.fixture
def held(tmp_path, run_file):
    """The run's ledger, all of whose budget a grant holds that read nothing."""
    ledger = pl.Ledger.create(tmp_path / "run.ledger", budget=pl.Budget(1.0, 1e-6))
    data = ledger.protect({"x": [0.1, 0.2]}, ["no", "yes"], pl.Schema.from_dict(SCHEMA), name="t")
    session = ledger.request(pl.Gaussian(pl.calibrate(pl.Gaussian, 0.99, 1e-6)), data)
    yield ledger, session
    ledger.close()


def given_back(session, seconds=0.5):
    thread = threading.Timer(seconds, lambda: session.close(failed=RuntimeError))
    thread.start()
    return thread


@pytest.mark.parametrize("where", ["option", "file"])
def test_a_run_waits_for_what_is_handed_back(call, run_file, held, where):
    ledger, session = held
    options = ["--wait", "60"] if where == "option" else []
    if where == "file":
        run_file.write_text(RUN + "wait = 60\n", encoding="utf-8")
    thread = given_back(session)
    done = call("run", run_file, *options)
    thread.join()
    assert done.exit_code == 0, done.output
    assert ledger._history.refresh().refusals == 0
    assert ledger.verify() == []


@pytest.mark.parametrize("options", [[], ["--wait", "0"], ["--wait", "0.2"]])
def test_what_does_not_come_is_refused(call, run_file, held, options):
    ledger, _ = held
    if options == ["--wait", "0"]:  # the option counts, and the file does not
        run_file.write_text(RUN + "wait = 3000\n", encoding="utf-8")
    done = call("run", run_file, *options)
    assert done.exit_code == 1, done.output
    state = ledger._history.refresh()
    assert state.refusals == 1 and not state.line
    assert len(state.grants) == 1


def test_what_can_never_come_is_not_waited_for(call, run_file, held):
    run_file.write_text(RUN.replace("rounds = 3", "rounds = 3\nepsilon = 2.0"), encoding="utf-8")
    done = call("run", run_file, "--wait", "3000")
    assert done.exit_code == 1, done.output


@pytest.mark.parametrize("bad", ["-1", "true", "nan", "inf", "3601", '"5"'])
def test_how_long_is_checked(call, run_file, bad):
    run_file.write_text(f"{RUN}wait = {bad}\n", encoding="utf-8")
    done = call("run", run_file)
    assert done.exit_code == 2, done.output
    assert "wait" in done.output
    assert not (run_file.parent / "run.ledger").exists()


@pytest.mark.parametrize("bad", ["-1", "nan", "3601", "x"])
def test_the_option_is_checked(call, run_file, bad):
    assert call("run", run_file, "--wait", bad).exit_code == 2
    assert not (run_file.parent / "run.ledger").exists()


def test_forecasts_do_not_wait(as_json, run_file, held):
    run_file.write_text(RUN + "wait = 3000\n", encoding="utf-8")
    assert json.dumps(as_json("plan", run_file))
