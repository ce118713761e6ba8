"""The server of disk.py: `python -m tests.faults.trial LIBRARY`, one order per line.

Each order is done in a forked child, which arms the layer and works on a ledger. Whatever the
ledger told the child is told to the server at once, so that it is known even if the child dies.
"""

import ctypes
import gc
import json
import os
import sys
import tempfile

import numpy as np

import privledger as pl
from tests.faults.disk import acknowledge
from tests.faults.small import guard

G = pl.Gaussian(8.0)
BUDGET = pl.Budget(2.0, 1e-6)


class LedgerService:
    """Says what the ledger said."""

    def __init__(self, pipe, log):
        self._pipe, self._log = pipe, log

    def __call__(self, what, **more):
        text = json.dumps({"ack": what, **more})
        if self._log is not None:
            acknowledge(self._log, text)
        os.write(self._pipe, text.encode() + b"\n")


def told(tell, name, work):
    """Do one thing; say that it was acknowledged, or which error refused it."""
    try:
        done = work()
    except pl.LedgerError as error:
        tell("error", of=name, kind=type(error).__name__)
        return None
    return done


def create(path, tell):
    """A new ledger, and one grant."""
    ledger = told(tell, "create", lambda: pl.Ledger.create(path, budget=BUDGET, filter="gdp"))
    if ledger is not None:
        tell("created", uuid=ledger.state.uuid)
        one_grant(ledger, tell)
    return ledger


def one_grant(ledger, tell, *, settle=False, noise=8.0, fail=False):
    """Request, release, settle."""
    data = guard(ledger)
    node = pl.Gaussian(noise)
    session = told(tell, "request", lambda: ledger.request(pl.Repeat(node, 2), data))
    if session is None:
        assert data._vault.opened == 0
        return None
    tell("granted", grant=session.grant, noise=noise)
    if fail:
        try:
            with session:
                raise ZeroDivisionError
        except ZeroDivisionError:
            tell("refunded", grant=session.grant)
        except pl.LedgerError as error:
            tell("error", of="refund", kind=type(error).__name__)
        return session
    assert np.isfinite(session.release(node, data.count()))
    if settle and told(tell, "settle", lambda: session.close() or True):
        tell("settled", grant=session.grant)
    return session


def correct(ledger, tell, grant):
    if told(tell, "correct", lambda: ledger.correct(grant, pl.Repeat(G, 3), "an audit") or True):
        tell("corrected", grant=grant)


def live(path, tell):
    """Everything that writes, twice over, on a ledger that is there."""
    ledger = told(tell, "open", lambda: pl.Ledger.open(path))
    if ledger is None:
        return None
    for _ in range(2):
        session = one_grant(ledger, tell, settle=True)
        one_grant(ledger, tell, noise=9.0, fail=True)
        if session is not None:
            correct(ledger, tell, session.grant)
    told(tell, "close", ledger.close)
    return ledger


def fill(path, tell):
    """Enough grants that SQLite copies its log into the file in between."""
    ledger = told(tell, "open", lambda: pl.Ledger.open(path))
    if ledger is not None:
        told(tell, "pages", lambda: ledger._history.store._connect().execute(
            "PRAGMA wal_autocheckpoint = 12"))
        for _ in range(6):
            one_grant(ledger, tell, settle=True, noise=30.0)
    return ledger


WORKS = {work.__name__: work for work in (create, live, fill)}


def child(order, library, pipe):
    """The trial itself; the process ends here."""
    log = None
    if order["log"]:
        log = os.open(order["log"], os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    if not order["synchronous"]:
        without_sync()
    tell = LedgerService(pipe, log)
    library.files_arm(order["path"].encode(), order["at"], order["mode"], order["error"],
                      order["kinds"], -1 if log is None else log)
    status = 0
    try:
        WORKS[order["work"]](order["path"], tell)
    except BaseException as error:
        tell("broke", kind=type(error).__name__, text=str(error)[:300])
        status = 1
    calls = library.files_calls()
    library.files_arm(b"", 0, 0, 0, 0, -1)
    os.write(pipe, json.dumps({"calls": calls}).encode() + b"\n")
    os._exit(status)


def without_sync():
    """The fault: SQLite is told not to wait for the disk."""
    from privledger.storage import SQLiteStore

    right = SQLiteStore._connect

    def connect(self):
        connection = right(self)
        if not connection.in_transaction:
            connection.execute("PRAGMA synchronous=OFF")
        return connection

    SQLiteStore._connect = connect


def warmed():
    """Do every work once, on a ledger of no trial: its modules are read here, and not by each
    child anew. The layer is not armed, and would see files of a trial's folder only."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "warm.ledger")
        create(path, lambda what, **more: None).close()
        for work in (live, fill):
            work(path, lambda what, **more: None).close()


def main():
    warmed()
    gc.collect()
    gc.freeze()  # children need not look at what is there already
    library = ctypes.CDLL(sys.argv[1])
    library.files_arm.argtypes = [ctypes.c_char_p, ctypes.c_long, ctypes.c_int, ctypes.c_int,
                                  ctypes.c_int, ctypes.c_int]
    library.files_calls.restype = ctypes.c_long
    for line in sys.stdin:
        order = json.loads(line)
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(reading)
            child(order, library, writing)
        os.close(writing)
        with open(reading, encoding="utf-8") as pipe:
            lines = [json.loads(text) for text in pipe]
        status = os.waitpid(pid, 0)[1]
        calls = [one["calls"] for one in lines if "calls" in one]
        print(json.dumps({"status": status, "calls": calls[0] if calls else None,
                          "acks": [one for one in lines if "ack" in one]}), flush=True)


if __name__ == "__main__":
    main()
