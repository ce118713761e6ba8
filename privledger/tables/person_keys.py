"""The key of an owner's people: in a file that no other user can read, and in this process only.

It is no part of a ledger, of an argument list, a message, a log, a repr or a pickle. A ledger
keeps a check value, which tells a wrong key from the right one and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.mutex import Uncopied

LEAST = 16
"""Bytes of a key that is given as bytes. A new one has 32."""

_SIZE, _BLOCK = 32, 64
_HEAD = "privledger people key 1"
_MOST_FILE = 4096
_CHECK = b"privledger people key check 1"


KeyGiven: TypeAlias = "bytes | str | os.PathLike[str] | PeopleKey"
"""A key, or where it is: bytes, the path of its file, or what was made of it."""


class PeopleKey(Uncopied):
    """A key that can mark, and shows nothing of itself.

    It holds the two halves of HMAC-SHA256 with the key in them, never the key.
    """

    __slots__ = ("_inner", "_outer")
    _UNPICKLED = "a people key cannot be pickled: the other process has to open its file"

    def __init__(self, key: bytes) -> None:
        if not isinstance(key, bytes) or len(key) < LEAST:
            raise InvalidValue("people_key", "a shorter one, or none", f"at least {LEAST} bytes")
        block = (hashlib.sha256(key).digest() if len(key) > _BLOCK else key).ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in block))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in block))

    @property
    def check(self) -> str:
        """What a ledger keeps of the key: a mark of a fixed label, 32 hexadecimal digits."""
        return next(self.marks(_CHECK, [""], 16)).hex()

    def marks(self, purpose: bytes, texts: Sequence[str], size: int) -> Iterator[bytes]:
        """HMAC-SHA256 of each text behind `purpose`, cut to `size` bytes."""
        inner, end = self._inner.copy(), self._outer.copy
        inner.update(purpose)  # the same for all of them
        begin = inner.copy
        for text in texts:
            first, second = begin(), end()
            first.update(text.encode("utf-8"))
            second.update(first.digest())
            yield second.digest()[:size]

    def __repr__(self) -> str:
        return "PeopleKey(hidden)"


def passing_people_key() -> PeopleKey:
    """A key that is never handed out: no person is looked up in a ledger in memory."""
    return PeopleKey(secrets.token_bytes(2 * LEAST))


def people_key(given: object) -> PeopleKey:
    """A key from what an owner gives: a file's path, bytes, or a key.

    Raises:
        InvalidValue: none of these, or a file that is no key, or that others can read.
    """
    if type(given) is PeopleKey:
        return given
    if isinstance(given, bytes):
        return PeopleKey(given)
    if isinstance(given, str | os.PathLike):
        return read_people_key(given)
    raise InvalidValue("people_key", type(given).__name__, "the path of a key file, or bytes")


def read_people_key(path: str | os.PathLike[str]) -> PeopleKey:
    """A key from its file.

    Raises:
        InvalidValue: no file, not a key, or one that another user can read or write.
    """
    name = Path(path).name
    try:
        # Without waiting for a pipe's other end; what is no file is refused below.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except (OSError, ValueError):
        # Not what was given: it may be the key itself, by mistake.
        raise InvalidValue("people key file", "a path", "of a file that can be read") from None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise InvalidValue("people key file", name, "a file, and nothing else")
        if os.name == "posix" and about.st_mode & 0o077:
            raise InvalidValue("people key file", name,
                               "readable by its owner only (chmod 600): others can read it now")
        data = os.read(handle, _MOST_FILE)
    finally:
        os.close(handle)
    return PeopleKey(_parsed(data, name))


def _parsed(data: bytes, name: str) -> bytes:
    with contextlib.suppress(UnicodeDecodeError, ValueError):
        head, _, text = data.decode("ascii").strip().partition("\n")
        key = bytes.fromhex(text)
        if head.strip() == _HEAD and len(key) == _SIZE:
            return key
    raise InvalidValue("people key file", name, "one that `privledger people-key` made")


def make_people_key(path: str | os.PathLike[str]) -> PeopleKey:
    """A new key in a new file, which its owner alone can read.

    Raises:
        InvalidValue: there is something already, or nothing can be made there.
    """
    name = Path(path).name
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise InvalidValue("people key file", name, "a new file: overwriting a key loses every "
                                                    "link to its ledgers' people") from None
    except (OSError, ValueError):
        raise InvalidValue("people key file", name, "a writable path") from None
    key = secrets.token_bytes(_SIZE)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(f"{_HEAD}\n{key.hex()}\n")
        file.flush()
        os.fsync(file.fileno())
    return PeopleKey(key)


# What a ledger keeps of a person: HMAC-SHA256 of the id under the owner's key, cut to 16 bytes.
#
# With the key one can look a person up, and try guesses; without it one learns how many people
# there are, and which of them are in two places under one key.

SIZE = 16
"""Bytes of a digest. Two of 10^9 people share one with a chance below 10^-20."""

PURPOSE = b"privledger person 1:"

Digests: TypeAlias = NDArray[np.uint64]
"""Shape (n, 2): sixteen bytes as two numbers that compare as the bytes do."""


def digests(key: PeopleKey, ids: Sequence[str]) -> Digests:
    """Digests of ids as `spelt`."""
    return key_from_bytes(b"".join(key.marks(PURPOSE, ids, SIZE)))


def key_from_bytes(data: bytes) -> Digests:
    """Digests in a row of bytes."""
    return np.frombuffer(data, ">u8").reshape(-1, 2).astype(np.uint64)


def key_to_bytes(found: Digests) -> bytes:
    """The inverse of `from_bytes`."""
    return found.astype(">u8").tobytes()
