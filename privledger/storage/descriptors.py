"""Descriptors on a ledger's files, and what the operating system says about them.

Two rules of POSIX make this a module of its own. Closing any descriptor on a file drops every
lock that the process has on it, also those that SQLite took: so descriptors on one file are
closed together, when the last user in this process has let go. And a forked child shares what it
inherited: it closes these descriptors at once and opens its own.
"""

from __future__ import annotations

import contextlib
import os
import stat
import struct
import sys
from hashlib import sha256
from pathlib import Path
from typing import TypeAlias

from privledger.mutex import Mutex

if sys.platform == "linux":
    import fcntl

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


def keep(key: Key, descriptor: int, *, user: bool = False) -> None:
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
        return True  # nobody can tell
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


def claim(descriptor: int, number: int) -> bool:
    """Say by a lock what this file is used with; False if somebody uses it with anything else.

    The lock ends with the descriptor, also when the process is killed. Everybody first says what
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
    """Whether somebody uses this file with something else."""
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


def is_plain(found: os.stat_result) -> bool:
    """A regular file with one name."""
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1
