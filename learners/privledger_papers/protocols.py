"""Which rows train and which test: the papers' protocols, the same splits for all systems."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from privledger_papers.published_cells import Cell

LEAST = 2  # rows on each side of a split


@frozen
class Protocol:
    """How a table was measured.

    Attributes:
        repetitions: fits of one cell. folds: of a cross-validation; 1 for fresh random splits
            with a tenth for testing; 0 trains and tests on all rows.
        labelled: share of the training rows that keep their labels.
        delta: of every private fit; the papers of pure epsilon have 0.
    """

    repetitions: int
    folds: int = 1
    labelled: float = 1.0
    delta: float = 0.0


PROTOCOLS = {
    "000": Protocol(10), "001": Protocol(50), "001.T2": Protocol(50, labelled=0.2),
    "002": Protocol(100, folds=0), "002.T1": Protocol(1, folds=0),
    "003": Protocol(100, folds=5, delta=5e-8),
    "004": Protocol(100, folds=10),
}
"""By table, else by paper."""


def protocol_of(cell: Cell) -> Protocol:
    """Of the table that a cell is in."""
    return PROTOCOLS.get(cell.table) or PROTOCOLS[cell.paper]


def split(protocol: Protocol, n: int, seed: int,
          repetition: int) -> tuple[np.ndarray, np.ndarray]:
    """Row numbers for training and testing in one repetition, a function of the arguments alone."""
    if protocol.folds == 0:
        return np.arange(n), np.arange(n)
    if protocol.folds == 1:
        order = np.random.default_rng((seed, repetition)).permutation(n)
        tested = min(max(round(0.1 * n), 1), n - LEAST)
        return order[tested:], order[:tested]
    turn, fold = divmod(repetition, protocol.folds)
    order = np.random.default_rng((seed, turn)).permutation(n)
    parts = np.array_split(order, protocol.folds)
    return np.concatenate(parts[:fold] + parts[fold + 1:]), parts[fold]
