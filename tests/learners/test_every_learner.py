"""What is asked of every learner alike: plans cost epsilon; impossible settings read nothing."""

import itertools
import json
import math
from inspect import signature
from pathlib import Path

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from tests.all_cases import all_cases
from tests.models.kept_learners import CLASSES, LEARNERS, table
from tests.worlds import refused

NAN, INF = math.nan, math.inf
BOTH, ROWS = ("add_remove", "replace_one"), (None, 4000)
TREES = {"relation": BOTH, "depth": (None, 2), "delta": (0.0,), "n_trees": (4,)}
PLANS = {  # learner -> values of each parameter, all together
    "joint-tree-classifier": {"relation": BOTH, "rows": (*ROWS, 10**7)},
    "diprime-forest-classifier": {**TREES, "variant": ("base", "exp", "flip", "joint"),
                                  "partitioned": (True, False), "max_depth": (4,)},
    "multinomial-forest-classifier": {**TREES, "variant": ("multinomial", "joint"),
                                      "halves": (True, False), "labels": ("drawn", "counts"),
                                      "depth": (None,), "max_depth": (4,)},
    "dpboost-classifier": {"relation": BOTH, "rows": (None, 100, 10**7)},
    **{name: TREES for name in LEARNERS if name.startswith(
        ("dp-rf", "dp-ert", "rdt", "dp-df", "max-tree", "srt"))},
    "ssrdt-classifier": {}, "top-classifier": {},
    "label-private-classifier": {"first_share": (0.5, 1.0), "epsilon": (0.01, 2.0, 30.0)}}
DEEP = {"delta": 1e-6, "depth": 1}
ENSEMBLES = [{}, {"variant": "paper"}, {"depth": 3}, {"setting": "sspe1"}, {"setting": "sspe2"},
             {"setting": "sspe1", "linkage": "linked"}, {"setting": "pte", "variant": "paper"},
             {"n_trees": 1, "sharing": "disjoint"}]
SETTINGS = [(name, dict(zip(values, chosen, strict=True))) for name, values in PLANS.items()
            for chosen in itertools.product(*values.values())]
SETTINGS += [(name, {**DEEP, "relation": relation}) for name, values in PLANS.items()
             if values is TREES for relation in BOTH]
SETTINGS += [("private-ensemble-classifier", {**options, "rows": rows})
             for options in ENSEMBLES for rows in ROWS]


def made(name, rows=None, **options):
    schema, small = LEARNERS[name]
    schema = evolve(schema, expected_rows=rows,
                    expected_rows_provenance=None if rows is None else "declared")
    return pl.load_learner(name)(**{"epsilon": 0.7, "schema": schema, **small, **options})


@all_cases(("name", "options"), SETTINGS)
def test_the_plan_costs_epsilon(name, options):
    learner = made(name, **options)
    relation = getattr(learner, "relation", learner.info.relations[0])
    cost = pl.epsilon(learner.plan(), learner.delta, relation)
    assert learner.epsilon * (1 - (1e-4 if learner.delta else 1e-6)) <= cost <= learner.epsilon
    assert learner.claimed()[-1].sound == cost


FORESTS = [  # (learner, parameters, epsilon, accuracy): with two classes, or one that never occurs
    ("joint-tree-classifier", {}, 4.0, 0.93, "rings"),
    *(("diprime-forest-classifier", {"variant": variant}, 8.0, least, "rings_and_never")
      for variant, least in (("base", 0.6), ("exp", 0.75), ("joint", 0.9))),
    *(("multinomial-forest-classifier", options, 40.0, least, "rings_and_never")
      for options, least in (({}, 0.85), ({"labels": "drawn", "halves": True}, 0.85), (
          {"variant": "multinomial", "depth": 4, "n_trees": 5}, 0.55)))]


@pytest.mark.parametrize(("name", "options", "epsilon", "least", "table"), FORESTS)
def test_a_forest_learns(request, name, options, epsilon, least, table):
    """Bounds lie many standard deviations below what comes out (5.9 or more in 25 fits each of
    multinomial forests); not a privacy test."""
    schema, X, y = request.getfixturevalue(table)
    if name.startswith("multinomial"):
        y = np.where((X["a"] < 0.2) | (X["colour"] == "blue"), "in", "out")
    model = pl.load_learner(name)(epsilon=epsilon, schema=schema, **options).fit(X, y)
    assert model.score(X, y) > least
    shares = model.predict_proba(X)
    assert shares.shape == (4000, len(schema.target.categories))
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert model.ledger_.spent <= epsilon and model.ledger_.verify() == []


ANY = [{"epsilon": 0.0}, {"epsilon": NAN}, {"epsilon": True}, {"epsilon": -1.0}, {"epsilon": INF},
       {"epsilon": "1"}, {"delta": -1e-9}, {"delta": NAN}, {"delta": True}, {"delta": 1.0},
       {"relation": "both"}]
SHAPE = [{"depth": 0}, {"depth": 15}, {"depth": 2.5}, {"n_trees": 0}, {"n_trees": 1.5},
         {"n_trees": True}, {"numeric_bins": 10**6}, {"smoothing": -1.0}]
BOOSTING = [{"count_share": 0.0}, {"count_share": 1.0}, {"gradient_clip": NAN},
            {"learning_rate": -0.1}, {"depth": 0}, {"n_trees": 0}, {"n_trees": 1.5},
            {"n_trees": True}]
WRONG = {
    "auto-classifier": [{"mode": "public"}],
    "joint-tree-classifier": [*(one for one in SHAPE if "n_trees" not in one), {"count_share": 0.6},
                              {"structure_share": 1.0}],
    "diprime-forest-classifier": [
        *SHAPE, {"variant": "best"}, {"partitioned": "yes"}, {"split_share": 1.0},
        {"candidates": 0}, {"level_ratio": INF}, {"attribute_share": 0.0}, {"per_leaf": 0}],
    "multinomial-forest-classifier": [
        *SHAPE[:6], {"variant": "best"}, {"impurity": "log"}, {"labels": "all"}, {"halves": "yes"},
        {"b1": 0.1}, {"b1": 0.1, "b2": 0.1, "b3": 1.0}, {"per_leaf": -1},
        {"b1": INF, "b2": 0.1, "b3": 1.0, "depth": 2, "variant": "multinomial"}],
    "private-ensemble-classifier": [
        *SHAPE, {"setting": "SPE"}, {"setting": None}, {"variant": "published"}, {"max_depth": 0},
        {"linkage": "unknown"}, {"sharing": "some"}, {"structure_share": 0.0},
        {"structure_share": 1.0}, {"count_share": 0.6}, {"level_ratio": 0.0}, {"level_ratio": INF},
        {"votes": "most"}, {"smoothing": 0.0}, {"smoothing": 0.0, "votes": "log"},
        {"variant": "paper", "votes": "log"}, {"variant": "paper", "smoothing": 1.0},
        {"second_trees": 0}],
    "label-private-classifier": [{"first_share": 0.0}, {"first_share": 1.5}, {"first_share": NAN},
                                 {"n_trees": 0}, {"n_trees": 2.5}, {"epsilon": 1e4}],
    "linear-classifier": [
        {"delta": 0.0}, {"n_steps": 1}, {"n_steps": True}, {"sampling_rate": 0.0},
        {"features": "waves"}, {"gradient_clip": -1.0}, {"log_scale": 1}, {"hinges": None}],
    "sgbdt-regressor": [
        *BOOSTING, {"epsilon": 5e-324}, {"sampling_rate": 0.0}, {"sampling_rate": 1.1},
        {"splits": "best"}, {"individual_filter": "rdp"}, {"extra_rounds": 3}, {"falling_clip": 1},
        {"falling_clip": "yes"}, *({"ranges": one} for one in ("", "data", None, 1, True))],
    "dpboost-regressor": [
        *BOOSTING, {"delta": "0"}, {"n_trees": 7, "parts": 2}, {"parts": 0}, {"parts": 2.0},
        {"depth": 11}, {"split_share": 0.0}, {"split_share": 1.0}, {"start_share": 1.0},
        {"gradient_filtering": 1}, {"geometric": "yes"}, {"leaf": "mean"}, {"penalty": -1.0},
        {"numeric_bins": 65535}, {"regularization": 0.0}],
    "dpsis": [{"k": 4}, {"k": 0}, {"k": True}, {"k": 2.0}, {"method": "best"}, {"scores": "votes"},
              {"scores": "beauty"}]}


@all_cases(("name", "wrong"), [(name, one) for name in WRONG for one in (*ANY, *WRONG[name])])
def test_impossible_settings_are_refused_before_anything_is_read(name, wrong):
    schema = LEARNERS[name][0]
    if not set(wrong) <= set(pl.load_learner(name)().get_params()):
        return
    labels_only = pl.load_learner(name).info.relations == ("replace_label",)
    ledger = pl.Ledger.create(None, budget=pl.Budget(100.0, 0.1), relation="replace_label" if (
        labels_only) else "add_remove")
    data = ledger.protect(*table(schema), schema, public_features=labels_only)
    error = pl.errors.RelationMismatch if "relation" in wrong else pl.InvalidValue
    refused(error, lambda: made(name, **{"delta": 1e-6, **wrong}).fit(data))
    assert data._vault.opened == 0 and not ledger.state.grants


@pytest.mark.parametrize("name", [name for name in LEARNERS if name not in ("summary",)])
def test_a_schema_is_never_inferred_for_a_private_fit(name):
    X, y = table(LEARNERS[name][0])
    for schema in (None, {"columns": []}):
        with pytest.raises((pl.SchemaError, pl.InvalidValue)):
            made(name, schema=schema).fit(X, y)


@pytest.mark.parametrize("name", ["sgbdt-regressor", "dpsis", "dpsis-two-stage"])
def test_a_simulation_says_so_everywhere_and_repeats(name):
    X, y = table(LEARNERS[name][0])
    one, two = (made(name, delta=1e-6, mode="simulation", random_state=4, unaccounted=True).fit(
        X, y) for _ in range(2))
    assert not one.private_ and one.receipt_.mode == "simulation"
    assert "NOT PRIVATE" in repr(one.ledger_)
    ask = "predict" if hasattr(one, "predict") else "transform"
    np.testing.assert_array_equal(*(list(getattr(fit, ask)(X)) for fit in (one, two)))


def test_labels_may_be_spelled_as_the_schema_allows():
    schema = evolve(CLASSES, columns=(*CLASSES.columns[:-1], pl.Column(
        "y", "categorical", "target", categories=("0", "1"))))
    X, y = table(schema, 1500)
    model = made("sgbdt-classifier", epsilon=40.0, delta=1e-6, schema=schema, n_trees=40, mode=(
        "simulation"), random_state=1).fit(X, y.astype(int))
    assert model.score(X, y.astype(int)) == model.score(X, y) > 0.7
    assert model.score(X, [f"{label}.0" for label in y]) == model.score(X, y)


DEFAULTS = Path(__file__).with_name("defaults.json")


def defaults():
    return {name: {one.name: one.default if isinstance(one.default, int | float | str | None)
                   else repr(one.default)
                   for one in signature(pl.load_learner(name)).parameters.values()}
            for name in sorted(LEARNERS)}


def test_defaults_are_what_they_were():
    """A fit without a setting is another fit where one moves. After a change that is meant:
    `python -m tests.learners.test_every_learner`."""
    assert defaults() == json.loads(DEFAULTS.read_text(encoding="utf-8"))


if __name__ == "__main__":
    lines = (f' "{name}": {json.dumps(held)}' for name, held in defaults().items())
    DEFAULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
