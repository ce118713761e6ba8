"""Weights of classes in S-GBDT: free, public or from the released start, and nowhere else."""

import numpy as np
import pytest
from attrs import evolve
from privledger_learners import SGBDTClassifier, SGBDTRegressor
from privledger_learners.boosting.class_weights import default_clip
from privledger_learners.class_numbers import class_numbers
from scipy.special import expit
from sklearn.metrics import balanced_accuracy_score

import privledger as pl
from tests.all_cases import all_cases

N = 4000
COLUMNS = (pl.Column("size", "numeric", "feature", 0, 1),
           pl.Column("noise", "numeric", "feature", 0, 1))
WRONG = ["even", [1.0], [1.0, 0.0], [1.0, -1.0], [1.0, float("nan")], [1.0, float("inf")],
         [1.0, True], 1.0, [1.0, 2.0, 3.0], {"well": 1.0}, {"well": 1.0, "ill": 0.0},
         {"well": 1.0, "worse": 2.0}, {"well": 1.0, "ill": 2.0, "worse": 1.0}, {}]


def schema(*names):
    return pl.Schema("made up", (*COLUMNS, pl.Column("y", "categorical", "target",
                                                     categories=names)))


TWO, THREE = schema("well", "ill"), schema("well", "ill", "worse")


def table(names, cuts, seed=0):
    rng = np.random.default_rng(seed)
    X = {"size": rng.uniform(0, 1, N), "noise": rng.uniform(0, 1, N)}
    return X, np.array(names)[np.digitize(X["size"] + rng.normal(0, 0.15, N), cuts)]


def fitted(facts, y_of, **options):
    names = facts.target.categories
    X, y = table(names, y_of)
    model = SGBDTClassifier(3.0, 1e-6, facts, n_trees=40, mode="simulation", random_state=5,
                            unaccounted=True, **options)
    return model.fit(X, y), X, y


def test_a_rare_class_is_found_where_classes_count_the_same():
    """Seeded noise. Without weights nearly every row is said to be well."""
    plain, X, y = fitted(TWO, [1.05])
    even, _, _ = fitted(TWO, [1.05], class_weight="balanced")
    assert np.mean(y == "ill") < 0.06
    assert balanced_accuracy_score(y, plain.predict(X)) < 0.75
    assert balanced_accuracy_score(y, even.predict(X)) > 0.80
    assert even.class_weight_[1] == 1.0
    assert even.class_weight_[0] == pytest.approx(expit(even.model_.start.score[0]) / expit(
        -even.model_.start.score[0]))
    assert even.predict_proba(X)[:, 1].mean() != plain.predict_proba(X)[:, 1].mean()


@pytest.mark.parametrize(("facts", "cuts"), [(TWO, [0.7]), (THREE, [0.7, 0.95])])
def test_weights_multiply_the_odds_and_change_no_release(facts, cuts):
    """Weights are in the schema's order, columns in the sorted one; the grants are the same."""
    weights = [1.0, 8.0, 2.0][: len(facts.target.categories)]
    clip = {"gradient_clip": 0.4}
    plain, X, _ = fitted(facts, cuts, **clip)
    moved, _, _ = fitted(facts, cuts, class_weight=weights, **clip)
    for (_, before), (_, now) in zip(plain.model_.trees, moved.model_.trees, strict=True):
        assert np.array_equal(before, now)
    assert moved.plan() == plain.plan()
    assert np.allclose(moved.class_weight_, np.array(weights) / 8)
    order = [facts.target.categories.index(name) for name in moved.classes_]
    wanted = plain.predict_proba(X) * np.array(weights)[order]
    wanted /= wanted.sum(axis=1, keepdims=True)
    assert np.allclose(moved.predict_proba(X), wanted)
    assert np.array_equal(moved.predict(X), moved.classes_[wanted.argmax(axis=1)])


def test_even_shares_of_more_classes_count_the_same():
    even, _, _ = fitted(THREE, [0.7, 0.95], class_weight="balanced")
    shares = np.exp(even.model_.start.score)
    assert np.allclose(even.class_weight_ * shares, (even.class_weight_ * shares)[0])


@all_cases("wrong", WRONG, ids=repr)
def test_what_cannot_weigh_is_refused_before_anything_is_read(wrong):
    with pytest.raises(pl.InvalidValue, match="class_weight"):
        SGBDTClassifier(1.0, 1e-6, TWO, class_weight=wrong).plan()


def test_a_dict_by_class_is_the_numbers_in_the_schemas_order():
    for names, given in (("well", "ill"), [3.0, 1.0]), (("1", "0"), [3.0, 1.0]):
        facts = schema(*names)
        by_name = dict(zip(names, given, strict=True))
        if names[0] == "1":
            by_name = {1.0: 3.0, 0: 1.0}  # other spellings of the same classes
        assert np.array_equal(class_numbers(by_name, facts), given)
        assert np.array_equal(class_numbers(given, facts), given)
    with pytest.raises(pl.InvalidValue, match="class_weight"):
        class_numbers({1: 3.0, 1.5: 1.0, "1": 3.0}, schema("1", "0"))


def test_sizes_that_nobody_buys_are_not_used():
    with pytest.raises(pl.InvalidValue, match="class_weight"):
        SGBDTClassifier(1.0, 1e-6, TWO, class_weight="balanced", start_share=0.0).plan()
    assert SGBDTClassifier(1.0, 1e-6, TWO, class_weight=[1, 2], start_share=0.0).plan()
    number = pl.Schema("number", (*COLUMNS, pl.Column("y", "numeric", "target", 0, 1)))
    with pytest.raises(pl.InvalidValue, match="class_weight"):
        SGBDTRegressor(1.0, 1e-6, number, class_weight="balanced").plan()


def test_the_clip_rises_by_public_facts_and_gives_way_to_ones_own():
    assert default_clip(TWO, weighed=True) > default_clip(TWO)
    assert default_clip(THREE, weighed=True) == default_clip(THREE)
    one = SGBDTClassifier(1.0, 1e-6, TWO, class_weight="balanced", gradient_clip=0.3)
    assert one._rule(TWO).clip == 0.3


def test_a_prior_alone_is_not_weighed():
    """Below the floor the largest class is said: even shares would say nothing of any."""
    X, y = table(TWO.target.categories, [1.05])
    facts = evolve(TWO, expected_rows=N, expected_rows_provenance="declared")
    with pytest.warns(UserWarning, match="largest class"):
        model = SGBDTClassifier(0.004, 1e-6, facts, class_weight="balanced", mode="simulation",
                                random_state=1).fit(X, y)
    assert set(model.predict(X)) == {"well"}
    assert not hasattr(model, "class_weight_")


def test_weights_of_an_earlier_fit_are_gone():
    model, X, y = fitted(TWO, [1.05], class_weight="balanced")
    scores = model.decision_function(X)
    model.set_params(class_weight=None).fit(X, y)
    assert not hasattr(model, "class_weight_")
    assert not np.allclose(scores, model.decision_function(X))


def test_late_records_are_taught_by_scores_that_did_not_move():
    """Weights are for predictions: the guard's scores of the next call are those of the trees."""
    X, y = table(TWO.target.categories, [0.9])
    model = SGBDTClassifier(2.0, 1e-6, TWO, n_trees=10, class_weight=[1.0, 50.0],
                            mode="simulation", random_state=2).partial_fit(X, y)
    start = model.model_.start.score.copy()
    model.partial_fit(*table(TWO.target.categories, [0.9], seed=1))
    assert np.array_equal(model.model_.start.score, start)
    assert np.allclose(-model.decision_function(X), np.log(50) + model.model_.scores(
        pl.encode_features(X, TWO)))


def test_a_kept_model_keeps_its_weights(tmp_path):
    model, X, _ = fitted(THREE, [0.7, 0.95], class_weight="balanced")
    pl.save_model(model, tmp_path / "kept.model")
    assert np.array_equal(pl.load_model(tmp_path / "kept.model").predict_proba(X),
                          model.predict_proba(X))
