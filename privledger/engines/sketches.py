"""Sketches as bytes: whole numbers, in tuples and known records, and nothing else.

What a worker says is not trusted with code: a reply is a tree of names and arrays of whole numbers.
"""

from __future__ import annotations

import json
from typing import TypeAlias

import attrs
import numpy as np

from privledger.errors import EngineError
from privledger.kernels.asking import Sketch
from privledger.questions.feature_scores import Products
from privledger.questions.order_sketch import Ordered, Tallied
from privledger.questions.tallied_scores import KeyTally
from privledger.questions.tallies import Tabled, Tally
from privledger.questions.vote_sums import VoteSums
from privledger.spool.layout import Array

RECORDS: tuple[type[attrs.AttrsInstance], ...] = (
    Tally, Tabled, Ordered, Tallied, KeyTally, Products, VoteSums)
"""Records that sketches are made of; their fields are whole numbers and arrays of them. What is no
argument of theirs (scores that were found) stays behind."""

Tree: TypeAlias = "int | str | list[Tree] | dict[str, Tree] | None"


def to_bytes(sketch: Sketch) -> bytes:
    """A sketch, as `from_bytes` reads it."""
    arrays: list[Array] = []
    head = json.dumps(_tree(sketch, arrays)).encode()
    return len(head).to_bytes(8, "little") + head + b"".join(
        np.ascontiguousarray(array).tobytes() for array in arrays)


def _tree(what: object, arrays: list[Array]) -> Tree:
    if isinstance(what, np.ndarray):
        if what.dtype.kind not in "iub":
            raise EngineError("a sketch of anything but whole numbers")
        arrays.append(what)
        return {"is": what.dtype.str, "shape": list(what.shape)}
    if isinstance(what, tuple | list):
        return [_tree(one, arrays) for one in what]
    for kind in RECORDS:
        if type(what) is kind:
            return {"of": kind.__name__, "with": [
                _tree(getattr(what, one.name), arrays) for one in attrs.fields(kind) if one.init]}
    if what is None or type(what) is int:
        return what
    raise EngineError(f"a sketch that holds a {type(what).__name__}")


def from_bytes(text: bytes) -> Sketch:
    """The inverse of `to_bytes`.

    Raises:
        EngineError: the bytes are no sketch.
    """
    try:
        size = int.from_bytes(text[:8], "little")
        reader = _Reader(memoryview(text)[8 + size :])
        found = reader.built(json.loads(text[8 : 8 + size]))
    except Exception:  # whatever it was made to be
        raise EngineError("a reply that is no sketch") from None
    if reader.place != len(reader.rest):
        raise EngineError("a reply of another length")
    return found


class _Reader:
    def __init__(self, rest: memoryview) -> None:
        self.rest, self.place = rest, 0

    def built(self, tree: Tree) -> Sketch:
        if isinstance(tree, list):
            return tuple(self.built(one) for one in tree)
        if not isinstance(tree, dict):
            return tree
        if "of" in tree:
            kind = next(kind for kind in RECORDS if kind.__name__ == tree["of"])
            fields = tree["with"]
            assert isinstance(fields, list)
            return kind(*(self.built(one) for one in fields))
        dtype, shape = np.dtype(str(tree["is"])), tree["shape"]
        if dtype.kind not in "iub" or not isinstance(shape, list):
            raise ValueError
        size = dtype.itemsize * int(np.prod([int(str(side)) for side in shape], dtype=object))
        held = self.rest[self.place : self.place + size]
        if len(held) != size:
            raise ValueError
        self.place += size
        return np.frombuffer(held, dtype=dtype).reshape([int(str(side)) for side in shape]).copy()
