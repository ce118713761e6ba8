"""History: each fault that a reader of the proofs found, once. Each was a real undercharge."""

from __future__ import annotations

import numpy as np
import pytest

import privledger as pl
from privledger.data.blocks import clipped

SCHEMA = pl.Schema("t", (
    pl.Column("x", "numeric", "feature", 0, 1),
    pl.Column("c", "categorical", "feature", categories=("a", "b", "d")),
    pl.Column("y", "numeric", "target", 0, 1),
))
N = 1000


def protected(epsilon=10.0, **options):
    ledger = pl.Ledger.create(None, budget=pl.Budget(epsilon, 1e-6), **options)
    place = np.arange(N)
    X = {"x": place / N, "c": np.array(["a", "b", "d"])[place % 3]}
    return ledger, ledger.protect(X, place / N, SCHEMA)


def test_a_wider_filter_cannot_pass_for_the_reserved_one():
    ledger, data = protected()
    reserved = pl.IndividualFilter("gdp", 0.001)
    with ledger.request(reserved, data) as session:
        wide = session.filtered(pl.IndividualFilter("gdp", 1e6))
        with pytest.raises(pl.NotGranted):
            session.release(pl.Gaussian(0.01), wide.count())
    assert data._vault.opened == 0


def test_a_second_filter_in_one_grant_is_refused():
    ledger, data = protected()
    node = pl.IndividualFilter("gdp", 0.001)
    with ledger.request(node, data) as session:
        session.filtered(node)
        session.filtered(node)
        with pytest.raises(pl.NotGranted):
            session.filtered(pl.IndividualFilter("gdp", 0.002))


def test_a_sample_does_not_outlive_its_grant():
    """One handle in many grants must draw many samples: its membership would average out."""
    ledger, data = protected(500.0, filter="rdp", mode="simulation", seed=1)
    node = pl.PoissonSample(0.5, pl.Gaussian(0.5))
    handle = data.poisson(0.5)
    counts = []
    for _ in range(6):
        with ledger.request(node, data) as session:
            counts.append(round(float(session.release(pl.Gaussian(0.5), handle.count()))))
    assert max(counts) - min(counts) > 5  # six equal samples would differ by noise of .5 only


def test_under_a_filter_a_sample_serves_one_release():
    ledger, data = protected(filter="rdp")
    pair = pl.Sequential([pl.Gaussian(5.0), pl.Gaussian(5.0)])
    inside = pl.Repeat(pl.PoissonSample(0.1, pair), 2)
    node = pl.IndividualFilter("renyi", 0.5, order=8.0, node=inside)
    with ledger.request(node, data) as session:
        sample = session.filtered(node).poisson(0.1)
        session.release(pl.Gaussian(5.0), sample.count())
        with pytest.raises(pl.NotGranted):
            session.release(pl.Gaussian(5.0), sample.count())


def test_the_bound_of_a_count_cannot_be_set():
    with pytest.raises(TypeError):
        pl.Ones(clip=1e-6)


def test_cells_of_a_column_are_as_many_as_the_schema_says():
    ledger, data = protected()
    node = pl.Gaussian(5.0)
    with ledger.request(node, data) as session, pytest.raises(pl.InvalidValue):
        session.release(node, data.query((pl.Ones(),), pl.CategoryCells("c", 1)))


def test_a_partition_of_unknown_make_is_refused_unread():
    class Peek:
        count = 2

        def index(self, rows):
            raise AssertionError("must not be called")

    ledger, data = protected()
    node = pl.Gaussian(5.0)
    with ledger.request(node, data) as session, pytest.raises(pl.UnsupportedNode):
        session.release(node, data.query((pl.Ones(),), Peek()))
    assert data._vault.opened == 0


def test_replacing_one_unsigned_vector_by_another_costs_root_two():
    class Wide:
        clip, width, signed, asserted = 1.0, 3, False, False

    _, data = protected()
    query = pl.Query(data, (pl.Ones(),))
    assert query.sensitivity(Wide(), "replace_one", 2) >= 2**0.5
    assert query.sensitivity(Wide(), "replace_one", 1) == 2.0


def test_a_gradient_that_is_not_a_number_contributes_nothing():
    class Broken:
        clip, width, signed, asserted = 1.0, 1, True, False

        def values(self, rows):
            return np.array([np.nan, np.inf, -np.inf, 0.5])

    assert clipped(Broken(), None, 2).tolist() == [0.0, 1.0, -1.0, 0.5]


def test_a_group_inside_a_sample_is_refused():
    with pytest.raises(pl.UnsupportedNode):
        pl.epsilon(pl.PoissonSample(0.1, pl.Group(3, pl.Gaussian(2.0))), delta=1e-6)


def test_a_selected_handle_bins_its_own_columns():
    ledger, data = protected(mode="simulation", seed=2)
    part = data.select(["c"])
    bins = part.bins(8)
    cells = pl.TreeCells(bins, [pl.Test(0, np.array([0, 1, 2, 3], np.uint8))], 4)
    node = pl.Gaussian(0.01)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 1e-6), mode="simulation", seed=2)
    data = ledger.protect({"x": np.zeros(6), "c": list("aabbbd")}, np.zeros(6), SCHEMA)
    with ledger.request(node, data) as session:
        found = session.release(node, data.select(["c"]).query((pl.Ones(),), cells))
    assert np.rint(found).tolist() == [2, 3, 1, 0]


def test_a_ledger_in_memory_is_not_forked():
    import os

    ledger, data = protected()
    child = os.fork()
    if child == 0:
        try:
            ledger.request(pl.Gaussian(5.0), data)
        except pl.LedgerError:
            os._exit(7)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 7


def test_a_renyi_filter_at_an_order_off_the_grid_is_priced_at_that_order():
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="rdp", order=40.3)
    _, data = protected()
    data = ledger.protect({"x": np.zeros(3), "c": list("abd")}, np.zeros(3), SCHEMA)
    node = pl.IndividualFilter("renyi", 0.5, order=40.3)
    with ledger.request(node, data):
        pass
    assert ledger.spent > 0
    assert ledger.verify() == []
