"""A disk that fails when the world says so, and a shelf for spills that does the same."""

from __future__ import annotations

from contextlib import contextmanager

from privledger import mutex
from privledger.errors import LedgerError
from privledger.storage.memory import MemoryStore

FAULTS = ("begin", "commit", "answer")
"""Before anything, before it is durable, after it is durable."""


class Disk(MemoryStore):
    """The store in memory, in a place that can fail and takes its time.

    Args:
        entries: what is on it from the start.
        plan: one of `FAULTS` or None for each transaction; None for those after.
    """

    location = "disk.ledger"

    def __init__(self, entries=(), plan=()):
        super().__init__()
        self._entries.extend(entries)
        self.plan = list(plan)
        self.met = 0  # faults that happened

    @contextmanager
    def transaction(self):
        fault = self.plan.pop(0) if self.plan else None
        self.met += fault is not None
        if fault == "begin":
            raise LedgerError("the disk is full")
        with super().transaction() as transaction:
            yield transaction
            mutex.threads.sleep(0.001)
            if fault == "commit":
                raise LedgerError("the disk is full")
        if fault == "answer":
            raise LedgerError("the connection was lost")


class RecoveryFolder:
    """Spills of the simulated disk."""

    folder = "disk"

    def __init__(self, plan=()):
        self.files, self.plan = {}, list(plan)
        self.ever = {}  # what was there at any time: a removal may be forgotten by a crash

    def path(self, grant):
        return grant

    def names(self, first=()):
        return sorted(self.files)

    def read(self, path):
        return self.files[path]

    def write(self, grant, text):
        if self.plan and self.plan.pop(0):
            raise OSError(28, "no space")
        self.files[grant] = self.ever[grant] = text
        return grant

    def remove(self, path):
        self.files.pop(path, None)
