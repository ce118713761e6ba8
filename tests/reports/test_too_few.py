"""Whether a plan can tell anything from noise follows from its nodes and the number of people."""

import pytest
from attrs import evolve, fields
from privledger_learners import SGBDTRegressor

import privledger as pl
from privledger.graph.register import MECHANISMS, MechanismRow
from privledger.reports.outline import quietest, too_few
from tests.worlds import refused

SCHEMA = pl.Schema("t", (
    pl.Column("who", "identifier", "identifier"), pl.Column("x", "numeric", "feature", 0.0, 1.0),
    pl.Column("y", "numeric", "target", 0.0, 1.0)), unit="person", person="who")


def promised(people):
    return evolve(SCHEMA, expected_rows=people, expected_rows_provenance="declared: enrolled")


@pytest.mark.parametrize(("node", "noise"), [
    (pl.Gaussian(7.0), 7.0), (pl.Gaussian(6.0, (0.25, 0.75)), 6 / 0.75**0.5),
    (pl.Laplace(3.0), 3 * 2**0.5), (pl.Laplace(3.0, l1_sensitivity=2.0), 1.5 * 2**0.5),
    (pl.Exponential(0.5), 4.0), (pl.PermuteAndFlip(0.5), 4.0), (pl.TopK(2, 0.1), 20.0),
    (pl.ReportNoisyMax(0.5), 4.0), (pl.DiscreteGaussian(6.0, 2), 3.0),
    (pl.DiscreteLaplace(0.01, 2), 2**0.5 / 0.010050167 / 2), (pl.DiscreteLaplace(800.0), 0.0),
    (pl.nodes.PartitionSelection(30.0, 3.0), 3 * 2**0.5),
    (pl.nodes.PartitionSelection(30.0, 3.0, 4, "gaussian"), 3.0),
    (pl.nodes.PartitionSelection(30.0, 3.0, 1, "geometric"), 3 * 2**0.5),
    (pl.SparseVector(3.0, 5.0), 5 * 2**0.5),
    (pl.PoissonSample(0.1, pl.Gaussian(5.0)), 50.0),
    (pl.nodes.TruncatedPoissonSample(0.1, 5, 90, pl.Gaussian(5.0)), 50.0),
    (pl.nodes.FixedSizeSample(20, 100, pl.Gaussian(5.0)), 25.0),
    (pl.nodes.RandomAllocation(10, pl.Gaussian(5.0)), 50.0),
    (pl.Repeat(pl.Sequential([pl.Gaussian(9.0), pl.Laplace(1.0)]), 4), 2**0.5),
    (pl.graph.Public("x"), float("inf"))])
def test_the_quietest_answer(node, noise):
    assert quietest(node) == pytest.approx(noise)


def test_every_mechanism_says_its_noise():
    """Single answers and somebody's word have none that a number of people compares with."""
    none = {"RandomizedResponse", "Asserted", "AssertedZCDP"}
    default = fields(MechanismRow).spread.default
    assert {kind.__name__ for kind, row in MECHANISMS.items() if row.spread is default} == none


def test_a_table_of_few_people_is_told_apart_from_one_of_many():
    plan = SGBDTRegressor(epsilon=1.0, delta=1e-6).plan(promised(42))
    assert "42" in too_few(plan, promised(42))
    assert too_few(plan, promised(100_000)) is None
    assert too_few(plan, SCHEMA) is None  # nothing public says how many
    assert too_few(pl.graph.Public("x"), promised(2)) is None


def test_a_schema_that_states_public_people(make_ledger):
    schema = evolve(SCHEMA, public_people=3)
    assert schema.rows_for("replace_one") == 3
    assert pl.Schema.from_dict(schema.to_dict()) == schema
    assert schema.digest != SCHEMA.digest
    with pytest.raises(pl.errors.RelationMismatch, match="number of people"):
        schema.rows_for("add_remove")
    refused(pl.errors.InvalidValue, lambda: evolve(SCHEMA, public_people=-1))
    columns = {"who": [1, 2, 3, 3], "x": [0.0, 0.5, 1.0, 1.0], "y": [0.0, 0.5, 1.0, 1.0]}
    y = columns["y"]
    people = make_ledger(relation="replace_one", unit="person", people_key=b"k" * 32)
    assert people.protect(columns, y, schema).schema.public_people == 3
    with pytest.raises(pl.errors.RelationMismatch, match="public_people"):
        people.protect(columns, y, evolve(SCHEMA, public_rows=4))
    rows = make_ledger(relation="replace_one")
    with pytest.raises(pl.errors.SchemaError, match="counts people"):
        rows.protect(columns, y, evolve(schema, unit=None, person=None))
