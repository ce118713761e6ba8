"""What may be asked of guarded records: one file per kind, with the sensitivity that follows."""

from privledger.questions.blocks import (
    ClassIs,
    ColumnMoments,
    ColumnValue,
    CustomValue,
    Ones,
    RowValues,
    TargetShares,
)
from privledger.questions.cells import (
    CategoryCells,
    CrossCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
    MappedCells,
    NamedCells,
    NearestCells,
    RowsPerPersonCells,
)
from privledger.questions.choice import Choice, LabelChoice, QuantileChoice, TableChoice
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.feature_scores import CustomScores
from privledger.questions.groups import GroupQuery, Groups
from privledger.questions.grown import GrownCells, Test, TreeCells
from privledger.questions.label_query import LabelQuery, ResponseQuery
from privledger.questions.noise_stream import CorrelatedSum, NoiseStream
from privledger.questions.options import Picked
from privledger.questions.query import Query
from privledger.questions.row_encoding import RowEncoding
from privledger.questions.score import LinearGradient, ResidualCells, Score, probabilities
from privledger.questions.threshold import AboveThreshold, ThresholdRun
from privledger.questions.votes import Votes
from privledger.tables.bins import Bins

__all__ = ["AboveThreshold", "Bins", "CategoryCells", "Choice", "ClassIs", "ColumnMoments",
           "ColumnValue", "CorrelatedSum", "CrossCells", "CustomScores", "CustomValue",
           "FeatureChoice", "GroupQuery", "Groups", "GrownCells", "IndexCells", "IntervalCells",
           "LabelChoice", "LabelQuery", "LabelledCells", "LinearGradient", "MappedCells",
           "NamedCells", "NearestCells", "NoiseStream", "Ones", "Picked", "QuantileChoice",
           "Query", "ResidualCells", "ResponseQuery", "RowEncoding", "RowValues",
           "RowsPerPersonCells", "Score", "TableChoice", "TargetShares", "Test", "ThresholdRun",
           "TreeCells", "Votes", "probabilities"]
