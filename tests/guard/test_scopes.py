"""Individual filters: per-record spends that span rounds, fits and learners."""

import contextlib
import platform
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger.events import Holder
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.vectors import pack, unpack
from tests.worlds import protected, refused, schema_of

ONE = schema_of("one", {"x": (-1.0, 1.0)})
NOISE = pl.Gaussian(10.0)
GONE = Holder(platform.node(), 2**22 + 1, "a process that is gone")
EACH = 1 / 10.0**2  # mu squared of a record of full norm, per release


@pytest.fixture
def open_ledger():
    def make(**options):
        return pl.Ledger.create(None, budget=pl.Budget(20.0, 1e-6), **({"filter": "gdp"} | options))

    return make


def vector(ledger, session):
    """(units taken, rounds) that a settled session left behind."""
    note = ledger.state.grants[session.grant].end.vector
    return unpack(ledger._history.store.vector(note.name))


def test_records_leave_before_their_cap(open_ledger):
    """A record pays its own square: full ones leave after four rounds, halves after sixteen."""
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0, -1.0, 0.5, 0.0]}, ONE)
    node = pl.IndividualFilter("gdp", 4 * EACH * (1 + 1e-9))
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        for _ in range(20):
            session.release(NOISE, handle.sum("x"))
    taken, rounds = vector(ledger, session)
    assert rounds.tolist() == [4, 4, 16, 20]
    assert (taken <= RECORD_UNITS).all() and taken[3] == 0
    assert ledger.record(2).total == pytest.approx(4 * EACH, rel=1e-6)
    assert ledger.record(3).total == 0
    assert ledger.verify() == []


def test_a_record_that_left_no_longer_answers(open_ledger):
    ledger, data = protected(pl.Budget(1e13, 1e-6), {"x": [1.0, -1.0, 0.25]}, ONE, filter="gdp")
    tiny = pl.Gaussian(1e-3)
    node = pl.IndividualFilter("gdp", 2e6 * (1 + 1e-9))
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        answers = [float(session.release(tiny, handle.sum("x"))) for _ in range(3)]
        counts = [float(session.release(tiny, handle.count())) for _ in range(2)]
    assert answers == pytest.approx([0.25, 0.25, 0.25], abs=0.02)
    assert counts == pytest.approx([1.0, 0.0], abs=0.02)  # only the third can still pay, once


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=6), st.floats(0.01, 0.2),
       st.integers(1, 30), st.sampled_from(["gdp", "renyi"]))
def test_no_record_ever_passes_its_cap(values, cap, rounds, kind):
    ledger, data = protected(pl.Budget(50.0, 1e-6), {"x": values}, ONE,
                             filter="gdp" if kind == "gdp" else "rdp",
                             order=None if kind == "gdp" else 8.0)
    node = pl.IndividualFilter(kind, cap, 0.0 if kind == "gdp" else 8.0)
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        for number in range(rounds):
            if kind == "renyi" and number % 2:
                session.release(NOISE, handle.poisson(0.3).sum("x"))
            else:
                session.release(NOISE, handle.sum("x"))
    taken, _ = vector(ledger, session)
    assert (taken <= RECORD_UNITS).all() and (taken >= 0).all()
    factor = 1.0 if kind == "gdp" else 4.0
    whole = (rounds + 1) // 2 if kind == "renyi" else rounds
    for record, value in enumerate(values):
        # Whatever a record took part in costs at least its unsampled rounds, and at most cap.
        full = value**2 * EACH * factor
        if full * rounds <= cap * (1 - 1e-6):
            assert taken[record] / RECORD_UNITS * cap >= full * whole * (1 - 1e-6)
    assert ledger.verify() == []


@pytest.mark.parametrize("rate", [0.01, 0.3])
def test_a_sampled_round_costs_its_amplified_price(open_ledger, rate):
    ledger = open_ledger(filter="rdp", order=6.0)
    data = ledger.protect({"x": [1.0, 0.5, 0.05, 0.0]}, ONE)
    node = pl.IndividualFilter("renyi", 0.5, 6.0)
    with ledger.request(node, data) as session:
        session.release(NOISE, session.filtered(node).poisson(rate).sum("x"))
    taken, rounds = vector(ledger, session)
    spent = taken / RECORD_UNITS * 0.5
    for record, value in enumerate((1.0, 0.5, 0.05)):
        exact = pl.rdp(pl.PoissonSample(rate, pl.Gaussian(10.0 / value)), [6.0])[0]
        assert exact <= spent[record] <= exact * 1.1
    assert spent[3] == 0 and rounds.tolist() == [1, 1, 1, 1]


def test_under_a_filter_a_sample_serves_one_release(open_ledger):
    """Its price is that of a fresh draw: a second look at the same draw is refused, uncharged."""
    ledger = open_ledger(filter="rdp", order=6.0)
    data = ledger.protect({"x": np.ones(50)}, ONE)
    node = pl.IndividualFilter("renyi", 0.5, 6.0)
    with ledger.request(node, data) as session:
        once = session.filtered(node).poisson(0.5)
        session.release(NOISE, once.sum("x"))
        with pytest.raises(pl.NotGranted, match="serves one release"):
            session.release(NOISE, once.count())
        session.release(NOISE, session.filtered(node).poisson(0.5).sum("x"))
    assert set(vector(ledger, session)[1].tolist()) == {2}


def test_membership_is_drawn_after_the_filter(open_ledger):
    """Every record that can pay is charged, in the sample or not: the charge tells nothing."""
    ledger = open_ledger(filter="rdp", order=6.0)
    data = ledger.protect({"x": np.ones(500)}, ONE)
    node = pl.IndividualFilter("renyi", 0.5, 6.0)
    with ledger.request(node, data) as session:
        session.release(NOISE, session.filtered(node).poisson(0.1).sum("x"))
    taken, rounds = vector(ledger, session)
    assert len(set(taken.tolist())) == 1 and set(rounds.tolist()) == {1}


def test_a_gaussian_filter_takes_no_samples_and_no_laplace(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    node = pl.IndividualFilter("gdp", 1.0)
    with ledger.request(node, data) as session:
        for mechanism, query in ((NOISE, session.filtered(node).poisson(0.5).count()),
                                 (pl.Laplace(9.0), session.filtered(node).count())):
            with pytest.raises(pl.errors.UnsupportedNode):
                session.release(mechanism, query)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5), st.floats(0.001, 1.0),
       st.integers(1, 12), st.sampled_from(["gdp", "renyi"]), st.booleans())
def test_rollover_never_ejects_and_never_passes_the_cap(values, cap, rounds, kind, joint):
    ledger, data = protected(pl.Budget(500.0, 1e-6), {"x": values}, ONE,
                             filter="gdp" if kind == "gdp" else "rdp",
                             order=None if kind == "gdp" else 8.0)
    node = pl.IndividualFilter(kind, cap, 0.0 if kind == "gdp" else 8.0)
    noise = pl.Gaussian(1.0, (0.5, 0.5)) if joint else pl.Gaussian(1.0)
    blocks = (pl.questions.Ones(), pl.questions.ColumnValue("x", 0.0, 1.0)) if joint else (
        pl.questions.ColumnValue("x", 0.0, 1.0),)
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        for left in range(rounds, 0, -1):
            session.release(noise, handle.query(blocks), rollover=left)
    taken, counted = vector(ledger, session)
    assert (counted == rounds).all()
    assert (taken <= RECORD_UNITS).all()


def test_rollover_uses_up_what_is_left(open_ledger):
    ledger, data = protected(pl.Budget(1e13, 1e-6), {"x": [1.0, 0.01]}, ONE, filter="gdp")
    tiny = pl.Gaussian(1e-3)
    node = pl.IndividualFilter("gdp", 1e6)
    with ledger.request(node, data) as session:
        handle = session.filtered(node)
        answers = [float(session.release(tiny, handle.sum("x"), rollover=left))
                   for left in (4, 3, 2, 1)]
    # 1e6 over four rounds: a full record is scaled to sqrt(1/4); a small one is left alone.
    assert answers == pytest.approx([0.51] * 4, abs=0.01)
    taken, _ = vector(ledger, session)
    assert taken[0] == pytest.approx(RECORD_UNITS, rel=1e-9)


# Scopes of a ledger.

def described(cap, times):
    return pl.IndividualFilter("gdp", cap, node=pl.Repeat(NOISE, times))


def test_a_scope_spans_sessions_and_learners(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0, 0.5]}, ONE)
    cap = 4 * EACH * (1 + 1e-9)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", cap), name="shared")
    paid, grants = ledger.spent, []
    for learner in ("first", "second", "third"):
        with ledger.request(described(cap, 3), data, scope=scope, learner=learner) as session:
            for _ in range(3):
                session.release(NOISE, session.filtered().sum("x"))
        grants.append(session)
    assert ledger.spent == paid  # drawing on a scope costs the ledger nothing more
    rounds = [vector(ledger, session)[1].tolist() for session in grants]
    assert rounds == [[3, 3], [1, 3], [0, 3]]
    lines = ledger.record(0).lines
    assert [line.learner for line in lines] == ["first", "second", "third"]
    assert ledger.record(0).total == pytest.approx(4 * EACH, rel=1e-9)
    assert ledger.record(0).total <= cap
    assert ledger.record(1).total == pytest.approx(9 * EACH / 4, rel=1e-9)
    assert ledger.verify() == []


def test_opening_a_scope_again_costs_nothing_and_other_caps_are_refused(open_ledger):
    ledger = open_ledger()
    node = pl.IndividualFilter("gdp", 0.1)
    first = ledger.open_scope(node, name="s")
    spent = ledger.spent
    assert ledger.open_scope(node, name="s") == first and ledger.spent == spent
    refused(pl.InvalidValue, lambda: ledger.open_scope(pl.IndividualFilter("gdp", 0.2), name="s"))
    ledger.open_scope(node)
    assert ledger.spent > spent
    refused(pl.BudgetExceeded, lambda: ledger.open_scope(pl.IndividualFilter("gdp", 1e9)))
    for wrong in (NOISE, described(0.1, 2), None):
        with pytest.raises(pl.InvalidValue):
            ledger.open_scope(wrong)


def test_an_open_grant_in_a_scope_counts_in_full(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    cap = 4 * EACH * (1 + 1e-9)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", cap), name="s")
    with mock.patch("privledger.guard.service.this_process", return_value=GONE):
        ledger.request(described(cap, 3), data, scope=scope)
    with ledger.request(described(cap, 3), data, scope=scope) as session:
        for _ in range(3):
            session.release(NOISE, session.filtered().sum("x"))
    assert vector(ledger, session)[1].tolist() == [1]
    line = ledger.record(0).lines[0]
    assert line.basis == "unfinished, worst case" and line.share == pytest.approx(0.75, rel=1e-6)


def test_a_grant_without_described_inside_counts_as_the_whole_cap(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    node = pl.IndividualFilter("gdp", 4 * EACH)
    scope = ledger.open_scope(node, name="s")
    late = ledger.request(node, data, scope=scope, lease=1.0)
    with (mock.patch("privledger.ledger.history.now", return_value="2199-01-01T00:00:00+00:00"),
          pytest.raises(pl.NotGranted, match="used up")):
        ledger.request(node, data, scope=scope)
    late.close()  # it was alive after all, and read nothing
    with ledger.request(node, data, scope=scope) as session:
        session.release(NOISE, session.filtered().sum("x"))
    assert vector(ledger, session)[1].tolist() == [1]


def test_a_grant_that_touched_nothing_and_failed_gives_its_share_back(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    cap = 2 * EACH * (1 + 1e-9)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", cap), name="s")
    with pytest.raises(KeyError), ledger.request(described(cap, 2), data, scope=scope):
        raise KeyError
    with ledger.request(described(cap, 2), data, scope=scope) as session:
        for _ in range(2):
            session.release(NOISE, session.filtered().sum("x"))
    assert vector(ledger, session)[1].tolist() == [2]


def test_a_scope_is_bound_to_one_data_set(open_ledger):
    ledger = open_ledger()
    first, second = (ledger.protect({"x": [1.0]}, ONE) for _ in range(2))
    node = pl.IndividualFilter("gdp", 0.1)
    scope = ledger.open_scope(node)
    ledger.request(node, first, scope=scope).close()
    with pytest.raises(pl.NotGranted, match="another data set"):
        ledger.request(node, second, scope=scope)
    assert second._vault.opened == 0


def test_a_scope_that_nobody_paid_for(open_ledger):
    ledger, other = open_ledger(), open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    node = pl.IndividualFilter("gdp", 0.1)
    for scope in (pl.Scope("invented", node), other.open_scope(node, name="elsewhere")):
        with pytest.raises(pl.NotGranted, match="never paid"):
            ledger.request(node, data, scope=scope)
    assert ledger.spent == 0


def test_a_scope_cannot_be_widened(open_ledger):
    """`Scope` is a public record: what counts is what was paid for, not what the record says."""
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    ledger.open_scope(pl.IndividualFilter("gdp", 1e-4), name="s")
    wide = pl.IndividualFilter("gdp", 1e9)
    with pytest.raises((pl.PrivledgerError, TypeError)):
        ledger.request(wide, data, scope=pl.Scope("s", wide))
    assert ledger.verify() == []


@pytest.mark.parametrize("plan", [NOISE, pl.IndividualFilter("gdp", 0.2),
                                  pl.IndividualFilter("renyi", 0.1, 4.0),
                                  pl.Sequential([pl.IndividualFilter("gdp", 0.1)])])
def test_a_plan_in_a_scope_is_the_scopes_filter(open_ledger, plan):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0]}, ONE)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.1))
    refused(pl.InvalidValue, lambda: ledger.request(plan, data, scope=scope))


def test_late_arrivals_get_a_whole_cap(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0, 1.0]}, ONE, name="people")
    cap = 2 * EACH * (1 + 1e-9)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", cap), name="s")
    with ledger.request(described(cap, 2), data, scope=scope) as session:
        for _ in range(2):
            session.release(NOISE, session.filtered().sum("x"))
    grown = ledger.append(data, {"x": [1.0]})
    assert grown.identity == data.identity and data._vault is not grown._vault
    with ledger.request(described(cap, 2), grown, scope=scope) as session:
        for _ in range(2):
            session.release(NOISE, session.filtered().sum("x"))
    assert vector(ledger, session)[1].tolist() == [0, 0, 2]
    assert [line.rounds for line in ledger.record(2).lines] == [0, 2]
    assert ledger.record(2).total == pytest.approx(2 * EACH, rel=1e-9)
    assert ledger.record(0).total == pytest.approx(2 * EACH, rel=1e-9)
    assert ledger.verify() == []


def test_an_arrival_fits_the_table_it_joins(open_ledger, make_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0, 1.0]}, ONE)
    for bad in ({"x": []}, {"x": [np.nan]}, {"z": [1.0]}):
        with pytest.raises(pl.errors.DataError):
            ledger.append(data, bad)
    refused(pl.InvalidValue, lambda: ledger.append(data.poisson(0.5), {"x": [1.0]}))


def test_an_arrival_has_a_target_exactly_if_the_others_have_one(make_ledger, schema, table):
    ledger = make_ledger()
    X, y = table
    data = ledger.protect(X, y, schema)
    with pytest.raises(pl.errors.DataError):
        ledger.append(data, {name: column[:2] for name, column in X.items()})


def test_record_sums_its_lines(open_ledger):
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0, 0.5]}, ONE, name="people")
    node = pl.IndividualFilter("gdp", 0.5)
    with ledger.request(NOISE, data, learner="plain") as session:
        session.release(NOISE, data.count())
    with ledger.request(pl.Sequential([node, NOISE]), data, learner="filtered") as session:
        for _ in range(3):
            session.release(NOISE, session.filtered(node).sum("x"))
    with pytest.raises(ZeroDivisionError), ledger.request(NOISE, data, learner="failed"):
        raise ZeroDivisionError
    found = ledger.record(1)
    assert [line.learner for line in found.lines] == ["plain", "filtered"]
    assert [line.basis for line in found.lines] == ["whole plan", "individual"]
    assert found.lines[0].amount == pytest.approx(EACH, rel=1e-9)
    assert found.lines[1].amount == pytest.approx(EACH + 3 * EACH / 4, rel=1e-9)
    assert found.lines[1].rounds == 3
    assert found.total == pytest.approx(sum(line.amount for line in found.lines))
    assert all(0 <= line.share <= 1 for line in found.lines)
    for row, data_name in ((99, None), (0, "unknown")):
        with pytest.raises(pl.errors.DataError):
            ledger.record(row, data_name)


def test_record_before_any_grant(open_ledger):
    refused(pl.errors.DataError, lambda: open_ledger().record(0))


def test_a_filter_for_replace_one_is_refused(open_ledger):
    ledger = open_ledger(relation="replace_one")
    refused(pl.errors.RelationMismatch, lambda: ledger.open_scope(pl.IndividualFilter("gdp", 0.1)))


def test_a_record_pays_for_its_own_part_only(open_ledger):
    """Outside the part a record contributes nothing, so the round costs it nothing."""
    ledger = open_ledger()
    data = ledger.protect({"x": [-1.0, -1.0, 1.0]}, ONE)
    inside = pl.Parallel([NOISE] * 3)
    node = pl.IndividualFilter("gdp", 5 * EACH, node=inside)
    with ledger.request(node, data) as session:
        parts = session.filtered(node).partition(pl.questions.IntervalCells("x", (0.0,)))
        session.release(NOISE, parts[0].sum("x"))
        session.release(NOISE, parts[1].sum("x"))
    taken, _ = vector(ledger, session)
    assert (taken / RECORD_UNITS * 5) == pytest.approx([1.0, 1.0, 1.0], rel=1e-6)


def test_two_live_grants_on_parts_never_look_overspent(open_ledger):
    """A holder whose lease was over counts by its plan's worst case; if it is alive after all,
    what it charges later must stay within that."""
    ledger = open_ledger()
    data = ledger.protect({"x": [-1.0, 1.0]}, ONE)
    cap = 2 * EACH * (1 + 1e-9)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", cap))
    parts_plan = pl.IndividualFilter("gdp", cap, node=pl.Parallel([NOISE] * 3))
    first = ledger.request(parts_plan, data, scope=scope, lease=1.0)
    parts = first.filtered().partition(pl.questions.IntervalCells("x", (0.0,)))
    first.release(NOISE, parts[0].sum("x"))
    with mock.patch("privledger.ledger.history.now", return_value="2199-01-01T00:00:00+00:00"):
        second = ledger.request(described(cap, 1), data, scope=scope)
    with second:
        second.release(NOISE, second.filtered().sum("x"))
    first.release(NOISE, parts[1].sum("x"))
    first.close()
    assert ledger.verify() == []
    assert all(ledger.record(row).total <= cap for row in range(2))


def test_a_name_stands_for_one_table(open_ledger):
    """Rows are told apart by position: in another order people are charged in each other's place.

    The person with x = 1 is in row 0 of the first table and in row 1 of the second.
    """
    ledger = open_ledger()
    node = pl.IndividualFilter("gdp", 1.01 * EACH)
    scope = ledger.open_scope(node)

    def use(values):
        data = ledger.protect({"x": values}, ONE, name="people")
        with ledger.request(node, data, scope=scope) as session:
            session.release(NOISE, session.filtered().sum("x"))
        return vector(ledger, session)[1].tolist()

    assert use([1.0, 0.0]) == [1, 1]
    assert use([1.0, 0.0]) == [0, 1]  # the same rows come back: nothing is left for the first
    refused(pl.PrivledgerError, lambda: use([0.0, 1.0]))


@pytest.mark.parametrize("made_up", [-RECORD_UNITS, -1, 2**63 - 1])
def test_nobody_gives_back_what_other_grants_took(open_ledger, made_up):
    """Whoever may settle a grant of its own can store any vector. `verify` names one that no
    filter makes; the next grant, which looks before anybody verifies, takes nothing back for it."""
    ledger = open_ledger()
    data = ledger.protect({"x": [1.0, -1.0]}, ONE, name="t")
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 4 * EACH * (1 + 1e-9)))
    for number in range(3):
        one = pl.IndividualFilter("gdp", scope.node.cap, node=NOISE) if number == 1 else scope.node
        forged = mock.patch("privledger.guard.spends.pack", lambda taken, rounds: pack(
            np.full_like(taken, made_up), rounds)) if number == 1 else contextlib.nullcontext()
        with forged, ledger.request(one, data, scope=scope) as session:
            handle = session.filtered()
            for _ in range(1 if number == 1 else 4):
                session.release(NOISE, handle.sum("x"))
    assert vector(ledger, session)[1].tolist() == [0, 0]  # the first took all there was
    assert [one.rule for one in ledger.verify()] == ["vectors-match"]
