"""Whether the file at a path is still the one that is open, under this name and no other.

SQLite goes on with the file it opened, whatever becomes of its name: a ledger that was deleted,
replaced or moved would go on granting into nothing. One file under two names has two logs
(`-wal`), and what is granted through one is not seen through the other. So a ledger is used only
where its path, its descriptor and its log belong together; this is looked at in every
transaction. What cannot be seen at a path (the same file, reached through another folder) is
found by locks on the file and on the log, which say what each of them is used with.
"""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

from attrs import frozen

from privledger.errors import LedgerMisplaced
from privledger.storage.descriptors import (
    CAN_LOCK,
    Key,
    claim,
    contested,
    is_mounted_alone,
    is_open_elsewhere,
    is_plain,
    keep,
    key_of,
    let_go,
    number_of,
    open_file,
    pin,
)

WAL, SHM = "-wal", "-shm"


@frozen
class _Seen:
    """The file as it was last seen, and how far its log had been copied into it by then.

    In a file with a log, only copying the log writes to the file itself. SQLite notes in the
    shared index how far it means to copy before it begins, and how far it came when it is done.
    """

    size: int
    changed: int
    log: bytes
    copying: bool


class Place:
    """One connection's hold on the file of a ledger.

    Args:
        given: the absolute path by which it was asked for.
        writable: whether the connection may write, and so must be the file's only user of its
            kind; a reader asks and claims nothing.

    Raises:
        LedgerMisplaced: it may not be used under this name.
        OSError: it cannot be opened.
    """

    def __init__(self, given: Path, *, writable: bool) -> None:
        self._given, self._writable = given, writable
        self.path = Path(os.path.realpath(given))
        self._names = str(given), str(self.path)  # looked at in every transaction
        self._descriptor = open_file(self.path)
        found = os.fstat(self._descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self._descriptor)
            raise LedgerMisplaced(f"{given} is not a regular file")
        self._key = key_of(found)
        keep(self._key, self._descriptor, user=True)
        self._logs: list[tuple[str, str, Key]] = []  # suffix, name, which file it was
        self._index: int | None = None
        self._seen: _Seen | None = None
        try:
            folder = os.stat(self.path.parent)
            self._number = number_of(*key_of(folder), self.path.name)
            if writable:
                self._claim()
            elif contested(self._descriptor, self._number):
                self._refuse("is in use under another name, with another log")
        except BaseException:
            self.release()
            raise

    def _claim(self) -> None:
        self._refuse(self.fault() or self.mounted())
        if not claim(self._descriptor, self._number):
            self._refuse("is in use under another name, with another log")
        for suffix in (WAL, SHM):
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(f"{self.path}{suffix}")
                if not is_plain(found):
                    self._refuse(f"has a {suffix} file that is a link or has two names")
                self._follow_mode(suffix, found)
        self._claim_log()

    def _claim_log(self) -> None:
        """The log says which file it is used with, as the file says which log."""
        if not CAN_LOCK:
            return
        try:
            log = open_file(f"{self.path}{WAL}", getattr(os, "O_NOFOLLOW", 0))
        except FileNotFoundError:
            return
        keep(self._key, log)
        if not claim(log, number_of(*self._key)):
            self._refuse("was replaced: the log beside it is in use by the file that was here")

    def _follow_mode(self, suffix: str, found: os.stat_result) -> None:
        """Whoever may read the ledger may read its log, and nobody else."""
        wanted = stat.S_IMODE(os.fstat(self._descriptor).st_mode)
        if stat.S_IMODE(found.st_mode) != wanted:
            with contextlib.suppress(OSError):
                os.chmod(f"{self.path}{suffix}", wanted)

    def settle(self) -> None:
        """After SQLite has opened it: what it opened is what is held here, log included."""
        if not is_open_elsewhere(self._key):
            self._refuse("was replaced while it was being opened")
        if not self._writable:
            return
        self._claim_log()
        for suffix in (WAL, SHM):
            name = f"{self.path}{suffix}"
            self._logs.append((suffix, name, key_of(os.stat(name))))
        if hasattr(os, "pread"):
            self._index = open_file(f"{self.path}{SHM}", getattr(os, "O_NOFOLLOW", 0))
            keep(self._key, self._index)
        self.check()

    def head(self) -> bytes:
        """The first bytes of the file, by a descriptor whose closing drops no lock."""
        return os.pread(self._descriptor, 100, 0)

    def notice(self) -> None:
        """Take the file as it is now: SQLite has just copied its log into it for this process."""
        self._written()

    def check(self) -> None:
        """Raise unless the file, its name and its log still belong together."""
        self._refuse(self.fault() or self._written())

    def check_kept(self) -> None:
        """After a commit: that it went where it will be found again."""
        fault = self.fault()
        if fault:
            raise LedgerMisplaced(f"{self._given} {fault}: what was being written may be lost")

    def _refuse(self, fault: str) -> None:
        if fault:
            raise LedgerMisplaced(f"{self._given} {fault}")

    def fault(self) -> str:
        """What is wrong with the names, or nothing."""
        try:
            given, own = self._names
            found = os.stat(given)
            if key_of(found) != self._key:
                return "was replaced while it was open: another file is there now"
            if found.st_nlink != 1:
                return "has a second name (a hard link), through which it can be spent again"
            if own != given and key_of(os.lstat(own)) != self._key:
                return "was replaced while it was open: its path leads elsewhere now"
        except OSError:
            return "was removed or moved while it was open"
        for suffix, name, key in self._logs:
            try:
                found = os.lstat(name)
            except OSError:
                return f"has lost its {suffix} file while it was open"
            if key_of(found) != key or not is_plain(found):
                return f"has another {suffix} file than the one that is open"
        return ""

    def _written(self) -> str:
        """Whether somebody wrote to the file itself, past its log."""
        if self._index is None:
            return ""
        before = self._copied()
        found = os.fstat(self._descriptor)
        after, last = self._copied(), self._seen
        self._seen = _Seen(found.st_size, found.st_mtime_ns, *before)
        if last is None or last.copying or before[1] or after[1] or last.log != after[0] or (
                (last.size, last.changed) == (found.st_size, found.st_mtime_ns)):
            return ""
        self._seen = last
        return "was written to from outside while it was open"

    def _copied(self) -> tuple[bytes, bool]:
        """Which log it is and how far it was copied, and whether copying is under way."""
        assert self._index is not None
        head = os.pread(self._index, 132, 0)
        return head[32:40] + head[96:100] + head[128:132], head[96:100] != head[128:132]

    def mounted(self) -> str:
        """Whether the file is a mount of its own, or nothing."""
        if is_mounted_alone(self._descriptor, self.path.parent):
            return ("is mounted as a single file, so that its log is somewhere else: mount its "
                    "folder instead")
        return ""

    def faults(self) -> list[str]:
        """Everything that is wrong, for an auditor."""
        found = [self.fault(), self.mounted()]
        if contested(self._descriptor, self._number):
            found.append("is in use under another name, with another log")
        return [text for text in found if text]

    def before_closing(self) -> None:
        """SQLite removes the log by its name: not if the name has another log by now."""
        for suffix, name, key in self._logs:
            with contextlib.suppress(OSError):
                if suffix == WAL and key_of(os.lstat(name)) != key:
                    pin(self._descriptor)

    def release(self) -> None:
        """After SQLite has closed it."""
        let_go(self._key)
