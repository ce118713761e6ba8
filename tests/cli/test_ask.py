"""`privledger ask`: priced, refused, answered and kept under a ledger."""

import json
from xml.etree import ElementTree

import numpy as np
import pyarrow.parquet as pq
import pytest

import privledger as pl

SCHEMA = """
name = "people"
[[columns]]
name = "region"
kind = "categorical"
categories = ["north", "south"]
[[columns]]
name = "age"
kind = "numeric"
lower = 18
upper = 90
[[columns]]
name = "pay"
kind = "numeric"
lower = 0
upper = 100
"""
QUERY = ("select region, avg(pay), count(*) from people where age between 30 and 60 "
         "group by region")


@pytest.fixture
def ask(call, tmp_path):
    rng = np.random.default_rng(4)
    lines = [f"{place},{age},{50 + 10 * (place == 'north')}" for place, age in zip(
        rng.choice(["north", "south"], 2000), rng.integers(18, 91, 2000), strict=True)]
    (tmp_path / "people.csv").write_text("region,age,pay\n" + "\n".join(lines) + "\n")
    (tmp_path / "s.toml").write_text(SCHEMA)
    (tmp_path / "key").write_bytes(b"k" * 32)

    def asked(query, *more, epsilon=1.0):
        return call("ask", tmp_path / "people.csv", query, "--schema", tmp_path / "s.toml",
                    "--epsilon", epsilon, *more)

    return asked


def test_a_mean_by_group_is_one_command(ask, tmp_path):
    done = ask(QUERY)
    assert done.exit_code == 0, done.stderr
    assert "north" in done.stdout and "mean(pay)" in done.stdout and "low" in done.stdout
    found = json.loads(ask(QUERY, "--budget", 2, "--format", "json", "--ledger",
                           tmp_path / "other.ledger").stdout)
    rows = {(row["region"], row["statistic"]): row for row in found[0]["rows"]}
    assert rows["north", "mean(pay)"]["value"] == pytest.approx(60, abs=5)
    assert rows["south", "mean(pay)"]["value"] == pytest.approx(50, abs=5)
    assert rows["south", "mean(pay)"]["low"] < rows["south", "mean(pay)"]["high"]
    refused = ask(QUERY)
    assert refused.exit_code == 1 and "othing was read" in refused.stderr
    with pl.Ledger.open(tmp_path / "people.ledger", read_only=True) as ledger:
        assert ledger.spent == pytest.approx(1.0) and ledger.verify() == []


def test_a_plan_opens_nothing(ask, tmp_path):
    (tmp_path / "people.csv").write_text("not a table")
    before = sorted(one.name for one in tmp_path.iterdir())
    done = ask(QUERY, "--plan", "--rows", 5000)
    assert done.exit_code == 0 and "price: epsilon 1" in done.stdout
    assert json.loads(ask(QUERY, "--plan", "--format", "json").stdout)[0]["plan"]["node"]
    assert sorted(one.name for one in tmp_path.iterdir()) == before


def test_several_statements_are_one_grant(ask, tmp_path):
    (tmp_path / "q.sql").write_text("select histogram(region) from people;\n"
                                    "select count(*), median(pay) from people;\n")
    done = ask(tmp_path / "q.sql")
    assert done.exit_code == 0, done.stderr
    assert "█" in done.stdout and "median(pay)" in done.stdout
    with pl.Ledger.open(tmp_path / "people.ledger", read_only=True) as ledger:
        assert len(ledger.state.grants) == 1 and ledger.spent == pytest.approx(1.0)
        assert ledger.verify() == []


def test_the_same_question_again_costs_nothing_with_keep(ask, tmp_path):
    kept = ("--keep", "--fingerprint-key", tmp_path / "key", "--format", "json")
    first, again = (json.loads(ask(QUERY, *kept).stdout)[0] for _ in range(2))
    assert again["recalled"] and not first["recalled"] and again["rows"] == first["rows"]
    with pl.Ledger.open(tmp_path / "people.ledger", read_only=True) as ledger:
        assert ledger.spent == pytest.approx(1.0) and ledger.verify() == []
    assert ask(QUERY, "--keep").exit_code == 2


def test_answers_go_into_files(ask, tmp_path):
    place = tmp_path / "a.parquet"
    done = ask(QUERY, "-o", place, "--format", "csv", "--sampling")
    assert done.exit_code == 0 and done.stdout.startswith("region,statistic,value,low,high")
    assert pq.read_table(place).num_rows == 4
    assert ask(QUERY, "-o", tmp_path / "a.svg", "--ledger",
               tmp_path / "other.ledger").exit_code == 0
    drawn = ElementTree.parse(tmp_path / "a.svg").getroot()
    assert len(drawn.findall(".//{*}path")) == 4 and len(drawn.findall(".//{*}rect")) == 5
    for wrong in ("a.txt", "nowhere/a.csv"):
        assert ask(QUERY, "-o", tmp_path / wrong).exit_code == 2
    assert ask("select count(*) from t; select avg(pay) from t", "-o",
               tmp_path / "a.csv").exit_code == 2


@pytest.mark.parametrize(("query", "more"), [
    ("select avg(pay) from t having 1", ()), (QUERY, ("--delta", 2)), ("none.sql", ()),
    ("select avg(region) from t", ()), (QUERY, ("--budget", "nan"))])
def test_what_can_never_be_right_makes_no_ledger(ask, tmp_path, query, more):
    assert ask(query, *more).exit_code == 2
    assert not (tmp_path / "people.ledger").exists()


@pytest.mark.parametrize("epsilon", [0, -1, "nan", "inf"])
def test_impossible_prices(ask, tmp_path, epsilon):
    assert ask(QUERY, epsilon=epsilon).exit_code == 2
    assert ask(QUERY, "--plan", epsilon=epsilon).exit_code == 2
