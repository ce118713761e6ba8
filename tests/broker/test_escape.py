"""Hostile learners: what they try is refused by the kernel or by the owner's side."""

import json
import os
import signal
import socket
import sys
from pathlib import Path

import pytest

import privledger as pl

sys.path.insert(0, str(Path(__file__).parent / "plugins"))
import hostile

from tests.bodies import body_of
from tests.worlds import protected, refused, schema_of

sys.path.pop(0)
SECRET = 0.3141592653589793
NAMES = sorted(hostile.attacks({"data": "/d/x", "ledger": "", "parent": 0, "secret": 0.0}))
LIES = sorted({*hostile.Liar().lies({"noise_multiplier": 1.0}),
               *hostile.Liar().descriptions({"noise_multiplier": 1.0}), "custom", "ledger_record",
               "filter_not_reserved",
               "before_a_grant", "before_a_grant_filtered", "after_the_grant"})
ROWS = {"x": [0.5]}
SCHEMA = schema_of("tiny", {"x": (0.0, 1.0)}, label=["no", "yes"])
BROKEN = sorted(name[3:] for name in vars(hostile.Breaking) if name.startswith("do_"))
KEPT = {"outcome": None, "lies": None}


def said(learner):
    return json.loads(learner.predict(ROWS)[0])


@pytest.fixture
def outcome(start, tiny, tmp_path, monkeypatch):
    """What every attack came to; tried once, in one process."""
    if KEPT["outcome"] is None:
        private = tmp_path / "private.csv"
        private.write_text("x,label\n0.5,yes\n", encoding="utf-8")
        ledger = tmp_path / "book.ledger"
        pl.Ledger.create(ledger, budget=pl.Budget(1.0, 1e-6)).close()
        before = private.stat(), sorted(os.listdir(tmp_path))
        got = []
        monkeypatch.setenv("SECRET_PATH", str(private))
        old = signal.signal(signal.SIGUSR1, lambda *_: got.append(1))
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.socket(
                socket.AF_UNIX) as unix, socket.socket(socket.AF_UNIX) as abstract:
            unix.bind(str(tmp_path / "s"))
            unix.listen()
            abstract.bind(f"\0privledger-{os.getpid()}")
            abstract.listen()
            learner = start("Escapes", private=(private, ledger), targets={
                "data": str(private), "ledger": str(ledger), "parent": os.getpid(),
                "port": tcp.getsockname()[1], "unix": str(tmp_path / "s"), "secret": SECRET,
                "abstract": f"privledger-{os.getpid()}"})
            learner.fit(tiny[1])
        signal.signal(signal.SIGUSR1, old)
        KEPT["outcome"] = said(learner) | {"signals": len(got)}
        os.unlink(tmp_path / "s")
        assert (private.stat().st_size, sorted(os.listdir(tmp_path))) == (
            before[0].st_size, before[1])
    return KEPT["outcome"]


@pytest.mark.parametrize("name", NAMES)
def test_an_escape_is_blocked(outcome, name):
    assert outcome[name].startswith("blocked"), name


def test_no_signal_arrived_and_the_answer_did(outcome):
    assert outcome["signals"] == 0
    assert -1000 < outcome["count"] < 1000


def test_the_attacks_work_where_nothing_confines_them(tmp_path):
    """The suite can see an escape: without confinement the same attacks succeed."""
    file = tmp_path / "private.csv"
    file.write_text("x\n", encoding="utf-8")
    tried = hostile.attacks({"data": str(file), "ledger": str(file), "parent": os.getpid(),
                             "secret": 0.25})
    _, rows = protected(pl.Budget(1.0, 1e-6), {"x": [0.25]}, ["no"], SCHEMA)
    for name in ("read_data", "read_ledger", "size_of_data", "list_data_folder", "udp",
                 "read_data_in_a_thread", "subprocess", "system", "write_tmp", "objects_with_rows",
                 "parent_environment", "socketpair", "nameless_file"):
        tried[name]()
    os.unlink("/tmp/left")
    assert rows.identity


def test_code_that_runs_when_it_is_imported_is_confined(start, tiny):
    assert start("Importing").fit(tiny[1]).predict(ROWS).tolist() == ["blocked"]
    assert "hostile" in sys.modules  # by this file; the package itself imports no learner


@pytest.fixture
def lies(start, tiny):
    """What every hostile message was answered, and how often the table was opened."""
    if KEPT["lies"] is None:
        ledger, data = tiny
        learner = start("Liar")
        learner.fit(data)
        grant = next(iter(ledger.state.grants.values()))
        KEPT["lies"] = said(learner) | {"opened": data._vault.opened, "grant": grant,
                                        "findings": ledger.verify(), "spent": ledger.spent}
    return KEPT["lies"]


@pytest.mark.parametrize("name", LIES)
def test_a_hostile_message_is_refused(lies, name):
    assert lies[name].startswith("refused: "), name


def test_hostile_messages_opened_nothing(lies):
    """One honest release; the ledger is clean and names the learner by the owner's word."""
    assert lies["opened"] == 1
    assert lies["findings"] == []
    assert lies["grant"].releases == 1
    assert body_of(lies["grant"])["learner"] == "test-liar"
    assert body_of(lies["grant"])["isolation"] == "brokered"
    assert lies["spent"] == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_conversation_keeps_the_charge(start, tiny, what):
    ledger, data = tiny
    learner = start("Breaking", what=what)
    if what == "silence":
        learner._channel.patience = 1.0
    refused(pl.errors.IsolationError, lambda: learner.fit(data))
    assert learner._process.poll() is not None
    (grant,) = ledger.state.grants.values()
    assert (grant.status, grant.touched, grant.releases) == ("settled", True, 1)
    assert ledger.spent == pytest.approx(1.0, rel=1e-6)
    assert ledger.verify() == []


def test_a_refusal_is_the_ledgers_own(start):
    _, data = protected(pl.Budget(0.5, 1e-6), {"x": [0.5]}, ["no"], SCHEMA)
    with pytest.raises(pl.BudgetExceeded) as caught:
        start("Plain").fit(data)
    assert caught.value.left == pytest.approx(0.5, rel=1e-6)
    assert data._vault.opened == 0


def test_only_fit_may_ask(start, tiny):
    """Whoever sees public rows can ask nothing more."""
    ledger, data = tiny
    said_ = start("Asking").fit(data).predict(ROWS)[0]
    assert said_.count("only fit may ask; nothing was read") == 2
    assert len(ledger.state.grants) == 1


def test_a_parameter_that_it_does_not_know_is_refused_by_name(start):
    refused(pl.errors.InvalidPlan, lambda: start("Plain", unknown=3), match="unknown")


def test_a_learner_that_is_not_there(start):
    refused(pl.errors.IsolationError, lambda: start("Missing"), match="Missing")


@pytest.mark.parametrize("what", ["short", "lists", "nothing"])
def test_predictions_are_labels_one_for_each_row(start, tiny, what):
    learner = start("Careless", what=what).fit(tiny[1])
    (grant,) = tiny[0].state.grants.values()
    assert (grant.status, grant.releases) == ("settled", 1)  # though it was left open
    refused(pl.errors.IsolationError, lambda: learner.predict({"x": [0.5, 0.25]}))


def test_a_private_file_below_readable_folders_is_refused_before_anything_starts(start, tmp_path):
    inside = Path(pl.__file__).parent / "private.csv"
    with pytest.raises(pl.errors.IsolationUnavailable, match="move it elsewhere"):
        start("Plain", private=(inside,))
    link = tmp_path / "link.csv"
    link.symlink_to(inside)
    with pytest.raises(pl.errors.IsolationUnavailable, match="move it elsewhere"):
        start("Plain", private=(link,))
