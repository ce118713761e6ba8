"""DP-ERT: extremely random trees with noisy leaves.

Bojarski, Choromanska, Choromanski, LeCun 2014, arXiv:1410.6973, as paper 000 ran it; for a number
as paper 000 extended it. What differs: docs/papers/baselines.md.
"""

from __future__ import annotations

from collections.abc import Callable

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.baseline import Baseline, records_per_leaf
from privledger_learners.baselines.coin_trees import CoinTrees
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.trees.forest import TreeClassifier, TreeRegressor

PAPER = "Bojarski, Choromanska, Choromanski, LeCun 2014, arXiv:1410.6973"
LEAST = 25.0


class _DPERT(Baseline):
    def _way(self, schema: pl.Schema) -> CoinTrees:
        return CoinTrees(self.relation)

    def _fair(self, schema: pl.Schema) -> Callable[[float], int]:
        return records_per_leaf(LEAST, 2.0)

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        return printed.dp_ert(float(self.epsilon), float(self.delta), sound,
                              number=schema.task == "regression")


class DPERTClassifier(_DPERT, TreeClassifier):
    """Trees of public coins on all records; noisy class counts in their leaves, never smoothed.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_trees: on the same records, so each has its part of the budget.
        depth: None for the paper's rule, 25 records a leaf, from a number of rows that is
            public or bought; at most `max_depth`.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for
            the finest.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("dp-ert-classifier", "baseline: extremely random trees, for classes",
                          PAPER, ("add_remove", "replace_one"), ("classification",))


class DPERTRegressor(_DPERT, TreeRegressor):
    """The same for a number: leaves hold a noisy sum and a noisy count.

    Parameters as in `DPERTClassifier`.
    """

    info = pl.LearnerInfo("dp-ert-regressor", "baseline: extremely random trees, for a number",
                          PAPER, ("add_remove", "replace_one"), ("regression",))


__all__ = ["DPERTClassifier", "DPERTRegressor"]
