"""What `check` and `verify` gather beside the audit is what the slow report says."""

import sys

import attrs
import numpy as np
import pytest

import privledger as pl
from privledger.ledger import History, audit, folded
from privledger.ledger.codec import decode
from privledger.ledger.history import fold_rows
from privledger.ledger.view import comparison
from privledger.ledger.view_charges import fullness
from privledger.reports import ledger_report, receipt_is_in_history, survey
from privledger.storage import MemoryStore, store_at
from tests.bodies import body_of
from tests.worlds import protected, refused

SCHEMA = pl.Schema.from_dict({
    "name": "t", "expected_rows": 20, "expected_rows_provenance": "public", "columns": [
        {"name": "x", "kind": "numeric", "lower": 0, "upper": 1}]})
X = {"x": np.linspace(0, 1, 20)}


def fail(ledger, data):
    """A learner that breaks after it has touched data."""
    noise = pl.Gaussian(5.0)
    with ledger.request(noise, data, learner="bad") as session:
        session.release(noise, data.count())
        raise ZeroDivisionError


def hand_back(ledger, data):
    """A learner that breaks before it has touched data."""
    with ledger.request(pl.Gaussian(4.0), data, learner="handed back"):
        raise ZeroDivisionError


def ledger_with_everything(path):
    """Grants of every fate, a scope, an asserted query, a correction, two tables."""
    ledger, first = protected(pl.Budget(50.0, 1e-6), X, SCHEMA, place=path, filter="gdp",
                              relation="add_remove", name="one")
    second = ledger.protect(X, SCHEMA, name="two")
    noise = pl.Gaussian(5.0)
    for number in range(4):
        with ledger.request(noise, first, learner=f"count{number % 2}") as session:
            session.release(noise, first.count())
    ledger.request(noise, second, learner="nothing released").close()
    refused(ZeroDivisionError, lambda: hand_back(ledger, second))
    ledger.open_window("2027")
    refused(ZeroDivisionError, lambda: fail(ledger, second))
    cap = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(pl.Gaussian(20.0), 3))
    with ledger.request(cap, first, learner="sums") as session:
        handle = session.filtered(cap)
        session.release(pl.Gaussian(20.0), handle.sum("x"))
    asserted = pl.Asserted(1e-3, "somebody says so")
    ledger.request(asserted, second, learner="vouched").close()
    with ledger.request(noise, first, learner="custom") as session:
        session.release(noise, first.custom(lambda columns: columns["x"], 1.0, "so they say"))
    left = ledger.request(noise, first, learner="open")
    return ledger, left


def slow(store):
    """As it was computed before: from a report of everything parsed."""
    entries = store.read()
    report = ledger_report(store, folded(entries), (entries, ()))
    granted = [grant for grant in report.grants if grant.status != "scope"]
    asserted = [f"{line.mechanism}: {line.question}" for grant in report.grants
                for line in grant.lines if line.asserted]
    asserted += [f"{kind} in the plan of {grant.name}" for grant in report.grants
                 for kind in grant.mechanisms if kind.startswith("Asserted")]
    unverified = {(", ".join([*(kind for kind in grant.mechanisms if kind.startswith("Asserted")),
                              *(["an asserted answer"] if any(line.vouched for line in grant.lines)
                                else [])]), grant.name, grant.learner, grant.data, grant.isolation)
                  for grant in report.grants}
    return report, {
        "unverified": {one for one in unverified if one[0]},
        "epsilon": report.spent, "delta": report.spent_delta, "budget_delta": report.delta,
        "refusal": "", "asked": None, "before": 0.0,
        "relation": report.relation, "learners": {grant.learner for grant in granted},
        "mechanisms": {name for grant in report.grants for name in grant.mechanisms},
        "asserted": set(asserted), "isolation": {grant.isolation for grant in granted},
        "simulated": not report.private, "windows": report.windows, "policy": report.policy,
        "trusts": tuple(said for one in report.view.federated for said in one.trusts),
        "alone": 0.0, "outside": (),
        "noise": set(report.noise), "data": set(report.tables), "receipt": report.receipt,
        "unit": store.read()[0].event.unit, "full": fullness(folded(entries)),
        "sealed": None}


def quick(store):
    seen = survey(store)
    found = attrs.asdict(seen, recurse=False) | attrs.asdict(seen.facts, recurse=False)
    found["unverified"] = [(one.claim, one.name, one.learner, one.table, one.isolation)
                           for one in found["unverified"]]
    sets = ("learners", "mechanisms", "asserted", "isolation", "noise", "data", "unverified")
    return {name: set(value) if name in sets else value for name, value in found.items()
            if name not in ("findings", "past", "live", "facts", "answers", "vouched")}


@pytest.mark.parametrize("corrected", [None, "settled", "open", "vouched", "void"])
def test_one_pass_says_what_the_report_says(tmp_path, corrected):
    ledger, left = ledger_with_everything(tmp_path / "all.ledger")
    names = {body_of(grant)["learner"]: grant.grant for grant in ledger.state.grants.values()}
    if corrected == "settled":
        ledger.correct(names["count0"], pl.Gaussian(3.0), "why")
    elif corrected == "open":
        ledger.correct(names["open"], pl.Laplace(50.0, 1.0), "why")
    elif corrected == "vouched":
        ledger.correct(names["vouched"], pl.Gaussian(3.0), "why")
    elif corrected == "void":
        ledger.correct(names["bad"], None, "nothing holds")
    store = ledger._history.store
    if corrected == "void":  # over budget: not trusted, and still summed up
        assert not survey(store).trusted and survey(store).receipt is None
        return
    assert audit(store) == []
    report, expected = slow(store)
    assert quick(store) == expected
    said, told = survey(store).verdict((), comparison()), report.verdict
    assert said.text == told.text
    assert (said.vouched.grants, set(said.vouched.words)) == (
        told.vouched.grants, set(told.vouched.words))
    assert (said.answers, said.vouched.answers) == (told.answers, told.vouched.answers) == (7, 1)
    assert survey(store).live
    left.close()


def test_a_simulation_is_not_private_in_one_pass():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), mode="simulation")
    assert survey(ledger._history.store).facts.simulated
    assert not survey(ledger._history.store).live


def test_what_was_only_handed_back_is_nothing_to_check():
    ledger, data = protected(pl.Budget(9.0, 1e-6), X, SCHEMA, filter="gdp", name="one")
    refused(ZeroDivisionError, lambda: hand_back(ledger, data))
    assert not survey(ledger._history.store).live
    assert survey(ledger._history.store).facts.data == ()
    ledger.request(pl.Gaussian(9.0), data).close()
    assert survey(ledger._history.store).live


def test_receipts_of_every_moment_are_in_the_past(tmp_path):
    ledger, _ = ledger_with_everything(tmp_path / "all.ledger")
    store = ledger._history.store
    entries, moves = store.read(), 0
    for entry in entries:
        moves += entry.event.kind in ("scope", "granted", "corrected") or (
            entry.event.kind == "aborted" and body_of(entry)["touched"] is False)
        receipt = {"uuid": ledger.receipt.uuid, "entries": entry.position + 1,
                   "head": entry.hash, "counter": moves}
        past = survey(store, receipt["entries"], entry.hash).past
        assert not list(past.receipt_is_there(receipt)) and not list(past.head_is_there())
        assert not list(receipt_is_in_history(entries, receipt))
        wrong = receipt | {"counter": moves + 1}
        assert list(past.receipt_is_there(wrong)) and list(receipt_is_in_history(entries, wrong))
    assert list(survey(store, 0, "0" * 64).past.head_is_there())
    late = {"uuid": ledger.receipt.uuid, "entries": 999, "head": "0" * 64}
    assert list(survey(store, 999).past.receipt_is_there(late))


@pytest.mark.parametrize("compact", [True, False])
def test_rows_fold_to_what_entries_fold_to(tmp_path, compact):
    ledger, _ = ledger_with_everything(tmp_path / "all.ledger")
    store = ledger._history.store
    slow_state = folded(store.read())
    state = fold_rows(store.rows(), compact=compact)
    assert state is not None and state.units == slow_state.units
    assert (state.head, state.charges, state.windows) == (
        slow_state.head, slow_state.charges, slow_state.windows)
    if not compact:
        assert state == slow_state


@pytest.mark.parametrize("doctor", [
    lambda row: (row[0], row[1], row[2].replace("count1", "count9"), *row[3:]),
    lambda row: (row[0] + 1, *row[1:]),
    lambda row: (row[0], row[1], row[2], "0" * 64, row[4]),
    lambda row: (row[0], "window", *row[2:]),
    lambda row: (row[0], row[1], None, *row[3:])])
def test_doctored_rows_do_not_fold(tmp_path, doctor):
    ledger, _ = ledger_with_everything(tmp_path / "all.ledger")
    rows = list(ledger._history.store.rows())
    place = next(i for i, row in enumerate(rows) if "count1" in row[2] and row[1] == "granted")
    rows[place] = doctor(rows[place])
    assert fold_rows(rows, compact=True) is None


def test_opening_without_a_checkpoint_names_the_fault(tmp_path):
    ledger, _ = ledger_with_everything(tmp_path / "all.ledger")
    store = MemoryStore()
    store._entries = ledger._history.store.read()
    edited = decode(store._entries[3].event.kind, {"edited": True})
    store._entries[3] = attrs.evolve(store._entries[3], event=edited, text="")
    refused(pl.errors.LedgerCorrupt, lambda: History(store).refresh(), match="entry 3 was edited")
    again = store_at(tmp_path / "all.ledger", read_only=True)
    assert History(again, writable=False).refresh().position == ledger.receipt.entries - 1


def test_what_cannot_be_summed_up_is_not_trusted(monkeypatch, tmp_path):

    ledger, _ = ledger_with_everything(tmp_path / "all.ledger")
    watch = sys.modules["privledger.reports.survey"]._Watch  # the name is a function's, too
    monkeypatch.setattr(watch, "on_released", lambda self, line, state: 1 / 0)
    found = survey(ledger._history.store)
    assert [finding.rule for finding in found.findings] == ["can-be-summed-up"]
    assert found.receipt is None and audit(ledger._history.store) == []
