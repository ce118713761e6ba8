"""A new ledger file appears whole, with its first entries, or not at all.

It is built in memory, written beside its place under a name that says what it is, brought to the
disk, and only then linked to its name, which fails if there is anything. Whoever is killed on
the way leaves no ledger, or a whole one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex

from privledger.errors import InvalidValue, LedgerBusy, LedgerError
from privledger.ledger.entries import FORMAT, Entry, body_text
from privledger.storage.place import open_file, registry
from privledger.storage.sqlite_open import APPLICATION_ID, TABLES, TRIGGERS

if sys.platform != "win32":
    import fcntl

MODE = 0o600
"""For the owner only: a ledger holds what records spent."""

_LONGEST = 240
"""Bytes of a ledger's name."""
_UNFINISHED = ".unfinished-"
_PATIENCE = 1.0
_BESIDE = 1 << 17  # bytes that the log of a first opening and its index take
_TRIES = 16
_LOGGED = b"\x02\x02"  # at byte 18: both versions of the file format that keeps a log (WAL)


def make_file(path: Path, first: Sequence[Entry]) -> None:
    """A new file at `path` that holds `first`; raises as `put_file`."""
    put_file(path, _content(first))


def put_file(path: Path, content: bytes) -> None:
    """A new ledger's file at `path`, whole or not at all.

    Args:
        content: of a SQLite file; it is marked as one that keeps a log.

    Raises:
        InvalidValue: a name that is too long for the files beside it.
        LedgerError: there is something already, or it cannot be written.
    """
    if len(os.fsencode(path.name)) > _LONGEST:
        raise InvalidValue("ledger", f"{path.name[:60]}...", f"a name of at most {_LONGEST} bytes: "
                           "its log and what is written beside it have longer ones")
    if os.path.lexists(path):
        raise _exists(path)
    for suffix in ("-wal", "-journal"):
        if os.path.lexists(f"{path}{suffix}"):
            raise LedgerError(f"{path}{suffix} is there, left by another ledger of that name, or "
                              "by one whose file is gone: bring that back, or move it away")
    with contextlib.suppress(OSError):
        for left in _unfinished(path):
            _remove_left(left)
    try:
        with registry():  # nobody here opens it before the maker's descriptor is closed
            _placed(path, content[:18] + _LOGGED + content[20:])
    except FileExistsError:
        raise _exists(path) from None
    except OSError as error:
        raise LedgerError(f"{path}: no ledger can be made there ({error.strerror}); nothing was "
                          "made") from None
    try:
        _sync_folder(path.parent)
    except OSError as error:
        raise LedgerError(f"{path} was made, but the disk did not confirm its name "
                          f"({error.strerror}); open it if it is there") from None


def take_back(path: Path, first: Sequence[Entry]) -> None:
    """Remove a ledger that was made a moment ago and could not be opened, if it is as it was made:
    whoever has it open already marks the file before the first write."""
    made = _content(first)
    with contextlib.suppress(OSError), registry():
        log = Path(f"{path}-wal")
        if path.read_bytes() == made[:18] + _LOGGED + made[20:] and not (
                log.exists() and log.stat().st_size):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{path}{suffix}").unlink(missing_ok=True)


def _placed(path: Path, content: bytes) -> None:
    """Write and link; again if another maker took the unfinished file for one that was left.

    It may do so in the moment before the file is locked. Then there was nothing to link.
    """
    for left in reversed(range(_TRIES)):
        beside = path.with_name(f"{_begin(path)}{token_hex(6)}")
        try:
            return _write_and_link(beside, path, content)
        except FileNotFoundError:
            if os.path.lexists(path):
                raise FileExistsError from None
            if not left or not path.parent.is_dir():
                raise
    return None


def _begin(path: Path) -> str:
    """How unfinished files of that ledger are called; a file name has an end."""
    return path.name[:60] + _UNFINISHED


def _exists(path: Path) -> LedgerError:
    return LedgerError(f"{path} exists already; open it, or choose another name")


def _content(first: Sequence[Entry]) -> bytes:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    try:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        for statement in (*TABLES, *TRIGGERS):
            connection.execute(statement)
        connection.executemany("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", [
            (one.position, one.event.kind, body_text(one), one.previous, one.hash)
            for one in first])
        return connection.serialize()
    finally:
        connection.close()


def _write_and_link(beside: Path, path: Path, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    descriptor = os.open(beside, flags | getattr(os, "O_BINARY", 0), MODE)
    try:
        _lock(descriptor, wait=True)  # as long as it is held, nobody clears this file away
        if hasattr(os, "fchmod"):
            os.fchmod(descriptor, MODE)  # whatever the umask left of it
        rest = memoryview(content + bytes(_BESIDE))
        while rest:
            rest = rest[os.write(descriptor, rest):]
        os.fsync(descriptor)  # there is room to open it, too: a full disk leaves no empty ledger
        os.ftruncate(descriptor, len(content))
        os.fsync(descriptor)
        os.link(beside, path)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        os.close(descriptor)


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # where a folder cannot be synced
            raise
    finally:
        os.close(descriptor)


def finish_making(path: Path) -> None:
    """Take away the second name of a ledger whose maker was killed between two steps.

    Raises:
        LedgerBusy: its maker is still at work.
    """
    until = time.monotonic() + _PATIENCE
    while (found := _second_name(path)) is not None:
        if not _remove_left(found):
            if time.monotonic() > until:
                raise LedgerBusy(f"{path} is being made by another process; nothing was granted")
            time.sleep(0.002)


def _second_name(path: Path) -> Path | None:
    with contextlib.suppress(OSError):
        own = os.stat(path)
        if own.st_nlink > 1:
            for left in _unfinished(Path(os.path.realpath(path))):
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.lstat(left), own):
                        return left
    return None


def _unfinished(path: Path) -> Iterator[Path]:
    with os.scandir(path.parent) as found:
        names = [one.name for one in found if one.name.startswith(_begin(path))]
    return (path.with_name(name) for name in names)


def _remove_left(left: Path) -> bool:
    """Remove what a killed process left; False if its maker is still there."""
    try:
        descriptor = open_file(left, getattr(os, "O_NOFOLLOW", 0))
    except FileNotFoundError:
        return True
    try:
        if not _lock(descriptor, wait=False):
            return False
        with contextlib.suppress(FileNotFoundError):
            os.unlink(left)
        return True
    finally:
        os.close(descriptor)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """The maker's lock: flock, which is no business of SQLite's."""
    if sys.platform == "win32":
        return wait
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return wait
    return True
