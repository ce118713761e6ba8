"""A synthetic table from noisy marginals: a tree of (column, column, target) tables, or of pairs.

Every column is counted beside the target by Gaussian noise; exponential choices find the pairs of
columns that depend on each other the most; their tables are counted by Gaussian noise, too. All
else is post-processing (table_tree.py). How the shares were chosen: docs/synthetic.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.boosting.sum_of_trees import Priced
from privledger_learners.estimator import (
    PrivateLearner,
    Relation,
    check_choice,
    check_count,
    check_number,
)
from privledger_learners.guarding import note_features
from privledger_learners.scikit import check_is_fitted
from privledger_learners.table_tree import (
    GRID,
    TableTree,
    coarse_bins,
    fine_cells,
    level_of,
    pooled,
    settled,
    target_cells,
)

PAPER = ("McKenna, Miklau, Sheldon 2021, Winning the NIST Contest (its tree of pairs); with the "
         "target in every table as in Friedman, Geiger, Goldszmidt 1997")
SHARES = (0.35, 0.08, 0.57)
"""Of rho: every column beside the target, choices, chosen pairs."""

PENALTY = 0.4
"""Of a cell, in standard deviations of its noise: its mean size is .8 of one, but where few records
are, what falls below zero is cut."""

NOISE_PART, LEAST_BINS, MOST_BINS = 0.1, 3, 16
"""What part of the records the noise of a pair's table may move, and how many bins it has."""


@frozen
class TreeRule:
    """Everything that fixes a synthesizer's plan before data exist.

    Attributes:
        columns: that are counted. links: pairs that are chosen, one after the other.
    """

    columns: int
    links: int

    def count_node(self, noise: float) -> pl.Gaussian:
        """One column beside the target."""
        share = SHARES[0] if self.links else 1.0
        return pl.Gaussian(noise * math.sqrt(self.columns / share))

    def choice_node(self, noise: float) -> pl.Exponential:
        """One pair: rho of a choice is an eighth of its squared epsilon."""
        return pl.Exponential(2 * math.sqrt(SHARES[1] / self.links) / noise)

    def pair_node(self, noise: float) -> pl.Gaussian:
        """One chosen pair, with the target."""
        return pl.Gaussian(noise * math.sqrt(self.links / SHARES[2]))

    def plan(self, noise: float) -> pl.Node:
        """The composition node of a fit with overall noise multiplier `noise`."""
        counts: pl.Node = pl.Repeat(self.count_node(noise), self.columns)
        if not self.links:
            return counts
        return pl.Sequential([counts, pl.Repeat(self.choice_node(noise), self.links),
                              pl.Repeat(self.pair_node(noise), self.links)])


class MarginalSynthesizer(PrivateLearner):
    """A synthetic table whose marginals follow a private one's, under one plan.

    With a categorical target every table has it beside its columns: (column, target) tables, and
    (column, column, target) tables along a tree. Otherwise the numeric target is one column more,
    and tables are of pairs.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability; delta above zero.
        schema: public facts of the table; required unless a guarded Dataset is given.
        degree: 2: a tree of columns. 1: columns that are independent, given a class if there is
            one.
        rounds: how many pairs the tree has, one choice each; None for all that it can have.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of a simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        tree_: a `TableTree`, released values only; a notebook shows its marginals.
        rows_: how many records the released tables count, about.
        receipt_: the ledger's head after the fit. ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("marginal-synthesizer", "a synthetic table from a tree of noisy "
                          "marginals", PAPER, ("add_remove", "replace_one"),
                          ("classification", "regression"))
    model_records = (TableTree,)
    tree_: TableTree

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        degree: int = 2,
        rounds: int | None = None,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.degree = degree
        self.rounds = rounds
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _recipe(self, schema: pl.Schema) -> Priced[TreeRule]:
        check_choice("mode", self.mode, ("private", "simulation"))
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0)
        check_count("degree", self.degree, 1, 2)
        columns = len(schema.features) + (schema.target.kind == "numeric")
        links = columns - 1 if self.degree == 2 else 0
        if self.rounds is not None:
            check_count("rounds", self.rounds, 0)
            links = min(links, int(self.rounds))
        rule = TreeRule(columns, links)
        noise = pl.calibrate(rule.plan, self.epsilon, self.delta, self.relation)
        return Priced(rule, noise, rule.plan(noise))

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """No paper's price is claimed: the sound cost of the plan."""
        return (pl.ClaimStep("everything", "not from a paper", None, pl.epsilon(
            self._recipe(self._known(schema)).plan, self.delta, self.relation), self.delta,
            "Gaussian counts and exponential choices, one after the other"),)

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        priced = self._recipe(self._known(schema))
        self.tree_ = self._granted(data, priced.plan, lambda session: _Counting(
            session, data, priced.rule, priced.noise, self.relation).tree())
        self.rows_ = float(self.tree_.level.sum())

    def sample(self, n: int | None = None, seed: int = 0) -> Any:
        """A synthetic table: columns in the schema's order and types, the target among them.

        Post-processing: costs nothing, however often. A pandas frame where pandas is installed,
        else a dict of NumPy columns.

        Args:
            n: how many records; None for about as many as the released tables count (in a ledger
                that protects people one of many rows counts more than once, and not for each).
            seed: of the choices among records that fit the released tables; public.
        """
        check_is_fitted(self, "tree_")
        if n is not None:
            check_count("n", n, 1, 10**8)
        check_count("seed", seed, 0, 2**63)
        many = max(1, round(self.rows_)) if n is None else int(n)
        made = self.tree_.sample(many, np.random.default_rng(int(seed)))
        try:
            import pandas
        except ImportError:
            return made
        return pandas.DataFrame(made)

    def score_samples(self, X: object) -> np.ndarray:
        """Log probability of each row's cells under the released tables, shape (n,)."""
        check_is_fitted(self, "tree_")
        note_features(self, X, fitting=False)
        return self.tree_.log_probabilities(X)


@frozen(eq=False)
class _Counting:
    """One fit: what is asked, in order.

    Attributes:
        noise: overall noise multiplier of the plan.
    """

    session: pl.Session
    data: pl.Dataset
    rule: TreeRule
    noise: float
    relation: Relation

    def tree(self) -> TableTree:
        """Columns, choices, pairs; then what follows from them."""
        schema, data = self.data.schema, self.data
        classed = schema.target.kind == "categorical"
        cells = (*fine_cells(schema), *(() if classed else (target_cells(schema),)))
        classes = (pl.questions.CategoryCells("", len(schema.target.categories))
                   if classed else None)
        # A replaced record leaves one cell and comes into another.
        wider = 1.0 if self.relation == "add_remove" else math.sqrt(2)
        noise = tuple(wider * float(node.noise_multiplier) for node in (
            self.rule.count_node(self.noise),
            *([self.rule.pair_node(self.noise)] if self.rule.links else [])))
        bins, last = data.bins(GRID), len(schema.features)

        def counted(node: pl.Gaussian, places: Sequence[int], maps: Sequence[np.ndarray],
                    what: str) -> np.ndarray:
            sizes = [int(one.max()) + 1 for one in maps]
            found = np.asarray(self.session.release(node, data.query(
                (pl.questions.Ones(),), partition(places, maps), what)))
            shape = (*sizes, 1 if classes is None else classes.count)
            if places[-1] == last:  # a numeric target has an empty cell for missing values
                found = found.reshape(*sizes[:-1], sizes[-1] + 1)[..., :-1]
            return found.reshape(shape)

        def partition(places: Sequence[int], maps: Sequence[np.ndarray]) -> Any:
            """Cells of one or two columns, and of the class; a numeric target comes last."""
            inner = [(place, one) for place, one in zip(places, maps, strict=True)
                     if place != last]
            found: Any = classes
            if places[-1] == last:
                starts = np.flatnonzero(np.diff(maps[-1], prepend=-1))[1:]
                found = pl.questions.IntervalCells("", cells[last].borders[starts])
            if not inner:
                return found
            sizes = [int(one.max()) + 1 for _, one in inner]
            tests = tuple(pl.questions.Test(place, (
                one[cells[place].of_bin] * math.prod(sizes[turn + 1:])).astype(np.uint16))
                for turn, (place, one) in enumerate(inner))
            tree = pl.questions.TreeCells(
                bins, tests, math.prod(sizes))  # type: ignore[arg-type]  # a converter
            return tree if found is None else pl.questions.CrossCells(tree, found)

        count_node = self.rule.count_node(self.noise)
        two = [counted(count_node, (place,), (np.arange(one.size),), f"counts of "
                       f"{one.column.name}") for place, one in enumerate(cells)]
        level = level_of(two)
        if not self.rule.links:
            plain = [coarse_bins(table, noise[0], one, MOST_BINS)
                     for table, one in zip(two, cells, strict=True)]
            return settled(two, plain, {}, (noise[0], 1.0), schema, None if classed else last)
        most = math.sqrt(2 * NOISE_PART * float(level.sum()) / (0.8 * noise[1] * len(level)))
        coarse = [coarse_bins(table, noise[0], one, int(min(max(most, LEAST_BINS), MOST_BINS)))
                  for table, one in zip(two, cells, strict=True)]
        three = {pair: counted(self.rule.pair_node(self.noise), pair, [
            coarse[place] for place in pair], "counts of a pair")
            for pair in self._pairs(partition, two, coarse, level, (noise[0], noise[1]))}
        return settled(two, coarse, three, (noise[0], noise[1]), schema,
                       None if classed else last)

    def _pairs(self, partition: Any, two: list[np.ndarray], coarse: list[np.ndarray],
               level: np.ndarray, noise: tuple[float, float]) -> list[tuple[int, int]]:
        """The tree's pairs, by exponential choices of what is far from conditional
        independence: L1 distance, minus what the noise of its table would add to it."""
        known = pooled(two, coarse, {}, noise, level)
        pairs = list(itertools.combinations(range(len(two)), 2))
        tables = [partition(pair, [coarse[place] for place in pair]) for pair in pairs]
        expected, penalty = [], []
        for one, other in pairs:
            guess = known[one][:, None] * known[other][None] / np.maximum(level, 1e-9)
            penalty.append(PENALTY * noise[1] * guess.size)
            if other == len(self.data.schema.features):  # the empty cell for missing values
                guess = np.pad(guess, ((0, 0), (0, 1), (0, 0)))
            expected.append(guess.ravel())
        group, found = list(range(len(two))), list[tuple[int, int]]()
        for _ in range(self.rule.links):
            open_ = [turn for turn, (one, other) in enumerate(pairs)
                     if group[one] != group[other]]
            choice = pl.questions.TableChoice(
                self.data, [tables[turn] for turn in open_],
                np.concatenate([expected[turn] for turn in open_]),
                [penalty[turn] for turn in open_], "choice of a pair of columns")
            at = open_[int(self.session.release(self.rule.choice_node(self.noise), choice))]
            one, other = pairs[at]
            found.append((one, other))
            group = [group[one] if held == group[other] else held for held in group]
        return found


__all__ = ["MarginalSynthesizer"]
