"""The closed set: every kind whose sensitivity is derived (docs/proofs/queries.md). Nothing else
lists kinds.

A stranger's question, block, cells, bins or score would run the stranger's code on the rows, and
its sensitivity would be a claim. Exact types, because a subclass is a stranger.
"""

from __future__ import annotations

from typing import Any

from privledger.facts.bins import Bins, Stack
from privledger.facts.schema import Column, Schema
from privledger.graph import Context
from privledger.questions.blocks import ClassIs, ColumnValue, CustomValue, Ones, TargetShares
from privledger.questions.cells import (
    IndexCells,
    LabelledCells,
)
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.cross_cells import CrossCells
from privledger.questions.custom_scores import CustomScores
from privledger.questions.derivation import Step
from privledger.questions.feature_choice import FeatureChoice, ScoreName
from privledger.questions.label_query import LabelQuery
from privledger.questions.linear_gradient import LinearGradient
from privledger.questions.person_cells import RowsPerPersonCells
from privledger.questions.quantile import QuantileChoice
from privledger.questions.query import Query
from privledger.questions.response_query import ResponseQuery
from privledger.questions.row_values import RowValues
from privledger.questions.score import TERMS, UPDATES, Gradient, Hessian, ResidualCells, Score
from privledger.questions.threshold import AboveThreshold, ThresholdRun
from privledger.questions.tree_cells import Test
from privledger.questions.votes import Votes

QUESTIONS: tuple[type, ...] = (Query, Choice, LabelChoice, FeatureChoice, QuantileChoice,
                              LabelQuery, ResponseQuery, AboveThreshold)
BLOCKS: tuple[type, ...] = (Ones, ColumnValue, ClassIs, TargetShares, RowValues, CustomValue,
                            Gradient, Hessian, LinearGradient)
CELLS: tuple[type, ...] = (*UPDATES, ResidualCells, CrossCells, LabelledCells, IndexCells,
                           RowsPerPersonCells)
MOVES: tuple[type, ...] = tuple(dict.fromkeys((*CELLS, *TERMS)))
"""Cells, and what moves a score beside them."""
NUMBERED: tuple[type, ...] = (*MOVES, Bins, Score, ThresholdRun)
"""What a confined learner gives numbers to: objects that several questions share."""

PARTS: frozenset[type] = frozenset({
    *BLOCKS, *NUMBERED, Column, Schema, Context, Stack, Test, Step, Votes, CustomScores, ScoreName,
    slice})
"""What a field of the guard's copy may hold besides plain values: copies of the guard's own."""


def named(name: str, kinds: tuple[type, ...]) -> Any:
    """The kind of that name, as messages write it; None for every other name."""
    return next((kind for kind in kinds if kind.__name__ == name), None)
