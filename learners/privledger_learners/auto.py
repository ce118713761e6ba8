"""One name to recommend: which learner fits is chosen by public facts, never by a look at rows.

The rule and its evidence, learner by set by epsilon: docs/which-learner.md.
"""

from __future__ import annotations

import math
import warnings
from inspect import signature
from typing import Protocol, cast

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.boosting.sum_of_trees import Model, Shape, Start
from privledger_learners.estimator import (
    LabelClassifier,
    NoiseFloorWarning,
    Planned,
    PrivateLearner,
    Relation,
    check_choice,
    check_number,
)
from privledger_learners.gradient_descent import MOST_NUMBERS, columns_of
from privledger_learners.joint_tree import JointTreeClassifier, JointTreeRegressor
from privledger_learners.linear import LinearClassifier, LinearRegressor
from privledger_learners.linear_model import LinearModel, log_scaled
from privledger_learners.partitioning import PrivateEnsembleClassifier
from privledger_learners.scikit import RegressorMixin, check_is_fitted
from privledger_learners.sgbdt import SGBDTClassifier, SGBDTRegressor
from privledger_learners.trees.forest import Forest, Tree

KINDS: dict[str, type[PrivateLearner]] = {kind.info.name: kind for kind in (
    SGBDTClassifier, SGBDTRegressor, LinearClassifier, LinearRegressor, JointTreeClassifier,
    JointTreeRegressor, PrivateEnsembleClassifier)}
FEW, WEAK, PLENTY, MANY, FEWEST = 35.0, 100.0, 1000.0, 16, 3
"""Rows times mu below which a start is noise; rows times mu over the root of the columns below
which trees are; numeric columns from which on classes are told apart by a plane. Above `PLENTY`
trees alone say what a line says, in a fifth of the time."""
MOST_CLASSES, SEVERAL = 5, 12
"""At delta 0: more classes, and at least so many numbers, ask for an ensemble."""
USUAL_ROWS = 4000  # where it was not declared how many there are


@frozen
class PublicFacts:
    """All that a choice may rest on; none of it says anything of a record.

    Attributes:
        task: `classification` or `regression`.
        features, numeric: how many there are, and how many of them are numbers.
        classes: of the target; 0 for a number.
        rows: declared, or public under replace_one; None where it is unknown.
        epsilon, delta: of one fit.
        wide: how many of the numbers have a wide range, one-sided or around zero.
        fits: whether a linear model of the columns is narrow enough to be asked.
    """

    task: str
    features: int
    numeric: int
    classes: int
    rows: int | None
    epsilon: float
    delta: float
    relation: Relation
    wide: int = 0
    fits: bool = True

    @classmethod
    def of(cls, schema: pl.Schema, epsilon: float, delta: float,
           relation: Relation) -> PublicFacts:
        """Those of a schema and of what one fit may cost."""
        return cls(schema.task, len(schema.features),
                   sum(column.kind == "numeric" for column in schema.features),
                   len(schema.target.categories), schema.rows_for(relation), epsilon, delta,
                   relation, sum(map(log_scaled, schema.features)),
                   columns_of(schema) <= MOST_NUMBERS)


@frozen
class Choice:
    """A learner's registered name, a sentence why, and parameters beside those it shares."""

    name: str
    why: str
    options: tuple[tuple[str, object], ...] = ()


def choose(facts: PublicFacts) -> Choice:
    """The rule: by how far the rows stand out of the noise, and by columns. The page has figures.

    mu is the Gaussian-DP parameter of (epsilon, delta). At delta 0 there is no Gaussian noise.
    """
    suffix = "regressor" if facts.task == "regression" else "classifier"
    if (facts.delta == 0 and facts.relation == "add_remove" and facts.classes > MOST_CLASSES
            and facts.numeric >= SEVERAL):
        return Choice("private-ensemble-classifier", f"delta is 0: of the learners of pure epsilon "
                      f"median trees lead for {facts.classes} classes by {facts.numeric} numbers")
    if facts.delta == 0:
        return Choice(f"joint-tree-{suffix}", "delta is 0, and boosting by Gaussian noise needs "
                      "one above 0: of the learners of pure epsilon this one leads on average")
    signal = (facts.rows or USUAL_ROWS) / pl.calibrate(
        pl.Gaussian, facts.epsilon, facts.delta, facts.relation)
    # Cuts at even steps of a wide range miss where its records are.
    log = (("ranges", "log"),) if 0 < facts.features <= 2 * facts.wide else ()
    each = signal / math.sqrt(facts.features + 1)
    if signal >= FEW and facts.classes and facts.features == facts.numeric <= FEWEST:
        return Choice(f"linear-{suffix}", f"at most {FEWEST} features, all numbers: their random "
                      "Fourier features bend where trees have steps", (("features", "fourier"),))
    if signal < FEW or facts.features <= FEWEST or not facts.fits:
        return Choice(f"sgbdt-{suffix}", f"{facts.features} features and rows times mu of about "
                      f"{signal:.0f}: trees on the mean lead where a linear model has few columns "
                      "or too little signal to learn from", log)
    if each < WEAK or (facts.classes and facts.numeric >= MANY):
        return Choice(f"linear-{suffix}", f"{facts.numeric} of {facts.features} features are "
                      f"numbers, rows times mu over their root are about {each:.0f}: one linear "
                      "model says more than trees")
    if each > PLENTY:
        return Choice(f"sgbdt-{suffix}", "rows times mu over the root of the features are about "
                      f"{each:.0f}: trees need no other start", log)
    return Choice(f"sgbdt-{suffix}", f"{facts.numeric} of {facts.features} features are numbers, "
                  f"rows times mu over their root are about {each:.0f}: trees on a linear model "
                  "lead", (("start", "linear"), *log))


class _Predicts(Protocol):
    """A fitted learner; classifiers have shares."""

    @property
    def feature_importances_(self) -> np.ndarray:
        """How much the answer hangs on each feature, shape (features,)."""

    def predict(self, X: object) -> np.ndarray:
        """Labels or numbers of every row, shape (n,)."""

    def _shares(self, X: object) -> np.ndarray:
        """Class shares of every row, shape (n, classes)."""


class _Auto(PrivateLearner):
    """Shared by classifier and regressor; see their docstrings."""

    model_records = (Model, Shape, Start, LinearModel, Forest, Tree)
    chosen_: str

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def choice(self, schema: pl.Schema | None = None) -> Choice:
        """Which learner a fit takes, and why; from public facts, before data exist."""
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0, open_low=False)
        check_choice("mode", self.mode, ("private", "simulation"))
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        return choose(PublicFacts.of(self._known(schema), float(self.epsilon),
                                     float(self.delta), self.relation))

    def _made(self, name: str, options: tuple[tuple[str, object], ...] = ()) -> PrivateLearner:
        """The learner of that name with its defaults, but for the rule's options and for this
        one's parameters that it has.

        It asks under this one's name, which is what the ledger's policy was asked about.
        """
        kind = KINDS[name]
        shared = {key: value for key, value in self.get_params(deep=False).items()
                  if key in signature(kind).parameters}
        made = kind(**shared, **dict(options))
        made.info = evolve(made.info, name=self.info.name)
        return made

    def _chosen(self, schema: pl.Schema | None) -> PrivateLearner:
        chosen = self.choice(schema)
        return self._made(chosen.name, chosen.options)

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The chosen learner's: the composition node of `fit`, from public facts only."""
        return self._chosen(schema).plan(schema)

    def _recipe(self, schema: pl.Schema) -> Planned:
        return self._chosen(schema)._recipe(schema)

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The choice and why, which costs nothing; then what the chosen learner claims."""
        chosen = self.choice(schema)
        first = pl.ClaimStep(f"learner: {chosen.name}", "docs/which-learner.md", None, 0.0,
                             float(self.delta), f"chosen by public facts. {chosen.why}")
        return (first, *self._chosen(schema).claimed(schema))

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        chosen = self.choice(schema)
        made = self._chosen(schema)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseFloorWarning)  # said once, by this one
            made._labelled(getattr(self, "_request_labels", None), data, schema)
        for name in self._learned():  # of an earlier fit, perhaps of another learner
            delattr(self, name)
        self.__dict__.update({name: value for name, value in vars(made).items()
                           if name.endswith("_")})
        self.schema_, self.chosen_, self.why_ = schema, chosen.name, chosen.why

    def _learned(self) -> list[str]:
        """Names of what a fit leaves behind, beside what is said of features and classes."""
        kept = ("n_features_in_", "feature_names_in_", "classes_")
        return [name for name in vars(self) if name.endswith("_") and name not in kept]

    def _fitted(self) -> _Predicts:
        """The chosen learner with what was learned."""
        check_is_fitted(self, "chosen_")
        made = self._made(self.chosen_)
        made.__dict__.update({name: value for name, value in vars(self).items()
                           if name.endswith("_") or name in self.model_attributes})
        return cast(_Predicts, made)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Of the chosen learner, shape (features,). Post-processing: costs nothing."""
        return self._fitted().feature_importances_

    def predict(self, X: object) -> np.ndarray:
        """What the chosen learner predicts, shape (n,). Post-processing: costs nothing."""
        return np.asarray(self._fitted().predict(X))


class AutoClassifier(LabelClassifier, _Auto):
    """The learner that public facts recommend, for two or more classes.

    The choice follows from public facts alone; no record is looked at and nothing is tried out, so
    it costs nothing. The rule: docs/which-learner.md.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability.
        schema: public facts of the table; required unless a guarded Dataset is given.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: public choices only; never noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        chosen_, why_: name of the learner that was fitted, and the reason.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
        All other fitted attributes are those of the chosen learner.
    """

    info = pl.LearnerInfo("auto-classifier", "the learner that public facts recommend, for "
                          "classes", "", ("add_remove", "replace_one"), ("classification",))

    def _shares(self, X: object) -> np.ndarray:
        return np.asarray(self._fitted()._shares(X))

    def predict(self, X: object) -> np.ndarray:
        """Labels as in the schema's category list, shape (n,). Costs nothing."""
        return np.asarray(self._fitted().predict(X))


class AutoRegressor(RegressorMixin, _Auto):
    """The same for a number. Parameters and attributes as in `AutoClassifier`."""

    info = pl.LearnerInfo("auto-regressor", "the learner that public facts recommend, for a "
                          "number", "", ("add_remove", "replace_one"), ("regression",))


__all__ = ["AutoClassifier", "AutoRegressor", "Choice", "PublicFacts", "choose"]
