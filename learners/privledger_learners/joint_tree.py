"""JointTree: one joint exponential mechanism per level over attribute and cut.

The joint form of DiPriMe with one tree, under a name of its own: parameters here, the algorithm in
diprime.py. The design and its proofs: docs/papers/joint-tree.md, docs/proofs/split-scores.md.
"""

from __future__ import annotations

from operator import attrgetter

import privledger as pl
from privledger_learners.diprime import _DiPriMe
from privledger_learners.estimator import Relation
from privledger_learners.trees.forest import TreeClassifier, TreeRegressor


class _JointTree(_DiPriMe):
    """Shared by classifier and regressor; see their docstrings."""

    variant, n_trees, partitioned, candidates, per_leaf = "joint", 1, False, None, None
    attribute_share, level_ratio = 0.5, 1.1
    split_share = property(attrgetter("structure_share"))
    share_name, published = "structure_share", False

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        depth: int | None = None,
        max_depth: int = 10,
        structure_share: float = 0.7,
        count_share: float = 0.05,
        quantile_share: float = 0.05,
        smoothing: float = 4.0,
        numeric_bins: int | None = None,
        bins_share: float = 0.02,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.depth = depth
        self.max_depth = max_depth
        self.structure_share = structure_share
        self.count_share = count_share
        self.quantile_share = quantile_share
        self.smoothing = smoothing
        self.numeric_bins = numeric_bins
        self.bins_share = bins_share
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted


class JointTreeClassifier(_JointTree, TreeClassifier):
    """A tree whose every level is one exponential mechanism over attributes and cuts.

    Scores are squared errors of one-hot labels; leaves hold noisy class counts, smoothed from
    the root down. Pure DP: `delta` may stay 0. `DiPriMeForestClassifier` with its defaults is the
    same learner.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability.
        schema: public facts of the table; required unless a guarded Dataset is given.
        depth: None for the rule: from the row count, public or bought, at most `max_depth`.
        structure_share: part of epsilon for the levels; the rest goes to the leaves.
        count_share: part of epsilon for the row count, where the depth needs it.
        smoothing: how strongly a leaf is drawn to the node above it; 0 for not at all.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for the
            rule: 255 bins of about equal mass, bought, where rows (declared, or bought for the
            depth) and epsilon are enough for them, else a public grid.
        bins_share: part of epsilon for such bins, where they are bought; 0 never buys them.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("joint-tree-classifier", "one joint choice of attribute and cut per "
                          "level, for classes", "", ("add_remove", "replace_one"),
                          ("classification",))


class JointTreeRegressor(_JointTree, TreeRegressor):
    """The same for a number: structure from quantile classes of the target, leaves from sums.

    Args:
        quantile_share: part of epsilon for a histogram of the target, which gives the classes.

    Other parameters as in `JointTreeClassifier`.
    """

    info = pl.LearnerInfo("joint-tree-regressor", "one joint choice of attribute and cut per "
                          "level, for a number", "", ("add_remove", "replace_one"),
                          ("regression",))


__all__ = ["JointTreeClassifier", "JointTreeRegressor"]
