"""From a score to a mean, in whole numbers: the same on every machine and for every chunk.

A score is a whole number of steps of 2^-16, a probability one of steps of 2^-20. In between stand
public tables. They and what is read from them are made of whole numbers and of operations that
IEEE 754 rounds in one way only: no exp of the system's. Proof: docs/proofs/whole-numbers.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int32]

PER_UNIT = 2**16
"""Steps of a score in one unit."""
MOST = 2**30 - 1
"""Scores stay within so many steps; a difference of two of them is an int32."""
CERTAIN = 2**20
"""Steps of a probability in one."""

HIGHEST = 8
"""Score of a `poisson` mean from which on it grows no further."""

_FINE = 10  # bits of a score below a coarse step of 2^-6
_REACH = 24  # exp(-24) is far below half a step of a probability
_BITS = 128  # of the fixed-point numbers that tables are made of
_COARSER = 3  # bits of a score that the logistic table leaves out: it has steps of 2^-13
_EDGE = 16 * PER_UNIT  # beyond it the logistic table is certain


def steps_of(values: Floats) -> Ints:
    """Scores, or what is added to them, to the nearest step and within `MOST`."""
    bound = MOST / PER_UNIT
    found: Ints = np.rint(values.clip(-bound, bound) * PER_UNIT).astype(np.int32)
    return found


def _fixed_exp(bits: int) -> int:
    """exp(-2^-bits) in steps of 2^-`_BITS`: the series, each term cut to whole steps."""
    term, total, number = 1 << _BITS, 0, 0
    while term:
        total += -term if number % 2 else term
        number += 1
        term = (term >> bits) // number
    return total


def _powers(base: int, count: int) -> Floats:
    """base^0, base^1, ... of a fixed-point number, each rounded once to a float."""
    found, power = [], 1 << _BITS
    for _ in range(count):
        found.append(power / (1 << _BITS))  # Python rounds quotients of whole numbers correctly
        power = power * base >> _BITS
    return np.array(found)


@lru_cache(maxsize=1)
def exponentials() -> tuple[Floats, Floats]:
    """exp(-i 2^-6), shape (1537,), and exp(-j 2^-16), shape (1024,)."""
    tables = _powers(_fixed_exp(6), _REACH * 64 + 1), _powers(_fixed_exp(16), 2**_FINE)
    for table in tables:
        table.setflags(write=False)
    return tables


def exp_of(below: NDArray[np.signedinteger]) -> Floats:
    """exp(-below) for steps of a score from 0 on; beyond 24 units that of 24."""
    coarse, fine = exponentials()
    held = np.minimum(below, _REACH * PER_UNIT)
    found: Floats = coarse.take(held >> _FINE, mode="clip")
    found *= fine.take(held & (2**_FINE - 1), mode="clip")
    return found


def logistic_scores() -> Ints:
    """The scores of the logistic table, in steps, shape (2^18 + 1,)."""
    return np.arange(-_EDGE, _EDGE + 1, 2**_COARSER, dtype=np.int32)


def logistic_place(scores: Ints) -> Ints:
    """Where a score is nearest in the logistic table; one beyond it is at its end."""
    place = scores + np.int32(_EDGE + 2**_COARSER // 2)
    place >>= _COARSER
    return place.clip(0, 2 * _EDGE >> _COARSER, out=place)


@lru_cache(maxsize=1)
def logistic_table() -> Floats:
    """1 / (1 + exp(-s)) at s = (i - 2^17) 2^-13, in whole steps of 2^-20, shape (2^18 + 1,).

    At most 1.6e-5 from the logistic function of a score that is looked up at the nearest s.
    """
    above = np.rint(CERTAIN / (1.0 + exp_of(logistic_scores()[2**17:]))) / CERTAIN
    above[-1] = 1.0
    table: Floats = np.concatenate([1.0 - above[:0:-1], above])
    table.setflags(write=False)
    return table


def _softmax(columns: Sequence[Ints]) -> list[Floats]:
    top = columns[0].copy()
    for column in columns[1:]:
        np.maximum(top, column, out=top)
    shares = [exp_of(top - column) for column in columns]
    total = shares[0].copy()
    for share in shares[1:]:
        total += share
    for share in shares:
        share /= total
        share *= CERTAIN
        np.rint(share, out=share)
        share *= 1 / CERTAIN
    return shares


def means(loss: str, scores: Ints) -> list[Floats]:
    """What scores of shape (n,) or (n, width) stand for, one array of shape (n,) per coordinate.

    Probabilities are whole steps of 2^-20; of `softmax` they add up to one but for rounding. Of
    `poisson` it is exp(score), for scores from -16 to 8, and beyond that of the end.
    """
    if loss == "softmax":
        return _softmax(list(np.atleast_2d(scores.T)))
    column = scores if scores.ndim == 1 else scores[:, 0]
    if loss == "logistic":
        return [logistic_table().take(logistic_place(column))]
    if loss == "poisson":
        found = exp_of(np.maximum(HIGHEST * PER_UNIT - column, 0))
        return [np.divide(found, exponentials()[0][HIGHEST * 64], out=found)]
    same: Floats = np.multiply(column, 1 / PER_UNIT, dtype=np.float64)
    return [same]


def residuals(loss: str, scores: Ints, target: NDArray[np.float64] | Ints, center: float,
              scale: float) -> list[Floats]:
    """Target minus mean, one array of shape (n,) per coordinate."""
    found = means(loss, scores)
    if loss in ("squared", "huber", "poisson"):
        scaled = target - center
        scaled /= scale
        np.subtract(scaled, found[0], out=found[0])
        return [found[0].clip(-1.0, 1.0, out=found[0]) if loss == "huber" else found[0]]
    first = 1 if loss == "logistic" else 0
    for code, column in enumerate(found, first):
        np.subtract(target == code, column, out=column, dtype=np.float64)
    return found


def curvatures(loss: str, scores: Ints) -> Floats:
    """4p(1-p), (1 - sum p^2) / (1 - 1/K), or a `poisson` mean up to 1, shape (n,)."""
    found = means(loss, scores)
    if loss == "poisson":
        return np.minimum(found[0], 1.0, out=found[0])
    if loss == "logistic":
        rest = 1.0 - found[0]
        rest *= found[0]
        rest *= 4.0
        return rest
    left = np.ones(len(scores))
    for column in found:
        left -= np.square(column, out=column)  # whole steps of 2^-40: exact
    left /= 1.0 - 1.0 / len(found)
    return left


def length(columns: Sequence[Floats], norm: int = 2, unit: float = 1.0) -> Floats:
    """Norm 1 or 2 of each record's vector, in units, added up column by column, shape (n,)."""
    if len(columns) == 1:
        return np.abs(columns[0] / unit)
    measure = np.abs if norm == 1 else np.square
    total: Floats = np.zeros(len(columns[0]))
    for column in columns:
        here = column / unit
        total += measure(here, out=here)
    return total if norm == 1 else np.sqrt(total, out=total)
