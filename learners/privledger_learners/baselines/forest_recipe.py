"""A forest of a baseline: how many trees, how deep, and what each may spend."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np
from attrs import field, frozen

import privledger as pl
from privledger_learners.estimator import Relation
from privledger_learners.trees.bin_rule import BinRule
from privledger_learners.trees.depth_rule import DepthRule, Grown
from privledger_learners.trees.forest import Forest, Tree
from privledger_learners.trees.grow import laplace

Steps = tuple[pl.ClaimStep, ...]


class TreeWay(Protocol):
    """How one tree is grown, and what that costs; from public facts alone."""

    @property
    def votes(self) -> str:
        """How leaves of several trees add up, as in `Forest`."""

    def node(self, depth: int, epsilon: float) -> pl.Node:
        """What one tree of pure epsilon reserves."""

    def tree(self, session: pl.Session, data: pl.Dataset, bins: pl.questions.Bins, depth: int,
             epsilon: float, rng: np.random.Generator) -> Tree:
        """Grow one; `rng` makes public choices only."""


@frozen(eq=False)
class ForestRecipe:
    """Trees of one kind, on all records or on parts by private coins.

    Attributes:
        way: how a tree is grown.
        trees: how many. partitioned: each on a part of its own; else they share the budget.
        count: part of the budget for the number of rows; 0 if not bought.
        depth: fixed, or None: from the number of rows by `fair`, at most `max_depth`.
        rows: a number of rows that may be used: expected, or public under replace_one.
        printed: the paper's steps at this budget, from what the whole costs here.
        factor: pure epsilon of the whole.
    """

    schema: pl.Schema
    relation: Relation
    delta: float
    way: TreeWay
    trees: int
    partitioned: bool
    count: float
    depth: int | None
    max_depth: int
    rows: int | None
    numeric_bins: int
    fair: Callable[[float], int] = field(repr=False)
    printed: Callable[[float], Steps] = field(repr=False)
    factor: float = 1.0

    @property
    def plan(self) -> pl.Node:
        """What a fit reserves: the plan at the factor that makes it cost the budget."""
        return self.plan_at(self.factor)

    def plan_at(self, factor: float) -> pl.Node:
        """Row count, then the trees of one of the possible depths."""
        return pl.Sequential(self._rule(factor).nodes(
            [], lambda form: self._forest(form.depth, factor)))

    def _forest(self, depth: int, factor: float) -> pl.Node:
        tree = self.way.node(depth, self._share(factor))
        if self.partitioned and self.trees > 1:
            return pl.Parallel([tree] * self.trees, "iid_per_record")
        return pl.Repeat(tree, self.trees)

    def _share(self, factor: float) -> float:
        """Pure epsilon of one tree."""
        return factor * (1.0 - self.count) / (1 if self.partitioned else self.trees)

    def _rule(self, factor: float) -> DepthRule:
        noise = laplace(factor * self.count, self.relation, cells=False) if self.count else None
        never = BinRule(self.numeric_bins, (), 0.0, math.inf, self.relation)
        return DepthRule(self.depth, self.rows, self.max_depth, self.fair, noise, never)

    def train(self, session: pl.Session, data: pl.Dataset, rng: np.random.Generator) -> Forest:
        """One tree after another."""
        rule = self._rule(self.factor)
        form: Grown = rule.form(rule.known_rows(session, data))
        bins, share = data.bins(self.numeric_bins), self._share(self.factor)
        handles = [data] * self.trees
        if self.partitioned and self.trees > 1:
            parts = data.partition(self.trees)
            handles = [parts[place] for place in range(self.trees)]
        return Forest(tuple(self.way.tree(session, handle, bins, form.depth, share, rng)
                            for handle in handles), self.way.votes)

    def claimed(self) -> Steps:
        """The paper's steps beside their sound price; the last is the whole, as it runs here."""
        return self.printed(pl.epsilon(self.plan, self.delta, self.relation))
