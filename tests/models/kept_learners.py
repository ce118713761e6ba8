"""Every shipped learner, fitted on a small table of its kind."""

import numpy as np

import privledger as pl

FEATURES = (
    pl.Column("x", "numeric", "feature", 0.0, 1.0, missing=True),
    pl.Column("n", "numeric", "feature", 0.0, 9.0, integer=True),
    pl.Column("c", "categorical", "feature", categories=("a", "b", "d"), missing=True))
NUMBER = pl.Schema("numbers", (*FEATURES, pl.Column("y", "numeric", "target", 0.0, 1.0)))
CLASSES = pl.Schema("classes", (*FEATURES, pl.Column("y", "categorical", "target",
                                                     categories=("no", "yes", "maybe"))))
TWO = pl.Schema("two", (*FEATURES, pl.Column("y", "categorical", "target",
                                             categories=("yes", "no"))))
LEARNERS = {
    "auto-classifier": (CLASSES, {}),
    "auto-regressor": (NUMBER, {}),
    "joint-tree-classifier": (CLASSES, {}),
    "joint-tree-regressor": (NUMBER, {}),
    "dp-ert-classifier": (CLASSES, {"n_trees": 3}),
    "dp-ert-regressor": (NUMBER, {"n_trees": 3}),
    "dp-rf-classifier": (CLASSES, {"n_trees": 3}),
    "dp-rf-regressor": (NUMBER, {"n_trees": 3}),
    "dp-df-classifier": (CLASSES, {"n_trees": 3}),
    "max-tree-classifier": (CLASSES, {"n_trees": 3}),
    "srt-classifier": (CLASSES, {"n_trees": 3}),
    "ssrdt-classifier": (CLASSES, {}),
    "top-classifier": (CLASSES, {}),
    "rdt-classifier": (CLASSES, {"n_trees": 3}),
    "dpsis": (TWO, {"k": 2}),
    "dpsis-two-stage": (TWO, {"k": 2}),
    "diprime-forest-classifier": (CLASSES, {"n_trees": 3}),
    "diprime-forest-regressor": (NUMBER, {"n_trees": 3}),
    "multinomial-forest-classifier": (CLASSES, {}),
    "label-private-classifier": (CLASSES, {"n_trees": 5}),
    "linear-classifier": (CLASSES, {"n_steps": 5}),
    "linear-regressor": (NUMBER, {"n_steps": 5}),
    "marginal-synthesizer": (CLASSES, {}),
    "naive-bayes-classifier": (CLASSES, {}),
    "nearest-centroid-classifier": (CLASSES, {}),
    "least-squares-regressor": (NUMBER.select(("x", "n")), {}),
    "k-means": (NUMBER, {"n_clusters": 3}),
    "pca": (NUMBER, {}),
    "private-ensemble-classifier": (CLASSES, {}),
    "summary": (NUMBER, {"statistics": ["mean(x)", "count"], "by": ["c"]}),
    "sgbdt-regressor": (NUMBER, {"n_trees": 5}),
    "sgbdt-classifier": (CLASSES, {"n_trees": 5}),
    "dpboost-regressor": (NUMBER, {"n_trees": 3}),
    "dpboost-classifier": (TWO, {"n_trees": 3})}


def table(schema, n=200, seed=1):
    """Columns with gaps, and a target."""
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    X = {"x": np.where(rng.random(n) < 0.1, np.nan, x), "n": rng.integers(0, 10, n).astype(float),
         "c": np.array([None, "a", "b", "d"], dtype=object)[rng.integers(0, 4, n)]}
    if schema.task == "regression":
        return X, x
    labels = np.array(schema.target.categories)
    return X, labels[np.minimum((x * len(labels)).astype(int), len(labels) - 1)]


def fitted(name, **more):
    schema, params = LEARNERS[name]
    kind = pl.load_learner(name)
    learner = kind(epsilon=5.0, schema=schema, **params, **more)
    return learner.fit(*table(schema))

