"""Forks: no connection crosses one, and no lock is taken along in the middle of a turn.

SQLite keeps what it knows of locks for the whole process, so a child that inherits an open
connection believes in locks that it does not have, or that nobody gives back. Every connection is
therefore closed before a fork, once its transaction is over, and opened again when it is needed.
Where a transaction does not end, but its thread is not within SQLite at the moment of the fork,
the child closes the connection first of all. That does its parent no harm: locks of files belong
to one process, and nothing of the transaction was written yet (SQLiteStore keeps it in memory).
"""

from __future__ import annotations

import ctypes
import os
import sys
import weakref
from types import FrameType

from privledger.errors import LedgerError
from privledger.mutex import Mutex

LOOK_SECONDS, FORK_SECONDS = 0.5, 30.0
"""How long a fork waits for a transaction of another thread: until one looks what that thread is
doing, and at most, while it is within SQLite."""


class Forking:
    """A store of which the connection is closed before a fork."""

    _lock: Mutex
    _torn = False

    def __new__(cls, *args: object, **options: object) -> Forking:
        made = super().__new__(cls)
        _stores.add(made)
        return made

    def close(self) -> None:
        """Let go of the connection; it is opened again when it is needed."""

    def close_inherited(self) -> None:
        """In a child: close what the parent had open, without a word to the file."""

    def refuse_if_torn(self, location: str) -> None:
        """Raise in a process that was forked in the middle of its parent's transaction."""
        if self._torn:
            raise LedgerError(f"{location}: this process was forked in the middle of a "
                              "transaction of its parent; open the ledger in a process of its "
                              "own. Nothing was granted or read")


_stores: weakref.WeakSet[Forking] = weakref.WeakSet()
_held: list[tuple[Forking, FrameType]] = []
_inherited: list[tuple[Forking, FrameType, bool]] = []
_switching: list[float] = []


def never_close(connection: object) -> None:
    """Keep a parent's connection for ever: to close it in a child would hurt the parent's."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _before() -> None:
    frame = sys._getframe(1)  # whoever forks holds the locks meanwhile
    for store in list(_stores):
        if getattr(store, "_lock", None) is None:
            continue  # it is just being made
        if store._lock.is_mine():
            _inherited.append((store, frame, False))
        elif _taken(store._lock, frame):
            _held.append((store, frame))
            store.close()
        else:
            _inherited.append((store, frame, True))
    if _inherited:
        _no_other_thread()
        _inherited[:] = [(store, here, quiet and _is_outside(store._lock.where()))
                         for store, here, quiet in _inherited]


def _taken(lock: Mutex, frame: FrameType) -> bool:
    """Whether the lock could be had. If not, its holder is not within the store, or very slow."""
    for _ in range(int(FORK_SECONDS / LOOK_SECONDS)):
        if lock.take(frame, seconds=LOOK_SECONDS):
            return True
        _no_other_thread()
        if _is_outside(lock.where()):
            return False
        _other_threads()
    return False


def _is_outside(frame: FrameType | None) -> bool:
    return frame is not None and not str(
        frame.f_globals.get("__name__", "")).startswith("privledger.storage")


def _no_other_thread() -> None:
    """From here to the fork nobody else runs, so that what was seen stays so."""
    if not _switching:
        _switching.append(sys.getswitchinterval())
    sys.setswitchinterval(1e6)


def _other_threads() -> None:
    if _switching:
        sys.setswitchinterval(_switching.pop())


def _in_parent() -> None:
    _other_threads()
    _over(sys._getframe(1))


def _in_child() -> None:
    frame = sys._getframe(1)
    _other_threads()
    for store, here, quiet in _inherited:
        if here is frame:
            store._torn = not quiet
            if quiet:
                store.close_inherited()
    _over(frame)
    _held.clear()  # of other threads that were about to fork
    _inherited.clear()


def _over(frame: FrameType) -> None:
    """Two threads may fork at the same time: each gives back its own."""
    for held in [one for one in _held if one[1] is frame]:
        held[0]._lock.give(frame)
        _held.remove(held)
    for one in [one for one in _inherited if one[1] is frame]:
        _inherited.remove(one)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
