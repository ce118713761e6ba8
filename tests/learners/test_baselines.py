"""Baselines of the papers: conform, cost what they say, refuse what print cannot pay for."""

import math

import numpy as np
import privledger_learners as learners
import pytest
from privledger_learners.baselines.coin_trees import coin_tree
from privledger_learners.baselines.greedy_trees import pruned_shares
from privledger_learners.trees.grow import smoothed_shares

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import protected

FORESTS = [learners.DPRFClassifier, learners.DPERTClassifier, learners.RDTClassifier,
           learners.DPDFClassifier, learners.MaxTreeClassifier,
           learners.SRTClassifier]
LABELS = [learners.SSRDTClassifier, learners.TOPClassifier]
NUMBERS = [learners.DPRFRegressor, learners.DPERTRegressor]


def table(rows=2000, seed=0, task="classification"):
    """Three features, one of them without order and with a category that never occurs."""
    rng = np.random.default_rng(seed)
    X = {"a": rng.uniform(0, 1, rows), "b": rng.uniform(0, 1, rows),
         "colour": rng.choice(["red", "green"], rows)}
    target = (pl.Column("t", "numeric", "target", 0.0, 2.0) if task == "regression" else
              pl.Column("t", "categorical", "target", categories=("out", "in", "never")))
    schema = pl.Schema("facts", (
        pl.Column("a", "numeric", "feature", 0.0, 1.0, missing=True),
        pl.Column("b", "numeric", "feature", 0.0, 1.0),
        pl.Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
        target))
    y = X["a"] + X["b"] if task == "regression" else np.where(X["a"] > 0.4, "in", "out")
    return schema, X, y


@pytest.mark.parametrize("kind", FORESTS)
def test_classes_are_learned(kind):
    """Far beyond what noise does at epsilon 200; not a privacy test."""
    schema, X, y = table()
    model = kind(epsilon=200.0, schema=schema, depth=5, n_trees=5, random_state=1).fit(X, y)
    assert model.score(X, y) > 0.8
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.ledger_.verify() == []


@pytest.mark.parametrize("kind", LABELS)
def test_labels_are_learned_where_most_have_none(kind):
    """Public features say what neighbours are like; not a privacy test."""
    schema, X, y = table()
    some = np.where(np.arange(len(y)) % 5 == 0, y.astype(object), None)
    more = {"depth": 6, "n_trees": 30} if kind is learners.SSRDTClassifier else {}  # its rule: 3
    model = kind(epsilon=8.0, schema=schema, random_state=1, **more).fit(X, some)
    assert model.score(X, y) > 0.75
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert model.ledger_.verify() == [] and model.ledger_.spent <= 8.0
    assert "replace_label" in model.guarantee_


@pytest.mark.parametrize("kind", LABELS)
def test_a_label_costs_epsilon_and_nothing_more(kind):
    schema = table(10)[0]
    learner = kind(epsilon=0.7, schema=schema)
    cost = pl.epsilon(learner.plan(), 0.0, "replace_label")
    assert 0.7 * (1 - 1e-9) <= cost <= 0.7
    assert learner.claimed()[-1].sound == cost
    with pytest.raises(pl.InvalidValue, match="no finite epsilon.*Nothing was read"):
        kind(epsilon=0.7, schema=schema, variant="paper").plan()


def test_unlabelled_records_fill_leaves_once_with_what_the_labelled_say():
    """By hand; answers are taken as they are at epsilon 60, where one in e**60 is false."""
    schema, X, y = table(300)
    some = np.where(np.arange(300) % 3 == 0, y.astype(object), None)
    model = learners.SSRDTClassifier(epsilon=60.0, schema=schema, n_trees=1, depth=2,
                                     random_state=3)
    model.fit(X, some)
    tree, = model.forest_.trees
    place = tree.cells.assign(tree.cells.bins.codes(model.data_.public_features))
    known, classes = np.arange(300) % 3 == 0, np.array(schema.target.categories)
    held = (y[:, None] == classes) * known[:, None].astype(float)

    def shares():
        return smoothed_shares(np.stack([held[place == leaf].sum(axis=0)
                                         for leaf in range(4)]), 1.0, 1.0)
    held[~known] = shares()[place[~known]]
    assert tree.values == pytest.approx(shares(), abs=1e-9)


def test_trees_on_parts_cost_once_and_say_one_label():
    schema, X, y = table(400)
    model = learners.SRTClassifier(epsilon=1.0, schema=schema, n_trees=3, random_state=0).fit(X, y)
    assert all(set(np.unique(tree.values)) <= {0.0, 1.0} for tree in model.forest_.trees)
    assert model.plan().nodes[-1].certificate == "iid_per_record"


def test_cutting_off_only_reads_what_was_released():
    counts = np.array([[9.0, 0.0], [0.0, 9.0], [1.0, 0.0], [0.0, 1.0]])
    assert pruned_shares(counts, 1.0, 0.0).tolist() == [[1, 0], [0, 1], [1, 0], [0, 1]]
    kept = pruned_shares(counts, 1.0, 3.0)
    assert kept[:2].tolist() == [[1, 0], [0, 1]]
    assert kept[2].tolist() == kept[3].tolist() == [0.5, 0.5]
    drowned = pruned_shares(-counts, 1.0, 3.0)
    assert drowned == pytest.approx(np.full((4, 2), 0.5))


@pytest.mark.parametrize("kind", NUMBERS)
def test_numbers_are_learned(kind):
    schema, X, y = table(task="regression")
    model = kind(epsilon=200.0, schema=schema, depth=6, random_state=1).fit(X, y)
    assert model.score(X, y) > 0.3


REFUSED = [(learners.DPRFClassifier, "ranges"), (learners.DPRFRegressor, "ranges"),
           (learners.DPERTClassifier, "ranges"),
           (learners.DPERTRegressor, "ranges"), (learners.RDTClassifier, "height"),
           (learners.DPDFClassifier, "ranges"),
           (learners.MaxTreeClassifier, "bootstrap"), (learners.SRTClassifier, "labels")]


@all_cases(("kind", "why"), REFUSED)
def test_print_without_a_price_is_refused_and_nothing_is_read(kind, why):
    schema, X, y = table(100, task=kind.info.tasks[0])
    ledger, data = protected(pl.Budget(5.0, 0.0), X, y, schema)
    before = ledger.receipt
    with pytest.raises(pl.InvalidValue, match=f"no finite epsilon. {why}.*Nothing was read"):
        kind(epsilon=1.0, schema=schema, variant="paper").fit(data)
    assert ledger.receipt == before
    printed = kind(epsilon=1.0, schema=schema).claimed()
    assert any(step.sound == math.inf and step.note for step in printed)
    assert printed[-1].sound <= 1.0


def test_random_decision_trees_of_a_public_height_are_sound_as_printed():
    schema, X, y = table(500)
    model = learners.RDTClassifier(epsilon=1.0, schema=schema, variant="paper", depth=2).fit(X, y)
    assert model.ledger_.spent <= 1.0
    assert all(step.sound <= 1.0 for step in model.claimed())


def test_a_tree_of_coins_tests_inside_its_boxes_and_every_box_holds_a_value():
    schema, X, y = table(5)
    data = pl.Ledger.create(None, budget=pl.Budget(1.0, 0.0)).protect(X, y, schema)
    for seed in range(20):
        tree = coin_tree(data.root(data.bins(4)), 6, np.random.default_rng(seed))
        assert (tree.high > tree.low).all()
        assert tree.open.any(axis=1).all()


COUNTS = {"n_trees", "depth", "max_depth", "numeric_bins", "n_neighbors"}
WRONG = [0, -1, 1.5, math.nan, math.inf, -math.inf, True, np.bool_(True), np.float64(2), "1", b"1",
         [1.0], np.array([1]), np.array(1.0), object(), 10**400, 1j]


def takes(kind, name):
    return name in kind().get_params()


@all_cases("kind", FORESTS + NUMBERS + LABELS)
def test_numbers_that_are_none_are_refused(kind):
    """Every parameter that takes one; where None is a rule of its own, it is left out."""
    schema = table(5, task=kind.info.tasks[0])[0]
    asked = {"epsilon", "delta"} | {name for name in COUNTS if takes(kind, name)}
    assert set(kind().get_params()) - asked == {
        "schema", "variant", "mode", "random_state", "unaccounted",
        *({"relation"} if kind not in LABELS else ())}
    for name in sorted(asked):
        fine = {"epsilon": (1.5, np.float64(2)), "delta": (0,)}.get(name, ())
        for wrong in WRONG:
            if any(wrong is one or (isinstance(wrong, type(one)) and wrong == one) for one in fine):
                continue
            with pytest.raises(pl.InvalidValue, match=name):
                kind(**{"epsilon": 1.0, "schema": schema, name: wrong}).plan()
    for name in asked - {"depth", "numeric_bins", "n_neighbors"}:
        with pytest.raises(pl.InvalidValue, match=name):
            kind(**{"epsilon": 1.0, "schema": schema, name: None}).plan()
