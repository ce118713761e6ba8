"""Sums in whole steps, for discrete noise: what one neighbour moves is a whole number.

A node says by how many steps its query may move; the grid follows from that and from the block's
clip. One number moves, and no vector does: the price of discrete noise is that of one integer
(docs/proofs/gaussian.md, "Whole steps").
"""

from __future__ import annotations

import math
from fractions import Fraction

from privledger.errors import UnsupportedNode
from privledger.mechanisms import DiscreteGaussian, DiscreteLaplace
from privledger.noise.discrete import sampled_parameter, sampled_sigma
from privledger.questions.blocks import Block
from privledger.questions.sums import Recipe
from privledger.rounding import down, moderate

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
        raise UnsupportedNode(f"{name} is priced for one number, and a record here moves several: "
                              "take Gaussian or Laplace, or ask one by one; nothing was read")
    if moves:
        raise UnsupportedNode(f"{name} is priced for one number, and a record that is replaced "
                              "moves two cells: ask without cells; nothing was read")
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
