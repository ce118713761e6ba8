"""How the trees of comparison rows choose their tests. NOT PRIVATE."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from privledger_papers.comparison_trees import Level, Rule, Tests

WORST = -math.inf
Pick = Callable[[Level, np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _cuts(level: Level, feature: np.ndarray, pick: Pick) -> tuple[np.ndarray, np.ndarray]:
    """For each node the cut of its feature that `pick` likes best, and how pure its sides are.

    Args:
        feature: one for each node, (m,).
        pick: of every border between two records: how much it is liked, from the level, the
            purity of the sides, the number on the left and the node.

    Returns:
        Cuts, (m,), and purity, (m,): -inf where a node has no border.
    """
    values = level.X[level.rows, feature[level.node]]
    order = np.lexsort((values, level.node))
    v, node, T = values[order], level.node[order], level.T[level.rows][order]
    before = np.concatenate([np.zeros((1, T.shape[1])), np.cumsum(T, axis=0)])
    first = np.searchsorted(node, np.arange(level.m + 1))
    n = np.arange(1, len(v) + 1) - first[node]
    size = np.diff(first)[node]
    left = before[1:] - before[first[node]]
    right = before[first[node + 1]] - before[1:]
    rest = size - n
    purity = (left**2).sum(axis=1) / n + (right**2).sum(axis=1) / np.maximum(rest, 1)
    border = np.zeros(len(v), dtype=bool)
    border[:-1] = (node[:-1] == node[1:]) & (v[:-1] < v[1:])
    border &= (n >= level.least) & (rest >= level.least)
    liked = np.where(border, pick(level, purity, n, node), WORST)
    best = np.full(level.m, WORST)
    np.maximum.at(best, node, liked)
    chosen = np.flatnonzero((liked == best[node]) & border)
    cut, pure = np.zeros(level.m), np.full(level.m, WORST)
    cut[node[chosen]] = (v[chosen] + v[np.minimum(chosen + 1, len(v) - 1)]) / 2
    # Between two neighbouring floats their mean may be the upper one.
    cut[node[chosen]] = np.where(cut[node[chosen]] >= v[np.minimum(chosen + 1, len(v) - 1)],
                                 v[chosen], cut[node[chosen]])
    pure[node[chosen]] = purity[chosen]
    return cut, pure


def _best_of(level: Level, many: np.ndarray, pick: Pick, rng: np.random.Generator) -> Tests:
    """The purest of `many` candidate features of each node, (m,), each with the cut it picks."""
    d = level.X.shape[1]
    order = rng.random((level.m, d)).argsort(axis=1)
    pure, feature, cut = np.full(level.m, WORST), np.zeros(level.m, dtype=np.int64), np.zeros(
        level.m)
    for slot in range(min(int(many.max(initial=0)), d)):
        own = order[:, slot]
        where, how = _cuts(level, own, pick)
        better = (how > pure) & (slot < many)
        pure, feature = np.where(better, how, pure), np.where(better, own, feature)
        cut = np.where(better, where, cut)
    return Tests(pure > WORST, feature, cut)


def _purest(level: Level, purity: np.ndarray, n: np.ndarray, node: np.ndarray) -> np.ndarray:
    return purity


def _middle(level: Level, purity: np.ndarray, n: np.ndarray, node: np.ndarray) -> np.ndarray:
    return np.asarray(-np.abs(n - np.bincount(node, minlength=level.m)[node] / 2))


def medians(candidates: int) -> Rule:
    """Paper 000's Median: of some features by chance, the purest when cut at its median."""
    def rule(level: Level, rng: np.random.Generator) -> Tests:
        return _best_of(level, np.full(level.m, candidates), _middle, rng)
    return rule


def denil(level: Level, rng: np.random.Generator) -> Tests:
    """Denil, Matheson, de Freitas 2014: 1 + Poisson(sqrt(d)) features, the purest cut among
    those between ten records of the node."""
    def among(level: Level, purity: np.ndarray, n: np.ndarray, node: np.ndarray) -> np.ndarray:
        seen = rng.random(len(n)) < 10 / np.bincount(node, minlength=level.m)[node]
        low, high = np.full(level.m, math.inf), np.full(level.m, WORST)
        np.minimum.at(low, node[seen], n[seen])
        np.maximum.at(high, node[seen], n[seen])
        return np.where((n >= low[node]) & (n <= high[node]), purity, WORST)

    many = 1 + rng.poisson(math.sqrt(level.X.shape[1]), level.m)
    return _best_of(level, many, among, rng)


def bernoulli(level: Level, rng: np.random.Generator, chance: float = 0.05) -> Tests:
    """BRF, Wang, Xia, Tang, Wu, Zhu 2016: with a small chance one feature, with a small chance a
    cut at random; else sqrt(d) features and the purest cut."""
    one, anywhere = rng.random(level.m) < chance, rng.random(level.m) < chance

    def pick(level: Level, purity: np.ndarray, n: np.ndarray, node: np.ndarray) -> np.ndarray:
        return np.where(anywhere[node], rng.random(len(n)), purity)

    many = np.where(one, 1, math.ceil(math.sqrt(level.X.shape[1])))
    return _best_of(level, many, pick, rng)


def nearness(*, classes: bool) -> Rule:
    """CompRF, Haghiri, Garreau, von Luxburg 2018: which of two records of the node is nearer.

    Args:
        classes: the two differ in class, else any two.
    """
    def rule(level: Level, rng: np.random.Generator) -> Tests:
        chance = rng.random(len(level.rows))
        order = np.lexsort((chance, level.node))
        first = np.searchsorted(level.node[order], np.arange(level.m))
        size = np.bincount(level.node, minlength=level.m)
        near = level.rows[order[np.minimum(first, len(order) - 1)]]
        other = np.ones(len(level.rows), dtype=bool)
        if classes:
            label = level.T.argmax(axis=1)
            other = label[level.rows] != label[near][level.node]
        other &= level.rows != near[level.node]
        places = np.flatnonzero(other)
        again = places[np.lexsort((rng.random(len(places)), level.node[places]))]
        start = np.searchsorted(level.node[again], np.arange(level.m))
        there = np.bincount(level.node[again], minlength=level.m) > 0
        far = np.where(there, level.rows[again[np.minimum(start, max(len(again) - 1, 0))]]
                       if len(again) else near, near)
        return Tests(there & (size >= 2 * level.least), None, None, near, far)
    return rule
