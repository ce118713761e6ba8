"""Law: whatever shows a ledger says the same numbers, on the same side, and parts add up."""

import importlib.metadata
import importlib.util
import json
import math
import re
import tempfile
import warnings
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, Phase, given, settings

import privledger as pl
from privledger.cli import main
from privledger.ledger.filters import DELTA_UNIT
from privledger.ledger.view import view_of
from privledger.ledger.view_charges import ASPECTS
from privledger.plot import burn_down_points
from privledger.pytest_plugin.using import spend_properties
from privledger.reports import audited, ledger_report, survey
from privledger.reports.changes import ledger_changes
from privledger.reports.page import page_of, render_page
from privledger.reports.page.past import past
from privledger.reports.page.render import grant_values
from privledger.reports.pricing import price_plan
from privledger.rounding import UNIT, down
from privledger.testing.examples import examples_for
from privledger.testing.fitting import fresh, ledger_for, protect_example
from tests.alone import verify_history
from tests.bodies import body_of
from tests.properties.lives import FILTERS, Life, lives
from tests.standalone.histories import SMALL

QUIET = list(HealthCheck)
PHASES = (Phase.explicit, Phase.generate)  # to make a life shorter takes minutes
NUMBER = r"([0-9][0-9.e+-]*)"


ALONE = verify_history


def command(*arguments):
    """What a command prints for people, and as JSON; no honest ledger is called forged."""
    found = []
    for form in ("text", "json"):
        done = CliRunner().invoke(main, [*map(str, arguments), "--format", form],
                                  env={"COLUMNS": "300"})
        assert done.exit_code == 0, (arguments, done.output)
        found.append(done.stdout)
    return found[0], json.loads(found[1])


def add_up(parts, total):
    """Shares that were each rounded up."""
    assert total <= sum(parts) * (1 + 1e-12) + 1e-300
    assert sum(parts) <= total * (1 + 1e-9) + 1e-300


def reading(ledger):
    """The view, after its own law: parts are whole numbers that add up to the whole."""
    store, state = ledger._history.store, ledger.state
    view = view_of(state, store.read())
    for aspect in ASPECTS:
        parts = [part.amount for part in view.by(aspect).values()]
        assert sum(part.units for part in parts) == state.units == view.total.units
        assert sum(part.delta_units for part in parts) == state.delta_units
    assert sum(one.amount.units for one in view.charges) == state.units
    assert all(one.amount.units >= 0 and one.amount.delta_units >= 0 for one in view.charges)
    if state.rule is not None:
        own = Fraction(view.total.own.value)
        assert down(float(own)) <= Fraction(state.units, UNIT) <= own
        if view.filter == "basic":
            assert Fraction(view.spent_delta.value) >= Fraction(state.delta_units, DELTA_UNIT)
    return store, state, view


def python_api(ledger, state, view):
    assert ledger.spent == view.spent.value == ledger.receipt.as_dict()["epsilon"]
    assert ledger.left == view.left.value
    for words in (repr(ledger), ledger._repr_html_()):
        assert f"epsilon {view.spent.text()} " in words
    assert f"left</th><td>epsilon {view.left.text()}<" in ledger._repr_html_()
    assert dict(spend_properties(ledger))["privledger_epsilon"] == view.spent.text()
    assert burn_down_points(ledger)[-1][1] == view.left.value
    assert ledger.verify() == []
    if state.rule is not None and view.relation != "replace_label":  # whole records have a price
        price = price_plan(pl.Laplace(40.0) if view.filter == "basic" else pl.Gaussian(40.0),
                           0.0 if view.filter == "basic" else 1e-7, budget=ledger.budget,
                           state=state)
        assert (price.spent, price.left) == (view.spent.value, view.left.value)


def reports(ledger, store, state, view):
    entries, findings = audited(store)
    report = ledger_report(store, state, (entries, findings))
    assert report.trusted
    assert (report.spent, report.left, report.spent_delta) == (
        view.spent.value, view.left.value, view.spent_delta.value)
    assert [grant.epsilon for grant in report.grants] == [
        one.amount.epsilon.value for one in view.charges]
    assert report.tables == view.tables
    seen = survey(store)
    assert not seen.findings
    facts = seen.facts
    assert set(facts.data) == set(view.tables)
    assert set(facts.asserted) == set(view.asserted.words)
    assert facts.simulated is view.simulated and seen.live is view.live
    assert (facts.epsilon, facts.delta) == (view.spent.value, view.spent_delta.value)
    moved = past(view).moves
    assert not moved or moved[-1].share == view.total.share.value
    changed = {one.what: one.after for one in ledger_changes(
        pl.Ledger.create(None, budget=pl.Budget(1.0, 0.0)).state, state).facts}
    if view.total.units:
        assert (changed["spent epsilon"], changed["left"]) == (view.spent, view.left)
    pages(store, state, view, report, entries)


def pages(store, state, view, report, entries):
    made = page_of(store, state, report, entries)
    if made.content.history.moves:
        assert made.content.history.moves[-1].share == view.total.share.value
    assert made.head.gauges[0].number == view.spent.text(4)
    assert made.head.gauges[0].share == view.budgets[0].share.value
    add_up([row.keys[2] for row in made.content.rows], view.total.share.value)
    for level in range(1, 5):  # what is too narrow to see stands in one cell, drawn or not
        assert sum(cell.width for cell in made.content.icicle.cells
                   if cell.level == level and cell.shown) <= 100.01
    grants = grant_values(made.content)["grants"]
    for shown, row, one in zip(grants, made.content.rows, view.charges[::-1], strict=True):
        assert shown[2][1] >= one.amount.epsilon.value and row.name == one.name
        assert one.amount.epsilon.text(3) in shown[1] and one.amount.share.text() in shown[1]
    assert f"<dt>Spent</dt><dd>epsilon {view.spent.text(4)} at delta" in render_page(made)


def alone(store, view, place):
    """The verifier that shares no code with the ledger."""
    place.write_text("".join(json.dumps(
        {"position": entry.position, "kind": entry.event.kind, "body": body_of(entry),
         "previous": entry.previous, "hash": entry.hash}, sort_keys=True, separators=(",", ":"))
        + "\n" for entry in store.read()))
    book = ALONE.read_history(str(place))
    assert book.faults == []
    assert (book.units, book.delta_units) == (view.total.units, view.total.delta_units)
    said = float(ALONE.spent(book))
    assert said == pytest.approx(view.spent.value, rel=1e-9)


def records(ledger, view):
    """No record lost more than its table was charged; where nobody was counted, all of it."""
    for name, part in view.by("table").items():
        if name not in ("people", "others"):
            continue
        spend = ledger.record(0, name)
        whole = Fraction(part.amount.units, UNIT)
        assert spend.total <= part.amount.own.value * (1 + 1e-9)
        charged = [one for one in view.charges if one.table == name]
        if not any("IndividualFilter" in (one.mechanisms or ()) for one in charged):
            assert spend.total >= whole


@pytest.mark.parametrize("kind", FILTERS)
@pytest.mark.parametrize(("examples", "steps"), [
    (8, 14), pytest.param(300, 40, marks=pytest.mark.slow)])
def test_every_reader_says_the_same(kind, examples, steps):
    @settings(max_examples=examples, deadline=None, suppress_health_check=QUIET, phases=PHASES)
    @given(lives(kind, steps))
    def law(happening):
        holds(kind, happening)

    law()


SLOWEST = "diprime-forest-classifier"
LEARNERS = {entry.name: entry
            for entry in importlib.metadata.entry_points(group="privledger.learners")}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if name == SLOWEST else [])
    for name in sorted(LEARNERS)])
def test_every_reader_says_the_same_of_a_fit(name):
    kind = LEARNERS[name].load()
    small = {key: value for key, value in SMALL.items() if key in kind().get_params()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner = kind(**small)
        given, *_ = examples_for(learner)
        model = fresh(learner, schema=given.schema)
        ledger = ledger_for(model, 1.3)
        model.fit(protect_example(ledger, given))
    same(ledger)


def holds(kind, happening):
    ledger = Life(kind).run(happening)
    records(ledger, view_of(ledger.state))
    same(ledger)


def same(ledger):
    store, state, view = reading(ledger)
    python_api(ledger, state, view)
    reports(ledger, store, state, view)
    with tempfile.TemporaryDirectory() as folder:
        alone(store, view, Path(folder) / "history.jsonl")


@pytest.mark.parametrize("kind", FILTERS)
def test_every_command_says_the_same(kind):
    @settings(max_examples=2, deadline=None, suppress_health_check=QUIET, phases=PHASES)
    @given(lives(kind, 14))
    def law(happening):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "one.ledger"
            ledger = Life(kind, place).run(happening)
            _, _, view = reading(ledger)
            ledger._history.store.close()
            commands(place, Path(folder), view)

    law()


def commands(place, folder, view):
    text, found = command("show", place)
    assert (found["spent"], found["left"]) == (view.spent.value, view.left.value)
    assert found["spent_delta"] == view.spent_delta.value
    assert f"epsilon {view.spent.text(4)} of" in text
    left = f"epsilon {view.left.text(4)}"
    assert (f"up to {left}." in " ".join(text.split()) or f"except for {left}." in
            " ".join(text.split()) or (not view.left.value and "The budget is used up." in text))
    by_name = {one.name: one for one in view.charges}
    for grant in found["grants"]:
        assert grant["epsilon"] == by_name[grant["name"]].amount.epsilon.value
    tables = {table["name"]: table["epsilon"] for table in found["tables"]}
    text, found = command("top", place, "--most", 100)
    for aspect, ranks in found["top"].items():
        parts = view.by("table" if aspect == "data" else aspect)
        assert {rank["name"]: rank["epsilon"] for rank in ranks} == {
            name: part.amount.epsilon.value for name, part in parts.items()}
        add_up([rank["share"] for rank in ranks], view.total.share.value)
        for part in parts.values():
            assert part.amount.epsilon.text(4) in text
    assert tables == {rank["name"]: rank["epsilon"] for rank in found["top"]["data"]
                      if not rank["name"].startswith("(")}
    text, found = command("log", place)
    assert len(found["entries"]) == view.entries and "malformed" not in text
    for line in found["entries"]:
        if line["kind"] == "granted" and not by_name[line["grant"]].scope:
            assert f"epsilon {by_name[line['grant']].asked.epsilon.text(4)}," in line["text"] or (
                by_name[line["grant"]].corrections)
    (folder / "policy.toml").write_text("[policy]\nmax_epsilon = 100.0\nmax_delta = 0.1\n"
                                        "allow_asserted = true\n")
    if view.live:
        _, found = command("check", place, "--policy", folder / "policy.toml")
        numbers = json.dumps(found)
        assert str(view.spent.value) in numbers
    command("verify", place)
    command("diff", place, place)
    for name in ("people", "others"):
        if name in view.by("table"):
            part = view.by("table")[name]
            text, found = command("record", place, 0, "--data", name)
            assert found["total"] <= part.amount.own.value * (1 + 1e-9)
            printed = float(re.search(rf"{name}: {NUMBER} ", text)[1])
            assert printed >= found["total"] and not math.isnan(printed)
    command("export", place, "-o", folder / "h.csv", "--as", "csv", "--force")
