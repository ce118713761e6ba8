"""Public facts about tables, guarded handles, and the queries they can describe."""

from privledger.data.bins import Bins, Test, TreeCells
from privledger.data.blocks import (
    ClassIs,
    ColumnValue,
    CustomValue,
    Ones,
    TargetShares,
    clipped,
)
from privledger.data.cells import (
    CategoryCells,
    Cells,
    CoinCells,
    CrossCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
    ResidualCells,
)
from privledger.data.choices import (
    Choice,
    CustomScores,
    FeatureChoice,
    GrownCells,
    LabelChoice,
    Picked,
    Votes,
)
from privledger.data.dataset import Dataset, Partition
from privledger.data.labels import LabelQuery
from privledger.data.query import Query
from privledger.data.rows import Rows, Vault
from privledger.data.schema import Column, Schema
from privledger.data.score import Score, probabilities
from privledger.data.table import Columns, encode_features, encode_target, read_table

__all__ = [
    "Bins",
    "CategoryCells",
    "Cells",
    "Choice",
    "ClassIs",
    "CoinCells",
    "Column",
    "ColumnValue",
    "Columns",
    "CrossCells",
    "CustomScores",
    "CustomValue",
    "Dataset",
    "FeatureChoice",
    "GrownCells",
    "IndexCells",
    "IntervalCells",
    "LabelChoice",
    "LabelQuery",
    "LabelledCells",
    "Ones",
    "Partition",
    "Picked",
    "Query",
    "ResidualCells",
    "Rows",
    "Schema",
    "Score",
    "TargetShares",
    "Test",
    "TreeCells",
    "Vault",
    "Votes",
    "clipped",
    "encode_features",
    "encode_target",
    "probabilities",
    "read_table",
]
