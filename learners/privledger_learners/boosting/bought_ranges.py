"""Where the records of a numeric feature lie inside wide public bounds: bought, then public.

A histogram over equal cells of the public range, with noise. The bins are then those of the cells
in which a record surely is, and of one more on either side; what lies outside shares two bins. Its
borders follow from released numbers and public facts alone.
"""

from __future__ import annotations

import math

import numpy as np

import privledger as pl
from privledger_learners.linear_model import log_scaled, wide_around_zero

CELLS = 64
GRID = 65472
"""Cells of the public grid that cuts lie on: a multiple of CELLS."""
RANGE_SHARE = 0.04
"""Part of mu squared for all features' histograms."""
SURE = 3.5
"""Deviations above zero: one of 64 empty cells passes with a chance of .015."""


def wide_features(schema: pl.Schema) -> tuple[int, ...]:
    """Positions of numeric features whose range more than fills the cells."""
    return tuple(place for place, column in enumerate(schema.features) if column.kind == "numeric"
                 and not (column.integer and column.upper - column.lower < CELLS))


def edges_of(column: pl.Column) -> list[float]:
    """Inner borders of the cells of a feature, public."""
    low, high = float(column.lower), float(column.upper)
    return [low + (high - low) * k / CELLS for k in range(1, CELLS)]


def cuts_of(counts: np.ndarray, deviation: float, bins: int) -> tuple[int, ...]:
    """Cells of the grid at which bins start; empty where the counts say nothing.

    Args:
        counts: noisy numbers of records of the cells, shape (CELLS,). deviation: of their noise.
        bins: how many there may be.
    """
    sure = np.flatnonzero(np.asarray(counts) > SURE * deviation)
    if not len(sure):
        return ()
    low, high = max(int(sure[0]) - 1, 0), min(int(sure[-1]) + 2, CELLS)
    first, last = low * GRID // CELLS, high * GRID // CELLS
    inner = np.unique(np.linspace(max(first, 1), min(last, GRID - 1), max(bins - 1, 2)).astype(int))
    return tuple(inner.tolist())


def log_cuts(column: pl.Column, bins: int) -> tuple[int, ...]:
    """Cells at which the bins of a wide range start, as `log_scale` spreads them."""
    if not log_scaled(column):
        return ()
    around = wide_around_zero(column)
    ends = np.linspace(-1.0 if around else 0.0, 1.0, bins + 1)[1:-1]
    far = max(-column.lower, column.upper) / (column.upper - column.lower)
    share = np.copysign(np.expm1(np.abs(ends) * math.log(1001.0)) / 1000.0 * far, ends)
    share -= column.lower / (column.upper - column.lower)
    return tuple(np.unique(np.clip(np.rint(share * GRID), 1, GRID - 1).astype(int)).tolist())


def log_bins(data: pl.Dataset, bins: int) -> pl.questions.Bins:
    """Public bins, those of wide ranges on a logarithmic scale."""
    return data.bins(bins, [log_cuts(column, bins) for column in data.schema.features], GRID)


def bought_bins(session: pl.Session, data: pl.Dataset, node: pl.Gaussian,
                places: tuple[int, ...], bins: int) -> pl.questions.Bins:
    """One release for each wide feature, then bins where its records are."""
    cuts: list[tuple[int, ...]] = [() for _ in data.schema.features]
    for place in places:
        column = data.schema.features[place]
        counts = np.asarray(session.release(node, data.histogram(column.name, edges_of(column))))
        cuts[place] = cuts_of(counts.ravel()[:CELLS], node.noise_multiplier, bins)
    return data.bins(bins, cuts, GRID)
