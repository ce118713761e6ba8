"""Trees that the papers compare with and no library has: grown a level at a time. NOT PRIVATE.

Definitions as the comparing papers give them; docs/papers/baselines.md says how each is known.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from attrs import define, field, frozen

DEEPEST = 60


@frozen(eq=False)
class Tests:
    """One test for each node of a level, by values of features or by nearness to two points.

    Attributes:
        open: which nodes have one, shape (m,). feature, cut: values up to `cut` go left, (m,).
        near, far: places of two records, (m,); records nearer to the first go left.
    """

    open: np.ndarray
    feature: np.ndarray | None = None
    cut: np.ndarray | None = None
    near: np.ndarray | None = None
    far: np.ndarray | None = None


@frozen(eq=False)
class Level:
    """What a rule may look at.

    Attributes:
        X: shape (n, d). T: class indicators, or the target, shape (n, c).
        rows: records that shape trees, places in X. node: whose each is, 0 to m - 1.
    """

    X: np.ndarray
    T: np.ndarray
    rows: np.ndarray
    node: np.ndarray
    m: int
    least: int
    depth: int


Rule = Callable[[Level, np.random.Generator], Tests]


@define(eq=False)
class Tree:
    """Nodes in the order in which they were made; a leaf's children are -1."""

    points: np.ndarray
    feature: list[int] = field(factory=list)
    cut: list[float] = field(factory=list)
    near: list[int] = field(factory=list)
    far: list[int] = field(factory=list)
    left: list[int] = field(factory=list)
    value: list[np.ndarray] = field(factory=list)

    def add(self, value: np.ndarray) -> int:
        """A new leaf; its number."""
        for held, one in ((self.feature, -1), (self.cut, 0.0), (self.near, -1), (self.far, -1),
                          (self.left, -1)):
            held.append(one)  # type: ignore[arg-type]
        self.value.append(value)
        return len(self.value) - 1

    def split(self, place: int, tests: Tests, k: int) -> None:
        """Give a leaf the k-th test of a level and two children, the second after the first."""
        if tests.feature is not None and tests.cut is not None:
            self.feature[place], self.cut[place] = int(tests.feature[k]), float(tests.cut[k])
        if tests.near is not None and tests.far is not None:
            self.near[place], self.far[place] = int(tests.near[k]), int(tests.far[k])
        self.left[place] = self.add(self.value[place])
        self.add(self.value[place])

    def values(self, X: np.ndarray) -> np.ndarray:
        """Value of every record's leaf, shape (n, c)."""
        left, feature, cut = np.array(self.left), np.array(self.feature), np.array(self.cut)
        near, far = np.array(self.near), np.array(self.far)
        place, rows = np.zeros(len(X), dtype=np.int64), np.arange(len(X))
        while len(rows := rows[left[place[rows]] >= 0]):
            at = place[rows]
            goes = _left(X[rows], self.points, feature[at], cut[at], near[at], far[at])
            place[rows] = left[at] + ~goes
        return np.stack(self.value)[place]


def _left(X: np.ndarray, points: np.ndarray, feature: np.ndarray, cut: np.ndarray,
          near: np.ndarray, far: np.ndarray) -> np.ndarray:
    """Which records go left, each by a test of its own, shape (n,)."""
    if len(near) and near[0] >= 0:
        return np.asarray(((X - points[near]) ** 2).sum(axis=1)
                          <= ((X - points[far]) ** 2).sum(axis=1))
    return np.asarray(X[np.arange(len(X)), feature] <= cut)


def _sums(T: np.ndarray, node: np.ndarray, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of T, shape (m, c), and numbers of records, shape (m,), of every node."""
    sums = np.stack([np.bincount(node, T[:, c], m) for c in range(T.shape[1])], axis=1)
    return sums, np.bincount(node, minlength=m)


def grow(X: np.ndarray, T: np.ndarray, rule: Rule, rng: np.random.Generator, *, least: int,
         deepest: int = DEEPEST, honest: bool = False) -> Tree:
    """One tree on all rows.

    Args:
        least: records of every leaf. honest: half of the records, by chance, shape the tree; the
            others fill its leaves, `least` in each.
    """
    shape = rng.random(len(X)) < 0.5 if honest else np.ones(len(X), dtype=bool)
    fill = ~shape if honest else shape
    tree = Tree(X)
    frontier = np.array([tree.add(T[fill].mean(axis=0))])
    node = np.zeros(len(X), dtype=np.int64)
    for depth in range(deepest):
        rows, m = np.flatnonzero(node >= 0), len(frontier)
        if not m:
            break
        mine = rows[shape[rows]]
        tests = rule(Level(X, T, mine, node[mine], m, least, depth), rng)
        rows = rows[tests.open[node[rows]]]
        at = node[rows]
        none = np.full(m, -1)
        goes = _left(X[rows], X, *(np.asarray(part)[at] for part in (
            none if tests.feature is None else tests.feature,
            none if tests.cut is None else tests.cut,
            none if tests.near is None else tests.near,
            none if tests.far is None else tests.far)))
        child = 2 * at + ~goes
        filled = fill[rows]
        sums, sizes = _sums(T[rows[filled]], child[filled], 2 * m)
        kept = tests.open & (sizes.reshape(m, 2) >= least).all(axis=1)
        fresh = np.full(2 * m, -1)
        for k in np.flatnonzero(kept).tolist():
            tree.split(int(frontier[k]), tests, k)
            for side in (0, 1):
                tree.value[tree.left[frontier[k]] + side] = sums[2 * k + side] / sizes[2 * k + side]
        many = int(kept.sum())
        fresh[np.flatnonzero(np.repeat(kept, 2))] = np.arange(2 * many)
        node[:] = -1
        node[rows] = fresh[child]
        frontier = np.arange(len(tree.value) - 2 * many, len(tree.value))
    return tree
