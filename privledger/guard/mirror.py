"""The guard's own copy of what a learner describes: made once, by this package's constructors.

A description belongs to the learner, who may change it at any time: between the check and the
reading, from another thread, or from a custom function in the middle of a release. So nothing of
it is checked, priced or computed with. Everything is copied first, by exact type, which checks
every field anew; what follows sees the copy only, and the copy leaves the guard never.

Shared objects (cells, bins, scores) get one copy each for one vault, however often they are asked
about: caches, coins and parts hang on their identity. A change of the original afterwards
changes nothing; a score alone goes on, because its updates are added at the end.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any

import attrs

from privledger.errors import NotGranted, UnsupportedNode
from privledger.facts.bins import Bins
from privledger.facts.plain import is_plain, refuse
from privledger.facts.schema import Column, Schema
from privledger.graph import Context, Node
from privledger.graph.nodes import LEAF_TYPES
from privledger.guard.dataset import Dataset, Step
from privledger.guard.vault import Seal, Vault, _vault_of
from privledger.questions.blocks import ClassIs, ColumnValue, CustomValue, Ones, TargetShares
from privledger.questions.cells import (
    CategoryCells,
    CoinCells,
    CrossCells,
    IndexCells,
    IntervalCells,
    LabelledCells,
)
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.feature_choice import CustomScores, FeatureChoice, ScoreName, Votes
from privledger.questions.grown import MOST_CELLS, GrownCells
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.questions.score import Gradient, Hessian, ResidualCells, Score
from privledger.questions.tree_cells import Test, TreeCells
from privledger.rounding import number

_KINDS = ("poisson", "part", "filter")


def own_leaf(mechanism: Any) -> Any:
    """A mechanism of the guard's own, equal to `mechanism`; its record checks itself again.

    Raises:
        InvalidValue: a field that can never be right, as after a change behind its back.
    """
    if type(mechanism) not in LEAF_TYPES:
        return mechanism  # whoever samples from it refuses it by its exact type
    copy: Node = attrs.evolve(mechanism)
    if not is_plain(copy):
        raise UnsupportedNode(f"a {type(mechanism).__name__} of somebody's own numbers; nothing "
                              "was read")
    return copy


def own_question(question: Any, vault: Vault) -> Any:
    """The same question in objects of the guard's own, on the vault itself.

    Raises:
        UnsupportedNode: a part of it is of an unknown kind. NotGranted: of other data.
    """
    make = _QUESTIONS.get(type(question))
    if make is None or type(question.data) is not Dataset:
        refuse(question)
    copy = make(question, vault)
    if type(copy.what) is not str:
        refuse(copy.what)
    return copy


def own_schema(schema: Schema) -> Schema:
    """A schema that nobody else holds."""
    if type(schema) is not Schema or any(type(column) is not Column for column in schema.columns):
        refuse(schema)
    columns = [Column(*(getattr(column, one.name) for one in attrs.fields(Column)))
               for column in schema.columns]
    if not all(is_plain(column) for column in columns) or type(schema.name) is not str:
        refuse(schema)
    return Schema(schema.name, columns, schema.public_rows, schema.array_layout,
                  schema.expected_rows, schema.expected_rows_provenance)


def remember(vault: Vault, schema: Schema) -> None:
    """Let `schema`, which the handles show, stand for the vault's own copy of it."""
    vault.copies[id(schema)] = weakref.ref(schema), vault.schema


def forget_dead(vault: Vault) -> None:
    """Drop the copies of what nobody holds any more."""
    for place, (original, _) in list(vault.copies.items()):
        if original() is None:
            vault.copies.pop(place, None)


def _one(what: Any, vault: Vault) -> Any:
    """The copy of a shared object; the same one every time."""
    make = _SHARED.get(type(what))
    if make is None:
        refuse(what)
    known = vault.copies.get(id(what))
    if known is None or known[0]() is not what:
        copy = _keep(what, make(what, vault), vault)
    else:
        copy = known[1]
    _follow(what, copy, vault)
    return copy


def _keep(what: object, copy: Any, vault: Vault) -> Any:
    """Let `copy` stand for `what`, unless another thread was first."""
    fresh = weakref.ref(what), copy
    known = vault.copies.setdefault(id(what), fresh)
    if known[0]() is not what:  # of one that is gone
        known = vault.copies[id(what)] = fresh
    return known[1]


def _follow(what: Any, copy: Any, vault: Vault) -> None:
    """Bring the scores below up to date: they alone may grow."""
    if type(what) is Score:
        for cells, values in list(what._updates)[len(copy._updates):]:
            copy.add(_one(cells, vault), values)
    elif type(what) is ResidualCells:
        _score(what.score, vault)
    elif type(what) is CrossCells:
        for part in (what.first, what.second):
            if type(part) is ResidualCells:
                _score(part.score, vault)


def _score(score: Any, vault: Vault) -> Score:
    if type(score) is not Score:
        refuse(score)
    found: Score = _one(score, vault)
    return found


def _maybe(what: Any, vault: Vault) -> Any:
    return None if what is None else _one(what, vault)


def _data(data: Dataset, vault: Vault) -> Dataset:
    """The handle, with the vault itself in the place of its seal."""
    seal, steps = data._vault, data.steps
    if type(seal) is not Seal or _vault_of(seal) is not vault:
        raise NotGranted("the query asks other data than the grant covers; nothing was read")
    if type(steps) is not tuple:
        raise NotGranted("a handle whose derivation was changed; nothing was read")
    inside: Any = vault
    return Dataset(_one(data.schema, vault), inside, tuple(_step(step, vault) for step in steps))


def _step(step: Any, vault: Vault) -> Step:
    if type(step) is not Step:
        refuse(step)
    given, cells = step.context, step.cells
    if type(given) is not Context or not is_plain(given):
        raise NotGranted("a handle whose derivation was changed; nothing was read")
    context = Context(*(getattr(given, one.name) for one in attrs.fields(Context)))
    if not is_plain(context) or context.kind not in _KINDS:
        raise NotGranted("a handle whose derivation was changed; nothing was read")
    return Step(context, _maybe(cells, vault))


def _block(block: Any, vault: Vault) -> Any:
    make = _BLOCKS.get(type(block))
    if make is None:
        refuse(block)
    return make(block, vault)


def _gradient(block: Any, vault: Vault) -> Gradient:
    if type(block) is not Gradient:
        refuse(block)
    return Gradient(_score(block.score, vault), block.clip, block.width, block.filtered,
                    block.coordinate)


def _bins(bins: Any, vault: Vault) -> Bins:
    if type(bins) is not Bins:
        refuse(bins)
    found: Bins = _one(bins, vault)
    return found


def _tree(cells: TreeCells, vault: Vault) -> TreeCells:
    tests: Any = tuple(cells.tests)
    for test in tests:
        if type(test) is not Test:
            refuse(test)
    tests = tuple(Test(test.feature, test.table) for test in tests)
    return TreeCells(_bins(cells.bins, vault), tests, cells.count)


def _grown(cells: GrownCells, vault: Vault) -> GrownCells:
    """From the root down. A tree that was made to be its own parent is too deep."""
    path = [cells]
    while path[-1].parent is not None:
        parent = path[-1].parent
        known = vault.copies.get(id(parent))
        if known is not None and known[0]() is parent:
            break
        if type(parent) is not GrownCells or 1 << len(path) > MOST_CELLS:
            refuse(parent)
        path.append(parent)
    top = path[-1].parent
    copy: GrownCells | None = None if top is None else _one(top, vault)
    bins = _bins(cells.bins, vault) if copy is None else copy.bins
    for one in reversed(path):
        copy = _keep(one, GrownCells(bins, copy, *(
            () if copy is None else (one.feature, one.cut))), vault)
    assert copy is not None
    return copy


def _cross(cells: CrossCells, vault: Vault) -> CrossCells:
    parts = cells.first, cells.second
    for part in parts:
        if type(part) is CrossCells:
            refuse(part)
    return CrossCells(*(_one(part, vault) for part in parts))


def _new_score(score: Score, vault: Vault) -> Score:
    return Score(score.loss, score.start, score.center, score.scale)


def _features(choice: FeatureChoice, vault: Vault) -> FeatureChoice:
    return FeatureChoice(_data(choice.data, vault), choice.score, choice.excluded,
                         _of(Votes, choice.votes, vault), _of(CustomScores, choice.custom, vault),
                         choice.what, _of(ScoreName, choice.key, vault))


def _of(kind: type, what: Any, vault: Vault) -> Any:
    if what is not None and type(what) is not kind:
        refuse(what)
    return _maybe(what, vault)


def _choice(choice: Choice, vault: Vault) -> Choice:
    gradient = choice.gradient
    return Choice(_data(choice.data, vault), _maybe(choice.cells, vault), choice.score,
                  choice.among, choice.features, _maybe(choice.labels, vault),
                  None if gradient is None else _gradient(gradient, vault), choice.penalty,
                  choice.allowed, choice.what)


def _labels(query: LabelQuery, vault: Vault) -> LabelQuery:
    rows = query.rows
    if type(rows) is slice:
        rows = slice(*(None if end is None else operator.index(end)
                       for end in (rows.start, rows.stop, rows.step)))
    return LabelQuery(_data(query.data, vault), rows, query.candidates, query.what)


Make = Callable[[Any, Vault], Any]
_QUESTIONS: dict[type, Make] = {
    Query: lambda query, vault: Query(
        _data(query.data, vault), tuple(_block(block, vault) for block in query.blocks),
        _maybe(query.cells, vault), query.what),
    Choice: _choice,
    LabelChoice: lambda choice, vault: LabelChoice(
        _data(choice.data, vault), _maybe(choice.cells, vault), _maybe(choice.labels, vault),
        choice.what),
    FeatureChoice: _features,
    LabelQuery: _labels,
}
_BLOCKS: dict[type, Make] = {
    Ones: lambda block, vault: Ones(),
    ColumnValue: lambda block, vault: ColumnValue(block.name, block.center, block.scale,
                                                  block.clip),
    ClassIs: lambda block, vault: ClassIs(block.position),
    TargetShares: lambda block, vault: TargetShares(),
    CustomValue: lambda block, vault: CustomValue(block.function, block.clip, block.why),
    Gradient: _gradient,
    Hessian: lambda block, vault: Hessian(_score(block.score, vault), block.within),
}
_SHARED: dict[type, Make] = {
    Schema: lambda schema, vault: own_schema(schema),
    Bins: lambda bins, vault: Bins(_schema(bins.schema, vault), bins.numeric_bins),
    Score: _new_score,
    TreeCells: _tree,
    GrownCells: _grown,
    CategoryCells: lambda cells, vault: CategoryCells(cells.name, cells.count),
    IntervalCells: lambda cells, vault: IntervalCells(cells.name, cells.edges),
    CoinCells: lambda cells, vault: CoinCells(cells.count, cells.weights),
    ResidualCells: lambda cells, vault: ResidualCells(_score(cells.score, vault), cells.edges),
    CrossCells: _cross,
    LabelledCells: lambda cells, vault: LabelledCells(),
    IndexCells: lambda cells, vault: IndexCells(cells.places, cells.count),
    Votes: lambda votes, vault: Votes(votes.blocks, votes.most, votes.penalty),
    CustomScores: lambda custom, vault: CustomScores(
        custom.function, number("sensitivity", custom.sensitivity), custom.why,
        _pair(custom.change)),
    ScoreName: lambda name, vault: ScoreName(),
}


def _pair(change: Any) -> tuple[float, float]:
    low, high = change
    return number("change", low), number("change", high)


def _schema(schema: Any, vault: Vault) -> Schema:
    if type(schema) is not Schema:
        refuse(schema)
    found: Schema = _one(schema, vault)
    return found
