"""SRT: random trees on disjoint parts; each leaf says one label, drawn by its class counts.

Fletcher, Islam 2017; recalled, not re-read: docs/papers/baselines.md.
"""

from __future__ import annotations

import math

import privledger as pl
from privledger_learners.baselines import printed
from privledger_learners.baselines.baseline import Baseline
from privledger_learners.baselines.coin_trees import CoinTrees
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.trees.forest import TreeClassifier

PAPER = ("Fletcher, Islam 2017, Differentially private random decision forests using smooth "
         "sensitivity, Expert Systems with Applications 78")


class SRTClassifier(Baseline, TreeClassifier):
    """Trees of public coins, each on a part by private coins; a label per leaf, and its vote.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `default`, or `paper`: refused, with the step that has no price.
        n_trees: each on a part of its own, so each has the whole budget.
        depth: None for the paper's rule, by the number of attributes alone: so deep that fewer than
            half of them go untested on a path; at most `max_depth`.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for
            the finest.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("srt-classifier", "baseline: random trees on parts, a label per leaf",
                          PAPER, ("add_remove", "replace_one"), ("classification",))
    partitioned = True

    def _way(self, schema: pl.Schema) -> CoinTrees:
        return CoinTrees(self.relation, drawn=True)

    def _public_depth(self, schema: pl.Schema) -> int:
        features = len(schema.features)
        return 1 if features == 1 else math.ceil(math.log(0.5) / math.log1p(-1 / features))

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        return printed.srt(float(self.epsilon), float(self.delta), sound)


__all__ = ["SRTClassifier"]
