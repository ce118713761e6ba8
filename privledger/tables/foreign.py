"""Tables of other libraries that are not in memory yet: Arrow datasets, polars scans, Dask frames.

What makes them up is their owner's: a plan that drops or joins rows is run as it is. What a
library says when that fails may quote a cell, so only the kind of the error is passed on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from attrs import frozen

from privledger.errors import DataError
from privledger.tables.frames import names_of, once
from privledger.tables.listing import File, listed
from privledger.tables.origin import TEXT, Origin, Piece
from privledger.tables.raw import family

if TYPE_CHECKING:
    import polars
    import pyarrow as pa
    import pyarrow.dataset as arrow_dataset

_TYPED = ("ParquetFileFormat", "IpcFileFormat", "FeatherFileFormat", "OrcFileFormat")
_BUFFER = 1 << 16


class Series(Protocol):
    """Of pandas, as far as it is used here."""

    def __getitem__(self, rows: slice) -> Series:
        """Some of its cells."""

    @property
    def iloc(self) -> Series:
        """The same, by position."""


class Computed(Protocol):
    """A frame of pandas, as far as it is used here."""

    def __len__(self) -> int:
        """How many rows."""

    def __getitem__(self, name: str) -> Series:
        """A column."""


class Partition(Protocol):
    """A piece of a Dask frame, as far as it is used here."""

    def compute(self) -> Computed:
        """Its rows, in memory."""


class DaskLike(Protocol):
    """A Dask frame, as far as it is used here."""

    @property
    def npartitions(self) -> int:
        """How many pieces it has."""

    @property
    def dtypes(self) -> Mapping[str, object]:
        """What its columns are said to be."""

    @property
    def columns(self) -> list[str]:
        """Their names."""

    def __getitem__(self, names: list[str]) -> DaskLike:
        """Some columns."""

    def get_partition(self, place: int) -> Partition:
        """One piece."""


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
    once(names_of(held, _name_of(fragment)), _name_of(fragment))
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
        raise DataError("the dataset has a filter, which Arrow may answer from minima and maxima "
                        "that the files state: filter when the files are written")
    for fragment in dataset.get_fragments():
        form = type(getattr(fragment, "format", None)).__name__
        if form not in (*_TYPED, "NoneType"):
            raise DataError(f"{_name_of(fragment)}: Arrow would guess the types of its columns; "
                            "for CSV there is scan_csv")
    local = isinstance(getattr(dataset, "filesystem", None), fs.LocalFileSystem)
    return ArrowDataset(dataset, listed(dataset.files, ()).files if local and dataset.files else ())


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

    frame: DaskLike

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

    Libraries are not imported to find out: whoever has such an object has imported them.

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
        return DaskFrame(cast(DaskLike, X))
    return None
