"""Whole releases under unit person: coins, samples, filters, refusals, and counts of people."""

import numpy as np
import pytest

import privledger as pl
from privledger.questions.cells import CoinCells
from tests.properties.test_sensitivity import CLASSES, SCHEMA
from tests.voices.tables import PERSON, People
from tests.worlds import refused

Q = pl.questions
LOUD = 1e-6  # noise that rounds away


def guarded(make_ledger, people, classes=False, seed=2, **options):
    """(ledger, handle) on rows of `people`, x = 1 in all."""
    n = len(people)
    ledger = make_ledger(epsilon=1e15, mode="simulation", seed=seed, **PERSON, **options)
    X = {"x": np.ones(n), "c": np.array(["a", "b", "d"], dtype=object)[np.arange(n) % 3]}
    y = np.arange(n) % 3 if classes else np.full(n, 5.0)
    return ledger, ledger.protect(X, y, CLASSES if classes else SCHEMA, people=people,
                                  public_features=ledger.relation == "replace_label")


PEOPLE = np.repeat(np.arange(400), np.arange(400) % 7 + 1)


def asked(ledger, data, plan, ask):
    with ledger.request(plan, data, delta=1e-7) as session:
        return ask(session)


def test_a_count_is_of_people(make_ledger):
    ledger, data = guarded(make_ledger, PEOPLE)
    noise = pl.Gaussian(LOUD)
    found = asked(ledger, data, pl.Repeat(noise, 3), lambda s: [
        s.release(noise, data.count()), s.release(noise, data.people()),
        s.release(noise, data.rows_per_person([2, 4]))])
    assert found[0] == pytest.approx(400, abs=1e-2)
    assert found[1] == pytest.approx(400, abs=1e-2)
    rows = np.bincount(PEOPLE)
    expected = [(rows < 2).sum(), ((rows >= 2) & (rows < 4)).sum(), (rows >= 4).sum()]
    assert found[2] == pytest.approx(expected, abs=1e-2)


def test_where_rows_are_protected_nobody_counts_people(make_ledger, guarded_rows):
    ledger, data = guarded_rows
    refused(pl.errors.UnsupportedNode, lambda: data.people(),
            lambda: asked(ledger, data, pl.Gaussian(1.0),
            lambda s: s.release(pl.Gaussian(1.0), data.rows_per_person([2]))), match="rows")


@pytest.fixture
def guarded_rows(make_ledger):
    ledger = make_ledger()
    return ledger, ledger.protect({"x": np.ones(5), "c": np.array(["a"] * 5, dtype=object)},
                                  np.full(5, 5.0), SCHEMA)


def test_everybody_is_wholly_in_a_sample_or_out_of_it(make_ledger):
    """A count of a sample is a whole number of people; rows sampled one by one would shrink it."""
    ledger, data = guarded(make_ledger, PEOPLE)
    noise = pl.Gaussian(LOUD)
    sample = data.poisson(0.5)
    plan = pl.PoissonSample(0.5, pl.Repeat(noise, 2))
    count, rows = asked(ledger, data, plan, lambda s: [
        s.release(noise, sample.count()), s.release(noise, sample.rows_per_person([2, 4]))])
    assert count == pytest.approx(round(float(count)), abs=1e-2)
    assert rows.sum() == pytest.approx(float(count), abs=1e-2)
    assert 150 < count < 250  # outside by chance: 2e-7


def test_everybody_is_wholly_in_one_part_by_coins(make_ledger):
    ledger, data = guarded(make_ledger, PEOPLE)
    noise = pl.Gaussian(LOUD)
    parts = data.partition(4)
    counts = asked(ledger, data, noise, lambda s: s.release(noise, parts.counts()))
    assert counts == pytest.approx(np.round(counts), abs=1e-2)
    assert counts.sum() == pytest.approx(400, abs=1e-1)


def test_coins_of_a_person_agree_in_every_table_that_is_cut_from_it(make_ledger):
    from privledger.noise.seeded import SeededSource

    rows = People.drawn(np.random.default_rng(0), False, 9).rows(SeededSource(1))
    coins = CoinCells(5)
    whole = coins.index(rows)
    for who in range(rows.n_people):
        assert len(set(whole[rows.people == who])) == 1
    part = rows.subset(np.flatnonzero(np.arange(rows.n) % 2))
    assert coins.index(part).tolist() == whole[np.arange(rows.n) % 2 == 1].tolist()


def test_parts_see_shares_of_those_whom_they_divide(make_ledger):
    """By a predicate: the counts of all parts add up to the number of people."""
    ledger, data = guarded(make_ledger, PEOPLE)
    noise = pl.Gaussian(LOUD)
    parts = data.partition(data.cells("c"))
    plan = pl.Parallel([noise] * len(parts))
    counts = asked(ledger, data, plan, lambda s: [
        s.release(noise, parts[place].count()) for place in range(len(parts))])
    assert sum(counts) == pytest.approx(400, abs=0.1)


@pytest.mark.parametrize(("plan", "word"), [
    (pl.Parallel([pl.PoissonSample(0.1, pl.Gaussian(1.0))] * 4), "PoissonSample"),
    (pl.Parallel([pl.nodes.AsReplaceOne(pl.Gaussian(1.0))] * 4), "AsReplaceOne"),
    (pl.Repeat(pl.Parallel([pl.Sequential([pl.Gaussian(1.0),
                                          pl.nodes.Group(2, pl.Gaussian(3.0))])] * 4), 2), "Group"),
    (pl.PoissonSample(0.5, pl.Parallel([pl.IndividualFilter("gdp", 1.0)] * 4)), "Individual"),
], ids=["sample", "as replace one", "group", "filter"])
def test_parts_that_may_divide_people_hold_only_what_is_proved(make_ledger, plan, word):
    ledger, data = guarded(make_ledger, PEOPLE)
    before = data._vault.opened
    with pytest.raises(pl.errors.PrivledgerError, match=f"{word}|price|inside"):
        ledger.request(plan, data, delta=1e-7)
    assert data._vault.opened == before


def test_parts_in_a_sample_hold_and_so_do_samples_of_parts_by_coins(make_ledger):
    noise = pl.Gaussian(1.0)
    for plan in (pl.PoissonSample(0.1, pl.Parallel([noise] * 4)),
                 pl.Parallel([pl.PoissonSample(0.1, noise)] * 4, "iid_per_record"),
                 pl.Parallel([pl.PoissonSample(0.1, noise), pl.graph.Public("not asked")])):
        ledger, data = guarded(make_ledger, PEOPLE)
        ledger.request(plan, data, delta=1e-7).close()


def test_parts_of_other_noise_than_gaussian_are_priced_where_costs_add_up(make_ledger):
    pure = pl.Parallel([pl.Laplace(1e-3), pl.Exponential(800.0)])
    mixed = pl.Parallel([pl.Laplace(1.0), pl.Gaussian(1.0)])
    sampled = pl.PoissonSample(0.1, pl.Parallel([pl.Laplace(1.0)] * 2))
    for plan, kind, budget, fits in ((pure, "basic", 2000.0, True), (pure, "basic", 500.0, False),
                                     (mixed, "basic", 50.0, False), (mixed, "gdp", 50.0, True),
                                     (mixed, "rdp", 50.0, True), (mixed, "zcdp", 50.0, True),
                                     (sampled, "rdp", 50.0, False)):
        ledger = pl.Ledger.create(None, budget=pl.Budget(budget, 1e-6), filter=kind, **PERSON)
        data = ledger.protect({"x": np.ones(3), "c": np.array(["a"] * 3, dtype=object)},
                              np.full(3, 5.0), SCHEMA, people=np.array([1, 1, 2]))
        if fits:
            ledger.request(plan, data).close()
            continue
        with pytest.raises(pl.errors.UnsupportedNode, match="split one person"):
            ledger.request(plan, data)


@pytest.mark.parametrize("ask", [
    lambda part, tree: part.choose(tree, "gini", among="both",
                                   labels=Q.CategoryCells("", 3)),
    lambda part, tree: part.features_by(Q.Votes(1, 1, 2.0)),
    lambda part, tree: part.features_by(Q.CustomScores(lambda X, y: np.zeros(2), 1.0, "none")),
], ids=["gini", "votes", "custom"])
def test_what_does_not_shrink_with_a_share_is_refused_on_parts(make_ledger, ask):
    ledger, data = guarded(make_ledger, PEOPLE[:60], classes=True)
    mechanism = pl.Exponential(1.0)
    tree = data.root(data.bins(8))
    parts, coins = data.partition(data.cells("c")), data.partition(2)
    plan = pl.Sequential([pl.Parallel([mechanism] * 4), mechanism,
                          pl.Parallel([mechanism] * 2, "iid_per_record")])
    with ledger.request(plan, data) as session:
        with pytest.raises(pl.errors.UnsupportedNode, match="split one person"):
            session.release(mechanism, ask(parts[0], tree))
        session.release(mechanism, ask(data, tree))
        session.release(mechanism, ask(coins[0], tree))


def test_single_labels_of_people_with_several_are_refused(make_ledger):
    mechanism = pl.RandomizedResponse(0.5, 3)
    for people, most in ((np.array([0, 0, 1, 2, 2, 2]), 3), (np.arange(6), 1)):
        ledger, data = guarded(make_ledger, people, classes=True, relation="replace_label")
        with ledger.request(pl.nodes.LabelOnly(mechanism), data) as session:
            if most == 1:
                assert len(session.release(mechanism, data.labels())) == 6
                continue
            with pytest.raises(pl.errors.UnsupportedNode, match="m answers cost m times"):
                session.release(mechanism, data.labels())
            assert data._vault.opened == 0


def test_parts_that_labels_decide_are_refused_where_labels_are_protected(make_ledger):
    ledger, data = guarded(make_ledger, PEOPLE, classes=True, relation="replace_label")
    noise = pl.Gaussian(1.0)
    parts = data.partition(data.cells("y"))
    plan = pl.nodes.LabelOnly(pl.Parallel([noise] * 3))
    session = ledger.request(plan, data, delta=1e-7)
    with session, pytest.raises(pl.errors.UnsupportedNode, match="parts by label"):
        session.release(noise, parts[0].count())


def test_positions_are_of_people_where_rows_are_not_public(make_ledger):
    ledger, data = guarded(make_ledger, PEOPLE, relation="replace_one")
    noise = pl.Gaussian(LOUD)
    with pytest.raises(pl.errors.InvalidValue, match="people"):
        data.partition(Q.IndexCells(np.zeros(len(PEOPLE), dtype=int), 2))
    parts = data.partition(Q.IndexCells(np.arange(400) % 2, 2))
    counts = asked(ledger, data, noise, lambda s: s.release(noise, parts.counts()))
    assert counts == pytest.approx([200, 200], abs=1e-2)


def test_a_kind_of_question_that_says_nothing_of_people_is_refused(make_ledger, monkeypatch):
    ledger, data = guarded(make_ledger, PEOPLE)
    noise = pl.Gaussian(1.0)
    monkeypatch.setattr(Q.Query, "by_person", False)
    with ledger.request(noise, data, delta=1e-7) as session:
        with pytest.raises(pl.errors.UnsupportedNode, match="what one row may change"):
            session.release(noise, data.count())
        assert data._vault.opened == 0


def filtered_fit(make_ledger, held, rollover=0, rate=1.0):
    """What each of three rounds left, per person, and the answers: noise is seeded."""
    table = People(False, held)
    X, y, people = table.columns()
    ledger = make_ledger(mode="simulation", seed=3, filter="rdp" if rate < 1 else "gdp",
                         **PERSON, **({"order": 8.0} if rate < 1 else {}))
    noise = pl.Gaussian(1.0, (0.25, 0.75))
    node = (pl.IndividualFilter("renyi", 2.0, 8.0, pl.Repeat(
        pl.PoissonSample(rate, noise), 4)) if rate < 1 else
        pl.IndividualFilter("gdp", 1.5, 0.0, pl.Repeat(noise, 4)))
    data = ledger.protect(X, y, SCHEMA, people=people)
    with ledger.request(node, data) as session:
        inside = session.filtered(node)
        for _ in range(4):
            handle = inside.poisson(rate) if rate < 1 else inside
            blocks = (Q.Ones(), Q.ColumnValue("x", 0.5, 2.5))
            session.release(noise, handle.query(blocks, data.cells("x", [0.0, 1.0])),
                            rollover=rollover)
        spends = _spend_of(session)
    return spends


def _spend_of(session):
    from privledger.guard.handle import _granted

    (_, spend), = _granted(session)._inside.spends._taken.values()
    return spend.spent.copy(), spend.rounds.copy()


@pytest.mark.parametrize("rollover", [0, 2])
def test_nobody_passes_the_cap_and_nobody_else_notices(make_ledger, rollover):
    rng = np.random.default_rng(8)
    for _ in range(4):
        table = People.drawn(rng, False, 9)
        if not table.held:
            continue
        more = People(False, [*table.held, table.neighbour(rng, "replace_one").held[0]])
        one, rounds = filtered_fit(make_ledger, table.held, rollover)
        two, more_rounds = filtered_fit(make_ledger, more.held, rollover)
        assert (two <= 1 << 52).all()
        np.testing.assert_array_equal(two[:len(one)], one)
        np.testing.assert_array_equal(more_rounds[:len(one)], rounds)


def test_a_filter_with_samples_charges_people(make_ledger):
    rng = np.random.default_rng(9)
    table = People(False, [one for _ in range(8) for one in People.drawn(rng, False, 3).held])
    spent, rounds = filtered_fit(make_ledger, table.held, rate=0.3)
    assert len(spent) == len(table.held)
    assert (spent <= 1 << 52).all()
    assert set(rounds.tolist()) > {0, 4}  # a long vector fits never, a short one always


@pytest.mark.parametrize(("rollover", "tables"), [
    (0, 3), (2, 3), pytest.param(0, 2000, marks=pytest.mark.slow),
    pytest.param(2, 2000, marks=pytest.mark.slow)])
def test_what_people_really_send_stays_below_the_cap(make_ledger, monkeypatch, rollover, tables):
    """Whole grid steps over the noise that is added: the truth, which the account must cover."""
    sent = []
    told = Q.Query.told

    def heard(self, said, state):
        cost = np.zeros(1000)
        for array, recipe in zip(said.values, state.recipes, strict=True):
            np.add.at(cost, said.who, (np.trunc(array / recipe.grid) / recipe.noise) ** 2)
        sent.append(cost)
        return told(self, said, state)

    monkeypatch.setattr(Q.Query, "told", heard)
    rng = np.random.default_rng(rollover)
    most = 0.0
    for _ in range(tables):
        sent.clear()
        table = People(False, [one for _ in range(4) for one in People.drawn(rng, False, 5).held])
        if not table.held:
            continue
        filtered_fit(make_ledger, table.held, rollover)
        most = max(most, float(sum(sent).max()))
    assert 0.5 < most <= 1.5
