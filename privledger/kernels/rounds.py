"""One round under an individual filter: what each record pays, and who can.

What a record pays follows from the record, past outputs and public numbers alone
(docs/proofs/filters.md), so every chunk of a table decides for itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Protocol

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting import poisson_gaussian_rdp
from privledger.errors import UnsupportedNode
from privledger.graph import IndividualFilter
from privledger.ledger.individual import ScopeSpend
from privledger.questions.one_voice import Voices
from privledger.questions.sums import square_norms

Floats = NDArray[np.float64]
NO_RATE = "the Gaussian-DP filter takes unsampled rounds only"


class Takings(Protocol):
    """What is kept of a table's spends under one filter until its grant is settled."""

    @property
    def rounds(self) -> NDArray[np.int32]:
        """Rounds that each record took part in."""

    def taken(self) -> NDArray[np.int64]:
        """What the grant charged to each record."""


class FilterAccount(Protocol):
    """Where spends of one grant are kept, filter by filter."""

    def spend(self, token: str, n: int,
              make: Callable[[float, NDArray[np.int64]], Takings]) -> Takings:
        """What was kept under a filter, or what `make` makes of its cap and earlier spends."""


@frozen(eq=False)
class Round:
    """What a release costs the records behind a filter. Public.

    Attributes:
        token: of the filter's step. kind: `gdp` or `renyi`. order: of a Renyi filter.
        clips, weights: norm bound of each block, and the mu squared that it costs.
        rate: of the Poisson samples below the filter.
        rollover: rounds left, as in `Session.release`.
        grid, costs: where the round is sampled, the price of each mu squared, the same on every
            machine because one of them computed it.
    """

    token: str
    kind: str
    order: float
    clips: tuple[float, ...]
    weights: tuple[float, ...]
    rate: float = 1.0
    rollover: int = 0
    grid: tuple[float, ...] = ()
    costs: tuple[float, ...] = ()

    @property
    def top(self) -> float:
        """The largest mu squared that a record can have."""
        return sum(self.weights)

    @property
    def per_square(self) -> float:
        """Filter cost per mu squared of an unsampled round; sampled rounds cost no more."""
        return 1.0 if self.kind == "gdp" else self.order / 2


def round_of(token: str, node: IndividualFilter, clips: Sequence[float],
             weights: Sequence[float], rate: float, rollover: int) -> Round:
    """A round under the filter `node`.

    Raises:
        UnsupportedNode: a sampled round under the Gaussian-DP filter.
    """
    if node.kind == "gdp" and rate < 1.0:
        raise UnsupportedNode(NO_RATE)
    top = sum(weights)
    grid, costs = ((), ()) if rate == 1.0 else _amplified(rate, node.order, top)
    return Round(token, node.kind, node.order, tuple(clips), tuple(weights), rate, rollover,
                 grid, costs)


@lru_cache(maxsize=64)
def _amplified(rate: float, order: float, top: float) -> tuple[tuple[float, ...], ...]:
    """Table of (mu squared, Renyi bound at `order` of a Poisson-sampled Gaussian)."""
    grid = np.concatenate([[0.0], np.geomspace(top * 1e-6, top, 512)])
    grid[-1] = top  # to the last bit: a record of full norm is looked up there
    costs = [0.0] + [poisson_gaussian_rdp(rate, float(1 / np.sqrt(square)), (order,)).bounds[0]
                     for square in grid[1:]]
    return tuple(grid.tolist()), tuple(np.maximum.accumulate(costs).tolist())


def individual_costs(squares: Floats, asked: Round) -> Floats:
    """Per-record cost of a round under a filter, from each record's mu squared.

    Args:
        squares: shape (n_records,), mu squared of the unsampled Gaussian for each record.

    The table for sampled rounds is looked up at the next larger grid point, so never too low.
    """
    if asked.kind == "gdp":
        return squares
    if asked.rate == 1.0:
        return squares * (asked.order / 2 * (1 + 2.0**-50))
    place = np.searchsorted(asked.grid, squares, side="left")
    return np.take(np.array([*asked.costs, np.inf]), place)


def admit(asked: Round, spend: ScopeSpend, values: list[Floats | None],
          part: NDArray[np.bool_] | None, n_rows: int) -> NDArray[np.bool_]:
    """Charge each record its own cost of a Gaussian round; who could pay, shape (n_rows,).

    Args:
        values: clipped contributions per block, None where all are one; scaled in place
            where a rollover asks for it.
        part: who is asked; the others pay nothing. None for everybody.
    """
    constant, squares = 0.0, np.zeros(n_rows)
    for array, clip, weight in zip(values, asked.clips, asked.weights, strict=True):
        if array is None:
            constant += weight
        else:
            squares += square_norms(array, clip) * weight
    squares += constant
    if part is not None:
        squares[~part] = 0.0  # a record pays for its own part only
    if asked.rollover > 0:
        _roll_over(squares, spend.left() / (asked.rollover * asked.per_square), values)
    np.minimum(squares, asked.top, out=squares)
    return spend.admit(individual_costs(squares, asked))


def admit_people(asked: Round, spend: ScopeSpend, said: Voices, n_people: int) -> Voices:
    """As `admit` under unit person: every person is charged for the whole vector that it
    sends, over blocks and cells. Returns what those say who could pay.

    Args:
        said: what everybody in the handle's part says.
    """
    squares = said.squares(asked.clips, asked.weights, n_people)
    if asked.rollover > 0:
        allowed = spend.left() / (asked.rollover * asked.per_square)
        factor = _shrink(squares, allowed)
        said, squares = said.scaled(factor), squares * np.square(factor)
    np.minimum(squares, asked.top, out=squares)
    return said.of(spend.admit(individual_costs(squares, asked)))


def _shrink(squares: Floats, allowed: Floats) -> Floats:
    """What each contribution is multiplied by, so that its mu squared is within `allowed`."""
    factor = np.sqrt(np.minimum(1.0, allowed / np.maximum(squares, 1e-300)))
    factor *= 1 - 2.0**-50
    return factor


def _roll_over(squares: Floats, allowed: Floats, values: list[Floats | None]) -> None:
    """Scale each record's contributions down to the mu squared it may use this round."""
    factor = _shrink(squares, allowed)
    for place, array in enumerate(values):
        if array is None:
            values[place] = factor.copy()
        else:
            values[place] = array * (factor if array.ndim == 1 else factor[:, None])
    squares *= np.square(factor)
