"""The frame of a baseline that grows a forest: parameters, checks, what print is refused for."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from attrs import evolve

import privledger as pl
from privledger_learners.baselines.forest_recipe import ForestRecipe, Steps, TreeWay
from privledger_learners.estimator import (
    Relation,
    check_choice,
    check_common,
    check_count,
    check_depth,
)
from privledger_learners.trees.depth_rule import scale_within
from privledger_learners.trees.forest import TreeLearner

DEEPEST = 14
COUNT_SHARE = 0.02
TREES = 10


class Baseline(TreeLearner):
    """Shared by every baseline that is a forest; see their docstrings.

    A subclass says how a tree is grown (`_way`), how deep it is (`_fair`, or `_public_depth`),
    and what its paper says (`_printed`).
    """

    partitioned = False
    own_bins = 65534
    floors: Mapping[str, float] = {}  # papers do not fall back

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        variant: str = "default",
        n_trees: int = TREES,
        depth: int | None = None,
        max_depth: int = 10,
        numeric_bins: int | None = None,
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
        self.depth = depth
        self.max_depth = max_depth
        self.numeric_bins = numeric_bins
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _way(self, schema: pl.Schema) -> TreeWay:
        raise NotImplementedError

    def _fair(self, schema: pl.Schema) -> Callable[[float], int]:
        """The depth for a number of rows, as printed; it never falls as they rise."""
        return lambda rows: 1

    def _public_depth(self, schema: pl.Schema) -> int | None:
        """The depth where it follows from the schema alone; None where it needs a row count."""
        return None

    def _printed(self, schema: pl.Schema, sound: float) -> Steps:
        raise NotImplementedError

    def _recipe(self, schema: pl.Schema) -> ForestRecipe:
        self._check()
        rows = schema.rows_for(self.relation)
        depth = self.depth
        if depth is None and (found := self._public_depth(schema)) is not None:
            depth = min(max(found, 1), self.max_depth)
        if self.variant == "paper":
            refuse_printed(self._printed(schema, float(self.epsilon)), type(self).__name__)
        count = COUNT_SHARE if depth is None and rows is None else 0.0
        fair = self._fair(schema)
        recipe = ForestRecipe(
            schema, self.relation, float(self.delta), self._way(schema), int(self.n_trees),
            self.partitioned, count, depth, self.max_depth, rows,
            self.own_bins if self.numeric_bins is None else self.numeric_bins,
            lambda found: min(max(fair(max(found, 1.0)), 1), self.max_depth),
            lambda sound: self._printed(schema, sound))
        return evolve(recipe, factor=scale_within(recipe.plan_at, float(self.epsilon),
                                                  float(self.delta), self.relation))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        for own in (tags.classifier_tags, tags.regressor_tags):
            if own is not None:
                own.poor_score = True  # tests by chance, or on five bins: no fault of the noise
        return tags

    def _check(self) -> None:
        check_common(self)
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_choice("variant", self.variant, ("default", "paper"))
        check_count("n_trees", self.n_trees, 1, 1000)
        check_depth(self.depth, DEEPEST)
        check_count("max_depth", self.max_depth, 1, DEEPEST)


def refuse_printed(steps: Steps, name: str) -> None:
    """Raise if a step of a paper has no finite price as printed; nothing was read.

    Raises:
        InvalidValue: names the first such step, and why.
    """
    for step in steps:
        if not step.sound < math.inf:
            raise pl.InvalidValue("variant", "paper", f"default: {name} as printed has no finite "
                                  f"epsilon. {step.step}: {step.note}. Nothing was read")


def records_per_leaf(least: float, branches: float) -> Callable[[float], int]:
    """The largest depth whose leaves hold `least` records each, for a number of rows."""
    return lambda rows: math.floor(math.log(max(rows / least, 1.0), branches) + 1e-12)
