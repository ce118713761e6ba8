"""What an ensemble's parameters come to, before any data exist."""

from __future__ import annotations

import math

from attrs import evolve, frozen

import privledger as pl
from privledger_learners.trees.grow import geometric, laplace

SETTINGS = ("spe", "sspe1", "sspe2", "pte")
LABEL_SETTINGS = ("sspe2", "pte")
DEEPEST = 14
FEW, MANY = 5, 10  # trees, below and from RECORDS / epsilon records


RECORDS = 20_000.0
LEAF_RECORDS = 12.5


@frozen
class Choices:
    """Resolved parameters of one ensemble; what is None follows from a number of records.

    Attributes:
        trees: how many. disjoint: each on a part of its own, else all on the same records.
        depth: of every tree.
        structure: part of epsilon for the medians. count: part for the number of records.
        ratio: of a level's epsilon to that of the level above.
        layered: how attributes are drawn; see `toss`.
        leaf_records: records times epsilon that a leaf should hold.
        smoothing: 0 for none. votes: how leaves of several trees add up.
    """

    trees: int | None
    disjoint: bool
    depth: int | None
    max_depth: int
    structure: float
    count: float
    ratio: float
    layered: bool
    leaf_records: float
    smoothing: float
    votes: str
    numeric_bins: int

    @property
    def known(self) -> bool:
        """Whether no number of records is needed."""
        return self.trees is not None and self.depth is not None

    @property
    def _counts(self) -> tuple[int, ...]:
        # Both are reserved; the released number of records says which is grown.
        return (FEW, MANY) if self.trees is None else (self.trees,)

    def all_shapes(self) -> list[Choices]:
        """Every ensemble that `fitted` may give."""
        depths = range(1, self.max_depth + 1) if self.depth is None else (self.depth,)
        return [evolve(self, trees=trees, depth=depth)
                for trees in self._counts for depth in depths]

    def fitted(self, rows: float, epsilon: float, leaves: float) -> Choices:
        """The ensemble for about so many (labelled) records.

        Args:
            epsilon: of everything. leaves: of the class counts of all trees.
        """
        trees = self.trees or (MANY if rows * epsilon >= RECORDS else FEW)
        reach = max(rows, 1.0) * leaves / self.leaf_records
        depth = round(math.log2(max(reach, 2.0)))
        return evolve(self, trees=trees, depth=self.depth or min(max(depth, 1), self.max_depth))

    @property
    def splits(self) -> bool:
        """Whether there are parts to draw: one tree takes everything."""
        return self.disjoint and self.trees != 1

    def share(self, epsilon: float) -> float:
        """What one tree may spend of what all trees may."""
        assert self.trees is not None
        return epsilon * (1 - 1e-9) / (1 if self.splits else self.trees)

    def levels(self, epsilon: float) -> tuple[pl.Exponential, ...]:
        """One median mechanism per level of one tree, from the epsilon of all trees' levels.

        Geometric: the paper's equation (7) at ratio 3/2.
        """
        assert self.depth is not None
        return tuple(pl.Exponential(part)
                     for part in geometric(self.share(epsilon), self.depth, self.ratio))

    def leaf(self, epsilon: float, relation: str = "add_remove") -> pl.Laplace:
        """Noise of the class counts of one tree, from the epsilon of all trees' leaves."""
        return laplace(self.share(epsilon), relation, cells=True)

    def all_trees(self, node: pl.Node, certificate: str = "iid_per_record") -> pl.Node:
        """`node` once per tree."""
        assert self.trees is not None
        if self.splits:
            return pl.Parallel([node] * self.trees, certificate)  # type: ignore[arg-type]
        return pl.Repeat(node, self.trees)


def one_of(nodes: list[pl.Node]) -> pl.Node:
    """The only member, or a choice that follows from a released number."""
    return nodes[0] if len(nodes) == 1 else pl.nodes.OneOf(nodes)
