"""Sums over cells of what records of two classes contribute, read from a table.

A record's logistic gradient and hessian follow from its class and from the place of its score in
the logistic table. They are worked out once for every class and place and then looked up: the
same whole numbers (docs/proofs/whole-numbers.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import attrs
import numpy as np
from attrs import define
from numpy.typing import NDArray

from privledger.questions.blocks import RUN, Block, runs, target_of
from privledger.questions.links import logistic_place, logistic_scores
from privledger.questions.score import Gradient, Hessian, Score, ScoresSoFar
from privledger.questions.sums import Recipe, lanes_of, whole_steps
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns

Curve: TypeAlias = Gradient | Hessian

_LANES = RUN >> 10  # sums of each cell, in turn: of a run one takes at most 2^10 records
_MOST_STEPS = 1 << 20  # of a record: such sums stay within 2^30, and two fit one number
_MOST_CELLS = 1 << 9
_PAYS = 1 << 20  # records to look at before a table pays


@define(eq=False, repr=False)  # a sum of private sizes
class _Table:
    """What records contribute to one or two blocks.

    Attributes:
        asked: records for which that was asked so far.
        steps: of class zero at every place, then of class one, shape (2 * places,): grid steps of
            the last block and, of two blocks, 2^32 times those of the first. None until it pays.
    """

    asked: int = 0
    steps: NDArray[np.int64] | None = None


@lru_cache(maxsize=4)
def _table(norm: int, *blocks: tuple[object, ...]) -> _Table:
    """Of blocks with such grids and settings, under every score."""
    return _Table()


def _settings(block: Curve) -> tuple[object, ...]:
    """All of a block but its score."""
    return type(block), *(getattr(block, one.name) for one in attrs.fields(type(block))
                          if one.name != "score")


def _contributed(block: Curve, grid: float, norm: int, rows: Rows,
                 label: int) -> NDArray[np.int64]:
    """Grid steps of a record of a class at every place, as the block itself finds them."""
    scores, score = logistic_scores(), Score("logistic", np.zeros(1))
    columns = Columns(rows.features.schema, (), len(scores))
    places = Rows(columns, np.full(len(scores), label, dtype=np.int32))
    places.cache[score] = ScoresSoFar(scores)
    values = attrs.evolve(block, score=score).on_grid(places, norm, grid)
    assert values is not None
    return whole_steps(values, grid, math.ceil(block.clip / grid)).astype(np.int64)


def looked_up(blocks: Sequence[Block], recipes: Sequence[Recipe], norm: int, rows: Rows,
              cells: NDArray[Any], n_cells: int) -> tuple[NDArray[np.int64], ...] | None:
    """Exact sums in grid steps, shape (n_cells, 1) for each block.

    Returns:
        None where blocks are others than one or two of the same logistic score, or where no table
        would pay yet.
    """
    asked = [(block, recipe.grid) for block, recipe in zip(blocks, recipes, strict=True)
             if isinstance(block, Curve) and type(block) in (Gradient, Hessian)]
    if not len(blocks) == len(asked) <= 2 or n_cells > _MOST_CELLS:
        return None
    score = asked[0][0].score
    if score.loss != "logistic" or any(block.score is not score or not (
            block.clip <= _MOST_STEPS * grid) for block, grid in asked):
        return None
    table = _table(norm, *((grid, *_settings(block)) for block, grid in asked))
    table.asked += rows.n
    if table.asked < _PAYS:
        return None
    if table.steps is None:
        found = [np.concatenate([_contributed(block, grid, norm, rows, label)
                                 for label in range(2)]) for block, grid in asked]
        table.steps = found[-1] if len(found) == 1 else (found[0] << 32) + found[1]
    return _added(table.steps, score.of(rows).scores, target_of(rows), cells, n_cells, len(blocks))


def _added(steps: NDArray[np.int64], scores: NDArray[np.int32], target: NDArray[Any],
           cells: NDArray[Any], n_cells: int, n_blocks: int) -> tuple[NDArray[np.int64], ...]:
    places = np.int32(len(steps) // 2)
    total = np.zeros((2, n_cells), dtype=np.int64)
    lanes = lanes_of(n_cells, _LANES)
    for at in runs(len(scores)):
        place = logistic_place(scores[at])
        place += (target[at] == 1) * places
        here = cells[at].astype(np.intp)
        here += lanes[:len(here)]
        sums = np.zeros((_LANES, n_cells), dtype=np.int64)
        np.add.at(sums.reshape(-1), here, steps.take(place))
        last = sums.astype(np.int32)  # modulo 2^32, and within 2^30 of zero
        total[1] += last.sum(axis=0, dtype=np.int64)
        total[0] += ((sums - last) >> 32).sum(axis=0)
    return tuple(total[2 - n_blocks:, :, None])
