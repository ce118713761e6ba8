"""Frames in memory, of whatever library: their columns by name.

pandas, mappings and arrays are read as they are; pyarrow tables and record batches, polars and
everything else that narwhals knows come as Arrow columns. This runs at the owner's side, before
the guard. Errors name columns and rules, never values.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError, SchemaError
from privledger.tables.listing import TEXT, File, Origin, Piece, listed_files
from privledger.tables.raw import (
    Text,
    arrow_of,
    check_arrow,
    check_utf8,
    family,
    plain_cells,
)
from privledger.tables.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_KNOWN = ("numpy", "pandas", "builtins")
Named: TypeAlias = "Mapping[str, pa.ChunkedArray]"


def is_plain_table(X: object) -> bool:
    """Whether it is an array, a frame of pandas or a mapping: in memory, and read as it is."""
    return type(X).__module__.partition(".")[0] in _KNOWN


def arrow_columns(X: object, known: Container[str] = ()) -> Named | None:
    """The columns of a frame of another library than pandas, by name; None for anything else.

    Args:
        known: names of a schema, which may stand in messages.

    Raises:
        DataError: two columns of one name.
    """
    if is_plain_table(X) or isinstance(X, Mapping) or not _framed(X):
        return None
    table = _as_table(X, type(X).__module__.partition(".")[0])
    if table is None:
        return None
    names = frame_names(table.schema)
    once(list(names), known=known)
    return dict(zip(names, table.columns, strict=True))


def _as_table(X: object, root: str) -> pa.Table | None:
    """The frame as Arrow's; None for pandas, whatever it is wrapped in."""
    if root != "pyarrow":
        import narwhals as nw

        try:
            frame = nw.from_native(X, eager_only=True, pass_through=True)
        except nw.exceptions.DuplicateError:
            raise DataError("a column is given twice") from None
        if isinstance(frame, nw.DataFrame):
            is_pandas = nw.get_native_namespace(frame).__name__ == "pandas"
            if is_pandas:
                return None
            check_arrow(f"a frame of {root}")
            return frame.to_arrow()
    check_arrow(f"a frame of {root}")
    import pyarrow as pa

    return X if isinstance(X, pa.Table) else pa.table(X)


def check_is_table(X: object, what: str) -> None:
    """Raise `DataError` for what is taken for a table now and then, and says nothing of why not."""
    if isinstance(X, Schema):
        raise DataError(f"{what} is a schema: the order is table, target, schema")
    if isinstance(X, str | bytes | os.PathLike):
        raise DataError(f"{what} is a path or a text: pl.read_table(path, schema) reads a file, "
                        "pl.scan_csv(path) and pl.scan_parquet(path) read one in batches, and "
                        "target= names the column of the table that is its target")
    if type(X).__module__.startswith("scipy.sparse"):
        raise DataError(f"{what} is a sparse matrix: only dense ones are read; X.toarray() makes "
                        "one")


def missing_columns(missing: Iterable[str], held: Iterable[object]) -> str:
    """What is said of columns that a table has not. Its own names are not shown: where a table
    has no header they are values."""
    there = {"".join(str(name).split()).casefold() for name in held}
    alike = [name for name in missing if "".join(name.split()).casefold() in there]
    text = f"missing column {', '.join(missing)}"
    return text if not alike else (
        f"{text}: did you mean the one that differs from {alike[0]} in capitals or spaces only? "
        "Names are compared exactly")


def frame_names(schema: pa.Schema, where: str = "") -> list[str]:
    """Names of columns; `DataError` for one that is no text."""
    try:
        return list(schema.names)
    except UnicodeDecodeError:
        raise DataError(f"{where + ': ' if where else ''}a column has a name that is not "
                        "UTF-8") from None


def once(names: list[str], where: str = "", known: Container[str] = ()) -> None:
    """Raise `DataError` for a column that is there twice: two readers could see two values.

    Of a name that is not `known` from a schema only its places are told: where a header is
    missing, it is a person's cell.
    """
    places: dict[str, int] = {}
    for place, name in enumerate(names, 1):
        if places.setdefault(name, place) == place:
            continue
        start = where + ": " if where else ""
        if name in known:
            raise DataError(f"{start}column {name} is given twice")
        raise DataError(f"{start}a column is given twice: columns {places[name]} and {place} have "
                        "the same name")


def _framed(X: object) -> bool:
    """Whether it is a table in memory that can be had as Arrow. An array of the PyCapsule kind
    without fields is a column, and a scan is no table yet."""
    return (hasattr(X, "__arrow_c_stream__") or hasattr(X, "__narwhals_dataframe__")
            or hasattr(X, "__arrow_c_array__")) and hasattr(X, "columns")


def column_of(X: object, name: str) -> object:
    """One column of a frame or a mapping: as it is, or as a NumPy array where it was Arrow's.

    Raises:
        DataError: it has no such column, or no names at all.
    """
    found = column_as_held(X, name)
    return found if arrow_columns(X) is None else column_in_numpy(found)


def column_in_numpy(values: object) -> NDArray[np.generic]:
    """A column as a NumPy array; of Arrow's, a missing cell is NaN among numbers, else None."""
    if isinstance(values, Text):
        return np.array(values.texts, dtype=object)
    array = arrow_of(values)
    if array is None:
        return plain_cells(values)
    import pyarrow as pa

    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    check_utf8(array, "a column")
    found: NDArray[np.generic] = array.to_numpy(zero_copy_only=False)
    return found


def column_as_held(X: object, name: str) -> object:
    """One column of a frame or a mapping, as its library holds it, or as Arrow.

    Raises:
        DataError: as for `column_of`.
    """
    arrow = arrow_columns(X, (name,))
    if arrow is None:
        held = getattr(X, "columns", X if isinstance(X, Mapping) else ())
        arrow = cast(Named, X) if name in held else {}
    if name not in arrow:
        raise DataError(missing_columns([name], list(arrow)))
    return arrow[name]


def check_target(schema: Schema, target: object) -> None:
    """Raise `SchemaError` unless `target` is the name of the schema's target column: by its
    bounds and categories no other column can be read."""
    if not isinstance(target, str) or schema.target.name != target:
        raise SchemaError(f"target: the schema's target column is {schema.target.name!r}")


def split_target(X: object, name: str) -> tuple[object, object]:
    """A frame or a mapping, and the column of it that holds the target.

    The frame stays as it is: whatever a schema does not call a feature is not read as one.

    Raises:
        DataError: it has no such column, or no names at all.
    """
    return X, column_as_held(X, name)


# Tables of other libraries that are not in memory yet: Arrow datasets, polars scans, Dask frames.
#
# What makes them up is their owner's: a plan that drops or joins rows is run as it is. What a
# library says when that fails may quote a cell, so only the kind of the error is passed on.

if TYPE_CHECKING:
    import polars
    import pyarrow as pa
    import pyarrow.dataset as arrow_dataset

_TYPED = ("ParquetFileFormat", "IpcFileFormat", "FeatherFileFormat", "OrcFileFormat")
_BUFFER = 1 << 16


@contextmanager
def _quietly(where: str, what: str) -> Iterator[None]:
    try:
        yield
    except DataError:
        raise
    except Exception as error:  # its text may quote a cell
        kind = type(error).__name__
        raise DataError(f"{where + ': ' if where else ''}{what} could not be read "
                        f"({kind})") from None


@frozen(eq=False, repr=False)
class ArrowDataset:
    """A `pyarrow.dataset.Dataset` of files with types of their own, or of tables in memory.

    Attributes:
        files: its files as they were, where they are on this machine.
    """

    dataset: arrow_dataset.Dataset
    files: tuple[File, ...]

    @property
    def kind(self) -> str:
        """A word for it."""
        return "dataset"

    def families(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Of each fragment: its own columns, and what its folder's name says."""
        self._check()
        with _quietly("", "the dataset"):
            for fragment in self.dataset.get_fragments():
                schema = _schema_of(self.dataset, fragment)
                yield _name_of(fragment), {field.name: family(field.type) for field in schema}

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """Fragment by fragment, in the dataset's order. No filter is set, so nothing asks for
        statistics."""
        self._check()
        for fragment in self.dataset.get_fragments():
            where = _name_of(fragment)
            with _quietly(where, "the file"):
                scanner = fragment.scanner(
                    schema=_schema_of(self.dataset, fragment), columns=list(names),
                    batch_size=rows, batch_readahead=1, use_threads=False,
                    **_options_for(fragment))
                for batch in scanner.to_batches():
                    yield Piece(where, {name: batch.column(name) for name in names})
        self._check()

    def _check(self) -> None:
        for file in self.files:
            file.check()


def _name_of(fragment: arrow_dataset.Fragment) -> str:
    return Path(getattr(fragment, "path", "")).name


def _options_for(fragment: arrow_dataset.Fragment) -> dict[str, object]:
    import pyarrow.dataset as arrow_dataset

    if not isinstance(fragment, arrow_dataset.ParquetFileFragment):
        return {}
    return {"fragment_scan_options": arrow_dataset.ParquetFragmentScanOptions(
        use_buffered_stream=True, buffer_size=_BUFFER, pre_buffer=False,
        page_checksum_verification=True)}


def _schema_of(dataset: arrow_dataset.Dataset, fragment: arrow_dataset.Fragment) -> pa.Schema:
    """A fragment's own columns and those of its folder. A column that others have and this one
    has not stays missing: Arrow would fill it with missing cells."""
    import pyarrow as pa
    import pyarrow.dataset as arrow_dataset

    held = fragment.physical_schema
    once(frame_names(held, _name_of(fragment)), _name_of(fragment))
    keys = arrow_dataset.get_partition_keys(fragment.partition_expression)
    return pa.schema([*held, *(dataset.schema.field(name) for name in keys
                               if name not in held.names)])


def arrow_files(dataset: arrow_dataset.Dataset) -> ArrowDataset:
    """The dataset, after a look at what it is made of.

    Raises:
        DataError: it has a filter, or files whose types Arrow would guess.
    """
    from pyarrow import fs

    if getattr(dataset, "_scan_options", None):
        raise DataError("the dataset has a filter, which Arrow may answer from the minima and "
                        "maxima stated in the files. Filter when the files are written")
    for fragment in dataset.get_fragments():
        form = type(getattr(fragment, "format", None)).__name__
        if form not in (*_TYPED, "NoneType"):
            raise DataError(f"{_name_of(fragment)}: Arrow would guess the types of its columns: "
                            "use scan_csv for CSV")
    local = isinstance(getattr(dataset, "filesystem", None), fs.LocalFileSystem)
    return ArrowDataset(dataset, listed_files(dataset.files, ()).files
                        if local and dataset.files else ())


@frozen(eq=False, repr=False)
class PolarsScan:
    """A polars `LazyFrame`."""

    frame: polars.LazyFrame

    @property
    def kind(self) -> str:
        """A word for it."""
        return "polars scan"

    def families(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """As polars resolves the plan."""
        check_arrow("a polars scan")
        with _quietly("", "the polars scan"):
            schema = self.frame.collect_schema().to_frame(eager=True).to_arrow().schema
            yield "", {field.name: family(field.type) for field in schema}

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """In order. Filters are not pushed into the files, where statistics would answer them."""
        import polars

        with _quietly("", "the polars scan"):
            batches = self.frame.select(names).collect_batches(
                chunk_size=rows, maintain_order=True, lazy=True,
                optimizations=polars.QueryOptFlags(predicate_pushdown=False))
            for batch in batches:
                yield Piece("", {name: batch[name] for name in names})


@frozen(eq=False, repr=False)
class DaskFrame:
    """A Dask frame: partition by partition, by whatever scheduler it is set to."""

    frame: Any

    @property
    def kind(self) -> str:
        """A word for it."""
        return "Dask frame"

    def families(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Names only: what a partition holds is seen when it is computed."""
        names = [str(name) for name in self.frame.columns]
        once(names, self.kind)
        yield "", dict.fromkeys(names, TEXT)

    def pieces(self, names: tuple[str, ...], rows: int) -> Iterator[Piece]:
        """A partition is in memory as a whole: it should be small."""
        frame = self.frame[list(names)]
        for place in range(frame.npartitions):
            where = f"partition {place}"
            with _quietly(where, "the Dask frame"):
                part = frame.get_partition(place).compute()
            for start in range(0, len(part), rows):
                yield Piece(where, {name: part[name].iloc[start:start + rows] for name in names})


def streamed(X: object) -> Origin | None:
    """The origin of what must not be taken into memory as a whole; None for anything else.

    Libraries are not imported to find out: a caller with such an object has imported them.

    Raises:
        DataError: it is such an object, and cannot be read.
    """
    roots = {one.__module__.partition(".")[0] for one in type(X).__mro__}
    if "narwhals" in roots:
        import narwhals as nw

        return streamed(nw.to_native(X)) if isinstance(X, nw.LazyFrame) else None
    if "pyarrow" in roots:
        import pyarrow.dataset as arrow_dataset

        return arrow_files(X) if isinstance(X, arrow_dataset.Dataset) else None
    if "polars" in roots:
        import polars

        return PolarsScan(X) if isinstance(X, polars.LazyFrame) else None
    if "dask" in roots and hasattr(X, "npartitions") and hasattr(X, "columns"):
        return DaskFrame(X)
    return None
