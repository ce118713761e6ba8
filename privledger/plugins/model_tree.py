"""Values <-> a typed tree of JSON values beside a list of arrays. Closed: the rest is refused.

null, true, 5, 0.5 and "text" are themselves. Everything else is an object with one key:

    {"float": "nan"}            a float that JSON has no word for
    {"list": [...]}, {"tuple": [...]}, {"dict": [[key, value], ...]}
    {"array": 3}, {"number": 3} the array of that number; its only element
    {"texts": {"shape": [2], "kind": "O", "items": ["no", "yes"]}}
    {"record": "Tree", "fields": {...}}   a record that this package or the learner declares
    {"same": 7}                 the record that was complete after seven others
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.errors import ModelError, PrivledgerError
from privledger.plugins.model_parts import KNOWN, MOST_CELL_BYTES, Known

MOST_NESTED = 64
DTYPES = {name: np.dtype(f"<{name}") for name in (
    "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")} | {"b1": np.dtype("?")}
_BEYOND = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MOST_INT = 1 << 63
_KINDS = ("O", "U")


def leave_out(one: attrs.Attribute[Any]) -> bool:
    """Whether a field of a learner's record stays out: computed ones, and those that say so."""
    return not one.init or one.metadata.get("model") is False


@frozen
class Records:
    """Kinds of records by name: this package's, and those that one learner declares."""

    by_name: Mapping[str, type]

    @staticmethod
    def of(learner: Any) -> Records:
        """Raises `ModelError` if the learner declares something else than its own records."""
        found: dict[str, type] = {kind.__name__: kind for kind in KNOWN}
        for kind in getattr(learner, "model_records", ()):
            if not isinstance(kind, type) or not attrs.has(kind) or kind.__name__ in found:
                raise ModelError("model_records lists attrs classes of different names, none of "
                                 "them of this package")
            found[kind.__name__] = kind
        return Records(found)

    def known(self, kind: type) -> Known | None:
        """How a kind is kept; None if it is none of them."""
        if self.by_name.get(kind.__name__) is not kind:
            return None
        if kind in KNOWN:
            return KNOWN[kind]
        kept = [one for one in attrs.fields(kind) if not leave_out(one)]
        return Known(lambda value: {_alias(one): getattr(value, one.name) for one in kept},
                     lambda found: _build(kind, found, kept))


def _alias(one: attrs.Attribute[Any]) -> str:
    return one.alias or one.name


def _build(kind: type, found: dict[str, Any], kept: list[attrs.Attribute[Any]]) -> Any:
    """A record whose later fields have defaults: files from before they existed lack them."""
    needed = {_alias(one) for one in kept if one.default is attrs.NOTHING}
    if not needed <= set(found) <= {_alias(one) for one in kept}:
        raise ModelError(f"{kind.__name__} has other fields than the learner's")
    return kind(**found)


@define(eq=False)
class Writer:
    """Values -> tree; arrays are collected in order."""

    records: Records
    arrays: list[NDArray[Any]] = field(factory=list)
    _seen: dict[int, tuple[int, Any]] = field(factory=dict)

    def tree(self, value: Any, place: str, depth: int = 0) -> Any:
        """Raises `ModelError` that names the place of what cannot be kept."""
        if depth > MOST_NESTED:
            raise ModelError(f"{place} is nested too deeply to be kept in a model file")
        if value is None or type(value) in (bool, str):
            return value
        if type(value) is int and abs(value) < _MOST_INT:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": str(value)}
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value, place)
        if type(value) in (list, tuple):
            return {type(value).__name__: [self.tree(item, f"{place}[{number}]", depth + 1)
                                           for number, item in enumerate(value)]}
        if type(value) is dict:
            return {"dict": [[self._key(key, place), self.tree(item, f"{place}[{key!r:.40}]",
                                                               depth + 1)]
                             for key, item in value.items()]}
        return self._record(value, place, depth)

    @staticmethod
    def _key(key: Any, place: str) -> Any:
        if type(key) not in (str, int, bool):
            raise ModelError(f"{place} has a key that is no text and no number")
        return key

    def _array(self, value: Any, place: str) -> Any:
        held = np.asarray(value)
        if held.dtype.kind in _KINDS:
            items = held.ravel().tolist()
            if any(type(item) not in (str, int, float, bool) or item != item for item in items):
                raise ModelError(f"{place} is an array of something else than numbers and texts")
            return {"texts": {"shape": list(held.shape), "kind": held.dtype.kind, "items": items}}
        dtype = DTYPES.get(f"{held.dtype.kind}{held.dtype.itemsize}")
        if dtype is None:
            raise ModelError(f"{place} is an array of {held.dtype}, which is not kept")
        self.arrays.append(np.array(held, dtype=dtype, order="C"))
        return {"number" if isinstance(value, np.generic) else "array": len(self.arrays) - 1}

    def _record(self, value: Any, place: str, depth: int) -> Any:
        seen = self._seen.get(id(value))
        if seen is not None:
            return {"same": seen[0]}
        known = self.records.known(type(value))
        if known is None:
            raise ModelError(
                f"{place} holds a {type(value).__name__}: a model file holds arrays, numbers, "
                "texts, and records that the learner declares in model_records")
        fields = {name: self.tree(item, f"{place}.{name}", depth + 1)
                  for name, item in sorted(known.write(value).items())}
        self._seen[id(value)] = len(self._seen), value
        return {"record": type(value).__name__, "fields": fields}


@define(eq=False)
class TreeReader:
    """Tree -> values. Builds records by their own constructors; calls nothing else."""

    records: Records
    arrays: list[NDArray[Any]]
    _made: list[Any] = field(factory=list)
    _weight: int = 0

    def value(self, tree: Any, depth: int = 0) -> Any:
        """Raises `ModelError`: it is no tree of this format."""
        if tree is None or isinstance(tree, bool | str):
            return tree
        if isinstance(tree, int | float):
            if not (abs(tree) < _MOST_INT or isinstance(tree, float)) or tree != tree:
                raise ModelError("a number out of range")
            return tree
        if depth > MOST_NESTED or not isinstance(tree, dict):
            raise ModelError("a value of an unknown kind, or nested too deeply")
        if "record" in tree:
            return self._record(tree, depth)
        kind = next(iter(tree), "")
        if len(tree) != 1 or kind not in _READ:
            raise ModelError("a value of an unknown kind")
        return _READ[kind](self, tree[kind], depth + 1)

    def _items(self, found: Any) -> list[Any]:
        if not isinstance(found, list):
            raise ModelError("a list was expected")
        return found

    def _float(self, found: Any, depth: int) -> float:
        if not isinstance(found, str) or found not in _BEYOND:
            raise ModelError("an unknown float")
        return _BEYOND[found]

    def _list(self, found: Any, depth: int) -> list[Any]:
        return [self.value(item, depth) for item in self._items(found)]

    def _tuple(self, found: Any, depth: int) -> tuple[Any, ...]:
        return tuple(self._list(found, depth))

    def _dict(self, found: Any, depth: int) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for pair in self._items(found):
            if not isinstance(pair, list) or len(pair) != 2 or (
                    not isinstance(pair[0], str | int) or pair[0] in made):
                raise ModelError("a table with keys that are none, or twice the same")
            made[pair[0]] = self.value(pair[1], depth)
        return made

    def _array(self, found: Any, depth: int) -> NDArray[Any]:
        if isinstance(found, bool) or not isinstance(found, int) or (
                not 0 <= found < len(self.arrays)):
            raise ModelError("an array that is not there")
        return self.arrays[found]

    def _number(self, found: Any, depth: int) -> Any:
        held = self._array(found, depth)
        if held.shape != ():
            raise ModelError("a number that is an array")
        return held[()]

    def _texts(self, found: Any, depth: int) -> NDArray[Any]:
        if not isinstance(found, dict) or set(found) != {"shape", "kind", "items"} or (
                found["kind"] not in _KINDS):
            raise ModelError("texts of an unknown kind")
        shape, items = self._items(found["shape"]), self._items(found["items"])
        if any(isinstance(size, bool) or not isinstance(size, int) or size < 0
               for size in shape) or len(shape) > 2 or math.prod(shape) != len(items) or any(
                   not isinstance(item, str | int | float) for item in items):
            raise ModelError("texts that do not have their shape")
        if found["kind"] == "U":
            longest = max((len(item) for item in items if isinstance(item, str)), default=0)
            if longest * len(items) > 1 << 24 or any(not isinstance(one, str) for one in items):
                raise ModelError("texts that are too long, or none")
            return np.array(items, dtype=f"U{max(1, longest)}").reshape(shape)
        made = np.empty(len(items), dtype=object)
        made[:] = items
        return made.reshape(shape)

    def _same(self, found: Any, depth: int) -> Any:
        if isinstance(found, bool) or not isinstance(found, int) or (
                not 0 <= found < len(self._made)):
            raise ModelError("a record that is not there")
        return self._made[found]

    def _record(self, tree: dict[str, Any], depth: int) -> Any:
        name, fields = tree["record"], tree.get("fields")
        if not isinstance(name, str) or not isinstance(fields, dict) or len(tree) != 2:
            raise ModelError("a record of an unknown kind")
        kind = self.records.by_name.get(name)
        known = None if kind is None else self.records.known(kind)
        if known is None:
            raise ModelError("a record that neither this package nor the learner declares")
        found = {key: self.value(item, depth + 1) for key, item in fields.items()}
        try:
            self._weight += known.weight(found)
            if self._weight > MOST_CELL_BYTES:
                raise ModelError("trees that would take too much memory")
            made = known.read(found)
        except PrivledgerError:
            raise
        except Exception:  # a constructor of a learner's own, given what it cannot hold
            raise ModelError(f"a {name} that cannot be built from its fields") from None
        self._made.append(made)
        return made


_READ = {"float": TreeReader._float, "list": TreeReader._list, "tuple": TreeReader._tuple,
         "dict": TreeReader._dict, "array": TreeReader._array, "number": TreeReader._number,
         "texts": TreeReader._texts, "same": TreeReader._same}
