"""DiPriMe forests: private medians as cuts, and the sound forms of choosing the attribute.

Consul & Williamson, "Balance is key: Private median splits yield high-utility random trees".
Line by line: docs/papers/diprime.md.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve, frozen

import privledger as pl
from privledger_learners.estimator import (
    Relation,
    check_choice,
    check_common,
    check_count,
    check_depth,
    check_number,
)
from privledger_learners.published import diprime_claims
from privledger_learners.trees.bin_rule import BinRule, bin_rule
from privledger_learners.trees.depth_rule import (
    DepthRule,
    Grown,
    fair_depth,
    scale_within,
    scales_per_leaf,
)
from privledger_learners.trees.forest import (
    FLAT,
    Forest,
    Tree,
    TreeClassifier,
    TreeLearner,
    TreeRegressor,
)
from privledger_learners.trees.grow import (
    geometric,
    laplace,
    leaf_values,
    monotone,
    quantile_classes,
    some_of,
    splittable,
)

PAPER = "Consul & Williamson, Balance is key: Private median splits yield high-utility random trees"
VARIANTS = ("base", "exp", "flip", "joint")
PAPERS_CANDIDATES = 5  # features that compete in a leaf, where none are set


@frozen
class DiprimeRecipe:
    """Shares of the budget, and the factor that makes the whole plan cost it.

    Attributes:
        structure, leaves: of one tree, per unit of `factor`; where bins are bought each gives
            its share for them.
        count, quantiles: once, per unit of `factor`; 0 if not bought.
        attribute: part of a level for the choice of the attribute.
        candidates: features that compete in a leaf, by public coins; None for all.
        depth: fixed, or None: from the number of rows.
        rows: a number of rows that may be used: expected, or public under replace_one.
        bins: how finely features are cut.
        least: rows, where a row count is bought, below which leaves say what their root says.
        published: whether a paper's arithmetic stands beside the sound one.
    """

    schema: pl.Schema
    relation: Relation
    delta: float
    variant: str
    trees: int
    partitioned: bool
    structure: float
    leaves: float
    count: float
    quantiles: float
    attribute: float
    candidates: int | None
    level_ratio: float
    depth: int | None
    max_depth: int
    per_leaf: float
    rows: int | None
    bins: BinRule
    smoothing: float
    least: float = 0.0
    published: bool = True
    factor: float = 1.0

    @property
    def plan(self) -> pl.Node:
        """What a fit reserves: the plan at the factor that makes it cost the budget."""
        return self.plan_at(self.factor)

    def plan_at(self, factor: float) -> pl.Node:
        """Row count, histogram of the target, then the forest, of one of the possible depths."""
        target = ([laplace(factor * self.quantiles, self.relation, cells=True)]
                  if self.quantiles else [])
        return pl.Sequential(self._rule(factor).nodes(
            target, lambda form: self._forest(form, factor)))

    def _rule(self, factor: float) -> DepthRule:
        noise = laplace(factor * self.count, self.relation, cells=False) if self.count else None
        return DepthRule(self.depth, self.rows, self.max_depth,
                         lambda rows: self._depth(rows, factor), noise, self.bins)

    def _grown(self, factor: float) -> float:
        """Pure epsilon of everything but row count and target."""
        return factor * (1.0 - self.count - self.quantiles)

    def _left(self, form: Grown, factor: float) -> float:
        return factor * (self.bins.left if form.buys else 1.0)

    def _forest(self, form: Grown, factor: float) -> pl.Node:
        left = self._left(form, factor)
        levels = [node for level in self._levels(form.depth, left) for node in level]
        tree: pl.Node = pl.Sequential([*levels, self._leaf_noise(left)])
        if self.trees > 1 and self.partitioned:
            tree = pl.Parallel([tree] * self.trees, "iid_per_record")
        elif self.trees > 1:
            tree = pl.Repeat(tree, self.trees)
        return pl.Sequential([self.bins.node(self._grown(factor)), tree]) if form.buys else tree

    def _levels(self, depth: int, factor: float) -> list[tuple[Any, ...]]:
        """Mechanisms of every level, in the order in which they are asked."""
        parts = geometric(factor * self.structure, depth, self.level_ratio)
        if self.variant == "joint":
            return [(mechanism,) for mechanism in monotone(parts)]
        if self.variant == "base":
            return [(pl.Exponential(part),) for part in parts]
        shares = [self.attribute * part for part in parts]
        choosers: Any = (monotone(shares) if self.variant == "exp"
                         else [pl.PermuteAndFlip(share) for share in shares])
        return [(chooser, pl.Exponential(part - share))
                for chooser, part, share in zip(choosers, parts, shares, strict=True)]

    def _leaf_noise(self, factor: float) -> pl.Laplace:
        return laplace(factor * self.leaves, self.relation, cells=True)

    def _depth(self, rows: float, factor: float) -> int:
        per_tree = rows / self.trees if self.partitioned else rows
        return fair_depth(per_tree, factor * self.leaves, self.per_leaf, self.max_depth)

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """One tree per part, or all on the same records."""
        rule = self._rule(self.factor)
        rows = rule.known_rows(session, data)
        form, labels = rule.form(rows), self._labels(session, data)
        bins = self.bins.chosen(session, data, rows, self._grown(self.factor))
        handles: Any = [data] * self.trees
        if self.partitioned and self.trees > 1:
            handles = data.partition(self.trees)
        smoothing = FLAT if rows is not None and rows < self.least else self.smoothing
        return Forest(tuple(self._tree(session, handles[place], bins, form, labels, rng, smoothing)
                            for place in range(self.trees)), rows=rows)

    def _labels(self, session: pl.Session, data: pl.Dataset) -> Any:
        """What squared errors are of: classes, quantile classes, or None for the number."""
        if self.schema.task == "classification":
            return pl.questions.CategoryCells("", len(self.schema.target.categories))
        if not self.quantiles:
            return None
        return quantile_classes(session, data, laplace(self.factor * self.quantiles,
                                                       self.relation, cells=True))

    def _tree(self, session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins, form: Grown,
              labels: Any, rng: np.random.Generator, smoothing: float) -> Tree:
        tree, left = data.root(bins), self._left(form, self.factor)
        for mechanisms in self._levels(form.depth, left):
            picked = self._pick(session, data, tree, mechanisms, labels, rng)
            tree = tree.grow(picked.feature, picked.cut)
        return Tree(tree, leaf_values(session, data, tree, self._leaf_noise(left), smoothing))

    def _pick(self, session: pl.Session, data: pl.Dataset, tree: pl.questions.GrownCells,
              mechanisms: tuple[Any, ...], labels: Any, rng: np.random.Generator) -> Any:
        """What each leaf of a level tests, and where: a released `Picked`."""
        allowed = splittable(tree)
        if self.variant == "base":
            feature = np.where(allowed.any(axis=1), some_of(allowed, 1, rng).argmax(axis=1), -1)
            return session.release(mechanisms[0], data.choose(tree, "rank", features=feature))
        if self.candidates is not None:
            allowed = some_of(allowed, self.candidates, rng)
        if self.variant == "joint":
            return session.release(mechanisms[0], data.choose(
                tree, "squared_error", among="both", labels=labels, allowed=allowed))
        found = session.release(mechanisms[0], data.choose(
            tree, "squared_error", among="features", labels=labels, allowed=allowed))
        return session.release(mechanisms[1], data.choose(tree, "rank", features=found.feature))

    def claimed(self) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the cost of its own steps and of what runs here."""
        features = len(self.schema.features)
        if not self.published:
            return (pl.ClaimStep(
                "everything", "not from a paper", None,
                pl.epsilon(self.plan, self.delta, self.relation), self.delta,
                "levels and leaves add up; leaves of one level are disjoint"),)
        return diprime_claims(
            structure=self.factor * self.structure, leaves=self.factor * self.leaves,
            trees=self.trees, partitioned=self.partitioned, variant=self.variant,
            attribute=self.attribute, delta=self.delta,
            candidates=min(self.candidates or PAPERS_CANDIDATES, features),
            regression=self.schema.task == "regression",
            sound=pl.epsilon(self.plan, self.delta, self.relation))


class _DiPriMe(TreeLearner):
    """Shared by classifier and regressor; see their docstrings.

    Attributes:
        share_name: what the parameter `split_share` is called. published: as of the recipe.
    """

    share_name, published = "split_share", True

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        variant: str = "joint",
        n_trees: int | None = None,
        partitioned: bool = False,
        depth: int | None = None,
        max_depth: int = 10,
        split_share: float | None = None,
        attribute_share: float = 0.5,
        candidates: int | None = None,
        level_ratio: float = 1.1,
        count_share: float = 0.05,
        quantile_share: float = 0.05,
        smoothing: float = 4.0,
        per_leaf: float | None = None,
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
        self.variant = variant
        self.n_trees = n_trees
        self.partitioned = partitioned
        self.depth = depth
        self.max_depth = max_depth
        self.split_share = split_share
        self.attribute_share = attribute_share
        self.candidates = candidates
        self.level_ratio = level_ratio
        self.count_share = count_share
        self.quantile_share = quantile_share
        self.smoothing = smoothing
        self.per_leaf = per_leaf
        self.numeric_bins = numeric_bins
        self.bins_share = bins_share
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _recipe(self, schema: pl.Schema) -> DiprimeRecipe:
        self._check()
        rows = schema.rows_for(self.relation)
        buys_count = self.depth is None and rows is None
        count = self.count_share if buys_count else 0.0
        uses_target = schema.task == "regression" and self.variant != "base"
        quantiles = self.quantile_share if uses_target else 0.0
        joint = self.variant == "joint"
        trees = self.n_trees if self.n_trees is not None else 1 if joint else 4
        share = self.split_share if self.split_share is not None else 0.7 if joint else 0.4
        per_leaf = self.per_leaf if self.per_leaf is not None else scales_per_leaf(schema.task)
        tree = (1.0 - count - quantiles) / (1 if self.partitioned else trees)
        recipe = DiprimeRecipe(
            schema, self.relation, float(self.delta), self.variant, trees, self.partitioned,
            share * tree, (1.0 - share) * tree, count, quantiles, self.attribute_share,
            self.candidates, self.level_ratio, self.depth, self.max_depth, per_leaf,
            rows, bin_rule(schema, self.numeric_bins, self.bins_share,
                           float(self.epsilon) * (1.0 - count - quantiles), self.relation),
            self.smoothing, self._least(schema), self.published)
        factor = scale_within(recipe.plan_at, float(self.epsilon), float(self.delta),
                              self.relation)
        return evolve(recipe, factor=factor)

    def _check(self) -> None:
        check_common(self)
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_choice("variant", self.variant, VARIANTS)
        check_choice("partitioned", self.partitioned, (True, False))
        for name, most in (("n_trees", 1000), ("candidates", 10**6)):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name), 1, most)
        check_depth(self.depth)
        check_count("max_depth", self.max_depth, 1, 14)
        if self.split_share is not None:
            check_number(self.share_name, self.split_share, 0.0, 0.99)
        check_number("attribute_share", self.attribute_share, 0.0, 0.99)
        check_number("level_ratio", self.level_ratio, 0.5, 2.0)
        check_number("count_share", self.count_share, 0.0, 0.4)
        check_number("quantile_share", self.quantile_share, 0.0, 0.4, open_low=False)
        check_number("bins_share", self.bins_share, 0.0, 0.4, open_low=False)
        check_number("smoothing", self.smoothing, 0.0, 1e3, open_low=False)
        if self.per_leaf is not None:
            check_number("per_leaf", self.per_leaf, 0.0, 1e6)


class DiPriMeForestClassifier(_DiPriMe, TreeClassifier):
    """Trees cut at private medians, or at jointly chosen cuts; leaves hold noisy class counts.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability. With delta above
            zero, trees on the same records are composed by the ledger's accountants.
        schema: public facts of the table; required unless a guarded Dataset is given.
        variant: `base`: an attribute by public coins, then a private median of it. `exp`,
            `flip`: the attribute by the exponential mechanism or by permute-and-flip, scored by
            its best cut, then one median. `joint`: attribute and cut in one exponential
            mechanism.
        n_trees: None for one joint tree, or four of the other variants.
        partitioned: every record goes to one tree, by a private coin of its own; otherwise all
            trees use all records and share the budget.
        depth: None for the rule: from the row count, public or bought, at most `max_depth`,
            such that a leaf holds `per_leaf` noise scales: 10 for classes, 20 for numbers.
        split_share: part of a tree's budget for its structure (the paper's rho); None for .7
            (`joint`) or .4.
        attribute_share: part of a level for the attribute (`exp` and `flip`).
        candidates: how many features compete in a leaf, drawn by public coins (the paper's K);
            None for all.
        level_ratio: budget of a level over that of the level above it.
        count_share: part of epsilon for the row count, where the depth needs it.
        smoothing: how strongly a leaf is drawn to the node above it, for free; 0 for not at
            all.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins; None for the
            rule: 255 bins of about equal mass, bought, where rows (declared, or bought for the
            depth) and epsilon are enough for them, else a public grid.
        bins_share: part of epsilon for such bins, where they are bought; 0 never buys them.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulated noise; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("diprime-forest-classifier", "trees of private medians, or of joint "
                          "choices, for classes", PAPER, ("add_remove", "replace_one"),
                          ("classification",))


class DiPriMeForestRegressor(_DiPriMe, TreeRegressor):
    """The same for a number: leaves hold a noisy sum and a noisy count.

    Args:
        quantile_share: part of epsilon for a histogram of the target; its quantiles are the
            classes whose squared error is scored. 0 scores the number itself.

    Other parameters as in `DiPriMeForestClassifier`.
    """

    info = pl.LearnerInfo("diprime-forest-regressor", "trees of private medians, or of joint "
                          "choices, for a number", PAPER, ("add_remove", "replace_one"),
                          ("regression",))


__all__ = ["DiPriMeForestClassifier", "DiPriMeForestRegressor"]
