"""SSRDT: random decision trees on labelled and unlabelled records; protects LABELS ONLY.

Jagannathan, Monteleoni, Pillaipakkamnatt 2013; recalled, not re-read: docs/papers/baselines.md.
"""

from __future__ import annotations

import numpy as np

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.coin_trees import coin_tree
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.baselines.label_baseline import LabelBaseline
from privledger_learners.estimator import check_count, check_depth
from privledger_learners.guarding import note_features
from privledger_learners.scikit import check_is_fitted
from privledger_learners.soft_forest import first_guess
from privledger_learners.trees.depth_rule import fair_depth
from privledger_learners.trees.forest import Forest, Tree
from privledger_learners.trees.grow import smoothed_shares

PAPER = ("Jagannathan, Monteleoni, Pillaipakkamnatt 2013, A semi-supervised learning approach to "
         "differential privacy")
BINS, DEEPEST, PER_LEAF = 1024, 14, 10.0


class SSRDTClassifier(LabelBaseline):
    """Trees of public coins; answers fill their leaves, then unlabelled records fill them again.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_trees: how many; every label answers once, so they are free.
        depth: None for as many tests as attributes, and at most as many as the labelled
            records, whose number is public here, can fill.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: from public features and released answers. receipt_: the ledger's head after
            the fit. guarantee_: what the ledger promises: LABELS ONLY.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("ssrdt-classifier", "baseline: random trees on labelled and unlabelled "
                          "records; protects LABELS ONLY", PAPER, ("replace_label",),
                          ("classification",))
    model_records = (Forest, Tree)

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        variant: str = "default",
        n_trees: int = 10,
        depth: int | None = None,
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.variant = variant
        self.n_trees = n_trees
        self.depth = depth
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def __sklearn_tags__(self) -> object:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = True  # two tests by chance for two attributes
        return tags

    def _check(self) -> None:
        super()._check()
        check_count("n_trees", self.n_trees, 1, 1000)
        check_depth(self.depth, DEEPEST)

    def _printed(self, sound: float) -> Steps:
        return printed.ssrdt(float(self.epsilon), sound)

    def _teach(self, data: pl.Dataset, answers: np.ndarray) -> None:
        rng, known = np.random.default_rng(self.random_state), data.public_labelled
        bins = data.bins(BINS)
        codes = bins.codes(data.public_features)
        depth = self._depth(data, int(known.sum()))
        cells = [coin_tree(pl.questions.GrownCells(bins), depth, rng)
                 for _ in range(self.n_trees)]
        places = [tree.assign(codes) for tree in cells]
        held = np.zeros(answers.shape)
        held[known] = first_guess(answers[known])  # of answers alone: then it has no bias
        for _ in range(1 if known.all() else 2):  # once more, with what the first time said
            trees = tuple(Tree(tree, _shares(place, held, tree.count))
                          for tree, place in zip(cells, places, strict=True))
            self.forest_ = Forest(trees)
            held = np.where(known[:, None], held, self.forest_.values_of(codes))

    def _depth(self, data: pl.Dataset, rows: int) -> int:
        if self.depth is not None:
            return self.depth
        return min(len(data.schema.features), fair_depth(float(rows), 1.0, PER_LEAF, DEEPEST))

    def _shares(self, X: object) -> np.ndarray:
        check_is_fitted(self, "forest_")
        note_features(self, X, fitting=False)
        return self.forest_.values(pl.encode_features(X, self.schema_, strict=False))


def _shares(place: np.ndarray, held: np.ndarray, leaves: int) -> np.ndarray:
    """Class shares of every leaf; a leaf of few records leans on the node above it.

    Args:
        place: leaf of each record, shape (n,). held: its class shares, shape (n, classes).
    """
    counts = np.zeros((leaves, held.shape[1]))
    np.add.at(counts, place, held)
    return smoothed_shares(counts, 1.0, 1.0)


__all__ = ["SSRDTClassifier"]
