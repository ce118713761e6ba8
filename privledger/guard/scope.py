"""Filter scopes: per-record spends that can span rounds, fits and learners."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting import poisson_gaussian_rdp
from privledger.errors import InvalidValue
from privledger.graph import IndividualFilter, from_json, to_json
from privledger.ledger import GrantState, ScopeSpend, State, Store
from privledger.ledger.individual import RECORD_UNITS, worst_units
from privledger.ledger.vectors import unpack
from privledger.ledger.view_records import took_nothing


@frozen
class Scope:
    """An individual filter that a ledger has paid for once.

    Attributes:
        name: how requests refer to it.
        node: kind, order and cap; `node.cap` is what no record may pass.
    """

    name: str
    node: IndividualFilter


def own_scope(scope: object) -> Scope:
    """A scope of the guard's own. By exact type: a stranger's caps may be others each time they
    are asked for.

    Raises:
        InvalidValue: not what `open_scope` gave.
    """
    if type(scope) is not Scope or type(scope.node) is not IndividualFilter:
        raise InvalidValue("scope", type(scope).__name__, "what open_scope gave")
    name, node = scope.name, from_json(to_json(scope.node))
    if type(name) is not str or not isinstance(node, IndividualFilter):
        raise InvalidValue("scope", type(name).__name__, "what open_scope gave")
    return Scope(name, node)


def grants_of(state: State, scope: str, identity: str) -> list[GrantState]:
    """Grants that drew on a scope for one data set."""
    return [grant for grant in state.grants.values()
            if grant.body.get("scope") == scope and grant.body["data"] == identity]


def spent_before(
    store: Store, state: State, scope: Scope, identity: str, n_rows: int, skip: str
) -> NDArray[np.int64]:
    """Units each record has spent in a scope, shape (n_rows,).

    A grant that crashed, or whose vector is missing, counts in full: its plan's worst case for
    every record. One that is over and read nothing counts nothing.
    """
    spent = np.zeros(n_rows, dtype=np.int64)
    for grant in grants_of(state, scope.name, identity):
        if grant.grant == skip or took_nothing(grant):
            continue
        note = grant.settled.get("vector")
        data = store.vector(note["name"]) if note else None
        if data is None or note is None or sha256(data).hexdigest() != note["sha256"]:
            spent += worst_units(float(grant.body["worst"]), scope.node.cap)
        else:
            taken, _ = unpack(data)
            spent[: len(taken)] += taken[:n_rows]
    return np.minimum(spent, RECORD_UNITS)


def fresh_spend(cap: float, before: NDArray[np.int64]) -> ScopeSpend:
    return ScopeSpend(cap, before, np.zeros(len(before), dtype=np.int32))


@lru_cache(maxsize=64)
def _amplified(rate: float, order: float, top: float) -> tuple[tuple[float, ...], ...]:
    """Table of (mu squared, Renyi bound at `order` of a Poisson-sampled Gaussian)."""
    grid = np.concatenate([[0.0], np.geomspace(top * 1e-6, top, 512)])
    grid[-1] = top  # to the last bit: a record of full norm is looked up there
    costs = [0.0] + [poisson_gaussian_rdp(rate, float(1 / np.sqrt(square)), (order,)).bounds[0]
                     for square in grid[1:]]
    return tuple(grid.tolist()), tuple(np.maximum.accumulate(costs).tolist())


def individual_costs(
    squares: NDArray[np.float64], node: IndividualFilter, rate: float, top: float
) -> NDArray[np.float64]:
    """Per-record cost of a round under a filter, from each record's mu squared.

    Args:
        squares: shape (n_records,), mu squared of the unsampled Gaussian for each record.
        rate: Poisson rate, 1 if the round is not sampled.
        top: largest value `squares` can take.

    The table for sampled rounds is looked up at the next larger grid point, so never too low.
    """
    if node.kind == "gdp":
        return squares
    if rate == 1.0:
        return squares * (node.order / 2 * (1 + 2.0**-50))
    grid, costs = _amplified(rate, node.order, top)
    place = np.searchsorted(grid, squares, side="left")
    return np.take(np.array([*costs, np.inf]), place)
