"""LabelPrivateClassifier: conforms, costs what it says, learns from noisy answers."""

import json
import pickle
import re

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from privledger_learners import LabelPrivateClassifier
from privledger_learners.label_private import best_lists, likelihood, response
from privledger_learners.soft_forest import SoftForest, first_guess, least_leaf
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import LinearSVC

import privledger as pl
from privledger.cli.app import main
from tests.bodies import body_of
from tests.worlds import refused


def table_of(rows=1500):
    rng = np.random.default_rng(0)
    X = {"a": rng.uniform(-1, 1, rows), "colour": rng.choice(["red", "green", "blue"], rows)}
    y = np.where(X["colour"] == "blue", "third", np.where(X["a"] > 0, "second", "first"))
    return X, y


def schema_of(classes=("first", "second", "third", "never")):
    return pl.Schema("stripes", (
        pl.Column("a", "numeric", "feature", -1.0, 1.0, missing=True),
        pl.Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
        pl.Column("t", "categorical", "target", categories=classes)))


def two(y):
    return np.where(y == "third", "first", y)


@pytest.mark.parametrize("estimator", [
    None, LogisticRegression(), HistGradientBoostingClassifier(max_iter=20), LinearSVC(),
    KNeighborsClassifier(20)], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("classes", [2, 4])
def test_it_learns(estimator, classes):
    """Bounds lie many standard deviations below what comes out."""
    X, y = table_of()
    y = y if classes == 4 else two(y)
    schema = schema_of() if classes == 4 else schema_of(("first", "second"))
    model = LabelPrivateClassifier(epsilon=3.0, schema=schema, estimator=estimator, n_trees=20)
    model.fit(X, y)
    # A line cannot draw what two classes look like here.
    assert model.score(X, y) > (0.9 if estimator is None else 0.7)
    assert model.predict_proba(X).shape == (len(y), classes)
    assert model.predict_proba(X).sum(axis=1) == pytest.approx(1.0)
    assert 3.0 * (1 - 1e-6) <= model.ledger_.spent <= 3.0
    assert model.ledger_.verify() == []
    assert "LABELS ONLY" in model.guarantee_ and "LABELS ONLY" in repr(model.ledger_)
    assert (pickle.loads(pickle.dumps(model)).predict(X) == model.predict(X)).all()


def labels_asked(ledger):
    """How many labels each item asked. Two items of as many records share one question's text."""
    ledger._history.flush()
    bodies = [body_of(entry) for entry in ledger._history.store.read()
              if entry.event.kind == "released"]
    return [cells * int(re.search(r"of (\d+) records$", body["questions"][place])[1])
            for body in bodies for _, place, cells in body["items"]]


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("first", [0.3, 1.0])
def test_every_label_answers_once(missing, first):
    X, y = table_of(300)
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0), relation="replace_label")
    labels = np.where(np.arange(len(y)) % 3 == 0, None, y) if missing else y
    data = ledger.protect(X, labels, schema_of(), public_features=True, unlabelled=missing)
    model = LabelPrivateClassifier(epsilon=2.0, first_share=first, n_trees=5).fit(data)
    assert sum(labels_asked(ledger)) == (200 if missing else 300)
    assert ledger.verify() == []
    refused(pl.BudgetExceeded, lambda: model.fit(data))


def test_a_ledger_of_whole_records_is_refused():
    X, y = table_of(50)
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0))
    with pytest.raises(pl.errors.RelationMismatch):
        LabelPrivateClassifier(epsilon=1.0).fit(ledger.protect(X, y, schema_of()))
    assert ledger.spent == 0


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5])
def test_very_few_labels(rows):
    X, y = table_of(40)
    few = {name: column[:rows] for name, column in X.items()}
    model = LabelPrivateClassifier(epsilon=1.0, schema=schema_of(), n_trees=3)
    model.fit(few, y[:rows], X)
    assert np.isfinite(model.predict_proba(X)).all()


def test_no_label_at_all():
    X, y = table_of(10)
    with pytest.raises(pl.errors.DataError, match="no record has a label"):
        LabelPrivateClassifier(epsilon=1.0, schema=schema_of()).fit(
            X, np.full(len(y), None, dtype=object))


def test_rows_and_labels_that_do_not_fit_are_refused():
    X, y = table_of(40)
    learner = LabelPrivateClassifier(epsilon=1.0, schema=schema_of())
    with pytest.raises(pl.errors.DataError, match="category"):
        learner.fit(X, np.where(y == "first", "other", y))
    refused(pl.errors.DataError, lambda: learner.fit(X, y, {"a": X["a"]}), match="missing column")
    with pytest.raises(pl.SchemaError, match="two categories"):
        LabelPrivateClassifier(schema=schema_of(("one",))).plan()
    number = pl.Schema("n", (*schema_of().columns[:2], pl.Column("t", "numeric", "target", 0, 1)))
    with pytest.raises(pl.SchemaError, match="classification"):
        LabelPrivateClassifier(schema=number).plan()
    refused(pl.SchemaError, lambda: LabelPrivateClassifier().plan(), match="schema is needed")


# --- what is learned from answers -----------------------------------------------------------------

@given(st.floats(0.01, 20.0), st.integers(2, 30), st.data())
@settings(max_examples=60, deadline=None)
def test_likelihoods_are_the_law_of_the_answer(epsilon, classes, draw):
    """Over all answers each class's chances add up to one; no two are further apart than e^eps."""
    size = draw.draw(st.integers(2, classes))
    mechanism = response(epsilon, size)
    lists = np.tile(np.arange(size), (size, 1))
    law = likelihood(np.arange(size), lists if size < classes else None, mechanism, classes)
    assert law.sum(axis=0) == pytest.approx(1.0)
    assert np.log(law.max() / law.min()) <= epsilon * (1 + 1e-9)


def test_lists_grow_as_the_model_knows_less():
    sure, unsure = np.array([0.97, 0.01, 0.01, 0.01]), np.full(4, 0.25)
    sizes, order = best_lists(np.stack([sure, unsure]), 1.0)
    assert sizes[0] == 2
    assert sizes[1] >= 3
    assert order[0, 0] == 0
    # At a large epsilon a label should always find itself in its list.
    assert best_lists(np.stack([sure]), 50.0)[0][0] == 4


def test_first_guesses_have_no_bias():
    """The law's expectation of a guess is the class itself."""
    mechanism = response(0.7, 3)
    law = likelihood(np.arange(3), None, mechanism, 3)  # row: answer, column: truth
    np.testing.assert_allclose(law.T @ first_guess(law), np.eye(3), atol=1e-12)


def test_weaker_answers_ask_for_larger_leaves():
    sizes = [least_leaf(likelihood(np.arange(2), None, response(e, 2), 2)) for e in (8, 1, 0.1)]
    assert sizes == sorted(sizes)
    assert 3 <= sizes[0] < sizes[-1] <= 200


def test_a_forest_of_one_tree_has_no_opinion_of_what_it_saw():
    law = likelihood(np.arange(8) % 3, None, response(1.0, 3), 3)
    forest = SoftForest(1, 2, 0).fit(np.arange(8.0)[:, None], law)
    assert np.isfinite(forest.soft).all()
    assert forest.soft.sum(axis=1) == pytest.approx(1.0)


def test_a_run_file_has_to_ask_for_labels_only_by_name(tmp_path, monkeypatch):
    # Found by name only where this version is installed.
    monkeypatch.setattr("privledger.cli.plan.load_learner", lambda _: LabelPrivateClassifier)
    X, y = table_of(200)
    schema = schema_of(("first", "second", "third"))
    (tmp_path / "t.json").write_text(json.dumps(schema.to_dict()))
    rows = zip(X["a"], X["colour"], y, strict=True)
    (tmp_path / "t.csv").write_text("a,colour,t\n" + "".join(
        f"{a},{colour},{label}\n" for a, colour, label in rows))
    run = tmp_path / "run.toml"
    for relation, code in (("", 1), ('relation = "replace_label"', 0)):
        run.write_text(f"""[run]
learner = "label-private-classifier"
[params]
epsilon = 1.0
n_trees = 5
[data]
table = "t.csv"
schema = "t.json"
[ledger]
path = "t.ledger"
{relation}
[budget]
epsilon = 1.0
delta = 0.0
""")
        result = CliRunner().invoke(main, ["run", str(run)])
        assert (result.exit_code != 0) == bool(code), result.output
        assert ("LABELS ONLY" in result.output) == (not code)
