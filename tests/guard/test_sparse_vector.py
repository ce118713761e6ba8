"""Sparse vector as it is released: one noise for the threshold, bits alone, and an end."""

import json

import numpy as np
import pytest
from scipy import stats

import privledger as pl
from privledger.broker.wire import WireDescriber, WireReader
from privledger.noise.source import SystemSource
from privledger.questions.query import Sum
from tests.worlds import SIXTY as N
from tests.worlds import refused
from tests.worlds import sixty as guarded

TINY = pl.SparseVector(1e-4, 1e-4, cutoff=2)


# --- what is drawn ------------------------------------------------------------------------------

def test_the_thresholds_noise_is_drawn_once_and_the_sums_afresh(monkeypatch):
    """Every draw is scripted: what is compared with what, and how wide each noise is."""
    script, asked = [], []

    def laplace(self, scale, size):
        asked.append((float(scale), size))
        return np.array([script.pop(0)], dtype=np.int64)

    monkeypatch.setattr(SystemSource, "laplace", laplace)
    ledger, data = guarded()
    node = pl.SparseVector(4.0, 8.0, cutoff=1)
    step = 2.0**-20
    with ledger.request(pl.Repeat(node, 2), data) as session:
        script += [round(5 / step), round(-6 / step), 0, round(4 / step), round(5 / step)]
        run = data.sparse_vector()
        said = [int(session.release(node, run.above(data.count(), 60.0))) for _ in range(4)]
        assert said == [0, 0, 0, 1]  # 54 < 65, 60 < 65, 64 < 65, 65 >= 65
        script += [round(-1 / step), 0]
        other = data.sparse_vector()
        assert int(session.release(node, other.above(data.count(), 61.0))) == 1
    assert not script
    scales = [scale * step for scale, _ in asked]
    assert {size for _, size in asked} == {1}
    assert scales == pytest.approx([4, 8, 8, 8, 8, 4, 8], rel=1e-9)
    assert all(scale >= wanted for scale, wanted in zip(scales, [4, 8, 8, 8, 8, 4, 8], strict=True))


def test_answers_follow_the_law():
    """At a distance of 2: P(n - z >= 2) of Laplace 1 and 2 is (4 e^-1 - e^-2) / 6 = .2227.

    False alarm 1e-8.
    """
    ledger, data = guarded()
    node, times = pl.SparseVector(1.0, 2.0), 3000
    with ledger.request(pl.Repeat(node, times), data) as session:
        above = sum(int(session.release(node, data.sparse_vector().above(data.count(), N + 2.0)))
                    for _ in range(times))
    law = (4 * np.exp(-1) - np.exp(-2)) / 6
    assert stats.binomtest(above, times, law).pvalue > 1e-8


def test_it_ends_after_so_many_above_and_costs_one_node():
    ledger, data = guarded()
    with ledger.request(TINY, data) as session:
        run = data.sparse_vector()
        said = [int(session.release(TINY, run.above(data.count(), level)))
                for level in (90.0, 61.0, 59.0, 200.0, 61.0, 2.0)]
        assert said == [0, 0, 1, 0, 0, 1]
        assert session.releases == 1
        opened = data._vault.opened
        with pytest.raises(pl.NotGranted, match="has ended"):
            session.release(TINY, run.above(data.count(), 59.0))
        with pytest.raises(pl.NotGranted, match="no such node left"):
            session.release(TINY, data.sparse_vector().above(data.count(), 59.0))
        assert data._vault.opened == opened
    assert ledger.verify() == []


def test_it_ends_when_anything_goes_wrong(monkeypatch):
    ledger, data = guarded()
    with ledger.request(TINY, data) as session:
        run = data.sparse_vector()

        def broken(self, chunk, state):
            raise ZeroDivisionError("4711")

        with monkeypatch.context() as patched:
            patched.setattr(Sum, "sketch", broken)
            with pytest.raises(pl.errors.DataError):
                session.release(TINY, run.above(data.count(), 59.0))
        with pytest.raises(pl.NotGranted, match="has ended"):
            session.release(TINY, run.above(data.count(), 59.0))


def test_parts_and_samples():
    ledger, data = guarded()
    plan = pl.Sequential([TINY, pl.PoissonSample(0.5, TINY), pl.Parallel([TINY] * 3)])
    with ledger.request(plan, data) as session:
        run, parts = data.sparse_vector(), data.partition(data.cells("colour"))
        assert int(session.release(TINY, run.above(parts[0].count(), 29.5))) == 1
        assert int(session.release(TINY, run.above(parts[1].count(), 30.5))) == 0
        sample = data.poisson(0.5)
        assert int(session.release(TINY, sample.sparse_vector().above(sample.count(), -0.5))) == 1
        own = parts[0].sparse_vector()
        assert int(session.release(TINY, own.above(parts[0].count(), 29.5))) == 1
        with pytest.raises(pl.NotGranted, match="mechanism and its handle"):
            session.release(TINY, own.above(parts[1].count(), 29.5))


def test_people_speak_once():
    ledger, data = guarded(unit="person", people_key=b"k" * 32,
                           people=[str(place // 3) for place in range(N)])
    with ledger.request(TINY, data) as session:
        run = data.sparse_vector()
        said = [int(session.release(TINY, run.above(data.people(), level)))
                for level in (20.5, 19.5)]
    assert said == [0, 1]


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_both_relations_pay_for_what_one_record_moves(relation):
    ledger, data = guarded(relation)
    wide = pl.SparseVector(1e-4, 1e-4, sensitivity=2.0 if relation == "replace_one" else 1.0)
    small = pl.SparseVector(1e-4, 1e-4, sensitivity=wide.sensitivity * (1 - 1e-9))
    with ledger.request(pl.Sequential([wide, small]), data) as session:
        run = data.sparse_vector()
        with pytest.raises(pl.errors.UnsupportedNode, match="moves the sum by"):
            session.release(small, run.above(data.sum("size"), 0.0))
        assert data._vault.opened == 0
        assert int(session.release(wide, run.above(data.sum("size"), -2.0))) == 1


# --- refusals -----------------------------------------------------------------------------------

def refuses(data, session, query, node=TINY, error=pl.errors.UnsupportedNode):
    refused(error, lambda: session.release(node, query() if callable(query) else query))
    assert session.releases == 0
    assert data._vault.opened == 0


def test_what_has_no_proof_is_refused():
    ledger, data = guarded()
    with ledger.request(pl.Sequential([TINY, pl.Gaussian(1.0)]), data) as session:
        run = data.sparse_vector()
        count = run.above(data.count(), 1.0)
        refuses(data, session, count, pl.Gaussian(1.0))
        refuses(data, session, data.count())
        refuses(data, session, run.above(data.poisson(0.5).count(), 1.0))
        refuses(data, session, run.above(data.partition(2)[0].count(), 1.0))
        refuses(data, session, run.above(data.custom(lambda t: t["size"], 1.0, "why"), 1.0))
        refuses(data, session, lambda: run.above(data.histogram("colour"), 1.0))
        refuses(data, session, lambda: run.above(
            data.query((pl.questions.Ones(), pl.questions.Ones())), 1.0))
        refuses(data, session, run.above(data.row_sum(["size"]), 1.0),
                pl.SparseVector(1e-4, 1e-4, cutoff=3), pl.NotGranted)
        refused(pl.InvalidValue, lambda: run.above(data.count(), float("nan")))


@pytest.mark.parametrize("relation", ["replace_one", "add_remove"])
def test_monotone_is_for_sums_that_no_record_lowers(relation):
    ledger, data = guarded(relation)
    node = pl.SparseVector(1e-4, 1e-4, sensitivity=2.0, monotone=True)
    with ledger.request(node, data) as session:
        run = data.sparse_vector()
        refuses(data, session, run.above(data.sum("size"), 1.0), node)
        if relation == "replace_one":
            refuses(data, session, run.above(data.count(), 1.0), node)
        else:
            assert int(session.release(node, run.above(data.count(), 1.0))) == 1


def test_a_filter_takes_none():
    ledger, data = guarded(filter="gdp")
    scope = pl.IndividualFilter("gdp", 1e12)
    with ledger.request(scope, data) as session:
        behind = session.filtered(scope)
        for query in (behind.sparse_vector().above(behind.count(), 1.0),
                      data.sparse_vector().above(behind.count(), 1.0)):
            with pytest.raises(pl.errors.UnsupportedNode):
                session.release(TINY, query)
    assert data._vault.opened == 0


def test_a_run_keeps_its_mechanism():
    ledger, data = guarded()
    other = pl.SparseVector(1e-5, 1e-4, cutoff=2)
    with ledger.request(pl.Sequential([TINY, other]), data) as session:
        run = data.sparse_vector()
        session.release(TINY, run.above(data.count(), 90.0))
        with pytest.raises(pl.NotGranted, match="keep its mechanism"):
            session.release(other, run.above(data.count(), 90.0))


def test_another_grant_is_another_run():
    ledger, data = guarded()
    run = data.sparse_vector()
    for _ in range(2):
        with ledger.request(TINY, data) as session:
            said = [int(session.release(TINY, run.above(data.count(), 1.0))) for _ in range(2)]
            assert said == [1, 1]
            assert session.releases == 1


# --- through the broker -------------------------------------------------------------------------

def test_a_run_arrives_as_one_run():
    _, data = guarded()
    describer, reader = WireDescriber(data._vault, data.schema), WireReader(data)
    run, found = data.sparse_vector(), []
    for level in (1.0, 2.5):
        wire = json.loads(json.dumps(describer.query(run.above(data.count(), level))))
        reader.learn(json.loads(json.dumps(describer.new())))
        found.append(reader.query(wire))
    assert found[0].run is found[1].run
    assert [one.threshold for one in found] == [1.0, 2.5]
    assert found[0].what == "count"
