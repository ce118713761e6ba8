"""Votes of blocks: the first stage of Kifer, Smith, Thakurta (2012), inside the guard."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.facts.columns import Copier
from privledger.noise.source import Coins
from privledger.rounding import count, moderate
from privledger.tables.chunk import Rows

Floats = NDArray[np.float64]
Places = NDArray[np.intp]
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


def coins_of(votes: Votes, key: object, rows: Rows) -> NDArray[np.int64]:
    """Block of each record: one private coin per record, by the ledger's noise source; under unit
    person one for everything that a person has here, so that it votes in one block.

    In a chunk the coin belongs to the record's place in the chunk, whoever else is asked.

    Args:
        key: the question's own name.
    """
    whole = rows.whole
    if whole.keep is not None:
        every = _coins(votes, whole.n, whole.coins(key))
        return every if rows is whole else every[rows.positions() - whole.first]
    if rows.people is None:
        return _coins(votes, rows.n, rows.coins(key))
    here, place = np.unique(rows.people, return_inverse=True)
    return _coins(votes, len(here), rows.coins(key))[place]


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


def block_features(table: Floats, target: Floats, most: int, penalty: float) -> Places:
    """Features with the largest LASSO coefficients of one block, at most `most`; zeros never.

    Looks at this block's records only, and gives the same answer for the same block.
    """
    if table.shape[1] < 2:
        return np.zeros(0, dtype=np.intp)
    return largest(lasso(_standardised(table), target - target.mean(), penalty), most)


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

    Args:
        table: (features, n).
    """
    n = table.shape[1]

    def fit(active: Places) -> Floats:
        part = table[active]
        # Both products have the same largest eigenvalue; the smaller one is found sooner.
        product = part.T @ part if n <= len(part) else part @ part.T
        step = _step(product / n)
        return _descend(lambda ahead: step / n * (part @ (target - ahead @ part)),
                        len(part), step * penalty)

    def pull(active: Places, weights: Floats) -> Floats:
        found: Floats = np.abs(table @ (target - weights @ table[active])) / n
        return found

    return _extended(np.abs(table @ target) / n, fit, pull, penalty)


def lasso_of_products(gram: Floats, cross: Floats, penalty: float) -> Floats:
    """The same from the products alone: `gram` of features, `cross` with the target, over n."""
    def fit(active: Places) -> Floats:
        inner, towards = gram[np.ix_(active, active)], cross[active]
        step = _step(inner)
        return _descend(lambda ahead: step * (towards - inner @ ahead), len(active),
                        step * penalty)

    def pull(active: Places, weights: Floats) -> Floats:
        found: Floats = np.abs(cross - gram[:, active] @ weights)
        return found

    return _extended(np.abs(cross), fit, pull, penalty)


def largest(weights: Floats, most: int) -> Places:
    """Positions of the largest coefficients, at most `most`; zeros never."""
    size = np.abs(weights)
    order = np.argsort(-size, kind="stable")[:most]
    chosen: Places = order[size[order] > 0]
    return chosen


def _extended(pull: Floats, fit: Callable[[Places], Floats],
              pull_of: Callable[[Places, Floats], Floats], penalty: float) -> Floats:
    """Solved on the features that may matter; those that turn out to matter too are added."""
    weights = np.zeros(len(pull))
    active = np.sort(np.argsort(-pull, kind="stable")[:_ACTIVE])
    for _ in range(_EXTENSIONS):
        weights[:] = 0.0
        weights[active] = fit(active)
        pull = pull_of(active, weights[active])
        pull[active] = 0.0
        more = np.flatnonzero(pull > penalty * (1 + 1e-6))
        if not len(more):
            break
        more = more[np.argsort(-pull[more], kind="stable")[:_ACTIVE]]
        active = np.sort(np.concatenate([active, more]))
    return weights


def _step(product: Floats) -> float:
    return 1.0 / max(float(np.linalg.eigvalsh(product)[-1]), 1e-12)


def _descend(move: Callable[[Floats], Floats], width: int, shrink: float) -> Floats:
    """Accelerated proximal steps of constant length (Beck, Teboulle 2009).

    Args:
        move: the step down the slope of the squares. shrink: what each step takes off.
    """
    weights = np.zeros(width)
    ahead, pace = weights, 1.0
    for _ in range(_ROUNDS):
        moved = ahead + move(ahead)
        fresh = moved - np.minimum(np.maximum(moved, -shrink), shrink)
        if (fresh == weights).all() and (ahead == weights).all():
            break  # no later step moves it by one bit
        following = (1 + math.sqrt(1 + 4 * pace * pace)) / 2
        ahead = fresh + (pace - 1) / following * (fresh - weights)
        weights, pace = fresh, following
    return weights
