"""Samples cut off or of a fixed size, and allocations: released as they are priced, only there."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.broker.wire import WireDescriber, WireReader
from privledger.graph import Context
from privledger.guard.handle import _granted
from privledger.noise.samplers import integers_below, subset
from privledger.questions.asking import _cut
from privledger.questions.cells import CoinCells
from privledger.questions.question import Step
from privledger.questions.votes import Votes
from tests.all_cases import all_cases
from tests.worlds import PEOPLE as LABELLED
from tests.worlds import SIXTY as N
from tests.worlds import SIXTY_X as X
from tests.worlds import SIXTY_Y as Y
from tests.worlds import refused, sixty
from tests.worlds import refuses as refused_unread

COLUMNS = (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("colour", "categorical", "feature", categories=("red", "green")))
SCHEMA = pl.Schema("people", COLUMNS)
BOUNDED = pl.Schema("people", COLUMNS, most_records=100, most_records_provenance="declared: places")
PEOPLE = [str(place // 3) for place in range(N)]
TINY = pl.Gaussian(1e-4)
ANY = 10**15


def refuses(ledger, data, query, node=None, error=pl.errors.UnsupportedNode):
    node = node or pl.nodes.FixedSizeSample(10, N, TINY)
    refused_unread(ledger, data, TINY, query, error, r"[Nn]othing was read|out_of", node)


def guarded(relation="add_remove", schema=SCHEMA, unit="row", table=X, people=None):
    options = {"unit": "person", "people_key": b"k" * 32} if unit == "person" else {}
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e12, 1e-6), relation=relation, filter="gdp",
                              **options)
    who = (PEOPLE if people is None else people) if unit == "person" else None
    return ledger, ledger.protect(table, schema, people=who)


def members(session, handle):
    """How often each of the N sizes is in a sample; each is in a bin of its own."""
    edges = [(place - 0.5) / N for place in range(1, N)]
    answer = session.release(TINY, handle.histogram("size", edges))[:N]
    assert np.abs(answer - np.rint(answer)).max() < 0.01
    return np.rint(answer).astype(int)


# --- the laws -----------------------------------------------------------------------------------

class Dealt:
    """Words that were laid out beforehand."""

    def __init__(self, words):
        self.words = list(words)

    def integers64(self, size):
        taken, self.words = self.words[:size], self.words[size:]
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize(("came", "most"), [(4, 1), (4, 2), (4, 3), (3, 3), (2, 3), (0, 1)])
def test_every_choice_of_those_who_came_is_as_likely(came, most):
    """All orders of so many words: as many for each choice, and nobody who did not come."""
    drawn = np.zeros(6, dtype=bool)
    drawn[[1, 2, 4, 5][:came]] = True
    seen = Counter()
    for words in itertools.permutations((3, 7, 8, 2**64 - 1)[:came]):
        kept = _cut(drawn, most, Dealt(words))
        assert kept.sum() == min(came, most) and not (kept & ~drawn).any()
        seen[tuple(np.flatnonzero(kept))] += 1
    assert len(set(seen.values())) == 1
    assert len(seen) == len(list(itertools.combinations(range(came), min(came, most))))


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 1000, 10**15])
def test_words_beyond_the_last_multiple_are_drawn_again(bound):
    """So every number below the bound comes from as many words."""
    last = 2**64 // bound * bound
    assert last % bound == 0 and 2**64 - last < bound
    words = [last - 1, 0, *([2**64 - 1] if last < 2**64 else []), bound]
    dealt = Dealt([*words, *([last + 0, 7] if last < 2**64 else [])])
    drawn = integers_below(bound, len(words), dealt.integers64)
    again = [7] if last < 2**64 else []
    assert drawn.tolist() == [bound - 1, 0, *(one % bound for one in again), 0]
    assert not dealt.words


def test_a_source_that_says_one_word_ends():
    with pytest.raises(pl.errors.PrivledgerError, match="repeats itself"):
        integers_below(3, 2, lambda size: np.full(size, 2**64 - 1, dtype=np.uint64))
    last = integers_below(4, 2, lambda size: np.full(size, 2**64 - 1, dtype=np.uint64))
    assert last.tolist() == [3, 3]  # 4 divides 2^64: every word counts


@pytest.mark.parametrize("size", [1, 2, 3])
def test_every_set_comes_from_as_many_words(size):
    """All orders of four words: each set of `size` of four comes up equally often."""
    seen = Counter()
    for words in itertools.permutations((3, 7, 8, 2**64 - 1)):
        drawn = subset(size, 4, lambda n, words=words: np.array(words, dtype=np.uint64))
        seen[tuple(np.flatnonzero(drawn))] += 1
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


# --- all of them --------------------------------------------------------------------------------

def fixed(relation="replace_one", **options):
    return sixty(relation, **options)


KINDS = {  # kind -> (its table, a handle, its node)
    "cut": (lambda: guarded(), lambda data: data.truncated_poisson(0.5, 10, ANY),
            lambda: cut(0.5, 10)),
    "allocated": (lambda: guarded(), lambda data: data.random_allocation(3)[0],
                  lambda: pl.nodes.RandomAllocation(3, TINY)),
    "fixed": (fixed, lambda data: data.fixed_size(10, N),
              lambda: pl.nodes.FixedSizeSample(10, N, TINY))}
COINS = (CoinCells(3),
         pl.questions.CrossCells(pl.questions.CategoryCells("colour", 3), CoinCells(2)))
PLACES = pl.questions.IndexCells(np.arange(N) % 2, 2)


@pytest.mark.parametrize(("kind", "handle", "plan"), [
    ("cut", lambda data: data.truncated_poisson(0.9, 10, ANY),
     lambda node: cut(0.9, 10, node=node)),
    ("fixed", lambda data: data.fixed_size(10, N),
     lambda node: pl.nodes.FixedSizeSample(10, N, node))], ids=["cut", "fixed"])
def test_a_sample_is_of_its_size_and_stays_as_it_was(kind, handle, plan):
    ledger, data = KINDS[kind][0]()
    with ledger.request(pl.Repeat(plan(pl.Repeat(TINY, 3)), 2), data) as session:
        one, other = handle(data), handle(data)
        first = members(session, one)
        assert first.max() == 1 and first.sum() == 10  # or 2e-44
        assert (members(session, one) == first).all()
        second = members(session, other)
        assert second.max() == 1 and second.sum() == 10
        assert first.tolist() != second.tolist()  # false alarm 1 in 7.5e10
        assert len(one.partition(one.cells("colour"))) == 3
        refused(pl.NotGranted, lambda: session.release(TINY, handle(data).count()))
    assert ledger.verify() == []


@pytest.mark.parametrize(("table", "handle", "plan"), [
    (lambda: guarded(unit="person"), lambda data: data.truncated_poisson(1.0, 4, ANY),
     lambda: cut(1.0, 4)),
    (lambda: fixed(unit="person", people_key=b"k" * 32, people=PEOPLE),
     lambda data: data.fixed_size(4, N // 3), lambda: pl.nodes.FixedSizeSample(4, N // 3, TINY))],
    ids=["cut", "fixed"])
def test_people_are_drawn_whole(table, handle, plan):
    ledger, data = table()
    edges = [(place - 0.5) / N for place in range(1, N)]
    with ledger.request(plan(), data) as session:
        said = session.release(TINY, handle(data).histogram("size", edges))[:N]
    whole = said.reshape(N // 3, 3)
    assert np.sum(whole.sum(axis=1) > 0.5) == 4
    assert np.abs(whole - whole.mean(axis=1, keepdims=True)).max() < 0.01  # all three, or none


UNPROVED = {
    "cut": lambda data, one: [
        one.poisson(0.5), one.truncated_poisson(0.5, 5, ANY), one.random_allocation(3)[0],
        data.partition(2)[0].truncated_poisson(0.5, 10, ANY),
        data.poisson(0.5).truncated_poisson(0.5, 10, ANY), one.partition(2)[0],
        data.random_allocation(3)[0].truncated_poisson(0.5, 10, ANY),
        data.partition(data.cells("colour"))[0].truncated_poisson(0.5, 10, ANY)],
    "allocated": lambda data, one: [
        one.poisson(0.5), data.poisson(0.5).random_allocation(3)[0], one.random_allocation(3)[0],
        one.truncated_poisson(0.5, 10, ANY)],
    "fixed": lambda data, one: [
        one.poisson(0.5), one.fixed_size(5, N), data.partition(2)[0].fixed_size(10, N),
        data.poisson(0.5).fixed_size(10, N), one.partition(2)[0], one.partition(PLACES)[0],
        data.partition(data.cells("colour"))[0].fixed_size(10, N)]}


@pytest.mark.parametrize(("kind", "which"), [
    (kind, which) for kind, many in (("cut", 8), ("allocated", 4), ("fixed", 7))
    for which in range(many)])
def test_what_has_no_proof_is_refused(kind, which):
    table, handle, node = KINDS[kind]
    ledger, data = table()
    refuses(ledger, data, UNPROVED[kind](data, handle(data))[which].count(), node())


@pytest.mark.parametrize(("kind", "cells"), [
    *(("cut", cells) for cells in COINS), *(("fixed", cells) for cells in (PLACES, *COINS))])
def test_places_and_coins_below_a_sample_are_refused(kind, cells):
    table, handle, node = KINDS[kind]
    ledger, data = table()
    refuses(ledger, data, handle(data).query((pl.questions.Ones(),), cells), node())


@pytest.mark.parametrize("kind", KINDS)
def test_behind_or_around_a_filter_they_are_refused(kind):
    table, handle, node = KINDS[kind]
    ledger, data = table()
    one = handle(data).steps[0]
    filtered = Step(Context("filter", "f", caps="gdp:0x1.0p+0:0x0.0p+0"))
    for steps in ((filtered, one), (one, filtered)):
        query = data.count()
        object.__setattr__(query.data, "steps", steps)
        refuses(ledger, data, query, node() if kind == "fixed" else TINY)


@all_cases(("kind", "changed"), [
    *(("cut", one) for one in (
        {"size": 0}, {"size": 11}, {"size": True}, {"out_of": 0}, {"out_of": 59}, {"out_of": 10.0},
        {"rate": 0.0}, {"rate": 1.5}, {"rate": float("nan")}, {"rate": 0.6}, {"kind": "poisson"},
        {"kind": "fixed"})),
    *(("allocated", one) for one in (
        {"parts": 4}, {"parts": 1}, {"parts": 3.0}, {"part": 3}, {"part": -1}, {"part": True},
        {"kind": "part"}, {"kind": "poisson", "part": 0, "rate": 1.0})),
    *(("fixed", {"size": size}) for size in (0, -1, N + 1, 10.0, True))])
def test_a_context_that_was_changed_is_refused(kind, changed):
    table, handle, node = KINDS[kind]
    ledger, data = table()
    query = data.count()
    forged = Step(evolve(handle(data).steps[0].context, **changed))
    object.__setattr__(query.data, "steps", (forged,))
    refuses(ledger, data, query, node(),
            pl.NotGranted if kind == "fixed" else pl.errors.PrivledgerError)


@pytest.mark.parametrize("handles", [
    lambda data, rounds: (data.truncated_poisson(0.5, 10, ANY), rounds[2], rounds[0],
                          data.random_allocation(3)[0]),
    lambda data, rounds: (data.fixed_size(10, N),)], ids=["cut and allocated", "fixed"])
def test_the_handles_arrive(handles):
    _, data = guarded("replace_one")
    describer, reader = WireDescriber(data._vault, data.schema), WireReader(data)
    tokens = []
    for handle in handles(data, data.random_allocation(3)):
        wire = json.loads(json.dumps(describer.query(handle.count())))
        reader.learn(json.loads(json.dumps(describer.new())))
        there = reader.query(wire).data.steps[0].context
        assert evolve(there, token="") == evolve(handle.steps[0].context, token="")
        tokens.append(there.token)
    if len(tokens) > 1:
        assert tokens[1] == tokens[2]  # one pass
        assert len(set(tokens)) == 3


# --- samples of a fixed size --------------------------------------------------------------------

def test_parts_that_records_decide():
    ledger, data = fixed()
    inner = pl.Sequential([pl.Parallel([TINY] * 3), TINY])
    with ledger.request(pl.nodes.FixedSizeSample(30, N, inner), data) as session:
        handle = data.fixed_size(30, N)
        there = np.flatnonzero(members(session, handle))
        parts = handle.partition(handle.cells("colour"))
        for colour in (0, 1):
            found = session.release(TINY, parts[colour].count())
            assert np.rint(found) == np.sum(there % 2 == colour)


@pytest.mark.parametrize(("size", "out_of"), [(10, N - 1), (10, N + 1), (9, N)])
def test_the_size_and_the_number_are_the_plans_and_the_tables(size, out_of):
    ledger, data = fixed()
    refuses(ledger, data, data.fixed_size(size, out_of).count(), error=pl.NotGranted)
    other = pl.nodes.FixedSizeSample(size, out_of, TINY)
    if out_of != N:
        refuses(ledger, data, data.fixed_size(size, out_of).count(), other, pl.NotGranted)


@pytest.mark.parametrize("relation", ["add_remove", "replace_label"])
def test_other_relations_are_refused(relation):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e12, 1e-6), relation=relation)
    data = ledger.protect(X, Y, LABELLED, public_features=relation == "replace_label")
    node = pl.nodes.LabelOnly(TINY) if relation == "replace_label" else TINY
    refuses(ledger, data, data.fixed_size(10, N).count(), node, pl.errors.RelationMismatch)
    with pytest.raises(pl.errors.RelationMismatch):
        ledger.request(pl.nodes.FixedSizeSample(10, N, TINY), data).__enter__()


@pytest.mark.parametrize(("node", "ask"), [
    (pl.Exponential(0.01), lambda one: one.features_by("agreement")),
    (pl.Exponential(0.01), lambda one: one.features_by("rank")),
    (pl.Laplace(200.0), lambda one: one.count()),
    (pl.Laplace(200.0, l1_sensitivity=2.0), lambda one: one.histogram("colour"))],
    ids=["agreement", "rank", "count", "histogram"])
def test_what_follows_from_records_is_answered_on_a_sample(node, ask):
    ledger, data = fixed()
    with ledger.request(pl.nodes.FixedSizeSample(10, N, node), data) as session:
        session.release(node, ask(data.fixed_size(10, N)))
    assert data._vault.opened == 1 and ledger.verify() == []


def test_votes_of_blocks_are_refused():
    ledger, data = fixed()
    node = pl.Exponential(1.0)
    query = data.fixed_size(10, N).features_by(Votes())
    with ledger.request(pl.nodes.FixedSizeSample(10, N, node), data) as session, pytest.raises(
            pl.errors.UnsupportedNode, match="votes by coins"):
        session.release(node, query)
    assert data._vault.opened == 0


# --- samples that are cut off -------------------------------------------------------------------

def cut(rate, most, out_of=ANY, node=TINY):
    return pl.nodes.TruncatedPoissonSample(rate, most, out_of, node)


def test_a_sample_below_its_limit_is_a_poisson_sample():
    ledger, data = guarded()
    with ledger.request(cut(1.0, N), data) as session:
        assert members(session, data.truncated_poisson(1.0, N, ANY)).tolist() == [1] * N


@pytest.mark.parametrize(("schema", "unit", "out_of", "fits"), [
    (SCHEMA, "row", ANY, True), (SCHEMA, "row", 10**14, False), (SCHEMA, "row", N, False),
    (BOUNDED, "row", 100, True), (BOUNDED, "row", ANY, True), (BOUNDED, "row", 99, False),
    (BOUNDED, "person", 100, True), (BOUNDED, "person", 99, False), (BOUNDED, "person", 20, False)])
def test_the_table_is_publicly_no_larger_than_the_node_says(schema, unit, out_of, fits):
    """The true number of records is private, and fitting it is no excuse."""
    ledger, data = guarded(schema=schema, unit=unit)
    handle = data.truncated_poisson(0.5, 10, out_of)
    if not fits:
        return refuses(ledger, data, handle.count(), cut(0.5, 10, out_of), pl.NotGranted)
    with ledger.request(cut(0.5, 10, out_of), data) as session:
        session.release(TINY, handle.count())


@pytest.mark.parametrize(("out_of", "fits"), [(N, True), (N - 1, False), (100, True)])
def test_where_the_number_is_public_it_counts(out_of, fits):
    ledger, data = guarded("replace_one")
    handle, plan = data.truncated_poisson(0.5, 10, out_of), pl.nodes.AsReplaceOne(
        cut(0.5, 10, out_of))
    if not fits:
        return refuses(ledger, data, handle.count(), plan, pl.NotGranted)
    with ledger.request(plan, data) as session:
        session.release(TINY, handle.count())


@pytest.mark.parametrize("unit", ["row", "person"])
def test_a_table_above_the_bound_is_not_protected(unit):
    """Neither at first nor by late arrivals; what was there stays as it was."""
    records = N if unit == "row" else N // 3
    small = pl.Schema("people", COLUMNS, most_records=records - 1, most_records_provenance="public")
    with pytest.raises(pl.errors.DataError, match="most_records") as raised:
        guarded(schema=small, unit=unit)
    assert str(N) not in str(raised.value) and str(records) not in str(raised.value)
    fitting = pl.Schema("people", COLUMNS, most_records=records, most_records_provenance="public")
    ledger, data = guarded(schema=fitting, unit=unit)
    before = ledger.receipt
    late = {"size": [0.5], "colour": ["red"]}
    with pytest.raises(pl.errors.DataError, match="most_records"):
        ledger.append(data, late, people=["new"] if unit == "person" else None)
    assert ledger.receipt == before
    if unit == "person":  # one more row of somebody who is there already
        ledger.append(data, late, people=["3"])


def test_chunks_above_the_bound_are_not_protected():
    small = pl.Schema("people", COLUMNS, most_records=N - 1, most_records_provenance="public")
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    with pytest.raises(pl.errors.DataError, match="most_records"):
        ledger.protect(X, small, engine=pl.engines.Local(workers=1))


@pytest.mark.parametrize("given", [
    {"most_records": 5}, {"most_records": True, "most_records_provenance": "public"},
    {"most_records_provenance": "public"}, {"most_records": 0, "most_records_provenance": "public"},
    {"most_records": 5, "most_records_provenance": "counted"}])
def test_a_bound_that_nobody_stands_for_is_refused(given):
    with pytest.raises((pl.errors.SchemaError, pl.errors.InvalidValue, pl.errors.DataDerived)):
        pl.Schema("people", COLUMNS, **given)


def test_the_bound_is_in_the_digest_and_comes_back():
    assert pl.Schema.from_dict(BOUNDED.to_dict()) == BOUNDED
    assert BOUNDED.digest != SCHEMA.digest and "most_records" not in SCHEMA.to_dict()


# --- random allocations -------------------------------------------------------------------------

def test_every_record_is_in_one_round_and_a_pass_draws_its_own():
    ledger, data = guarded()
    plan = pl.Repeat(pl.nodes.RandomAllocation(4, TINY), 2)
    drawn = []
    with ledger.request(plan, data) as session:
        for _ in range(2):
            rounds = data.random_allocation(4)
            assert len(rounds) == 4
            found = np.array([members(session, rounds[step]) for step in (2, 0, 3, 1)])
            assert (found.sum(axis=0) == 1).all()
            drawn.append(found.argmax(axis=0).tolist())
        refused(pl.NotGranted, lambda: session.release(TINY, data.random_allocation(4)[0].count()))
    assert drawn[0] != drawn[1]  # false alarm 4^-60
    assert ledger.verify() == []


def test_a_round_is_answered_once_and_may_hold_several_releases():
    ledger, data = guarded()
    inner = pl.Sequential([pl.Repeat(TINY, 2), pl.Parallel([TINY] * 3)])
    with ledger.request(pl.nodes.RandomAllocation(3, inner), data) as session:
        rounds = data.random_allocation(3)
        there = members(session, rounds[1])
        assert (members(session, rounds[1]) == there).all()
        refused(pl.NotGranted, lambda: session.release(TINY, rounds[1].count()))
        parts = rounds[1].partition(data.cells("colour"))
        for colour in (0, 1):
            found = session.release(TINY, parts[colour].count())
            assert np.rint(found) == there[colour::2].sum()
        assert not (members(session, rounds[2]) & there).any()
    assert ledger.verify() == []


def test_another_grant_draws_its_own_coins():
    """An allocation that is kept from one grant to the next would be one whose coins are used
    twice: what two rounds say together was not priced."""
    ledger, data = guarded()
    rounds, drawn = data.random_allocation(2), []
    for _ in range(2):
        with ledger.request(pl.nodes.RandomAllocation(2, TINY), data) as session:
            drawn.append(members(session, rounds[0]).tolist())
    assert drawn[0] != drawn[1]  # false alarm 2^-60


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_people_are_allocated_whole(relation):
    ledger, data = guarded(relation, unit="person")
    node = pl.nodes.RandomAllocation(2, TINY)
    edges = [(place - 0.5) / N for place in range(1, N)]
    with ledger.request(node if relation == "add_remove" else pl.nodes.AsReplaceOne(node),
                        data) as session:
        rounds = data.random_allocation(2)
        said = [session.release(TINY, one.histogram("size", edges))[:N] for one in (
            rounds[0], rounds[1])]
    whole = np.array(said).reshape(2, N // 3, 3)
    assert np.abs(whole - whole.mean(axis=2, keepdims=True)).max() < 0.01
    assert ((whole > 0.1).sum(axis=0) == 1).all()  # in one round, with all that they have


def test_chunks_allocate_each_record_once():
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e12, 1e-6), filter="gdp")
    data = ledger.protect(X, SCHEMA, engine=pl.engines.Local(workers=1, chunk_rows=7))
    with ledger.request(pl.nodes.RandomAllocation(3, pl.Repeat(TINY, 2)), data) as session:
        rounds = data.random_allocation(3)
        found = np.array([members(session, rounds[step]) for step in range(3)])
        assert (found.sum(axis=0) == 1).all()
        assert (found.sum(axis=1) > 0).all()  # false alarm 8e-11
        assert (members(session, rounds[1]) == found[1]).all()
    with ledger.request(cut(0.5, 10), data) as session, pytest.raises(
            pl.errors.UnsupportedNode, match="in memory"):
        session.release(TINY, data.truncated_poisson(0.5, 10, ANY).count())


def test_one_allocation_of_two_tables_parts_is_two():
    """Parts may be allocated each, under a node each: one token stands at one place."""
    ledger, data = guarded()
    node = pl.nodes.RandomAllocation(2, TINY)
    with ledger.request(pl.Parallel([node] * 3), data) as session:
        parts = data.partition(data.cells("colour"))
        red, green = parts[0].random_allocation(2), parts[1].random_allocation(2)
        both = [members(session, one[step]) for one in (red, green) for step in range(2)]
        assert np.sum(both, axis=0).tolist() == [1] * N
        moved = red[0].steps
        query = parts[1].count()
        object.__setattr__(query.data, "steps", (parts[1].steps[0], moved[1]))
        refused(pl.NotGranted, lambda: session.release(TINY, query))


def test_rounds_are_many_and_cost_no_memory():
    """A history that speaks of 10^15 rounds is read at once."""
    ledger, data = guarded()
    with ledger.request(pl.nodes.RandomAllocation(ANY, pl.Gaussian(1e3)), data) as session:
        session.release(pl.Gaussian(1e3), data.random_allocation(ANY)[ANY - 1].count())
    assert ledger.verify() == []


# --- both, elsewhere ----------------------------------------------------------------------------

@pytest.mark.parametrize("wrap", [
    lambda node: pl.PoissonSample(0.1, node), lambda node: cut(0.1, 10, node=node),
    lambda node: pl.nodes.RandomAllocation(10, node), lambda node: pl.Parallel([node, node]),
    lambda node: pl.nodes.FixedSizeSample(6, N, node)],
    ids=["poisson", "truncated", "allocation", "parallel", "fixed"])
def test_alternatives_that_begin_alike_within_a_sample_have_no_price(wrap):
    """What is released first leaves open which runs, and what it says may decide: once, samples
    of a fixed size were taken for single releases here, and cost what the dearest would."""
    relation = "replace_one" if isinstance(wrap(TINY), pl.nodes.FixedSizeSample) else "add_remove"
    first, cheap, dear = pl.Gaussian(3.0), pl.Gaussian(9.0), pl.Gaussian(1.0)
    plan = pl.nodes.OneOf([wrap(pl.Sequential([first, cheap, pl.Gaussian(5.0)])),
                           wrap(pl.Sequential([first, dear]))])
    if isinstance(wrap(TINY), pl.Parallel):  # of Gaussians alone: the dearest gives every other
        assert pl.epsilon(plan, 1e-6, relation) > 0
        return
    with pytest.raises(pl.errors.UnsupportedNode, match="begin alike"):
        pl.epsilon(plan, 1e-6, relation)


# --- what is kept of a sample ------------------------------------------------------------------

KEPT = [
    (pl.PoissonSample(0.5, pl.Repeat(TINY, 2)), lambda data: [data.poisson(0.5)] * 2),
    (pl.nodes.RandomAllocation(3, TINY), lambda data: data.random_allocation(3)),
    (pl.PoissonSample(0.5, pl.PoissonSample(0.5, TINY)), lambda data: [
        data.poisson(0.5).poisson(0.5)]),
]


def gone(kept):
    return sum(one is None for one in kept.values())


@pytest.mark.parametrize(("node", "handles"), KEPT)
def test_who_is_in_a_sample_is_kept_until_its_last_release(node, handles):
    """A second draw under one name would have no price: what is gone is refused."""
    ledger, data = guarded()
    with ledger.request(pl.Repeat(node, 4), data) as session:
        kept = _granted(session)._inside.members._samples
        for _ in range(4):
            asked, before = handles(data), gone(kept)
            for place, handle in enumerate(asked):
                members(session, handle)
                assert (gone(kept) > before) is (place == len(asked) - 1)
            assert gone(kept) == len(kept)
            with ledger.request(TINY, data) as other, pytest.raises(pl.NotGranted):
                other.release(TINY, asked[0].count())  # no sample is in that plan
            with pytest.raises(pl.NotGranted):
                session.release(TINY, asked[0].count())
            with pytest.raises(pl.NotGranted, match="last release was made"):  # past the plan, too
                _granted(session)._inside.members.sample(asked[0].derivation, None)
    assert ledger.verify() == []


def test_a_sample_on_which_a_run_goes_on_is_kept():
    ledger, data = guarded()
    node = pl.PoissonSample(0.5, pl.Sequential((TINY, TINY)))
    with ledger.request(node, data) as session:
        handle, inside = data.poisson(0.5), _granted(session)._inside
        first = members(session, handle)
        (drawn,) = inside.members._samples.values()
        going = inside.runs["run"] = type("Going", (), {"left": 1})()
        assert (members(session, handle) == first).all()
        assert next(iter(inside.members._samples.values())) is drawn
        going.left = 0
        del inside.runs["run"]
