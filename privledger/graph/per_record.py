"""What one round costs each record: Renyi bounds over the share of the sensitivity it uses."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from privledger.accounting import Relation, check_relation
from privledger.accounting.records import (
    check_shares,
    gaussian_per_record,
    laplace_per_record,
    poisson_gaussian_per_record,
    poisson_laplace_per_record,
)
from privledger.errors import InvalidPlan, RelationMismatch, UnsupportedNode
from privledger.graph.additive import Gaussian, Laplace
from privledger.graph.fold import cost_of
from privledger.graph.nodes import (
    Node,
    PoissonSample,
    PostProcess,
    Public,
    Repeat,
    Sequential,
    check_node,
)
from privledger.rounding import down, number, up

_Array = NDArray[np.float64]
_FREE = (PostProcess, Public)
_EPS = float(np.finfo(np.float64).eps)


def rdp_per_record(node: Node, shares: NDArray[np.float64], orders: Sequence[float],
                   relation: Relation = "add_remove") -> NDArray[np.float64]:
    """Renyi bounds in nats of running `node` once, for each record, shape (n, len(orders)).

    Record i must move every query of the node by at most `shares[i]` times the sensitivity
    that the query's noise is stated for. For use in a filter its share may depend on the
    record, on earlier outputs and on public facts only. Shares and result are private.

    Args:
        node: `Gaussian`, `Laplace`, a `PoissonSample` of either, and `Repeat` and
            `Sequential` of these. In a sample either Gaussians or Laplaces, not both.
        shares: one-dimensional array, each in [0, 1].
        orders: each above 1, any order of listing.
        relation: `add_remove` or `replace_one`; the sensitivities must be stated for it.

    Returns:
        Never below the exact bounds. Unsampled Gaussians are exact, Laplaces and sampled
        Gaussians at most 1 % above (sampled Laplaces 1.2 %) for a bound of at least 1e-12 of
        the full share's, and a share of 1 costs no more than `rdp` says, usually just that. A
        share of 0 costs exactly 0.

    Raises:
        InvalidValue: bad shares (the message holds none of them), or a bad order.
        UnsupportedNode: a node for which nothing is proved per record.
        RelationMismatch: a sample under `replace_one`, or anything under `replace_label`.

    >>> rdp_per_record(Gaussian(1.0), np.array([0.0, 0.5]), [2.0]).round(12).tolist()
    [[0.0], [0.25]]
    """
    check_node("node", node)
    if check_relation(relation) == "replace_label":
        raise RelationMismatch("per record, nothing is priced under replace_label")
    checked = check_shares(shares)
    wanted = [number("order", order) for order in orders]
    if not wanted or not all(order > 1 for order in wanted):
        raise InvalidPlan("orders", orders, "a non-empty list of numbers above 1")
    grid = tuple(sorted(set(wanted)))
    total = _total(_releases(node), checked, grid, relation)
    if list(grid) == wanted:
        return total
    return total[:, np.searchsorted(grid, wanted)]


def _releases(node: Node) -> Counter[Node]:
    """The leaves and samples of a composition, and how often each runs on all the records."""
    found: Counter[Node] = Counter()
    if isinstance(node, Sequential):
        for child in node.nodes:
            found.update(_releases(child))
    elif isinstance(node, Repeat):
        for child, count in _releases(node.node).items():
            found[child] += count * node.count
    elif isinstance(node, PoissonSample) and node.rate == 1:
        return _releases(node.node)
    elif not isinstance(node, _FREE):
        found[node] = 1
    return found


def _total(
    releases: Counter[Node], shares: _Array, orders: tuple[float, ...], relation: Relation
) -> _Array:
    """Sum of the releases, rounded up."""
    total: _Array | None = None
    with np.errstate(over="ignore", under="ignore"):
        for node, count in releases.items():
            part = _bounds(node, shares, orders, relation)
            if count > 1:
                part *= up(float(count)) * (1 + 2 * _EPS)
            if total is None:
                total = part
            else:
                total += part
        if total is None:
            return np.zeros((len(shares), len(orders)))
        if len(releases) > 1:
            total *= 1 + (len(releases) + 1) * _EPS
    return total


def _bounds(
    node: Node, shares: _Array, orders: tuple[float, ...], relation: Relation
) -> _Array:
    if isinstance(node, Gaussian):
        return gaussian_per_record(node.noise_multiplier, shares, orders)
    if isinstance(node, Laplace):
        return laplace_per_record(cost_of(node, relation, orders).pure, shares, orders)
    if isinstance(node, PoissonSample):
        return _sampled(node, shares, orders, relation)
    raise UnsupportedNode(
        f"what {type(node).__name__} costs a record that uses part of the sensitivity is not "
        "proved here; only Gaussian, Laplace, and Poisson samples of these")


def _sampled(
    node: PoissonSample, shares: _Array, orders: tuple[float, ...], relation: Relation
) -> _Array:
    """Releases on one sample add up inside it: squares of mu, or pure epsilons."""
    if relation != "add_remove":
        raise RelationMismatch("Poisson subsampling is priced under add_remove only")
    kinds = {type(child) for child in _releases(node.node)}
    if not kinds:
        return np.zeros((len(shares), len(orders)))
    inner = cost_of(node.node, relation, orders)
    if kinds == {Gaussian} and inner.mu_squared is not None:
        multiplier = down(1 / math.sqrt(inner.mu_squared))
        return poisson_gaussian_per_record(node.rate, multiplier, shares, orders)
    if kinds == {Laplace}:
        full = cost_of(node, relation, orders).curve
        return poisson_laplace_per_record(node.rate, inner.pure, full, shares)
    raise UnsupportedNode(
        "per record, a Poisson sample is priced for Gaussians or for Laplaces inside it, "
        "not for both and for nothing else")
