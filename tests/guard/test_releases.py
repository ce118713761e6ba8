"""Releases: exact sums, the right noise, secret samples; shapes that public facts fix."""

import math

import numpy as np
import pytest

import privledger as pl
from privledger.guard.handle import _granted
from tests.bodies import body_of
from tests.worlds import protected, refused, schema_of

TINY = pl.Gaussian(1e-5)
PER_MILLION = 4.9  # two-sided normal tail of 1e-6


@pytest.fixture
def rich(schema, table):
    """A ledger whose budget allows answers that are nearly exact."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e13, 1e-6), filter="gdp")
    return ledger, ledger.protect(*table, schema)


def ask(ledger, data, query, mechanism=TINY, **options):
    with ledger.request(mechanism, data) as session:
        return session.release(mechanism, query, **options)


def test_nearly_exact_answers(rich, table):
    ledger, data = rich
    X, y = table
    assert ask(ledger, data, data.count()) == pytest.approx(200, abs=1e-2)
    assert ask(ledger, data, data.sum("size")) == pytest.approx(np.sum(X["size"] * 2 - 1), abs=1e-2)
    assert ask(ledger, data, data.sum("weight")) == pytest.approx(
        np.nansum(X["weight"] / 5), abs=1e-2)
    assert ask(ledger, data, data.sum("target")) == pytest.approx(np.sum(y / 5 - 1), abs=1e-2)
    narrow = np.clip((X["size"] - 0.5) / 0.1, -1, 1).sum()
    assert ask(ledger, data, data.sum("size", lower=0.4, upper=0.6)) == pytest.approx(
        narrow, abs=1e-2)
    colours = [np.sum(X["colour"] == colour) for colour in ("red", "green", "blue")]
    assert ask(ledger, data, data.histogram("colour")) == pytest.approx([*colours, 0], abs=1e-2)
    expected = [np.sum(X["weight"] < 0), np.sum((X["weight"] >= 0) & (X["weight"] < 2)),
                np.sum(X["weight"] >= 2), np.sum(np.isnan(X["weight"]))]
    assert ask(ledger, data, data.histogram("weight", [0.0, 2.0])) == pytest.approx(
        expected, abs=1e-2)


def test_joint_answers_have_one_array_per_block(rich, table):
    ledger, data = rich
    X, _ = table
    mechanism = pl.Gaussian(1e-5, (0.5, 0.5))
    query = data.query((pl.questions.Ones(), pl.questions.ColumnValue("size", 0.5, 0.5)),
                       data.cells("colour"))
    counts, sums = ask(ledger, data, query, mechanism)
    assert counts.shape == sums.shape == (4,)
    for place, colour in enumerate(("red", "green", "blue")):
        here = X["colour"] == colour
        assert counts[place] == pytest.approx(here.sum(), abs=1e-2)
        assert sums[place] == pytest.approx((2 * X["size"][here] - 1).sum(), abs=1e-2)


def test_gradients_follow_the_score(rich, table):
    ledger, data = rich
    X, y = table
    score = data.score("squared", [0.2], center=5.0, scale=5.0)
    cells = pl.questions.IntervalCells("size", (0.5,))
    score.add(cells, np.array([0.1, -0.3, 0.0]))
    gradient = (y - 5) / 5 - (0.2 + np.where(X["size"] < 0.5, 0.1, -0.3))
    expected = [np.clip(gradient[X["size"] < 0.5], -0.6, 0.6).sum(),
                np.clip(gradient[X["size"] >= 0.5], -0.6, 0.6).sum(), 0]
    assert ask(ledger, data, data.query((score.gradient(0.6),), cells)) == pytest.approx(
        expected, abs=1e-2)
    assert ask(ledger, data, data.query((score.hessian(),))) == pytest.approx(200, abs=1e-2)


def test_parts_add_up_to_the_whole(rich):
    ledger, data = rich
    coins = data.partition(3)
    plan = pl.Sequential([pl.Parallel([TINY] * 3, "iid_per_record"), TINY, TINY])
    with ledger.request(plan, data) as session:
        each = [float(session.release(TINY, coins[part].count())) for part in range(3)]
        again = session.release(TINY, coins.counts())
        whole = session.release(TINY, data.count())
    assert sum(each) == pytest.approx(float(whole), abs=1e-1)
    assert each == pytest.approx(again.tolist(), abs=1e-1)
    assert min(each) > 200 / 3 - 6.7 * PER_MILLION - 1
    refused(IndexError, lambda: coins[3])


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("law", ["gaussian", "laplace"])
def test_noise_has_the_promised_size(schema, table, relation, law):
    """Variance over 20 000 coordinates; false alarm below 1e-6."""
    ledger, data = protected(pl.Budget(1e6, 1e-6), *table, schema, relation=relation, filter="gdp")
    edges = np.linspace(1e-4, 0.9999, 20_000)
    query = data.histogram("size", edges)
    spread = {"add_remove": 1.0, "replace_one": math.sqrt(2) if law == "gaussian" else 2.0}
    if law == "gaussian":
        mechanism = pl.Gaussian(7.0)
        expected, kurtosis = 7.0 * spread[relation], 3.0
    else:
        mechanism = pl.Laplace(9.0, l1_sensitivity=spread[relation])
        expected, kurtosis = 9.0 * math.sqrt(2), 6.0
    with ledger.request(mechanism, data) as session:
        answer = session.release(mechanism, query)
    counts = np.histogram(table[0]["size"], [-1, *edges, 2])[0]
    noise = answer[: len(edges) + 1] - counts
    wide = math.sqrt((kurtosis - 1) / len(noise))
    assert np.mean(noise**2) / expected**2 == pytest.approx(1, abs=PER_MILLION * wide * 1.2)
    assert abs(noise.mean()) < PER_MILLION * expected / math.sqrt(len(noise)) * 1.2


def test_shares_divide_the_noise(schema, table):
    ledger, data = protected(pl.Budget(1e6, 1e-6), *table, schema, filter="gdp")
    cells = pl.questions.IntervalCells("size", np.linspace(1e-4, 0.9999, 8_000))
    mechanism = pl.Gaussian(40.0, (0.2, 0.8))
    with ledger.request(mechanism, data) as session:
        counts, sums = session.release(mechanism, data.query(
            (pl.questions.Ones(), pl.questions.ColumnValue("size", 0.5, 0.5, clip=0.25)), cells))
    # Signals (at most 200 records in 8000 cells) vanish beside the noise.
    assert counts.std() == pytest.approx(40 / math.sqrt(0.2), rel=0.05)
    assert sums.std() == pytest.approx(0.25 * 40 / math.sqrt(0.8), rel=0.05)


def test_poisson_samples_are_fresh_secret_and_of_the_right_rate(schema):
    n, rate = 40_000, 0.3
    one = schema_of("one", {"x": (0.0, 1.0)})
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e13, 1e-6), filter="rdp", order=2.0)
    data = ledger.protect({"x": np.linspace(0, 1, n)}, one)
    noise = pl.Gaussian(0.5)
    first, second = data.poisson(rate), data.poisson(rate)
    twice = pl.PoissonSample(rate, pl.Repeat(noise, 2))
    with ledger.request(pl.Sequential([twice, pl.PoissonSample(rate, noise)]), data) as session:
        counts = [float(session.release(noise, first.count())),
                  float(session.release(noise, first.count())),
                  float(session.release(noise, second.count()))]
    deviation = math.sqrt(n * rate * (1 - rate))
    for found in counts:
        assert abs(found - n * rate) < PER_MILLION * deviation + 10
    assert abs(counts[0] - counts[1]) < 10  # one sample
    assert counts[0] != counts[2]


def test_a_sample_does_not_outlive_its_grant(schema):
    """A handle used under two grants is two samples: each grant paid for a fresh one."""
    n = 20_000
    one = schema_of("one", {"x": (0.0, 1.0)})
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e13, 1e-6), filter="rdp", order=2.0)
    data = ledger.protect({"x": np.linspace(0, 1, n)}, one)
    handle, noise, counts = data.poisson(0.5), pl.Gaussian(0.1), []
    for _ in range(6):
        with ledger.request(pl.PoissonSample(0.5, noise), data) as session:
            counts.append(round(float(session.release(noise, handle.count()))))
    # Equal counts have probability below 0.006 each; six of them below 1e-11.
    assert len(set(counts)) > 1


def test_under_a_filter_a_sample_serves_one_release(guarded):
    data = guarded[1]
    node = pl.IndividualFilter("renyi", 0.5, 4.0)
    outer = pl.IndividualFilter("renyi", 0.5, 4.0, pl.PoissonSample(0.1, pl.Repeat(
        pl.Gaussian(2.0), 2)))
    for plan in (node, outer):
        made = pl.Ledger.create(None, budget=pl.Budget(50, 1e-6), filter="rdp", order=4.0)
        here = made.protect({"size": [0.5], "weight": [0.0], "colour": ["red"]}, [1.0], data.schema)
        with made.request(plan, here) as session:
            sample = session.filtered(plan).poisson(0.1)
            session.release(pl.Gaussian(2.0), sample.count())
            with pytest.raises(pl.PrivledgerError):
                session.release(pl.Gaussian(2.0), sample.count())
            nested = session.filtered(plan).poisson(0.1)
            if plan is node:
                session.release(pl.Gaussian(2.0), nested.poisson(0.5).count())
                with pytest.raises(pl.PrivledgerError):
                    session.release(pl.Gaussian(2.0), nested.poisson(0.5).count())


def test_a_filter_has_the_reserved_caps(guarded):
    ledger, data = guarded
    for reserved, used in [
        (pl.IndividualFilter("gdp", 1e-4), pl.IndividualFilter("gdp", 1e9)),
        (pl.IndividualFilter("gdp", 1e-4), pl.IndividualFilter("gdp", 1.1e-4))]:
        with ledger.request(reserved, data) as session, pytest.raises(pl.NotGranted):
            session.release(pl.Gaussian(1e-3), session.filtered(used).count())
    assert data._vault.opened == 0


def test_a_filtered_handle_is_of_its_session(guarded):
    """A handle from one grant's filter must not be used under another grant."""
    ledger, data = guarded
    node = pl.IndividualFilter("gdp", 0.01)
    with ledger.request(node, data) as first:
        handle = first.filtered(node)
    with ledger.request(node, data) as second, pytest.raises(pl.NotGranted):
        second.release(pl.Gaussian(20.0), handle.count())


def test_an_unfiltered_release_is_not_covered_by_a_filter(guarded):
    ledger, data = guarded
    node = pl.IndividualFilter("gdp", 0.01)
    with ledger.request(node, data) as session, pytest.raises(pl.NotGranted):
        session.release(pl.Gaussian(20.0), data.count())


# Parallel parts must stay disjoint for as long as their node is used.

def test_parts_that_move_between_releases_are_not_parallel(rich):
    """Cells of a running score change with the score: one record would answer in both parts."""
    ledger, data = rich
    g = pl.Gaussian(0.05)
    score = data.score("squared", [0.0], center=5.0, scale=5.0)
    parts = data.partition(pl.questions.ResidualCells(score, (5.0,)))
    with ledger.request(pl.Parallel([g, g]), data) as session:
        try:
            here = float(session.release(g, parts[0].count()))
            score.add(pl.questions.IntervalCells("size", (0.5,)), np.full(3, 100.0))
            there = float(session.release(g, parts[1].count()))
        except pl.PrivledgerError:
            return
    # 200 records in all; noise of 0.05 moves a sum by 10 with probability below 1e-300.
    assert here + there < 210


def test_one_token_is_one_partition(rich):
    ledger, data = rich
    g = pl.Gaussian(0.05)
    low = pl.questions.IntervalCells("size", (-5.0,))
    high = pl.questions.IntervalCells("size", (5.0,))
    first = data.partition(low)
    with ledger.request(pl.Parallel([g, g, g]), data) as session:
        there = float(session.release(g, first[1].count()))
        try:
            forged = pl.Partition(data, high, first.token, first.certificate)
            here = float(session.release(g, forged[0].count()))
        except (pl.PrivledgerError, TypeError):
            return
    assert here + there < 210


def test_a_certificate_is_not_the_callers_choice(schema, table):
    """`index` parts cost half under replace-one; only the guard may call parts that."""
    ledger, data = protected(pl.Budget(1e6, 1e-6), *table, schema, relation="replace_one",
                             filter="gdp")
    g = pl.Gaussian(1.0)

    def forge():
        with ledger.request(pl.Parallel([g] * 3, "index"), data) as session:
            part = pl.Partition(data, pl.questions.IntervalCells("size", (0.5,)), "mine", "index")
            session.release(g, part[0].count())

    refused((pl.PrivledgerError, TypeError), forge)


# The shape of an answer, and whether there is one, must not depend on the records.

def outcome(work):
    try:
        return [np.shape(array) for array in np.atleast_1d(work())]
    except Exception as error:
        return type(error).__name__


SIZES = {"a": ["a", "a"], "b": ["a", "b"], "d": ["a", "d"]}


@pytest.mark.parametrize("ask_for", [
    lambda d: d.query((pl.questions.Ones(),), pl.questions.CategoryCells("c", 2)),
    lambda d: d.query((pl.questions.Ones(),), pl.questions.CategoryCells("", 2)),
    lambda d: d.query((pl.questions.ColumnValue("x", 0.5, 0.5),),
                      pl.questions.CategoryCells("c", 2)),
    lambda d: d.query((pl.questions.Ones(),), pl.questions.CategoryCells("c", 9)),
    lambda d: d.query((d.score("softmax", [0.0, 0.0]).gradient(1.0),)),
    lambda d: d.query((d.score("softmax", [0.0, 0.0]).hessian(),)),
    lambda d: d.query((d.score("squared", [0.0, 0.0]).gradient(1.0),)),
    lambda d: d.query((d.score("logistic", [0.0, 0.0]).gradient(1.0),)),
    lambda d: d.query((pl.questions.Ones(),), pl.questions.IntervalCells("c", (0.5,))),
    lambda d: d.query((pl.questions.ColumnValue("c", 0.0, 1.0),)),
    lambda d: d.query((pl.questions.Ones(),), _tree(("x", "c"), ("numeric", "categorical"))),
    lambda d: d.query((pl.questions.Ones(),), _tree(("c", "x"), ("numeric", "categorical"))),
    lambda d: d.query((pl.questions.Ones(),),
                      _tree(("x", "c"), ("numeric", "categorical"), ("a", "b"))),
], ids=["categories", "target", "sums", "many", "softmax", "softmax-hessian", "squared",
        "logistic", "interval-of-words", "number-of-words", "tree", "tree-swapped", "tree-fewer"])
def test_the_outcome_does_not_tell_what_is_in_the_table(make_ledger, ask_for):
    """An exception or a shape that some records cause is a release without noise."""
    ledger = make_ledger()
    schema = schema_of("t", {"x": (0.0, 1.0), "c": ["a", "b", "d"]}, y=["a", "b", "d"])
    g = pl.Gaussian(20.0)
    found = set()
    for words in (["a", "a"], ["a", "b"], ["a", "d"], ["d", "d"], ["a", "b", "d"], ["a"]):
        data = ledger.protect({"x": np.full(len(words), 0.5), "c": words}, words, schema)

        def work(data=data):
            with ledger.request(g, data) as session:
                return session.release(g, ask_for(data))

        found.add(str(outcome(work)))
    assert len(found) == 1


def _tree(names, kinds, categories=("a", "b", "d")):
    """A tree over bins of a schema that somebody made up for the same table."""
    columns = [pl.Column(name, kind, "feature", 0.0, 1.0) if kind == "numeric" else
               pl.Column(name, kind, "feature", categories=categories)
               for name, kind in zip(names, kinds, strict=True)]
    bins = pl.questions.Bins(pl.Schema("made up", columns), 2)
    tests = [pl.questions.Test(place, np.zeros(size, dtype=np.uint8))
             for place, size in enumerate(bins.sizes())]
    return pl.questions.TreeCells(bins, tests, 2)


def test_selected_columns_can_be_asked_and_binned(rich, table):
    ledger, data = rich
    some = data.select(["size"])
    bins = some.bins(2)
    tree = pl.questions.TreeCells(bins, [pl.questions.Test(0, np.array([0, 1, 0], dtype=np.uint8))],
                                  2)
    with ledger.request(pl.Repeat(TINY, 2), data) as session:
        assert session.release(TINY, some.query((pl.questions.Ones(),), tree)) == pytest.approx(
            [np.sum(table[0]["size"] < 0.5), np.sum(table[0]["size"] >= 0.5)], abs=1e-2)
        assert session.release(TINY, some.count()) == pytest.approx(200, abs=1e-2)


def test_scores_may_follow_a_private_coin(guarded):
    """Each part of a coin partition may keep its own running score."""
    ledger, data = guarded
    coins = data.partition(2)
    score = data.score("squared", [0.0], center=5.0, scale=5.0)
    score.add(coins.cells, np.array([0.5, -0.5]))
    g = pl.Gaussian(20.0)
    with ledger.request(g, data) as session:
        assert np.isfinite(session.release(g, data.query((score.gradient(1.0),))))


@pytest.mark.parametrize("mechanism", [pl.Laplace(1.0), pl.Gaussian(1.0, (0.5, 0.5)),
                                       pl.SparseVector(1.0, 2.0), pl.Exponential(1.0)])
def test_a_release_that_cannot_be_made_charges_nothing(make_ledger, schema, table, mechanism):
    ledger = make_ledger()
    data = ledger.protect(*table, schema)
    query = data.sum("size") if not isinstance(mechanism, pl.Laplace) else data.query(
        (pl.questions.Ones(), pl.questions.Ones()))
    with pytest.raises(pl.errors.UnsupportedNode), ledger.request(mechanism, data) as session:
        session.release(mechanism, query)
    assert ledger.spent == 0 and data._vault.opened == 0


def test_releases_are_itemised(guarded):
    ledger, data = guarded
    g, h = pl.Gaussian(20.0), pl.Gaussian(30.0)
    seen = []
    ledger.on_release = seen.append
    with ledger.request(pl.Sequential([pl.Repeat(g, 3), pl.PoissonSample(0.5, h)]), data,
                        learner="me") as session:
        for _ in range(3):
            session.release(g, data.histogram("colour"))
        session.release(h, data.poisson(0.5).count())
        assert session.releases == 4 and "4 releases" in repr(session)
    (body,) = [body_of(e) for e in ledger._history.store.read() if e.event.kind == "released"]
    assert seen == [1, 2, 3, 4] and len(body["items"]) == 4
    assert body["questions"] == ["histogram of colour", "count"]
    assert [item[2] for item in body["items"]] == [4, 4, 4, 1]
    assert body_of(next(iter(ledger.state.grants.values())))["learner"] == "me"
    assert ledger.verify() == []


def test_many_releases_are_itemised_in_chunks(guarded):
    ledger, data = guarded
    g = pl.Gaussian(2000.0)
    with ledger.request(pl.Repeat(g, 4100), data) as session:
        session.release(g, session.data.count())
        for _ in range(4099):
            _granted(session)._inside.charge(g, (), "count", 1)
    assert [len(body_of(e)["items"]) for e in ledger._history.store.read()
            if e.event.kind == "released"] == [2000, 2000, 100]
    assert ledger.verify() == []


def test_a_mechanism_that_says_it_equals_another_is_refused(guarded):
    """Equality is asked of the stranger first: only exact types may be compared."""
    ledger, data = guarded
    reserved = pl.Gaussian(20.0)

    class Loud(pl.Gaussian):
        def __eq__(self, other):
            return True

        def __hash__(self):
            return hash(reserved)

    with ledger.request(reserved, data) as session:
        try:
            answer = session.release(Loud(1e-5), data.count())
        except (pl.PrivledgerError, TypeError):
            return
    assert abs(answer - 200) > 1e-3
