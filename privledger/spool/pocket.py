"""What a chunk keeps between passes: codes, running scores, cells, spends. Versioned, in files.

A version is written whole, under its number, and says what it holds; a file that says anything
else, or is torn, is as good as none. What can be computed again is, then; what cannot (spends, and
parts that were fixed) is refused: absence is never zero.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import zlib
from collections.abc import Callable, Mapping

import numpy as np
from attrs import define, field

from privledger.errors import SpoolError
from privledger.facts.bins import Bins
from privledger.noise.streams import KeyedCoins
from privledger.spool.folder import Folder
from privledger.spool.layout import Array

_HEAD = 512


def label_of(*parts: object) -> str:
    """A short name for a file, from whatever tells one thing from another."""
    text = json.dumps([str(part) for part in parts])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def bins_label(bins: Bins) -> str:
    """The same for equal bins of one table, whoever made them."""
    digest = hashlib.sha256()
    for place, (column, size) in enumerate(zip(bins.schema.features, bins.sizes(), strict=True)):
        digest.update(f"{column.name}\0{column.kind}\0{size}\0".encode())
        if column.kind == "numeric":
            digest.update(np.asarray(bins.edges(place), dtype="<f8").tobytes())
    return digest.hexdigest()[:24]


@define(eq=False, repr=False)
class Pocket:
    """As `Keep`, for one chunk.

    Attributes:
        folder: of the spool. chunk: number of the chunk. rows: how many it has.
        secret: of all coins of the table. name: a lasting name for what coins and versions
            belong to.
        held: which release fixed what, by label: it must be there.
        now: the release that is answered, which what is fixed in it is named after: a task of
            another one that runs late changes nothing of it.
    """

    folder: Folder
    chunk: int
    rows: int
    secret: bytes
    name: Callable[[object], str]
    held: Mapping[str, str] = field(factory=dict)
    now: str = ""
    fresh: set[str] = field(init=False, factory=set)

    def coins(self, what: object) -> KeyedCoins:
        """As `Keep.coins`."""
        return KeyedCoins(self.secret, self.name(what), self.chunk)

    def fixed(self, what: object, make: Callable[[], Array]) -> Array:
        """As `Keep.fixed`."""
        label = label_of(self.name(what))
        by = self.held.get(label)
        if by is not None:
            return self.kept("fixed", label_of(label, by))
        self.fresh.add(label)
        array = make()
        self.put("fixed", label_of(label, self.now), array)
        return array

    def matrix(self, bins: Bins, make: Callable[[], Array]) -> Array:
        """As `Keep.matrix`."""
        label = bins_label(bins)
        found = self.found("codes", label)
        if found is None:
            found = make()
            self.put("codes", label, found)
        return found

    def load(self, slot: str, what: object) -> tuple[int, Array] | None:
        """As `Keep.load`."""
        label = self.name(what)
        return self._read(f"{self._stem(slot, label)}.now", slot, label)

    def store(self, slot: str, what: object, version: int, array: Array) -> None:
        """As `Keep.store`."""
        label = self.name(what)
        self._write(f"{self._stem(slot, label)}.now", slot, label, version, array)

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
            raise SpoolError(f"what chunk {self.chunk} kept is lost: it cannot be computed again")
        return found

    def _stem(self, slot: str, label: str) -> str:
        return f"{slot}-{self.chunk:07d}-{label}"

    def _write(self, name: str, slot: str, label: str, version: int, array: Array) -> None:
        held = np.ascontiguousarray(array)
        said = json.dumps([slot, label, self.chunk, version, held.dtype.str, held.shape,
                           zlib.crc32(held.data)])
        self.folder.write(name, [said.encode().ljust(_HEAD), held.data], durable=False)

    def _read(self, name: str, slot: str, label: str) -> tuple[int, Array] | None:
        try:
            with open(self.folder.file(name), "rb") as file:
                *said, version, kind, shape, check = json.loads(file.read(_HEAD))
                array = np.fromfile(file, dtype=kind).reshape(shape)
        except (OSError, ValueError):
            return None
        if said != [slot, label, self.chunk] or zlib.crc32(array.data) != check:
            return None
        return int(version), array
