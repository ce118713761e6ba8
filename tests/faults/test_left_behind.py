"""What killed processes, full disks, interrupts and confined learners leave behind."""

import os
import subprocess
import sys
import tempfile

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.broker.failures import error_in, error_out
from privledger.cli import main
from privledger.storage import sqlite_open
from privledger.storage.sqlite import SQLiteStore
from tests.worlds import schema_of

KILLED = """
import os
from privledger.tables.spool import Folder
folder = Folder.temporary()
folder.write("chunk-0000000", [b"a row in clear"])
print(folder.path, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def killed(place):
    done = subprocess.run([sys.executable, "-c", KILLED], capture_output=True, text=True,
                          check=False, env={**os.environ, "TMPDIR": str(place)})
    return done.stdout.strip()


@pytest.mark.parametrize("command", [("show",), ("verify",), ("log",), ("receipt",)])
def test_any_command_clears_the_chunks_of_a_killed_driver(tmp_path, temporary, command):
    pl.Ledger.create(tmp_path / "l", budget=pl.Budget(1.0)).close()
    path = killed(temporary)
    assert os.path.exists(path)
    CliRunner().invoke(main, [*command, str(tmp_path / "l")])
    assert not os.path.exists(path)


def test_a_ledger_that_cannot_be_opened_after_it_was_made_is_taken_back(tmp_path, monkeypatch):
    def full(*_, **__):
        raise pl.LedgerError("the disk is full")
    monkeypatch.setattr(SQLiteStore, "_connect", full)
    with pytest.raises(pl.LedgerError, match="full"):
        pl.Ledger.create(tmp_path / "l", budget=pl.Budget(1.0))
    assert os.listdir(tmp_path) == []
    monkeypatch.undo()
    pl.Ledger.create(tmp_path / "l", budget=pl.Budget(1.0)).close()


def test_one_that_was_written_to_is_not_taken_back(tmp_path):
    path = tmp_path / "l"
    ledger = pl.Ledger.create(path, budget=pl.Budget(1.0))
    first = ledger._history.store.read()
    data = ledger.protect({"x": [0.5]}, schema_of("t", {"x": (0.0, 1.0)}))
    ledger.request(pl.Laplace(4.0), data)
    sqlite_open.take_back(path, first)
    assert path.exists()


CALLBACK = """
import weakref
from privledger.mutex import delivered
def callback(_):
    with delivered():
        raise KeyboardInterrupt
held = Held()
kept = weakref.ref(held, callback)
"""
HANDLE = """
from privledger.guard import vault
class Place(dict):
    def get(self, number):
        raise KeyboardInterrupt
held = Held()
vault._hide(held, "what")
vault._BEHIND, kept = Place(), vault._BEHIND
"""


@pytest.mark.parametrize("what", [CALLBACK, HANDLE], ids=["a callback", "a learner's handle"])
def test_an_interrupt_while_the_collector_is_at_work_is_delivered(what):
    """In a process of its own: an interrupt is for its main thread."""
    script = f"""
import time
class Held: pass
{what}
try:
    del held
    for _ in range(12_000): time.sleep(0.01)
except KeyboardInterrupt:
    print("delivered")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True,
                          check=False, timeout=120)
    assert (done.stdout, done.stderr) == ("delivered\n", "")


def test_a_refusal_comes_whole_through_the_wire():
    refusal = pl.BudgetExceeded(asked=2.0, spent=1.0, left=0.5, own=0.3, fits="less", scope="a cap")
    found = error_in(error_out(refusal))
    assert (str(found), found.own) == (str(refusal), refusal.own)
