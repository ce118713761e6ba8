"""CSV that adds up, and events for every ledger."""

import csv
import io
import json
from fractions import Fraction

import numpy as np
import pytest

import privledger as pl
from privledger.ledger import audit
from privledger.reports.formats import COLUMNS, DECIMALS, inert
from tests.cli.test_one_pass import ledger_with_everything

SCHEMA = pl.Schema.from_dict({"name": "t", "columns": [
    {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}]})
X = {"x": np.linspace(0, 1, 20)}


def rows_of(page):
    assert page.exit_code == 0, page.output
    text = page.stdout_bytes.decode("utf-8")
    assert text.count("\r\n") == text.count("\n") == len(list(csv.reader(io.StringIO(text))))
    return list(csv.DictReader(io.StringIO(text)))


def adds_up(rows, state):
    """The law: charges add up exactly, shares never to less than was spent."""
    assert sum(int(row["charge"]) for row in rows) == state.units
    assert sum(int(row["charge_delta"]) for row in rows) == state.delta_units
    shares = [Fraction(row["share"]) for row in rows if row["share"]]
    spent = Fraction(state.units, state.rule.cap_units)
    assert spent <= sum(shares) <= spent + Fraction(len(rows), 10**DECIMALS)
    assert sum(float(share) for share in shares) >= float(spent) * (1 - 1e-12)


@pytest.mark.parametrize("corrected", [False, True])
def test_charges_add_up_to_what_was_spent(call, tmp_path, corrected):
    """Corrections, handed back and failed and open grants included."""
    path = tmp_path / "all.ledger"
    ledger, left = ledger_with_everything(path)
    if corrected:
        first = next(iter(ledger.state.grants))
        ledger.correct(first, pl.Gaussian(3.0), "why")
    assert audit(ledger._history.store) == []
    state = ledger.state
    rows = rows_of(call("export", path, "-o", "-", "--as", "csv"))
    adds_up(rows, state)
    granted = [row for row in rows if row["kind"] == "granted"]
    assert len(granted) == len(state.grants)
    assert [row["kind"] for row in rows].count("scope") == len(state.scopes)
    released = [row for row in rows if row["kind"] == "released"]
    assert len(released) == sum(grant.releases for grant in state.grants.values())
    assert {row["charge"] for row in released} == {"0"}
    assert {row["learner"]: row["status"] for row in granted} | {"count0": "", "count1": ""} == {
        "count0": "", "count1": "", "nothing released": "settled", "handed back": "aborted",
        "bad": "failed", "sums": "settled", "vouched": "settled", "custom": "settled",
        "open": "granted"}
    assert sorted({row["learner"] for row in rows if row["asserted"] == "1"}) == [
        "custom", "vouched"]
    left.close()
    ledger.close()


@pytest.mark.parametrize("kind", ["basic", "gdp", "rdp", "zcdp"])
def test_charges_add_up_under_every_filter(call, tmp_path, kind):
    path = tmp_path / "a.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(3.0, 1e-6), filter=kind) as ledger:
        data = ledger.protect(X, SCHEMA, name="t")
        for scale in (20.0, 30.0, 70.0):
            with ledger.request(pl.Laplace(scale), data, learner="=a", delta=0.0) as session:
                session.release(pl.Laplace(scale), data.count())
        state = ledger.state
    rows = rows_of(call("export", path, "-o", "-", "--as", "csv"))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == 6
    assert {row["learner"] for row in rows} == {"'=a"}
    adds_up(rows, state)


def test_a_ledger_without_grants_has_a_header_only(call, make_ledger, tmp_path):
    page = call("export", make_ledger(tmp_path / "a", releases=0), "-o", "-", "--as", "csv")
    assert rows_of(page) == []


def test_every_ledger_has_events_and_the_inexact_ones_are_counted(call, tmp_path):
    pytest.importorskip("dp_accounting.dp_event")
    path = tmp_path / "a.ledger"
    with pl.Ledger.create(path, budget=pl.Budget(9.0, 1e-5), filter="basic") as ledger:
        data = ledger.protect(X, SCHEMA, name="t")
        for node in (pl.Laplace(20.0), pl.Exponential(0.1), pl.Asserted(0.1, "so", delta=1e-9)):
            ledger.request(node, data, learner="a", delta=1e-7).close()
    page = call("export", path, "-o", "-", "--as", "dp-event")
    assert page.exit_code == 0
    value = json.loads(page.stdout)
    assert [one["event"] for one in value["events"]] == [
        "LaplaceDpEvent", "ZCDpEvent", "UnsupportedDpEvent"]
    assert [sum(value[name].values()) for name in ("inexact", "unsaid")] == [1, 1]
    assert page.stderr.count("INEXACT: 1 part of the plans is written as") == 2
    refused = call("export", path, "-o", "-", "--as", "dp-event", "--exact")
    assert refused.exit_code == 1
    assert refused.stdout == ""


def test_exact_events_owe_nothing(call, make_ledger, tmp_path):
    pytest.importorskip("dp_accounting.dp_event")
    book = make_ledger(tmp_path / "a")
    plain = call("export", book, "-o", "-", "--as", "dp-event")
    assert plain.stderr == ""
    assert call("export", book, "-o", "-", "--as", "dp-event", "--exact").stdout == plain.stdout
    assert call("export", book, "-o", "-", "--as", "csv", "--exact").exit_code == 2


@pytest.mark.parametrize("text", ["a;=1+1", "a; +1", "a;-1", 'a;"@x', "a;'=1"])
def test_what_follows_a_semicolon_is_no_formula(text):
    """There are spreadsheets that cut cells there."""
    cell = inert(text).split(";")[1].lstrip(" '\"")
    assert cell[0] in "=+-@" and "'" + cell in inert(text)
