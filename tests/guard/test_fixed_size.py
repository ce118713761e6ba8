"""Samples of a fixed size, without replacement: released as they are priced, and nowhere else."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.broker.wire import WireDescriber, WireReader
from privledger.graph import Context
from privledger.noise.samplers import subset
from privledger.questions.cells import CoinCells
from privledger.questions.question import Step
from privledger.questions.votes import Votes
from tests.worlds import PEOPLE as SCHEMA
from tests.worlds import SIXTY as N
from tests.worlds import SIXTY_X as X
from tests.worlds import SIXTY_Y as Y
from tests.worlds import refuses as refused_unread
from tests.worlds import sixty

TINY = pl.Gaussian(1e-4)


def guarded(relation="replace_one", **options):
    return sixty(relation, **options)


def refuses(ledger, data, query, node=None, error=pl.errors.UnsupportedNode):
    refused_unread(ledger, data, TINY, query, error, r"[Nn]othing was read|out_of",
                   node or pl.nodes.FixedSizeSample(10, N, TINY))


def members(session, handle):
    """Which of the N sizes are in a sample; each is in a bin of its own."""
    edges = [(place - 0.5) / N for place in range(1, N)]
    answer = session.release(TINY, handle.histogram("size", edges))[:N]
    assert np.abs(answer - np.rint(answer)).max() < 0.01
    return np.flatnonzero(np.rint(answer) == 1)


# --- the law ------------------------------------------------------------------------------------

@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_set_comes_from_as_many_words(size):
    """All orders of four words: each set of `size` of four comes up equally often."""
    seen = {}
    for words in itertools.permutations((3, 7, 8, 2**64 - 1)):
        drawn = subset(size, 4, lambda n, words=words: np.array(words, dtype=np.uint64))
        key = tuple(np.flatnonzero(drawn))
        seen[key] = seen.get(key, 0) + 1
    assert all(len(key) == size for key in seen)
    assert len(set(seen.values())) == 1
    assert len(seen) == {1: 4, 2: 6, 3: 4}[size]


def test_equal_words_at_the_edge_are_drawn_again():
    batches = iter([[5, 5, 9, 1], [4, 3, 2, 1]])
    drawn = subset(2, 4, lambda n: np.array(next(batches), dtype=np.uint64))
    assert drawn.tolist() == [False, False, True, True]
    away = subset(3, 4, lambda n: np.array([5, 5, 9, 1], dtype=np.uint64))
    assert away.tolist() == [True, True, False, True]


def test_all_of_all_needs_no_words():
    def none(size):
        raise AssertionError
    assert subset(4, 4, none).all()


# --- releases -----------------------------------------------------------------------------------

def test_a_sample_is_of_its_size_and_stays_as_it_was():
    ledger, data = guarded()
    plan = pl.nodes.FixedSizeSample(10, N, pl.Repeat(TINY, 3))
    with ledger.request(pl.Repeat(plan, 2), data) as session:
        one, other = data.fixed_size(10, N), data.fixed_size(10, N)
        first = members(session, one)
        assert len(first) == 10
        assert (members(session, one) == first).all()
        second = members(session, other)
        assert len(second) == 10
        assert first.tolist() != second.tolist()  # false alarm 1 in 7.5e10
        red = one.partition(one.cells("colour"))
        assert len(red) == 3
        with pytest.raises(pl.NotGranted):
            session.release(TINY, data.fixed_size(10, N).count())
    assert ledger.verify() == []


def test_parts_that_records_decide():
    ledger, data = guarded()
    inner = pl.Sequential([pl.Parallel([TINY] * 3), TINY])
    with ledger.request(pl.nodes.FixedSizeSample(30, N, inner), data) as session:
        handle = data.fixed_size(30, N)
        there = members(session, handle)
        parts = handle.partition(handle.cells("colour"))
        for colour in (0, 1):
            found = session.release(TINY, parts[colour].count())
            assert np.rint(found) == np.sum(there % 2 == colour)


def test_people_are_drawn_whole():
    people = [str(place // 3) for place in range(N)]
    ledger, data = guarded(unit="person", people_key=b"k" * 32, people=people)
    plan = pl.nodes.FixedSizeSample(4, N // 3, TINY)
    edges = [(place - 0.5) / N for place in range(1, N)]
    with ledger.request(plan, data) as session:
        said = session.release(TINY, data.fixed_size(4, N // 3).histogram("size", edges))[:N]
    whole = said.reshape(N // 3, 3)
    assert np.sum(whole.sum(axis=1) > 0.5) == 4
    assert np.abs(whole - whole.mean(axis=1, keepdims=True)).max() < 0.01  # all three, or none


# --- refusals -----------------------------------------------------------------------------------

def handles(data):
    one = data.fixed_size(10, N)
    return [
        one.poisson(0.5), one.fixed_size(5, N), data.partition(2)[0].fixed_size(10, N),
        data.poisson(0.5).fixed_size(10, N), one.partition(2)[0],
        one.partition(pl.questions.IndexCells(np.arange(N) % 2, 2))[0],
        data.partition(data.cells("colour"))[0].fixed_size(10, N)]


@pytest.mark.parametrize("which", range(7))
def test_what_has_no_proof_is_refused(which):
    ledger, data = guarded()
    refuses(ledger, data, handles(data)[which].count())


@pytest.mark.parametrize("cells", [
    pl.questions.IndexCells(np.arange(N) % 2, 2), CoinCells(3),
    pl.questions.CrossCells(pl.questions.CategoryCells("colour", 3), CoinCells(2))])
def test_places_and_coins_are_refused(cells):
    ledger, data = guarded()
    refuses(ledger, data, data.fixed_size(10, N).query((pl.questions.Ones(),), cells))


def test_a_sample_behind_or_around_a_filter_is_refused():
    ledger, data = guarded()
    one = data.fixed_size(10, N).steps[0]
    filtered = Step(Context("filter", "f", caps="gdp:0x1.0p+0:0x0.0p+0"))
    for steps in ((filtered, one), (one, filtered)):
        query = data.count()
        object.__setattr__(query.data, "steps", steps)
        refuses(ledger, data, query)


@pytest.mark.parametrize(("size", "out_of"), [(10, N - 1), (10, N + 1), (9, N)])
def test_the_size_and_the_number_are_the_plans_and_the_tables(size, out_of):
    ledger, data = guarded()
    refuses(ledger, data, data.fixed_size(size, out_of).count(), error=pl.NotGranted)
    other = pl.nodes.FixedSizeSample(size, out_of, TINY)
    if out_of != N:
        refuses(ledger, data, data.fixed_size(size, out_of).count(), other, pl.NotGranted)


@pytest.mark.parametrize(("size", "out_of"), [(0, N), (-1, N), (N + 1, N), (10.0, N), (True, N)])
def test_a_context_that_was_changed_is_refused(size, out_of):
    ledger, data = guarded()
    handle = data.fixed_size(10, N)
    step = handle.steps[0]
    forged = evolve(step.context, size=size, out_of=out_of)
    query = handle.count()
    object.__setattr__(query.data, "steps", (Step(forged),))
    refuses(ledger, data, query, error=pl.NotGranted)


@pytest.mark.parametrize("relation", ["add_remove", "replace_label"])
def test_other_relations_are_refused(relation):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e12, 1e-6), relation=relation)
    data = ledger.protect(X, Y, SCHEMA, public_features=relation == "replace_label")
    node = pl.nodes.LabelOnly(TINY) if relation == "replace_label" else TINY
    refuses(ledger, data, data.fixed_size(10, N).count(), node, pl.errors.RelationMismatch)
    with pytest.raises(pl.errors.RelationMismatch):
        ledger.request(pl.nodes.FixedSizeSample(10, N, TINY), data).__enter__()


def test_votes_of_blocks_are_refused():
    ledger, data = guarded()
    node = pl.Exponential(1.0)
    query = data.fixed_size(10, N).features_by(Votes())
    with ledger.request(pl.nodes.FixedSizeSample(10, N, node), data) as session, pytest.raises(
            pl.errors.UnsupportedNode, match="votes by coins"):
        session.release(node, query)
    assert data._vault.opened == 0


# --- through the broker -------------------------------------------------------------------------

def test_the_handle_arrives():
    _, data = guarded()
    describer, reader = WireDescriber(data._vault, data.schema), WireReader(data)
    asked = data.fixed_size(10, N).count()
    wire = json.loads(json.dumps(describer.query(asked)))
    reader.learn(json.loads(json.dumps(describer.new())))
    context = reader.query(wire).data.steps[0].context
    assert (context.kind, context.size, context.out_of) == ("fixed", 10, N)
