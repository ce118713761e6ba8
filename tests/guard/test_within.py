"""A member of a grant's plan for somebody else: what may be drawn on it, and what it costs."""

import subprocess
import sys

import numpy as np
import pytest
from attrs import evolve
from click.testing import CliRunner
from privledger_learners import JointTreeRegressor

import privledger as pl
from privledger.cli import main
from tests.all_cases import all_cases
from tests.alone import VERIFIER
from tests.bodies import body_of
from tests.worlds import protected, refused, schema_of, together

SCHEMA = schema_of("one", {"x": (0.0, 1.0)}, y=(0.0, 1.0))
ONE, TWO = pl.Laplace(2.0, 1.0), pl.Laplace(3.0, 1.0)
NODE = pl.Parallel([pl.Repeat(ONE, 2), TWO], certificate="iid_per_record")
ROWS = {"x": np.linspace(0, 1, 50)}
Y = np.linspace(0, 1, 50)


def opened(node=NODE, path=None, **options):
    ledger, data = protected(pl.Budget(5.0, 1e-6), ROWS, Y, SCHEMA, place=path, **options)
    return ledger, data, ledger.request(node, data)


def ask(data, plan, times):
    with data.ledger.request(plan, data) as session:
        return [session.release(ONE, data.count()) for _ in range(times)]


def test_a_fit_on_a_part_draws_on_the_grant_and_costs_nothing_beside_it(tmp_path):
    learner = JointTreeRegressor(epsilon=1.0, schema=SCHEMA)
    node = pl.Parallel([learner.plan(SCHEMA), pl.Laplace(1.0, 1.0)], certificate="iid_per_record")
    place = tmp_path / "one.ledger"
    with pl.Ledger.create(place, budget=pl.Budget(1.0)) as ledger:
        data = ledger.protect(ROWS, Y, SCHEMA)
        with ledger.request(node, data, learner="scored") as session:
            parts = data.partition((4, 1))
            inner = session.within(node, parts[0])
            assert inner.chain == parts[0].chain
            assert inner.ledger.relation == "add_remove" and inner.ledger.left == 0
            model = learner.fit(inner)
            score = session.release(pl.Laplace(1.0, 1.0), parts[1].count())
        assert model.receipt_ is None and np.isfinite(score)
        assert ledger.spent == pytest.approx(1.0) and ledger.verify() == []
        granted = [one for one in ledger._history.store.read() if one.event.kind == "granted"]
        assert len(granted) == 1
        (line,) = [body_of(one) for one in ledger._history.store.read()
                   if one.event.kind == "released"]
        assert all(one["under"][0]["kind"] == "part" for one in line["nodes"])
    assert CliRunner().invoke(main, ["verify", str(place)]).exit_code == 0
    kept = tmp_path / "t.jsonl"
    assert CliRunner().invoke(main, ["export", str(place), "-o", str(kept)]).exit_code == 0
    found = subprocess.run([sys.executable, str(VERIFIER), str(kept)], capture_output=True,
                           text=True, timeout=120, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_each_unit_is_drawn_once():
    ledger, data, session = opened()
    with session:
        inner = session.within(NODE, data.partition(2)[0])
        assert len(ask(inner, ONE, 1)) == 1
        with pytest.raises(pl.NotGranted, match="used already"):
            inner.ledger.request(pl.Repeat(ONE, 2), inner)
        with inner.ledger.request(ONE, inner) as one, inner.ledger.request(ONE, inner) as other:
            one.release(ONE, inner.count())
            with pytest.raises(pl.NotGranted):  # both were opened: the plan has one of it
                other.release(ONE, inner.count())
    assert session.releases == 2 and ledger.verify() == []


@all_cases("plan", [
    TWO, pl.Repeat(ONE, 3), pl.Laplace(1.0, 1.0), pl.Gaussian(10.0), NODE,
    pl.Sequential([ONE, TWO]), pl.PoissonSample(0.5, pl.Gaussian(1.0)),
    pl.nodes.OneOf([ONE, pl.Laplace(1.0, 1.0)])])
def test_another_plan_than_the_members_is_refused_unread(plan):
    ledger, data, session = opened()
    with session:
        inner = session.within(NODE, data.partition(2)[0])
        refused(pl.NotGranted, lambda: inner.ledger.request(plan, inner), match="Nothing was read")
        with inner.ledger.request(ONE, inner) as own, pytest.raises(pl.NotGranted):
            own.release(TWO, inner.count())
        assert session.releases == 0
        ask(inner, pl.Repeat(ONE, 2), 2)
    assert ledger.verify() == []


def test_one_of_several_members_serves():
    node = pl.Parallel([pl.nodes.OneOf([pl.Repeat(ONE, 2), TWO]), ONE], "iid_per_record")
    ledger, data, session = opened(node)
    with session:
        inner = session.within(node, data.partition(2)[0])
        for plan in (pl.Sequential([ONE, TWO]), pl.Repeat(ONE, 3)):
            with pytest.raises(pl.NotGranted):
                inner.ledger.request(plan, inner)
        assert len(ask(inner, pl.Repeat(ONE, 2), 2)) == 2
        refused(pl.NotGranted, lambda: inner.ledger.request(TWO, inner))
    assert ledger.verify() == []


def test_only_its_own_part_is_answered():
    ledger, data, session = opened(pl.Sequential([NODE, ONE]))
    with session:
        parts, others = data.partition(2), data.partition(2)
        inner = session.within(NODE, parts[0])
        with inner.ledger.request(ONE, inner) as own:
            for handle in (data, parts[1], others[0], inner.partition(2)[0], inner.poisson(0.5)):
                with pytest.raises(pl.NotGranted):
                    own.release(ONE, handle.count())
        assert session.releases == 0
        assert session.release(ONE, data.count()) is not None  # the grant's own is still there
    assert ledger.verify() == []


def test_no_part_of_anything_else():
    ledger, data, session = opened()
    stranger = ledger.protect(ROWS, Y, SCHEMA)
    with session:
        parts = data.partition(2)
        for wrong in (parts, None, stranger, stranger.partition(2)[0], parts[0].poisson(0.5),
                      data.poisson(0.5), parts[0].partition(2)[1]):
            with pytest.raises(pl.InvalidValue):
                session.within(NODE, wrong)
        for wrong in (ONE, None, "node", pl.Sequential([NODE])):
            with pytest.raises(pl.InvalidValue):
                session.within(wrong, parts[0])
        public = data.partition(data.cells("x", [0.5]))
        for node, part in ((NODE, public[0]), (NODE, data.partition(3)[0]),
                           (evolve(NODE, nodes=[ONE, TWO]), parts[0]),
                           (evolve(NODE, certificate="public_predicate"), parts[0])):
            with pytest.raises(pl.NotGranted, match="Nothing was read"):
                session.within(node, part)
        session.within(NODE, parts[0])
        session.within(NODE, parts[1])
        with pytest.raises(pl.NotGranted):  # the node has its partition
            session.within(NODE, data.partition(2)[0])
    assert session.releases == 0 and ledger.spent == 0


def test_handles_do_not_lead_out_of_the_part():
    ledger, data, session = opened()
    with session:
        inner = session.within(NODE, data.partition(2)[0])
        own = inner.ledger.request(pl.Repeat(ONE, 2), inner)
        assert own.plan == pl.Repeat(ONE, 2) and own.data is inner and own.active
        assert own.grant == session.grant and own.covers == session.covers
        refused(pl.InvalidValue, lambda: inner.ledger.request(ONE, data),
                lambda: inner.ledger.request(ONE, inner.poisson(0.5)),
                lambda: ledger.request(ONE, inner))
        refused(pl.NotGranted, lambda: own.filtered(), lambda: own.within(NODE, inner),
                lambda: own.best_of(pl.nodes.Tuning(ONE, success=0.5), 1, ask),
                lambda: own.close(back=True))
        own.close()
        assert session.active and session.receipt is None
        own.release(ONE, inner.count())
    refused(pl.NotGranted, lambda: own.release(ONE, inner.count()),
            lambda: inner.ledger.request(ONE, inner), lambda: session.within(NODE,
            data.partition(2)[0]))
    assert ledger.verify() == []


@pytest.mark.parametrize("member", [
    pl.nodes.Tuning(ONE, success=0.5), pl.IndividualFilter("gdp", 0.1), pl.Asserted(1.0, "why")])
def test_members_without_a_proof_are_refused(member):
    node = pl.Parallel([member, ONE], certificate="iid_per_record")
    _, data, session = opened(node, filter="basic")
    with session, pytest.raises(pl.errors.UnsupportedNode, match="othing was read"):
        session.within(node, data.partition(2)[0])


def test_a_part_of_people_is_of_whole_people():
    people = np.repeat(np.arange(10), 5)
    ledger, data = protected(pl.Budget(5.0, 1e-6), ROWS, Y, SCHEMA, unit="person",
                             people_key=b"k" * 32, mode="simulation", seed=3, people=people)
    leaf = pl.Laplace(0.2, 1.0)
    node = pl.Parallel([leaf] * 2, certificate="iid_per_record")
    with ledger.request(node, data) as session:
        parts = data.partition(2)
        found = []
        for part in (parts[0], parts[1]):
            inner = session.within(node, part)
            with inner.ledger.request(leaf, inner) as own:
                found.append(float(own.release(leaf, inner.people())))
    assert sum(found) == pytest.approx(10, abs=8)  # two of scale .2: 8 off with p below 1e-15
    assert ledger.verify() == []


def test_under_replace_one_it_is_not_free():
    one = pl.epsilon(NODE, 0.0)
    assert one == pytest.approx(max(2 / 2.0, 1 / 3.0))
    ledger, data, session = opened(relation="replace_one", filter="basic")
    with session:
        ask(session.within(NODE, data.partition(2)[0]), pl.Repeat(ONE, 2), 2)
    # A record that is replaced may change its part, and pays in both.
    assert ledger.spent >= 2 / 2.0 + 1 / 3.0
    assert ledger.verify() == []


def test_threads_share_the_grants_lock():
    ledger, data, session = opened(pl.Parallel([pl.Repeat(ONE, 8), TWO], "iid_per_record"))
    node = session.plan
    drawn = []
    with session:
        inner = session.within(node, data.partition(2)[0])

        def draw():
            with inner.ledger.request(ONE, inner) as own:
                while True:
                    try:
                        own.release(ONE, inner.count())
                    except pl.NotGranted:
                        return
                    drawn.append(1)

        together(4, draw)
    assert len(drawn) == session.releases == 8
    assert ledger.verify() == []


def test_a_member_of_a_sequence_is_for_all_records():
    plan = pl.Sequential([pl.Repeat(ONE, 2), TWO])
    ledger, data, session = opened(plan)
    with session:
        inner = session.within(pl.Repeat(ONE, 2), data)
        assert inner.steps == () and len(ask(inner, ONE, 1)) == 1
        refused(pl.NotGranted, lambda: session.within(pl.Repeat(ONE, 2), data))
        for wrong in (pl.Laplace(1.0, 1.0), NODE):
            with pytest.raises(pl.NotGranted):
                session.within(wrong, data)
        refused(ValueError, lambda: session.within("node", data))
        refused(pl.InvalidValue, lambda: session.within(ONE, data.partition(2)[0]))
        other = session.within(TWO, data)
        with other.ledger.request(TWO, other) as own:
            own.release(TWO, other.count())
        refused(pl.NotGranted, lambda: other.ledger.request(TWO, other))
    assert session.releases == 2 and ledger.verify() == []
