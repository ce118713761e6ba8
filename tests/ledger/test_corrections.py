"""Corrections: appended, priced, never in favour of the one who spent."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.cli.export import entry_line
from privledger.guard.recalled import Recall
from privledger.ledger import audit, checkpoint
from privledger.ledger.events import Corrected
from privledger.reports.spend import highest_people, highest_records
from privledger.rounding import from_units
from tests.alone import verify_history
from tests.bodies import lines_of, said, stored
from tests.worlds import refused, schema_of

SMALL = schema_of("one", {"x": (0.0, 1.0)})


def started(location=None, plan=None, **options):
    """A ledger with one settled grant."""
    ledger = pl.Ledger.create(location, budget=pl.Budget(1.0, 1e-6), **options)
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL)
    node = plan or pl.Gaussian(20.0)
    with ledger.request(node, data, learner="study") as session:
        if isinstance(node, pl.Gaussian | pl.Laplace):
            session.release(node, data.count())
    return ledger, data, next(iter(ledger.state.grants))


@pytest.mark.parametrize(("options", "plan", "true"), [
    ({"filter": "gdp"}, pl.Gaussian(20.0), pl.Gaussian(10.0)),
    ({"filter": "zcdp"}, pl.Gaussian(20.0), pl.Gaussian(10.0)),
    ({"filter": "rdp"}, pl.Gaussian(20.0), pl.Gaussian(10.0)),
    ({"filter": "basic"}, pl.Laplace(20.0), pl.Laplace(5.0))])
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


@pytest.mark.parametrize("filter", ["gdp", "zcdp", "rdp", "basic"])
@pytest.mark.parametrize("times", [0.5, 1, 3])
def test_a_correction_adds_what_is_missing_of_both_and_no_more(filter, times):
    """Of the price and of the delta, whether that adds up by itself or beside a filter."""
    def asserted(times):
        return pl.Asserted(times * 0.01, "so it was said", times * 1e-8)

    def charged(plan):
        ledger = pl.Ledger.create(None, filter=filter, budget=pl.Budget(
            1.0, 1e-6, failure=0.0 if filter == "basic" else 5e-7))
        data = ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL)
        ledger.request(plan, data).close()
        return ledger, ledger.state.units, ledger.state.delta_units

    ledger, units, delta = charged(asserted(1))
    _, most, most_delta = charged(asserted(max(1, times)))
    assert delta > 0
    for _ in range(2):  # what was corrected already is not added again
        ledger.correct(next(iter(ledger.state.grants)), asserted(times), "it said so")
        assert (ledger.state.units, ledger.state.delta_units) == (most, most_delta)
    assert (most > units) is (times > 1)
    assert (most_delta > delta) is (times > 1 and filter != "basic")  # there it is stated
    assert ledger.verify() == []


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
    refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(1000.0), data), match="seeded")
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
    (None, "a plan", "why", pl.errors.InvalidMechanism)])
def test_impossible_corrections_change_nothing(grant, plan, why, error):
    ledger, _, name = started(filter="gdp")
    before = ledger.receipt
    refused(error, lambda: ledger.correct(grant or name, plan, why))
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

    ledger, _, _ = started()
    assert audit(stored(*(line for line in lines_of(ledger) if line[0] != "filter")))


def test_a_record_pays_for_what_was_corrected():
    """`record` showed the first charge, below what the ledger had charged."""
    schema = schema_of("s", {"x": (0.0, 1.0)})
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

    schema = schema_of("s", {"x": (0.0, 1.0)})
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


def under_a_scope(path=None, filter="gdp", **options):
    """A ledger with a scope `s`, two grants that drew on it, and the table; the row is `custom`."""
    ledger = pl.Ledger.create(path, budget=pl.Budget(20.0, 1e-6), filter=filter, **options)
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL, name="one")
    paid, node = pl.IndividualFilter("gdp", 0.01), pl.Gaussian(40.0)
    scope = ledger.open_scope(paid, name="s", delta=1e-7 if filter == "basic" else 0.0)
    for _ in range(2):
        with ledger.request(pl.IndividualFilter("gdp", 0.01, node=node), data, scope=scope,
                            learner="x") as session:
            looks = session.filtered().custom(lambda rows: rows["x"], 1.0, "rows alone")
            session.release(node, looks)
    return ledger, data, scope


def second_verifier(place):
    """Faults by the verifier that shares no code."""
    return verify_history.read_history(str(place / "l")).faults


@pytest.mark.parametrize("filter", ["gdp", "zcdp", "basic"])
@pytest.mark.parametrize("by", ["scope", "grant"])
def test_a_correction_of_a_scope_raises_its_price_and_all_records(tmp_path, filter, by):
    """It was refused: what an asserted question under a scope cost could not be put right."""
    ledger, data, scope = under_a_scope(tmp_path / "l", filter)
    grant = next(iter(ledger.state.grants))
    before = [ledger.record(row, "one").total for row in range(5)]
    spent, left = ledger.state.units, ledger.spent
    plan = pl.Laplace(5.0) if filter == "basic" else pl.Gaussian(10.0)
    after = ledger.correct("s" if by == "scope" else grant, plan, "it looked at other rows")
    extra = ledger.state.units - spent
    alone = pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-6), filter=filter)
    table = alone.protect({"x": np.linspace(0, 1, 5)}, SMALL, name="one")
    alone.request(plan, table).close()
    assert extra == alone.state.units > 0 and after == ledger.spent > left
    for row in range(5):
        found = ledger.record(row, "one")
        assert found.total >= before[row] + from_units(extra)
        assert found.total <= from_units(ledger.state.units) * (1 + 1e-9)
        assert "by a correction" in found.lines[-1].basis
        assert {line.data for line in found.lines} == {"one"}
    assert ledger.verify() == []
    ledger.request(pl.IndividualFilter("gdp", 0.01, node=pl.Gaussian(40.0)), data, scope=scope,
                   learner="x").close()  # the filter goes on counting: its cap is still paid for
    assert ledger.verify() == []
    ledger.close()
    assert second_verifier(tmp_path) == []
    run = CliRunner()
    shown = " ".join(run.invoke(main, ["show", str(tmp_path / "l")]).output.split())
    assert "corrected: " in shown and "it looked at other rows" in shown
    log = " ".join(run.invoke(main, ["log", str(tmp_path / "l")]).output.split())
    assert "adds epsilon" in log and "it looked at other rows" in log
    with pl.Ledger.open(tmp_path / "l") as again:
        assert again.spent == after
        assert again.graph().nodes[0].nodes[-1] == plan


def test_a_scope_of_which_nothing_is_promised_breaks_the_ledger(tmp_path):
    ledger, data, _ = under_a_scope(tmp_path / "l")
    ledger.correct(next(iter(ledger.state.grants)), None, "it kept the rows")
    with pytest.raises(pl.BudgetExceeded, match="it kept the rows"):
        ledger.request(pl.Gaussian(1000.0), data)
    assert {one.rule for one in ledger.verify()} == {"never-over-the-cap"}
    ledger.close()
    faults = second_verifier(tmp_path)
    assert any("nothing is promised any more" in text for _, text in faults)


def test_a_correction_of_a_scope_counts_under_caps_and_in_checkpoints(tmp_path):
    cap = pl.Cap(pl.Budget(1.0, 1e-6), data="one")
    ledger, _, _ = under_a_scope(tmp_path / "l", caps=[cap])
    ledger.correct("s", pl.Gaussian(20.0), "first")
    assert ledger.verify() == []
    kept = ledger.state.cap_spent
    ledger.correct("s", pl.Gaussian(1.0), "second")
    assert ledger.state.cap_spent > kept
    assert {one.rule for one in ledger.verify()} == {"never-over-the-cap"}
    ledger.close()
    assert any("over the cap for data one" in text for _, text in second_verifier(tmp_path))
    state = ledger.state
    point = checkpoint.take_checkpoint(
        state, checkpoint.NamesDigest().bring(state.closed, len(state.closed)))
    again, _ = checkpoint.restore_state(point, checkpoint.names_text(state.closed))
    assert again.scopes == state.scopes and again.scopes["s"].charged == state.scopes["s"].charged


@pytest.mark.parametrize("change", [
    lambda body: body | {"units": body["units"] - body["units"] // 100},
    lambda body: body | {"units": 0}, lambda body: body | {"grant": "t"},
    lambda body: body | {"grant": "S"}], ids=["less", "nothing", "another", "capital"])
def test_both_verifiers_price_a_correction_of_a_scope(tmp_path, change):
    ledger, _, _ = under_a_scope(tmp_path / "l")
    ledger.correct("s", pl.Gaussian(10.0), "it looked at other rows")
    store = stored(*((kind, change(body) if kind == "corrected" else body)
                     for kind, body in lines_of(ledger)))
    assert all(by_both(store))


def test_people_in_all_tables_of_a_corrected_scope_lost_more():
    key = b"k" * 32
    ledger = pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-6), filter="gdp", unit="person",
                              people_key=key)
    data = ledger.protect({"x": np.linspace(0, 1, 5)}, schema=SMALL, name="a",
                          people=list(range(5)))
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="s")
    with ledger.request(pl.IndividualFilter("gdp", 0.01, node=pl.Gaussian(40.0)), data,
                        scope=scope) as session:
        session.release(pl.Gaussian(40.0), session.filtered().sum("x"))
    before, spent = ledger.record(person=3), ledger.state.units
    ledger.correct("s", pl.Gaussian(10.0), "it looked at other rows")
    extra = from_units(ledger.state.units - spent)
    after = ledger.record(person=3)
    assert after.total >= before.total + extra and before.epsilon < after.epsilon <= after.bound
    assert after.epsilon <= ledger.spent and ledger.verify() == []
    most = highest_people(ledger._history.store, ledger._history.full(), 9)
    assert len(most) == 5 and all(extra < one.spent <= one.cap * (1 + 1e-9) for one in most)


def test_a_kept_answer_of_a_corrected_scope_is_not_given_out_again():
    recall = Recall(started()[0]._history)
    recall._scopes = {"g1": "s"}
    recall._take(Corrected("s", None, 1, 0, "why"))
    recall._take(Corrected("g2", None, 1, 0, "why"))
    assert [recall._stands(grant) for grant in ("g1", "g2", "g3")] == [False, False, True]


def test_the_dearest_record_is_told_with_what_record_says_of_it():
    """`top --records` left out what whole plans took from every record."""
    ledger, data, _ = under_a_scope()
    ledger.request(pl.Gaussian(20.0), data, learner="whole").close()
    ledger.correct("s", pl.Gaussian(15.0), "it looked at other rows")
    ranks = highest_records(ledger._history.store, ledger._history.full(), 5)
    assert len(ranks) == 5
    for one in ranks:
        found = ledger.record(one.row, "one")
        assert one.spent == pytest.approx(found.total, rel=1e-12) and one.spent <= one.cap


def ended(ledger, data, how):
    """The name of a grant that ended so."""
    session = ledger.request(pl.Gaussian(20.0), data)
    if how != "nothing was read":
        session.release(pl.Gaussian(20.0), data.count())
    if how == "open":
        return session.grant
    session.close(failed=KeyError if how == "failed" else None)
    return session.grant


@pytest.mark.parametrize("how", ["settled", "nothing was read", "failed", "open"])
def test_both_verifiers_accept_a_correction_of_whatever_was_charged(how):
    ledger, data, _ = started()
    ledger.correct(ended(ledger, data, how), pl.Gaussian(15.0), "why")
    assert by_both(ledger._history.store) == ([], [])
    lines = lines_of(ledger)
    if how == "failed":  # as where an interrupt came after the release and before any row
        lines[-2] = "aborted", lines[-2][1] | {"touched": False}
        assert by_both(stored(*lines)) == ([], [])


def test_both_verifiers_refuse_a_correction_of_what_was_handed_back():
    ledger, data, grant = started()
    with pytest.raises(KeyError), ledger.request(pl.Gaussian(20.0), data) as session:
        raise KeyError
    with pytest.raises(pl.InvalidValue, match="handed back"):
        ledger.correct(session.grant, pl.Gaussian(15.0), "why")
    ledger.correct(grant, pl.Gaussian(15.0), "why")
    lines = lines_of(ledger)
    assert lines[-1][0] == "corrected" and by_both(stored(*lines)) == ([], [])
    lines[-1][1]["grant"] = session.grant
    assert all(by_both(stored(*lines)))


def by_both(store):
    """What each verifier finds."""
    book = verify_history.Book()
    for entry in store.read():
        book.take(entry_line(entry).encode("ascii"))
    return audit(store), book.faults
