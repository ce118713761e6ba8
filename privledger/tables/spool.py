"""The folder of a spool: closed to others, written whole or not at all, and cleaned up."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from privledger.errors import InvalidValue, SpoolError
from privledger.mutex import delivered
from privledger.tables.layout import Piece

_PREFIX = "privledger-spool-"
_KEY, _OWNER, _LOCKED = "spool.key", "owner", "locked"
_SCRATCH = re.compile(r"\.(.+)\.[0-9a-f]{12}")


@define(eq=False, repr=False)
class Folder:
    """A place for a table's chunks.

    Attributes:
        path: of the folder, mode 0700; its files have mode 0600.
        key: 32 secret bytes that only a process that can open the folder has.
        lasting: whether it stays when no process uses it any more.
    """

    path: Path
    key: bytes
    lasting: bool
    _end: object = field(init=False, default=None)
    _lock: int = field(init=False, default=-1)
    _pid: int = field(init=False, factory=os.getpid)

    def __attrs_post_init__(self) -> None:
        if not self.lasting:
            self._end = weakref.finalize(self, _remove, str(self.path), os.getpid())

    @classmethod
    def temporary(cls) -> Folder:
        """A fresh one, which goes with its holder, or at the end of the process; what a
        killed process left behind goes first."""
        clear_left_behind()
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
        folder = cls(path, secrets.token_bytes(32), lasting=False)
        # The system gives a lock back when its holder is killed, and sees it from any container.
        folder._lock = os.open(path / _OWNER, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(folder._lock, fcntl.LOCK_EX)
        os.write(folder._lock, _LOCKED.encode())
        weakref.finalize(folder, os.close, folder._lock)
        folder.write(_KEY, [folder.key])
        return folder

    @classmethod
    def at(cls, path: str | Path) -> Folder:
        """One that stays: made where there is none, else gone on with.

        Raises:
            InvalidValue: it is another user's, or others may open it. SpoolError: it cannot be
                made, or is no spool.
        """
        place = Path(path)
        try:
            place.mkdir(mode=0o700, parents=False, exist_ok=True)
            seen = place.stat()
            found = [one for one in place.iterdir() if _unfinished(one) != _KEY]
        except OSError as error:
            raise SpoolError(f"the chunk store's folder cannot be used: {_why(error)}") from None
        if seen.st_uid != os.geteuid():
            raise InvalidValue("spool", "a folder of another user", "your own")
        if seen.st_mode & 0o077:
            raise InvalidValue("spool", "a folder that others may open", "of mode 0700")
        if not found:
            folder = cls(place, secrets.token_bytes(32), lasting=True)
            folder.write(_KEY, [folder.key])
            return folder
        folder = cls(place, key_in(place), lasting=True)
        for one in found:  # what a killed process was writing: rows, maybe
            if _unfinished(one):
                one.unlink(missing_ok=True)
        return folder

    def file(self, name: str) -> Path:
        """Where a file of that name lies."""
        return self.path / name

    def overwrite(self, name: str, pieces: Iterable[Piece]) -> None:
        """A file with these bytes, in the place of what had the name. A crash leaves a torn one:
        its reader knows one by a sum. Renaming over a file would make the disk write it at once.

        Raises:
            SpoolError: there is no room, or it cannot be written.
        """
        try:
            with open(os.open(self.path / name, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
                for piece in pieces:
                    file.write(piece)
                file.truncate()
        except OSError as error:
            raise SpoolError(f"the chunk store cannot be written: {_why(error)}") from None

    def write(self, name: str, pieces: Iterable[Piece]) -> str:
        """A file with these bytes, durably, whole or not at all; and what they hash to.

        Raises:
            SpoolError: there is no room, or it cannot be written.
        """
        scratch = self.path / f".{name}.{secrets.token_hex(6)}"
        digest = hashlib.sha256()
        try:
            with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                for piece in pieces:
                    file.write(piece)
                    digest.update(piece)
                file.flush()
                os.fsync(file.fileno())
            os.replace(scratch, self.path / name)
        except OSError as error:
            scratch.unlink(missing_ok=True)
            raise SpoolError(f"the chunk store cannot be written: {_why(error)}") from None
        return digest.hexdigest()

    def remove(self) -> None:
        """Delete it, and every row in it."""
        _remove(str(self.path), self._pid)


def marks_of(path: Path) -> tuple[int, ...]:
    """What changes when a file is written to or replaced."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def key_in(path: Path) -> bytes:
    """The secret that seals what a spool keeps, as it lies in its folder.

    Raises:
        SpoolError: there is none.
    """
    try:
        key = (path / _KEY).read_bytes()
    except OSError:
        key = b""
    if len(key) != 32:
        raise SpoolError("the folder has no key: it is no chunk store, or its key was lost. "
                         "Nothing was read")
    return key


def _unfinished(path: Path) -> str:
    """What a file was going to be; "" if it is whole."""
    found = _SCRATCH.fullmatch(path.name)
    return "" if found is None else found[1]


def _why(error: OSError) -> str:
    """A cause without a path: paths may be secrets of the owner."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "there is no room left on the disk"
    return os.strerror(error.errno) if error.errno else type(error).__name__


def _remove(path: str, pid: int) -> None:
    with delivered():
        if os.getpid() == pid:  # a forked child leaves it to its parent
            _delete(path)


def _delete(path: str) -> None:
    """Under another name first: a worker that is late finds no place to write rows to. Who made it
    is forgotten last, so that what a killed process leaves is removed at another's start."""
    gone = f"{path}.gone"
    with suppress(OSError):
        os.rename(path, gone)
    for place in (gone, path):
        with suppress(OSError):
            for name in os.listdir(place):
                if name != _OWNER:
                    os.unlink(os.path.join(place, name))
            shutil.rmtree(place)


def clear_left_behind() -> None:
    """Remove the rows that killed processes of this user left on disk.

    Called wherever a ledger is made or opened. It fails in silence, and again the next time.
    """
    for base in {tempfile.gettempdir(), "/tmp", "/var/tmp"}:
        with suppress(OSError):
            for old in os.listdir(base):  # many: a pattern would take as long as an opening
                if old.startswith(_PREFIX):
                    _sweep(Path(base, old))


def _sweep(path: Path) -> None:
    """Remove what a process left that is gone."""
    with suppress(OSError, ValueError):
        if path.lstat().st_uid != os.geteuid() or path.is_symlink():
            return
        with open(os.open(path / _OWNER, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            owner = file.read(20)
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # an error while its holder lives
            # A spool of an earlier version names a process instead.
            if owner == _LOCKED or not (Path(f"/proc/{int(owner)}").exists() or _alive(int(owner))):
                _delete(str(path))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
