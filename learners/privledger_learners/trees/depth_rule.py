"""What a tree learner fixes before data exist: how deep a tree is, and how far a plan reaches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from attrs import frozen

import privledger as pl
from privledger_learners.estimator import Relation
from privledger_learners.trees.bin_rule import BinRule

_SPARE = 1 - 1e-9  # so that rounding against ourselves never takes a plan over its budget


@frozen(eq=False)
class Grown:
    """One form that a fit may take: how deep its trees are, and whether quantiles are bought."""

    depth: int
    buys: bool


@frozen(eq=False)
class DepthRule:
    """How a depth is found, and what plans of every depth that is possible look like.

    Attributes:
        fixed: the depth, or None for the rule.
        rows: a number of rows that may be used: expected, or public under replace_one.
        most: the largest depth that the rule gives.
        fair: depth for a number of rows, from 1 to `most`; it never falls as they rise.
        count: noise of the row count; None where it is not bought.
        bins: for which numbers of rows quantiles are bought.
    """

    fixed: int | None
    rows: int | None
    most: int
    fair: Callable[[float], int]
    count: pl.Laplace | None
    bins: BinRule

    def nodes(self, before: Sequence[pl.Node], grown: Callable[[Grown], pl.Node]) -> list[pl.Node]:
        """Row count, the nodes `before`, and what `grown` gives for the one form that is
        possible, or one of them."""
        counted = [] if self.count is None else [self.count]
        return [*counted, *before, one_of([grown(form) for form in self._forms()])]

    def _forms(self) -> list[Grown]:
        """All forms that `form` may give: one, unless a row count is bought."""
        if self.fixed is not None or self.rows is not None:
            return [self.form(self.rows)]
        if self.bins.enough == math.inf:
            return [Grown(depth, False) for depth in range(1, self.most + 1)]
        # Below `enough` rows trees are at most as deep as there, from then on at least.
        border = self.fair(self.bins.enough)
        return [*(Grown(depth, False) for depth in range(1, border + 1)),
                *(Grown(depth, True) for depth in range(border, self.most + 1))]

    def form(self, rows: float | None) -> Grown:
        """The form for so many rows, or where they are unknown and the depth is fixed."""
        if self.fixed is not None:
            return Grown(self.fixed, self.bins.buys(rows))
        assert rows is not None  # where neither is known, the plan holds the row count
        return Grown(self.fair(rows), self.bins.buys(rows))

    def known_rows(self, session: pl.Session, data: pl.Dataset) -> float | None:
        """The number of rows to go by; buys it where that is what the plan says."""
        if self.fixed is not None or self.rows is not None:
            return self.rows
        assert self.count is not None  # as above
        return float(session.release(self.count, data.count()))


def one_of(nodes: list[pl.Node]) -> pl.Node:
    """The only member, or a choice among them that follows from a released number."""
    return nodes[0] if len(nodes) == 1 else pl.nodes.OneOf(nodes)


def fair_depth(rows: float, leaf_epsilon: float, per_leaf: float, most: int) -> int:
    """As deep as leaves of `per_leaf` noise scales allow, from 1 to `most`."""
    scales = rows * leaf_epsilon / per_leaf
    wanted = math.floor(math.log2(scales) + 1e-12) if scales > 2 else 1
    return min(wanted, most)


def scales_per_leaf(task: str) -> float:
    """Records of a leaf in units of its noise scale; found on public development sets."""
    return 10.0 if task == "classification" else 20.0


def scale_within(make: Callable[[float], pl.Node], epsilon: float, delta: float,
                 relation: Relation) -> float:
    """The factor for which `make(factor)` costs (epsilon, delta).

    Every mechanism of `make(factor)` must have pure epsilon in proportion to `factor`.
    """
    pure = epsilon / pl.epsilon(make(1.0), 0.0, relation) * _SPARE
    if delta == 0.0:
        return pure
    return max(pure, pl.calibrate(make, epsilon, delta, relation, largest=True))
