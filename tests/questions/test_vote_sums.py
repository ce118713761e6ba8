"""Votes of blocks from sums: exact, the same for every division, and those of the records."""

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.engines.messages import message_from_bytes, message_to_bytes
from privledger.errors import UnsupportedNode
from privledger.noise.seeded import SeededSource
from privledger.questions import votes as vote_sums
from privledger.questions.feature_scores import Products, SettledScores, merged_of
from privledger.questions.votes import (
    VoteSums,
    block_features,
    block_votes,
    coins_of,
    lasso,
    lasso_of_products,
)
from privledger.questions.votes import _standardised as of_records
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns, TableFacts
from tests.worlds import refused

STEPS = 1 << 15
VOTES = pl.questions.Votes(blocks=3, most=2, penalty=0.05)


def schema_of(features, missing=True):
    return pl.Schema("toy", (
        *(pl.Column(f"x{j}", "numeric", "feature", -1.0, 1.0, missing=missing and j % 2 == 0)
          for j in range(features)),
        pl.Column("t", "numeric", "target", -1.0, 1.0)))


def rows_of(schema, rng, n, middle=0.0, spread=0.4):
    """Whole steps, so that nothing is cut."""
    arrays = []
    for column in schema.features:
        values = np.clip(middle + spread * rng.normal(size=n), -1, 1)
        if column.missing:
            values[rng.random(n) < 0.3] = np.nan
        arrays.append(np.trunc(values * STEPS) / STEPS)
    known = np.nan_to_num(arrays[-1])
    target = np.clip(known + 0.1 * rng.normal(size=n), -1, 1)
    return Rows(Columns(schema, tuple(arrays), n), np.trunc(target * STEPS) / STEPS,
                SeededSource(int(rng.integers(1 << 30))))


def gram_of(rows, schema, coins=None, votes=VOTES):
    coins = np.zeros(rows.n, dtype=np.int64) if coins is None else coins
    return vote_sums.vote_sums(votes, schema, coins, rows, STEPS).grams


@settings(max_examples=30, deadline=None)
@given(n=st.integers(0, 40), seed=st.integers(0, 10**6), features=st.integers(1, 5),
       part=st.integers(1, 6), run=st.integers(1, 9))
def test_sums_are_those_of_whole_numbers_however_they_are_divided(n, seed, features, part, run):
    rng = np.random.default_rng(seed)
    schema = schema_of(features)
    rows, coins = rows_of(schema, rng, n), rng.integers(0, 3, n)
    held = [np.ones(n, dtype=object)]
    held += [(np.nan_to_num(x) * STEPS).astype(int).astype(object) for x in rows.features.arrays]
    held += [(~np.isnan(x)).astype(int).astype(object)
             for x, column in zip(rows.features.arrays, schema.features, strict=True)
             if column.missing]
    held = np.array([*held, (rows.target * STEPS).astype(int).astype(object)])
    slow = [[[sum(a * b for a, b in zip(one[coins == block], other[coins == block], strict=True))
              for other in held] for one in held] for block in range(3)]
    chunk = rng.integers(0, part, n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vote_sums, "_CELLS", run * len(held))
        found = VoteSums(np.zeros_like(gram_of(rows, schema, coins)))
        for one in rng.permutation(part):
            places = np.flatnonzero(chunk == one)
            found = merged_of(found, VoteSums(gram_of(rows.subset(places), schema,
                                                      coins[places])), schema)
    assert found.grams.dtype == np.int64
    assert found.grams.tolist() == slow


@settings(max_examples=40, deadline=None)
@given(n=st.integers(2, 60), seed=st.integers(0, 10**6),
       place=st.sampled_from([(0.0, 0.4), (-0.99, 0.001), (0.7, 3 / STEPS)]))
def test_a_block_votes_as_its_records_do(n, seed, place):
    """Also where all values lie in a corner of the public range."""
    rng = np.random.default_rng(seed)
    schema = schema_of(5)
    rows = rows_of(schema, rng, n, *place)
    rows.features.arrays[3][:] = 0.3125  # a constant
    table, gaps = np.array(rows.features.arrays), np.array([c.missing for c in schema.features])
    inner, cross = vote_sums._standardised_products(gram_of(rows, schema)[0], gaps)
    known = of_records(table)
    assert inner == pytest.approx(known @ known.T, abs=1e-7)
    assert not inner[3].any() and cross[3] == 0
    target = rows.target - rows.target.mean()
    assert cross / STEPS == pytest.approx(known @ target, abs=1e-7)
    weights = lasso_of_products(inner / n, cross / STEPS / n, 0.05)
    direct = lasso(known, target, 0.05)
    assert weights == pytest.approx(direct, abs=1e-4)
    if np.abs(np.diff(np.sort(np.abs(direct)))).min() > 1e-3:  # no two of nearly the same size
        assert block_votes(VOTES, gram_of(rows, schema)[0], gaps, STEPS).tolist() == (
            block_features(table, rows.target, 2, 0.05).tolist())


def test_products_and_records_have_the_same_lasso_beyond_the_first_features():
    rng = np.random.default_rng(3)
    table = rng.normal(size=(300, 40))
    target = table[7] - 0.5 * table[100] + 0.1 * rng.normal(size=40)
    weights = lasso_of_products(table @ table.T / 40, table @ target / 40, 0.1)
    slope = table @ (target - weights @ table) / 40
    assert np.abs(slope).max() <= 0.1 + 1e-3
    assert set(vote_sums.largest(weights, 2).tolist()) == {7, 100}


def test_blocks_of_nothing_constants_and_gaps_vote_for_nothing():
    schema = schema_of(3)
    gaps = np.array([True, False, True])
    for n, value in ((0, 0.0), (1, 0.5), (5, 0.25), (5, np.nan)):
        rows = Rows(Columns(schema, (np.full(n, value), np.full(n, 0.5), np.full(n, value)), n),
                    np.linspace(-1, 1, n))
        assert not len(block_votes(VOTES, gram_of(rows, schema)[0], gaps, STEPS))


def test_one_record_changes_each_features_votes_by_one():
    rng = np.random.default_rng(2)
    schema = schema_of(4)
    question = pl.Dataset(schema, object()).features_by(VOTES)
    for _ in range(8):
        rows = rows_of(schema, rng, 20)
        coins = rng.integers(0, 3, 20)

        def scores(table, places, coins=coins):
            sums = VoteSums(gram_of(table.subset(places), schema, coins[places]))
            return question.scores(sums)

        whole = scores(rows, np.arange(20))
        assert np.abs(whole - scores(rows, np.arange(19))).max() <= 1
        other = rows_of(schema, rng, 20)
        arrays = tuple(np.append(a[:-1], b[-1:]) for a, b in zip(
            rows.features.arrays, other.features.arrays, strict=True))
        swapped = Rows(Columns(schema, arrays, 20), np.append(rows.target[:-1], -1.0))
        assert np.abs(whole - scores(swapped, np.arange(20))).max() <= 1


def test_the_largest_sums_still_fit():
    """Every product at its largest, up to the number of records that anybody may have."""
    rows = Rows(Columns(schema_of(1, False), (np.full(9, -1.0),), 9), np.full(9, -1.0))
    gram = gram_of(rows, schema_of(1, False))[0]
    assert int(gram.max()) == 9 * STEPS**2 and STEPS**2 * ((1 << 32) - 1) < 1 << 63
    assert vote_sums._RUN_CELLS * STEPS**2 <= 1 << 53
    many = VoteSums(np.full((1, 3, 3), 1 << 31))
    refused(AssertionError, lambda: merged_of(many, many, schema_of(1, False)),
            lambda: merged_of(Products(np.zeros(1, dtype=np.int64), 1 << 31),
            Products(np.zeros(1, dtype=np.int64), 1 << 31), schema_of(1, False)))


def test_only_sums_are_asked_of_tables_in_chunks():
    few, wide = schema_of(4), schema_of(1400, missing=False)
    custom = pl.questions.CustomScores(lambda X, y: [], 1.0, "none")
    for schema, score, turned_away in (
            (few, "rank", ""), (few, "correlation", ""), (few, VOTES, ""),
            (few, custom, "custom scores read all records at once"),
            (few, pl.questions.Votes(1 << 19), "sums"), (wide, pl.questions.Votes(10), "sums")):
        question = pl.Dataset(schema, object()).features_by(score)
        facts = TableFacts(schema, "add_remove")
        question.check(facts)
        if turned_away:
            with pytest.raises(UnsupportedNode, match=turned_away):
                question.check(evolve(facts, chunked=True))
        else:
            question.check(evolve(facts, chunked=True))


def test_wide_tables_vote_by_their_records_and_have_no_chunks(monkeypatch):
    monkeypatch.setattr(vote_sums, "MOST_PRODUCTS", 100)
    schema = schema_of(6)
    rows = rows_of(schema, np.random.default_rng(1), 40)
    question = pl.Dataset(schema, object()).features_by(VOTES)
    sketch = question.sketch(rows, 1.0)
    assert isinstance(sketch, SettledScores) and 0 < question.scores(sketch).sum() <= 6
    refused(UnsupportedNode, lambda: question.merge(sketch, sketch))


def test_coins_are_one_word_per_record_kept_for_later_draws():
    schema = schema_of(3)
    rows = rows_of(schema, np.random.default_rng(1), 50)
    question = pl.Dataset(schema, object()).features_by(VOTES)
    first = question.sketch(rows, 1.0)
    assert question.without(1).sketch(rows, 1.0) is first
    coins = coins_of(VOTES, question.key, evolve(rows, source=SeededSource(4)))
    words = SeededSource(4).coins.integers64(50)
    assert coins.tolist() == (words % np.uint64(3)).tolist()


class Stream:
    """A chunk's keyed stream: the same words whenever it is asked for."""

    def __init__(self):
        self.asked = []

    def coins(self, what):
        self.asked.append(what)
        return SeededSource(11)


def test_in_a_chunk_a_coin_belongs_to_its_record_whoever_else_is_asked():
    """Words by place in a part would give others' coins to whoever comes after a record that left,
    and one word to records of two parts."""
    schema = schema_of(3)
    held = rows_of(schema, np.random.default_rng(1), 50)
    chunk = evolve(held, keep=Stream(), first=1000, source=None)
    question = pl.Dataset(schema, object()).features_by(VOTES)
    every = coins_of(VOTES, question.key, chunk)
    assert every.tolist() == (SeededSource(11).integers64(50) % np.uint64(3)).tolist()
    places = np.array([3, 7, 8, 41, 49])
    part = chunk.subset(places)
    assert coins_of(VOTES, question.key, part).tolist() == every[places].tolist()
    inner = part.subset(np.array([1, 4]))
    assert coins_of(VOTES, question.key, inner).tolist() == every[[7, 49]].tolist()
    assert set(chunk.keep.asked) == {question.key}


@pytest.mark.parametrize("score", ["correlation", VOTES])
def test_sums_come_from_other_processes_without_scores(score):
    schema = schema_of(4)
    rows = rows_of(schema, np.random.default_rng(1), 60)
    question = pl.Dataset(schema, object()).features_by(score)
    sketch = question.sketch(rows, 1.0)
    found = question.scores(sketch)
    again = message_from_bytes(message_to_bytes(sketch))
    assert again.found is None and type(again) is type(sketch)
    np.testing.assert_array_equal(question.scores(again), found)
