"""DP-DF: greedy trees by Gini on five bins, pruned on noisy sizes.

Fletcher, Islam 2015, as paper 000 ran it. What differs: docs/papers/baselines.md.
"""

from __future__ import annotations

from collections.abc import Callable

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.baseline import Baseline, records_per_leaf
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.baselines.greedy_trees import ScoredTrees
from privledger_learners.trees.forest import TreeClassifier

PAPER = "Fletcher, Islam 2015, A differentially private decision forest"
BINS = 5
LEAST = 25.0
CUT_OFF = 1.0


class DPDFClassifier(Baseline, TreeClassifier):
    """Trees on five bins whose tests are drawn by records times Gini; small nodes are cut off.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_trees: on the same records, so each has its part of the budget.
        depth: None for the paper's rule, 25 records in a leaf if every test had five branches,
            from a number of rows that is public or bought; at most `max_depth`.
        numeric_bins: equal bins of a numeric feature's public range; None for five.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("dp-df-classifier", "baseline: Gini trees on five bins, pruned",
                          PAPER, ("add_remove", "replace_one"), ("classification",))
    own_bins = BINS

    def _way(self, schema: pl.Schema) -> ScoredTrees:
        return ScoredTrees(self.relation, CUT_OFF)

    def _fair(self, schema: pl.Schema) -> Callable[[float], int]:
        return records_per_leaf(LEAST, float(BINS))

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        return printed.dp_df(float(self.epsilon), float(self.delta), sound)


__all__ = ["DPDFClassifier"]
