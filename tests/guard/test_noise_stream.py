"""Correlated noise as the guard draws it: whole numbers, each step once, records in turn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import privledger as pl
from privledger.graph.correlated import GRID
from privledger.guard.handle import _granted
from privledger.noise.source import SystemSource
from privledger.questions.query import Sum
from privledger.questions.sums import grid_for
from tests.engines.mischief import Mischief
from tests.worlds import protected, refused, schema_of

SCHEMA = schema_of("people", {"size": (0.0, 1.0), "colour": ["red", "green"]}, kind=["a", "b", "c"])
N = 60
X = {"size": np.arange(N) / N, "colour": np.array(["red", "green"], dtype=object)[np.arange(N) % 2]}
Y = np.array(["a", "b", "c"])[np.arange(N) % 3]
HELD = (1.0, 0.5, -0.25)
TINY = pl.Gaussian(1e-4)
NODE = pl.nodes.Correlated(TINY, HELD, 12, 4, 3)
FULL = pl.nodes.Correlated(TINY, (1.0, 0.5, 0.375), 4, 1, 4)
STEP = 2.0**-20


def guarded(relation="add_remove", rows=None, **options):
    named = {key: options.pop(key) for key in ("people",) if key in options}
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e12, 1e-6), relation=relation, **options)
    return ledger, ledger.protect(X if rows is None else rows, Y, SCHEMA, **named)


def matrix(node):
    return sum(value * np.eye(node.steps, k=-lag) for lag, value in enumerate(node.coefficients))


# --- what is drawn ------------------------------------------------------------------------------

def test_a_row_is_the_strategy_times_the_sums_and_one_fresh_draw(monkeypatch):
    script, asked = [], []

    def gaussian(self, scale, size):
        asked.append((float(scale), size))
        return np.array([script.pop(0) for _ in range(size)], dtype=np.int64)

    monkeypatch.setattr(SystemSource, "gaussian", gaussian)
    ledger, data = guarded()
    node = pl.nodes.Correlated(pl.Gaussian(2.0), (1.0, 0.5, 0.375), 4, 1, 4)
    noise = np.random.default_rng(0).integers(-10**9, 10**9, size=(4, 3))
    with ledger.request(node, data) as session:
        script += noise.ravel().tolist()
        stream = data.correlated()
        rows = np.array([session.release(node, stream.step(data.histogram("colour")))
                         for _ in range(4)])
    sums = np.full((4, 1), 1.0) * [30, 30, 0]
    unit = STEP / 2**10
    assert np.array_equal(rows, matrix(node) @ sums + noise * unit)
    assert asked == [(asked[0][0], 3)] * 4
    assert 2.0 <= asked[0][0] * unit <= 2.0 * (1 + 1e-9)
    mixed = pl.nodes.step_sums(node, rows)
    assert np.allclose(mixed, sums + np.linalg.solve(matrix(node), noise * unit), atol=1e-9)


def test_sums_of_any_size_are_exact():
    """Beyond 64 bits: 2^53 steps, times coefficients of 2^20 steps, 12 of them."""
    from privledger.questions.noise_stream import Strand

    strand = Strand((), (2**20,) * 12, 1.0)
    for step in range(20):
        row = strand.row(np.full((1, 1), 2**53 - 1))
        assert int(row[0, 0]) == (2**53 - 1) * 2**20 * min(step + 1, 12)


def test_rows_follow_the_law():
    """4,096 coordinates: the noises of two rows lie in the 16 cells of two independent normals.

    False alarm 1e-8.
    """
    many = 4096
    schema = schema_of("one", {"x": (0.0, 1.0)})
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e6, 1e-6), filter="gdp")
    data = ledger.protect({"x": np.linspace(0.0, 1.0, 9)}, schema)
    node = pl.nodes.Correlated(pl.Gaussian(0.75), (1.0, 0.75), 2, 1, 2)
    cells = data.cells("x", np.linspace(0.0, 1.0, many - 1).tolist())
    truth = np.bincount(np.searchsorted(cells.edges, np.linspace(0, 1, 9), side="right"),
                        minlength=cells.count)
    with ledger.request(node, data) as session:
        stream = data.correlated()
        rows = [session.release(node, stream.step(data.query((pl.questions.Ones(),), cells)))
                for _ in range(2)]
    noises = [rows[0] - truth, rows[1] - 1.75 * truth]
    edges = stats.norm.ppf([0.25, 0.5, 0.75]) * 0.75
    place = np.searchsorted(edges, noises[0]) * 4 + np.searchsorted(edges, noises[1])
    assert stats.chisquare(np.bincount(place, minlength=16)).pvalue > 1e-8
    for noise in noises:
        assert stats.kstest(noise, stats.norm(scale=0.75).cdf).pvalue > 1e-8


# --- who takes part -----------------------------------------------------------------------------

@pytest.mark.parametrize("by", [4, (1, 1, 1, 1), "cells"])
def test_each_record_is_in_one_group_for_the_whole_run(by):
    ledger, data = guarded()
    by = data.cells("size", [0.25, 0.5]) if by == "cells" else by
    with ledger.request(NODE, data) as session:
        stream = data.correlated(by)
        rows = [session.release(NODE, stream.step(data.histogram("colour"))) for _ in range(12)]
    sums = np.rint(pl.nodes.step_sums(NODE, rows))
    assert sums[:4].sum() == N
    assert all(np.array_equal(sums[step], sums[step % 4]) for step in range(12))


def test_groups_and_samples_hold_in_chunks_of_workers_that_fail():
    ledger, data = protected(pl.Budget(1e12, 1e-6), X, Y, SCHEMA, engine=Mischief(2, chunk_rows=16))
    half = pl.nodes.Correlated(pl.PoissonSample(0.5, TINY), HELD, 4, 4, 1)
    with ledger.request(pl.Sequential([NODE, half]), data) as session:
        stream, other = data.correlated(4), data.correlated(data.cells("size", [0.25, 0.5]))
        rows = [session.release(NODE, stream.step(data.histogram("colour"))) for _ in range(12)]
        sampled = [session.release(half, other.step(data.count())) for _ in range(4)]
    sums = np.rint(pl.nodes.step_sums(NODE, rows))
    assert sums[:4].sum() == N
    assert all(np.array_equal(sums[step], sums[step % 4]) for step in range(12))
    assert 0 < np.rint(pl.nodes.step_sums(half, sampled)).sum() < N  # a chance of 2^-59
    assert ledger.verify() == []


def test_a_sampled_step_draws_afresh():
    ledger, data = guarded()
    node = pl.nodes.Correlated(pl.PoissonSample(0.5, TINY), (1.0, 0.5), 40, 2, 20)
    with ledger.request(node, data) as session:
        stream = data.correlated(2)
        rows = [session.release(node, stream.step(data.count())) for _ in range(40)]
        assert session.releases == 1
        kept = _granted(session)._inside.members._samples  # each of them was of use once
        assert len(kept) == 40 and set(kept.values()) == {None}
    sums = np.rint(pl.nodes.step_sums(node, rows))
    assert len(set(sums.tolist())) > 5  # all alike: below 1e-12
    assert 0 <= sums.min() <= sums.max() <= N
    # 1,200 coins of one half: false alarm 1e-8
    assert stats.binomtest(int(sums.sum()), 20 * N, 0.5).pvalue > 1e-8


def test_it_costs_what_covers_it():
    sampled = pl.nodes.Correlated(pl.PoissonSample(0.1, pl.Gaussian(2.0)), (0.75, 0.5), 101, 10, 50)
    same = pl.nodes.cyclic_poisson((0.75, 0.5), 2.0, rate=0.1, groups=10, steps=101)
    assert pl.epsilon(sampled, 1e-6) == pytest.approx(pl.epsilon(same, 1e-6), rel=1e-9)
    assert pl.epsilon(pl.nodes.Correlated(
        pl.PoissonSample(1.0, pl.Gaussian(2.0)), (0.75, 0.5), 100, 10, 10), 1e-6
        ) == pytest.approx(pl.epsilon(pl.nodes.Correlated(
            pl.Gaussian(2.0), (0.75, 0.5), 100, 10, 10), 1e-6), rel=1e-9)
    with pytest.raises(pl.errors.InvalidMechanism, match="separation"):
        pl.nodes.Correlated(pl.PoissonSample(0.1, TINY), (1.0, 0.5, 0.25), 10, 2, 5)


@pytest.mark.parametrize(("node", "groups"), [
    (pl.nodes.Correlated(pl.Gaussian(2.0), (1.0, 0.5, 0.375), 6, 1, 6), None),
    (pl.nodes.Correlated(pl.Gaussian(2.0), (1.0, -0.5, 0.375), 9, 3, 3), 3)])
def test_two_tables_reach_the_price(node, groups, monkeypatch):
    """A record that adds its clip in every step of its own moves the rows by all that was paid."""
    scales = []

    def gaussian(self, scale, size):
        scales.append(float(scale))
        return np.zeros(size, dtype=np.int64)

    monkeypatch.setattr(SystemSource, "gaussian", gaussian)
    rows = []
    for more in (0, 1):
        table = {name: column[:N - 1 + more] for name, column in X.items()}
        ledger, data = protected(pl.Budget(1e12, 1e-6), table, Y[:N - 1 + more], SCHEMA)
        last = [data.cells("size", [0.97])]
        with ledger.request(node, data) as session:
            stream = data.correlated(groups and pl.questions.MappedCells(last, [1, 0, 2], groups))
            rows.append([session.release(node, stream.step(data.count()))
                         for _ in range(node.steps)])
    moved = np.array(rows[1]) - np.array(rows[0])
    mu = np.sqrt(np.square(moved).sum()) / (scales[0] * STEP / 2**10)
    paid = pl.nodes.correlated_gaussian(
        matrix(node), 2.0, separation=node.separation, participations=node.participations)
    assert 0.999 / paid.noise_multiplier <= mu <= 1 / paid.noise_multiplier


@pytest.mark.parametrize("epsilon", [0.1, 0.5])
def test_a_sampled_block_reaches_its_price(epsilon):
    """Two rows by quadrature, to 1e-5: a record adds its clip if its coin says so."""
    rate, noise, held = 0.25, 1.0, (0.75, 0.5)
    node = pl.nodes.Correlated(pl.PoissonSample(rate, pl.Gaussian(noise)), held, 2, 2, 1)
    at = np.arange(-8, 8, 0.02)
    one, other = (stats.norm.pdf(at[:, None] if place == 0 else at[None, :]) for place in (0, 1))
    without = one * other
    moved = stats.norm.pdf(at[:, None], held[0] / noise) * stats.norm.pdf(
        at[None, :], held[1] / noise)
    mixed = (1 - rate) * without + rate * moved
    truth = max(np.maximum(0, p - np.exp(epsilon) * q).sum() * 0.02**2
                for p, q in ((mixed, without), (without, mixed)))
    assert truth * (1 - 1e-5) <= pl.delta(node, epsilon) <= truth * 1.01


def test_rows_of_two_groups_are_priced_one_after_the_other():
    node = pl.nodes.Correlated(pl.PoissonSample(0.1, pl.Gaussian(2.0)), (0.75, 0.5), 100, 10, 10)
    same = pl.nodes.cyclic_poisson((0.75, 0.5), 2.0, rate=0.1, groups=10, steps=100)
    for around, relation in ((pl.nodes.AsReplaceOne, "replace_one"),
                             (lambda one: pl.nodes.Group(2, one), "add_remove")):
        assert pl.epsilon(around(node), 1e-6, relation) == pytest.approx(
            pl.epsilon(around(same), 1e-6, relation, accountant="rdp"), rel=1e-9)


# --- once, in order, and as it was reserved -------------------------------------------------------

def test_a_run_costs_one_node_and_ends():
    ledger, data = guarded()
    with ledger.request(pl.Repeat(FULL, 2), data) as session:
        stream = data.correlated()
        for _ in range(4):
            session.release(FULL, stream.step(data.count()))
        opened = data._vault.opened
        with pytest.raises(pl.NotGranted, match="has ended"):
            session.release(FULL, stream.step(data.count()))
        session.release(FULL, data.correlated().step(data.count()))
        assert session.releases == 2
        with pytest.raises(pl.NotGranted, match="no such node left"):
            session.release(FULL, data.correlated().step(data.count()))
        assert data._vault.opened == opened + 1
    assert ledger.verify() == []
    assert ledger.spent == pytest.approx(pl.epsilon(pl.Repeat(FULL, 2), 1e-6), rel=1e-9)


def test_a_crash_keeps_the_whole_charge_and_ends_the_run(monkeypatch):
    ledger, data = guarded()
    whole = pl.epsilon(FULL, 1e-6)
    with ledger.request(FULL, data) as session:
        assert ledger.spent == pytest.approx(whole, rel=1e-9)  # before any row is read
        stream = data.correlated()
        session.release(FULL, stream.step(data.count()))

        def broken(self, chunk, state):
            raise ZeroDivisionError("4711")

        with monkeypatch.context() as patched:
            patched.setattr(Sum, "sketch", broken)
            refused(pl.errors.DataError, lambda: session.release(FULL, stream.step(data.count())))
        with pytest.raises(pl.NotGranted, match="has ended"):
            session.release(FULL, stream.step(data.count()))
    assert ledger.spent == pytest.approx(whole, rel=1e-9)
    assert ledger.verify() == []


def test_no_raw_sum_outlives_its_grant():
    ledger, data = guarded()
    with ledger.request(FULL, data) as session:
        session.release(FULL, data.correlated().step(data.count()))
        (run,) = _granted(session)._inside.runs.values()
        assert run.held.past[0].tolist() == [[N / STEP]]
    assert not _granted(session)._inside.runs


def test_every_step_has_one_clip_and_one_shape():
    ledger, data = guarded()
    with ledger.request(FULL, data) as session:
        stream = data.correlated()
        session.release(FULL, stream.step(data.count()))
        opened = data._vault.opened
        for other in (data.histogram("colour"), data.row_sum(["size"], clip=0.25)):
            with pytest.raises(pl.errors.UnsupportedNode, match="same clip and shape"):
                session.release(FULL, stream.step(other))
        refused(pl.NotGranted, lambda: session.release(pl.nodes.Correlated(TINY, (1.0, 0.5), 4, 1,
                4), stream.step(data.count())), match="mechanism and its handle")
        assert data._vault.opened == opened
        session.release(FULL, stream.step(data.sum("size")))  # another question of the same form


def refuses(node, ask, match, **options):
    ledger, data = guarded(**options)
    with ledger.request(node, data) as session:
        refused(pl.errors.PrivledgerError, lambda: session.release(node, ask(data)), match=match)
        assert data._vault.opened == 0
        assert session.releases == 0


@pytest.mark.parametrize(("node", "ask", "match"), [
    (NODE, lambda data: data.correlated().step(data.count()), "takes part more often"),
    (NODE, lambda data: data.correlated(3).step(data.count()), "takes part more often"),
    (pl.nodes.Correlated(TINY, HELD, 13, 4, 3), lambda data: data.correlated(4).step(
        data.count()), "takes part more often"),
    (pl.nodes.Correlated(TINY, (1.0, 0.1), 4, 1, 4), lambda data: data.correlated().step(
        data.count()), "dyadic"),
    (pl.nodes.Correlated(pl.Gaussian(9.0), (1025.0, 1.0), 4, 1, 4),
     lambda data: data.correlated().step(data.count()), "at most 1024"),
    (FULL, lambda data: data.count(), "no exact sampler for Correlated"),
    (TINY, lambda data: data.correlated().step(data.count()), "takes its Correlated node"),
    (FULL, lambda data: data.correlated().step(data.custom(len, 1.0, "said so")), "asserted"),
    (FULL, lambda data: data.correlated().step(data.poisson(0.5).count()), "on a sample"),
    (FULL, lambda data: data.correlated().step(data.random_allocation(3)[0].count()),
     "on a sample"),
    (FULL, lambda data: data.correlated().step(data.partition(2)[0].count()), "no such node left")])
def test_what_has_no_proof_is_refused_before_a_row_is_read(node, ask, match):
    refuses(node, ask, match)


class Quiet:
    """A stranger's noise."""

    noise_multiplier, shares = 1e-9, ()


class Equal(float):
    """A coefficient that says it equals any other."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return hash(1.0)


@pytest.mark.parametrize(("field", "value"), [
    ("coefficients", (Equal(2.0), 0.5, 0.375)), ("coefficients", (float("nan"), 0.5, 0.375)),
    ("coefficients", (1.0,)), ("node", Quiet()), ("node", pl.Gaussian(1e-9)), ("steps", True),
    ("steps", 5), ("participations", 0)])
def test_a_node_that_was_changed_behind_its_back_pays_for_nothing(field, value):
    changed = pl.nodes.Correlated(TINY, (1.0, 0.5, 0.375), 4, 1, 4)
    object.__setattr__(changed, field, value)
    ledger, data = guarded()
    with ledger.request(FULL, data) as session:
        with pytest.raises(pl.errors.PrivledgerError):
            session.release(changed, data.correlated().step(data.count()))
        assert data._vault.opened == 0


def test_two_blocks_and_other_relations_are_refused():
    _, data = guarded()
    refused(pl.errors.UnsupportedNode,
            lambda: data.correlated().step(data.query((pl.questions.Ones(), pl.questions.Ones()))),
            lambda: data.correlated().step(data.labels()), match="one block")
    around = pl.nodes.AsReplaceOne(FULL)
    ledger, data = guarded("replace_one")
    with ledger.request(around, data) as session, pytest.raises(
            pl.errors.UnsupportedNode, match="relation add_remove"):
        session.release(FULL, data.correlated().step(data.count()))


def test_a_filter_admits_no_run():
    ledger, data = guarded()
    node = pl.IndividualFilter("gdp", 1.0)
    with ledger.request(node, data) as session:
        behind = session.filtered(node)
        with pytest.raises(pl.errors.UnsupportedNode, match="behind a filter"):
            session.release(FULL, behind.correlated().step(behind.count()))


def test_parts_have_runs_of_their_own():
    ledger, data = guarded()
    with ledger.request(pl.Parallel([FULL] * 3), data) as session:
        parts = data.partition(data.cells("colour"))
        for part in (parts[0], parts[1]):
            stream = part.correlated()
            rows = [session.release(FULL, stream.step(part.count())) for _ in range(4)]
            assert np.rint(pl.nodes.step_sums(FULL, rows)).tolist() == [30.0] * 4
    assert ledger.verify() == []


def test_people_are_in_one_group_with_all_their_rows():
    ids = [str(place // 3) for place in range(N)]
    ledger, data = guarded(unit="person", people_key=b"k" * 32, people=ids)
    with ledger.request(NODE, data) as session:
        stream = data.correlated(4)
        rows = [session.release(NODE, stream.step(data.people())) for _ in range(12)]
        with pytest.raises(pl.errors.UnsupportedNode, match="groups by coins"):
            session.release(NODE, data.correlated(data.cells("size", [0.2, 0.4])).step(
                data.people()))
    sums = np.rint(pl.nodes.step_sums(NODE, rows))
    assert sums[:4].sum() == N // 3
    assert np.array_equal(sums[:4], sums[4:8])


@given(st.floats(0, 2**40), st.floats(1e-6, 1e6))
def test_the_largest_coefficient_makes_the_grid_no_coarser_than_its_noise(noise, clip):
    """What is cut off a sum is at most 2^-15 of the noise that undoing C leaves of it, or 2^-19 of
    a clip."""
    most = grid_for(clip, noise * clip)
    assert most <= max(2.0**-19 * clip, 2.0**-15 * noise * clip / GRID)


def test_cut_towards_zero():
    assert pl.nodes.dyadic([1.0, 0.33333, -0.33333, 1e-4]) == (1.0, 341 / 1024, -341 / 1024, 0.0)
    for wrong in ([float("nan")], ["1"], [True], 3):
        with pytest.raises(pl.errors.PrivledgerError):
            pl.nodes.dyadic(wrong)
