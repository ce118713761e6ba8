"""What a learner describes, as the guard copies it and as messages carry it: attacked.

A description may be a subclass, hold strange objects, be its own part, share, be huge, or change
while it is copied. A copy is of exact types, owns its memory, and was checked after it was made.
"""

from __future__ import annotations

import json
import math
import threading
import time
from typing import ClassVar

import numpy as np
import pytest
from attrs import evolve, fields

import privledger as pl
from privledger import questions as q
from privledger.broker.child import Elsewhere
from privledger.broker.wire import WireDescriber, WireReader
from privledger.errors import PrivledgerError, UnsupportedNode
from privledger.guard.trusted_copy import own_question
from privledger.guard.vault import _sealed, _vault_of
from privledger.questions import closed_set
from privledger.questions.blocks import CustomValue
from privledger.questions.cells import CoinCells
from privledger.questions.closed_set import parts_of
from privledger.tables.bins import Bins
from tests.worlds import refused, schema_of

SCHEMA = schema_of("s", {"x": (0.0, 1.0), "c": ["a", "b"]}, t=["n", "p"])
KINDS = {*closed_set.QUESTIONS, *closed_set.BLOCKS, *closed_set.NUMBERED, q.Test}
put = object.__setattr__


@pytest.fixture
def data():
    rows = {"x": np.linspace(0, 1, 40), "c": ["a", "b"] * 20}
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 1e-6), relation="replace_one")
    return ledger.protect(rows, ["n", "p"] * 20, SCHEMA)


def owned(question, data):
    return own_question(question, _vault_of(data._vault))


def everything(data):
    """One question for every kind of block, of cells and of question."""
    bins, score = data.bins(8), data.score("logistic", [0.0])
    tree = data.root(bins).grow([0], [3])
    score.add(tree, np.array([0.5, -0.5]))
    labels = q.CategoryCells("", 2)
    cells = (labels, q.IntervalCells("x", [0.2, 0.5]), q.LabelledCells(),
             q.IndexCells(np.arange(40) % 3, 3), q.RowsPerPersonCells([1.5]), tree,
             q.MappedCells([labels, q.IntervalCells("x", [0.5])], [0, 1, 2, 0, 1, 2], 3, True),
             q.NearestCells(["x"], [[0.2], [0.7]]), q.NamedCells("g", ["mill", "port"]),
             q.CrossCells(labels, tree), q.ResidualCells(score, [0.1]), CoinCells(3, (1, 2, 3)),
             q.TreeCells(bins, [q.Test(0, np.array([0] * 4 + [1] * 5, dtype=np.uint8))], 2))
    blocks = (q.Ones(), q.ColumnValue("x", 0.5, 0.5), q.ClassIs(1), q.TargetShares(),
              q.ColumnMoments("x", 0.0, 0.5, 3),
              q.RowValues(["x"], 0.5), score.gradient(0.5, filtered=True), score.hessian(0.25),
              CustomValue(len, 0.5, "said so"))
    rows = q.RowEncoding(["x", "c"], [0, 2], [0.1, 0.0], [0.5, 1.0], [True, False], "hinge",
                         1.4, 9.0, [[0.5, 0.25]], 2e3)
    score.add(rows, np.ones(6))
    blocks += (q.LinearGradient(rows, 0.5, score), q.LinearGradient(rows, 0.5))
    return [
        *(q.Query(data, (block, q.Ones())) for block in blocks),
        *(q.Query(data, (q.Ones(),), one, "in cells") for one in cells),
        q.Choice(data, tree, "rank", features=[0, -1]),
        q.Choice(data, tree, "gini", "both", labels=labels, allowed=np.ones((2, 2), dtype=bool)),
        q.Choice(data, tree, "gain", "features", gradient=score.gradient(0.5), penalty=0.5),
        q.LabelChoice(data, tree, labels), q.QuantileChoice(data, "x", 0.5, 0.0, 1.0, 7),
        q.FeatureChoice(data, "agreement", excluded=[1], weights=(1, 2)),
        q.FeatureChoice(data, "votes", votes=q.Votes(3, 2)),
        q.FeatureChoice(data, "custom", custom=q.CustomScores(len, 1.0, "said so", [-1, 1])),
        q.LabelQuery(data, np.array([3, 1])), q.LabelQuery(data, slice(1, 9, 2)),
        q.ResponseQuery(data, "c"),
        q.GroupQuery(data, "g"),
        q.TableChoice(data, (labels, q.CrossCells(tree, labels)), np.ones(6), [0.5, 0.0]),
        q.ThresholdRun(0).above(q.Query(data, (q.Ones(),)), 3.0),
        q.NoiseStream(labels).step(q.Query(data, (q.Ones(),), tree)),
        q.NoiseStream().step(q.Query(data, (q.RowValues(["x"], 0.5),)))]


def objects(what, found=None):
    """Every object of the package below `what`, once, but for schemas and handles."""
    found = {} if found is None else found
    if type(what) in (tuple, list):
        for one in what:
            objects(one, found)
    elif type(what) in KINDS and id(what) not in found:
        found[id(what)] = what
        for one in fields(type(what)):
            objects(getattr(what, one.name), found)
    return found


def arrays(what):
    return [value for one in objects(what).values() for name in fields(type(one))
            if isinstance(value := getattr(one, name.name), np.ndarray)]


def test_every_kind_is_asked_here(data):
    kinds = {type(one) for asked in everything(data) for one in objects(asked).values()}
    assert kinds == KINDS


def test_a_copy_shares_no_object_and_no_memory(data):
    for asked in everything(data):
        copy = owned(asked, data)
        assert not set(objects(asked)) & set(objects(copy))
        for mine in arrays(copy):
            assert not any(np.shares_memory(mine, theirs) for theirs in arrays(asked))


def test_what_is_the_same_object_stays_the_same_object(data):
    bins, labels = data.bins(8), q.CategoryCells("", 2)
    tree = data.root(bins).grow([0], [3])
    first = owned(q.LabelChoice(data, tree, labels), data)
    again = owned(q.Query(data, (q.Ones(),), q.CrossCells(labels, tree)), data)
    assert again.cells.first is first.labels and again.cells.second is first.cells
    assert first.cells.parent.bins is first.cells.bins
    assert owned(q.Query(data, (q.Ones(),), tree.parent), data).cells is first.cells.parent
    twice = owned(q.Query(data, (q.Ones(),), q.CrossCells(labels, labels)), data).cells
    assert twice.first is twice.second
    other = owned(q.LabelChoice(data, tree, q.CategoryCells("", 2)), data)
    assert other.labels is not first.labels  # equal is not the same


def test_the_same_over_a_wire(data):
    vault = _sealed(Elsewhere("s", SCHEMA))
    child = pl.Dataset(SCHEMA, vault)
    describer, reader = WireDescriber(vault, SCHEMA), WireReader(data)
    for asked in everything(child):
        if any(part.word == "function" for one in objects(asked).values()
               for part in parts_of(type(one))):
            with pytest.raises(UnsupportedNode):
                describer.query(asked)
            continue
        sent = json.loads(json.dumps(describer.query(asked), allow_nan=False))
        reader.learn(json.loads(json.dumps(describer.new(), allow_nan=False)))
        found = reader.query(sent)
        mine, theirs = list(objects(found).values()), list(objects(asked).values())
        assert [type(one) for one in mine] == [type(one) for one in theirs]
        assert describer.query(asked) == sent  # nothing is described twice
        assert not describer.new()
        for one, other in zip(mine, theirs, strict=True):
            for part in parts_of(type(one)):
                if part.word in ("text", "whole", "real", "flag", "array"):
                    np.testing.assert_equal(getattr(one, part.name), getattr(other, part.name))


def changed(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    return value + "x" if isinstance(value, str) else value


def test_any_field_that_differs_is_written_differently(data):
    vault = _sealed(Elsewhere("s", SCHEMA))
    child = pl.Dataset(SCHEMA, vault)

    def written(asked):
        describer = WireDescriber(vault, SCHEMA)
        try:
            return json.dumps([describer.query(asked), describer.new()])
        except UnsupportedNode:
            return None

    for asked in everything(child):
        before = written(asked)
        for one in objects(asked).values():
            for part in parts_of(type(one)):
                value = getattr(one, part.name)
                if before is None or part.word not in ("text", "whole", "real", "flag") or (
                        value is None or type(one) is q.Score):
                    continue
                put(one, part.name, (*map(changed, value), 9) if part.nested == 1
                    else ((7,),) if part.nested else changed(value))
                assert written(asked) != before, part
                put(one, part.name, value)
        assert written(asked) == before


class Strange:
    """It notes whoever asks it anything."""

    asked: ClassVar[list] = []

    def __getattribute__(self, name):
        if not name.startswith("__"):
            Strange.asked.append(name)
            return lambda *a, **k: self
        return object.__getattribute__(self, name)

    def _noted(self, *_):
        Strange.asked.append("called")
        return self

    __eq__ = __lt__ = __float__ = __int__ = __mul__ = __rsub__ = __iter__ = __array__ = _noted
    __len__ = __bool__ = __index__ = __reduce__ = __reduce_ex__ = __deepcopy__ = _noted
    __hash__ = object.__hash__


class Number(float):
    """A number of a stranger's own make."""

    def __rsub__(self, other):
        Strange.asked.append(other)
        return other


class Array(np.ndarray):
    """An array that hears of every calculation."""

    def __array_ufunc__(self, *args, **kwargs):
        Strange.asked.append(args)


@pytest.mark.parametrize("planted", [
    Strange(), Number(0.5), np.zeros(2).view(Array), np.array([Number(1)], dtype=object),
    np.ma.masked_array([1, 2]), np.array([(1, 2)], dtype=[("a", "i4"), ("b", "O")]),
    [1, 2], {"a": 1}, (Strange(),), ((1.0,), Number(1.0)), slice(Number(1.0)), range(3),
    iter([1]), Ellipsis, type("Query", (), {})(), q.Query],
    ids=lambda one: type(one).__name__)
def test_a_strange_object_is_refused_in_every_field(data, planted):
    """Wherever it stands, and before it is asked to do anything."""
    for asked in everything(data):
        for one in objects(asked).values():
            for part in parts_of(type(one)):
                if part.word == "function":
                    continue
                fresh = type(one)(**{each.name: getattr(one, each.name)
                                     for each in parts_of(type(one))})
                put(fresh, part.name, planted)
                asks = _with(asked, one, fresh)
                if asks is None:
                    continue
                Strange.asked.clear()
                with pytest.raises((PrivledgerError, TypeError)):
                    owned(asks, data).check(_vault_of(data._vault).facts)
                assert not Strange.asked, (type(one).__name__, part.name)


def _with(asked, old, new):
    """The question with one of its direct parts replaced; None where it is deeper."""
    if asked is old:
        return new
    for one in fields(type(asked)):
        value = getattr(asked, one.name)
        if value is old:
            copy = evolve(asked)
            put(copy, one.name, new)
            return copy
        if type(value) is tuple and any(each is old for each in value):
            copy = evolve(asked)
            put(copy, one.name, tuple(new if each is old else each for each in value))
            return copy
    return None


def test_a_subclass_is_refused_wherever_it_stands(data):
    for asked in everything(data):
        for one in list(objects(asked).values()):
            kind = type(one)
            strange = type(kind.__name__, (kind,), {"__slots__": ()})
            fresh = strange(**{each.name: getattr(one, each.name) for each in parts_of(kind)})
            asks = _with(asked, one, fresh)
            if asks is not None:
                with pytest.raises(UnsupportedNode):
                    owned(asks, data)


def test_a_part_of_another_kind_is_refused(data):
    """Cells for a block, a block for cells, bins for a score: each is known, none belongs."""
    bins, labels = data.bins(4), q.CategoryCells("", 2)
    for name, planted in (("blocks", (labels,)), ("blocks", (bins,)), ("cells", q.Ones()),
                          ("cells", bins), ("cells", data.score("logistic", [0.0])),
                          ("data", labels), ("data", None), ("data", data)):
        asked = q.Query(data, (q.Ones(),), labels)
        put(asked, name, planted)
        with pytest.raises(PrivledgerError):
            owned(asked, data)


def test_another_class_after_it_was_copied_is_refused(data):
    """The known copy is of what it was: what it is now counts."""
    for cells in (q.LabelledCells(), q.CategoryCells("", 2)):
        kind = type(cells)
        asked = q.Query(data, (q.Ones(),), cells)
        owned(asked, data)
        put(cells, "__class__", type(kind.__name__, (kind,), {"__slots__": ()}))
        with pytest.raises(UnsupportedNode):
            owned(asked, data)
    put(asked, "cells", q.ThresholdRun(1))
    refused(UnsupportedNode, lambda: owned(asked, data))


@pytest.mark.parametrize("copied", [False, True], ids=["first", "after it was copied"])
def test_a_circle_ends(data, copied):
    bins, labels = data.bins(8), q.CategoryCells("", 2)
    tree = data.root(bins).grow([0], [3])
    cross = q.CrossCells(labels, tree)
    if copied:
        owned(q.Query(data, (q.Ones(),), cross), data)
    put(cross, "first", cross)
    refused(UnsupportedNode, lambda: owned(q.Query(data, (q.Ones(),), cross), data))
    fresh = data.root(bins).grow([0], [3])
    put(fresh, "parent", fresh)
    refused(UnsupportedNode, lambda: owned(q.Query(data, (q.Ones(),), fresh), data))
    two = data.root(bins).grow([0], [3])
    put(fresh, "parent", two)
    put(two, "parent", fresh)
    refused(UnsupportedNode, lambda: owned(q.Query(data, (q.Ones(),), two), data))


def test_a_chain_of_100_000_is_too_deep_and_a_row_of_them_is_not(data):
    bins = data.bins(8)
    last = data.root(bins)
    for _ in range(100_000):
        link = object.__new__(q.GrownCells)
        for one in fields(q.GrownCells):
            put(link, one.name, getattr(last, one.name))
        put(link, "parent", last)
        last = link
    began = time.process_time()
    refused(UnsupportedNode, lambda: owned(q.Query(data, (q.Ones(),), last), data))
    assert time.process_time() - began < 5
    while last is not None:  # or its end would be as deep
        last = last.parent
    wide = q.Query(data, (q.Ones(),) * 100_000)
    assert len(owned(wide, data).blocks) == 100_000
    vault = _sealed(Elsewhere("s", SCHEMA))
    sent = WireDescriber(vault, SCHEMA).query(
        q.Query(pl.Dataset(SCHEMA, vault), (q.Ones(),) * 1001))
    refused(PrivledgerError, lambda: WireReader(data).query(sent), match="at most 1000")


def test_an_array_that_changes_meanwhile_is_never_half_checked(data):
    """Its copy is what was checked, whatever another thread writes in between."""
    places = np.zeros(40_000, dtype=np.int64)
    stop = threading.Event()

    def flip():
        while not stop.is_set():
            places[-1] = 7
            places[-1] = 0

    thread = threading.Thread(target=flip)
    thread.start()
    found = turned_away = 0
    try:
        for _ in range(300):
            cells = q.IndexCells(np.zeros(40_000, dtype=np.int64), 2)
            put(cells, "places", places)
            try:
                copy = owned(q.Query(data, (q.Ones(),), cells), data).cells
            except PrivledgerError:
                turned_away += 1
                continue
            found += 1
            assert int(copy.places.max()) < copy.count
            assert not copy.places.flags.writeable
    finally:
        stop.set()
        thread.join()
    assert found + turned_away == 300


def test_a_block_that_repeats_is_copied_once_and_never_believed(data):
    """What was copied stands for what it says, never for the object that said it."""
    score = data.score("logistic", [0.0])
    block = score.gradient(0.5)
    ask = lambda one: owned(q.Query(data, (one,)), data).blocks[0]  # noqa: E731
    first = ask(block)
    assert first is ask(score.gradient(0.5)) is not block
    put(block, "clip", 0.25)  # smaller, and so less noise
    assert ask(block).clip == 0.25
    assert first.clip == 0.5
    for clip in (0.0, -0.0, -1.0, float("nan"), True, "0.5"):
        put(block, "clip", clip)
        refused((pl.InvalidValue, UnsupportedNode), lambda: ask(block))
    put(block, "clip", np.float64(0.5))
    assert type(ask(block).clip) is np.float64  # of another type: checked anew
    put(block, "clip", 0.5)
    put(block, "score", data.score("logistic", [0.0]))
    assert ask(block).score is not first.score
    signed = [math.copysign(1, ask(q.ColumnValue("x", zero, 0.5)).center) for zero in (0.0, -0.0)]
    assert signed == [1, -1]


def test_a_change_after_the_copy_changes_nothing(data):
    table = np.array([0] * 4 + [1] * 5, dtype=np.uint8)
    test = q.Test(0, table)
    cells = q.TreeCells(data.bins(8), [test], 2)
    asked = q.Query(data, (q.Ones(),), cells, "before")
    copy = owned(asked, data)
    table[:] = 1
    put(test, "table", table)
    put(test, "feature", 1)
    put(cells, "count", 99)
    put(asked, "what", "after")
    assert copy.what == "before" and copy.cells.count == 2 and copy.cells.tests[0].feature == 0
    assert copy.cells.tests[0].table.tolist() == [0] * 4 + [1] * 5
    assert owned(asked, data).cells is copy.cells


@pytest.mark.parametrize("wrong", [
    {"is": "Schema"}, {"is": "Step"}, {"is": "CustomValue"}, {"is": "Score"}, {"is": "__class__"},
    {"is": 3}, {"is": None}, {"is": ["Ones"]}, {"is": "Ones", "clip": 0.0}, 7, None, [], "Ones"],
    ids=repr)
def test_a_message_makes_blocks_of_blocks_only(data, wrong):
    """And no field that the constructor sets by itself."""
    message = {"is": "Query", "data": 0, "blocks": [wrong], "cells": None, "what": "x"}
    if isinstance(wrong, dict) and wrong.get("is") == "Ones":
        assert WireReader(data).query(message).blocks[0].clip == 1.0
        return
    refused(PrivledgerError, lambda: WireReader(data).query(message))


@pytest.mark.parametrize("wrong", [True, -1, 0.5, float("nan"), "1", None, [1], {}, 10**7, 10**30])
def test_numbers_of_messages_are_whole_where_they_count(data, wrong):
    reader = WireReader(data)
    with pytest.raises(PrivledgerError):
        reader.learn([{"id": 1, "is": "CategoryCells", "name": "c", "count": wrong}])
    for ends in ([1, 2], [1, 2, 3, 4], [1, 2, "3"], [1, True, 2], [1, 2.0, 1], [wrong, 2], wrong):
        with pytest.raises(PrivledgerError):
            reader.query({"is": "LabelQuery", "data": 0, "rows": {"slice": ends},
                          "candidates": None, "what": "x"})
    refused(PrivledgerError, lambda: reader.learn([{"id": 2, "is": "Bins", "schema": wrong,
            "numeric_bins": 4, "cuts": [], "grid": 8}]))


def test_bins_over_the_wire_are_of_known_columns(data):
    reader = WireReader(data)
    body = {"is": "Bins", "schema": ["x"], "numeric_bins": 4, "cuts": [], "grid": 8}
    reader.learn([body | {"id": 1}])
    assert type(reader.object(1, Bins)) is Bins
    for names in (["y"], ["t"], [["x"]], [None]):
        with pytest.raises(PrivledgerError):
            reader.learn([body | {"id": 2, "schema": names}])
