"""Where rows come from, and the layout in which the guard reads them."""

from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_column, encode_features, encode_target
from privledger.tables.frames import split_target
from privledger.tables.sources import (
           Batch,
           Source,
           as_frame,
           as_source,
           read_features,
           read_table,
           scan_csv,
           scan_parquet,
)

__all__ = ["Batch", "Rows", "Source", "as_frame", "as_source", "encode_column", "encode_features",
           "encode_target", "read_features", "read_table", "scan_csv", "scan_parquet",
           "split_target"]
