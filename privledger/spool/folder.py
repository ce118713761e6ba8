"""The folder of a spool: closed to others, written whole or not at all, and cleaned up."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from pathlib import Path

from attrs import define, field

from privledger.errors import InvalidValue, SpoolError
from privledger.mutex import delivered
from privledger.spool.layout import Piece

_PREFIX = "privledger-spool-"
_KEY, _OWNER = "spool.key", "owner"
_SCRATCH = re.compile(r"\.(.+)\.[0-9a-f]{12}")


@define(eq=False, repr=False)
class Folder:
    """A place for a table's chunks.

    Attributes:
        path: of the folder, mode 0700; its files have mode 0600.
        key: 32 secret bytes that only whoever can open the folder has.
        lasting: whether it stays when nobody uses it any more.
    """

    path: Path
    key: bytes
    lasting: bool
    _end: object = field(init=False, default=None)
    _pid: int = field(init=False, factory=os.getpid)

    def __attrs_post_init__(self) -> None:
        if not self.lasting:
            self._end = weakref.finalize(self, _remove, str(self.path), os.getpid())

    @classmethod
    def temporary(cls) -> Folder:
        """A fresh one, which goes with whoever holds it, or at the end of the process; what a
        killed process left behind goes first."""
        clear_left()
        path = Path(tempfile.mkdtemp(prefix=_PREFIX))  # mode 0700
        folder = cls(path, secrets.token_bytes(32), lasting=False)
        folder.write(_OWNER, [f"{os.getpid()} {_started(os.getpid())}".encode()])
        folder.write(_KEY, [folder.key])
        return folder

    @classmethod
    def at(cls, path: str | Path) -> Folder:
        """One that stays: made where there is none, else gone on with.

        Raises:
            InvalidValue: others may open it. SpoolError: it cannot be made, or is no spool.
        """
        place = Path(path)
        try:
            place.mkdir(mode=0o700, parents=False, exist_ok=True)
            state = place.stat()
            mode = state.st_mode & 0o077
            found = [one for one in place.iterdir() if _unfinished(one) != _KEY]
        except OSError as error:
            raise SpoolError(f"the spool folder cannot be used: {_why(error)}") from None
        if mode or not _is_own(state):
            raise InvalidValue("spool", "a folder that others may open", "of mode 0700, and one's "
                               "own: whoever has made it can read what is put there")
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
            raise SpoolError(f"the spool cannot be written: {_why(error)}") from None

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
            raise SpoolError(f"the spool cannot be written: {_why(error)}") from None
        return digest.hexdigest()

    def remove(self) -> None:
        """Delete it, and every row in it."""
        _remove(str(self.path), self._pid)


def marks_of(path: Path) -> tuple[int, ...]:
    """What changes when a file is written to or replaced."""
    found = os.stat(path)
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def key_in(path: Path) -> bytes:
    """The key of a spool.

    Raises:
        SpoolError: there is none.
    """
    try:
        key = (path / _KEY).read_bytes()
    except OSError:
        key = b""
    if len(key) != 32:
        raise SpoolError("the spool folder has no key: it is not a spool, or its key was lost. "
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
            shutil.rmtree(path, ignore_errors=True)


def clear_left() -> None:
    """Remove the chunk stores that killed processes of this user left in the temporary folder:
    they hold rows. Whoever opens a ledger calls it, with an engine or without."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            owner, _, started = (path / _OWNER).read_text().partition(" ")
            pid, mine = int(owner), _is_own(path.lstat())
        except (OSError, ValueError):
            continue
        if mine and not path.is_symlink() and not _alive(pid, started):
            shutil.rmtree(path, ignore_errors=True)


def _is_own(state: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or state.st_uid == os.geteuid()


def _started(pid: int) -> str:
    """A mark that tells a process from a later one of its number; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _alive(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    now = _started(pid)
    return not (started and now and started != now)
