"""Tables that stay where they are: read in batches, in order, and never as a whole.

A source describes where rows are. It is made from names of files and of columns; rows are read
when it is asked for batches, and only the columns that a schema names. What a Parquet file says
of its rows besides, the minima and maxima of its row groups above all, is not consulted: its
author may have written anything, and skipping rows by it would change the table unseen.

This runs at the owner's side, before the guard. Errors name files, columns and rules, never
values.
"""

from __future__ import annotations

import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.reading import kind_of
from privledger.rounding import count
from privledger.tables.columns import Columns
from privledger.tables.encode import encode_column, encode_target
from privledger.tables.frames import check_target, column_in_numpy, missing_columns, streamed
from privledger.tables.listing import TEXT, Origin, Paths, Piece, named
from privledger.tables.raw import check_family, levels, raw_numbers, stands_for_none
from privledger.tables.rowfiles import CSV, PARQUET, csv_files, parquet_files
from privledger.tables.schema import Column, Schema, label_array, label_key
from privledger.tables.text_form import USUAL, TextForm

# Which columns of a table are read, whether they can fit, and what becomes of their cells.

Array: TypeAlias = NDArray[np.generic]


@frozen(eq=False, repr=False)
class Wanted:
    """Columns that are read: features, the target, keys, whose a row is; in this order.

    Attributes:
        target: whether the target is read.
        unlabelled: whether it may have missing cells.
        people: whether the schema's column of people is read, where it names one.
        keys: whether its columns of texts are read; chunks have no place for them.
    """

    schema: Schema
    target: bool
    unlabelled: bool = False
    people: bool = True
    keys: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those that the schema describes."""
        return (*self.schema.features, *((self.schema.target,) if self.target else ()),
                *(self.schema.keys if self.keys else ()))

    @property
    def person(self) -> str | None:
        """Name of the column that says whose a row is; None if none is read."""
        return self.schema.person if self.people else None

    @property
    def names(self) -> tuple[str, ...]:
        """Of all columns that are read."""
        person = () if self.person is None else (self.person,)
        return (*(column.name for column in self.columns), *person)

    def check(self, origin: Origin) -> None:
        """Refuse by names and types, before a row is read."""
        people: str | None = None
        for where, found in origin.families():
            with named(where):
                missing = [name for name in self.names if name not in found]
                if missing:
                    raise DataError(missing_columns(missing, found))
                for column in self.columns:
                    if found[column.name] != TEXT:
                        check_family(found[column.name], column)
                if self.person is not None:
                    people = _same_ids(self.person, people, found[self.person])

    def encoded(self, piece: Piece) -> list[Array]:
        """One array for each name."""
        with named(piece.where):
            found: list[Array] = [encode_column(piece.columns[column.name], column)
                                  for column in self.schema.features]
            if self.target:
                found.append(encode_target(piece.columns[self.schema.target.name], self.schema,
                                           unlabelled=self.unlabelled))
            return self._with_ids(found, piece)

    def typed(self, piece: Piece) -> list[Array]:
        """One array for each name, of plain numbers and the schema's own categories: float64 with
        NaN, or objects with None, for missing cells. Neither clipped nor checked."""
        with named(piece.where):
            found = [_typed(piece.columns[column.name], column) for column in self.columns]
            return self._with_ids(found, piece)

    def _with_ids(self, found: list[Array], piece: Piece) -> list[Array]:
        if self.person is not None:
            found.append(_ids(piece.columns[self.person], self.person))
        if len({len(array) for array in found}) != 1:
            raise DataError("columns of different lengths")
        return found


def _same_ids(name: str, before: str | None, found: str) -> str:
    if before not in (None, found):  # 17 and "17": one person or two cannot be told here
        raise DataError(f"column {name!r} holds ids of another type than the file before")
    return found


def _ids(values: object, name: str) -> Array:
    found = column_in_numpy(values)
    if found.dtype.kind == "b":  # beside numbers of another batch it would be one of them
        raise DataError(f"column {name!r}, ids of people: a boolean is no id")
    return found


def _typed(values: object, column: Column) -> Array:
    if column.kind == "numeric":
        return raw_numbers(values, column)
    known = {label_key(category): category for category in column.categories}
    several, codes = levels(values, column)
    held = np.empty(len(several) + 1, dtype=object)  # the last one for codes of -1
    held[:-1] = [None if stands_for_none(level, column)
                 else known.get(label_key(level), level) for level in several]
    found: Array = held[codes]
    return found


MOST_ROWS = 1 << 24
"""Rows of one batch."""
PIECE_ROWS = 1 << 14
"""Rows that are decoded at a time: they stay in the processor's cache."""


@frozen(eq=False, repr=False)
class Batch:
    """Encoded rows. CONFIDENTIAL, and nothing of it is printed.

    Attributes:
        features: the schema's features.
        target: float64 or int32, shape (n_records,), or None.
        people: the ids in the schema's column of people as they stand there, or None.
    """

    features: Columns
    target: Array | None = None
    people: Array | None = None

    def __repr__(self) -> str:
        return "Batch(private)"


@frozen(eq=False, repr=False)
class Source:
    """A table that is read in batches. Made by `scan_parquet`, `scan_csv` and `as_source`."""

    origin: Origin

    def __repr__(self) -> str:
        return f"Source({self.origin.kind})"

    def batches(self, schema: Schema, target: str | None = None, rows: int = 1 << 18, *,
                unlabelled: bool = False) -> Iterator[Batch]:
        """The rows in file order, encoded as `encode_features` and `encode_target` do in memory.

        Every batch but the last has exactly `rows` rows, wherever files and row groups end. A
        source that turns out wrong half way raises then: what came before is void.

        Args:
            schema: public facts; never inferred.
            target: name of the schema's target column, or None to leave it unread.
            unlabelled: allow missing cells in the target.

        Raises:
            DataError: a file is gone, changed, truncated or malformed, or does not fit the
                schema. The file and the column are named, never a value.
            SchemaError: the schema's target has another name.
        """
        count("rows", rows, most=MOST_ROWS)
        if target is not None:
            check_target(schema, target)
        wanted = Wanted(schema, target is not None, unlabelled)
        wanted.check(self.origin)
        encoded = map(wanted.encoded, self.origin.pieces(wanted.names, min(rows, PIECE_ROWS)))
        return (_batch(wanted, arrays) for arrays in regrouped(encoded, rows))


def regrouped(several: Iterable[list[Array]], rows: int, *, again: bool = False,
              held_as: Callable[[Array], Array] = np.asarray) -> Iterator[list[Array]]:
    """The same columns in pieces of exactly `rows` rows, and one of what is left.

    Args:
        again: whether a piece is gone when the next one is asked for.
        held_as: what a column is made before it is put behind others.
    """
    held: list[Array] = []
    so_far = 0
    for arrays in several:
        size, start = len(arrays[0]), 0
        while start < size:
            stop = min(size, start + rows - so_far)
            some = [held_as(array[start:stop]) for array in arrays]
            if stop - start < rows:
                some = held = _put(held, so_far, some, rows)
            so_far, start = so_far + stop - start, stop
            if so_far == rows:
                yield some
                held, so_far = held if again else [], 0
    if so_far:
        yield [array[:so_far] for array in held]


def _put(held: list[Array], so_far: int, arrays: list[Array], rows: int) -> list[Array]:
    """What is held with some more rows behind it. Room for all is made once, not by joining:
    a batch would be there twice."""
    found = []
    for one, more in zip(held or arrays, arrays, strict=True):
        kind = np.result_type(one.dtype, more.dtype) if so_far else more.dtype
        if len(one) != rows or one.dtype != kind:  # none yet, or of less room than cells need
            room: Array = np.empty(rows, dtype=kind)
            room[:so_far] = one[:so_far]
            one = room
        one[so_far:so_far + len(more)] = more
        found.append(one)
    return found


def _batch(wanted: Wanted, arrays: list[Array]) -> Batch:
    size = len(wanted.schema.features)
    features, rest = tuple(arrays[:size]), arrays[size:]
    target = rest.pop(0) if wanted.target else None
    return Batch(Columns(wanted.schema, features, len(features[0])), target,
                 rest[0] if rest else None)


def scan_parquet(paths: Paths) -> Source:
    """A table in Parquet files, to be read in batches; see `Source`.

    Only names and types of columns are read here, not a row.

    Args:
        paths: a file, a folder, a pattern such as `folder/*.parquet`, or a list of such, read in
            the order given; the files of a folder or a pattern by name.

    Raises:
        DataError: no such file, a file twice, or one that is no Parquet file.
    """
    return Source(parquet_files(paths))


def scan_csv(paths: Paths, schema: Schema | None = None) -> Source:
    """A table in CSV files (UTF-8, commas, a header in each), plain or as `.gz`, to be read in
    batches; see `Source`. Only headers are read here.

    Args:
        paths: as for `scan_parquet`. schema: if it says how its text files are written.

    Raises:
        DataError: no such file, a file twice, or a header that cannot be used.
    """
    return Source(csv_files(paths, form=form_of(schema)))


def form_of(schema: Schema | None) -> TextForm:
    """How text files of a schema's table are written."""
    return USUAL if schema is None or schema.form is None else schema.form


def as_source(X: object) -> Source | None:
    """What has to be read in batches: a source as it is, a pyarrow `Dataset`, a polars
    `LazyFrame`, a Dask frame. None for everything that is in memory, or no table.

    Raises:
        DataError: a dataset with a filter, or of files whose types would be guessed.
    """
    if type(X) is Source:
        return X
    origin = streamed(X)
    return None if origin is None else Source(origin)


def scan_files(path: str | os.PathLike[str], known: Container[str] = (),
               schema: Schema | None = None) -> Source:
    """The same for one path whose files say themselves what they are: Parquet by their ending,
    everything else is CSV. Names that are `known` from a schema may stand in messages.

    Raises:
        DataError: as for the two, or a folder that holds both.
    """
    name = os.fspath(path).rstrip("/")
    if not os.path.isdir(path):
        return Source(parquet_files(path, known) if name.endswith(PARQUET)
                      else csv_files(path, known, form_of(schema)))
    held = [one for one in os.listdir(path) if not one.startswith((".", "_"))]
    parquet = any(one.endswith(PARQUET) for one in held)
    if parquet and any(one.endswith(CSV) for one in held):
        raise DataError(f"{os.path.basename(name)}: the folder contains both Parquet and CSV "
                        "files: give a pattern")
    return Source(parquet_files(path, known) if parquet
                  else csv_files(path, known, form_of(schema)))


# Tables in files: CSV, CSV.gz, Parquet and NPZ -> columns by name, as a schema names them.
#
# This runs at the owner's side, before the guard. Errors name columns and rules, never values.

_ROWS = 1 << 18


def read_table(path: str | Path, schema: Schema) -> tuple[Any, Any]:
    """Feature columns and target of CSV, CSV.gz and Parquet files, or of one NPZ file; behind the
    features the columns of texts and the one that says whose a row is, where the schema names any.

    Args:
        path: a file, a folder, or a pattern such as `folder/*.parquet`.

    Returns:
        A pandas frame and series where pandas is installed; otherwise a dict of NumPy columns
        and a NumPy array. Categories come as in the schema's list; an empty cell is missing.
    """
    if str(path).endswith(".npz"):
        return _read_npz(Path(path), schema)
    X = _read(path, Wanted(schema, target=True, keys=True))
    y = X.pop(schema.target.name)
    return _as_frame(X, y, schema)


def read_features(path: str | Path, schema: Schema) -> Any:
    """Feature columns alone, as `read_table` gives them; the table needs no target column."""
    if str(path).endswith(".npz"):
        return _read_npz(Path(path), schema)[0]
    return as_frame(_read(path, Wanted(schema, target=False, people=False)))


def read_with_target(path: str | Path, schema: Schema) -> tuple[Any, Any]:
    """As `read_table`; the target is None where the schema names none."""
    if any(column.role == "target" for column in schema.columns):
        return read_table(path, schema)
    return as_frame(_read(path, Wanted(schema, target=False, keys=True))), None


def _read(path: str | Path, wanted: Wanted) -> dict[str, NDArray[Any]]:
    """All rows of the columns that are wanted, by name."""
    origin = _checked(path, wanted)
    parts = [wanted.typed(piece) for piece in origin.pieces(wanted.names, _ROWS)]
    if not parts:
        parts = [[np.empty(0, dtype=float if column.kind == "numeric" else object)
                  for column in wanted.columns] + [np.empty(0, dtype=object)]]
    return {name: np.concatenate(several)
            for name, several in zip(wanted.names, zip(*parts, strict=True), strict=False)}


def check_columns(path: str | Path, schema: Schema) -> None:
    """Refuse a table in files by names and types of its columns. No row is read.

    Raises:
        DataError: it lacks a column, or has one of another type.
    """
    if not str(path).endswith(".npz"):  # arrays have no names
        labelled = any(column.role == "target" for column in schema.columns)
        _checked(path, Wanted(schema, target=labelled, keys=True))


def _checked(path: str | Path, wanted: Wanted) -> Origin:
    origin = scan_files(path, wanted.names, wanted.schema).origin
    wanted.check(origin)
    return origin


def _as_frame(X: dict[str, NDArray[Any]], y: NDArray[Any], schema: Schema) -> tuple[Any, Any]:
    complete = not any(value is None for value in y)
    if schema.task == "classification" and complete and len(y):
        y = label_array(list(y))
    try:
        import pandas
    except ImportError:
        return X, y
    return as_frame(X), pandas.Series(y, name=schema.target.name)


def as_frame(X: dict[str, NDArray[Any]]) -> Any:
    """Columns as a pandas frame where pandas is installed; else as they are."""
    try:
        import pandas
    except ImportError:
        return X
    return pandas.DataFrame(X)


def _read_npz(path: Path, schema: Schema) -> tuple[Any, Any]:
    for name in (schema.person, *(column.name for column in schema.keys)):
        if name is not None:
            raise DataError(f"{path.name}: arrays have no column {name}: give a CSV file")
    X, codes = _npz_arrays(path)
    if (X.ndim != 2 or X.shape[1] != len(schema.features) or codes.shape != (len(X),)
            or X.dtype.kind not in "fiu" or codes.dtype.kind not in "iu"):
        raise DataError(f"{path.name}: arrays do not have the shape the schema gives")
    labels = schema.target.labels
    if codes.size and not (codes.min() >= 0 and codes.max() < len(labels)):
        raise DataError(f"{path.name}: a class code outside the schema's list")
    return X, labels[codes]


def _npz_arrays(path: Path) -> tuple[NDArray[Any], NDArray[Any]]:
    """`X` and `y` of an archive of arrays. No pickles, and no name twice."""
    kind = kind_of(path.stat().st_mode) if path.exists() else ""
    if kind:
        raise DataError(f"{path.name}: it is {kind}, not a table")
    try:
        with zipfile.ZipFile(path) as names:
            members = [name.removesuffix(".npy") for name in names.namelist()]
            size = sum(one.file_size for one in names.infolist())
        if size > max(1 << 26, 200 * path.stat().st_size):  # as of a .csv.gz
            raise DataError(f"{path.name}: it unpacks to over 200 times its size, and over 64 MB: "
                            "write it with numpy.savez")
        if len(set(members)) < len(members):
            raise DataError(f"{path.name}: an array is given twice")
        with np.load(path, allow_pickle=False) as archive:
            return archive["X"], archive["y"]
    except (FileNotFoundError, IsADirectoryError):
        raise DataError(f"{path.name}: no such file") from None
    except KeyError:
        raise DataError(f"{path.name}: an archive with the arrays X and y is needed") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, SyntaxError,
            NotImplementedError, MemoryError, OverflowError, RuntimeError, TypeError,
            UnicodeError, struct.error, tokenize.TokenError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path.name}: not an NPZ archive of arrays") from None
