"""The public questions about a node: epsilon, delta, a Renyi curve, a calibrated noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal, overload

import numpy as np
from numpy.typing import NDArray

from privledger.accounting import Certificate as PriceCertificate
from privledger.accounting import (
    Relation,
    Tradeoff,
    check_relation,
    cost_tradeoff,
    delta_at,
    epsilon_at,
    largest_count,
    smallest,
)
from privledger.errors import InvalidPlan, InvalidValue
from privledger.graph.explain import Explanation
from privledger.graph.explain import explain as explain_price
from privledger.graph.fold import cost_of, remembered
from privledger.graph.nodes import Node, check_node
from privledger.rounding import non_negative, number, positive, probability


@overload
def epsilon(
    node: Node, delta: float = ..., relation: Relation = ..., accountant: str = ...,
) -> float: ...


@overload
def epsilon(
    node: Node, delta: float = ..., relation: Relation = ..., accountant: str = ..., *,
    explain: Literal[True],
) -> Explanation: ...


def epsilon(node: Node, delta: float = 0.0, relation: Relation = "add_remove",
            accountant: str = "best", *, explain: bool = False) -> float | Explanation:
    """An upper bound, in nats, on epsilon at `delta` for running `node` once.

    Args:
        node: any node of the composition graph.
        delta: failure probability in [0, 1); 0 for pure DP.
        relation: `add_remove` or `replace_one`, for which the sensitivities inside must be
            stated; or `replace_label`, for a node made of `LabelOnly`.
        accountant: `best` (the smallest certified bound), `pld`, `gdp`, `rdp` or `pure`.
        explain: return an `Explanation` instead: theorem, mesh or order, a lower bound, and
            what the other accountants say.

    Raises:
        InvalidValue: a number that can never be right.
        UnsupportedNode: no proof at hand for this node, relation or accountant.

    >>> round(epsilon(Gaussian(1.0), delta=1e-5), 4)
    4.3772
    """
    if explain:
        return explain_price(node, delta, relation)
    return certify(node, delta, relation, accountant).epsilon


def certify(node: Node, delta: float = 0.0, relation: Relation = "add_remove",
            accountant: str = "best") -> PriceCertificate:
    """Like `epsilon`, with the theorem, the accountant and the order it rests on."""
    checked = probability("delta", delta, zero=True)
    check_node("node", node)
    return _certified(node, check_relation(relation), checked, accountant)


@remembered(2048)
def _certified(
    node: Node, relation: Relation, delta: float, accountant: str,
) -> PriceCertificate:
    """A search for a noise asks for the same candidates whenever the same plan is made again."""
    return epsilon_at(cost_of(node, relation), delta, accountant)


def delta(node: Node, epsilon: float, relation: Relation = "add_remove",
          accountant: str = "best") -> float:
    """An upper bound on delta at `epsilon` (nats) for running `node` once, in [0, 1]."""
    return delta_at(cost_of(node, relation), non_negative("epsilon", epsilon), accountant).delta


def rdp(
    node: Node, orders: Sequence[float], relation: Relation = "add_remove"
) -> NDArray[np.float64]:
    """Renyi bounds in nats at `orders` (each above 1, any order of listing), shape (len(orders),).

    Infinity means that no bound is known at that order.
    """
    wanted = [number("order", order) for order in orders]
    if not wanted or not all(order > 1 for order in wanted):
        raise InvalidPlan("orders", orders, "a non-empty list of numbers above 1")
    grid = tuple(sorted(set(wanted)))
    curve = cost_of(node, relation, grid).curve
    found = dict(zip(curve.orders, curve.bounds, strict=True))
    return np.array([found[order] for order in wanted])


def tradeoff(node: Node, relation: Relation = "add_remove") -> Tradeoff:
    """What a test of two neighbouring tables can find out of running `node` once, at most.

    The result has `hits(wrong)`, `advantage`, `accuracy(prior)`, `precision(prior, wrong)` and
    `rows(number)`; all are rounded up (docs/proofs/risk.md).

    Args:
        node: a plan that is fixed before anything is seen.

    Raises:
        UnsupportedNode: nothing is proved for it.
    """
    cost = cost_of(node, check_relation(relation))
    reach = epsilon_at(cost, max(1e-6, min(0.5, 2 * cost.failure))).epsilon
    return cost_tradeoff(cost, min(max(reach, 1e-3), 300.0))


def tpr(node: Node, fpr: float, relation: Relation = "add_remove") -> float:
    """The true positive rate, at most, of an attacker whose false positive rate is `fpr`.

    One point of `tradeoff`: an attacker sees the output of `node` and guesses whether one record
    was there.

    >>> from privledger.graph import Gaussian
    >>> round(tpr(Gaussian(1.0), 0.01), 4)
    0.0924
    """
    return tradeoff(node, relation).hits(fpr)


def advantage(node: Node, relation: Relation = "add_remove") -> float:
    """True positive rate less false positive rate, at most, of every attacker on `node`.

    >>> from privledger.graph import Gaussian
    >>> round(advantage(Gaussian(1.0)), 4)
    0.3829
    """
    return tradeoff(node, relation).advantage


def calibrate(build: Callable[[float], Node], epsilon: float, delta: float = 0.0,
              relation: Relation = "add_remove", accountant: str = "best", *, largest: bool = False,
              whole: bool = False) -> float:
    """The parameter for which `build(parameter)` costs just about `epsilon` at `delta`.

    By default the smallest noise. With `largest`, the largest value of a parameter that makes
    the node dearer as it grows: a sampling rate, an exponential mechanism's epsilon. With
    `whole`, the largest whole number: of rounds, of rows. What `build` refuses counts as too
    dear.

    Args:
        build: parameter -> node.

    Returns:
        A parameter whose own price has been checked to meet the target.

    Raises:
        InvalidValue: no parameter meets the target. Where `build` or the price of what it built
            refused some parameters, the last refusal is its `__cause__`; where they refused
            all of them, the first one is the exception that is raised.
        InvalidPlan: the price does not move in one direction with the parameter.

    >>> noise = calibrate(lambda z: Repeat(Gaussian(z), 100), epsilon=1.0, delta=1e-6)
    >>> bool(globals()["epsilon"](Repeat(Gaussian(noise), 100), delta=1e-6) <= 1.0)
    True
    >>> calibrate(lambda n: Repeat(Gaussian(50.0), n), epsilon=1.0, delta=1e-6, whole=True)
    140
    """
    target = positive("epsilon", epsilon)
    checked = probability("delta", delta, zero=True)

    priced = 0
    refusal: ArithmeticError | InvalidValue | None = None
    first: ArithmeticError | InvalidValue | None = None

    def price(parameter: float) -> float:
        nonlocal priced, refusal, first
        try:
            found = certify(build(parameter), checked, relation, accountant).epsilon
        except (ArithmeticError, InvalidValue) as error:
            refusal, first = error, first or error
            return math.inf
        priced += 1
        return found

    try:
        if whole:
            return largest_count(lambda number: price(number) <= target)
        if largest:
            return 1 / _noise(lambda inverse: price(1 / inverse), target)
        return _noise(price, target)
    except InvalidValue as error:
        if first is None:
            raise
        if not priced:  # that is what is wrong; the last one may be about the parameter alone
            raise first from None
        raise error from refusal


def _noise(price: Callable[[float], float], target: float) -> float:
    """A little more noise than the exact solution, so that the same plan priced in another
    order of additions, or by a filter at the same order, still fits under the same target."""
    least = smallest(price, target)
    noise, more = least * (1 + 2e-10), 2e-10
    if price(noise) == math.inf:
        return least  # no more than this is allowed
    while not price(noise) <= target:
        # A distribution's mesh changes with the noise: prices jump by 1e-7 or so.
        more *= 4
        if more > 1e-4:
            raise InvalidPlan("build", "a node", "cheaper as noise grows, more expensive as other "
                                                 "parameters grow")
        noise *= 1 + more
    return noise
