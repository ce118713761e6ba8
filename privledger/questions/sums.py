"""Sums of clipped contributions on an integer grid, and exact noise on the same grid.

Contributions are cut towards zero to whole grid steps, so their norms cannot grow and sums of
them are exact in any order. Proof: docs/proofs/gaussian.md and docs/proofs/exact-noise.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.noise.discrete import sampled_parameter, sampled_sigma
from privledger.noise.source import NoiseSource
from privledger.questions.blocks import RUN, Block, runs
from privledger.rounding import down, moderate

MORE = 1 + 2.0**-40  # covers the float error of a few products when a noise scale is formed

LIGHTER = 1 - 2.0**-48
"""A filter counts this part of a Gaussian's squared mu.

The noise is wider than its node says by 2**-40, so the true cost is lower by 2**-39: what is
counted stays above it, and a round that fits exactly is not lost to the rounding of a few
products. docs/proofs/filters.md, "Exact fits".
"""


@frozen
class Recipe:
    """How one block is put on its grid.

    Attributes:
        grid: size of a grid step, a power of two.
        noise: standard deviation (Gaussian) or parameter b (Laplace) in grid steps; the node's own
            number for discrete noise, or the float below it (Laplace).
        weight: share of mu squared that a contribution of full norm costs (Gaussian only).
    """

    grid: float
    noise: float
    weight: float


def grid_for(sensitivity: float, noise: float) -> float:
    """A power of two, fine beside the sensitivity and not too fine beside the noise."""
    return 2.0 ** math.ceil(math.log2(max(sensitivity * 2.0**-20, noise * 2.0**-26)))


def recipes(mechanism: Any, bounds: Callable[[int], list[float]], hint: str) -> tuple[Recipe, ...]:
    """Grid and noise of every block.

    Args:
        bounds: the blocks' sensitivities in the L1 (1) or L2 (2) norm.
        hint: what to do instead where the mechanism does not fit.

    Raises:
        UnsupportedNode: no exact sampler here for this mechanism, or the derived sensitivity
            is larger than the mechanism says.
    """
    # Exact types: a stranger may say that it equals a reserved node and be quieter.
    if type(mechanism) is Gaussian:
        return _gaussian(mechanism, bounds(2), hint)
    if type(mechanism) is Laplace:
        return _laplace(mechanism, bounds(1), hint)
    raise UnsupportedNode(f"no exact sampler for {type(mechanism).__name__} in this version; "
                          "nothing was read")


def _gaussian(mechanism: Gaussian, bounds: list[float], hint: str) -> tuple[Recipe, ...]:
    shares = mechanism.shares or (1.0,)
    if len(shares) != len(bounds):
        raise UnsupportedNode(f"the query has {len(bounds)} blocks, the mechanism "
                              f"{len(shares)} shares{hint}")
    made = []
    for bound, share in zip(bounds, shares, strict=True):
        moderate("sensitivity", bound)
        deviation = bound * mechanism.noise_multiplier / math.sqrt(share) * MORE
        moderate("noise", deviation)
        grid = grid_for(bound, deviation)
        weight = share / mechanism.noise_multiplier**2 * LIGHTER
        made.append(Recipe(grid, deviation / grid, weight))
    return tuple(made)


def _laplace(mechanism: Laplace, bounds: list[float], hint: str) -> tuple[Recipe, ...]:
    if not math.fsum(bounds) <= mechanism.l1_sensitivity * MORE:
        raise UnsupportedNode(
            f"the query has L1 sensitivity {math.fsum(bounds):.6g}, the mechanism says "
            f"{mechanism.l1_sensitivity:.6g}{hint}"
        )
    scale = mechanism.scale * MORE * MORE
    for bound in (*bounds, scale):
        moderate("sensitivity or noise", bound)
    grids = [grid_for(bound, scale) for bound in bounds]
    return tuple(Recipe(grid, scale / grid, 0.0) for grid in grids)


def square_norms(values: NDArray[np.float64], clip: float) -> NDArray[np.float64]:
    """Squared L2 norm of each contribution over the squared clip, shape (n,).

    Column by column: no last bit follows from where a record stands among others.
    """
    total = np.empty(len(values))
    columns = [values] if values.ndim == 1 else list(values.T)
    for at in runs(len(values)):
        here = np.divide(columns[0][at], clip, out=total[at])
        np.square(here, out=here)
        for column in columns[1:]:
            scaled = column[at] / clip
            here += np.square(scaled, out=scaled)
    return total


def whole_steps(values: NDArray[np.float64], grid: float, limit: float) -> NDArray[np.float64]:
    """Contributions cut towards zero to whole grid steps, at most `limit` of them."""
    steps = values * (1.0 / grid)
    np.trunc(steps, out=steps)
    # Whatever float did before: no coordinate is larger than the bound allows.
    return np.clip(steps, -limit, limit, out=steps)


def cell_sums(
    values: NDArray[np.float64] | None,
    grid: float,
    cells: NDArray[Any] | None,
    n_cells: int,
    n_rows: int,
    width: int,
    limit: float,
) -> NDArray[np.int64]:
    """Exact integer sums in grid steps, shape (n_cells, width). `values` None means all ones.

    `limit` bounds every coordinate, in grid steps.
    """
    if values is None:
        each = math.floor(1.0 / grid)
        counts = (np.array([n_rows]) if cells is None else np.bincount(cells, minlength=n_cells))
        return (counts.astype(np.int64) * each).reshape(n_cells, 1)
    # Sums of whole numbers below 2**53 are exact in float64, in any order.
    assert n_rows * limit < 2.0**53, "a task has at most 2^33 records of 2^20 steps"
    columns = [values] if values.ndim == 1 else list(values.T)
    total = np.zeros((n_cells, width), dtype=np.int64)
    lanes = _LANES if n_rows > _LANED and n_cells <= _LANED else 1
    for at in runs(n_rows, max(RUN, 4 * n_cells)):
        here = None if cells is None else cells[at].astype(np.intp)
        if here is not None and lanes > 1:
            here += lanes_of(n_cells, lanes)[:len(here)]
        for place, column in enumerate(columns):
            steps = whole_steps(column[at], grid, limit)
            if here is None:
                total[0, place] += int(steps.sum())
            else:
                found = np.bincount(here, steps, lanes * n_cells)
                total[:, place] += found.reshape(lanes, n_cells).sum(axis=0).astype(np.int64)
    return total


# To add to a sum that was added to just before takes longer: each cell has several, in turn.
_LANES, _LANED = 8, 1 << 10


@lru_cache(maxsize=4)
def lanes_of(n_cells: int, lanes: int) -> NDArray[np.intp]:
    """Where the sums of each record of a run begin, `lanes` of each cell in turn, shape (RUN,)."""
    return np.tile(np.arange(lanes, dtype=np.intp) * n_cells, RUN // lanes)


def add_noise(
    mechanism: Any,
    sums: Sequence[NDArray[np.int64]],
    made: tuple[Recipe, ...],
    source: NoiseSource,
) -> list[NDArray[np.float64]]:
    """One batch of exact noise for all blocks; back to the query's own unit."""
    sizes = [part.size for part in sums]
    noise = _drawn(mechanism, np.repeat([recipe.noise for recipe in made], sizes), source)
    result: list[NDArray[np.float64]] = []
    start = 0
    for part, recipe, size in zip(sums, made, sizes, strict=True):
        noisy = part + noise[start : start + size].reshape(part.shape)
        result.append(noisy.astype(np.float64) * recipe.grid)
        start += size
    return result


def _drawn(mechanism: object, scales: NDArray[np.float64],
           source: NoiseSource) -> NDArray[np.int64]:
    if isinstance(mechanism, DiscreteLaplace):
        return source.discrete_laplace(float(scales[0]), len(scales))
    if isinstance(mechanism, DiscreteGaussian):
        return source.discrete_gaussian(mechanism.sigma, len(scales))
    draw = source.gaussian if isinstance(mechanism, Gaussian) else source.laplace
    return draw(scales, len(scales))


# Sums in whole steps, for discrete noise: what one neighbour moves is a whole number.  A node
# says by how many steps its query may move; the grid follows from that and from the block's clip.
# One number moves, and no vector does: the price of discrete noise is that of one integer
# (docs/proofs/gaussian.md, "Whole steps").


DISCRETE = (DiscreteLaplace, DiscreteGaussian)
Discrete = DiscreteLaplace | DiscreteGaussian
MOST_STEPS = 1 << 20
"""Of one record: sums of 2^33 records stay exact."""


def whole_recipe(mechanism: Discrete, blocks: tuple[Block, ...], relation: str,
                 moves: bool) -> Recipe:
    """Grid and noise of the only block.

    Args:
        moves: whether a neighbour may leave one cell and come into another.

    Raises:
        UnsupportedNode: more than one number moves, or the node covers no whole step.
        InvalidValue: no sampler draws so much, or so little, noise.
    """
    name = type(mechanism).__name__
    if len(blocks) != 1 or blocks[0].width != 1:
        raise UnsupportedNode(f"{name} is priced for one number, but a record changes several "
                              "here. Use Gaussian or Laplace, or ask for one number at a time. "
                              "Nothing was read")
    if moves:
        raise UnsupportedNode(f"{name} is priced for one number, but a replaced record changes two "
                              "cells. Ask without cells. Nothing was read")
    signed = blocks[0].signed and relation != "add_remove"
    steps = mechanism.sensitivity // (2 if signed else 1)
    if not 1 <= steps <= MOST_STEPS:
        raise UnsupportedNode(f"one record moves the sum by 1 to 2^20 whole steps"
                              f"{', twice where it is replaced' if signed else ''}; the mechanism "
                              f"says {mechanism.sensitivity}. Nothing was read")
    grid = grid_of(blocks[0].clip, steps)
    # The float below is no more than `rounding.as_promised` of the parameter, which is charged.
    noise = (sampled_parameter(down(mechanism.parameter)) if isinstance(mechanism, DiscreteLaplace)
             else sampled_sigma(mechanism.sigma))
    return Recipe(grid, noise, 0.0)


def grid_of(clip: float, steps: int) -> float:
    """The smallest power of two of which `steps` are at least the clip."""
    grid = 2.0 ** math.floor(math.log2(moderate("clip", clip) / steps))
    while Fraction(grid) * steps < Fraction(clip):
        grid *= 2.0
    return grid
