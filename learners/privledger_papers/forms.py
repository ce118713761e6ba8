"""Something to fit for a cell, or why nothing is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from attrs import frozen

from privledger_papers.published_cells import Cell
from privledger_papers.scores import Fitted
from privledger_papers.tasks import Features, Table


class Learner(Fitted, Protocol):
    """What scikit-learn calls an estimator."""

    def fit(self, X: Features, y: np.ndarray) -> object:
        """Learn from features and target."""


@frozen(eq=False)
class Form:
    """Something to fit for a cell.

    Attributes:
        learner: an estimator, not fitted yet. private: it has a ledger, whose charge is shown.
        note: how it differs from what is printed; empty if only in being sound.
        unlabelled: it also takes the rows that lost their labels.
        arriving: the last tenth of the training rows comes later (`partial_fit`).
    """

    learner: Learner
    private: bool
    note: str = ""
    unlabelled: bool = False
    arriving: bool = False


@frozen
class Refused:
    """No form of it is run. why: a finding, for a reader."""

    why: str


Maker = Callable[[Cell, Table], Form | Refused]
TREES, CHOICES = 10, 5  # of paper 000
