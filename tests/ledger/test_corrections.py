"""Corrections: appended, priced, never in favour of the one who spent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from tests.bodies import said

SMALL = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))


def started(location=None, plan=None, **options):
    """A ledger with one settled grant."""
    ledger = pl.Ledger.create(location, budget=pl.Budget(1.0, 1e-6), **options)
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL)
    node = plan or pl.Gaussian(20.0)
    with ledger.request(node, data, learner="study") as session:
        if isinstance(node, pl.Gaussian):
            session.release(node, data.count())
    return ledger, data, next(iter(ledger.state.grants))


@pytest.mark.parametrize(("options", "plan", "true"), [
    ({"filter": "gdp"}, pl.Gaussian(20.0), pl.Gaussian(10.0)),
    ({"filter": "zcdp"}, pl.Gaussian(20.0), pl.Gaussian(10.0)),
    ({"filter": "rdp"}, pl.Gaussian(20.0), pl.Gaussian(10.0)),
    ({"filter": "basic"}, pl.Laplace(20.0), pl.Laplace(5.0)),
])
def test_a_correction_charges_the_true_price(options, plan, true):
    ledger, data, grant = started(plan=plan, **options)
    before = ledger.spent
    after = ledger.correct(grant, true, "the values were not clipped")
    fresh, _, _ = started(plan=true, **options)
    assert after == ledger.spent == pytest.approx(fresh.spent, rel=1e-9)
    assert after > before
    assert ledger.verify() == []
    assert ledger.graph() == pl.Sequential([true])
    ledger.request(plan, data).close()  # what is left can still be used


def test_a_smaller_price_gives_nothing_back():
    ledger, _, grant = started()
    before = ledger.state.units
    ledger.correct(grant, pl.Gaussian(200.0), "it was less than we thought")
    assert ledger.state.units == before and ledger.verify() == []


def test_an_overspent_budget_refuses_everything_and_says_why():
    ledger, data, grant = started()
    assert ledger.correct(grant, pl.Gaussian(0.5), "sensitivity was forty times larger") > 1.0
    for _ in range(2):
        with pytest.raises(pl.BudgetExceeded, match="forty times larger") as refusal:
            ledger.request(pl.Gaussian(1000.0), data)
        assert refusal.value.left == 0
    assert [finding.rule for finding in ledger.verify()] == ["never-over-the-cap"]


def test_a_voided_grant_breaks_the_promise():
    ledger, data, grant = started()
    ledger.correct(grant, None, "the noise was seeded")
    assert ledger.state.broken
    with pytest.raises(pl.BudgetExceeded, match="seeded"):
        ledger.request(pl.Gaussian(1000.0), data)
    assert "never-over-the-cap" in {finding.rule for finding in ledger.verify()}


def test_corrections_add_up_and_survive_reopening(tmp_path):
    path = tmp_path / "ledger.db"
    ledger, _, grant = started(path)
    ledger.correct(grant, pl.Gaussian(15.0), "first look")
    second = ledger.correct(grant, pl.Gaussian(10.0), "second look")
    ledger.close()
    with pl.Ledger.open(path) as again:
        assert again.spent == second
        assert [event.why for event in again.state.grants[grant].corrected] == [
            "first look", "second look"]
        assert again.verify() == []


@pytest.mark.parametrize(("grant", "plan", "why", "error"), [
    ("nobody", pl.Gaussian(1.0), "why", pl.NotGranted),
    (None, pl.Gaussian(1.0), " ", pl.InvalidValue),
    (None, pl.AssertedZCDP(1.0, "x"), "why", pl.errors.UnsupportedNode),
    (None, "a plan", "why", pl.errors.InvalidMechanism),
])
def test_impossible_corrections_change_nothing(grant, plan, why, error):
    ledger, _, name = started(filter="gdp")
    before = ledger.receipt
    with pytest.raises(error):
        ledger.correct(grant or name, plan, why)
    assert ledger.receipt == before


def test_an_edited_correction_is_found(tmp_path):
    """Charged less than the corrected plan costs: the audit prices it again."""
    from privledger.ledger.history import History
    from privledger.storage import SQLiteStore

    path = tmp_path / "ledger.db"
    ledger, _, grant = started(path)
    ledger.close()
    body = {"grant": grant, "time": "", "why": "cheap", "plan": pl.nodes.to_json(pl.Gaussian(1.0)),
            "units": 1, "delta_units": 0}
    History(SQLiteStore(path)).commit(lambda state: said(("corrected", body)))
    with pl.Ledger.open(path) as again:
        assert "prices-are-right" in {finding.rule for finding in again.verify()}


def test_the_command(tmp_path):
    path = tmp_path / "ledger.db"
    ledger, _, grant = started(path)
    ledger.close()
    node = tmp_path / "node.json"
    node.write_text(json.dumps(pl.nodes.to_json(pl.Gaussian(10.0))))
    runner = CliRunner()
    fine = runner.invoke(main, ["correct", str(path), grant, "--plan", str(node), "--why", "it"])
    assert fine.exit_code == 0 and "within the budget" in fine.stdout
    assert "corrected: it" in runner.invoke(main, ["show", str(path)]).stdout
    broken = runner.invoke(main, ["correct", str(path), grant, "--void", "--why", "it", "--format",
                                  "json"])
    assert broken.exit_code == 1 and json.loads(broken.stdout)["overspent"] is True
    assert runner.invoke(main, ["correct", str(path), grant, "--why", "it"]).exit_code == 2
    assert runner.invoke(main, ["verify", str(path)]).exit_code == 3


def test_a_history_without_its_filter_entry_is_not_clean(tmp_path):
    """A forger who cuts the filter entry out and hashes the rest again."""
    from privledger.ledger import audit
    from privledger.ledger.entries import GENESIS, make_entry
    from privledger.storage import MemoryStore

    ledger, _, _ = started()
    forged, head = MemoryStore(), GENESIS
    with forged.transaction() as transaction:
        kept = [entry for entry in ledger._history.store.read() if entry.event.kind != "filter"]
        for position, entry in enumerate(kept):
            new = make_entry(position, entry.event, head)
            head = new.hash
            transaction.append(new)
    assert audit(forged)


def test_a_record_pays_for_what_was_corrected():
    """`record` showed the first charge, below what the ledger had charged."""
    schema = pl.Schema("s", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = ledger.protect({"x": [0.1, 0.5, 0.9]}, None, schema, name="people")
    plain, node = pl.Gaussian(40.0), pl.IndividualFilter("gdp", 0.01)
    with ledger.request(plain, data) as session:
        session.release(plain, data.count())
    with ledger.request(node, data) as behind:
        behind.release(pl.Gaussian(60.0), behind.filtered(node).count())
    for name in (session.grant, behind.grant):
        ledger.correct(name, pl.Gaussian(8.0), "the clip was wrong")
    found = ledger.record(1)
    assert found.total == pytest.approx(2 / 64)
    assert {line.basis for line in found.lines} == {"whole plan, as corrected"}


def test_a_grant_that_was_handed_back_and_corrected_counts_for_its_table():
    from privledger.ledger.view import view_of

    schema = pl.Schema("s", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data = ledger.protect({"x": [0.1, 0.5]}, None, schema, name="people")
    session = ledger.request(pl.Gaussian(40.0), data)
    ledger.correct(session.grant, pl.Gaussian(8.0), "the clip was wrong")
    session.close(failed=KeyError)
    state = ledger.state
    (found,) = view_of(state).tables
    assert found.epsilon == pytest.approx(ledger.spent)
    assert ledger.record(0).total == pytest.approx(1 / 64 - 1 / 1600)
    assert state.grants[session.grant].counted[0] == state.units
