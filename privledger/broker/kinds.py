"""How each kind of described object is written and read: one entry per kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from attrs import frozen

from privledger.broker.values import (
    MOST_CELLS,
    Json,
    array_in,
    array_out,
    items,
    table,
    text,
    whole,
)
from privledger.errors import SchemaError, UnsupportedNode
from privledger.facts.bins import Bins
from privledger.facts.schema import Schema
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
from privledger.questions.feature_choice import FeatureChoice, Votes
from privledger.questions.grown import GrownCells
from privledger.questions.label_query import LabelQuery
from privledger.questions.score import Gradient, Hessian, ResidualCells, Score
from privledger.questions.tree_cells import Test, TreeCells
from privledger.rounding import count, number

if TYPE_CHECKING:
    from privledger.broker.wire import Describer, Reader


@frozen
class Kind:
    """How one kind of object is written and read.

    Attributes:
        name: in messages; the class's own name.
        write: fields of an object, as JSON values.
        read: the object, by the package's own constructor, which checks it.
    """

    name: str
    write: Callable[[Any, Describer], Json]
    read: Callable[[Json, Reader], Any]


def _custom(*_: Any) -> Any:
    raise UnsupportedNode("a custom query would run the learner's own function on the rows; a "
                          "learner in its own process cannot ask one. Nothing was read")


def _read_bins(body: Json, reader: Reader) -> Bins:
    schema = reader.root.schema
    known = {column.name: column for column in schema.features}
    names = [str(name) for name in items(body, "features")]
    if not set(names) <= set(known):
        raise SchemaError("the tree's bins are for other columns than the data's")
    return Bins(Schema(schema.name, tuple(known[name] for name in names)),
                count("numeric_bins", body.get("numeric_bins")))


def _write_bins(bins: Bins, describer: Describer) -> Json:
    features = bins.schema.features
    if not set(features) <= set(describer.schema.features):
        raise SchemaError("the tree's bins are for other columns than the data's")
    return {"features": [column.name for column in features], "numeric_bins": bins.numeric_bins}


def _write_tree(cells: TreeCells, describer: Describer) -> Json:
    tests = [{"feature": test.feature, "table": array_out(test.table)} for test in cells.tests]
    return {"bins": describer.object(cells.bins), "tests": tests, "count": int(cells.count)}


def _read_tree(body: Json, reader: Reader) -> TreeCells:
    tests: Any = tuple(Test(whole(table(item), "feature"), array_in(item.get("table"), "u"))
                       for item in items(body, "tests"))
    return TreeCells(reader.object(body.get("bins"), Bins), tests, whole(body, "count"))


def _read_score(body: Json, reader: Reader) -> Score:
    return Score(text(body, "loss"), array_in(body.get("start")),
                 number("center", body.get("center")), number("scale", body.get("scale")))


def _edges(body: Json) -> list[float]:
    return [number("edge", edge) for edge in items(body, "edges")]


def _write_grown(cells: GrownCells, describer: Describer) -> Json:
    if cells.parent is None:
        return {"bins": describer.object(cells.bins)}
    return {"parent": describer.object(cells.parent), "feature": array_out(cells.feature),
            "cut": array_out(cells.cut)}


def _read_grown(body: Json, reader: Reader) -> GrownCells:
    if "parent" not in body:
        return GrownCells(reader.object(body.get("bins"), Bins))
    return reader.object(body["parent"], GrownCells).grow(
        array_in(body.get("feature"), "i"), array_in(body.get("cut"), "i"))


def _write_gradient(block: Gradient, describer: Describer) -> Json:
    return {"score": describer.object(block.score), "clip": float(block.clip),
            "filtered": block.filtered, "coordinate": block.coordinate}


def _read_gradient(body: Json, reader: Reader) -> Gradient:
    filtered, coordinate = body.get("filtered"), body.get("coordinate")
    if not isinstance(filtered, bool):
        raise UnsupportedNode("a gradient says whether it is filtered. Nothing was read")
    return reader.object(body.get("score"), Score).gradient(
        number("clip", body.get("clip")), filtered=filtered,
        coordinate=None if coordinate is None else count("coordinate", coordinate, least=0))


CELLS: dict[type, Kind] = {
    GrownCells: Kind("GrownCells", _write_grown, _read_grown),
    CrossCells: Kind(
        "CrossCells",
        lambda cells, to: {"first": to.object(cells.first), "second": to.object(cells.second)},
        lambda body, reader: CrossCells(reader.cells(body.get("first")),
                                        reader.cells(body.get("second")))),
    LabelledCells: Kind("LabelledCells", lambda cells, _: {}, lambda body, _: LabelledCells()),
    IndexCells: Kind(
        "IndexCells",
        lambda cells, _: {"places": array_out(cells.places), "count": int(cells.count)},
        lambda body, _: IndexCells(array_in(body.get("places"), "i"), whole(body, "count"))),
    TreeCells: Kind("TreeCells", _write_tree, _read_tree),
    CategoryCells: Kind(
        "CategoryCells", lambda cells, _: {"name": cells.name, "count": int(cells.count)},
        lambda body, _: CategoryCells(text(body, "name"), whole(body, "count"))),
    IntervalCells: Kind(
        "IntervalCells", lambda cells, _: {"name": cells.name, "edges": list(cells.edges)},
        lambda body, _: IntervalCells(text(body, "name"), _edges(body))),
    ResidualCells: Kind(
        "ResidualCells",
        lambda cells, to: {"score": to.object(cells.score), "edges": list(cells.edges)},
        lambda body, reader: ResidualCells(reader.object(body.get("score"), Score),
                                           _edges(body))),
    CoinCells: Kind(
        "CoinCells", lambda cells, _: {"count": int(cells.count), "weights": list(cells.weights)},
        lambda body, _: CoinCells(count("count", body.get("count"), least=2, most=MOST_CELLS),
                                  tuple(items(body, "weights")))),
}
BLOCKS: dict[type, Kind] = {
    Ones: Kind("Ones", lambda block, _: {}, lambda body, _: Ones()),
    ColumnValue: Kind(
        "ColumnValue",
        lambda block, _: {"name": block.name, "center": float(block.center),
                          "scale": float(block.scale), "clip": float(block.clip)},
        lambda body, _: ColumnValue(text(body, "name"), *(number(key, body.get(key))
                                                          for key in ("center", "scale", "clip")))),
    ClassIs: Kind("ClassIs", lambda block, _: {"position": int(block.position)},
                  lambda body, _: ClassIs(whole(body, "position"))),
    TargetShares: Kind("TargetShares", lambda block, _: {}, lambda body, _: TargetShares()),
    Gradient: Kind("Gradient", _write_gradient, _read_gradient),
    Hessian: Kind(
        "Hessian",
        lambda block, to: {"score": to.object(block.score),
                           "within": None if block.within is None else float(block.within)},
        lambda body, reader: reader.object(body.get("score"), Score).hessian(
            None if body.get("within") is None else number("within", body["within"]))),
    CustomValue: Kind("CustomValue", _custom, _custom),
}
SHARED: dict[type, Kind] = {
    Bins: Kind("Bins", _write_bins, _read_bins),
    Score: Kind(
        "Score",
        lambda score, _: {"loss": score.loss, "start": array_out(score.start),
                          "center": float(score.center), "scale": float(score.scale)},
        _read_score),
}
NUMBERED = CELLS | SHARED
READ_BLOCK = {kind.name: kind for kind in BLOCKS.values()}
READ_OBJECT = {kind.name: kind for kind in NUMBERED.values()}


def write_features(choice: FeatureChoice, describer: Describer) -> Json:
    """A choice of features without its handle."""
    if choice.custom is not None:
        _custom()
    votes = choice.votes
    return {"score": choice.score, "excluded": list(choice.excluded), "what": str(choice.what),
            "votes": None if votes is None else {
                "blocks": int(votes.blocks), "most": int(votes.most),
                "penalty": float(votes.penalty)}}


def read_features(body: Json, data: Any) -> FeatureChoice:
    """The inverse, on a handle of this side. Its scores are computed anew for every request."""
    votes = body.get("votes")
    if votes is not None:
        votes = Votes(whole(table(votes), "blocks"), whole(votes, "most"),
                      number("penalty", votes.get("penalty")))
    return FeatureChoice(data, text(body, "score"), tuple(items(body, "excluded")), votes,
                         what=text(body, "what", 200))


def write_choice(choice: Choice, describer: Describer) -> Json:
    """A choice without its handle, which stands beside it."""
    gradient = choice.gradient
    return {
        "cells": describer.object(choice.cells), "score": choice.score, "among": choice.among,
        "features": None if choice.features is None else array_out(choice.features),
        "allowed": None if choice.allowed is None else array_out(
            choice.allowed.astype(np.int32)),
        "labels": None if choice.labels is None else describer.object(choice.labels),
        "gradient": None if gradient is None else BLOCKS[Gradient].write(gradient, describer),
        "penalty": float(choice.penalty), "what": str(choice.what),
    }


def read_choice(body: Json, reader: Reader, data: Any) -> Choice:
    """The inverse, on a handle of this side."""
    features, labels, gradient = (body.get(key) for key in ("features", "labels", "gradient"))
    allowed = body.get("allowed")
    return Choice(
        data, reader.object(body.get("cells"), GrownCells), text(body, "score"),
        text(body, "among"), None if features is None else array_in(features, "i"),
        None if labels is None else reader.cells(labels),
        None if gradient is None else BLOCKS[Gradient].read(table(gradient), reader),
        number("penalty", body.get("penalty")),
        None if allowed is None else array_in(allowed, "i").astype(np.bool_),
        text(body, "what", 200))


def write_label_choice(choice: LabelChoice, describer: Describer) -> Json:
    """The same for a choice of a label."""
    return {"cells": describer.object(choice.cells), "labels": describer.object(choice.labels),
            "what": str(choice.what)}


def read_label_choice(body: Json, reader: Reader, data: Any) -> LabelChoice:
    """The inverse, on a handle of this side."""
    return LabelChoice(data, reader.object(body.get("cells"), GrownCells),
                       reader.cells(body.get("labels")), text(body, "what", 200))


def write_labels(query: LabelQuery) -> Json:
    """A question about single labels without its handle."""
    rows = query.rows
    if isinstance(rows, slice):
        rows = None if rows == slice(None) else np.arange(*rows.indices(_whole_table(query)))
    return {"rows": None if rows is None else array_out(rows), "what": str(query.what),
            "candidates": None if query.candidates is None else array_out(query.candidates)}


def _whole_table(query: LabelQuery) -> int:
    if query.data.steps:
        raise UnsupportedNode("a slice of a part cannot be described: give whole numbers. "
                              "Nothing was read")
    return int(query.data.public_rows)


def read_labels(body: Json, data: Any) -> LabelQuery:
    """The inverse, on a handle of this side."""
    rows, candidates = (None if body.get(key) is None else array_in(body[key], "i")
                        for key in ("rows", "candidates"))
    return LabelQuery(data, rows, candidates, text(body, "what", 200))
