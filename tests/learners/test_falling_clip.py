"""The gradient clip of S-GBDT: constants, and one that falls with what is left to explain."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privledger_learners import SGBDTClassifier, SGBDTRegressor
from privledger_learners.boosting.leaf_values import Clip, Posterior, posterior_values
from privledger_learners.boosting.sum_of_trees import RESIDUAL_EDGES, mean_square

import privledger as pl
from tests.worlds import protected

NUMBERS = st.floats(-1e6, 1e6)


def schema(*classes):
    target = (pl.Column("y", "categorical", "target", categories=classes) if classes
              else pl.Column("y", "numeric", "target", -1, 1))
    return pl.Schema("made up", (pl.Column("x", "numeric", "feature", 0, 1), target))


def table(n=1200):
    rng = np.random.default_rng(7)
    x = rng.random(n)
    return {"x": x}, np.clip(0.9 * np.sign(x - 0.5) + 0.02 * rng.normal(size=n), -1, 1)


@given(st.floats(0.001, 1), st.floats(1e-3, 1e9), st.booleans(),
       st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, st.floats(0, 1e3)), max_size=8))
def test_it_stays_between_its_floor_and_where_it_began(first, squares, falls, trees):
    clip = Clip(first, squares, falls)
    assert clip.now == first
    for a, s, v, sd in trees:
        clip.follow(np.array([abs(a), 1.0]), np.array([s, 0.0]),
                    Posterior(np.array([v, 0.0]), 0.5), sd)
        assert first * math.sqrt(0.1) * (1 - 1e-15) <= clip.now <= first
        assert falls or clip.now == first


@settings(max_examples=40)
@given(st.integers(1, 12), st.sampled_from([0.0, 0.6]), st.floats(0.05, 5), st.integers(0, 9))
def test_the_trace_is_how_values_move_with_their_own_sums(size, correlation, sd, seed):
    rng = np.random.default_rng(seed)
    mass, unsure = rng.uniform(1, 50, size), rng.uniform(0, 9, size)

    def values(S):
        return posterior_values(mass, unsure, S, sd_s=sd, tau=1e9, rate=0.6, extra=1.0,
                                correlation=correlation)

    zero = np.zeros(size)
    moved = sum(values(zero + unit).values[k] for k, unit in enumerate(np.eye(size)))
    assert values(zero).trace == pytest.approx(float(moved), rel=1e-9)


def test_noise_alone_explains_nothing():
    """Over many trees of pure noise the clip neither falls nor leaves its start.

    The sum of 4,000 gains has mean below zero (the second term is a cost); a drift to .9 would be
    40 standard deviations of the uncorrected sum: a false alarm is far below 1e-6.
    """
    rng, clip = np.random.default_rng(0), Clip(0.5, 1000.0, True)
    mass = np.full(8, 30.0)
    for _ in range(4000):
        S = rng.normal(size=8)
        clip.follow(mass, S, posterior_values(mass, np.zeros(8), S, sd_s=1.0, tau=1.0, rate=0.6,
                                              extra=0.0, correlation=0.6), 1.0)
    assert clip.now > 0.45


def test_the_mean_square_is_that_of_the_middles():
    histogram = np.zeros(len(RESIDUAL_EDGES) + 1)
    histogram[-1], histogram[0] = 3, -5  # noise below zero counts as nothing
    assert mean_square(histogram) == 1.5**2
    assert mean_square(np.zeros(len(histogram))) == 1e-4


@pytest.fixture
def asked(monkeypatch):
    """Clips of all gradient blocks that a fit asks for."""
    found = []
    plain = pl.questions.Score.gradient

    def gradient(self, clip, **more):
        found.append(clip)
        return plain(self, clip, **more)

    monkeypatch.setattr(pl.questions.Score, "gradient", gradient)
    return found


def fit(kind, asked, data=table, classes=(), **options):
    X, y = data()
    labels = np.array(classes)[(y > 0).astype(int)] if classes else y
    model = kind(epsilon=8.0, delta=1e-6, schema=schema(*classes), n_trees=40, **options)
    model.fit(X, labels)
    assert len(asked) == 40 and model.ledger_.verify() == [] and model.ledger_.spent <= 8.0
    return model


def test_where_the_trees_explain_the_target_it_falls_to_its_floor(asked):
    model = fit(SGBDTRegressor, asked)
    assert asked[0] == model.model_.start.clip and min(asked) < 0.5 * asked[0]
    assert all(0.316 * asked[0] < clip <= asked[0] for clip in asked)


@pytest.mark.parametrize("options", [
    {"falling_clip": False}, {"gradient_clip": 0.3}, {"leaf": "ratio", "splits": "random"}])
def test_otherwise_it_stays(asked, options):
    fit(SGBDTRegressor, asked, **options)
    assert len(set(asked)) == 1


def test_a_clip_given_by_hand_falls_if_that_is_asked_for(asked):
    fit(SGBDTRegressor, asked, gradient_clip=0.3, falling_clip=True)
    assert asked[0] == 0.3 and len(set(asked)) > 1


@pytest.mark.parametrize(("classes", "clip"), [(("a", "b"), 0.28), (("a", "b", "c"), 0.4)])
def test_classes_have_constants(asked, classes, clip):
    fit(SGBDTClassifier, asked, classes=classes)
    assert set(asked) == {clip}


@pytest.mark.parametrize(("kind", "classes", "options"), [
    (SGBDTClassifier, ("a", "b"), {"falling_clip": True}),
    (SGBDTRegressor, (), {"falling_clip": True, "leaf": "ratio"})])
def test_it_is_refused_where_it_means_nothing(kind, classes, options):
    X, y = table(50)
    labels = np.array(["a", "b"])[(y > 0).astype(int)] if classes else y
    with pytest.raises(pl.InvalidValue, match="falling_clip"):
        kind(epsilon=1.0, schema=schema(*classes), **options).fit(X, labels)


def test_behind_a_filter_a_record_pays_by_the_bound_of_the_round(asked):
    """Its whole spend is the sum of what its clipped residuals cost, each by its own round."""
    X, y = table()
    ledger, data = protected(pl.Budget(8.5, 1e-6), X, y, schema())
    learner = SGBDTRegressor(epsilon=8.0, delta=1e-6, schema=schema(), n_trees=40,
                             individual_filter="gdp")
    model = learner.fit(data).model_
    assert len(set(asked)) > 5
    priced = learner._recipe(schema())
    square = 1 / priced.rule.tree_node(priced.noise).noise_multiplier ** 2
    codes = model.bins.codes(pl.encode_features(X, schema()))
    score = np.full(len(y), model.start.score[0])
    spent = np.full(len(y), 0.12 / priced.noise**2)  # of the start, paid by everybody
    for clip, (cells, values) in zip(asked, model.trees, strict=True):
        residual = np.minimum(np.abs(y - score) / clip, 1)
        spent += square * (0.12 + 0.88 * residual**2)
        score += values[cells.assign(codes)]
    for k in range(0, len(y), 150):
        found = ledger.record(k)
        assert found.total == pytest.approx(spent[k], rel=5e-4)


def test_late_arrivals_go_on_with_the_bound_that_was_reached(asked):
    X, y = table()
    later = {"x": X["x"] * 0.5}
    model = SGBDTRegressor(epsilon=8.0, delta=1e-6, schema=schema(), n_trees=20)
    model.partial_fit(X, y)
    reached = asked[-1]
    model.partial_fit(later, np.zeros(1200))
    assert reached < asked[0] and asked[20] <= reached * 1.2
