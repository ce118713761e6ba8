"""Unverified claims: external runs are some, and every surface says so and shows where from."""

import csv
import importlib.metadata
import io
import json
import pickle

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.ledger.view import view_of
from privledger.ledger.view_charges import charges_of
from privledger.reports.formats import deployment
from privledger.testing.examples import examples_for
from privledger.testing.fitting import fresh, ledger_for, protect_example
from tests.standalone.histories import SMALL
from tests.worlds import schema_of

STEP = pl.PoissonSample(0.01, pl.Gaussian(4.0))
WHO = "external run of opacus 1.5.2"


def run(*args):
    return CliRunner().invoke(main, [str(one) for one in args])


def flat(*args):
    return " ".join(run(*args).output.split())


@pytest.fixture
def path(tmp_path):
    """A ledger that holds an external run and a guarded grant, each of a team, under caps."""
    place = tmp_path / "l.ledger"
    caps = [pl.Cap(pl.Budget(2.0, 1e-6), labels={"team": "red"}),
            pl.Cap(pl.Budget(2.0, 1e-6), data="t")]
    with pl.Ledger.create(place, budget=pl.Budget(3.0, 1e-5), filter="gdp", caps=caps) as ledger:
        with ledger.foreign(pl.Gaussian(10.0), table="images", library="opacus", version="1.5.2",
                            hook="step", labels={"team": "red"}) as outside:
            outside.step(noise=10.0, rate=1.0)
        schema = schema_of("t", {"x": (0, 1)})
        data = ledger.protect({"x": np.arange(9) / 9}, schema, name="t")
        ledger.request(pl.Gaussian(20.0), data, learner="a",
                       labels={"team": "blue", "site": "north"}).close()
    return place


def test_an_external_run_is_an_unverified_claim_on_every_surface(path):
    """`show` and `verify` said that nothing rests on anybody's word."""
    for command in ("show", "verify"):
        said = json.loads(run(command, path, "--format", "json").output)["judgement"]
        assert (said["vouched_grants"], said["level"]) == (1, "open")
        assert any(WHO in word for word in said["vouched"])
        assert "Unverified claims: the price of 1 grant" in flat(command, path)
        assert "No unverified claims" not in flat(command, path)
    risk = json.loads(run("risk", path, "--format", "json").output)
    assert risk["vouched_grants"] == 1
    assert "1 grant rests on unverified claims" in flat("risk", path)
    assert WHO in flat("show", path) and WHO in flat("log", path)
    assert len(run("log", path, "--asserted").output.splitlines()) == 1
    assert WHO in flat("log", path, "--asserted")
    assert "images" in flat("top", path, "--by", "data") and "ASSERTED" in flat("top", path)
    assert WHO in flat("record", path, 0, "--data", "images")
    with pl.Ledger.open(path, read_only=True) as ledger:
        view = view_of(ledger._history.full(), ledger._history.store.read())
        assert view.asserted.grants == 1 and WHO in view.asserted.words[0]
        human = {"basic": {
            "name": "n", "data_curators": ["c"], "intended_use": "u", "description": "d",
            "data_product_type": "Summary statistics", "data_product_region": "r",
            "publication_date": "2026-01-01"}, "administrative": {"registry_authors": ["a"]}}
        yaml = deployment(view, human, {})
    assert "1 grant rests on unverified claims" in yaml and WHO in yaml
    page = path.with_suffix(".html")
    assert run("report", path, "-o", page).exit_code == 0
    assert WHO in page.read_text(encoding="utf-8")
    policy = path.with_name("policy.toml")
    policy.write_text("[policy]\nmax_epsilon = 3\nmax_delta = 1e-5\nallow_asserted = true\n"
                      'isolation = ["guarded", "foreign"]\n', encoding="utf-8")
    assert "1 unverified claim" in flat("check", path, "--policy", policy)
    assert "opacus 1.5.2" in flat("check", path, "--policy", policy)


def test_verify_and_receipts_name_what_is_unverified(path, tmp_path):
    """They gave a number, and not who, where and under which labels."""
    with pl.Ledger.open(path) as ledger:
        ledger.foreign(pl.Gaussian(30.0), table="images", library="opacus", version="1.5.2",
                       hook="step", labels={"team": "red"}).close()
        ledger.foreign(pl.Asserted(1e-3, "their word"), table="texts", library="own",
                       version="1", hook="step").close()
    said = flat("verify", path)
    for words in ("unverified: external run of opacus 1.5.2 in grant-", "the first of 2 grants",
                  "labels hook=step, team=red", "table images", "isolation foreign",
                  "Asserted", "external run of own 1 in grant-"):
        assert words in said, words
    for command in ("verify", "receipt"):
        claims = json.loads(run(command, path, "--format", "json").output)["unverified"]
        assert [(one["library"], one["table"], one["isolation"], one["grants"],
                 one["labels"].get("team")) for one in claims] == [
            ("own 1", "texts", "foreign", 1, None), ("opacus 1.5.2", "images", "foreign", 2, "red")]
    kept = tmp_path / "kept.json"
    assert run("receipt", path, "-o", kept).exit_code == 0
    assert "and the receipt is in it" in flat("verify", path, "--receipt", kept)


def test_asserted_answers_are_named_with_their_grant_and_honest_ledgers_name_none(tmp_path):
    place = tmp_path / "a.ledger"
    schema = schema_of("t", {"x": (0, 1)})
    with pl.Ledger.create(place, budget=pl.Budget(3.0, 1e-5)) as ledger:
        data = ledger.protect({"x": np.arange(9) / 9}, schema, name="t")
        with ledger.request(pl.Gaussian(20.0), data) as session:
            session.release(pl.Gaussian(20.0), data.sum("x"))
        assert "unverified" not in json.loads(run("receipt", place, "--format", "json").output)
        assert "unverified:" not in flat("verify", place)
        with ledger.request(pl.Gaussian(20.0), data, learner="b", labels={"team": "z"}) as session:
            session.release(pl.Gaussian(20.0), data.custom(
                lambda part: part["x"], 1.0, "each row alone"))
    assert "unverified: an asserted answer in grant-" in flat("verify", place)
    assert "learner b; table t; labels team=z; isolation guarded" in flat("verify", place)


def test_receipts_have_a_date_that_no_comparison_minds(path):
    with pl.Ledger.open(path) as ledger:
        first, second = ledger.receipt, ledger.handle.receipt
        assert first == second and first.time <= second.time
        assert first.as_dict(dated=True)["time"] == first.time > "2020"
    old = first.as_dict()
    assert type(first)(**old) == first and "time" not in {*old, *type(first)(**old).as_dict(
        dated=True)}


def test_where_from_is_shown_and_grouped_and_filtered_by(path):
    """Labels, library, isolation and caps were in the entry, and shown nowhere."""
    shown = flat("show", path)
    for words in ("labels team=red", "labels site=north, team=blue",
                  "under the cap for team red", "under the cap for data t"):
        assert words in shown
    grants = json.loads(run("show", path, "--format", "json").output)["grants"]
    assert [(one["labels"].get("team"), one["library"], one["isolation"], one["caps"])
            for one in grants] == [("red", "opacus 1.5.2", "foreign", ["the cap for team red"]),
                                   ("blue", "", "guarded", ["the cap for data t"])]
    table = list(csv.DictReader(io.StringIO(run("export", path, "--as", "csv", "-o", "-").output)))
    assert [(row["isolation"], row["library"], row["labels"], row["caps"]) for row in table] == [
        ("foreign", "opacus 1.5.2", "hook=step; library=opacus; team=red; version=1.5.2",
         "the cap for team red"),
        ("guarded", "", "site=north; team=blue", "the cap for data t")]
    for by, names in (("team", {"red", "blue"}), ("library", {"opacus 1.5.2", ""}),
                      ("isolation", {"foreign", "guarded"}), ("label:site", {"north", ""}),
                      ("cap", {"the cap for team red", "the cap for data t"}),
                      ("table", {"images", "t"}), ("window", {""})):
        found = json.loads(run("top", path, "--by", by, "--format", "json").output)["top"][by]
        assert {one["name"] for one in found} == names, by
    for where, names in (("team=red", {"images"}), ("library=opacus", {"images"}),
                         ("library=opacus 1.5.2", {"images"}), ("isolation=guarded", {"t"}),
                         ("label:site=north", {"t"}), ("learner=a", {"t"}), ("table=t", {"t"}),
                         ("team=green", set())):
        found = json.loads(run("top", path, "--by", "data", "--where", where, "--format",
                               "json").output)["top"]["data"]
        assert {one["name"] for one in found} == names, where
        text = run("log", path, "--where", where, "--kind", "granted").output
        assert len(text.splitlines()) == len(names), where
        listed = json.loads(run("show", path, "--where", where, "--format", "json").output)
        assert {one["data"] for one in listed["grants"]} == names, where
    for wrong in ("team", "=x", "nonsense=1", "label:=1"):
        assert run("top", path, "--where", wrong).exit_code == 2
    assert run("top", path, "--by", "nonsense").exit_code == 2


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(
    entry.name for entry in importlib.metadata.entry_points(group="privledger.learners")))
def test_every_shipped_learner_hands_labels_to_its_request(name):
    kind = pl.load_learner(name)
    small = {key: value for key, value in SMALL.items() if key in kind().get_params()}
    given = examples_for(kind(**small))[0]
    model = fresh(kind(**small), schema=given.schema)
    ledger = ledger_for(model, 1.3)
    model.fit(protect_example(ledger, given), labels={"team": "red"})
    charges = charges_of(ledger._history.full())
    assert charges and all(one.team == "red" for one in charges if one.kind == "grant")
    with pytest.raises(pl.InvalidValue):
        fresh(kind(**small), schema=given.schema).fit(
            protect_example(ledger_for(model, 1.3), given), labels={"team": 3})


@pytest.mark.filterwarnings("ignore")
def test_labels_of_a_fit_are_not_those_of_the_next_nor_kept():
    kind = pl.load_learner("srt-classifier")
    given = examples_for(kind())[0]
    model = fresh(kind(), schema=given.schema)
    ledger = ledger_for(model, 3.0)
    data = protect_example(ledger, given)
    model.fit(data, labels={"team": "red"})
    pickle.dumps(model)
    model.fit(data)
    assert [one.team for one in charges_of(ledger._history.full())] == ["red", ""]
    assert not [name for name in vars(model) if "labels" in name]
