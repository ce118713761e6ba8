"""Answers that were paid for come again for nothing, and only what is certainly the same."""

import json
import math
import os
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.guard import recalled
from privledger.guard.service import Request
from privledger.ledger.entries import make_entry
from privledger.ledger.events import Answer
from privledger.ledger.settle import Settlement
from tests.all_cases import all_cases
from tests.worlds import refused, schema_of

KEY = b"a key of sixteen"
G = pl.Gaussian(20.0)
SCHEMA = schema_of("t", {"x": (0, 1), "c": ["a", "b"]})
WIDER = schema_of("t", {"x": (0, 2), "c": ["a", "b"]})


def table(n=40):
    return {"x": np.arange(n) / n, "c": np.array(["a", "b"] * (n // 2))}


def made(path=None, **options):
    return pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), filter="gdp", **options)


def ask(ledger, query, mechanism=G, **options):
    return ledger.answer(mechanism, query, keep=True, **options)


QUESTIONS = {
    "count": lambda data: data.count(),
    "histogram": lambda data: data.histogram("c"),
    "edges": lambda data: data.histogram("x", (0.25, 0.5)),
    "sum": lambda data: data.sum("x"),
    "row sum": lambda data: data.row_sum(["x"])}


@pytest.mark.parametrize("name", QUESTIONS)
def test_the_same_question_is_answered_bit_for_bit_and_for_nothing(name):
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        first = ask(ledger, QUESTIONS[name](data))
        spent, opened, receipt = ledger.spent, data._vault.opened, ledger.receipt
        again = ask(ledger, QUESTIONS[name](data))
        assert (first.recalled, again.recalled) == (False, True) and again.grant == first.grant
        assert np.asarray(again.value).tobytes() == np.asarray(first.value).tobytes()
        assert np.shape(again.value) == np.shape(first.value)
        assert (ledger.spent, data._vault.opened, ledger.receipt) == (spent, opened, receipt)
        again.value[...] = 0  # the caller's own
        assert np.array_equal(ask(ledger, QUESTIONS[name](data)).value, first.value)
        assert ledger.verify() == []


def test_an_exhausted_ledger_still_gives_out_what_it_has():
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        first = ask(ledger, data.count())
        refused(pl.BudgetExceeded, lambda: ledger.answer(pl.Gaussian(1.0), data.count()))
        with pytest.raises(pl.BudgetExceeded):
            [ledger.answer(G, data.count()) for _ in range(10**4)]
        assert ask(ledger, data.count()).value == first.value
        assert ask(ledger, data.count(), learner="anybody").recalled
        for wrong in (math.nan, -1e-9, 1.0, True, "0"):
            refused(pl.InvalidValue, lambda d=wrong: ask(ledger, data.count(), delta=d))


DIFFERENT = {
    "other noise": lambda ledger, data: ask(ledger, data.count(), pl.Gaussian(21.0)),
    "less noise": lambda ledger, data: ask(ledger, data.count(), pl.Gaussian(19.0)),
    "other column": lambda ledger, data: ask(ledger, data.histogram("c")),
    "other clip": lambda ledger, data: ask(ledger, data.sum("x", upper=0.5)),
    "a select": lambda ledger, data: ask(ledger, data.select(["x"]).count()),
    "late rows": lambda ledger, data: ask(ledger, ledger.append(data, table(2)).count()),
    "again protected": lambda ledger, data: ask(ledger, ledger.protect(
        table(), SCHEMA, name="t").count()),
    "another table": lambda ledger, data: ask(ledger, ledger.protect(
        table(), SCHEMA, name="u", fingerprint_key=KEY).count()),
    "not kept": lambda ledger, data: ledger.answer(G, data.count())}


@all_cases("case", DIFFERENT)
def test_anything_else_is_paid_for(case):
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
        ask(ledger, data.count())
        spent = ledger.spent
        assert not DIFFERENT[case](ledger, data).recalled
        assert ledger.spent > spent and ledger.verify() == []


def test_an_old_handle_keeps_its_answers_and_the_longer_one_has_its_own():
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        old = ask(ledger, data.count())
        longer = ledger.append(data, table(2))
        new = ask(ledger, longer.count())
        assert not new.recalled
        assert ask(ledger, longer.count()).value == new.value
        assert ask(ledger, data.count()).value == old.value


OTHERS = {
    "another row": (lambda: {**table(), "x": np.r_[0.5, table()["x"][1:]]}, SCHEMA, KEY),
    "another order": (lambda: {name: column[::-1] for name, column in table().items()}, SCHEMA,
                      KEY),
    "a row less": (lambda: {name: column[1:] for name, column in table().items()}, SCHEMA, KEY),
    "other bounds": (table, WIDER, KEY),
    "another key": (table, SCHEMA, KEY[::-1]),
    "no key": (table, SCHEMA, None)}


@pytest.mark.parametrize("case", OTHERS)
def test_after_reopening_only_marked_rows_are_known_again(case, tmp_path):
    path = tmp_path / "one.ledger"
    with made(path) as ledger:
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
        first = ask(ledger, data.histogram("c"))
    rows, schema, key = OTHERS[case]
    with pl.Ledger.open(path) as ledger:
        data = ledger.protect(rows(), schema, name="t", fingerprint_key=key)
        assert not ask(ledger, data.histogram("c")).recalled
        assert ledger.verify() == []
    with pl.Ledger.open(path) as ledger:
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
        again = ask(ledger, data.histogram("c"))
        assert again.recalled and again.value.tobytes() == first.value.tobytes()


def test_nothing_is_kept_in_a_simulation():
    with made(mode="simulation", seed=1) as ledger:
        data = ledger.protect(table(), SCHEMA)
        assert not any(ask(ledger, data.count()).recalled for _ in range(3))
        assert all(grant.end.answer is None for grant in ledger.state.grants.values())


def test_what_somebody_vouches_for_or_a_choice_is_paid_for_each_time():
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        for mechanism, query in ((G, data.custom(lambda rows: rows["x"], 1.0, "mine")),
                                 (pl.Exponential(0.05), data.quantile("x"))):
            assert not any(ask(ledger, query, mechanism).recalled for _ in range(2))


def test_parts_samples_and_strangers_are_refused_before_anything_is_charged():
    with made() as ledger, made() as other:
        data = ledger.protect(table(), SCHEMA)
        strange = other.protect(table(), SCHEMA)
        parts = data.partition(data.cells("c"))
        for query in (data.poisson(0.5).count(), parts[0].count(), strange.count(), None, data):
            with pytest.raises(pl.PrivledgerError, match="must be"):
                ask(ledger, query)
        refused(pl.errors.InvalidValue, lambda: ledger.answer(G, data.count(), keep=1))
        assert ledger.spent == 0 and data._vault.opened == 0


def test_no_two_questions_are_taken_for_one_another():
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        halves, thirds = data.cells("x", (0.5,)), data.cells("x", (0.3,))
        other = pl.questions.CrossCells(halves, data.cells("c"))
        asked = [data.count(), data.sum("x"), data.sum("x", upper=0.5), data.histogram("c"),
                 data.query((pl.questions.Ones(),), halves), data.query(
                     (pl.questions.Ones(),), thirds), data.query((pl.questions.Ones(),), other),
                 data.query((pl.questions.Ones(),), pl.questions.CrossCells(
                     thirds, data.cells("c")))]
        assert not any(ask(ledger, query, pl.Gaussian(60.0)).recalled for query in asked)
        assert all(ask(ledger, query, pl.Gaussian(60.0)).recalled for query in asked)


@pytest.mark.parametrize("change", ["left out", "another chain", "edited"])
def test_a_history_that_does_not_follow_gives_nothing_out(change):
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        ask(ledger, data.count())
        entries = ledger._history.store.read()
    *before, last = entries
    lines = {"left out": entries[1:], "edited": [*before, evolve(last, event=entries[0].event)],
             "another chain": [*before, make_entry(
                 last.position, last.event, "1" * 64)]}[change]
    history = SimpleNamespace(refresh=lambda: None, store=SimpleNamespace(read=lambda after: lines))
    with pytest.raises(pl.errors.LedgerCorrupt, match="othing was recalled"):
        recalled.Recall(history).find("0" * 64, b"k" * 32)


def test_eight_threads_pay_once(monkeypatch):
    answered = pl.Ledger._answered

    def slowly(*given):
        time.sleep(0.05)  # without a line, all eight would have found nothing by now
        return answered(*given)

    monkeypatch.setattr(pl.Ledger, "_answered", slowly)
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        found = []
        threads = [threading.Thread(target=lambda: found.append(ask(ledger, data.count())))
                   for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8 and sum(not one.recalled for one in found) == 1
        assert len({float(one.value) for one in found}) == 1 == len(ledger.state.grants)


def test_a_settlement_that_fails_gives_nothing_out(monkeypatch):
    """Somebody who sees an answer before it is durable could see another one for the same."""
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)

        def fails(history, settlement):
            assert type(settlement) is Settlement and settlement.lines[-1].answer is not None
            raise pl.LedgerError("no disk")

        with monkeypatch.context() as patched:
            patched.setattr("privledger.guard.session.settle", fails)
            refused(pl.LedgerError, lambda: ask(ledger, data.count()), match="no disk")
        spent = ledger.spent
        assert spent > 0 and not ask(ledger, data.count()).recalled and ledger.spent > spent


KILLED = """
import os, sys
import numpy as np
import privledger as pl
from tests.guard.test_recall import G, KEY, SCHEMA, ask, table
ledger = pl.Ledger.open(sys.argv[1])
data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
import privledger.guard.session as session
session.settle = lambda *_: os._exit(9)
ask(ledger, data.count())
"""


def test_a_kill_before_the_answer_is_stored_never_gives_a_free_one(tmp_path):
    path = tmp_path / "one.ledger"
    made(path).close()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 9
    with pl.Ledger.open(path) as ledger:
        spent = ledger.spent
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
        assert spent > 0 and not ask(ledger, data.count()).recalled and ledger.spent > spent
        assert ledger.verify() == []


def test_what_an_auditor_corrected_is_not_given_out_again():
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA)
        first = ask(ledger, data.count())
        ledger.correct(first.grant, pl.Gaussian(19.0), "a wrong clip")
        assert not ask(ledger, data.count()).recalled


@given(st.lists(st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.integers(-2**63, 2**63 - 1)),
    min_size=1, max_size=6))
@settings(max_examples=60)
def test_every_number_comes_back_bit_for_bit_through_the_text(values):
    for dtype, of in ((np.float64, float), (np.int64, int)):
        chosen = [one for one in values if type(one) is of]
        array = np.array(chosen, dtype=dtype).reshape(1, -1)
        answer = recalled.kept_answer("0" * 64, array)
        text = json.loads(json.dumps(answer.values))
        back = recalled.value_of(Answer("0" * 64, text))
        assert (back.dtype, back.shape, back.tobytes()) == (
            array.dtype, array.shape, array.tobytes())


@all_cases("value", [
    np.array([np.nan]), np.array([np.inf]), np.zeros(10_001), np.array(["a"]), np.array([True]),
    [], "text", None, [np.zeros(1), "text"], np.zeros(3, np.float32)])
def test_what_cannot_be_kept_bit_for_bit_is_not_kept(value):
    assert recalled.kept_answer("0" * 64, value) is None


def forge(ledger, data, key, make):
    """What a client can do with a grant of its own: settle it with an answer it made up."""
    given = ledger._grant(Request(G, data, "alice"), None)
    given.release(G, data.sum("x"))
    given.answer = make(given.grant)
    given.close()
    assert next(reversed(ledger.state.grants.values())).end.answer.asked == key


def key_of(ledger, data):
    return recalled.asked_of(G, data.count(), ledger._history, keep=True).key


def kept_of(ledger, key):
    return next((grant.end.answer for grant in ledger.state.grants.values()
                 if grant.end.answer is not None and grant.end.answer.asked == key), None)


INVENTED = [{"kind": "float", "shape": [], "values": [-12345.0]}]
FORGED = {
    "no seal": lambda answer, key: Answer(key, INVENTED),
    "a seal of zeros": lambda answer, key: Answer(key, INVENTED, "0" * 64),
    "a text that is no digits": lambda answer, key: Answer(key, INVENTED, "\u00e9" * 64),
    "the seal of another value": lambda answer, key: Answer(key, INVENTED, answer.seal),
    "the answer of another grant": lambda answer, key: answer,
    "the answer of another question": lambda answer, key: evolve(answer, asked=key)}


@all_cases("key", [KEY, None])
@all_cases("case", FORGED)
def test_what_another_client_made_up_is_not_given_out(case, key):
    with made() as ledger:
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=key)
        other = ledger.answer(G, data.histogram("c"), keep=True)
        genuine = ledger.state.grants[other.grant].end.answer
        if case == "the answer of another grant":
            asked, wanted = genuine.asked, data.histogram("c")
            ledger.correct(other.grant, pl.Gaussian(19.0), "a wrong clip")
        else:
            asked, wanted = key_of(ledger, data), data.count()
        forge(ledger, data, asked, lambda _: FORGED[case](genuine, asked))
        spent = ledger.spent
        first = ask(ledger, wanted)
        assert not first.recalled and ledger.spent > spent
        again = ask(ledger, wanted)  # the true one is found behind the forged one
        assert again.recalled and np.array_equal(again.value, first.value)


def test_an_answer_of_another_ledger_is_not_given_out():
    """The same key, table and name: what one ledger paid for is in no other."""
    with made() as ledger, made() as other:
        mine, theirs = (one.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
                        for one in (ledger, other))
        ask(other, theirs.count())
        key = key_of(ledger, mine)
        forge(ledger, mine, key, lambda _: kept_of(other, key))
        assert not ask(ledger, mine.count()).recalled


def test_an_answer_that_an_earlier_version_kept_is_paid_for_again(tmp_path):
    """It has no seal, and nobody can tell it from an invention. The file verifies as before."""
    with made(tmp_path / "one.ledger") as ledger:
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
        key = key_of(ledger, data)
        given = ledger._grant(Request(G, data), None)
        given.answer = recalled.kept_answer(key, given.release(G, data.count()))
        given.close()
        assert given.answer.seal is None and ledger.verify() == []
    with pl.Ledger.open(tmp_path / "one.ledger") as ledger:
        data = ledger.protect(table(), SCHEMA, name="t", fingerprint_key=KEY)
        assert not ask(ledger, data.count()).recalled
        assert ask(ledger, data.count()).recalled and ledger.verify() == []
