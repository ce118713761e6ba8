"""Votes of blocks: the first stage of Kifer, Smith, Thakurta (2012), inside the guard."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.facts.carriers import Copier
from privledger.noise.source import Coins
from privledger.rounding import count, moderate
from privledger.tables.chunk import Rows

Floats = NDArray[np.float64]
_ROUNDS = 1500
_ACTIVE = 128
_EXTENSIONS = 8


@frozen(eq=False)
class Votes:
    """Every block of records votes for the features that its own LASSO ranks highest.

    Attributes:
        blocks: public number of blocks; each record's block is its own private coin.
        most: votes that one block may give.
        penalty: the LASSO's penalty, for columns standardised inside the block.
    """

    blocks: int = 10
    most: int = 5
    penalty: float = 0.1

    def __attrs_post_init__(self) -> None:
        count("blocks", self.blocks, most=1 << 20)
        count("most", self.most, most=1 << 20)
        moderate("penalty", self.penalty)

    def own(self, to: Copier) -> Votes:
        """The guard's copy."""
        return Votes(self.blocks, self.most, self.penalty)


def coins_of(votes: Votes, rows: Rows) -> NDArray[np.int64]:
    """Block of each record: one private coin per record, by the ledger's noise source; under unit
    person one for everything that a person has here, so that it votes in one block."""
    if rows.people is None:
        return _coins(votes, rows.n, rows.coins(votes))
    here, place = np.unique(rows.people, return_inverse=True)
    return _coins(votes, len(here), rows.coins(votes))[place]


def _coins(votes: Votes, n: int, source: Coins) -> NDArray[np.int64]:
    # Modulo bias is the same for every record: still independent coins.
    coins: NDArray[np.int64] = (source.integers64(n) % np.uint64(votes.blocks)).astype(np.int64)
    return coins


def votes_of(votes: Votes, table: Floats, target: Floats, coins: NDArray[np.int64]) -> Floats:
    """How many blocks vote for each feature, shape (features,).

    Args:
        table: (features, n_records), NaN where missing. target: (n_records,).
        coins: block of each record, shape (n_records,).
    """
    found = np.zeros(len(table))
    for block in range(votes.blocks):
        inside = coins == block
        chosen = block_features(table[:, inside], target[inside], votes.most, votes.penalty)
        found[chosen] += 1.0
    return found


def block_features(table: Floats, target: Floats, most: int, penalty: float) -> NDArray[Any]:
    """Features with the largest LASSO coefficients of one block, at most `most`; zeros never.

    Looks at this block's records only, and gives the same answer for the same block.
    """
    if table.shape[1] < 2:
        return np.zeros(0, dtype=np.int64)
    weights = np.abs(lasso(_standardised(table), target - target.mean(), penalty))
    order = np.argsort(-weights, kind="stable")[:most]
    chosen: NDArray[Any] = order[weights[order] > 0]
    return chosen


def _standardised(table: Floats) -> Floats:
    """Columns of mean 0 and variance 1 in the block; missing values and constants are 0."""
    known = ~np.isnan(table)
    held = np.where(known, table, 0.0)
    size = np.maximum(known.sum(axis=1, keepdims=True), 1)
    held -= held.sum(axis=1, keepdims=True) / size
    held *= known
    spread = np.sqrt(np.square(held).sum(axis=1, keepdims=True) / size)
    result: Floats = np.divide(held, spread, out=np.zeros_like(held), where=spread > 1e-12)
    return result


def lasso(table: Floats, target: Floats, penalty: float) -> Floats:
    """argmin |target - table^T w|^2 / (2 n) + penalty |w|_1.

    Solved on the features that may matter; those that turn out to matter too are added.

    Args:
        table: (features, n).
    """
    n = table.shape[1]
    weights = np.zeros(len(table))
    pull = np.abs(table @ target) / n
    active = np.sort(np.argsort(-pull, kind="stable")[:_ACTIVE])
    for _ in range(_EXTENSIONS):
        part = table[active]
        weights[:] = 0.0
        weights[active] = _descend(part, target, penalty)
        pull = np.abs(table @ (target - weights[active] @ part)) / n
        pull[active] = 0.0
        more = np.flatnonzero(pull > penalty * (1 + 1e-6))
        if not len(more):
            break
        more = more[np.argsort(-pull[more], kind="stable")[:_ACTIVE]]
        active = np.sort(np.concatenate([active, more]))
    return weights


def _descend(table: Floats, target: Floats, penalty: float) -> Floats:
    """Accelerated proximal steps of constant length (Beck, Teboulle 2009)."""
    n = table.shape[1]
    # Both products have the same largest eigenvalue; the smaller one is found sooner.
    product = table.T @ table if n <= len(table) else table @ table.T
    step = 1.0 / max(float(np.linalg.eigvalsh(product / n)[-1]), 1e-12)
    weights = np.zeros(len(table))
    ahead, pace = weights, 1.0
    for _ in range(_ROUNDS):
        moved = ahead + step / n * (table @ (target - ahead @ table))
        fresh = np.sign(moved) * np.maximum(np.abs(moved) - step * penalty, 0.0)
        following = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
        ahead = fresh + (pace - 1) / following * (fresh - weights)
        weights, pace = fresh, following
    return weights
