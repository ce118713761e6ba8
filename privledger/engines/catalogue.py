"""Objects that questions share, by number: written down once by the driver, read by every worker.

Cells, bins and scores keep caches, coins and parts by identity, so the same object must be the same
everywhere. The driver gives each a number and appends what it is to a file of the spool; a task
says how far a worker has to read. Updates of a score are lines of the same file: a worker's score
stands where the task's stood, or the task is not answered.
"""

from __future__ import annotations

import io
import pickle
import secrets
import sys
import weakref
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary

from attrs import define, field, frozen

from privledger.engines.messages import seal, unseal
from privledger.errors import SpoolError, UnsupportedNode
from privledger.questions.closed_set import NUMBERED
from privledger.questions.feature_choice import ScoreName
from privledger.questions.score import Score
from privledger.tables.bins import Bins
from privledger.tables.schema import Schema
from privledger.tables.spool import Folder
from privledger.tables.stored_chunk import bins_label

# Modules that a worker may load beside its libraries: what the driver has loaded, nothing else.


NEEDED: Final = ("numpy", "attr", "attrs", "scipy", "privledger")
_FOUND: Final = {*sys.stdlib_module_names, *NEEDED, "__main__"}


def is_found(module: str) -> bool:
    """Whether a worker finds this module without being told where it is."""
    return module.partition(".")[0] in _FOUND


def loaded_modules() -> dict[str, list[str]]:
    """The other modules at the top that this process has loaded, and the folders that have them."""
    found = {name: getattr(module, "__path__", None) or [getattr(module, "__file__", None)]
             for name, module in tuple(sys.modules.items()) if "." not in name}
    return {name: [str(Path(place).resolve().parent) for place in places]
            for name, places in found.items() if not is_found(name) and None not in places}


@frozen
class LoadedModules:
    """A finder of these modules by name, for after every other has failed."""

    folders: dict[str, list[str]]

    def find_spec(self, name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> ModuleSpec | None:
        """As `importlib.abc.MetaPathFinder` says."""
        return PathFinder.find_spec(name, self.folders[name]) if name in self.folders else None


_KINDS: Final = (*NUMBERED, Schema, ScoreName)
_LENGTH: Final = 8


class LateObject(Exception):
    """A task that speaks of an earlier state than this worker has seen."""


@define(eq=False, repr=False)
class Catalogue:
    """The driver's side.

    Attributes:
        folder: of the spool. name: of the file there, this table's own.
    """

    folder: Folder
    name: str = field(init=False, factory=lambda: f"catalogue-{secrets.token_hex(8)}")
    _numbers: WeakKeyDictionary[object, int] = field(init=False, factory=WeakKeyDictionary)
    _told: WeakKeyDictionary[Score, int] = field(init=False, factory=WeakKeyDictionary)
    _dead: list[tuple[str, str]] = field(init=False, factory=list)
    _next: int = field(init=False, default=1)
    _modules: dict[str, list[str]] = field(init=False, factory=dict)
    _lines: int = field(init=False, default=0)
    _size: int = field(init=False, default=0)

    def __attrs_post_init__(self) -> None:
        self.folder.write(self.name, [])

    @property
    def lines(self) -> int:
        """How many were written."""
        return self._lines

    def number(self, what: object) -> int:
        """The number of an object, which is written down when it is asked for first."""
        known = self._numbers.get(what)
        if known is None:
            text = _dumped(self, what, top=True)
            known = self._next
            self._write(("define", known, text))
            self._numbers[what], self._next = known, known + 1  # once it is written down
            self._watch(what, known)
        if type(what) is Score:
            self._follow(what, known)
        for inner in getattr(what, "below", ()):
            self.number(inner)
        return known

    def described(self, what: object) -> bytes:
        """Anything that may hold numbered objects, as `Read.built` reads it.

        Raises:
            UnsupportedNode: it holds what cannot go to another process.
        """
        return _dumped(self, what, top=False)

    def _watch(self, what: object, number: int) -> None:
        """Note when a score, or bins that were bought, are no longer referred to."""
        if type(what) is Score:
            weakref.finalize(what, self._dead.append, ("score", catalogue_name(self.name, number)))
        elif type(what) is Bins and what.cuts:
            weakref.finalize(what, self._dead.append, ("codes", bins_label(what)))

    def dead(self) -> list[tuple[str, str]]:
        """Slot and label of what chunks need not keep any more; each once."""
        found = list(self._dead)
        del self._dead[: len(found)]  # the list itself stays: finalizers hold it
        return found

    def _follow(self, score: Score, number: int) -> None:
        told = self._told.get(score, 0)
        for cells, values in score.updates(told):
            self._write(("update", number, _dumped(self, (cells, values), top=False)))
            told = self._told[score] = told + 1  # one by one: the next may fail

    def tell_modules(self) -> None:
        """Write down the modules that are loaded here, if there are more than last time."""
        if self._modules != (now := loaded_modules()):
            self._write(("modules", 0, pickle.dumps(now)))
            self._modules = now

    def _write(self, line: tuple[str, int, bytes]) -> None:
        sealed = seal(self.folder.key, f"{self.name} {self._lines}", pickle.dumps(line))
        try:
            with open(self.folder.file(self.name), "r+b") as file:
                file.seek(self._size)  # over half a line, if the last one failed
                file.write(len(sealed).to_bytes(_LENGTH, "little") + sealed)
        except OSError:
            raise SpoolError("the chunk store cannot be written") from None
        self._lines, self._size = self._lines + 1, self._size + _LENGTH + len(sealed)


@define(eq=False, repr=False)
class Read:
    """A worker's side.

    Attributes:
        folder: of the spool. file: the name of a catalogue there.
    """

    folder: Folder
    file: str
    _objects: dict[int, object] = field(init=False, factory=dict)
    _numbers: WeakKeyDictionary[object, int] = field(init=False, factory=WeakKeyDictionary)
    _lines: int = field(init=False, default=0)
    _place: int = field(init=False, default=0)

    def follow(self, lines: int) -> None:
        """Read so many lines in all.

        Raises:
            Late: more were read already. SpoolError: they are not there.
        """
        if self._lines > lines:
            raise LateObject
        if self._lines == lines:
            return
        with open(self.folder.file(self.file), "rb") as file:
            file.seek(self._place)
            while self._lines < lines:
                size = int.from_bytes(file.read(_LENGTH), "little")
                sealed = file.read(size)
                if not size or len(sealed) < size:
                    raise SpoolError("the catalogue of the chunk store is truncated")
                self._take(unseal(self.folder.key, f"{self.file} {self._lines}", sealed))
                self._lines, self._place = self._lines + 1, file.tell()

    def _take(self, line: bytes) -> None:
        kind, number, text = pickle.loads(line)
        if kind == "modules":
            return sys.meta_path.append(LoadedModules(pickle.loads(text)))
        if kind == "define":
            made = self.built(text)
            self._objects[number] = made
            self._numbers[made] = number
            return
        score, update = self._objects[number], self.built(text)
        assert isinstance(score, Score)
        assert isinstance(update, tuple)
        cells, values = update
        score.add(cells, values)

    def built(self, text: bytes) -> object:
        """The inverse of `Catalogue.described`."""
        return _Loader(io.BytesIO(text), self._objects).load()

    def name(self, what: object) -> str:
        """A lasting name of a numbered object."""
        return catalogue_name(self.file, self._numbers[what])


def catalogue_name(catalogue: str, number: int) -> str:
    """A lasting name of an object: of this catalogue's, and of no other's."""
    return f"{catalogue[-16:]}-{number}"


class _Dumper(pickle.Pickler):
    def __init__(self, file: io.BytesIO, catalogue: Catalogue, top: object) -> None:
        super().__init__(file, protocol=5)
        self._catalogue, self._top = catalogue, top

    def persistent_id(self, what: object) -> int | None:
        """Numbered objects by their numbers; a seal by none, as it leads nowhere there."""
        if what is self._top:
            return None
        if type(what).__name__ == "Seal":
            return 0
        return self._catalogue.number(what) if type(what) in _KINDS else None

    def reducer_override(self, what: object) -> Any:
        """A score without its updates: those are lines of their own. Nothing of the script that
        runs: a worker's `__main__` is another one."""
        module = getattr(what, "__module__", None) if callable(what) else None
        if module == "__main__":
            raise pickle.PicklingError
        if isinstance(module, str) and not is_found(module):
            self._catalogue.tell_modules()
        if type(what) is Score:
            return Score, (what.loss, what.start, what.center, what.scale)
        return NotImplemented


class _Loader(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, objects: dict[int, object]) -> None:
        super().__init__(file)
        self._objects = objects

    def persistent_load(self, number: int) -> object:
        """What a number stands for."""
        return None if number == 0 else self._objects[number]


def _dumped(catalogue: Catalogue, what: object, *, top: bool) -> bytes:
    file = io.BytesIO()
    try:
        _Dumper(file, catalogue, what if top else None).dump(what)
    except (pickle.PicklingError, AttributeError, TypeError):
        pass
    else:
        return file.getvalue()
    raise UnsupportedNode("a function that another process cannot load: define it at the top of a "
                          "module. Nothing was read") from None
