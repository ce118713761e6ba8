"""What an owner says about a table: its name, as far as this process knows, and what is public."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from privledger.engines.driver import ChunkTable
from privledger.errors import DataError, InvalidValue, RelationMismatch
from privledger.facts.columns import Columns
from privledger.guard.vault import Vault

_PEOPLE, _CHUNKS = "\0people", "\0chunks"  # no column's name


def fresh_name() -> str:
    """A name for a table that its owner gave none."""
    return f"data-{secrets.token_hex(6)}"


class Identities:
    """Keyed digests of the columns that were protected under each name.

    Filter scopes keep spends by row position, so one name must stand for one order of one
    table. The key is drawn per object and never stored: a digest tells nothing elsewhere.
    Other processes have to keep the promise themselves (docs/known-limits.md).
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: dict[str, dict[str, bytes]] = {}
        self.newest: WeakValueDictionary[str, Vault] = WeakValueDictionary()
        self._rows: dict[str, int] = {}

    def check(self, name: str, columns: Columns, target: NDArray[Any] | None,
              people: NDArray[np.int32] | None = None) -> None:
        """Remember a table, or raise `DataError` if the name stands for another one."""
        fresh = {column.name: self._digest(array) for column, array in zip(
            columns.schema.features, columns.arrays, strict=True)}
        if target is not None:
            fresh[columns.schema.target.name] = self._digest(target)
        if people is not None:
            fresh[_PEOPLE] = self._digest(people)
        self._compare(name, columns.n_rows, fresh)

    def check_chunks(self, name: str, table: ChunkTable) -> None:
        """As `check`, of a table in chunks: by what their files hash to."""
        marks = "".join(note.sha256 for note in table.notes)
        digest = hmac.digest(self._key, marks.encode(), "sha256")
        self._compare(name, table.n, {_CHUNKS: digest})

    def _compare(self, name: str, n_rows: int, fresh: dict[str, bytes]) -> None:
        known = self._known.setdefault(name, {})
        rows = self._rows.setdefault(name, n_rows)
        strange = bool(known) and not set(known) & set(fresh)
        changed = [label for label, digest in fresh.items()
                   if known.setdefault(label, digest) != digest]
        if rows != n_rows or changed or strange:
            raise DataError(
                f"the name {name!r} stands for another table in this ledger: give the same "
                "records in the same order, use append for late arrivals, or choose another name")

    def grow(self, name: str, vault: Vault) -> None:
        """Late arrivals: the name now stands for the longer table, whose digests are unknown
        until it is protected again."""
        self.newest[name] = vault
        if name in self._known:
            self._known[name] = {}
            self._rows[name] = vault._n_rows

    def _digest(self, array: NDArray[Any]) -> bytes:
        return hmac.digest(self._key, array.tobytes(), "sha256")


def declared(
    relation: str, public_features: object, unlabelled: object, y: object
) -> tuple[bool, bool]:
    """`public_features` and `unlabelled`, if they go with the relation of the ledger.

    Raises:
        RelationMismatch: public features where they are protected, or not said to be public
            where they are not.
    """
    for word, value in (("public_features", public_features), ("unlabelled", unlabelled)):
        if not isinstance(value, bool):
            raise InvalidValue(word, type(value).__name__, "True or False")
    if public_features and relation != "replace_label":
        raise RelationMismatch(f"this ledger promises {relation}, which protects features too: "
                               "public features need a ledger of relation replace_label")
    if not public_features and relation == "replace_label":
        raise RelationMismatch("this ledger protects labels only: say so with "
                               "protect(..., public_features=True), or use another relation")
    if y is None and (public_features or unlabelled):
        raise DataError("labels are what is protected, or missing in part: give y")
    return bool(public_features), bool(unlabelled)


def fingerprint(key: bytes, columns: Columns, target: NDArray[Any] | None) -> str:
    """What the same records in the same order give under the same key, in any ledger.

    A keyed digest: without the key it tells nothing about the records, not even whether a
    guess of all of them is right. With the key it does, so the key is as secret as the table.

    Raises:
        InvalidValue: the key has fewer than 16 bytes.
    """
    parts = [(column.name, [array]) for column, array in zip(
        columns.schema.features, columns.arrays, strict=True)]
    if target is not None:
        parts.append((columns.schema.target.name, [target]))
    return fingerprint_of(key, parts)


def fingerprint_of(key: bytes, parts: Iterable[tuple[str, Iterable[NDArray[Any]]]]) -> str:
    """The same of columns that come in pieces.

    Raises:
        InvalidValue: the key has fewer than 16 bytes.
    """
    if not isinstance(key, bytes) or len(key) < 16:
        raise InvalidValue("fingerprint_key", "a shorter one", "at least 16 bytes")
    marks = {}
    for name, arrays in parts:
        one = hmac.new(key, digestmod="sha256")
        for array in arrays:
            one.update(array.tobytes())
        marks[name] = one.digest()
    whole = hmac.new(key, b"privledger table 1", "sha256")
    for name in sorted(marks):
        whole.update(hmac.digest(key, name.encode(), "sha256"))
        whole.update(marks[name])
    return whole.hexdigest()
