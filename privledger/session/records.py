"""What one record spent, and where: for auditors, because it depends on private data."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import DataError
from privledger.graph import from_json, label
from privledger.ledger import GrantState, State, Store
from privledger.ledger.individual import RECORD_UNITS, worst_units
from privledger.ledger.vectors import unpack
from privledger.rounding import count, from_units


@frozen
class Line:
    """One grant's part in a record's spend.

    Attributes:
        grant, learner, node: where it came from.
        share: part of the cap that this grant took from the record, 0 to 1.
        amount: the same in the filter's unit (mu squared, Renyi bound or epsilon).
        rounds: rounds the record took part in, or None if every record took part in all.
        basis: `individual`, `whole plan`, `not in the table yet` (a late arrival), or what an
            unfinished grant may have taken.
    """

    grant: str
    learner: str
    node: str
    amount: float
    cap: float
    rounds: int | None
    basis: str
    scope: str | None = None

    @property
    def share(self) -> float:
        return self.amount / self.cap if self.cap else 0.0


@frozen
class RecordSpend:
    """One record of one data set: lines in order of the history."""

    row: int
    data: str
    lines: tuple[Line, ...]

    @property
    def total(self) -> float:
        """Sum of the amounts, in the ledger filter's unit where lines share one."""
        return float(sum(line.amount for line in self.lines))


def _pick_data(state: State, data: str | None) -> str:
    known = list(dict.fromkeys(grant.body["data"] for grant in state.grants.values()))
    if not known:
        raise DataError("no grant in this ledger: nobody spent anything")
    if data is None and len(known) == 1:
        return str(known[0])
    if data not in known:
        raise DataError(f"name the data set: one of {', '.join(known)}")
    return str(data)


def record_spend(store: Store, state: State, row: int, data: str | None) -> RecordSpend:
    """Lines of one record; `row` is its position in the protected table, from 0."""
    place = count("row", row, least=0)
    name = _pick_data(state, data)
    grants = [g for g in state.grants.values() if g.body["data"] == name
              and not (g.status == "aborted" and not g.touched)]
    lines = tuple(_line(store, state, grant, place) for grant in grants)
    lengths = [len(unpack(store.vector(grant.settled["vector"]["name"]) or b"")[0])
               for grant in grants if grant.settled.get("vector")]
    if lengths and place >= max(lengths):
        raise DataError("no record at that position")
    return RecordSpend(place, name, lines)


def _line(store: Store, state: State, grant: GrantState, row: int) -> Line:
    body = grant.body
    plan = label(from_json(body["plan"]))
    scope = body.get("scope")
    note = grant.settled.get("vector")
    if note is not None:
        taken, rounds = unpack(store.vector(note["name"]) or b"")
        late = row >= len(taken)  # it arrived after this grant and paid it nothing
        cap = float(grant.settled["cap"])
        outside = 0.0 if scope else _outside(state, grant, cap)
        amount = 0.0 if late else float(taken[row]) * cap / RECORD_UNITS + outside
        return Line(grant.grant, body["learner"], plan, amount, cap + outside,
                    0 if late else int(rounds[row]),
                    "not in the table yet" if late else "individual", scope)
    if scope:
        cap = float(from_json(state.scopes[scope].body["plan"]).cap)  # type: ignore[union-attr]
        amount = worst_units(float(body["worst"]), cap) * cap / RECORD_UNITS
        return Line(grant.grant, body["learner"], plan, amount, cap, None,
                    "unfinished, worst case", scope)
    amount = from_units(int(body["units"]))
    basis = "whole plan" if grant.status in ("settled", "aborted") else "unfinished, whole plan"
    return Line(grant.grant, body["learner"], plan, amount, amount, None, basis)


def _outside(state: State, grant: GrantState, cap: float) -> float:
    """What the plan charges to every record beside its filter."""
    return max(0.0, from_units(int(grant.body["units"])) - cap)


@frozen(eq=False)
class DataSpend:
    """Every record of one data set: fraction of the individual caps that was used.

    Attributes:
        spent: shape (n_records,), summed amounts in the filter's unit.
        cap: sum of what one record could have spent.
    """

    data: str
    spent: NDArray[np.float64]
    cap: float


def data_spend(store: Store, state: State, data: str | None = None) -> DataSpend | None:
    """Per-record totals where grants kept them; None if no grant did."""
    name = _pick_data(state, data)
    total: NDArray[Any] | None = None
    cap, scopes = 0.0, set()
    for grant in state.grants.values():
        note: dict[str, Any] | None = grant.settled.get("vector")
        if note is None or grant.body["data"] != name:
            continue
        taken, _ = unpack(store.vector(note["name"]) or b"")
        own_cap = float(grant.settled["cap"])
        scope = grant.body.get("scope")
        outside = 0.0 if scope else _outside(state, grant, own_cap)
        amounts = taken * (own_cap / RECORD_UNITS) + outside
        if total is None:
            total = amounts
        else:
            longer = np.zeros(max(len(total), len(amounts)))
            longer[: len(total)] += total
            longer[: len(amounts)] += amounts
            total = longer
        if scope is None or scope not in scopes:
            cap += own_cap + outside
        scopes.add(scope)
    return None if total is None else DataSpend(name, total, cap)
