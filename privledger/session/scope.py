"""Filter scopes: per-record spends that can span rounds, fits and learners."""

from __future__ import annotations

import zlib
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.accounting import poisson_gaussian_rdp
from privledger.graph import IndividualFilter
from privledger.ledger import GrantState, ScopeSpend, State, Store
from privledger.ledger.individual import RECORD_UNITS, worst_units


@frozen
class Scope:
    """An individual filter that a ledger has paid for once.

    Attributes:
        name: how requests refer to it.
        node: kind, order and cap; `node.cap` is what no record may pass.
    """

    name: str
    node: IndividualFilter


def pack(taken: NDArray[np.int64], rounds: NDArray[np.int32]) -> bytes:
    """A per-record vector for the store: units taken, then rounds, compressed."""
    header = np.array([len(taken)], dtype="<i8").tobytes()
    return zlib.compress(header + taken.astype("<i8").tobytes() + rounds.astype("<i4").tobytes(), 1)


def unpack(data: bytes) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The inverse of `pack`."""
    raw = zlib.decompress(data)
    (n,) = np.frombuffer(raw[:8], dtype="<i8")
    taken = np.frombuffer(raw[8 : 8 + 8 * n], dtype="<i8").astype(np.int64)
    return taken, np.frombuffer(raw[8 + 8 * n :], dtype="<i4").astype(np.int32)


def vector_note(name: str, data: bytes) -> dict[str, Any]:
    """What the settlement says about a vector, so that an edited one is found."""
    return {"name": name, "sha256": sha256(data).hexdigest()}


def grants_of(state: State, scope: str, identity: str) -> list[GrantState]:
    """Grants that drew on a scope for one data set."""
    return [grant for grant in state.grants.values()
            if grant.body.get("scope") == scope and grant.body["data"] == identity]


def spent_before(
    store: Store, state: State, scope: Scope, identity: str, n_rows: int, skip: str
) -> NDArray[np.int64]:
    """Units each record has spent in a scope, shape (n_rows,).

    A grant that is open, crashed or aborted after touching data counts in full: its plan's
    worst case for every record.
    """
    spent = np.zeros(n_rows, dtype=np.int64)
    for grant in grants_of(state, scope.name, identity):
        if grant.grant == skip or (grant.status == "aborted" and not grant.touched):
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
    grid, costs = _amplified(rate, node.order, top * (1 + 1e-9))
    place = np.searchsorted(grid, squares, side="left")
    return np.take(np.array([*costs, np.inf]), place)
