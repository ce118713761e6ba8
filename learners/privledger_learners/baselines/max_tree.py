"""MaxTree: an ensemble of trees whose tests are drawn by how well classes vote in their sides.

Liu, Li, Li, Chen 2018; known from its abstract: docs/papers/baselines.md.
"""

from __future__ import annotations

from collections.abc import Callable

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.baseline import Baseline, records_per_leaf
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.baselines.greedy_trees import ScoredTrees
from privledger_learners.trees.forest import TreeClassifier

PAPER = ("Liu, Li, Li, Chen 2018, Differentially private classification with decision tree "
         "ensemble, Applied Soft Computing 62")
LEAST = 25.0


class MaxTreeClassifier(Baseline, TreeClassifier):
    """Greedy trees on all records; tests by an exponential mechanism, leaves are never smoothed.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_trees: on the same records, so each has its part of the budget.
        depth: None for 25 records in a leaf, from a number of rows that is public or bought; at
            most `max_depth`.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for
            the finest.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("max-tree-classifier", "baseline: greedy trees on all records", PAPER,
                          ("add_remove", "replace_one"), ("classification",))

    def _way(self, schema: pl.Schema) -> ScoredTrees:
        return ScoredTrees(self.relation, 0.0)

    def _fair(self, schema: pl.Schema) -> Callable[[float], int]:
        most = len(schema.features)
        deep = records_per_leaf(LEAST, 2.0)
        return lambda rows: min(most, deep(rows))

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        return printed.max_tree(float(self.epsilon), float(self.delta), sound)


__all__ = ["MaxTreeClassifier"]
