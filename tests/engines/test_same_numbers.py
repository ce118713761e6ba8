"""In chunks and from memory: the same whole numbers before noise, whatever the engine does.

Every learner is fitted twice from equal coins and equal noise, once from memory and once in chunks
by an engine that loses, doubles, delays and repeats. What `finish` is handed is compared, array by
array, and so is what every record paid.
"""

import itertools

import attrs
import numpy as np
import privledger_learners as learners
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.guard.vault import _vault_of
from privledger.noise.seeded import SeededSource
from privledger.noise.source import KeyedCoins
from privledger.questions.closed_set import QUESTIONS
from privledger.questions.tallies import Tabled, Tally
from privledger.tables.stored_chunk import StoredChunk
from tests.engines.mischief import Mischief

ROWS, SECRET = 240, bytes(range(32))
SMALL = {"delta": 1e-6, "n_trees": 4, "random_state": 0}
LEARNERS = {
    "sgbdt": learners.SGBDTRegressor(**SMALL), "sgbdt-classes": learners.SGBDTClassifier(**SMALL),
    "sgbdt-sampled": learners.SGBDTClassifier(sampling_rate=0.4, **SMALL),
    "sgbdt-gdp": learners.SGBDTRegressor(individual_filter="gdp", extra_rounds=4, **SMALL),
    "sgbdt-renyi": learners.SGBDTClassifier(individual_filter="renyi", extra_rounds=4,
                                   sampling_rate=0.5, **SMALL),
    "sgbdt-rollover": learners.SGBDTRegressor(individual_filter="gdp", extra_rounds=4,
                                              rollover=True,
                                     **SMALL),
    "joint": learners.JointTreeClassifier(max_depth=4),
    "joint-number": learners.JointTreeRegressor(max_depth=4),
    "boost": learners.DPBoostClassifier(n_trees=3, random_state=0),
    "boost-number": learners.DPBoostRegressor(n_trees=3, random_state=0),
    "diprime": learners.DiPriMeForestClassifier(n_trees=2, random_state=0),
    "diprime-flip": learners.DiPriMeForestClassifier(variant="flip", n_trees=2, random_state=0),
    "mrf": learners.MultinomialForestClassifier(n_trees=2, random_state=0),
    "spe": learners.PrivateEnsembleClassifier(setting="spe", n_trees=2, random_state=0),
    "sspe1": learners.PrivateEnsembleClassifier(setting="sspe1", n_trees=2, random_state=0),
    "sspe2": learners.PrivateEnsembleClassifier(setting="sspe2", n_trees=2, random_state=0),
    "pte": learners.PrivateEnsembleClassifier(setting="pte", n_trees=2, random_state=0),
    "labels": learners.LabelPrivateClassifier(n_trees=2, random_state=0),
    "sis": learners.DPSIS(k=1), "sis-two": learners.DPSISTwoStage(k=2)}
FEATURES = (
    pl.Column("a", "numeric", "feature", 0.0, 1.0),
    pl.Column("b", "numeric", "feature", 0.0, 1.0, missing=True),
    pl.Column("c", "categorical", "feature", categories=("u", "v", "w")))
NUMBER = pl.Schema("t", (*FEATURES, pl.Column("t", "numeric", "target", 0.0, 1.0)))
CLASSES = pl.Schema("t", (*FEATURES, pl.Column("t", "categorical", "target",
                                               categories=("no", "yes"))))


def table(learner):
    rng = np.random.default_rng(3)
    X = {"a": rng.random(ROWS), "b": np.where(rng.random(ROWS) < 0.1, np.nan, rng.random(ROWS)),
         "c": np.array(["u", "v", "w"])[rng.integers(0, 3, ROWS)]}
    value = np.clip(X["a"] + 0.2 * rng.random(ROWS) - 0.1, 0, 1)
    if learner.info.tasks == ("regression",):
        return X, value, NUMBER
    y = np.where(value > 0.5, "yes", "no").astype(object)
    if getattr(learner, "unlabelled", False):
        y[::5] = None
    return X, y, CLASSES


def kind_of(what):
    """Coins of one kind are one stream in both runs."""
    return "sample" if isinstance(what, tuple) else type(what).__name__


class Whole:
    """`Keep` of a table in memory whose coins are those of its chunks, one after another."""

    def __init__(self, sizes):
        self.sizes = sizes

    def coins(self, what):
        return Joined([KeyedCoins(SECRET, kind_of(what), number)
                       for number in range(len(self.sizes))], self.sizes)

    def fixed(self, what, make):
        return make()

    def matrix(self, bins, make):
        return make()

    def scores(self, score):
        return None

    def keep_scores(self, score, applied, array):
        pass

    cells = scores

    def keep_cells(self, what, array):
        pass


class Joined:
    def __init__(self, parts, sizes):
        self.parts, self.sizes = parts, sizes

    def integers64(self, size):
        assert size == sum(self.sizes)
        return np.concatenate([part.integers64(n) for part, n in zip(
            self.parts, self.sizes, strict=True)])

    def bernoulli(self, rate, size):
        assert size == sum(self.sizes)
        return np.concatenate([part.bernoulli(rate, n) for part, n in zip(
            self.parts, self.sizes, strict=True)])


def plain(sketch):
    """A sketch as nested lists of arrays, whatever form its counts are kept in."""
    if isinstance(sketch, Tally | Tabled):
        sketch = sketch.listed()
    if attrs.has(type(sketch)):
        return [plain(getattr(sketch, one.name)) for one in attrs.fields(type(sketch)) if one.init]
    if isinstance(sketch, tuple | list):
        return [plain(one) for one in sketch]
    return sketch


def same(one, other):
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same, one, other))
    return np.array_equal(one, other)


@pytest.fixture
def heard(monkeypatch):
    """What every `finish` is handed, in order."""
    found = []
    for kind in QUESTIONS:
        def finish(self, merged, noise, real=kind.finish):
            found.append(plain(merged))
            return real(self, merged, noise)

        monkeypatch.setattr(kind, "finish", finish)
    monkeypatch.setattr(StoredChunk, "coins", lambda stored, what: KeyedCoins(
        SECRET, kind_of(what), stored.chunk))
    return found


names = itertools.count()


def fitted(learner, tmp_path, heard, engine, sizes=None):
    """Sketches, what records paid, and predictions."""
    X, y, schema = table(learner)
    relation = getattr(learner, "relation", learner.info.relations[0])
    if type(learner) is learners.LabelPrivateClassifier:
        relation = "replace_label"
    heard.clear()
    with pl.Ledger.create(tmp_path / f"{next(names)}.db", budget=pl.Budget(50.0, 1e-5),
                          relation=relation) as ledger:
        data = ledger.protect(X, y, schema, engine=engine, name="t",
                              public_features=relation == "replace_label",
                              unlabelled=bool(getattr(learner, "unlabelled", False)))
        if sizes is not None:
            _vault_of(data._vault)._Vault__rows.keep = Whole(sizes)
        ledger._source = SeededSource(5)
        model = type(learner)(**learner.get_params()).fit(data)
        paid = [(line.amount, line.rounds) for row in (0, 7, ROWS - 1)
                for line in ledger.record(row).lines]
        assert ledger.verify() == []
    said = model.predict(X) if hasattr(model, "predict") else model.get_support()
    return list(heard), paid, said


def sizes_of(chunk):
    return [min(chunk, ROWS - start) for start in range(0, ROWS, chunk)]


def check(name, chunk, seed, tmp_path, heard):
    engine = Mischief(seed, chunk_rows=chunk)
    ours = fitted(LEARNERS[name], tmp_path, heard, engine)
    theirs = fitted(LEARNERS[name], tmp_path, heard, None, sizes_of(chunk))
    assert len(ours[0]) == len(theirs[0]) > 0
    assert all(map(same, ours[0], theirs[0]))
    assert ours[1] == theirs[1]
    assert np.array_equal(ours[2], theirs[2])


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_handed_the_same_numbers(name, tmp_path, heard):
    check(name, 64, 11, tmp_path, heard)


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("seed", range(8))
def test_whatever_the_chunks_and_the_mischief(name, seed, tmp_path, heard):
    check(name, int(np.random.default_rng(seed).integers(1, ROWS + 1)), seed, tmp_path, heard)


def a_twice(columns):
    return 2 * columns["a"] - 1


def asked(tmp_path, heard, engine, sizes=None):
    """Questions that no learner asks, or not in this way, in one session."""
    X, y, schema = table(LEARNERS["sgbdt"])
    heard.clear()
    noise, q = pl.Gaussian(3.0), pl.questions
    places = np.random.default_rng(1).integers(0, 3, ROWS)
    with pl.Ledger.create(tmp_path / f"{next(names)}.db", budget=pl.Budget(50.0, 1e-5),
                          relation="replace_one") as ledger:
        data = ledger.protect(X, y, schema, engine=engine)
        if sizes is not None:
            _vault_of(data._vault)._Vault__rows.keep = Whole(sizes)
        ledger._source = SeededSource(5)
        score = data.score("squared", [0.5])
        parts = data.partition(q.ResidualCells(score, [0.1, 0.3]))
        index, coins = data.partition(q.IndexCells(places, 3)), data.partition(3)
        asks = [data.query((q.Ones(),), q.IndexCells(places, 3)), parts[1].count(),
                data.query((q.Ones(), q.ColumnValue("a", 0.5, 0.5)), q.CrossCells(
                    q.IntervalCells("b", [0.2, 0.7]), q.CategoryCells("c", 4))),
                data.custom(a_twice, 1.0, "a column"), coins[2].sum("b"),
                index[1].partition(q.CategoryCells("c", 4))[2].count(),
                parts[1].count(), parts[2].sum("a"), coins[0].histogram("c")]
        both = pl.Gaussian(3.0, shares=(0.5, 0.5))
        noises = [noise if len(ask.blocks) == 1 else both for ask in asks]
        free, inner = pl.nodes.Public("not asked"), pl.Parallel
        plan = pl.Sequential([
            noise, both, noise, inner([free, pl.Repeat(noise, 2), noise]),
            inner([noise, free, noise], "iid_per_record"),
            inner([free, inner([free, free, noise, free]), free], "index")])
        with ledger.request(plan, data) as session:
            for place, (ask, node) in enumerate(zip(asks, noises, strict=True)):
                session.release(node, ask)
                if place == 2:  # a record does not change its part with the score
                    score.add(q.CategoryCells("c", 4), np.array([0.3, -0.4, 0.2, 0.0]))
    return list(heard)


@pytest.mark.parametrize(("chunk", "seed"), [(64, 1), (7, 2), (ROWS, 3)])
def test_other_questions_are_handed_the_same_numbers(chunk, seed, tmp_path, heard):
    ours = asked(tmp_path, heard, Mischief(seed, chunk_rows=chunk))
    theirs = asked(tmp_path, heard, None, sizes_of(chunk))
    assert len(ours) == len(theirs) == 9
    assert all(map(same, ours, theirs))
    assert same(ours[1], ours[6])  # the part stayed what it was


def test_a_sampled_plan_has_the_same_noise_with_an_engine(monkeypatch):
    """Of one seed: coins are drawn apart from it, by workers or in memory."""
    found, real = [], pl.questions.Query.finish

    def finish(self, merged, noise):
        answer = real(self, merged, noise)
        found.append(answer / noise.state.recipes[0].grid - merged[0][0, 0])
        return answer

    monkeypatch.setattr(pl.questions.Query, "finish", finish)
    X, y, schema = table(LEARNERS["sgbdt-classes"])
    for engine in (None, Mischief(3, chunk_rows=64)):
        ledger = pl.Ledger.create(None, budget=pl.Budget(9.0, 1e-5), mode="simulation", seed=1)
        data, noise = ledger.protect(X, y, schema, engine=engine), pl.Gaussian(5.0)
        plan = pl.Sequential([noise, pl.PoissonSample(0.3, noise), noise])
        with ledger.request(plan, data) as session:
            for asked_of in (data, data.poisson(0.3), data):
                session.release(noise, asked_of.count())
    assert found[:3] == found[3:]


@settings(max_examples=60, deadline=None)
@given(rate=st.floats(0.0, 1.0, allow_subnormal=False), size=st.integers(0, 300),
       chunk=st.integers(0, 9))
def test_coins_of_a_chunk_are_the_same_whenever_they_fall(rate, size, chunk):
    one, other = (KeyedCoins(SECRET, "x", chunk) for _ in range(2))
    assert np.array_equal(one.bernoulli(rate, size), other.bernoulli(rate, size))
    assert np.array_equal(one.integers64(size), other.integers64(size))
    others = [KeyedCoins(SECRET, "x", chunk + 1), KeyedCoins(SECRET, "y", chunk),
              KeyedCoins(SECRET[::-1], "x", chunk)]
    fresh = KeyedCoins(SECRET, "x", chunk).integers64(size)
    assert size < 8 or not any(np.array_equal(fresh, one.integers64(size)) for one in others)
