"""Discrete noise under a grant: whole steps, one number, and everything else refused by name."""

import numpy as np
import pytest

import privledger as pl
from privledger.questions.sums import grid_of
from tests.all_cases import all_cases
from tests.properties.test_sensitivity import (
    CLASSES,
    SCHEMA,
    integer_sums,
    neighbours,
    random_table,
)
from tests.worlds import protected, refused, refuses

SHARP = pl.DiscreteLaplace(40.0)  # noise other than zero has probability below 1e-16
RELATIONS = ["add_remove", "replace_one", "replace_label"]


def ask(ledger, data, mechanism, query):
    with ledger.request(mechanism, data) as session:
        return session.release(mechanism, query)


@pytest.fixture
def sharp(schema, table):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6))
    return ledger, ledger.protect(*table, schema)


def test_counts_are_whole(sharp, table):
    ledger, data = sharp
    assert ask(ledger, data, SHARP, data.count()) == 200
    colours = [np.sum(table[0]["colour"] == colour) for colour in ("red", "green", "blue")]
    assert ask(ledger, data, SHARP, data.histogram("colour")).tolist() == [*colours, 0]
    assert float(ask(ledger, data, pl.DiscreteGaussian(3.0), data.count())).is_integer()
    assert ledger.verify() == []


def test_sums_lie_on_the_grid_that_the_sensitivity_says(sharp, table):
    ledger, data = sharp
    fine = pl.DiscreteLaplace(40.0, 1 << 20)
    answer = float(ask(ledger, data, fine, data.sum("size")))
    assert answer == pytest.approx(float(np.sum(table[0]["size"] * 2 - 1)), abs=200 * 2.0**-20)
    assert (answer * 2.0**20).is_integer()


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("seed", range(20))
def test_no_neighbour_moves_more_than_one_number_by_more_than_the_sensitivity(
        make_ledger, relation, seed):
    rng = np.random.default_rng([seed, 31])
    classes = bool(seed % 2)
    schema = CLASSES if classes else SCHEMA
    X, y = random_table(rng, int(rng.integers(1, 12)), classes)
    data = make_ledger().protect(X, y, schema)
    blocks = [pl.questions.Ones(), pl.questions.ColumnValue(
        "x", 0.5, 2.5, clip=float(rng.uniform(0.01, 3)))]
    cells = [None, data.cells("c")] if relation != "replace_one" else [None]
    for block in blocks:
        for cell in cells:
            most = int(rng.integers(2, 50))
            query = data.query((block,), cell)
            node = pl.DiscreteLaplace(0.5, most)
            _, before = integer_sums(query, node, relation, X, y, schema)
            for _ in range(8):
                _, after = integer_sums(query, node, relation,
                                        *neighbours(rng, X, y, relation, classes), schema)
                moved = np.abs(after[0] - before[0])
                assert np.count_nonzero(moved) <= 1
                assert moved.max() <= most


@all_cases("clip", [1.0, 0.3, 1 / 49, 2.0**-30, 7e9])
@all_cases("steps", [1, 2, 3, 49, 1 << 20])
def test_the_clip_is_at_most_its_steps(clip, steps):
    grid = grid_of(clip, steps)
    assert np.frexp(grid)[0] == 0.5
    assert clip / grid <= steps < 2 * clip / grid + 1e-9


@pytest.mark.parametrize("node", [pl.DiscreteLaplace(1.0), pl.DiscreteGaussian(2.0)])
def test_what_moves_several_numbers_is_refused(schema, table, node):
    for relation in ("add_remove", "replace_one"):
        ledger, data = protected(pl.Budget(1e9, 1e-6), *table, schema, relation=relation)
        ones = pl.questions.Ones()
        refuses(ledger, data, node, data.query((ones, ones)), match="one number")
        if relation == "replace_one":
            refuses(ledger, data, node, data.histogram("colour"), match="two cells")
            refuses(ledger, data, node, data.sum("size"), match="twice")


def test_people_are_refused(schema, table):
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e9, 1e-6), unit="person",
                              people_key=b"k" * 32)
    people = [str(i % 100) for i in range(200)]
    data = ledger.protect(*table, schema, people=people)
    refuses(ledger, data, pl.DiscreteLaplace(1.0), data.count(), match="a person")


def test_a_louder_node_than_reserved_is_not_granted(sharp):
    ledger, data = sharp
    refuses(ledger, data, pl.DiscreteLaplace(0.6), data.count(), pl.NotGranted,
            node=pl.DiscreteLaplace(0.5))


def test_a_sample_takes_discrete_noise(sharp):
    ledger, data = sharp
    node = pl.DiscreteGaussian(2.0)
    with ledger.request(pl.PoissonSample(0.5, node), data) as session:
        answer = session.release(node, data.poisson(0.5).count())
    assert float(answer).is_integer()


@pytest.mark.parametrize("node", [
    pl.DiscreteLaplace(1e-16), pl.DiscreteLaplace(2.0**21), pl.DiscreteGaussian(2.0**51),
    pl.DiscreteGaussian(2.0**-21)], ids=repr)
def test_noise_without_a_sampler_is_refused_before_rows_are_read(node):
    """History: the sampler said so, when the rows were read and the charge was made."""
    query = pl.questions.Query(pl.Ledger, (pl.questions.Ones(),))
    refused(pl.InvalidValue, lambda: query.prepare(node, "add_remove"), match=r"2\*\*")


def test_a_refusal_of_such_noise_hands_the_grant_back(sharp):
    ledger, data = sharp
    refused(pl.InvalidValue, lambda: ask(ledger, data, pl.DiscreteLaplace(1e-16), data.count()))
    assert ledger.spent == 0
    assert [grant.status for grant in ledger.state.grants.values()] == ["aborted"]
