"""What a split score needs of each record, as whole numbers whose sums are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.questions.blocks import target_of
from privledger.questions.cells import Cells
from privledger.questions.score import Gradient
from privledger.questions.stretches import runs
from privledger.tables.chunk import ONE, Rows

STEPS = 2.0**20
"""Grid of a target or gradient: whole steps of its bound over this, cut towards zero."""


@frozen(eq=False)
class Statistics:
    """One of: nothing (counts only), a class code per record, or a number per record.

    Attributes:
        classes: class code of each record, shape (n,), or None.
        n_classes: number of classes, from the schema.
        numbers: whole numbers, shape (n,), or None.
        mass: what each record counts, in whole steps; None where each counts one.
    """

    classes: NDArray[Any] | None = None
    n_classes: int = 0
    numbers: NDArray[np.int64] | None = None
    mass: NDArray[np.int64] | None = None

    @property
    def width(self) -> int:
        """Columns of `totals`."""
        return self.n_classes if self.classes is not None else 2

    @property
    def bare(self) -> bool:
        """Nothing but counts of records."""
        return self.classes is None and self.numbers is None and self.mass is None

    def counts(self, table: NDArray[Any]) -> NDArray[Any]:
        """How many records each row of `totals` or `per_key` stands for."""
        return table.sum(axis=1) if self.classes is not None else table[:, 0]

    def totals(self, order: NDArray[Any], at: NDArray[Any]) -> NDArray[np.int64]:
        """Sums over the first `at` records of `order`, shape (len(at), width).

        Classes: counts of each class. Else: how many records, and the sum of their numbers.
        """
        each = None if self.mass is None else self.mass[order]
        counts = at if each is None else _running(each)[at]
        if self.classes is not None:
            ordered = self.classes[order]
            found = np.empty((len(at), self.n_classes), dtype=np.int64)
            for code in range(self.n_classes - 1):
                here = ordered == code
                found[:, code] = _running(here if each is None else here * each)[at]
            found[:, -1] = counts - found[:, :-1].sum(axis=1)
            return found
        if self.numbers is None:
            return np.stack([counts, np.zeros_like(counts)], axis=1)
        return np.stack([counts, _running(self.numbers[order])[at]], axis=1)

    def per_key(self, keys: NDArray[Any], n_keys: int) -> NDArray[np.int64]:
        """The same sums over the records with each key, shape (n_keys, width)."""
        if self.classes is not None:
            flat = summed(keys * self.n_classes + self.classes, n_keys * self.n_classes, self.mass)
            return flat.reshape(n_keys, self.n_classes)
        counts = summed(keys, n_keys, self.mass)
        if self.numbers is None:
            return np.stack([counts, np.zeros_like(counts)], axis=1)
        # Sums of whole numbers below 2**53 are exact in float64.
        sums = np.bincount(keys, weights=self.numbers, minlength=n_keys).astype(np.int64)
        return np.stack([counts, sums], axis=1)


def _running(values: NDArray[Any]) -> NDArray[np.int64]:
    """Sums of the first 0, 1, ..., n values."""
    result = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=result[1:])
    return result


def summed(keys: NDArray[np.int64], n_keys: int,
           mass: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """How many records have each key, or what they weigh together: shape (n_keys,)."""
    if mass is None:
        return np.bincount(keys, minlength=n_keys)
    # Whole numbers again: below 2**53 for 2**33 people.
    return np.bincount(keys, weights=mass, minlength=n_keys).astype(np.int64)


def weighed(statistics: Statistics, rows: Rows) -> Statistics:
    """The same of records that weigh what they do under unit person; as they are under unit row.

    A number times a weight is cut towards zero to whole steps again: some other number of the
    same record, no larger, times its weight (docs/proofs/people.md).
    """
    if rows.mass is None:
        return statistics
    numbers = statistics.numbers
    if numbers is not None:
        numbers = np.sign(numbers) * (np.abs(numbers) * rows.mass // ONE)
    return evolve(statistics, numbers=numbers, mass=rows.mass)


def of_labels(labels: Cells, rows: Rows) -> Statistics:
    """One class per cell of `labels`."""
    return Statistics(np.asarray(labels.index(rows)).astype(np.int64), labels.count)


def of_target(rows: Rows) -> Statistics:
    """A numeric target, scaled to [0, 1] by its public bounds, in steps of 1 / STEPS."""
    column = rows.features.schema.target
    scaled = (target_of(rows) - column.lower) / (column.upper - column.lower)
    scaled = np.nan_to_num(np.clip(scaled, 0.0, 1.0), nan=0.0)
    return Statistics(numbers=np.trunc(scaled * STEPS).astype(np.int64))


def of_gradient(gradient: Gradient, rows: Rows) -> tuple[Statistics, NDArray[np.bool_] | None]:
    """Gradients of width one, clipped to [-clip, clip], in steps of clip / STEPS.

    Returns:
        Statistics of the records that take part, and which those are (None for all): records
        beyond the clip of a filtered gradient are not counted either.
    """
    values = gradient.values(rows)
    numbers = np.empty(len(values), dtype=np.int64)
    for at in runs(len(values)):
        scaled = values[at] / gradient.clip
        scaled[np.isnan(scaled)] = 0.0
        np.clip(scaled, -1.0, 1.0, out=scaled)
        scaled *= STEPS
        numbers[at] = np.trunc(scaled, out=scaled)
    inside = gradient.inside(rows)
    return Statistics(numbers=numbers if inside is None else numbers[inside]), inside
