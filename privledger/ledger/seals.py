"""Seals of checkpoints that this user's own processes made, kept outside of the ledger.

Who can write a file can write a checkpoint into it, and a seal that fits. So a checkpoint counts
only if its seal is found here; any other is ignored, and the history is read from the start. A
seal that is lost costs time, nothing else. One that was ever true stays true: it says what the
entries up to its head add up to.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import suppress
from pathlib import Path
from secrets import token_hex

_MOST = 8  # seals of one ledger: several processes may write checkpoints in turn
_LENGTH = 65


def state_folder() -> Path:
    """$XDG_STATE_HOME/privledger, or ~/.local/state/privledger: private to a user and a host."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(home) / "privledger"


def is_known(location: str, uuid: str, seal: str) -> bool:
    """Whether a process of this user made the checkpoint; memory is nobody else's anyway."""
    return location == ":memory:" or seal in _read(_path(uuid))


def remember(location: str, uuid: str, seal: str) -> None:
    """Keep a seal; where that cannot be done, the next opening takes longer."""
    if location == ":memory:":
        return
    path = _path(uuid)
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        beside = path.with_name(f"{path.name}.{token_hex(4)}")
        text = "".join(f"{one}\n" for one in [*_read(path), seal][-_MOST:])
        try:
            descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            os.replace(beside, path)
        finally:
            with suppress(OSError):
                os.unlink(beside)


def _path(uuid: str) -> Path:
    """The name comes from a file that anybody may have written: only its hash is used."""
    return state_folder() / f"{hashlib.sha256(uuid.encode('utf-8', 'replace')).hexdigest()}.seals"


def _read(path: Path) -> list[str]:
    flags = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        descriptor = os.open(path, os.O_RDONLY | flags | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return []
    try:
        facts = os.fstat(descriptor)
        ours = not hasattr(os, "geteuid") or (
            facts.st_uid == os.geteuid() and not facts.st_mode & 0o022)
        if not stat.S_ISREG(facts.st_mode) or not ours:
            return []
        return os.read(descriptor, _MOST * _LENGTH).decode("ascii", "replace").split()
    except OSError:
        return []
    finally:
        os.close(descriptor)
