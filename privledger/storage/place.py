"""Whether the file at a path is still the one that is open, under this name and no other.

SQLite goes on with the file it opened, whatever becomes of its name: a ledger that was deleted,
replaced or moved would go on granting into nothing. One file under two names has two logs
(`-wal`), and what is granted through one is not seen through the other. So a ledger is used only
where its path, its descriptor and its log belong together; this is looked at in every
transaction. What cannot be seen at a path (the same file, reached through another folder) is
found by locks on the file and on the log, which say what each of them is used with.

Two rules of POSIX decide how descriptors are kept. Closing any descriptor on a file drops every
lock that the process has on it, also those that SQLite took: so descriptors on one file are closed
together, when the last user in this process has let go. And a forked child shares what it
inherited: it closes these descriptors at once and opens its own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import stat
import struct
import sys
import weakref
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import TypeAlias

from attrs import frozen

from privledger.errors import LedgerError, LedgerMisplaced
from privledger.mutex import Mutex

if sys.platform == "linux":
    import fcntl

# Forks: no connection crosses one, and no lock is taken along in the middle of a turn.
#
# SQLite keeps what it knows of locks for the whole process, so a child that inherits an open
# connection believes in locks that it does not have, or that stay for ever. Every connection is
# therefore closed before a fork, once its transaction is over, and opened again when it is needed.
# Where a transaction does not end, but its thread is not within SQLite at the moment of the fork,
# the child closes the connection first of all. That does its parent no harm: locks of files belong
# to one process, and nothing of the transaction was written yet (SQLiteStore keeps it in memory).

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
_stopped: list[tuple[Forking, FrameType]] = []
_inherited: list[tuple[Forking, FrameType, bool]] = []
_switching: list[float] = []


def never_close(connection: object) -> None:
    """Keep a parent's connection for ever: to close it in a child would hurt the parent's."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _before() -> None:
    frame = sys._getframe(1)  # the forking thread holds the locks meanwhile
    for store in list(_stores):
        if getattr(store, "_lock", None) is None:
            continue  # it is just being made
        if store._lock.is_mine():
            _inherited.append((store, frame, False))
        elif _taken(store._lock, frame):
            _stopped.append((store, frame))
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
    """From here to the fork no other thread runs, so that what was seen stays so."""
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
    _stopped.clear()  # of other threads that were about to fork
    _inherited.clear()


def _over(frame: FrameType) -> None:
    """Two threads may fork at the same time: each gives back its own."""
    for held in [one for one in _stopped if one[1] is frame]:
        held[0]._lock.give(frame)
        _stopped.remove(held)
    for one in [one for one in _inherited if one[1] is frame]:
        _inherited.remove(one)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)



Key: TypeAlias = tuple[int, int]
"""Device and inode: which file, whatever it is called."""

# Locks that belong to an open descriptor, unlike SQLite's, which belong to the process. They lie
# far behind the bytes that SQLite locks.
CAN_LOCK = sys.platform == "linux" and struct.calcsize("P") == 8
_FLOCK = struct.Struct("hhqqi4x")
_BASE, _RANGE = 1 << 62, 1 << 48
_SQLITE_SHARED = 0x40000002, 510  # where SQLite locks a database: docs of its file format

_held: dict[Key, _Held] = {}
_lock = Mutex()


class _Held:
    """Descriptors of this process on one ledger's files, and how many users they have."""

    def __init__(self) -> None:
        self.users, self.open = 0, list[int]()
        self.files = 0  # of `open`, how many are of the ledger itself


def _after_fork() -> None:
    """In a child: none of the parent's descriptors."""
    for held in _held.values():
        for descriptor in held.open:
            with contextlib.suppress(OSError):
                os.close(descriptor)
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def registry() -> Mutex:
    """Held while connections of this process come and go."""
    return _lock


def open_file(path: str | Path, flags: int = 0) -> int:
    """A descriptor that a child process does not get, and that does not wait for a pipe."""
    more = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.open(path, os.O_RDONLY | more | flags)


def key_of(found: os.stat_result) -> Key:
    """Device and inode: the same for all names of one file."""
    return found.st_dev, found.st_ino


def keep_place(key: Key, descriptor: int, *, user: bool = False) -> None:
    """Take a descriptor into the care of this module; `user` counts another user of the file."""
    with _lock:
        held = _held.setdefault(key, _Held())
        held.open.append(descriptor)
        held.users += user
        held.files += user


def let_go(key: Key) -> None:
    """One user less; with the last one the descriptors are closed."""
    with _lock:
        held = _held.get(key)
        if held is None:
            return  # a child of the process that opened it
        held.users -= 1
        if held.users < 1:
            del _held[key]
            for descriptor in held.open:
                os.close(descriptor)


def is_open_elsewhere(key: Key) -> bool:
    """Whether this process has the file open by any other descriptor than those kept here."""
    try:
        names = os.listdir("/proc/self/fd")
    except OSError:
        return True  # it cannot be told
    found = 0
    for name in names:
        with contextlib.suppress(OSError):
            found += key_of(os.stat(f"/proc/self/fd/{name}")) == key
    with _lock:
        return found > (_held[key].files if key in _held else 0)


def number_of(*parts: object) -> int:
    """A place among the locks, the same for the same parts."""
    text = "\n".join(map(str, parts)).encode("utf-8", "surrogateescape")
    return int.from_bytes(sha256(text).digest()[:6], "big")


def claim_place(descriptor: int, number: int) -> bool:
    """Say by a lock what this file is used with; False if a process uses it with anything else.

    The lock ends with the descriptor, also when the process is killed. Each process first says what
    he uses and then looks at what others said, so of two at the same time at least one notices.
    """
    if not CAN_LOCK:
        return True
    try:
        _set_lock(descriptor, fcntl.F_RDLCK, _BASE + number, 1)
    except OSError:
        return True  # a file system without locks, on which SQLite does not work either
    return not contested(descriptor, number)


def contested(descriptor: int, number: int) -> bool:
    """Whether a process uses this file with something else."""
    if not CAN_LOCK:
        return False
    return any(size and _is_locked(descriptor, start, size) for start, size in (
        (_BASE, number), (_BASE + number + 1, _RANGE - number - 1)))


def pin(descriptor: int) -> None:
    """Keep SQLite from taking a database for its own alone: then closing it removes no log."""
    if CAN_LOCK:
        with contextlib.suppress(OSError):
            _set_lock(descriptor, fcntl.F_RDLCK, *_SQLITE_SHARED)


def _set_lock(descriptor: int, kind: int, start: int, size: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(kind, os.SEEK_SET, start, size, 0))


def _is_locked(descriptor: int, start: int, size: int) -> bool:
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, size, 0)
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, asked)
    except OSError:
        return False
    return int(_FLOCK.unpack(answer)[0]) != fcntl.F_UNLCK


def is_mounted_alone(descriptor: int, folder: Path) -> bool:
    """Whether a file is a mount of its own, so that its folder is not where its log would be."""
    try:
        above = os.open(folder, getattr(os, "O_PATH", os.O_RDONLY) | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        own, its = _mount_of(descriptor), _mount_of(above)
    finally:
        os.close(above)
    return own is not None and its is not None and own != its


def _mount_of(descriptor: int) -> str | None:
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", encoding="ascii") as file:
            return next((line for line in file if line.startswith("mnt_id:")), None)
    except OSError:
        return None


def is_plain_place(found: os.stat_result) -> bool:
    """A regular file with one name."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


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
        keep_place(self._key, self._descriptor, user=True)
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
        if not claim_place(self._descriptor, self._number):
            self._refuse("is in use under another name, with another log")
        for suffix in (WAL, SHM):
            with contextlib.suppress(FileNotFoundError):
                found = os.lstat(f"{self.path}{suffix}")
                if not is_plain_place(found):
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
        keep_place(self._key, log)
        if not claim_place(log, number_of(*self._key)):
            self._refuse("was replaced: the log beside it is in use by the file that was here")

    def _follow_mode(self, suffix: str, found: os.stat_result) -> None:
        """Users who may read the ledger may read its log, and no others."""
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
            keep_place(self._key, self._index)
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
            if key_of(found) != key or not is_plain_place(found):
                return f"has another {suffix} file than the one that is open"
        return ""

    def _written(self) -> str:
        """Whether a process wrote to the file itself, past its log."""
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
