"""Outcomes of a choice as units of weight: the same outcomes on both of two tables.

Candidates of a cut are runs of cut points between records, so their number depends on the
records. A run's weight is a public measure times its length. The units of a segment, counted
from its first candidate, are therefore the same outcomes whatever the records are.
"""

from __future__ import annotations

import numpy as np
from attrs import frozen

from privledger.testing.lockstep.kept import Below, Chosen, Ints


@frozen(eq=False)
class Units:
    """Where each candidate's units begin and end within its segment.

    Attributes:
        first, end: shape (candidates,). totals: of every segment, shape (segments,).
    """

    first: Ints
    end: Ints
    totals: Ints


def in_units(call: Chosen) -> Units:
    """The candidates of a choice in units of weight."""
    ends = np.concatenate([[0], np.cumsum(call.weights)])
    base = np.repeat(ends[call.starts[:-1]], np.diff(call.starts))
    totals = ends[call.starts[1:]] - ends[call.starts[:-1]]
    return Units(ends[:-1] - base, ends[1:] - base, totals)


def unit_within(call: Chosen, offset: Below | None) -> Ints:
    """Which unit of each segment was chosen, shape (segments,).

    Args:
        offset: the place within each chosen run, where one was drawn.
    """
    first = in_units(call).first[call.result]
    if offset is None or len(offset.result) != len(first):
        return np.asarray(first)
    measure = call.weights[call.result] // np.maximum(offset.bounds, 1)
    return np.asarray(first + offset.result * measure)


def of_units(call: Chosen, units: Ints) -> tuple[Ints, Ints]:
    """The candidates that hold these units, and how many units into them, shape (segments,)."""
    held = in_units(call)
    chosen = np.zeros(len(units), dtype=np.int64)
    for segment, unit in enumerate(units.tolist()):
        part = slice(int(call.starts[segment]), int(call.starts[segment + 1]))
        place = int(np.searchsorted(held.end[part], unit, side="right"))
        chosen[segment] = part.start + min(place, part.stop - part.start - 1)
    return chosen, np.asarray(units - held.first[chosen])


def offset_within(units: Ints, weights: Ints, bounds: Ints) -> Ints | None:
    """The place within each chosen run that a unit is; None where the bounds are not its length.

    Args:
        units: into each chosen run. weights: of the chosen runs: a measure times the length.
    """
    if len(units) != len(bounds) or (bounds < 1).any() or (weights % bounds).any():
        return None
    return np.asarray(np.minimum(units // (weights // bounds), bounds - 1))
