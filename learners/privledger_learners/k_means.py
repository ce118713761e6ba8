"""K-means by Lloyd's rounds on noisy sums (Su et al. 2016, Differentially private k-means).

Each round asks how many records are nearest to each centre and what their sum is; a record is in
one cell of each round. Starts are public points, spread around a mean that was bought.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import Relation, check_count
from privledger_learners.guarding import note_features
from privledger_learners.released_sums import _OfFeatures, numeric_features, scaled_numbers
from privledger_learners.scikit import TransformerMixin, check_is_fitted

START_SHARE = 0.2


@frozen(eq=False)
class Centers:
    """Released values only: centres on [-1, 1], shape (clusters, numeric features)."""

    schema: pl.Schema
    centers: np.ndarray


def spread_points(count: int, many: int) -> np.ndarray:
    """Public points in [-1, 1], evenly spread, shape (count, many): multiples of powers of the
    root of x^(many + 1) = x + 1."""
    root = 2.0
    for _ in range(60):
        root = (1 + root) ** (1 / (many + 1))
    steps = np.arange(1, count + 1)[:, None] * root ** -np.arange(1, many + 1)
    return np.asarray(2 * ((0.5 + steps) % 1.0) - 1)


class PrivateKMeans(TransformerMixin, _OfFeatures):
    """Differentially private k-means of the numeric features, each scaled to its public bounds.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        n_clusters: how many. n_rounds: of Lloyd; both are part of the plan.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        cluster_centers_: in the columns' units, shape (clusters, numeric features).
        counts_: noisy sizes of the clusters in the last round. model_: released values only.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("k-means", "k-means by rounds of noisy sums", "",
                          ("add_remove", "replace_one"), ())
    model_: Centers
    model_records = (Centers,)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        n_clusters: int = 8,
        n_rounds: int = 5,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        super().__init__(epsilon, delta, schema, relation=relation, mode=mode,
                         random_state=random_state, unaccounted=unaccounted)
        self.n_clusters = n_clusters
        self.n_rounds = n_rounds

    def _plan_of(self, schema: pl.Schema, noise: float) -> pl.Node:
        check_count("n_clusters", self.n_clusters, 1, 10**4)
        check_count("n_rounds", self.n_rounds, 1, 1000)
        start, each = self._nodes(schema, noise)
        return pl.Sequential([start, pl.Repeat(each, int(self.n_rounds))])

    def _nodes(self, schema: pl.Schema, noise: float) -> tuple[pl.Gaussian, pl.Gaussian]:
        """Of the mean and spread that starts follow, and of one round."""
        many = len(numeric_features(schema))
        shares = (1 / (1 + many), many / (1 + many) * (1 - 1e-12))  # equal noise on all sums
        each = noise * math.sqrt(int(self.n_rounds) / (1 - START_SHARE))
        return pl.Gaussian(noise / math.sqrt(START_SHARE)), pl.Gaussian(each, shares=shares)

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced, names = self._recipe(schema), numeric_features(schema)
        many, clusters = len(names), int(self.n_clusters)

        def ask(session: pl.Session) -> tuple[np.ndarray, np.ndarray]:
            start, each = self._nodes(schema, priced.noise)
            sums = np.ravel(session.release(start, data.row_sum(names, "squares")))
            rows = max(float(sums[0]), 20.0)
            mean = np.clip(sums[1 : many + 1] / rows, -1, 1)
            spread = np.sqrt(np.clip(sums[many + 1 :] / rows - mean**2, 1e-4, 1.0))
            centers = np.clip(mean + 1.7 * spread * spread_points(clusters, many), -1, 1)
            counts = np.zeros(clusters)
            noise = each.noise_multiplier * math.sqrt(1 + many) * self._change
            for _ in range(int(self.n_rounds)):
                cells = pl.questions.NearestCells(names, centers)
                counts, moved = session.release(each, data.query(
                    (pl.questions.Ones(), pl.questions.RowValues(names, math.sqrt(many))), cells,
                    "sizes and sums of clusters"))
                counts = np.ravel(counts)
                sure = counts > 2 * noise  # else the centre stays where it is
                centers[sure] = np.clip(np.reshape(moved, centers.shape)[sure]
                                        / counts[sure, None], -1, 1)
            return centers, counts

        centers, self.counts_ = self._granted(data, priced.plan, ask)
        self.model_ = Centers(schema, centers)

    def _away(self, X: object) -> np.ndarray:
        """Squared distances from the centres on [-1, 1], shape (n, clusters); missing counts as
        the middle."""
        check_is_fitted(self, "model_")
        note_features(self, X, fitting=False)
        numbers = np.nan_to_num(scaled_numbers(X, self.model_.schema), nan=0.0)
        found = np.zeros((len(numbers), len(self.model_.centers)))
        for column, middles in zip(numbers.T, self.model_.centers.T, strict=True):
            found += np.square(column[:, None] - middles)
        return found

    def predict(self, X: object) -> np.ndarray:
        """The nearest cluster of every row, shape (n,). Costs nothing."""
        return np.asarray(self._away(X).argmin(axis=1))

    def transform(self, X: object) -> np.ndarray:
        """Distances from every centre, in half-ranges of the columns, shape (n, clusters)."""
        return np.asarray(np.sqrt(self._away(X)))

    @property
    def cluster_centers_(self) -> np.ndarray:
        """In the columns' units, shape (clusters, numeric features)."""
        check_is_fitted(self, "model_")
        held = [one for one in self.model_.schema.features if one.kind == "numeric"]
        low, high = np.array([[one.lower, one.upper] for one in held]).T
        return np.asarray((low + high) / 2 + self.model_.centers * (high - low) / 2)


__all__ = ["PrivateKMeans"]
