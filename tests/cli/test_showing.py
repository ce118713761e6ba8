"""show, record and learners: reading a ledger changes nothing and trusts nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from attrs import asdict

import privledger as pl
from privledger.ledger import History
from privledger.ledger.entries import this_process
from privledger.storage import SQLiteStore
from tests.bodies import said
from tests.worlds import refused

HOSTILE = "[red]evil[/red]\x1b[2J\x07\nnext\u202eline"


def test_show_tells_totals_and_what_was_released(call, ledger_file):
    page = call("show", ledger_file)
    assert page.exit_code == 0
    for words in ("Within budget", "epsilon 0.5 of 1", "add_remove", "gdp", "operating-system",
                  "1 grant", "settled", "Gaussian", "1: count"):
        assert words in page.stdout
    assert page.stderr == ""


def test_show_json_is_json_alone(as_json, ledger_file):
    found = as_json("show", ledger_file)
    assert found["verdict"] == "within budget"
    assert found["spent"] <= 0.5000001
    assert found["grants"][0]["lines"][0]["count"] == 1


def test_a_record_has_what_a_person_has_and_a_table_without_grants_says_nothing_spent(
        call, as_json, tmp_path):
    """Epsilon and dates were for people only; a table without grants was an error."""
    path = tmp_path / "two.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp",
                          relation="replace_one") as ledger:
        schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0.0, 1.0),), public_rows=5)
        refused(pl.errors.DataError, lambda: ledger.record(0), match="no table")
        data = ledger.protect({"x": [0.1] * 5}, schema, name="used")
        assert ledger.record(4).lines == () and ledger.record(4).epsilon == 0
        other = ledger.protect({"x": [0.1] * 5}, schema, name="idle")
        refused(pl.errors.DataError, lambda: ledger.record(0), match="used, idle")
        ledger.request(pl.Gaussian(20.0), data, learner="a").close()
        grant = next(iter(ledger.state.grants))
        ledger.correct(grant, pl.Gaussian(10.0), "half the noise")
        found = ledger.record(0)
        assert found.data == "used" and found.epsilon == found.bound == ledger.spent
        assert found.lines[0].node == "Gaussian(noise_multiplier=10)" and found.lines[0].time
        idle = ledger.record(0, "idle")
        assert other is not None
        assert (idle.lines, idle.total, idle.epsilon, idle.bound) == ((), 0.0, 0.0, ledger.spent)
        refused(pl.errors.DataError, lambda: ledger.record(5, "idle"), match="no such record")
        refused(pl.errors.DataError, lambda: ledger.record(0, "other"), match="name the data set")
        total = ledger.spent
    page = " ".join(call("record", path, 0, "--data", "idle").stdout.split())
    assert "record 0 of idle: nothing spent" in page and "epsilon 0 of the ledger's" in page
    page = " ".join(call("record", path, 0).stdout.split())
    assert "Gaussian(noise_multiplier=10)" in page and "as corrected" in page
    assert "20" + found.lines[0].time[2:] in page and "noise_multiplier=20" not in page
    value = as_json("record", path, 0)
    assert value["epsilon"] == value["bound"] == total and value["delta"] == 1e-6
    assert value["lines"][0]["time"] == found.lines[0].time and value["lines"][0]["data"] == "used"
    log = " ".join(call("log", path, "--kind", "corrected").stdout.split())
    assert "adds epsilon" in log and "for Gaussian(noise_multiplier=10): half the noise" in log
    with pl.Ledger.open(path) as ledger:
        ledger.correct(grant, None, "nobody knows")
    assert "voided: nothing is promised" in call("record", path, 0).stdout


def test_show_writes_nothing(call, ledger_file):
    before = ledger_file.read_bytes()
    call("show", ledger_file)
    call("record", ledger_file, 3)
    call("verify", ledger_file)
    assert ledger_file.read_bytes() == before


def test_an_empty_ledger_can_be_shown(call, make_ledger, tmp_path):
    page = call("show", make_ledger(tmp_path / "empty.ledger", releases=0))
    assert page.exit_code == 0
    assert "No grants yet" in page.stdout


def test_simulation_is_marked(call, as_json, make_ledger, tmp_path):
    path = make_ledger(tmp_path / "sim.ledger", mode="simulation")
    assert "NOT PRIVATE" in call("show", path).stdout
    assert as_json("show", path)["private"] is False
    assert "NOT PRIVATE" in call("record", path, 0).stdout


def test_hostile_labels_are_inert(call, make_ledger, tmp_path):
    path = make_ledger(tmp_path / "hostile.ledger", learner=HOSTILE)
    for page in (call("show", path), call("record", path, 0)):
        assert "[red]" in page.stdout.replace("\n", "").replace(" ", "")
        assert "\x1b" not in page.output
        assert "\x07" not in page.output
        assert "\u202e" not in page.output
    assert "\x1b" not in call("show", path, "--format", "json").output


def test_refusals_are_listed(call, spend, tmp_path):
    path = tmp_path / "full.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(0.6, 1e-6)) as ledger:
        spend(ledger)
        refused(pl.BudgetExceeded, lambda: spend(ledger))
    assert "1 refused, nothing was read" in call("show", path).stdout


def open_grant(path: Path, holder: dict) -> None:
    """A grant that nobody settled."""
    store = SQLiteStore(path)
    body = {"grant": "grant-x", "time": "", "learner": "late", "data": "people",
            "plan": pl.nodes.to_json(pl.Gaussian(50.0)), "delta": 0.0, "holder": holder,
            "scope": None,
            "units": 1 << 54, "delta_units": 0}
    History(store).commit(lambda state: said(("granted", body)))
    store.close()


def test_an_open_grant_of_a_dead_process_has_crashed(call, ledger_file):
    open_grant(ledger_file, asdict(this_process()) | {"started": "long ago"})
    assert "crashed: the whole reservation stays spent" in call("show", ledger_file).stdout
    with pl.Ledger.open(ledger_file, read_only=True) as ledger:
        assert ledger.state.grants["grant-x"].status == "granted"  # show wrote nothing


def test_an_open_grant_of_a_living_process_is_unfinished(call, as_json, ledger_file):
    open_grant(ledger_file, asdict(this_process()))
    assert "unfinished: its process is still running" in call("show", ledger_file).stdout
    assert as_json("show", ledger_file)["grants"][1]["status"] == "unfinished"


def test_record_tells_where_a_record_spent(call, as_json, ledger_file):
    page = call("record", ledger_file, 17)
    assert page.exit_code == 0
    assert "confidential" in page.stdout
    found = as_json("record", ledger_file, 17, "--data", "people")
    assert found["row"] == 17
    assert found["lines"][0]["basis"] == "whole plan"


def test_record_of_unknown_data_is_a_usage_error(call, ledger_file):
    page = call("record", ledger_file, 17, "--data", "others")
    assert page.exit_code == 2
    assert page.stderr.startswith("privledger record: ")
    assert page.stdout == ""


def test_errors_are_one_message_and_json_on_request(call, as_json, tmp_path):
    (tmp_path / "text.ledger").write_text("hello", encoding="utf-8")
    page = call("show", tmp_path / "text.ledger")
    assert page.exit_code == 3
    assert "not a ledger" in page.stderr
    assert "Traceback" not in page.output
    assert as_json("show", tmp_path / "text.ledger")["exit"] == 3
    assert call("show", tmp_path / "nowhere.ledger").exit_code == 2


def test_a_ledger_of_a_later_format_is_not_trusted(call, ledger_file):
    with sqlite3.connect(ledger_file) as connection:
        connection.execute("PRAGMA user_version=99")
    page = call("show", ledger_file)
    assert page.exit_code == 3
    assert "format 99" in page.stderr


def test_learners_lists_plugins_and_broken_ones(call, as_json, monkeypatch):
    from privledger.cli import make

    monkeypatch.setattr(make, "learner_names", lambda: ("tiny", "broken"))
    page = call("learners")
    assert page.exit_code == 0
    assert "nobody, 2026" in page.stdout
    assert "broken" in page.stdout
    assert as_json("learners")["learners"][0]["name"] == "tiny"
