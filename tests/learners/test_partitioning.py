"""Partitioning ensembles: conform, cost what they say, refuse what has no sound reading."""

import numpy as np
import pytest
from privledger_learners import PrivateEnsembleClassifier

import privledger as pl
from tests.all_cases import all_cases
from tests.worlds import protected, refused, schema_of


def cut(X, rows):
    return {name: column[rows] for name, column in X.items()}


@pytest.mark.parametrize(("options", "least"), [
    ({}, 0.88), ({"setting": "sspe1"}, 0.82), ({"setting": "sspe1", "linkage": "linked"}, 0.78),
    ({"setting": "sspe2"}, 0.8), ({"setting": "pte"}, 0.8)])
def test_it_learns(rings, options, least):
    """Bounds lie many standard deviations below what comes out; not a privacy test."""
    schema, X, y = rings
    model = PrivateEnsembleClassifier(epsilon=4.0, schema=schema, **options)
    if model.unlabelled:
        model.fit(cut(X, slice(0, 2000)), y[:2000], cut(X, slice(2000, None)))
    else:
        model.fit(X, y)
    assert model.score(X, y) > least
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert 4.0 * (1 - 1e-6) <= model.ledger_.spent <= 4.0
    assert model.ledger_.verify() == []
    assert ("LABELS ONLY" in model.guarantee_) == (model.relation == "replace_label")


def test_level_budgets_follow_equation_seven(rings):
    """epsilon_i = C epsilon_s (3/2)^i with C = 1 / (2 (3/2)^k - 2)."""
    learner = PrivateEnsembleClassifier(epsilon=2.0, schema=rings[0], variant="paper", depth=5)
    (node,) = set(learner.plan().nodes[0].nodes)
    spent = [one.epsilon for one in node.nodes[:-1]]
    constant = 1 / (2 * 1.5**5 - 2)
    assert spent == pytest.approx([constant * 1.5**place for place in range(5)], rel=1e-6)
    assert node.nodes[-1].scale == pytest.approx(1.0, rel=1e-6)


def test_disjoint_parts_take_a_private_coin_and_the_larger_price(rings):
    learner = PrivateEnsembleClassifier(epsilon=1.0, schema=rings[0], variant="paper")
    (parts,) = learner.plan().nodes
    assert parts.certificate == "iid_per_record"
    assert len(parts.nodes) == 10
    one = pl.Sequential(parts.nodes[0].nodes)
    assert pl.epsilon(pl.Sequential([parts])) == pytest.approx(pl.epsilon(one), rel=1e-9)


def test_linkage_decides_between_the_larger_price_and_the_sum(rings):
    """The same noise that costs epsilon for two sets of people costs twice that for one."""
    far = PrivateEnsembleClassifier(epsilon=1.0, schema=rings[0], setting="sspe1", depth=3,
                                    n_trees=2).plan()
    structure, labels = far.nodes
    together = pl.epsilon(pl.Sequential([structure, labels]))
    assert together == pytest.approx(2 * pl.epsilon(far), rel=1e-6)
    near = PrivateEnsembleClassifier(epsilon=1.0, schema=rings[0], setting="sspe1", depth=3,
                                     n_trees=2, linkage="linked").plan()
    assert isinstance(near, pl.Sequential)
    assert pl.epsilon(near) <= 1.0
    assert near.nodes[1].nodes[1].nodes[-1].node.scale > labels.nodes[-1].node.scale


def test_a_changed_label_moves_two_counts(rings):
    """F5: noise for one count per label would cost twice what the paper says."""
    three = pl.Schema("three", (*rings[0].columns[:3], pl.Column(
        "t", "categorical", "target", categories=("out", "in", "edge"))))
    for schema, moved in ((rings[0], 1.0), (three, 2.0)):
        learner = PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting="sspe2")
        trees = learner.plan().node.nodes[1].nodes[0]
        assert trees.node.l1_sensitivity == moved
        assert trees.node.scale == pytest.approx(moved * trees.count, rel=1e-6)
    steps = {step.step: step for step in learner.claimed()}
    assert steps["class counts as printed"].ratio == 2


def test_claims_name_what_the_paper_left_out(rings):
    def steps(**options):
        return {step.step: step for step in PrivateEnsembleClassifier(
            epsilon=2.0, schema=rings[0], **options).claimed()}

    for setting in ("spe", "sspe1"):
        found = steps(setting=setting)
        assert found["range of a median"].sound == np.inf == found["stop at ten records"].sound
    assert steps(setting="sspe1", linkage="linked")["both sets"].sound <= 2.0
    transductive = steps(setting="pte", n_trees=4, second_trees=6)
    assert transductive["second ensemble"].sound == 0
    assert transductive["setting (I), not offered"].sound == 20.0


def test_the_second_ensemble_is_free_and_recorded(rings):
    plans = [PrivateEnsembleClassifier(epsilon=1.0, schema=rings[0], setting=setting).plan()
             for setting in ("sspe2", "pte")]
    prices = [pl.epsilon(plan, 0.0, "replace_label") for plan in plans]
    assert prices[0] == prices[1]
    assert any(isinstance(node, pl.nodes.PostProcess) for node in plans[1].node.nodes)


def test_structure_never_depends_on_labels_where_features_are_public(rings):
    """With one seed, other labels give the same trees."""
    schema, X, y = rings
    grown = []
    for labels in (y, y[::-1]):
        model = PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting="sspe2",
                                          mode="simulation", random_state=3).fit(X, labels)
        grown.append(model.forest_.trees[0].cells)
    while grown[0].parent is not None:
        np.testing.assert_array_equal(grown[0].feature, grown[1].feature)
        np.testing.assert_array_equal(grown[0].cut, grown[1].cut)
        grown = [tree.parent for tree in grown]


def test_public_medians_halve_the_leaves():
    from privledger_learners.ensembles.median_trees import public_tree

    schema = schema_of("one", {"a": (0.0, 1.0)}, t=["x", "y"])
    bins = pl.questions.Bins(schema, 65534)
    columns = pl.encode_features({"a": np.random.default_rng(0).beta(1, 5, 1600)}, schema)
    tree = public_tree(bins, bins.codes(columns), 4, np.random.default_rng(0))
    assert set(np.bincount(tree.assign(bins.codes(columns)))) <= set(range(95, 106))


def test_a_public_category_that_is_nearest_to_half_is_cut():
    from privledger_learners.ensembles.median_trees import _category

    where = np.repeat([0, 1, 2], [10, 6, 3])
    value = np.array([0] * 7 + [1] * 2 + [2] + [1] * 3 + [2] * 2 + [3] + [3] * 3)
    # Of ten 7, 2 and 1; of six 3, 2 and one gap; of three only gaps.
    assert _category(where, value, 4, 3).tolist() == [0, 1, -1, -1]
    assert _category(np.zeros(9, dtype=int), np.array([0] * 8 + [1]), 1, 3).tolist() == [0]


def test_public_leaves_of_ten_records_are_not_split(rings):
    from privledger_learners.ensembles.median_trees import ENOUGH, public_tree

    schema, X, _ = rings
    bins = pl.questions.Bins(schema, 256)
    codes = bins.codes(pl.encode_features(X, schema))
    tree = public_tree(bins, codes, 10, np.random.default_rng(0))
    while tree.parent is not None:
        held = np.bincount(tree.parent.assign(codes), minlength=tree.parent.count)
        assert (tree.feature[held <= ENOUGH] == -1).all()
        tree = tree.parent


def test_setting_one_of_the_transductive_ensemble_is_refused(rings):
    schema, X, y = rings
    with pytest.raises(pl.InvalidValue, match=r"N1 \+ N2"):
        PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting="pte1").fit(X, y)
    ledger, data = protected(pl.Budget(9.0), X, y, schema, unlabelled=True)
    with pytest.raises(pl.errors.RelationMismatch):
        PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting="pte").fit(data)
    assert ledger.spent == 0


@pytest.mark.parametrize("setting", ["sspe1", "sspe2", "pte"])
def test_guarded_data_with_missing_labels(rings, setting):
    schema, X, y = rings
    learner = PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting=setting)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.5), relation=learner.relation)
    holes = np.where(np.arange(len(y)) % 5 == 0, y, None)
    data = ledger.protect(X, holes, schema, unlabelled=True,
                          public_features=learner.relation == "replace_label")
    learner.fit(data)
    assert learner.score(X, y) > 0.6
    refused(pl.BudgetExceeded, lambda: learner.fit(data))
    refused(pl.InvalidValue, lambda: learner.fit(data, None, X), match="guarded")
    assert ledger.verify() == []


@pytest.mark.parametrize("setting", ["sspe2", "pte"])
def test_where_every_row_has_a_label(rings, setting):
    """The plan holds for tables with and without holes: the reservation must not tell."""
    schema, X, y = rings
    learner = PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting=setting)
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0), relation="replace_label")
    learner.fit(ledger.protect(X, y, schema, public_features=True))
    assert learner.score(X, y) > 0.7
    assert ledger.verify() == []


def test_semi_supervised_needs_a_table_where_labels_may_be_missing(rings):
    schema, X, y = rings
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0))
    refused(pl.errors.UnsupportedNode, lambda: PrivateEnsembleClassifier(epsilon=1.0, schema=schema,
            setting="sspe1").fit(ledger.protect(X, y, schema)), match="unlabelled=True")


# --- bad input ----------------------------------------------------------------------------------

def test_unlabelled_rows_of_another_schema_are_refused(rings):
    schema, X, y = rings
    learner = PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting="sspe1")
    for other in ({"a": X["a"], "b": X["b"]}, {**X, "colour": np.full(len(y), "mauve")},
                  np.zeros((5, 2)), {**X, "a": np.full(len(y), "low")},
                  {**X, "b": X["b"][:5]}):
        with pytest.raises(pl.errors.DataError):
            learner.fit(X, y, other)
    refused(pl.errors.DataError, lambda: learner.fit(X, None, X), match="y")
    with pytest.raises(pl.InvalidValue, match="spe"):
        PrivateEnsembleClassifier(epsilon=1.0, schema=schema).fit(X, y, X)


def test_numbers_beside_text_stay_numbers(rings):
    from privledger_learners.guarding import with_unlabelled

    schema, X, y = rings
    spelled = {**X, "a": X["a"].astype(object), "colour": X["colour"].astype(object)}
    columns, labels = with_unlabelled(X, y, spelled, schema)
    found = pl.encode_features(columns, schema)
    np.testing.assert_array_equal(found.arrays[0], np.tile(X["a"], 2))
    assert (labels[len(y):] == None).all()  # noqa: E711


@pytest.mark.parametrize("setting", ["spe", "sspe1", "sspe2", "pte"])
def test_labels_beyond_the_schema_are_refused(rings, setting):
    schema, X, y = rings
    refused(pl.errors.DataError, lambda: PrivateEnsembleClassifier(epsilon=1.0, schema=schema,
            setting=setting).fit(X, np.where(y == "in", "inside", y)), match="category")


@all_cases("setting", ["spe", "sspe1", "sspe2", "pte"])
@all_cases("rows", [1, 30])
def test_few_and_equal_records_and_classes_that_never_occur(setting, rows):
    """All records in one place: every leaf but one is empty, and noise alone decides there."""
    schema = pl.Schema("flat", (
        pl.Column("a", "numeric", "feature", 0.0, 1.0),
        pl.Column("only", "categorical", "feature", categories=("x",)),
        pl.Column("few", "numeric", "feature", 0, 1, integer=True),
        pl.Column("t", "categorical", "target", categories=("p", "q", "never"))))
    X = {"a": np.full(rows, 0.25), "only": np.full(rows, "x"), "few": np.ones(rows)}
    model = PrivateEnsembleClassifier(epsilon=1.0, schema=schema, setting=setting)
    model.fit(X, np.full(rows, "p"))
    assert set(model.predict(X)) <= {"p", "q", "never"}
    assert np.isfinite(model.predict_proba(X)).all()
    assert list(model.classes_) == ["never", "p", "q"]


@pytest.mark.parametrize("sharing", ["all", "disjoint"])
def test_one_tree_holds_everybody(rings, sharing):
    schema, X, y = rings
    model = PrivateEnsembleClassifier(epsilon=4.0, schema=schema, n_trees=1, sharing=sharing)
    assert model.fit(X, y).score(X, y) > 0.6
    assert len(model.forest_.trees) == 1


def test_bare_counts_vote_where_they_are_asked_to(rings):
    schema, X, y = rings
    model = PrivateEnsembleClassifier(epsilon=4.0, schema=schema, smoothing=0.0, votes="counts")
    shares = model.fit(X, y).predict_proba(X)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert (shares >= 0).all()
