"""How finely a tree learner cuts numeric features: public grids, or private quantiles it buys.

What decides is public: the parameters, the schema, and a number of rows that is declared or was
bought before (docs/proofs/split-scores.md).
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import Relation
from privledger_learners.trees.grow import laplace

FEW_BINS = 255
"""With the one for missing cells, as many as a byte tells apart."""
PUBLIC_BINS = 1024
FINE_BINS = 65534
FINE_ROWS = 50_000.0
"""Below so many rows the finest grid costs little time, and no cut is lost."""
GRID = 4096
ENOUGH = 50.0
"""Quantiles are bought where the rows are so many noise scales of a feature's histogram."""
STRENGTH = 2.0


@frozen(eq=False)
class BinRule:
    """Which bins a fit uses: every branch is reserved, a public number decides among them.

    Attributes:
        fixed: bins that were asked for, or None for the rule.
        wide: positions of the numeric features that have more values than a byte.
        share: part of the budget for the quantiles, where they are bought.
        enough: rows from which on they are bought; inf for never.
    """

    fixed: int | None
    wide: tuple[int, ...]
    share: float
    enough: float
    relation: Relation

    @property
    def left(self) -> float:
        """Part of the budget that is left where quantiles are bought."""
        return 1.0 - self.share

    def buys(self, rows: float | None) -> bool:
        """Whether quantiles are bought for so many rows; None: for an unknown number."""
        return rows is not None and rows >= self.enough

    def noise(self, epsilon: float) -> pl.Laplace:
        """Of one feature's histogram, from the pure epsilon that `share` is a part of."""
        return laplace(self.share * epsilon / len(self.wide), self.relation, cells=True)

    def node(self, epsilon: float) -> pl.Node:
        """The histograms of all wide features: every record is in each of them."""
        return pl.Repeat(self.noise(epsilon), len(self.wide))

    def chosen(self, session: pl.Session, data: pl.Dataset, rows: float | None,
               epsilon: float) -> pl.questions.Bins:
        """The bins for so many rows; buys quantiles where `buys` says so."""
        if not self.buys(rows):
            return public_bins(data, self.fixed, rows)
        return bought_bins(session, data, self.wide, self.noise(epsilon))


def bin_rule(schema: pl.Schema, numeric_bins: int | None, share: float, epsilon: float,
             relation: Relation) -> BinRule:
    """The rule where `share` of a pure `epsilon` may buy quantiles.

    Nothing is bought where bins are asked for, or where no feature is wide.
    """
    wide = wide_features(schema, numeric_bins, share)
    if not wide:
        return BinRule(numeric_bins, wide, 0.0, math.inf, relation)
    nominal = laplace(share * epsilon / len(wide), relation, cells=True)
    return BinRule(None, wide, float(share), enough_rows(nominal), relation)


def wide_features(schema: pl.Schema, numeric_bins: int | None,
                  share: float) -> tuple[int, ...]:
    """Positions of features whose quantiles may be bought: none if bins are asked for."""
    if numeric_bins is not None or share == 0:
        return ()
    return tuple(place for place, column in enumerate(schema.features) if is_wide(column))


def enough_rows(mechanism: pl.Laplace | pl.Gaussian) -> float:
    """From how many rows on histograms with this noise are bought."""
    return max(FINE_ROWS, ENOUGH * deviation(mechanism) / math.sqrt(2))


def deviation(mechanism: pl.Laplace | pl.Gaussian) -> float:
    """Standard deviation of the noise on a count."""
    if isinstance(mechanism, pl.Gaussian):
        return float(mechanism.noise_multiplier)
    return math.sqrt(2) * float(mechanism.scale)


def public_bins(data: pl.Dataset, fixed: int | None, rows: float | None) -> pl.questions.Bins:
    """Equal-width bins: as asked for, or the finest where the rows are few."""
    if fixed is not None:
        return data.bins(fixed)
    return data.bins(FINE_BINS if rows is not None and rows < FINE_ROWS else PUBLIC_BINS)


def is_wide(column: pl.Column) -> bool:
    """Whether a feature has more values than FEW_BINS, by its public bounds."""
    if column.kind != "numeric":
        return False
    whole = float(column.lower).is_integer() and float(column.upper).is_integer()
    return not (column.integer and whole and column.upper - column.lower < FEW_BINS)


def bought_bins(session: pl.Session, data: pl.Dataset, wide: tuple[int, ...],
                mechanism: pl.Laplace | pl.Gaussian) -> pl.questions.Bins:
    """FEW_BINS bins of about equal mass for the wide features, from one noisy histogram of each."""
    grid = data.bins(GRID)
    noise = deviation(mechanism)
    cuts: list[tuple[int, ...]] = [()] * len(data.schema.features)
    for place in wide:
        size = grid.sizes()[place]
        test = pl.questions.Test(place, np.arange(size, dtype=np.uint16))
        cells = pl.questions.TreeCells(grid, (test,), size)  # type: ignore[arg-type]  # a converter
        counts = session.release(mechanism, data.query(
            (pl.questions.Ones(),), cells, f"histogram of {data.schema.features[place].name}"))
        starts = equal_mass(np.asarray(counts).ravel()[:-1], noise)
        cuts[place] = tuple(on_grid(data.schema.features[place], starts, size - 1))
    return data.bins(FEW_BINS, cuts, GRID)


def on_grid(column: pl.Column, starts: np.ndarray, cells: int) -> list[int]:
    """Cells of the public grid where bins start, from cells of a histogram on it.

    A whole-number feature of fewer values than the grid has cells is counted value by value.
    """
    if cells == GRID:
        return [int(start) for start in starts]
    step = GRID / (column.upper - column.lower)
    return [min(int(start * step), GRID - 1) for start in starts]


def equal_mass(counts: np.ndarray, noise: float, bins: int = FEW_BINS) -> np.ndarray:
    """Cells at which bins of about equal mass start, from noisy counts of a histogram.

    Mass is told from the whole to the halves, again and again; a half's noisy count weighs
    against an even split as STRENGTH standard deviations of its noise. So where there is nothing
    but noise bins are of equal width.

    Args:
        counts: shape (cells,). noise: standard deviation of each.

    Returns:
        Rising whole numbers from 1 to cells - 1, at least one and fewer than `bins`.
    """
    mass = denoised(counts, noise)
    for _ in range(20):  # what a cell has above a bin's share goes to the others
        mass = np.minimum(mass, 1.0 / bins)
        mass /= mass.sum()
    reached = np.cumsum(mass)
    wanted = np.arange(1, bins) / bins
    found = np.unique(np.searchsorted(reached, wanted, side="left") + 1)
    found = found[found < len(counts)]
    return found if len(found) else np.array([len(counts) // 2])


def denoised(counts: np.ndarray, noise: float) -> np.ndarray:
    """Positive shares of every cell, adding up to one, from noisy counts."""
    levels = max(1, math.ceil(math.log2(len(counts))))
    real = np.zeros(1 << levels)
    real[: len(counts)] = 1.0
    held = np.zeros(1 << levels)
    held[: len(counts)] = counts
    mass = np.ones(1)
    for level in range(1, levels + 1):
        width = real.reshape(1 << level, -1).sum(axis=1)
        pull = STRENGTH * noise * np.sqrt(width.reshape(-1, 2).sum(axis=1))
        even = width.reshape(-1, 2) / np.maximum(width.reshape(-1, 2).sum(axis=1), 1.0)[:, None]
        count = np.maximum(held.reshape(1 << level, -1).sum(axis=1), 0.0).reshape(-1, 2)
        weight = np.maximum(count + (pull[:, None] + 1e-9) * even, 0.0) * (even > 0)
        total = weight.sum(axis=1, keepdims=True)
        mass = (mass[:, None] * np.divide(weight, total, out=np.zeros_like(weight),
                                          where=total > 0)).ravel()
    return np.asarray(mass[: len(counts)])
