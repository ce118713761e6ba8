"""Risk in words: one record behind `risk`, `show`, `explain` and the page."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.ledger.view import view_of
from privledger.numerals import in_100, upward
from privledger.reports.risk import SIMULATED, VOID, ledger_risk, plan_risk
from privledger.tables.person_keys import make_people_key, read_people_key
from tests.doctored import doctor
from tests.worlds import schema_of

PLANS = (pl.Gaussian(20.0),)
SCHEMA = schema_of("t", {"x": (0, 1)})
HEAD = ("Worst case: an attacker who knows every other row and sees every output can tell whether "
        "one given row was used in at most 55 of 100 tries (guessing: 50).")


def made(path, plans=PLANS, **options):
    budget = options.pop("budget", pl.Budget(1.0, 1e-6))
    ledger = pl.Ledger.create(path, budget=budget, **options)
    data = ledger.protect({"x": np.arange(100) / 100}, SCHEMA, name="t")
    for plan in plans:
        ledger.request(plan, data, learner="a").close()
    return ledger


def run(*args):
    return CliRunner().invoke(main, list(args))


def test_every_surface_says_the_same(tmp_path):
    path = str(tmp_path / "l.ledger")
    grant = next(iter(made(path).state.grants))
    said = run("risk", path, "--format", "json")
    words = json.loads(said.output)["words"]
    assert words[0] == HEAD and words[1].endswith("at most 1.9 % of insiders.")
    assert words[3] == "For 5 rows of one person: at most 73 of 100 tries."
    assert json.loads(run("show", path, "--format", "json").output)["risk"]["words"] == words
    found = json.loads(run("explain", path, grant, "--format", "json").output)
    assert found["risk"]["words"] == words
    page = tmp_path / "p.html"
    assert run("report", path, "-o", str(page)).exit_code == 0
    text = page.read_text(encoding="utf-8").replace("&#39;", "'")
    assert all(line in text for line in words)
    assert text.index(HEAD) < text.index("Promise and theorem")
    for command in ("risk", "show"):
        flat = " ".join(run(command, path).output.split())
        assert all(line in flat for line in words)


@pytest.mark.parametrize("filter", ["basic", "gdp", "rdp", "zcdp"])
def test_the_personal_statement_says_the_number_of_all_other_surfaces(tmp_path, filter):
    """It said 73.2 of 100 for every filter, where `show` said 55, 56, 64 or 74."""
    path, key = str(tmp_path / "p.ledger"), tmp_path / "p.key"
    make_people_key(key)
    plan = pl.Laplace(50.0) if filter == "basic" else pl.Gaussian(50.0)
    schema = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),
                             pl.Column("who", "identifier", "identifier")), unit="person",
                       person="who")
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter=filter, unit="person",
                          people_key=read_people_key(str(key))) as ledger:
        data = ledger.protect({"x": np.arange(9) / 9, "who": np.arange(9)}, schema, name="t")
        ledger.request(plan, data, learner="a").close()
    grant = next(iter(pl.Ledger.open(path, read_only=True).state.grants))
    words = json.loads(run("risk", path, "--format", "json").output)["words"]
    number = words[0].split("at most ")[1].split()[0]
    asked = ("record", path, "--person", "3", "--people-key", str(key))
    letter = " ".join(run(*asked, "--letter").output.split())
    assert f"right in at most {number} of 100 cases" in letter
    assert json.loads(run(*asked, "--format", "json").output)["risk"]["words"] == words
    page = tmp_path / "p.html"
    assert run("report", path, "-o", str(page)).exit_code == 0
    for text in (page.read_text(encoding="utf-8"), *(
            " ".join(run(*command).output.split())
            for command in (("show", path), ("risk", path), ("explain", path, grant)))):
        assert words[0] in text.replace("&#39;", "'")


def test_the_promise_is_the_budget_not_what_was_spent_so_far(tmp_path):
    """How much was spent may have been chosen by answers: that is an odometer, no promise."""
    few = ledger_risk(view_of(made(None, (pl.Gaussian(500.0),)).state))
    more = ledger_risk(view_of(made(None, (pl.Gaussian(5.0),)).state))
    assert few.odds == more.odds and few.so_far.right < more.so_far.right < few.odds[0].right


def test_what_promises_nothing_says_so(tmp_path):
    assert ledger_risk(view_of(made(None, mode="simulation", seed=1).state)).sentences == (
        SIMULATED,)
    ledger = made(None)
    ledger.correct(next(iter(ledger.state.grants)), None, "the rows were sorted")
    assert ledger_risk(view_of(ledger.state)).sentences == (VOID,)


def test_a_correction_past_the_cap_raises_it():
    ledger = made(None)
    before = ledger_risk(view_of(ledger.state)).odds[0].right
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(0.5), "the noise was less")
    assert ledger_risk(view_of(ledger.state)).odds[0].right > before


def test_somebodys_word_is_counted():
    ledger = made(None, (pl.Asserted(0.1, "they say"),), filter="basic")
    assert ledger_risk(view_of(ledger.state)).sentences[-1].startswith(
        "1 grant rests on unverified claims")


def test_an_unused_ledger_promises_its_budget():
    found = ledger_risk(view_of(made(None, ()).state))
    assert found.odds[0].right == pytest.approx(0.5 + 0.5 * 0.462118, abs=1e-5)


@pytest.mark.parametrize(("relation", "words"), [
    ("add_remove", "whether one given row was used"),
    ("replace_one", "which of two values one given row had"),
    ("replace_label", "which of two labels one given row had")])
def test_the_guess_is_the_relations(relation, words):
    node = pl.Gaussian(5.0) if relation != "replace_label" else pl.nodes.LabelOnly(pl.Laplace(5.0))
    assert words in plan_risk(node, relation, several=False).sentences[0]


def test_people_are_people():
    words = plan_risk(pl.Gaussian(9.0), "add_remove", "person").sentences
    assert "one given person, with all rows, was used" in words[0]
    assert words[3].startswith("For 5 people together")


def test_shares_are_rounded_up():
    for share in np.random.default_rng(1).uniform(0, 1, 300).tolist():
        assert float(in_100(share)) >= share * 100 * (1 - 1e-12)
    assert in_100(0.9991) == "99.91" and in_100(1.0) == "100"
    assert float(in_100(np.nextafter(1, 0))) <= 100 and upward(1.0) == "1"


def test_a_broken_history_is_told_nothing_of(tmp_path):
    path = str(tmp_path / "l.ledger")
    made(path)
    doctor(path, "UPDATE entries SET body = replace(body, '20', '21') WHERE kind = 'granted'")
    said = run("risk", path)
    assert said.exit_code == 3 and "of 100 tries" not in said.output


@pytest.mark.parametrize("args", [("--fpr", "0"), ("--fpr", "nan"), ("--prior", "1"),
                                  ("--prior", "-1")])
def test_shares_are_checked(tmp_path, args):
    path = str(tmp_path / "l.ledger")
    made(path)
    assert run("risk", path, *args).exit_code == 2
