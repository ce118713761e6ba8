"""Correlated noise (matrix mechanisms): what one record moves, and the Gaussian that costs as much.

A training run that adds correlated noise releases C g_1..g_t plus independent noise, row by row; C
is lower triangular and public, and a record takes part in some of the steps. Proof:
docs/proofs/correlated.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privledger.accounting import Cost, Relation
from privledger.errors import InvalidMechanism, UnsupportedNode
from privledger.graph.additive import Gaussian, numbers
from privledger.graph.fold import cost_of, fold
from privledger.graph.nodes import Correlated, PoissonSample, Repeat
from privledger.rounding import count, down, finite_array, moderate, number, up

_HALF_ULP = 2.0**-53
_SMALLEST = 1e-280
MOST_STEPS = 4096
GRID = 1 << 10
"""Coefficients that the guard adds up by are whole steps of one over this, and at most this."""


def dyadic(coefficients: Sequence[float]) -> tuple[float, ...]:
    """Coefficients of a `Correlated` that the guard releases: cut towards zero to whole steps of
    2^-10. A real-valued strategy would show the raw sums in the last digits of its rows.

    >>> dyadic([1.0, 0.5, 0.375, 0.3125, 0.2734375, -0.3])
    (1.0, 0.5, 0.375, 0.3125, 0.2734375, -0.2998046875)
    """
    return tuple(math.trunc(number("coefficients", one) * GRID) / GRID
                 for one in numbers(coefficients))


def whole_coefficients(node: Correlated) -> tuple[int, ...]:
    """The coefficients in whole steps.

    Raises:
        UnsupportedNode: some are not; nothing was read.
    """
    steps = [one * GRID for one in node.coefficients]
    if any(one != math.trunc(one) for one in steps):
        raise UnsupportedNode("the guard draws correlated noise for coefficients in whole steps of "
                              "2^-10 only: make them with privledger.nodes.dyadic. Nothing was "
                              "read")
    if max(map(abs, steps)) > GRID**2:  # sums lie on a grid that is as fine as the noise asks for
        raise UnsupportedNode("the guard draws correlated noise for coefficients of at most "
                              f"{GRID} only: larger ones would raise what its grid cuts off. "
                              "Divide all of them and the noise multiplier by one number, which "
                              "changes no price. Nothing was read")
    return tuple(map(math.trunc, steps))


def step_sums(node: Correlated, rows: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The sum of each step with correlated noise, C^-1 y, from the rows y released so far.

    Args:
        rows: answers to the steps of one run, in order; all of one shape.

    Returns:
        Shape (steps so far, then that of a row). Its cumulated sums have less noise than
        independent noise of the same price would leave, which is what a strategy is for.
    """
    found: list[NDArray[np.float64]] = []
    for row in rows:
        earlier = zip(node.coefficients[1:], reversed(found), strict=False)
        known = sum((one * before for one, before in earlier), np.zeros(np.shape(row)))
        found.append((row - known) / node.coefficients[0])
    return np.array(found)


def correlated_gaussian(strategy: Sequence[Sequence[float]] | NDArray[np.float64],
                        noise_multiplier: float, *, separation: int, participations: int
                        ) -> Gaussian:
    """The Gaussian whose price covers a whole run with correlated noise. For plans and for runs
    that another program makes; the guard draws the noise of a `Correlated`.

    Args:
        strategy: C, lower triangular, shape (steps, steps): public, fixed before the run.
        noise_multiplier: standard deviation of the independent noise over the clip of one record's
            contribution to one step (L2 norm).
        separation: least number of steps from one of a record's to its next. Every record's steps
            are fixed without looking at any data; batches are not sampled secretly.
        participations: most steps that a record takes part in.

    Raises:
        InvalidMechanism: not lower triangular, all zero, or of more than 4,096 steps.
        InvalidValue: not numbers, or out of range.

    >>> step = [[1.0, 0.0], [1.0, 1.0]]
    >>> once = correlated_gaussian(step, 2.0, separation=2, participations=1)
    >>> round(once.noise_multiplier, 9)
    1.414213562
    """
    noise = moderate("noise_multiplier", noise_multiplier)
    rows = [finite_array("strategy", row if isinstance(row, np.ndarray) else list(row))
            for row in strategy]
    size = len(rows)
    if not 0 < size <= MOST_STEPS or any(row.shape != (size,) for row in rows):
        raise InvalidMechanism("strategy", "given", f"a square of 1 to {MOST_STEPS} steps")
    matrix = np.stack(rows)
    if np.triu(matrix, 1).any():
        raise InvalidMechanism("strategy", "given", "lower triangular: no step may use a later one")
    apart = count("separation", separation, most=size)
    most = min(count("participations", participations, most=10**9), -(-size // apart))
    square = _square(matrix, apart, most)
    if not _SMALLEST < square < math.inf:  # below, products of floats lose more than is added
        raise InvalidMechanism("strategy", "given", "such that a record moves what is released")
    return Gaussian(down(noise / up(math.sqrt(square))))


def _square(matrix: NDArray[np.float64], apart: int, most: int) -> float:
    """At least the largest square of what a record moves."""
    size = len(matrix)
    absolute = np.abs(matrix)
    lost = 2 * size * _HALF_ULP  # of a sum of `size` products: twice the usual bound
    products = np.abs(matrix.T @ matrix) + lost * (absolute.T @ absolute)
    steps = np.arange(size)
    others = np.where(np.abs(steps[:, None] - steps) < apart, 0.0, products)
    with_each = products.diagonal() + _dearest(others, apart, most - 1)
    total = float(_dearest(with_each[None, :], apart, most)[0])
    return total * (1 + 8 * (size + 2) * _HALF_ULP)  # every other step adds or multiplies once


def _dearest(weights: NDArray[np.float64], apart: int, most: int) -> NDArray[np.float64]:
    """For each row the largest sum of at most `most` weights that are `apart` steps apart.

    Args:
        weights: not negative, shape (rows, steps).
    """
    rows, size = weights.shape
    before = np.zeros((rows, size + 1))
    for _ in range(most):
        now = np.zeros((rows, size + 1))
        for step in range(size):
            last = before[:, max(0, step + 1 - apart)]
            now[:, step + 1] = np.maximum(now[:, step], last + weights[:, step])
        before = now
    found: NDArray[np.float64] = before[:, size]
    return found


def cyclic_poisson(coefficients: Sequence[float], noise_multiplier: float, *, rate: float,
                   groups: int, steps: int) -> Repeat:
    """The plan whose price covers correlated noise on cyclic Poisson samples. For plans and for
    runs that another program makes (docs/proofs/correlated.md).

    Args:
        coefficients: of the strategy matrix C, from its diagonal down: public, at most `groups`.
        noise_multiplier: standard deviation of the independent noise over the clip of one record's
            contribution to one step (L2 norm).
        rate: with which each record of a step's group enters, by a fresh private coin.
        groups: b. Every record is in one of them for the whole run, by a function of itself alone
            or by a coin of its own, never by a balanced split. Step s draws on group s mod b.
        steps: of the whole run.

    Raises:
        InvalidMechanism: more coefficients than groups, so that a record's steps overlap; or none
            above zero.
        InvalidValue: a number out of range.

    >>> cyclic_poisson([0.8, 0.6], 2.0, rate=0.1, groups=2, steps=1001).count
    501
    """
    noise = moderate("noise_multiplier", noise_multiplier)
    held = finite_array("coefficients", list(numbers(coefficients)))
    most = count("groups", groups, most=10**9)
    rounds = -(-count("steps", steps, most=10**15) // most)
    if held.ndim != 1 or not 0 < len(held) <= most:
        raise InvalidMechanism("coefficients", len(held), f"1 to {most}, as many as groups at most")
    with np.errstate(over="ignore"):
        square = math.fsum((held * held).tolist()) * (1 + 8 * _HALF_ULP)
    if not _SMALLEST < square < math.inf:
        raise InvalidMechanism("coefficients", "given", "such that a record moves what is released")
    return Repeat(PoissonSample(rate, Gaussian(down(noise / up(math.sqrt(square))))), rounds)


def moved_squared(plan: Correlated) -> float:
    """The largest square of what a record moves, over the clip, rounded up; attained.

    The dearest steps are the first ones, as close as they may be: docs/proofs/correlated.md.
    """
    own, size = np.abs(np.array(plan.coefficients)), plan.steps
    starts = np.arange(0, size, plan.separation)[:plan.participations]
    total = 0.0
    for lag in starts[starts < len(own)].tolist():
        # Of steps s and s + lag: sums of products over the rows that both reach.
        sums = np.append(0.0, np.cumsum(own[lag:] * own[:len(own) - lag]))
        cut = starts[max(lag // plan.separation, np.searchsorted(starts, size - len(sums) + 1)):]
        whole = len(starts) - lag // plan.separation - len(cut)
        total += float(sums[-1] * whole + sums[np.minimum(size - cut, len(sums) - 1)].sum()) * (
            2 if lag else 1)
    return up(total * (1 + 8 * (size + len(starts) + 4) * _HALF_ULP))


@fold.register
def _(node: Correlated, relation: Relation, orders: tuple[float, ...]) -> Cost:
    """docs/proofs/correlated.md: the Gaussian that moves as much; on samples, one for each time
    that a record may be drawn."""
    if not isinstance(node.node, PoissonSample):
        return cost_of(_moving(node), relation, orders)
    rounds = min(node.participations, -(-node.steps // node.separation))
    once = PoissonSample(node.node.rate, _moving(evolve(node, participations=1)))
    return cost_of(Repeat(once, rounds), relation, orders)


def _moving(node: Correlated) -> Gaussian:
    return Gaussian(down(node.gaussian.noise_multiplier / up(math.sqrt(moved_squared(node)))))
