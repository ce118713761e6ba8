"""Tables that stay where they are: read in batches, in order, and never as a whole.

A source describes where rows are. It is made from names of files and of columns; rows are read
when it is asked for batches, and only the columns that a schema names. What a Parquet file says
of its rows besides, the minima and maxima of its row groups above all, is not consulted: whoever
wrote it may have written anything, and skipping rows by it would change the table unseen.

This runs at the owner's side, before the guard. Errors name files, columns and rules, never
values.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator

import numpy as np
from attrs import frozen

from privledger.errors import DataError
from privledger.facts.columns import Columns
from privledger.facts.schema import Schema
from privledger.rounding import count
from privledger.tables.foreign import streamed
from privledger.tables.frames import check_target
from privledger.tables.listing import Paths
from privledger.tables.origin import Origin
from privledger.tables.rowfiles import CSV, PARQUET, csv_files, parquet_files
from privledger.tables.wanted import Array, Wanted

MOST_ROWS = 1 << 24
"""Rows of one batch."""
_PIECE = 1 << 14  # rows that are decoded at a time: they stay in the processor's cache


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
        return _regrouped(wanted, self.origin, rows)


def _regrouped(wanted: Wanted, origin: Origin, rows: int) -> Iterator[Batch]:
    """Batches of exactly `rows` rows and one of the rest, wherever pieces end."""
    held: list[Array] = []
    so_far = 0
    for piece in origin.pieces(wanted.names, min(rows, _PIECE)):
        arrays = wanted.encoded(piece)
        size, start = len(arrays[0]), 0
        while start < size:
            stop = min(size, start + rows - so_far)
            held = _put(held, so_far, [array[start:stop] for array in arrays], rows)
            so_far, start = so_far + stop - start, stop
            if so_far == rows:
                yield _batch(wanted, held)
                held, so_far = [], 0
    if so_far:
        yield _batch(wanted, [array[:so_far] for array in held])


def _put(held: list[Array], so_far: int, arrays: list[Array], rows: int) -> list[Array]:
    """What is held with some more rows behind it. Room for all is made once, not by joining:
    a batch would be there twice."""
    if not held:
        if len(arrays[0]) == rows:
            return arrays
        held = [np.empty(rows, dtype=array.dtype) for array in arrays]
    elif [one.dtype for one in held] != [more.dtype for more in arrays]:  # ids, with cells missing
        held = [one.astype(np.result_type(one, more))
                for one, more in zip(held, arrays, strict=True)]
    for one, more in zip(held, arrays, strict=True):
        one[so_far:so_far + len(more)] = more
    return held


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


def scan_csv(paths: Paths) -> Source:
    """A table in CSV files (UTF-8, commas, a header in each), plain or as `.gz`, to be read in
    batches; see `Source`. Only headers are read here.

    Args:
        paths: as for `scan_parquet`.

    Raises:
        DataError: no such file, a file twice, or a header that cannot be used.
    """
    return Source(csv_files(paths))


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


def scan_files(path: str | os.PathLike[str], known: Container[str] = ()) -> Source:
    """The same for one path whose files say themselves what they are: Parquet by their ending,
    everything else is CSV. Names that are `known` from a schema may stand in messages.

    Raises:
        DataError: as for the two, or a folder that holds both.
    """
    name = os.fspath(path).rstrip("/")
    if not os.path.isdir(path):
        return Source(parquet_files(path, known) if name.endswith(PARQUET)
                      else csv_files(path, known))
    held = [one for one in os.listdir(path) if not one.startswith((".", "_"))]
    parquet = any(one.endswith(PARQUET) for one in held)
    if parquet and any(one.endswith(CSV) for one in held):
        raise DataError(f"{os.path.basename(name)}: the folder holds Parquet and CSV files: give "
                        "a pattern")
    return Source(parquet_files(path, known) if parquet else csv_files(path, known))
