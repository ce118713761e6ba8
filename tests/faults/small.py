"""One small public table, and places where a ledger can be, for the tests of faults."""

import itertools
import os
import signal

import numpy as np

from tests.worlds import schema_of

SCHEMA = schema_of("one", {"x": (0.0, 1.0)})
TABLE = {"x": np.linspace(0, 1, 50)}
KINDS = ("memory", "sqlite", "postgres")


def guard(ledger, name="rows"):
    return ledger.protect(TABLE, SCHEMA, name=name, fingerprint_key=b"k" * 16)


def places(kind, request):
    """New places, one after the other, for a ledger of this kind."""
    if kind == "postgres":
        server = request.getfixturevalue("postgres")
        return (server.url() for _ in itertools.count())
    folder = request.getfixturevalue("tmp_path")
    return (None if kind == "memory" else folder / f"{number}.db" for number in itertools.count())


def die():
    """As a crash would: nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)


def in_child(work):
    """Run `work` in a forked child; its wait status (0 only if it ended well)."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1]
