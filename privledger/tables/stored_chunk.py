"""What a chunk keeps between passes: codes, running scores, cells, spends. Versioned, in files.

A version is written whole, under its number, and says what it holds; a file that says anything
else, or is torn, is as good as none. What can be computed again is, then; what cannot (spends, and
parts that were fixed) is refused: absence is never zero.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from attrs import define, field

from privledger.errors import SpoolError
from privledger.noise.source import KeyedCoins
from privledger.tables.bins import Bins
from privledger.tables.layout import Array
from privledger.tables.spool import Folder, marks_of

_HEAD = 512


def label_of(*parts: object) -> str:
    """A short name for a file, from whatever tells one thing from another."""
    text = json.dumps([str(part) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def bins_label(bins: Bins) -> str:
    """The same for equal bins of one table, however they were made."""
    digest = hashlib.sha256()
    for place, (column, size) in enumerate(zip(bins.schema.features, bins.sizes(), strict=True)):
        digest.update(f"{column.name}\0{column.kind}\0{size}\0".encode())
        if column.kind == "numeric":
            digest.update(np.asarray(bins.edges(place), dtype="<f8").tobytes())
    return digest.hexdigest()[:24]


@define(eq=False, repr=False)
class StoredChunk:
    """As `Keep`, for one chunk.

    Attributes:
        folder: of the spool. chunk: number of the chunk. content: what its file hashes to: what
            was kept of other rows under its number is none of its own.
        secret: of all coins of the table. name: a lasting name for what coins and versions
            belong to.
        held: which release fixed what, by label: it must be there.
        now: the release that is answered, which what is fixed in it is named after: a task of
            another one that runs late changes nothing of it.
        checked: files that this process has read through, and how they looked then.
    """

    folder: Folder
    chunk: int
    content: str
    secret: bytes
    name: Callable[[object], str]
    held: Mapping[str, str] = field(factory=dict)
    now: str = ""
    checked: dict[str, tuple[tuple[int, ...], str, tuple[int, ...]]] = field(factory=dict)
    fresh: set[str] = field(init=False, factory=set)

    def coins(self, what: object) -> KeyedCoins:
        return KeyedCoins(self.secret, self.name(what), self.chunk)

    def fixed(self, what: object, make: Callable[[], Array]) -> Array:
        label = label_of(self.name(what))
        by = self.held.get(label)
        if by is not None:
            return self.kept("fixed", label_of(label, by))
        self.fresh.add(label)
        array = make()
        self.put("fixed", label_of(label, self.now), array)
        return array

    def matrix(self, bins: Bins, make: Callable[[], Array]) -> Array:
        label = bins_label(bins)
        found = self._mapped("codes", label)
        if found is None:
            self.put("codes", label, make())
            found = self._mapped("codes", label)
        if found is None:
            raise SpoolError("the chunk store does not keep what was written to it")
        return found

    def scores(self, score: object) -> tuple[int, Array] | None:
        label = self.name(score)
        names = [f"{self._stem('score', label)}-{side}" for side in (0, 1)]
        for name in sorted(names, key=self._version, reverse=True):
            found = self._read(name, "score", label)
            if found is not None:
                return found
        return None

    def keep_scores(self, score: object, applied: int, array: Array) -> None:
        label = self.name(score)
        # In the place of the last version but one: the last stays until this one is whole.
        self._write(f"{self._stem('score', label)}-{applied % 2}", "score", label, applied, array)

    def forget(self, slot: str, label: str) -> None:
        """Drop what was kept of something that is gone."""
        for name in (label, f"{label}-0", f"{label}-1"):
            self.drop(slot, name)

    def cells(self, what: object) -> Array | None:
        found = self._read(self._stem("cells", "last"), "cells", self.name(what))
        return None if found is None else found[1]

    def keep_cells(self, what: object, array: Array) -> None:
        self._write(self._stem("cells", "last"), "cells", self.name(what), 0, array)

    def put(self, slot: str, label: str, array: Array) -> None:
        """Write what has one version only."""
        self._write(self._stem(slot, label), slot, label, 0, array)

    def drop(self, slot: str, label: str) -> None:
        """Forget what `put` wrote."""
        with contextlib.suppress(OSError):
            self.folder.file(self._stem(slot, label)).unlink()

    def found(self, slot: str, label: str) -> Array | None:
        """What `put` wrote, if it is there and whole."""
        found = self._read(self._stem(slot, label), slot, label)
        return None if found is None else found[1]

    def kept(self, slot: str, label: str) -> Array:
        """What `put` wrote, and must be there.

        Raises:
            SpoolError: it is not.
        """
        found = self.found(slot, label)
        if found is None:
            # Without its number: how many chunks there are may be private.
            raise SpoolError("a chunk's stored intermediate result is lost and cannot be computed "
                             "again")
        return found

    def _mapped(self, slot: str, label: str) -> Array | None:
        """What `put` wrote, read page by page as it is asked for; all of it once, to check it."""
        path = self.folder.file(self._stem(slot, label))
        with contextlib.suppress(OSError, ValueError):
            marks = marks_of(path)
            known = self.checked.get(path.name)
            if known is None or known[0] != marks:
                array = self.found(slot, label)
                if array is None:
                    return None
                known = self.checked[path.name] = marks, array.dtype.str, array.shape
            return np.memmap(path, dtype=known[1], mode="r", offset=_HEAD, shape=known[2])
        return None

    def _stem(self, slot: str, label: str) -> str:
        return f"{slot}-{self.chunk:07d}-{label}"

    def _write(self, name: str, slot: str, label: str, version: int, array: Array) -> None:
        held = np.ascontiguousarray(array)
        said = [slot, label, self.chunk, self.content, version, held.dtype.str, list(held.shape),
                _sum(held)]
        head = json.dumps([*said, _mark(said)]).encode()
        self.folder.overwrite(name, [head.ljust(_HEAD), held.data])

    def _version(self, name: str) -> int:
        with contextlib.suppress(OSError, ValueError), open(self.folder.file(name), "rb") as file:
            return int(str(_headed(file.read(_HEAD))[4]))
        return -1

    def _read(self, name: str, slot: str, label: str) -> tuple[int, Array] | None:
        try:
            with open(self.folder.file(name), "rb") as file:
                *said, version, kind, shape, check = _headed(file.read(_HEAD))
                if said != [slot, label, self.chunk, self.content]:
                    return None
                array = np.fromfile(file, dtype=kind).reshape(shape)
        except (OSError, ValueError):
            return None
        return None if _sum(array) != check else (int(version), array)


def _headed(head: bytes) -> list[Any]:
    """What a file says of itself.

    Raises:
        ValueError: it is not as it was written.
    """
    said = json.loads(head)
    if not isinstance(said, list) or not said or said[-1] != _mark(said[:-1]):
        raise ValueError
    return said[:-1]


def _mark(said: list[Any]) -> str:
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def _sum(array: Array) -> int:
    """Of all bytes, eight at a time: a torn file has another one. Fast, and no defence against
    a user who can write to the folder."""
    held = array.reshape(-1).view(np.uint8)
    words = len(held) // 8 * 8
    total = int(held[:words].view(np.uint64).sum(dtype=np.uint64))
    return (total + int(held[words:].sum())) % (1 << 64)
