"""Tables behind the guard: from here on their rows are reached by releases only."""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.engines.driver import ChunkTable, Done
from privledger.engines.engine import Engine
from privledger.engines.exchange import filled
from privledger.errors import DataError, InvalidValue, NotGranted, RelationMismatch, UnsupportedNode
from privledger.guard.dataset import Dataset
from privledger.guard.enrolling import Enrolling
from privledger.guard.service import short_name
from privledger.guard.trusted_copy import remember_schema
from privledger.guard.vault import Vault, _sealed, _vault_of
from privledger.ledger import History
from privledger.ledger.entries import now
from privledger.ledger.events import Protected
from privledger.noise.seeded import SeededSource
from privledger.noise.source import KEY_BYTES, NoiseSource
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns, TextKey, own_schema
from privledger.tables.encode import encode_features, encode_keys, encode_target
from privledger.tables.frames import check_target, column_of, split_target
from privledger.tables.ingest import Ingested, Progress, encoded, ingest, wanted_by, write_rows
from privledger.tables.layout import Layout
from privledger.tables.parts import InParts
from privledger.tables.person_ids import Persons
from privledger.tables.schema import Schema
from privledger.tables.sources import Source
from privledger.tables.spool import Folder

# Tables in chunks behind the guard: where rows come from, and where they go.


@frozen(eq=False, repr=False)
class Chunking:
    """How a table is put into chunks.

    Attributes:
        engine: who answers. spool: folder that stays, or None for one that goes with the table.
        progress: told how many rows were ingested, or None.
        passes: told how many chunks of a pass are done, and of how many, or None.
    """

    engine: Engine
    spool: str | Path | None = None
    progress: Progress | None = None
    passes: Done | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.engine, Engine):
            raise InvalidValue("engine", type(self.engine).__name__, "pl.engines.Local or Dask")


def chunk_table(how: Chunking, schema: Schema, table: ProtectedTable, unlabelled: bool,
                source: NoiseSource) -> ChunkTable:
    """Every row on disk, in chunks of the engine's size."""
    folder = Folder.temporary() if how.spool is None else Folder.at(how.spool)
    layout = Layout(schema, table.y is not None or table.target is not None)
    held = _ingested(table, unlabelled, folder, how.engine, Ingested(layout, ()), how.progress)
    return ChunkTable(folder, held, how.engine, _secret(source), how.passes)


def more_chunks(old: ChunkTable, table: ProtectedTable, unlabelled: bool,
                source: NoiseSource) -> ChunkTable:
    """The same table with late arrivals behind it. Its coins are drawn anew."""
    held = _ingested(table, unlabelled, old.folder, old.engine, old.ingested)
    return evolve(old, ingested=held, secret=_secret(source))


def _ingested(table: ProtectedTable, unlabelled: bool, folder: Folder, engine: Engine,
              before: Ingested, progress: Progress | None = None) -> Ingested:
    """With a table's rows: workers write them, where each can read a part; else this process."""
    layout, notes, rows = before.layout, before.notes, engine.chunk_rows
    if type(table.X) is Source:
        wanted = wanted_by(layout, unlabelled)
        wanted.check(table.X.origin)
        if isinstance(table.X.origin, InParts):
            write = partial(filled, folder, engine, layout, table.X.origin, unlabelled, notes)
            return ingest(folder, before, rows, write, progress)
        portions = encoded(wanted, table.X.origin)
    else:
        columns, target = _encoded(table.X, table.y, layout.schema, unlabelled)
        portions = iter([[*columns.arrays, *(() if target is None else (target,))]])

    write = partial(write_rows, folder, layout, portions, rows, (len(notes), before.rows))
    return ingest(folder, before, rows, write, progress)


def _secret(source: NoiseSource) -> bytes:
    """A key of the table's private coins, from the ledger's own source. In a simulation it leaves
    the noise as it is in memory."""
    draw = source.apart if isinstance(source, SeededSource) else source.integers64
    words: NDArray[np.uint64] = draw(KEY_BYTES // 8)
    return words.astype("<u8").tobytes()


# What an owner says about a table: its name, as far as this process knows, and what is public.


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
        for key, texts in columns.keys.items():
            fresh[key] = self._digest(_text_bytes(texts))
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
                f"the name {name!r} belongs to another table in this ledger. Give the same records "
                "in the same order, use append for new records, or choose another name")

    def grow(self, name: str, vault: Vault) -> None:
        """Late arrivals: the name now stands for the longer table, whose digests are unknown
        until it is protected again."""
        self.newest[name] = vault
        if name in self._known:
            self._known[name] = {}
            self._rows[name] = vault._n_rows

    def _digest(self, array: NDArray[Any]) -> bytes:
        return hmac.digest(self._key, array.tobytes(), "sha256")


def _text_bytes(texts: TextKey) -> NDArray[np.uint8]:
    """Names, each behind its length, then which of them each record has."""
    names = [one.encode() for one in texts.names]
    whole = b"".join([len(names).to_bytes(8, "big"), *(
        len(one).to_bytes(8, "big") + one for one in names), texts.codes.tobytes()])
    return np.frombuffer(whole, dtype=np.uint8)


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
        raise RelationMismatch(f"this ledger promises {relation}, which protects features, too. "
                               "Public features need a ledger of relation replace_label")
    if not public_features and relation == "replace_label":
        raise RelationMismatch("this ledger protects labels only. Confirm that with protect(..., "
                               "public_features=True), or use another relation")
    if y is None and (public_features or unlabelled):
        raise DataError("the labels are protected, or missing in part: pass y")
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
    parts += [(name, [_text_bytes(texts)]) for name, texts in columns.keys.items()]
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


@frozen(eq=False, repr=False)
class ProtectedTable:
    """What an owner puts behind the guard; the fields are the arguments of `Ledger.protect`."""

    X: Any
    y: Any
    schema: Schema | None
    name: str | None
    key: bytes | None
    public_features: bool
    unlabelled: bool
    people: object = None
    target: str | None = None
    chunking: Chunking | None = None

    def with_labels(self, schema: Schema) -> ProtectedTable:
        """The same with its target in `y`, where `target` names a column of a table in memory."""
        if self.target is None:
            if self.y is not None and type(self.X) is Source:
                raise InvalidValue("y", "given", "named by target where a table is read in batches")
            return self
        if self.y is not None:
            raise InvalidValue("y", "given", "left out where target names a column of X")
        check_target(schema, self.target)
        return self if type(self.X) is Source else evolve(
            self, y=split_target(self.X, self.target)[1])


@frozen(eq=False, repr=False)
class Late:
    """What comes later; the fields are the arguments of `Ledger.append`."""

    data: Dataset
    X: Any
    y: Any
    people: object = None
    target: str | None = None


def protected(table: ProtectedTable, history: History, source: NoiseSource, identities: Identities,
              enrolling: Enrolling, shown: object) -> Dataset:
    """A handle on the rows, now behind the guard, and a line about it in the history.

    Args:
        shown: the learner's view of the ledger, for the handle.

    Raises: as `Ledger.protect`.
    """
    schema, name, relation = table.schema, table.name, history.state.relation
    if isinstance(table.y, Schema) or isinstance(table.X, Schema):
        raise InvalidValue("schema", type(schema).__name__, "the third argument: protect(table, "
                                                            "target, schema), or protect(table, "
                                                            "schema=schema, target=NAME)")
    if isinstance(table.y, str):
        raise InvalidValue("y", "a text", "the target's values; protect(table, schema=schema, "
                           "target=NAME) takes a column of the table")
    if isinstance(schema, str | os.PathLike):
        raise InvalidValue("schema", "a path or a text", "a Schema: pl.Schema.load(path) reads one")
    if not isinstance(schema, Schema):
        raise InvalidValue("schema", type(schema).__name__, "a Schema; it is never inferred "
                                                           "from private data")
    own = own_schema(schema)  # bounds are read again inside the guard
    table = table.with_labels(own)
    public, partial = declared(relation, table.public_features, table.unlabelled,
                               table.y if table.target is None else table.target)
    own.rows_for(relation)  # a true number of rows is refused under add_remove
    own.check_unit(history.state.unit, relation)
    if table.chunking is not None:
        return _protected_chunks(table, table.chunking, own, partial, history, source, identities,
                                 shown)
    columns, target = _encoded(table.X, table.y, own, partial)
    found = _people(history.state.unit, enrolling, table.people, table.X, own, columns.n_rows)
    people = None if found is None else found.rows
    if name is not None:
        identities.check(short_name("name", name), columns, target, people)
    mark = None if table.key is None else fingerprint(table.key, columns, target)
    rows = Rows(columns, target, source, people=people)
    vault = Vault(name or fresh_name(), rows, history,
                  relation=relation, public_features=public, unlabelled=partial)
    event = Protected(
        vault.identity, own.name, own.digest, now(), own.declared_rows, mark,
        vault.public is not None, vault.unlabelled)
    if found is None:
        history.note(event)
        know_again(vault, table.key, mark)
    else:
        vault.standing = enrolling.enrol(vault.identity, found, lambda: [event],
                                         own.check_size)
    data = _handle(vault, schema, shown)
    identities.newest[vault.identity] = vault
    return data


def _protected_chunks(
    table: ProtectedTable,
    how: Chunking,
    own: Schema,
    partial: bool,
    history: History,
    source: NoiseSource,
    identities: Identities,
    shown: object,
) -> Dataset:
    """As `protected`, of rows that go to a spool."""
    assert table.schema is not None
    if history.state.unit == "person":
        raise UnsupportedNode("an engine cannot be used with unit person: one person's rows may "
                              "lie in several chunks, but a person contributes one mean over all "
                              "of them. Protect the table in memory, or protect rows. Nothing was "
                              "read")
    chunks = chunk_table(how, own, table, partial, source)
    if table.name is not None:
        identities.check_chunks(short_name("name", table.name), chunks)
    mark = None if table.key is None else fingerprint_of(table.key, chunks.columns())
    vault = Vault(table.name or fresh_name(), chunks, history, relation=history.state.relation,
                  public_features=table.public_features, unlabelled=partial)
    history.note(Protected(
        vault.identity, own.name, own.digest, now(), own.declared_rows, mark,
        vault.public is not None, vault.unlabelled, how.engine.description))
    know_again(vault, table.key, mark)
    identities.newest[vault.identity] = vault
    return _handle(vault, table.schema, shown)


def know_again(vault: Vault, key: bytes | None, mark: str | None) -> None:
    """By the mark that the owner's key leaves on these rows a later process finds them again, and
    by a key made of it what was kept about them. Without one that cannot be done."""
    if key is not None and mark is not None:
        vault.version = f"mark:{mark}"
        vault.sealing = hmac.digest(key, b"privledger kept answers 1", "sha256")


def _people(unit: str, enrolling: Enrolling, given: object, X: object, schema: Schema,
            n_rows: int) -> Persons | None:
    """Who stands behind each row, as it was given or by the schema's column; None for rows."""
    column = schema.person
    if unit == "row":
        if given is not None:
            raise InvalidValue("people", "ids", "left out: this ledger protects rows; one that "
                               "protects people is created with unit=\"person\"")
        return None
    if column is not None and given is not None:
        raise InvalidValue("people", "ids", f"left out: the schema names column {column!r}")
    if column is None:
        return enrolling.read(given, "people", n_rows)
    return enrolling.read(column_of(X, column), column, n_rows)


def grown(late: Late, history: History, source: NoiseSource, identities: Identities,
          enrolling: Enrolling, shown: object) -> Dataset:
    """As `Ledger.append`: a handle on the old records and the new ones."""
    data = late.data
    old: Vault = _vault_of(data._vault)
    if old._guardian is not history:
        raise NotGranted("these records are guarded by another ledger")
    if data.steps:
        raise InvalidValue("data", repr(data), "a handle straight from protect or append")
    if identities.newest.get(old.identity) is not old:
        # Two branches would put two people into one row, or one person into two.
        raise NotGranted("append to the newest handle of these records: this one was extended "
                         "already")
    if (late.y is not None or late.target is not None) != old.facts.has_target:
        raise DataError("appended records need a target exactly if the earlier records had one")
    table = ProtectedTable(late.X, late.y, old.schema, None, None, False, old.unlabelled,
                  target=late.target).with_labels(old.schema)
    if old.facts.chunked:
        vault = old.with_chunks(lambda chunks: more_chunks(chunks, table, old.unlabelled, source))
        identities.grow(vault.identity, vault)
        return _handle(vault, old.schema, shown)
    columns, target = _encoded(late.X, table.y, old.schema, old.unlabelled)
    found = _people(history.state.unit, enrolling, late.people, late.X, old.schema, columns.n_rows)
    standing = None if found is None else enrolling.enrol(
        old.identity, found, list, old.schema.check_size, old.standing)
    vault = old.grown(columns, target, None if standing is None else standing.rows)
    vault.standing = standing
    identities.grow(vault.identity, vault)
    return _handle(vault, old.schema, shown)


def _handle(vault: Vault, schema: Schema, shown: object) -> Dataset:
    """A seal, a schema to show, and what may be asked of the ledger."""
    own = own_schema(schema)  # neither the guard's nor the caller's, who may use it again
    remember_schema(vault, own)
    return Dataset(own, _sealed(vault), ledger=shown)


def _encoded(X: Any, y: Any, schema: Schema,
             unlabelled: bool) -> tuple[Columns, NDArray[Any] | None]:
    """At least one record, and as many targets as records.

    Raises:
        DataError: the table does not fit; columns and rules are named, never values.
    """
    columns = encode_keys(X, encode_features(X, schema))
    target = None if y is None else encode_target(y, schema, unlabelled=unlabelled)
    if columns.n_rows == 0:
        raise DataError("the table is empty: Found array with 0 sample(s), a minimum of 1 is "
                        "required")
    if target is not None and len(target) != columns.n_rows:
        raise DataError("Found input variables with inconsistent numbers of samples: "
                        "features and target differ in length")
    return columns, target
