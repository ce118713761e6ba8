"""The ledger cannot be written when a session is closed: charges stand, items survive, and the
error says the truth."""

import json
import os
import stat
import warnings
from contextlib import contextmanager

import pytest

import privledger as pl
from privledger.guard.ledger import Ledger
from privledger.ledger import settle
from tests.faults.small import guard, in_child

G = pl.Gaussian(90.0)
MANY = 300


class Failing:
    """A store of which every transaction fails for as long as `error` is set."""

    def __init__(self, store):
        self._store, self.error, self.at = store, None, "begin"

    def __getattr__(self, name):
        return getattr(self._store, name)

    @contextmanager
    def transaction(self):
        if self.error is not None and self.at == "begin":
            raise self.error
        with self._store.transaction() as transaction:
            yield transaction
            if self.error is not None and self.at == "commit":
                raise self.error
        if self.error is not None and self.at == "answer":
            raise self.error


@pytest.fixture(autouse=True)
def _quick(monkeypatch, tmp_path):
    monkeypatch.setattr(settle, "PAUSES", (0.0, 0.0))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def place(tmp_path):
    return tmp_path / "x.ledger"


def opened(place, answers=MANY):
    """A ledger with a store that can fail, and a session that answered so often."""
    ledger = Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    ledger._history.store = Failing(ledger._history.store)
    data = guard(ledger)
    session = ledger.request(pl.Repeat(G, answers + 5), data)
    query = pl.questions.Query(data, (pl.questions.Ones(),), what="count")
    for _ in range(answers):
        session.release(G, query)
    return ledger, session


def fail(ledger, at="begin"):
    ledger._history.store.at = at
    ledger._history.store.error = pl.LedgerError("x.ledger: the disk is full")


def heal(ledger):
    ledger._history.store.error = None


def items(place):
    with pl.Ledger.open(place, read_only=True) as ledger:
        assert [one for one in ledger.verify() if one.rule != settle.RECOVERY] == []
        return [(grant.status, grant.releases) for grant in ledger.state.grants.values()]


def spills(place):
    return sorted(place.parent.glob("x.ledger.*.spill"))


def fails(session):
    with pytest.raises(pl.errors.NotSettled) as caught:
        session.close()
    return caught.value


@pytest.mark.parametrize("at", ["begin", "answer"])
def test_one_failure_or_lost_answer_is_tried_again(place, monkeypatch, at):
    ledger, session = opened(place)
    fail(ledger, at)
    monkeypatch.setattr("privledger.mutex.threads.sleep", lambda seconds: heal(ledger),
                        raising=False)
    session.close()
    assert items(place) == [("settled", MANY)] and not spills(place)


@pytest.mark.parametrize("at", ["begin", "commit"])
def test_items_are_spilled_and_taken_up_once_at_the_next_open(place, at):
    ledger, session = opened(place)
    fail(ledger, at)
    error = fails(session)
    (path,) = spills(place)
    assert error.spill == str(path) and error.releases == MANY and error.grant == session.grant
    text = str(error)
    assert f"{MANY} releases are out" in text and "charge stands" in text and str(path) in text
    assert "othing was granted" not in text and "othing was read" not in text
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [one.rule for one in recovery_findings(place)] == [settle.RECOVERY]
    spent = ledger.spent
    for _ in range(2):
        with pl.Ledger.open(place) as again:
            assert again.spent == spent and again.verify() == []
        assert items(place) == [("settled", MANY)] and not spills(place)
    heal(ledger)
    session.close()  # finds that it is done
    ledger.close()
    assert items(place) == [("settled", MANY)]


def recovery_findings(place):
    with pl.Ledger.open(place, read_only=True) as ledger:
        return ledger.verify()


def test_a_second_close_tries_again_and_never_succeeds_in_silence(place):
    ledger, session = opened(place)
    fail(ledger)
    fails(session)
    fails(session)
    assert session.receipt is None
    heal(ledger)
    session.close()
    assert session.receipt is not None and not spills(place)
    assert items(place) == [("settled", MANY)]


def test_where_nothing_can_be_kept_the_error_says_so_and_closing_still_works(place, monkeypatch):
    ledger, session = opened(place)
    fail(ledger)

    def full(self, grant, text):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(settle.RecoveryFolder, "write", full)
        error = fails(session)
        assert error.spill is None and "No space left" in str(error)
        assert "only this process has it" in str(error)
        with pytest.raises(pl.errors.NotSettled):
            ledger.close()
    heal(ledger)
    session.close()
    assert items(place) == [("settled", MANY)]


def test_a_place_that_is_full_is_not_the_only_one(place, tmp_path, monkeypatch):
    """The second place is the user's own state folder; both are taken up from."""
    ledger, session = opened(place)
    fail(ledger)
    right = settle.RecoveryFolder.write

    def full(self, grant, text):
        if not self.make:
            raise OSError(28, "No space left on device")
        return right(self, grant, text)

    monkeypatch.setattr(settle.RecoveryFolder, "write", full)
    error = fails(session)
    assert error.spill.startswith(str(tmp_path / "state" / "privledger"))
    with pl.Ledger.open(place):
        assert items(place) == [("settled", MANY)] and not os.path.exists(error.spill)


def test_leaving_the_ledger_settles_what_is_left(place):
    ledger, session = opened(place)
    fail(ledger)
    fails(session)
    heal(ledger)
    ledger.close()
    assert items(place) == [("settled", MANY)] and not spills(place)


def test_the_next_session_that_can_be_settled_settles_the_others(place):
    ledger, session = opened(place, 3)
    fail(ledger)
    fails(session)
    heal(ledger)
    ledger.request(G, guard(ledger)).close()
    assert sorted(items(place)) == [("settled", 0), ("settled", 3)] and not spills(place)


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_while_settling_loses_nothing(place, kind):
    ledger, session = opened(place)
    ledger._history.store.error = kind()
    with pytest.raises(kind):
        session.close()
    assert len(spills(place)) == 1
    with pl.Ledger.open(place):
        assert items(place) == [("settled", MANY)]


def test_a_refused_reservation_says_that_nothing_was_granted(place):
    ledger, _ = opened(place, 0)
    fail(ledger)
    with pytest.raises(pl.LedgerError, match="othing was granted or read"):
        ledger.request(G, guard(ledger))
    with pytest.raises(pl.LedgerError) as caught:
        ledger._history.flush()
    assert "othing was" not in str(caught.value)


def test_killed_between_the_entries_and_the_removal_it_is_taken_up_once(place, monkeypatch):
    ledger, session = opened(place)
    fail(ledger)
    fails(session)
    with monkeypatch.context() as patch:
        patch.setattr(settle.RecoveryFolder, "remove", lambda self, path: os._exit(9))
        assert in_child(lambda: pl.Ledger.open(place)) != 0
    assert len(spills(place)) == 1 and items(place) == [("settled", MANY)]
    with pl.Ledger.open(place):
        pass
    assert not spills(place) and items(place) == [("settled", MANY)]


def test_a_filter_grant_counts_in_full_without_its_vector(place):
    ledger = Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    node = pl.IndividualFilter("gdp", 0.01)
    scope = ledger.open_scope(node)
    ledger._history.store = Failing(ledger._history.store)
    session = ledger.request(node, guard(ledger), scope=scope)
    data = session.filtered()
    session.release(pl.Gaussian(50.0), pl.questions.Query(data, (pl.questions.Ones(),)))
    fail(ledger)
    error = fails(session)
    with open(error.spill, encoding="ascii") as file:
        assert "vector" not in file.read()
    with pl.Ledger.open(place) as again:
        assert again.verify() == [] and items(place) == [("settled", 1)]
        assert again.record(3).total >= 1 / 50.0**2


# Forged, foreign and edited spills.

def made(place, answers=3):
    """Text of an honest spill, of a grant that is open now."""
    ledger, session = opened(place, answers)
    fail(ledger)
    path = fails(session).spill
    with open(path, encoding="ascii") as file:
        return ledger, path, file.read()


def forge(text, change):
    """An edited spill that was hashed again."""
    body = json.loads(text)
    change(body)
    body.pop("sha256")
    rest = settle.canonical(body)
    return settle.canonical(body | {"sha256": settle._digest(rest)})


def more_items(body):
    body["lines"][0][1]["items"] += body["lines"][0][1]["items"] * 9
    body["lines"][-1][1]["releases"] *= 10


def handed_back(body):
    body["lines"] = [["aborted", body["lines"][-1][1] | {"touched": False, "releases": 0}]]


def cheaper(body):
    body["lines"].insert(0, ["corrected", {"grant": body["grant"], "units": 0}])


FORGED = {
    "more than the plan": more_items, "handed back": handed_back, "another kind": cheaper,
    "another ledger": lambda body: body.update(ledger="0" * 36),
    "another grant": lambda body: body.update(grant="grant-0"),
    "another body": lambda body: body.update(granted="0" * 64),
    "another history": lambda body: body.update(head="0" * 64),
    "untouched": lambda body: body["lines"][-1][1].update(touched=False),
    "another count": lambda body: body["lines"][-1][1].update(releases=1),
    "a larger noise": lambda body: body["lines"][0][1].update(noise="none"),
    "a louder leaf": lambda body: body["lines"][0][1]["nodes"][0]["leaf"].update(
        noise_multiplier=1.0),
    "a key more": lambda body: body["lines"][-1][1].update(units=-5),
    "no lines": lambda body: body.update(lines=[]),
    "negative cells": lambda body: body["lines"][0][1]["items"][0].__setitem__(2, -1),
    "lists": lambda body: body.update(lines=[[[], []]]),
    "a float that counts": lambda body: body["lines"][0][1].update(first=0.0),
    "a float that ends": lambda body: body["lines"][-1][1].update(
        releases=float(body["lines"][-1][1]["releases"])),
    "more objects than an entry has": lambda body: body["lines"][0][1].update(
        nodes=body["lines"][0][1]["nodes"] + [{"leaf": {"node": "Public"}, "under": []}] * 35_000),
    "more digits than a number has": lambda body: body["lines"][0][1]["items"][0].__setitem__(
        2, 10**1200),
    "huge numbers": lambda body: body.update(position=10**400)}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_forged_spill_changes_nothing(place, change):
    ledger, path, text = made(place)
    spent = ledger.spent
    with open(path, "w", encoding="ascii") as file:
        file.write(forge(text, change))
    refused(place, spent, [("granted", 0)])


def test_files_of_others_keep_no_spill_waiting(place):
    made(place)
    for number in range(settle.MOST_FILES + 20):
        place.with_name(f"x.ledger.{number:04d}.spill").write_text("{}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pl.Ledger.open(place).close()
    assert [status for status, _ in items(place)] == ["settled"]


BROKEN = {
    "edited": lambda text: text.replace("count", "cOunt", 1),
    "empty": lambda text: "", "cut": lambda text: text[:-40], "deep": lambda text: "[" * 200_000,
    "digits": lambda text: "1" * 3_000_000, "no text": lambda text: "\u00e9\u0000",
    "many lists": lambda text: "[" + "[]," * 1_300_000 + "[]]",
    "too large": lambda text: text + " " * (settle.MOST_BYTES + 1),
    "two keys": lambda text: '{"format":1,' + text[1:]}


@pytest.mark.parametrize("change", BROKEN.values(), ids=BROKEN)
def test_a_broken_spill_is_a_finding(place, change):
    ledger, path, text = made(place)
    with open(path, "w", encoding="utf-8") as file:
        file.write(change(text))
    refused(place, ledger.spent, [("granted", 0)])


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "two names"])
def test_a_spill_that_is_no_plain_file_is_a_finding(place, tmp_path, kind):
    ledger, path, _ = made(place)
    kept = tmp_path / "kept"
    if kind == "two names":
        os.link(path, kept)
    else:
        os.rename(path, kept)
        {"link": lambda: os.symlink(kept, path), "pipe": lambda: os.mkfifo(path),
         "folder": lambda: os.mkdir(path)}[kind]()
    refused(place, ledger.spent, [("granted", 0)])


def test_a_spill_of_a_grant_that_is_over_adds_nothing(place):
    ledger, path, text = made(place)
    with pl.Ledger.open(place):
        pass
    with open(path, "w", encoding="ascii") as file:
        file.write(forge(text, lambda body: body["lines"][0][1]["items"].pop()))
    refused(place, ledger.spent, [("settled", 3)])


def refused(place, spent, expected):
    """Opening warns and changes nothing; an audit has a finding."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pl.Ledger.open(place) as ledger:
            assert ledger.spent == spent
            assert [one.rule for one in ledger.verify()] == [settle.RECOVERY]
    assert any("nothing of it was taken up" in str(one.message) for one in said)
    assert items(place) == expected
