"""What may be asked of guarded records: one file per kind, with the sensitivity that follows."""

from privledger.facts.bins import Bins
from privledger.questions.blocks import (
    ClassIs,
    ColumnValue,
    CustomValue,
    Ones,
    TargetShares,
)
from privledger.questions.cells import (
    CategoryCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
)
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.cross_cells import CrossCells
from privledger.questions.custom_scores import CustomScores
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.grown import GrownCells
from privledger.questions.label_query import LabelQuery
from privledger.questions.linear_gradient import LinearGradient
from privledger.questions.options import Picked
from privledger.questions.person_cells import RowsPerPersonCells
from privledger.questions.quantile import QuantileChoice
from privledger.questions.query import Query
from privledger.questions.response_query import ResponseQuery
from privledger.questions.row_encoding import RowEncoding
from privledger.questions.row_values import RowValues
from privledger.questions.score import ResidualCells, Score, probabilities
from privledger.questions.threshold import AboveThreshold, ThresholdRun
from privledger.questions.tree_cells import Test, TreeCells
from privledger.questions.votes import Votes

__all__ = [
    "AboveThreshold",
    "Bins",
    "CategoryCells",
    "Choice",
    "ClassIs",
    "ColumnValue",
    "CrossCells",
    "CustomScores",
    "CustomValue",
    "FeatureChoice",
    "GrownCells",
    "IndexCells",
    "IntervalCells",
    "LabelChoice",
    "LabelQuery",
    "LabelledCells",
    "LinearGradient",
    "Ones",
    "Picked",
    "QuantileChoice",
    "Query",
    "ResidualCells",
    "ResponseQuery",
    "RowEncoding",
    "RowValues",
    "RowsPerPersonCells",
    "Score",
    "TargetShares",
    "Test",
    "ThresholdRun",
    "TreeCells",
    "Votes",
    "probabilities",
]
