"""RDT: random decision trees of half as many tests as attributes, with noisy leaf counts.

Jagannathan, Pillaipakkamnatt, Wright 2009; recalled, not re-read: docs/papers/baselines.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.baseline import Baseline
from privledger_learners.baselines.coin_trees import CoinTrees
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.trees.forest import TreeClassifier

PAPER = ("Jagannathan, Pillaipakkamnatt, Wright 2009, A practical differentially private random "
         "decision tree classifier")


class RDTClassifier(Baseline, TreeClassifier):
    """Trees of public coins on all records; their noisy class counts are added up.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: the same, and refused where the height would follow from
            a private number of rows; declare it, or give `depth`.
        n_trees: on the same records, so each has its part of the budget.
        depth: None for the paper's rule, min(attributes / 2, log2(rows) - 1), from a number of
            rows that is public or bought; at most `max_depth`.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for
            the finest.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("rdt-classifier", "baseline: random decision trees, for classes", PAPER,
                          ("add_remove", "replace_one"), ("classification",))

    def _way(self, schema: pl.Schema) -> CoinTrees:
        return CoinTrees(self.relation, votes="counts")

    def _fair(self, schema: pl.Schema) -> Callable[[float], int]:
        half = len(schema.features) // 2
        return lambda rows: min(half, math.floor(math.log2(rows) + 1e-12) - 1)

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        public = self.depth is not None or schema.rows_for(self.relation) is not None
        return printed.rdt(float(self.epsilon), float(self.delta), sound, public=public,
                           trees=int(self.n_trees))


__all__ = ["RDTClassifier"]
