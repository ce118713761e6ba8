"""Linear models by noisy gradient descent: the learners' parameters, and what they leave behind.

The descent reads in gradient_descent.py, the model in linear_model.py; docs/papers/linear.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import privledger as pl
from privledger_learners.boosting.sum_of_trees import Priced, class_scores, loss_of, scaling
from privledger_learners.estimator import (
    LabelClassifier,
    PrivateLearner,
    Relation,
    check_choice,
    check_count,
    check_number,
)
from privledger_learners.floor import Floor
from privledger_learners.gradient_descent import WAVES, Descent, LinearRule, check_width
from privledger_learners.guarding import note_features
from privledger_learners.importances import importances
from privledger_learners.linear_model import LinearModel
from privledger_learners.scikit import RegressorMixin, check_is_fitted


class _Linear(PrivateLearner):
    """Shared by regressor and classifier; see their docstrings.

    Attributes:
        model_: released values only.
    """

    model_: LinearModel
    loss = ""
    model_records = (LinearModel,)
    floors: Mapping[str, float] = {"classification": 20.0, "regression": 50.0}

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        n_steps: int = 100,
        gradient_clip: float | None = None,
        sampling_rate: float = 1.0,
        log_scale: bool = True,
        hinges: bool = True,
        features: str = "columns",
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.n_steps = n_steps
        self.gradient_clip = gradient_clip
        self.sampling_rate = sampling_rate
        self.log_scale = log_scale
        self.hinges = hinges
        self.features = features
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _check(self) -> None:
        check_choice("mode", self.mode, ("private", "simulation"))
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_choice("features", self.features, ("columns", "fourier"))
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0)
        check_count("n_steps", self.n_steps, 2, 10**5)
        check_number("sampling_rate", self.sampling_rate, 0.0, 1.0)
        if self.gradient_clip is not None:
            check_number("gradient_clip", self.gradient_clip, 0.0, 1e3)
        for name in ("log_scale", "hinges"):
            if type(getattr(self, name)) is not bool:
                raise pl.InvalidValue(name, getattr(self, name), "True or False")
        if self.sampling_rate < 1 and self.relation != "add_remove":
            raise pl.errors.RelationMismatch("sampled steps are priced under add_remove only")

    @property
    def _waves(self) -> int:
        return WAVES if self.features == "fourier" else 0

    def _recipe(self, schema: pl.Schema) -> Priced[LinearRule]:
        self._check()
        if self._waves and not any(column.kind == "numeric" for column in schema.features):
            raise pl.InvalidValue("features", self.features, "columns: no feature is a number")
        check_width(schema, self.hinges, self._waves)
        mu = 1 / pl.calibrate(pl.Gaussian, self.epsilon, self.delta, self.relation)
        rule = LinearRule.of(schema, mu, steps=int(self.n_steps),
                             bought_clip=self.gradient_clip is None or self.loss == "huber",
                             sampling_rate=float(self.sampling_rate))
        noise = pl.calibrate(rule.plan, self.epsilon, self.delta, self.relation)
        return Priced(rule, noise, rule.plan(noise))

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """No paper's price is claimed: the sound cost of the plan."""
        known = self._known(schema)
        floor = self._floor(known)
        if floor is not None:
            return floor.claimed(self.delta)
        return (pl.ClaimStep("everything", "not from a paper", None, pl.epsilon(
            self._recipe(known).plan, self.delta, self.relation), self.delta,
            "Gaussian sums of clipped vectors, one after the other"),)

    def _floor_of(self, schema: pl.Schema, why: str) -> Floor:
        return Floor.gaussian(schema, self.relation, float(self.epsilon), float(self.delta), why)

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        start = (class_scores(shares) if data.schema.task == "classification"
                 else 2 * shares - 1)
        self._keep(LinearModel.blank(data.schema, start, *scaling(data.schema)))

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced = self._recipe(self._known(schema))
        model = self._granted(data, priced.plan,
                              lambda session: Descent(
                                  session, data, priced.rule, priced.noise, self.gradient_clip,
                                  self.log_scale, self.hinges, self._waves, self.loss).run())
        self.fell_back_ = self._hopeless(schema, model.n_hat)
        self._keep(model)

    def _keep(self, model: LinearModel) -> None:
        """Keep the model; where it fell back without weights, which are paid for and noise."""
        if self.fell_back_:
            model.weights[:] = 0.0
        self.model_ = model

    def _scores(self, X: object) -> np.ndarray:
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        return self.model_.scores(pl.encode_features(X, self.model_.schema, strict=False))

    @property
    def coef_(self) -> np.ndarray:
        """Weights of the encoded columns, shape (columns,) or (classes, columns), without the
        constant: standardised numbers (each with its hinge beside it) and categories."""
        check_is_fitted(self, "model_")
        found = self.model_.weights[:-1].T
        return np.asarray(found[0] if len(found) == 1 else found)

    @property
    def intercept_(self) -> np.ndarray:
        """Score of a row of zeros, shape (1,) or (classes,)."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.start + self.model_.weights[-1])

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much the score hangs on each feature, shape (features,). Costs nothing.

        Of the released model over public points, see `importances`: no row is looked at.
        """
        check_is_fitted(self, "model_")
        bins = pl.questions.Bins(self.model_.schema, 64)
        return importances(lambda codes: self.model_.scores_of(codes, bins), bins)


class LinearRegressor(RegressorMixin, _Linear):
    """Differentially private linear regression by noisy gradient descent on clipped gradients.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_steps: of the descent; their number is part of the plan.
        gradient_clip: bound on a record's gradient, in lengths of a typical row; None for the
            rule: bought for a number, .5 for classes.
        sampling_rate: Poisson rate of a step; below 1 this is DP-SGD.
        log_scale: numbers of a one-sided range of 50 or more are read on a logarithmic scale, and
            those of 1,000 or more around zero where released sums say that they lie near it.
        hinges: a second column |u| for every standardised number u.
        features: "columns", or "fourier": random Fourier features of the numbers beside them, by
            public coins, which cost nothing. For very few curved columns.
        loss: "squared"; "huber", for targets of heavy tails: beyond a bought size errors count
            straight, not squared; or "poisson", for counts, whose logarithm is linear.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        coef_, intercept_: of the encoded columns. model_: released values only.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("linear-regressor", "noisy gradient descent on a linear model, for a "
                          "number", "", ("add_remove", "replace_one"), ("regression",))

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        loss: str = "squared",
        n_steps: int = 100,
        gradient_clip: float | None = None,
        sampling_rate: float = 1.0,
        log_scale: bool = True,
        hinges: bool = True,
        features: str = "columns",
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        super().__init__(
            epsilon, delta, schema, n_steps=n_steps, gradient_clip=gradient_clip,
            sampling_rate=sampling_rate, log_scale=log_scale, hinges=hinges, features=features,
            relation=relation, mode=mode, random_state=random_state, unaccounted=unaccounted)
        self.loss = loss

    def _check(self) -> None:
        super()._check()
        check_choice("loss", self.loss, ("squared", "huber", "poisson"))

    def predict(self, X: object) -> np.ndarray:
        """Predictions in the target's unit, shape (n,). Post-processing: costs nothing."""
        scores = self._scores(X)
        means = pl.questions.probabilities(self.model_.loss or "squared", scores)
        target = self.model_.schema.target
        return np.clip(self.model_.center + self.model_.scale * means, target.lower, target.upper)


class LinearClassifier(LabelClassifier, _Linear):
    """Differentially private logistic or softmax regression; parameters as `LinearRegressor`."""

    info = pl.LearnerInfo("linear-classifier", "noisy gradient descent on a linear model, for "
                          "classes", "", ("add_remove", "replace_one"), ("classification",))

    def _shares(self, X: object) -> np.ndarray:
        found = np.asarray(pl.questions.probabilities(loss_of(self.model_.schema),
                                                      self._scores(X)))
        return np.stack([1 - found, found], axis=1) if found.ndim == 1 else found

    def decision_function(self, X: object) -> np.ndarray:
        """Scores: shape (n,) for two classes, towards `classes_[1]`; else (n, classes)."""
        scores = self._scores(X)
        if scores.ndim == 1:
            return scores if self._order[1] == 1 else -scores
        return np.asarray(scores[:, self._order])


__all__ = ["LinearClassifier", "LinearRegressor"]
