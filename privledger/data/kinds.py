"""The kinds of blocks and cells whose sensitivity is derived (docs/proofs/queries.md).

The sets are closed: a stranger's block, cells, bins or score would run the stranger's code on
the rows, and its sensitivity would be a claim. Exact types, because a subclass is a stranger.
"""

from __future__ import annotations

from privledger.data.bins import Bins, Test, TreeCells
from privledger.data.blocks import ClassIs, ColumnValue, CustomValue, Ones
from privledger.data.cells import (
    CategoryCells,
    CoinCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
    ResidualCells,
)
from privledger.data.dataset import Dataset, Step, check_positions
from privledger.data.disjoint import certificate, depends_on_label
from privledger.data.labels import LabelQuery
from privledger.data.query import Query
from privledger.data.rows import Vault
from privledger.data.schema import Column, Schema
from privledger.data.score import Gradient, Hessian, Score
from privledger.errors import NotGranted, RelationMismatch, SchemaError, UnsupportedNode

BLOCKS: tuple[type, ...] = (Ones, ColumnValue, ClassIs, CustomValue, Gradient, Hessian)
UPDATES: tuple[type, ...] = (TreeCells, CategoryCells, IntervalCells, CoinCells)
CELLS: tuple[type, ...] = (TreeCells, CategoryCells, IntervalCells, ResidualCells, CoinCells,
                           LabelledCells, IndexCells)


def check_query(query: object) -> None:
    """Raise `UnsupportedNode` unless everything that would touch rows is of a known kind."""
    if type(query) is not Query or type(query.data) is not Dataset:
        _refuse(query)
        return
    vault = query.data._vault
    schema = vault.schema
    for block in query.blocks:
        if type(block) not in BLOCKS:
            _refuse(block)
        if isinstance(block, Gradient | Hessian):
            _check_score(block.score, vault)
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
        _refuse(query)
        return
    vault = query.data._vault
    if vault.public is None:
        raise RelationMismatch("single labels are released where only labels are protected: a "
                               "ledger of relation replace_label. Nothing was read")
    _check_column("", "categorical", vault.schema)
    check_steps(query.data)
    if any(step.context.certificate != "index" for step in query.data.steps):
        raise UnsupportedNode("single labels are asked of public sets of records: not of a sample, "
                              "a filter, or a part that labels or coins decide. Nothing was read")
    if not is_labelled_part(query.data):
        raise UnsupportedNode("some records have no label: ask data.partition(LabelledCells())[1]. "
                              "Nothing was read")


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


def check_update(cells: object) -> None:
    """Cells that a score's values may hang on: public ones and private coins.

    Not those of another score, which could change after this one was checked.
    """
    if type(cells) not in UPDATES:
        _refuse(cells)


def _check_step(step: object, vault: Vault) -> None:
    """A derivation says what it restricts to; a part without cells would be everybody."""
    if type(step) is not Step:
        _refuse(step)
        return
    if (step.context.kind == "part") != (step.cells is not None):
        raise NotGranted("a handle whose derivation was changed; nothing was read")
    if step.cells is not None:
        check_cells(step.cells, vault)
        if step.context.parts != step.cells.count or (
                step.context.certificate != certificate(step.cells, vault)):
            raise NotGranted("a handle whose derivation was changed; nothing was read")


def check_cells(cells: object, vault: Vault) -> None:
    """The same for a partition. Whether it fits is decided by the schema, never by records:
    an error, or a shape, that only some records cause would be a release without noise."""
    if type(cells) not in CELLS:
        _refuse(cells)
    schema = vault.schema
    if isinstance(cells, TreeCells):
        if type(cells.bins) is not Bins:
            _refuse(cells.bins)
        for test in cells.tests:
            if type(test) is not Test:
                _refuse(test)
        binned = cells.bins.schema
        if binned is not schema and not set(binned.features) <= set(schema.features):
            raise SchemaError("the tree's bins are for other columns than the data's")
    if isinstance(cells, ResidualCells):
        _check_score(cells.score, vault)
    if isinstance(cells, LabelledCells) and not vault.unlabelled:
        raise UnsupportedNode("every record has a label: protect(..., unlabelled=True) allows "
                              "others. Nothing was read")
    if isinstance(cells, IndexCells):
        check_positions(cells, vault)
    if isinstance(cells, IntervalCells):
        _check_column(cells.name, "numeric", schema)
    if isinstance(cells, CategoryCells):
        column = _check_column(cells.name, "categorical", schema)
        cells.check(len(column.categories) + (1 if cells.name else 0))


def _check_column(name: str, kind: str, schema: Schema) -> Column:
    column = schema.features[schema.feature_index(name)] if name else schema.target
    if column.kind != kind:
        raise SchemaError(f"column {column.name!r} is not {kind}")
    return column


def _check_score(score: object, vault: Vault) -> None:
    if type(score) is not Score:
        _refuse(score)
        return
    schema = vault.schema
    classes = len(schema.target.categories)
    fits = {"squared": schema.task == "regression" and score.width == 1,
            "logistic": classes == 2 and score.width == 1,
            "softmax": classes > 1 and score.width == classes}[score.loss]
    if not fits:
        raise SchemaError(f"a {score.loss} score of width {score.width} does not fit the target "
                          f"column {schema.target.name!r}")
    score.check_updates(vault, lambda cells: check_cells(cells, vault))


def _refuse(what: object) -> None:
    raise UnsupportedNode(f"no derived sensitivity for {type(what).__name__}; use data.custom, "
                          "which is recorded as asserted. Nothing was read")
