"""LabelPrivateClassifier: labels answer once by randomised response, then anything may learn.

Protects LABELS ONLY; docs/papers/label-private.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

import privledger as pl
from privledger_learners.accounted import Accounted
from privledger_learners.checking import check_choice, check_count, check_number
from privledger_learners.guarding import forget_guarded, guard, note_features, with_unlabelled
from privledger_learners.labels import as_labels, sorted_labels
from privledger_learners.responses.recipe import RELATION, LabelRecipe
from privledger_learners.responses.soft_forest import Boughs, SoftForest, positive_shares
from privledger_learners.responses.tables import numbers

LEAST_SHARE = 0.02


class LabelPrivateClassifier(Accounted, ClassifierMixin, BaseEstimator):
    """Any classifier, where features are public and only labels are private.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        estimator: a scikit-learn classifier that learns from the answers, on scaled and one-hot
            columns, weighted by each class's share given the answer where it takes weights.
            None: a random forest on those shares.
        first_share: with more than two classes, the part of the records that answers among all
            of them; a model of their answers proposes candidates to the others. 1: no second
            stage.
        n_trees: of the default forest, and of the one that proposes candidates.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        model_: what was learned, from public features and released answers.
        guarantee_: what the ledger promises, in words: LABELS ONLY.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo(
        "label-private-classifier", "any classifier on labels that answered by randomised "
        "response; protects LABELS ONLY", "after arXiv:2102.06062", ("replace_label",),
        ("classification",))
    relation = RELATION
    unlabelled = True
    model_records = (SoftForest, Boughs)
    model_attributes = ("_inferred", "_order")

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        estimator: Any = None,
        first_share: float = 0.5,
        n_trees: int = 100,
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.estimator = estimator
        self.first_share = first_share
        self.n_trees = n_trees
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The composition node of `fit`, from public facts only."""
        return self._recipe(schema if schema is not None else self.schema).plan

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """What is charged; there is no paper. Never charged itself."""
        return self._recipe(schema if schema is not None else self.schema).claimed()

    def fit(self, X: Any, y: Any = None, X_unlabelled: Any = None) -> LabelPrivateClassifier:
        """Train under a grant.

        Args:
            X: a guarded `Dataset` of a `replace_label` ledger, or a table; a table is put behind
                a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table; None or NaN marks a row without a label.
            X_unlabelled: more rows, without labels. They ask nothing, and teach nothing here.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        self._check()
        if X_unlabelled is not None:
            X, y = with_unlabelled(X, y, X_unlabelled, self._known(self.schema))
        data, schema = guard(self, X, y)
        recipe = self._recipe(schema)
        rng = np.random.default_rng(self.random_state)
        table = numbers(data.public_features, one_hot=False)
        with data.ledger.request(recipe.plan, data, learner=self.info.name,
                                 delta=self.delta) as session:
            answers = recipe.ask(session, data, table, self._forest(recipe, rng), rng)
        known = data.public_labelled
        forest = self._forest(recipe, rng).fit(table[known], answers[known])
        self.model_ = forest if self.estimator is None else self._taught(
            numbers(data.public_features, one_hot=True)[known], forest.soft)
        self.receipt_ = session.receipt
        self.ledger_ = data.ledger
        self.data_ = data
        self.schema_ = schema
        self.private_ = data.ledger.mode == "private"
        self.guarantee_ = repr(data.ledger)
        self.classes_, self._order = sorted_labels(list(schema.target.categories))
        return self

    def _known(self, schema: Any) -> pl.Schema:
        if not isinstance(schema, pl.Schema):
            raise pl.SchemaError("a schema is needed: categories must be public facts, they are "
                                 "never read off the labels")
        if schema.task != "classification":
            raise pl.SchemaError(f"{type(self).__name__} does classification; the target column "
                                 f"{schema.target.name!r} is for {schema.task}")
        if len(schema.target.categories) < 2:
            raise pl.SchemaError("a classifier needs a target of at least two categories; "
                                 "Classifier can't train when only one class is declared")
        return schema

    def _recipe(self, schema: Any) -> LabelRecipe:
        self._check()
        return LabelRecipe(self._known(schema), float(self.epsilon), float(self.first_share))

    def _check(self) -> None:
        check_number("epsilon", self.epsilon, 0.0, 500.0)
        check_number("delta", self.delta, 0.0, 1.0, open_low=False)
        check_number("first_share", self.first_share, 0.0, 1.0)
        check_count("n_trees", self.n_trees, 1, 10_000)
        check_choice("mode", self.mode, ("private", "simulation"))

    def _forest(self, recipe: LabelRecipe, rng: np.random.Generator) -> SoftForest:
        # Two classes: shares of one round already order the classes.
        rounds = 1 if recipe.classes == 2 else 2
        return SoftForest(self.n_trees, rounds, int(rng.integers(2**31)))

    def _taught(self, table: np.ndarray, soft: np.ndarray) -> Any:
        """The user's estimator on class positions."""
        model = clone(self.estimator)
        if not has_fit_parameter(model, "sample_weight"):
            return model.fit(table, soft.argmax(axis=1))
        rows, codes = np.nonzero(soft > LEAST_SHARE)
        return model.fit(table[rows], codes, sample_weight=soft[rows, codes])

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, shape (n, classes), columns as in `classes_`, which is sorted."""
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        columns = pl.encode_features(X, self.schema_, strict=False)
        if isinstance(self.model_, SoftForest):
            return self.model_.shares(numbers(columns, one_hot=False))[:, self._order]
        table = numbers(columns, one_hot=True)
        found = np.zeros((len(table), len(self._order)))
        if hasattr(self.model_, "predict_proba"):
            found[:, self.model_.classes_] = self.model_.predict_proba(table)
        else:
            found[np.arange(len(table)), self.model_.predict(table)] = 1.0
        return positive_shares(found)[:, self._order]

    def predict(self, X: Any) -> np.ndarray:
        """Labels as in the schema's category list, shape (n,)."""
        shares = self.predict_proba(X)
        return self.classes_[shares.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Labels may be spelled as the schema allows: 1, 1.0 and "1" are the same."""
        return float(super().score(X, as_labels(y, self.classes_), sample_weight))

    def __getstate__(self) -> dict[str, Any]:
        return forget_guarded(super().__getstate__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.mode != "simulation"
        return tags


__all__ = ["LabelPrivateClassifier"]
