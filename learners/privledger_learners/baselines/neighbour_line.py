"""TOP: neighbours label the unlabelled, then a linear classifier; protects LABELS ONLY.

Long, Sakuma 2017 (transductive output perturbation); known from its abstract:
docs/papers/baselines.md.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.baselines.label_baseline import LabelBaseline
from privledger_learners.estimator import check_count
from privledger_learners.guarding import note_features
from privledger_learners.scikit import check_is_fitted
from privledger_learners.soft_forest import first_guess, least_leaf, numbers, positive_shares

PAPER = "Long, Sakuma 2017, Differentially private semi-supervised classification"
LEAST_SHARE = 0.02


@frozen(eq=False)
class Line:
    """A fitted linear classifier: scores are table @ weights + offsets.

    Attributes:
        weights: shape (columns, classes). offsets: shape (classes,); very low for a class that
            no record was thought to have.
    """

    weights: np.ndarray
    offsets: np.ndarray

    def shares(self, table: np.ndarray) -> np.ndarray:
        """Class shares of every record, shape (n, classes)."""
        scores = table @ self.weights + self.offsets
        held = np.exp(scores - scores.max(axis=1, keepdims=True))
        return positive_shares(held / held.sum(axis=1, keepdims=True))


class TOPClassifier(LabelBaseline):
    """Answers are averaged over neighbours; a logistic regression learns from all records.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_neighbors: labelled records that label one without; None: the fewer, the more an answer
            says, from 3 to 200.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        line_: from public features and released answers. receipt_: the ledger's head after the
            fit. guarantee_: what the ledger promises: LABELS ONLY.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("top-classifier", "baseline: neighbours, then a linear classifier; "
                          "protects LABELS ONLY", PAPER, ("replace_label",), ("classification",))
    model_records = (Line,)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        variant: str = "default",
        n_neighbors: int | None = None,
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.variant = variant
        self.n_neighbors = n_neighbors
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _check(self) -> None:
        super()._check()
        if self.n_neighbors is not None:
            check_count("n_neighbors", self.n_neighbors, 1, 10**6)

    def _printed(self, sound: float) -> Steps:
        return printed.top(float(self.epsilon), sound)

    def _teach(self, data: pl.Dataset, answers: np.ndarray) -> None:
        from sklearn.neighbors import NearestNeighbors

        known, table = data.public_labelled, numbers(data.public_features, one_hot=True)
        said = answers[known]
        near = self.n_neighbors if self.n_neighbors is not None else least_leaf(said)
        search = NearestNeighbors(n_neighbors=min(near, len(said))).fit(table[known])
        soft = positive_shares(first_guess(said)[search.kneighbors(
            table, return_distance=False)].mean(axis=1))
        rows, codes = np.nonzero(soft > LEAST_SHARE)
        self.line_ = _line(table[rows], codes, soft[rows, codes], soft.shape[1])

    def _shares(self, X: object) -> np.ndarray:
        check_is_fitted(self, "line_")
        note_features(self, X, fitting=False)
        return self.line_.shares(numbers(pl.encode_features(X, self.schema_, strict=False),
                                         one_hot=True))


def _line(table: np.ndarray, codes: np.ndarray, weights: np.ndarray, classes: int) -> Line:
    """Logistic regression on weighted records of classes; one class alone needs none."""
    from sklearn.linear_model import LogisticRegression

    found, offsets = np.zeros((table.shape[1], classes)), np.full(classes, -50.0)
    present = np.unique(codes)
    offsets[present] = 0.0
    if len(present) > 1:
        model = LogisticRegression(max_iter=200).fit(table, codes, sample_weight=weights)
        if len(present) == 2:
            found[:, present[1]], offsets[present[1]] = model.coef_[0], model.intercept_[0]
        else:
            found[:, present], offsets[present] = model.coef_.T, model.intercept_
    return Line(found, offsets)


__all__ = ["TOPClassifier"]
