"""Digests of questions: equal for equal questions of two runs, whatever handles were called.

Handles carry tokens from a counter of the process; they are numbered by first appearance here.
Objects that several questions share are told once, and what is added to a score, once each.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b

import attrs
import numpy as np
from attrs import define, field

from privledger.facts.schema import Schema
from privledger.graph import Context
from privledger.questions.score import Score

_SKIPPED = ("seal", "key", "cache")


@define(eq=False)
class Digester:
    """Of one run. Everything that was told is kept alive, so that no identity is used twice."""

    _seen: dict[int, tuple[int, object]] = field(init=False, factory=dict)
    _tokens: dict[str, int] = field(init=False, factory=dict)
    _told: dict[int, int] = field(init=False, factory=dict)

    def of(self, *values: object) -> bytes:
        """What these say, 16 bytes."""
        found = blake2b(digest_size=16)
        for value in values:
            for piece in self._pieces(value):
                found.update(piece)
        return found.digest()

    def _pieces(self, value: object) -> Iterator[bytes]:
        if value is None or isinstance(value, str | bytes | bool | int | float | complex | slice):
            yield repr(value).encode() + b";"
        elif isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            plain = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
            yield f"{array.dtype}{array.shape}".encode() + plain
        elif isinstance(value, Context):
            yield from self._pieces((self._token(value), *(
                getattr(value, one.name) for one in attrs.fields(Context)
                if one.name != "token")))
        elif isinstance(value, tuple | list):
            yield f"[{len(value)}".encode()
            for item in value:
                yield from self._pieces(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                yield from self._pieces((key, item))
        elif isinstance(value, Score):
            yield from self._score(value)
        else:
            yield from self._object(value)

    def _token(self, context: Context) -> int:
        return self._tokens.setdefault(context.token, len(self._tokens))

    def _score(self, score: Score) -> Iterator[bytes]:
        """A running score: its fields once, and what was added since it was last asked of."""
        number, fresh = self._number(score)
        yield f"score{number}".encode()
        if fresh:
            yield from self._pieces((score.loss, score.start, score.center, score.scale))
        told = self._told.get(id(score), 0)
        news = score.updates(told)
        self._told[id(score)] = told + len(news)
        yield from self._pieces(news)

    def _object(self, value: object) -> Iterator[bytes]:
        number, fresh = self._number(value)
        yield f"{type(value).__name__}{number}".encode()
        if not fresh:
            return
        kind = type(value)
        if attrs.has(kind) and not isinstance(value, Schema):
            for one in attrs.fields(kind):
                if one.name not in _SKIPPED:
                    yield from self._pieces(getattr(value, one.name, None))
        elif isinstance(value, Schema):
            yield repr(value).encode()
        elif callable(value):
            yield from self._function(value)

    def _function(self, value: object) -> Iterator[bytes]:
        """Its code, its defaults, and what it closes over."""
        code = getattr(value, "__code__", None)
        yield b"function" if code is None else code.co_code + repr(code.co_names).encode()
        held = [*(getattr(value, "__defaults__", None) or ())]
        for cell in getattr(value, "__closure__", None) or ():
            held.append(cell.cell_contents)
        yield from self._pieces(tuple(
            item for item in held
            if isinstance(item, str | bool | int | float | np.ndarray | np.generic | tuple)))

    def _number(self, value: object) -> tuple[int, bool]:
        """Its number by first appearance, and whether this is it."""
        known = self._seen.get(id(value))
        if known is not None:
            return known[0], False
        self._seen[id(value)] = len(self._seen), value
        return len(self._seen) - 1, True
