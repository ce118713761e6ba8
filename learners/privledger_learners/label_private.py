"""LabelPrivateClassifier: labels answer once by randomised response, then anything may learn.

Protects LABELS ONLY; docs/papers/label-private.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import (
    LabelClassifier,
    PrivateLearner,
    Relation,
    check_choice,
    check_count,
    check_number,
    needs_classes,
    no_weights,
)
from privledger_learners.guarding import (
    among_labelled,
    guard,
    labelled,
    note_features,
    with_unlabelled,
)
from privledger_learners.scikit import check_is_fitted
from privledger_learners.soft_forest import Boughs, SoftForest, numbers, positive_shares

RELATION: Relation = "replace_label"
LEAST_SHARE = 0.02


def response(epsilon: float, buckets: int) -> pl.RandomizedResponse:
    """Randomised response of pure cost a hair below `epsilon`."""
    return pl.RandomizedResponse(buckets / (buckets + math.expm1(epsilon * (1 - 1e-9))), buckets)


def likelihood(answers: np.ndarray, lists: np.ndarray | None, mechanism: pl.RandomizedResponse,
               classes: int) -> np.ndarray:
    """Chance of each answer under every true class, shape (n, classes).

    Args:
        answers: class positions. lists: candidates of each record, shape (n, k), or None.
    """
    other = mechanism.noise_parameter / mechanism.num_buckets
    found = np.full((len(answers), classes), other)
    if lists is not None:
        found[:] = 1 / mechanism.num_buckets  # a class outside of the list answers uniformly
        np.put_along_axis(found, lists, other, axis=1)
    found[np.arange(len(answers)), answers] = 1 - mechanism.noise_parameter + other
    return found


def best_lists(shares: np.ndarray, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
    """How many candidates each record should answer among, and classes by falling share.

    The number that makes a true answer most likely, at least two (Ghazi, Golowich, Kumar,
    Manurangsi, Zhang 2021, arXiv:2102.06062, Algorithm 2, where it may be one).
    """
    order = np.argsort(-shares, axis=1, kind="stable")
    covered = np.cumsum(np.take_along_axis(shares, order, axis=1), axis=1)
    kept = math.exp(min(epsilon, 700.0))
    truthful = covered * (kept / (kept + np.arange(shares.shape[1])))
    return truthful[:, 1:].argmax(axis=1) + 2, order


@frozen
class LabelRecipe:
    """Two classes: one response each. More: half of the records first, the others among few.

    Attributes:
        first: part of the records that answers among all classes.
    """

    schema: pl.Schema
    epsilon: float
    first: float

    @property
    def classes(self) -> int:
        """How many classes the schema declares."""
        return len(self.schema.target.categories)

    @property
    def _staged(self) -> bool:
        return self.classes > 2 and self.first < 1

    def _responses(self) -> list[pl.RandomizedResponse]:
        """Among 2, 3, ... all classes."""
        return [response(self.epsilon, size) for size in range(2, self.classes + 1)]

    @property
    def plan(self) -> pl.Node:
        """Labels only. Parts by position: a label answers in one of them."""
        node: pl.Node = response(self.epsilon, self.classes)
        if self._staged:
            node = pl.Parallel([node, pl.Parallel(self._responses(), "index")], "index")
        return pl.nodes.LabelOnly(pl.Sequential([
            pl.nodes.Public("features, and who has a label"), among_labelled(node),
            pl.nodes.PostProcess("a model of the answers")]))

    def ask(self, session: pl.Session, data: pl.Dataset, table: np.ndarray, forest: SoftForest,
            rng: np.random.Generator) -> np.ndarray:
        """Likelihood of every record's answer, shape (n_records, classes); 1 where none came.

        Args:
            table: public features of all records. forest: unfitted; models the first answers.
        """
        known = np.flatnonzero(data.public_labelled)
        if not self._staged or len(known) < 4:
            return self.ask_all(session, data)
        found = np.ones((data.public_rows, self.classes))
        everything = response(self.epsilon, self.classes)
        early = rng.permutation(known)[: max(2, int(self.first * len(known)))]
        stage = np.ones(len(found), dtype=np.int64)
        stage[early] = 0
        halves = labelled(data).partition(pl.questions.IndexCells(stage, 2))
        early, late = known[stage[known] == 0], known[stage[known] == 1]
        answers = session.release(everything, halves[0].labels())
        found[early] = likelihood(answers, None, everything, self.classes)
        shares = forest.fit(table[early], found[early]).shares(table[late])
        self._ask_among(session, halves[1], late, positive_shares(shares), found)
        return found

    def ask_all(self, session: pl.Session, data: pl.Dataset) -> np.ndarray:
        """As `ask` where there is one stage, or too few labels for two."""
        known = np.flatnonzero(data.public_labelled)
        if not len(known):
            raise pl.errors.DataError("no record has a label: there is nothing to learn from")
        found = np.ones((data.public_rows, self.classes))
        part, everything = labelled(data), response(self.epsilon, self.classes)
        if self._staged:
            first = np.zeros(len(found), dtype=np.int64)
            part = part.partition(pl.questions.IndexCells(first, 2))[0]
        answers = session.release(everything, part.labels())
        found[known] = likelihood(answers, None, everything, self.classes)
        return found

    def _ask_among(self, session: pl.Session, data: pl.Dataset, late: np.ndarray,
                   shares: np.ndarray, found: np.ndarray) -> None:
        """The rest of the records, in parts by the length of their lists."""
        sizes, order = best_lists(shares, self.epsilon)
        places = np.zeros(len(found), dtype=np.int64)
        places[late] = sizes - 2
        parts = data.partition(pl.questions.IndexCells(places, self.classes - 1))
        for place, mechanism in enumerate(self._responses()):
            rows = np.flatnonzero(sizes == place + 2)
            if len(rows):
                lists = np.sort(order[rows, : place + 2], axis=1)
                answers = session.release(mechanism, parts[place].labels(candidates=lists))
                found[late[rows]] = likelihood(answers, lists, mechanism, self.classes)

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """No paper claims this learner; what Laplace counts would cost is in partitioning.md."""
        sound = pl.epsilon(self.plan, 0.0, RELATION)
        return (pl.ClaimStep("labels", "RRWithPrior, arXiv:2102.06062", self.epsilon, sound, 0.0,
                             "LABELS ONLY; every label answers once, and whatever follows is "
                             "post-processing"),)


class LabelPrivateClassifier(LabelClassifier, PrivateLearner):
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

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """What is charged, as no paper claims this learner. Never charged itself."""
        return self._recipe(self._known(schema)).claimed()

    def fit(self, X: Any, y: Any = None, X_unlabelled: Any = None, *,
            labels: Mapping[str, str] | None = None, **named: object) -> Self:
        """Train under a grant.

        Args:
            X: a guarded `Dataset` of a `replace_label` ledger, or a table; a table is put behind
                a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table; None or NaN marks a row without a label.
            X_unlabelled: more rows, without labels. They ask nothing, and teach nothing here.
            labels: what the grant carries, such as {"team": "red"}: caps match it.
            named: `sample_weight` is refused with the reason; there is nothing else.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        no_weights(self, named)
        self._check()
        if X_unlabelled is not None:
            X, y = with_unlabelled(X, y, X_unlabelled, self._known(self.schema))
        data, schema = guard(self, X, y)
        recipe = self._recipe(self._known(schema))
        rng = np.random.default_rng(self.random_state)
        table = numbers(data.public_features, one_hot=False)
        self._request_labels = labels
        try:
            answers = self._granted(data, recipe.plan, lambda session: recipe.ask(
                session, data, table, self._forest(recipe, rng), rng))
        finally:
            del self._request_labels
        known = data.public_labelled
        forest = self._forest(recipe, rng).fit(table[known], answers[known])
        self.model_ = forest if self.estimator is None else self._taught(
            numbers(data.public_features, one_hot=True)[known], forest.soft)
        self.schema_ = schema
        self.guarantee_ = repr(data.ledger)
        self._note_classes(schema)
        return self

    def _recipe(self, schema: pl.Schema) -> LabelRecipe:
        self._check()
        needs_classes(schema)
        return LabelRecipe(schema, float(self.epsilon), float(self.first_share))

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
        from sklearn.base import clone
        from sklearn.utils.validation import has_fit_parameter

        model = clone(self.estimator)
        if not has_fit_parameter(model, "sample_weight"):
            return model.fit(table, soft.argmax(axis=1))
        rows, codes = np.nonzero(soft > LEAST_SHARE)
        return model.fit(table[rows], codes, sample_weight=soft[rows, codes])

    def _shares(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        columns = pl.encode_features(X, self.schema_, strict=False)
        if isinstance(self.model_, SoftForest):
            return self.model_.shares(numbers(columns, one_hot=False))
        table = numbers(columns, one_hot=True)
        found = np.zeros((len(table), len(self.classes_)))
        if hasattr(self.model_, "predict_proba"):
            found[:, self.model_.classes_] = self.model_.predict_proba(table)
        else:
            found[np.arange(len(table)), self.model_.predict(table)] = 1.0
        return positive_shares(found)


__all__ = ["LabelPrivateClassifier"]
