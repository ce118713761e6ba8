"""The depth of a tree: fixed, or from a row count that is public or bought."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from attrs import frozen

import privledger as pl


@frozen(eq=False)
class DepthRule:
    """How a depth is found, and what plans of every depth that is possible look like.

    Attributes:
        fixed: the depth, or None for the rule.
        rows: a number of rows that may be used: expected, or public under replace_one.
        most: the largest depth that the rule gives.
        fair: depth for a number of rows, from 1 to `most`.
        count: noise of the row count; None where it is not bought.
    """

    fixed: int | None
    rows: int | None
    most: int
    fair: Callable[[float], int]
    count: pl.Laplace | None

    def nodes(self, before: Sequence[Any], grown: Callable[[int], Any]) -> list[Any]:
        """Row count, the nodes `before`, and what `grown` gives for the depth, or one of them."""
        if self.fixed is not None:
            depths = [self.fixed]
        elif self.rows is not None:
            depths = [self.fair(self.rows)]
        else:
            depths = list(range(1, self.most + 1))
        members = [grown(depth) for depth in depths]
        counted = [] if self.count is None else [self.count]
        return [*counted, *before, members[0] if len(members) == 1 else pl.nodes.OneOf(members)]

    def chosen(self, session: pl.Session, data: pl.Dataset) -> int:
        """The depth; buys the row count where that is what the plan says."""
        if self.fixed is not None:
            return self.fixed
        if self.rows is not None:
            return self.fair(self.rows)
        return self.fair(float(session.release(self.count, data.count())))
