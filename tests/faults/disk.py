"""A process whose disk obeys the test: it forks one child per trial, below the layer of files.c.

Only calls of the C library are seen: pwrite, write, fsync, fdatasync, ftruncate, unlink, link,
rename. Shared memory (the `-shm` file is mapped) does not need to survive and is not part of it.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

HERE = Path(__file__).parent
MODES = {"none": 0, "fail": 1, "fail from": 2, "short": 3, "kill before": 4, "kill short": 5,
         "kill after": 6}
WRITE, SYNC, TRUNCATE, NAMES = 1, 2, 4, 8
ALL = WRITE | SYNC | TRUNCATE | NAMES
HEAD = struct.Struct("=4q")
ACK = ord("A")
Record = tuple[str, str, int, int, bytes]


class Disk:
    """Asks the server process for trials."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is None or not sys.platform.startswith("linux"):
            pytest.skip("no C compiler, or not Linux: the layer below SQLite cannot be made")
        library = folder / "files.so"
        made = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library),
                               str(HERE / "files.c"), "-ldl"],
                              capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        root = str(HERE.parents[1])
        path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.trial", str(library)], cwd=root,
            env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": path},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def trial(self, work: str, path: Path, *, mode: str = "none", at: int = 0, error: int = 0,
              kinds: int = ALL, log: Path | None = None, synchronous: bool = True) -> dict:
        """Run `work` in a child. Returns `status` (of the process), `calls`, and `acks`: what
        the child was told by the ledger, in order."""
        order = {"work": work, "path": str(path), "mode": MODES[mode], "at": at, "error": error,
                 "kinds": kinds, "log": None if log is None else str(log),
                 "synchronous": synchronous}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the trial server died"
        return json.loads(line)

    def close(self) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(120)


def records(log: Path) -> list[Record]:
    """The log: (kind, file, offset, size, data); an acknowledgement is of kind "A"."""
    raw, place, found = log.read_bytes(), 0, []
    while place + HEAD.size <= len(raw):
        kind, name, offset, size = HEAD.unpack_from(raw, place)
        place += HEAD.size
        path = raw[place:place + name].decode()
        place += name
        held = size if chr(kind) in "wArl" else 0
        found.append((chr(kind), path, offset, size, raw[place:place + held]))
        place += held
    return found


def acknowledge(log: int, text: str) -> None:
    """Put an acknowledgement between the records, from the process that is under test."""
    data = text.encode()
    os.write(log, HEAD.pack(ACK, 0, 0, len(data)) + data)


class Platter:
    """What is on the disk: what was synced stays, anything else may or may not.

    A file keeps its name for certain, and a removal holds, only after a sync of the folder.
    """

    def __init__(self, before: dict[str, bytes] | None = None) -> None:
        self.safe = {path: bytearray(data) for path, data in (before or {}).items()}
        self.named = set(self.safe)
        self.loose: list[Record] = []

    def take(self, record: Record) -> None:
        kind, path, *_ = record
        if path.endswith("-shm") or kind not in "wturls":
            return
        if kind != "s":
            self.loose.append(record)
            return
        if any(Path(known).parent == Path(path) for known in self.files()):  # the folder
            self.named |= set(self.files())
            for gone in [one[1] for one in self.loose if one[0] in "url"]:
                self._settle(gone)
        else:
            self._settle(path)

    def _settle(self, path: str) -> None:
        for one in self.loose:
            if one[1] == path:
                apply(self.safe, one)
        self.loose = [one for one in self.loose if one[1] != path]

    def files(self) -> list[str]:
        return [*self.safe, *(one[1] for one in self.loose)]

    def images(self, random: Random, number: int) -> Iterator[dict[str, bytes]]:
        """The disk after a power cut now: nothing loose, all of it, and random parts of it."""
        yield self._image([], self.named)
        yield self._image(self.loose, set(self.files()))
        for _ in range(number if self.loose else 0):
            kept = {path for path in self.files() if path in self.named or random.random() < 0.5}
            yield self._image(list(self._some(random)), kept)

    def _some(self, random: Random) -> Iterator[Record]:
        for one in self.loose:
            kind, path, offset, size, data = one
            luck = random.random()
            if luck < 0.5:
                yield one
            elif luck < 0.7 and kind == "w":  # torn at a sector
                part = min(size, 512 * random.randint(0, max(1, size // 512)))
                yield kind, path, offset, part, data[:part]

    def _image(self, chosen: list[Record], kept: set[str]) -> dict[str, bytes]:
        files = {path: bytearray(data) for path, data in self.safe.items()}
        for one in chosen:
            apply(files, one)
        return {path: bytes(data) for path, data in files.items() if path in kept}


def apply(files: dict[str, bytearray], record: Record) -> None:
    kind, path, offset, size, data = record
    if kind == "u":
        files.pop(path, None)
    elif kind == "l":
        if data.decode() in files:
            files[path] = files[data.decode()]  # two names of one file
    elif kind == "r":
        files[path] = files.pop(data.decode(), bytearray())
    else:
        held = files.setdefault(path, bytearray())
        if kind == "t":
            del held[offset:]
            held.extend(bytes(offset - len(held)))
        else:
            held.extend(bytes(max(0, offset + size - len(held))))
            held[offset:offset + size] = data
