"""Files that people write, TOML and JSON: read strictly, and told where they are wrong. And small
files of our own, which an attacker may have replaced.

UTF-8 only (a byte order mark at the beginning is none of the text), no key twice (two readers could
see two values), no NaN, no endless nesting. Whatever is wrong is an error of usage, and names line
and column where there are any.
"""

from __future__ import annotations

import json
import os
import stat
import tomllib
from codecs import BOM_UTF8
from collections.abc import Iterable
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from secrets import token_hex
from typing import Any, NoReturn, Protocol, TypeVar

from privledger.errors import InvalidPlan

MOST_TEXT = 4 << 20
"""Bytes of a policy, a run file, a schema, a receipt."""

MOST_NAME, MOST_PATH = 255, 4095
"""Bytes of one part of a path, and of all of it."""

_DEEPEST = "less deeply nested"


def load_toml(path: str | Path, what: str) -> dict[str, Any]:
    """A TOML file.

    Args:
        what: it is, for the message.

    Raises:
        InvalidPlan: it cannot be read, or is no TOML; the message says where.
    """
    return parse_toml(_text(path, what), Path(path).name, what)


def load_json(path: str | Path, what: str) -> Any:
    """A JSON file; errors as for `load_toml`."""
    return parse_json(_text(path, what), Path(path).name, what)


def parse_toml(text: str, name: str, what: str) -> dict[str, Any]:
    """TOML; `tomllib` refuses keys that are given twice."""
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise InvalidPlan(what, name, _DEEPEST) from None
    except ValueError as error:  # its text ends with line and column
        raise InvalidPlan(what, name, f"TOML: {error}") from None


def parse_json(text: str, name: str, what: str) -> Any:
    """The value of a JSON text; keys given twice, NaN and Infinity are refused.

    Raises:
        InvalidPlan: it is no such JSON; the message says line and column where there are any.
    """
    try:
        return strict_json(text)
    except RecursionError:
        raise InvalidPlan(what, name, _DEEPEST) from None
    except json.JSONDecodeError as error:
        raise InvalidPlan(what, name, f"JSON: {error.msg} (at line {error.lineno}, column "
                                      f"{error.colno})") from None
    except ValueError as error:
        raise InvalidPlan(what, name, f"JSON: {error}") from None


def _text(path: str | Path, what: str) -> str:
    try:
        kind, data = read_small(path)
    except (OSError, ValueError):
        raise InvalidPlan(what, Path(path).name, "a file that can be read") from None
    if kind:
        raise InvalidPlan(what, Path(path).name, f"a file: it is {kind}")
    if len(data) > MOST_TEXT:
        raise InvalidPlan(what, Path(path).name, f"of at most {MOST_TEXT} bytes")
    try:
        return data.removeprefix(BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise InvalidPlan(what, Path(path).name,
                          f"UTF-8 (at line {line}, column {column})") from None


def path_in(name: str, value: str) -> str:
    """A path that a file names, if it can be one: else nothing could even ask whether it is there.

    Raises:
        InvalidPlan: a zero letter, half a letter, or a part longer than any file system's names.
    """
    try:
        raw = os.fsencode(value)
    except UnicodeError:
        raw = b"\0"
    if b"\0" in raw or len(raw) > MOST_PATH or max(map(len, raw.split(b"/"))) > MOST_NAME:
        raise InvalidPlan(name, value[:60], f"a path: letters, each part of at most {MOST_NAME} "
                                            f"bytes, together at most {MOST_PATH}")
    return value


def kind_of(mode: int) -> str:
    """What a thing in the file system is, in words; empty for a regular file."""
    if stat.S_ISREG(mode):
        return ""
    for is_kind, name in ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"),
                          (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"),
                          (stat.S_ISBLK, "a device")):
        if is_kind(mode):
            return name
    return "no file"


def read_small(path: str | Path) -> tuple[str, bytes]:
    """What a path is instead of a file, and what is in a file: one byte more than `MOST_TEXT`
    at most. A FIFO, a socket or a device is not opened: that alone may wait for ever.

    Raises:
        OSError: it cannot be read. ValueError: not a path.
    """
    kind = kind_of(os.stat(path).st_mode)
    if kind:
        return kind, b""
    # Not blocking: a FIFO may have taken its place meanwhile.
    with os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        kind = kind_of(os.fstat(file.fileno()).st_mode)
        return kind, b"" if kind else file.read(MOST_TEXT + 1)


def read_plain(path: str | Path, most: int) -> tuple[os.stat_result, bytes]:
    """What stands at a path that is no link, and of a plain file its bytes: one more than `most`
    at most. Nothing is waited for.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0)
                         | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            return facts, b""
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return facts, file.read(most + 1)
    finally:
        os.close(descriptor)


def write_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put a file in place, whole or not at all, readable by its owner only or by `mode`.

    Raises:
        OSError: nothing was put there.
    """
    beside = path.with_name(f".{path.name}.{token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(beside, flags, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
        os.replace(beside, path)
    finally:
        with suppress(OSError):
            os.unlink(beside)


def strict_json(text: str | bytes) -> Any:
    """JSON without NaN, and without a key given twice. Raises `ValueError` or `RecursionError`."""
    return json.loads(text, object_pairs_hook=_once, parse_constant=no_number)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice[:60]!r} is given twice in one object")
    return found


def no_number(text: str) -> NoReturn:
    """Refuse NaN and Infinity, which Python's reader of JSON would take."""
    raise ValueError(f"{text} is no number of JSON")


# How far long work is. Nothing is shown unless a command says so; no file knows who looks.

T = TypeVar("T")


class Counting(Protocol):
    """Shows how far long work is."""

    def __call__(self, title: str, items: Iterable[T]) -> Iterable[T]:
        """The same items, counted under `title` as they are taken."""


SHOWN: ContextVar[Counting | None] = ContextVar("SHOWN", default=None)


def stepwise(title: str, items: Iterable[T]) -> Iterable[T]:
    """The items of long work; a command that shows progress counts them as they are taken.

    Args:
        title: what is counted, in words. items: their number is shown where they have one.
    """
    show = SHOWN.get()
    return items if show is None else show(title, items)
