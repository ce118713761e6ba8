"""What every learner shares: checked parameters, a schema, a plan, one grant, and what is kept."""

from __future__ import annotations

import math
import numbers
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol, Self, TypeVar

import numpy as np

import privledger as pl
from privledger_learners.accounted import Accounted
from privledger_learners.floor import Floor
from privledger_learners.floor import Relation as Relation
from privledger_learners.guarding import forget_guarded, guard
from privledger_learners.scikit import BaseEstimator, ClassifierMixin, check_is_fitted

Learned = TypeVar("Learned")


def check_number(name: str, value: object, low: float, high: float, *,
                 open_low: bool = True) -> None:
    """Raise `InvalidValue` unless `value` is a finite number in (low, high] or [low, high]."""
    held = math.nan
    if isinstance(value, numbers.Real) and not isinstance(value, bool):
        try:
            held = float(value)
        except OverflowError:  # a whole number may be too long
            held = math.inf
    if not (math.isfinite(held) and (low < held if open_low else low <= held) and held <= high):
        raise pl.InvalidValue(name, value, f"a number in {'(' if open_low else '['}{low}, {high}]")


def check_count(name: str, value: object, least: int, most: int = 10**6) -> None:
    """Raise `InvalidValue` unless `value` is a whole number from `least` to `most`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not (
            least <= int(value) <= most):
        raise pl.InvalidValue(name, value, f"a whole number from {least} to {most}")


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise `InvalidValue` unless `value` is one of `choices`."""
    if value not in choices:
        raise pl.InvalidValue(name, value, f"one of {choices}")


def check_common(learner: Any) -> None:
    """Raise `InvalidValue` for a budget, relation, mode or grid that can never be right.

    The three parameters that every tree learner takes in one sense; a learner whose relation
    follows from what it is has none to check.
    """
    check_number("epsilon", learner.epsilon, 0.0, 1e6)
    check_number("delta", learner.delta, 0.0, 1.0, open_low=False)
    check_choice("mode", learner.mode, ("private", "simulation"))
    if learner.numeric_bins is not None:
        check_count("numeric_bins", learner.numeric_bins, 1, 65534)


def check_depth(depth: object, deepest: int = 14, name: str = "depth") -> None:
    """Raise `InvalidValue` unless a depth is None, for the rule, or from 1 to `deepest`."""
    if depth is not None:
        check_count(name, depth, 1, deepest)


def no_weights(learner: object, named: Mapping[str, object]) -> None:
    """Raise for what `fit` was given beside the table; weights, above all, get a reason.

    Weights are as private as the rows that have them. A weight of w lets its record move a sum w
    times as far, so noise that is made for one record does not hide it; and a bound on weights
    that is read off the weights is a question that was not paid for.

    Raises:
        InvalidValue: weights. TypeError: any other name.
    """
    for name, value in named.items():
        if name != "sample_weight":
            raise TypeError(f"{type(learner).__name__}.fit() got an unexpected keyword argument "
                            f"{name!r}")
        if value is not None:
            raise pl.InvalidValue(
                "sample_weight", "weights", "left out: noise is made for what one record of weight "
                "1 can move, and weights are private, too. A public rule may leave rows out, or "
                "split the table into parts that are learned from apart; nothing was read")


class NoiseFloorWarning(UserWarning):
    """Too few records for this epsilon: the prior, or the mean, is predicted for every row."""


class Planned(Protocol):
    """What a learner's parameters and a schema come to, before data exist."""

    @property
    def plan(self) -> pl.Node:
        """What `fit` reserves, whole."""


class PrivateLearner(Accounted, BaseEstimator):
    """A learner whose every look at rows is paid for under one grant.

    A subclass says how its parameters are priced (`_recipe`) and what it asks (`_learn`).

    Attributes:
        receipt_: the ledger's head after the fit. private_: False for simulated noise.
        ledger_, data_: what was asked of which ledger; not pickled.
        private_score_: how it did on records that were held out; where `fit` was told to.
        fell_back_: why every row gets the prior or the mean; "" for a model of its features.
        floors: rows times epsilon below which that is so, by task; none where it is not done.
    """

    info: pl.LearnerInfo
    floors: Mapping[str, float] = {}
    fell_back_: str
    private_score_: pl.plugins.PrivateScore
    relation: Relation
    epsilon: float
    delta: float
    schema: pl.Schema | None
    mode: str
    random_state: int | None
    _request_labels: Mapping[str, str] | None  # of the fit that runs
    model_attributes: tuple[str, ...] = ("_inferred", "_order")

    def _recipe(self, schema: pl.Schema) -> Planned:
        """What one fit reserves and how it asks; refuses what can never be right."""
        raise NotImplementedError

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        """Ask under a grant and set what was learned."""
        raise NotImplementedError

    def _note_classes(self, schema: pl.Schema) -> None:
        """Set what a classifier says of its classes; a number has none."""

    def _known(self, schema: pl.Schema | None) -> pl.Schema:
        """The schema given here or at construction, if this learner's task is the table's."""
        found = schema if schema is not None else self.schema
        if not isinstance(found, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds and categories must be public facts, "
                                 "they are never read off the data")
        if found.task not in self.info.tasks:
            raise pl.SchemaError(f"{type(self).__name__} does {self.info.tasks[0]}; the target "
                                 f"column {found.target.name!r} is for {found.task}")
        if found.task == "classification":
            needs_classes(found)
        return found

    def plan(self, schema: pl.Schema | None = None) -> pl.Node:
        """The composition node of `fit`, from public facts only."""
        known = self._known(schema)
        recipe, floor = self._recipe(known), self._floor(known)
        return recipe.plan if floor is None else floor.plan

    def _hopeless(self, schema: pl.Schema, rows: float | None) -> str:
        """Why so many rows, declared or bought, are too few for a model; "" if they are not."""
        floor = self.floors.get(schema.task, 0.0)
        if rows is None or not rows * self.epsilon < floor:
            return ""
        told = "the largest class" if schema.task == "classification" else "the mean"
        return (f"about {max(rows, 0.0):.0f} rows times epsilon {self.epsilon:g} are below "
                f"{floor:g}: a model of the features would be noise, and {told} is predicted")

    def _floor(self, schema: pl.Schema) -> Floor | None:
        """What is asked in place of a model where public facts say that one would be noise."""
        if not self.floors:
            return None
        why = self._hopeless(schema, schema.rows_for(self.relation))
        return self._floor_of(schema, why) if why else None

    def _floor_of(self, schema: pl.Schema, why: str) -> Floor:
        """In a currency in which the learner's own plan is priced."""
        return Floor.pure(schema, self.relation, float(self.epsilon), why)

    def _settle_for(self, shares: np.ndarray, data: pl.Dataset) -> None:
        """Make a model of class shares, or of the scaled mean, that predicts nothing else."""
        raise NotImplementedError

    def _train_on(self, data: pl.Dataset, schema: pl.Schema) -> None:
        """`_learn`, or the floor where public facts say so; says so aloud where it fell back."""
        self.fell_back_ = ""
        self._recipe(self._known(schema))  # refuses first what can never be right
        floor = self._floor(schema)
        if floor is None:
            self._learn(data, schema)
        else:
            shares = self._granted(data, floor.plan, lambda session: floor.shares(session, data))
            self._settle_for(shares, data)
            self.fell_back_ = floor.why
        if self.fell_back_:
            warnings.warn(self.fell_back_, NoiseFloorWarning, stacklevel=4)

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic at this plan's noise, beside the sound one. Never charged.

        One step for each part of the algorithm; the last is the whole, as it runs here.
        """
        raise NotImplementedError

    def fit(self, X: Any, y: Any = None, *, holdout: float | pl.plugins.Holdout | None = None,
            labels: Mapping[str, str] | None = None, **named: object) -> Self:
        """Train under a grant.

        Args:
            X: a guarded `Dataset` (its ledger enforces the budget), or a table; a table is
                put behind a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table.
            holdout: share of the records that a private coin keeps out of the fit, for a private
                score in `private_score_`; or a `privledger.plugins.Holdout`, with the score's own
                epsilon. Under add_remove it costs nothing up to the fit's price.
            labels: what the grant carries, such as {"team": "red"}: caps match it.
            named: `sample_weight` is refused with the reason; there is nothing else.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
            InvalidValue: weights.
        """
        no_weights(self, named)
        data, schema = guard(self, X, y)
        if hasattr(self, "private_score_"):  # of another fit
            del self.private_score_
        if holdout is not None:
            _, self.private_score_ = pl.plugins.Holdout.of(holdout).fit(
                self, data, labels=labels, fit=lambda part: self._on(part, schema, None))
            return self
        return self._on(data, schema, labels)

    def _on(self, data: pl.Dataset, schema: pl.Schema,
            labels: Mapping[str, str] | None) -> Self:
        """Of the records of a handle."""
        self._labelled(labels, data, schema)
        self._note_classes(schema)
        return self

    def _labelled(self, labels: Mapping[str, str] | None, data: pl.Dataset,
                  schema: pl.Schema) -> None:
        """`_train_on`, with what its grant carries; nothing of that is kept."""
        self._request_labels = labels
        try:
            self._train_on(data, schema)
        finally:
            del self._request_labels

    def _granted(self, data: pl.Dataset, plan: pl.Node, ask: Callable[[pl.Session], Learned], *,
                 claimed: float | None = None, scope: pl.Scope | None = None) -> Learned:
        """What `ask` returns under a grant of `plan`; its receipt and its data are noted.

        Args:
            claimed: the paper's own epsilon for the whole, shown beside what is charged.
        """
        with data.ledger.request(plan, data, learner=self.info.name, delta=self.delta,
                                 scope=scope, claimed=claimed,
                                 labels=getattr(self, "_request_labels", None)) as session:
            learned = ask(session)
        self.receipt_, self.ledger_, self.data_ = session.receipt, data.ledger, data
        self.private_ = data.ledger.mode == "private"
        return learned

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return forget_guarded(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.non_deterministic = self.mode != "simulation"
        return tags


def needs_classes(schema: pl.Schema) -> None:
    """Raise `SchemaError` for a target of fewer than two categories."""
    if len(schema.target.categories) < 2:
        raise pl.SchemaError("a classifier needs a target of at least two categories; "
                             "Classifier can't train when only one class is declared")


class LabelClassifier(ClassifierMixin):
    """Labels from class shares. Classes are the schema's category list, never those that occur.

    Attributes:
        classes_: the categories, sorted, as scikit-learn's scorers take for granted; the order
            of the schema's list is free.
    """

    classes_: np.ndarray
    _order: np.ndarray

    def _note_classes(self, schema: pl.Schema) -> None:
        self.classes_, self._order = sorted_labels(schema.target.labels)

    def _shares(self, X: Any) -> np.ndarray:
        """Class shares of every row in the schema's order, shape (n, classes)."""
        raise NotImplementedError

    def predict_proba(self, X: Any) -> np.ndarray:
        """Probabilities, shape (n, classes), columns as in `classes_`. Costs nothing."""
        check_is_fitted(self, "classes_")
        shares = self._shares(X)
        return np.asarray(shares[:, self._order])

    def predict(self, X: Any) -> np.ndarray:
        """Labels as in the schema's category list, shape (n,). Costs nothing."""
        shares = self.predict_proba(X)  # says first if nothing was fitted
        return np.asarray(self.classes_[shares.argmax(axis=1)])

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy. Labels may be spelled as the schema allows: 1, 1.0 and "1" are the same."""
        labels = as_labels(y, self.classes_)
        if labels.dtype == object:  # of several types, which scikit-learn compares no more
            return float(np.average(self.predict(X) == labels, weights=sample_weight))
        return float(super().score(X, labels, sample_weight))


def sorted_labels(labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sorted labels, and the schema's position of each. Labels of mixed types keep their order."""
    try:
        order = sorted(range(len(labels)), key=lambda place: labels[place])
    except TypeError:
        order = list(range(len(labels)))
    return labels[order], np.array(order)


def as_labels(y: Any, classes: np.ndarray) -> np.ndarray:
    """`y` with every label that is another spelling of a class replaced by that class."""
    given = np.asarray(y)
    if given.ndim != 1 or (given.dtype.kind == classes.dtype.kind and given.dtype.kind in "biuf"):
        return given
    known = {pl.plugins.label_key(label): label for label in classes.tolist()}
    matched = [known.get(pl.plugins.label_key(label)) for label in given.tolist()]
    return given if any(label is None for label in matched) else np.array(
        matched, dtype=classes.dtype)
