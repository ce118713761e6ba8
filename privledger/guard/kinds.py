"""The kinds of blocks and cells whose sensitivity is derived (docs/proofs/queries.md).

What is checked is the guard's own copy of what was asked (mirror.py), on the vault itself.

The sets are closed: a stranger's block, cells, bins or score would run the stranger's code on
the rows, and its sensitivity would be a claim. Exact types, because a subclass is a stranger.
"""

from __future__ import annotations

from typing import Any

from privledger.errors import (
    DataError,
    NotGranted,
    RelationMismatch,
    SchemaError,
    UnsupportedNode,
)
from privledger.facts.bins import Bins
from privledger.facts.plain import is_plain, refuse
from privledger.facts.schema import Column, Schema
from privledger.graph import Context
from privledger.guard.dataset import Dataset, Step, wrong_positions
from privledger.guard.vault import Vault
from privledger.questions.blocks import ClassIs, ColumnValue, Ones, TargetShares
from privledger.questions.cells import (
    CategoryCells,
    CoinCells,
    CrossCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
)
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.closed_set import BLOCKS, CELLS
from privledger.questions.disjoint import by_record, certificate, depends_on_label
from privledger.questions.feature_choice import (
    CustomScores,
    FeatureChoice,
    ScoreName,
    Votes,
    check_fits,
)
from privledger.questions.grown import GrownCells
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.questions.score import Gradient, Hessian, ResidualCells, Score
from privledger.questions.tree_cells import Test, TreeCells

_INNER = ("bins", "tests", "parent", "first", "second", "score")  # checked by themselves


def check_query(query: object) -> None:
    """Raise `UnsupportedNode` unless everything that would touch rows is of a known kind."""
    if type(query) is not Query or type(query.data) is not Dataset:
        refuse(query)
        return
    vault = query.data._vault
    schema = vault.schema
    for block in query.blocks:
        if type(block) not in BLOCKS or not is_plain(block, "score", "function"):
            refuse(block)
        if isinstance(block, Gradient | Hessian):
            _check_score(block.score, vault)
        if isinstance(block, TargetShares):
            _check_column("", "numeric", schema)
        if isinstance(block, ColumnValue):
            _check_column(block.name, "numeric", schema)
        if isinstance(block, ClassIs) and not block.position < len(
                _check_column("", "categorical", schema).categories):
            raise SchemaError(f"the target column {schema.target.name!r} has fewer classes")
    if query.cells is not None:
        check_cells(query.cells, vault)
    check_steps(query.data)
    _check_labelled(query)


def check_labels(query: object) -> None:
    """Raise unless single labels may be asked here, and of whom is public."""
    if type(query) is not LabelQuery or type(query.data) is not Dataset:
        refuse(query)
        return
    vault = query.data._vault
    if vault.public is None:
        raise RelationMismatch("single labels are released where only labels are protected: a "
                               "ledger of relation replace_label. Nothing was read")
    _check_column("", "categorical", vault.schema)
    check_steps(query.data)
    if any(step.context.certificate != "index" or _has_coins(step.cells)
           for step in query.data.steps):
        raise UnsupportedNode("single labels are asked of public sets of records: not of a sample, "
                              "a filter, or a part that labels or coins decide. Nothing was read")
    if not is_labelled_part(query.data):
        raise UnsupportedNode("some records have no label: ask data.partition(LabelledCells())[1]. "
                              "Nothing was read")


def _has_coins(cells: object) -> bool:
    """Coins lie with the rows: who drew which is not known on the public side."""
    return type(cells) is CoinCells or (
        type(cells) is CrossCells and (_has_coins(cells.first) or _has_coins(cells.second)))


def check_steps(data: Dataset) -> None:
    """The derivation of a handle says what it restricts to."""
    for step in data.steps:
        _check_step(step, data._vault)


def is_labelled_part(data: Dataset) -> bool:
    """Whether a handle holds records with a label only."""
    return not data._vault.unlabelled or any(
        type(step.cells) is LabelledCells and step.context.part == 1 for step in data.steps)


def _check_labelled(query: Query) -> None:
    """What the target of a record without one would count as is nobody's guess."""
    asks = any(type(block) is not Ones and not (type(block) is ColumnValue and block.name)
               for block in query.blocks)
    asks |= depends_on_label(query.cells)
    asks |= any(depends_on_label(step.cells) for step in query.data.steps)
    if asks and not is_labelled_part(query.data):
        raise UnsupportedNode("some records have no label: ask about the target on "
                              "data.partition(LabelledCells())[1]. Nothing was read")


def check_choice(choice: Any) -> None:
    """The same for a choice: tree, labels and gradients are of known kinds and fit the data."""
    if type(choice) is FeatureChoice and type(choice.data) is Dataset:
        _check_features(choice)
        return
    if type(choice) not in (Choice, LabelChoice) or type(choice.data) is not Dataset:
        refuse(choice)
        return
    vault = choice.data._vault
    if not is_plain(choice, "data", "cells", "labels", "gradient"):
        refuse(choice)
    check_cells(choice.cells, vault)
    if choice.labels is not None:
        if not by_record(choice.labels):
            refuse(choice.labels)
        check_cells(choice.labels, vault)
    if isinstance(choice, Choice) and choice.gradient is not None:
        if (type(choice.gradient) is not Gradient or choice.gradient.width != 1
                or not is_plain(choice.gradient, "score")):
            refuse(choice.gradient)
        _check_score(choice.gradient.score, vault)
    if isinstance(choice, Choice) and choice.score == "squared_error" and choice.labels is None:
        _check_column("", "numeric", vault.schema)
    check_steps(choice.data)
    asks = isinstance(choice, LabelChoice) or choice.score != "rank"
    asks |= any(depends_on_label(step.cells) for step in choice.data.steps)
    if asks and not is_labelled_part(choice.data):
        raise UnsupportedNode("some records have no label: choose by the target on "
                              "data.partition(LabelledCells())[1]. Nothing was read")


def _check_features(choice: FeatureChoice) -> None:
    """Candidates and target are the schema's; votes and custom scores are of known kinds."""
    vault = choice.data._vault
    if type(choice.key) is not ScoreName:
        refuse(choice.key)
    if not is_plain(choice, "data", "key", "votes", "custom"):
        refuse(choice)
    if choice.votes is not None and not (type(choice.votes) is Votes and is_plain(choice.votes)):
        refuse(choice.votes)
    if choice.custom is not None and type(choice.custom) is not CustomScores:
        refuse(choice.custom)
    if not vault.has_target:
        raise DataError("the data were protected without a target; nothing was read")
    check_fits(choice.score, vault.schema)
    schema = choice.data.schema
    _check_own(schema, vault.schema)
    if schema is not vault.schema and not set(schema.columns) <= set(vault.schema.columns):
        raise SchemaError("the handle's columns are not the data's")
    check_steps(choice.data)
    if not is_labelled_part(choice.data):
        raise UnsupportedNode("some records have no label: choose by the target on "
                              "data.partition(LabelledCells())[1]. Nothing was read")


def _check_step(step: object, vault: Vault) -> None:
    """A derivation says what it restricts to; a part without cells would be everybody."""
    if type(step) is not Step:
        refuse(step)
        return
    if type(step.context) is not Context or not is_plain(step.context) or (
            step.context.kind != "part" and step.context.part != 0):
        raise NotGranted("a handle whose derivation was changed; nothing was read")
    if (step.context.kind == "part") != (step.cells is not None):
        raise NotGranted("a handle whose derivation was changed; nothing was read")
    if step.cells is not None:
        check_cells(step.cells, vault)
        if step.context.parts != step.cells.count or (
                step.context.certificate != certificate(step.cells, vault.public is not None)):
            raise NotGranted("a handle whose derivation was changed; nothing was read")


def check_cells(cells: object, vault: Vault) -> None:
    """The same for a partition. Whether it fits is decided by the schema, never by records:
    an error, or a shape, that only some records cause would be a release without noise."""
    if type(cells) not in CELLS or not is_plain(cells, *_INNER):
        refuse(cells)
    schema = vault.schema
    if isinstance(cells, TreeCells):
        for test in cells.tests:
            if type(test) is not Test or not is_plain(test):
                refuse(test)
        _check_bins(cells.bins, schema)
    if isinstance(cells, GrownCells):
        tree: GrownCells | None = cells
        while tree is not None:
            if type(tree) is not GrownCells or not is_plain(tree, *_INNER) or (
                    tree.count != (1 if tree.parent is None else 2 * tree.parent.count)):
                refuse(tree)
            tree = tree.parent
        _check_bins(cells.bins, schema)
    if isinstance(cells, CrossCells):
        for part in (cells.first, cells.second):
            if type(part) is CrossCells:
                refuse(part)
            check_cells(part, vault)
    if isinstance(cells, ResidualCells):
        _check_score(cells.score, vault)
    if isinstance(cells, LabelledCells) and not vault.unlabelled:
        raise UnsupportedNode("every record has a label: protect(..., unlabelled=True) allows "
                              "others. Nothing was read")
    if isinstance(cells, IndexCells):
        wrong = wrong_positions(len(cells.places), vault)
        if wrong is not None:
            raise wrong
    if isinstance(cells, IntervalCells):
        _check_column(cells.name, "numeric", schema)
    if isinstance(cells, CategoryCells):
        column = _check_column(cells.name, "categorical", schema)
        cells.check(len(column.categories) + (1 if cells.name else 0))


def _check_own(held: object, schema: Schema) -> None:
    """A stranger's columns would be asked again where the rows are."""
    if held is not schema and (type(held) is not Schema or not all(
            type(column) is Column and is_plain(column) for column in held.columns)):
        refuse(held)


def _check_bins(bins: object, schema: Schema) -> None:
    if type(bins) is not Bins or not is_plain(bins, "schema", "stack", "orders"):
        refuse(bins)
        return
    _check_own(bins.schema, schema)
    if bins.schema is not schema and not set(bins.schema.features) <= set(schema.features):
        raise SchemaError("the tree's bins are for other columns than the data's")


def _check_column(name: str, kind: str, schema: Schema) -> Column:
    column = schema.features[schema.feature_index(name)] if name else schema.target
    if column.kind != kind:
        raise SchemaError(f"column {column.name!r} is not {kind}")
    return column


def _check_score(score: object, vault: Vault) -> None:
    if type(score) is not Score:
        refuse(score)
        return
    if not is_plain(score, "_updates", "_checked"):
        refuse(score)
    schema = vault.schema
    classes = len(schema.target.categories)
    fits = {"squared": schema.task == "regression" and score.width == 1,
            "logistic": classes == 2 and score.width == 1,
            "softmax": classes > 1 and score.width == classes}[score.loss]
    if not fits:
        raise SchemaError(f"a {score.loss} score of width {score.width} does not fit the target "
                          f"column {schema.target.name!r}")
    score.check_updates(vault, lambda cells: check_cells(cells, vault))
