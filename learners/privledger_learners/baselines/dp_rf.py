"""DP-RF: greedy trees on five bins, every level counted and chosen under noise.

Patil, Singh 2014, after Friedman, Schuster 2010; as paper 000 ran it. What differs:
docs/papers/baselines.md.
"""

from __future__ import annotations

from collections.abc import Callable

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.baseline import Baseline, records_per_leaf
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.baselines.greedy_trees import CountedTrees
from privledger_learners.trees.forest import TreeClassifier, TreeRegressor

PAPER = "Patil, Singh 2014, Differential private random forest"
BINS = 5
LEAST = 25.0


class _DPRF(Baseline):
    own_bins = BINS

    def _way(self, schema: pl.Schema) -> CountedTrees:
        return CountedTrees(self.relation, schema.task == "regression")

    def _fair(self, schema: pl.Schema) -> Callable[[float], int]:
        return records_per_leaf(LEAST, float(BINS))

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        return printed.dp_rf(float(self.epsilon), float(self.delta), sound)


class DPRFClassifier(_DPRF, TreeClassifier):
    """Trees on five bins: noisy counts of every node, then a test by the exponential mechanism.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_trees: on the same records, so each has its part of the budget.
        depth: None for the paper's rule, 25 records in a leaf if every test had five branches,
            from a number of rows that is public or bought; at most `max_depth`.
        numeric_bins: equal bins of a numeric feature's public range; None for five.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("dp-rf-classifier", "baseline: greedy trees on five bins, for classes",
                          PAPER, ("add_remove", "replace_one"), ("classification",))


class DPRFRegressor(_DPRF, TreeRegressor):
    """The same for a number: tests by squared error, leaves hold a noisy sum and a noisy count.

    Parameters as in `DPRFClassifier`.
    """

    info = pl.LearnerInfo("dp-rf-regressor", "baseline: greedy trees on five bins, for a number",
                          PAPER, ("add_remove", "replace_one"), ("regression",))


__all__ = ["DPRFClassifier", "DPRFRegressor"]
