"""Checks that planted values and exact counts stay behind the guard."""

from __future__ import annotations

import math
import pickle
import re
import struct
import types
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any, get_args

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.graph import Node
from privledger.guard import Ledger, LedgerHandle, Scope, Session
from privledger.guard.dataset import Dataset, Partition
from privledger.guard.vault import Vault
from privledger.ledger import Receipt
from privledger.questions.query import Query
from privledger.tables.columns import Columns
from privledger.tables.schema import Schema
from privledger.testing.examples import (
    Example,
    example_schema,
    example_table,
    examples_for,
    without_some,
)
from privledger.testing.fitting import (
    Way,
    attempt,
    fail,
    fresh,
    relation_of,
    stopping,
    takes_tables,
    ways,
)

MODEL, ERRORS = "nothing-private-in-the-model", "nothing-private-in-errors"
ROWS = 1237  # a number of records that nothing else is likely to be
SECRET = "Zyzzogeton haenschi 52318"
# Behind these the guard itself stands, or public facts only.
_GUARDED = (Dataset, Vault, Ledger, LedgerHandle, Session, Scope, Partition, Query, Receipt, Schema,
            *get_args(Node), types.ModuleType, types.FunctionType, types.MethodType, type, bool)


@frozen(eq=False)
class Planted:
    """What must not be found: floats that only the private table has, counts, texts.

    Attributes:
        floats: cells, and exact sums, means and extremes of columns, also rescaled.
        counts: exact numbers of records, as a whole and per class.
    """

    floats: NDArray[np.float64]
    counts: frozenset[int]
    texts: tuple[str, ...] = (SECRET,)

    def has_float(self, values: NDArray[Any]) -> bool:
        """Whether any of these numbers was planted."""
        flat = np.asarray(values, dtype=np.float64).ravel()
        flat = flat[np.isfinite(flat)]
        if not flat.size:
            return False
        place = np.clip(np.searchsorted(self.floats, flat), 1, len(self.floats) - 1)
        near = np.minimum(np.abs(self.floats[place] - flat), np.abs(self.floats[place - 1] - flat))
        return bool((near <= 1e-13 * np.abs(flat)).any())


def _odd(array: NDArray[Any], lower: float, upper: float) -> NDArray[np.float64]:
    """Numbers inside the bounds that no grid and no rule of thumb gives."""
    share = (np.arange(len(array)) * math.pi * math.sqrt(7)) % 1.0
    return np.asarray(lower + (upper - lower) * (0.013 + 0.951 * share))


def planted_example(given: Example) -> Example:
    """A table for the schema of `given` whose every number is odd, and an odd number of rows."""
    task = ("regression" if given.schema.task == "regression" else "classification"
            if len(given.schema.target.categories) == 2 else "several classes")
    if given.schema in (example_schema(task), example_schema(task, numbers_only=True)):
        X, y = example_table(task, ROWS)
        base = Example(given.schema, {c.name: X[c.name] for c in given.schema.features}, y)
        base = without_some(base) if given.unlabelled else base
    else:
        base = given.take(np.arange(ROWS) % given.n_records)
    for column in given.schema.features:
        if column.kind == "numeric":
            base = base.with_column(column.name, _odd(base.y, column.lower, column.upper))
    target = given.schema.target
    if target.kind == "numeric":
        base = evolve(base, y=_odd(base.y, target.lower, target.upper)[::-1].copy())
    return base


def planted_in(table: Example, relation: str) -> Planted:
    """What a model of `table` must not hold; where features are public, of labels only."""
    floats: list[NDArray[np.float64]] = []
    columns = [] if relation == "replace_label" else [
        (c, table.X[c.name]) for c in table.schema.features if c.kind == "numeric"]
    target = table.schema.target
    if target.kind == "numeric":
        columns.append((target, table.y))
    for column, values in columns:
        middle, half = (column.lower + column.upper) / 2, (column.upper - column.lower) / 2
        for scaled in (values, (values - middle) / half, (values - column.lower) / (2 * half)):
            facts = [scaled.sum(), scaled.mean(), np.median(scaled), scaled.std(), scaled.var()]
            floats.append(np.concatenate([scaled, facts]))
    counts = set() if relation == "replace_label" else {len(table.y)}
    if target.kind == "categorical":
        known = [str(label) for label in table.y if label is not None]
        _, each = np.unique(known, return_counts=True)
        counts |= {int(count) for count in each if count > 100}
    every = np.sort(np.concatenate([*floats, np.array([math.pi * 1e30, math.pi * 2e30])]))
    return Planted(every, frozenset(counts))


def walk(value: Any, path: str = "", seen: set[int] | None = None) -> Iterator[tuple[str, Any]]:
    """Every number, text, bytes and array that can be reached from `value`, with where it is.

    Guarded handles, ledgers, plans and schemas are not entered: they hold nothing private, or
    keep it behind the guard.
    """
    seen = set() if seen is None else seen
    if value is None or isinstance(value, _GUARDED) or id(value) in seen:
        return
    if isinstance(value, str | bytes | int | float | complex | np.generic):
        yield path, value
        return
    seen.add(id(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        yield path, value
        return
    for name, part in _parts(value):
        yield from walk(part, f"{path}{name}", seen)


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield "{key}", key
            yield f"[{type(key).__name__}]", part
    elif isinstance(value, list | tuple | set | frozenset):
        for place, part in enumerate(value):
            yield f"[{place}]", part
    elif isinstance(value, np.ndarray):
        for place, part in enumerate(value.ravel()):
            yield f"[{place}]", part
    elif isinstance(value, Columns):
        yield ".arrays", value.arrays
    else:
        yield from ((f".{name}", part) for name, part in vars(value).items()
                    ) if hasattr(value, "__dict__") else ()
        for kind in type(value).__mro__:
            slots = kind.__dict__.get("__slots__", ())
            for name in (slots,) if isinstance(slots, str) else slots:
                if name not in ("__weakref__", "__dict__") and hasattr(value, name):
                    yield f".{name}", getattr(value, name)


def found_floats_and_texts(fitted: Any, planted: Planted) -> Iterator[str]:
    """Where a planted number or text is, in attributes and in the pickle."""
    for path, value in walk(fitted):
        if isinstance(value, str | bytes):
            text = value if isinstance(value, str) else value.decode("latin-1")
            if any(secret in text for secret in planted.texts):
                yield path
        elif np.asarray(value).dtype.kind == "f" and planted.has_float(np.asarray(value)):
            yield path
    try:
        text_of_all = pickle.dumps(fitted)
    except Exception:
        return  # another check says that it must pickle
    raw = [struct.pack(order, number) for number in planted.floats for order in ("<d", ">d")]
    if _holds(text_of_all, raw) or any(s.encode() in text_of_all for s in planted.texts):
        yield " (in its pickle)"


def _holds(text: bytes, wanted: Iterable[bytes]) -> bool:
    """Whether any of the words of eight bytes is in `text`, at any place."""
    words = np.frombuffer(b"".join(wanted), dtype=np.uint64)
    for shift in range(8):
        usable = (len(text) - shift) // 8 * 8
        if usable > 0 and np.isin(np.frombuffer(text[shift:shift + usable], np.uint64),
                                  words).any():
            return True
    return False


TURNS = 6
"""Fits of each table before a number that equals a count is taken for it."""


def found_counts(fitted: Any, planted: Planted) -> set[tuple[str, int]]:
    """Paths at which an exact count is, with the count and, in an array, without the place."""
    wanted = np.array(sorted(planted.counts), dtype=np.float64)
    found = set()
    for path, value in walk(fitted):
        if isinstance(value, str | bytes | complex):
            continue
        array = np.asarray(value).ravel()
        if array.dtype.kind in "iuf":
            found |= {(f"{path}[{place}]", int(array[place]))
                      for place in np.flatnonzero(np.isin(array.astype(np.float64), wanted))}
    return found


def check_nothing_private_in_the_model(learner: Any, example: Example | None = None) -> None:
    """No cell, exact sum or exact count of the private table is in the fitted object."""
    for given in examples_for(learner, example)[:2]:
        table = planted_example(given)
        planted = planted_in(table, relation_of(learner))
        for way in ways(learner):
            _nothing_planted(way, table, planted)
    if takes_tables(learner):
        _plain_table(learner, given)


def _nothing_planted(way: Way, table: Example, planted: Planted) -> None:
    always: set[tuple[str, int]] | None = None
    for turn in range(TURNS):
        fitted = way.fit(table)
        if turn == 0:
            for path in found_floats_and_texts(fitted, planted):
                fail(MODEL, f"{way.name}, {type(fitted).__name__}{path} holds a value of the "
                            "private table")
        # A position or a rounded number may equal a count by chance, but not every time.
        found = found_counts(fitted, planted)
        always = found if always is None else always & found
        if not always:
            return
    # In a tree, the child of a position is often the next one: so it is on other tables, too,
    # where a count would be another. A tree of fewer records may not reach that far; one of
    # more does.
    for _ in range(TURNS):
        for shares in ((3, 5), (8, 5)):
            other = _resized(table, *shares)
            own = planted_in(other, relation_of(way.learner)).counts
            always = {one for one in always or () if one[1] in own} | (
                (always or set()) - found_counts(way.fit(other), planted))
            if not always:
                return
    fail(MODEL, f"{way.name}, {type(way.learner).__name__}{min(always or ())[0]} holds an exact "
                "count")


def _resized(table: Example, share: int, of: int) -> Example:
    """`share` records for every `of`, some of them twice if that is more: all counts differ."""
    rows = np.arange(table.n_records * share // of) * of // share % table.n_records
    return evolve(table, X={name: column[rows] for name, column in table.X.items()},
                  y=table.y[rows])


def _plain_table(learner: Any, given: Example) -> None:
    """A column that the schema does not name belongs in no model."""
    extra = {**given.X, "owner": np.array([SECRET] * given.n_records, dtype=object)}
    twin = fresh(learner, schema=given.schema)
    fitted = twin.fit(extra, given.y) or twin
    for path in found_floats_and_texts(fitted, Planted(np.array([math.pi * 1e30] * 2),
                                                       frozenset())):
        fail(MODEL, f"{type(fitted).__name__}{path} holds a cell of a column that the schema "
                    "does not name")


def said_by(error: BaseException | None) -> Iterator[str]:
    """All texts of an exception and of those behind it."""
    seen: set[int] = set()
    queue = [error]
    while queue:
        one = queue.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield str(one)
        yield repr(one.args)
        yield from getattr(one, "__notes__", ())
        yield from (str(value) for value in vars(one).values())
        queue += [one.__context__, one.__cause__]


_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")


def quoted(text: str, planted: Planted) -> bool:
    """Whether a text quotes a planted value, also one rounded to eight digits or more."""
    if any(secret in text for secret in planted.texts):
        return True
    for word in _NUMBER.findall(text):
        digits = len(word.replace(".", "").lstrip("-+0"))
        if "." not in word:
            if len(word) < 9 and int(word.split("e")[0].split("E")[0]) in planted.counts:
                return True
        elif digits >= 8 and abs(planted.floats - float(word)).min() <= abs(
                float(word)) * 10.0 ** (1 - digits) / 2:
            return True
    return False


def check_nothing_private_in_errors(learner: Any, example: Example | None = None) -> None:
    """A fit that fails in the middle, or on a bad cell, quotes nothing of the table."""
    given = examples_for(learner, example)[0]
    table = planted_example(given)
    planted = planted_in(table, relation_of(learner))
    for place, way in product((1, 2), ways(learner)):
        error = attempt(way, table, 1.0, stopping(place, RuntimeError), Exception).error
        if any(quoted(text, planted) for text in said_by(error)):
            fail(ERRORS, f"{way.name}, the error after release {place} quotes a value of the table")
    if not takes_tables(learner):
        return
    for name in [c.name for c in given.schema.features if c.kind == "categorical"]:
        column = table.X[name].astype(object)
        column[3] = SECRET
        try:
            fresh(learner, schema=table.schema).fit({**table.X, name: column}, table.y)
        except Exception as error:
            if any(quoted(text, planted) for text in said_by(error)):
                fail(ERRORS, "the error about an unknown category quotes it")
