"""What one record spent, and where: for auditors, because it depends on private data."""

from __future__ import annotations

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
        basis: `individual`, `whole plan` (`as corrected`), `not in the table yet` (a late
            arrival), or what an unfinished grant may have taken.
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
    lines, lengths = [], []
    for grant in grants_for(state, name):
        found = counted(store, state, grant)
        lines.append(_line(state, grant, found, place))
        lengths += [] if found is None else [len(found.taken)]
    if lengths and place >= max(lengths):
        raise DataError("no record at that position")
    return RecordSpend(place, name, tuple(lines))


def grants_for(state: State, data: str) -> list[GrantState]:
    """Grants that took something from the records of `data`, in order of the history."""
    return [grant for grant in state.grants.values() if grant.body["data"] == data
            and (grant.corrections or not (grant.status == "aborted" and not grant.touched))]


@frozen(eq=False)
class Counted:
    """What one grant counted record by record.

    Attributes:
        taken: shape (n_records,), int64, in cap / 2**52. rounds: shape (n_records,), int32.
        cap: of the filter, in its own unit. outside: what every record pays beside it.
    """

    taken: NDArray[np.int64]
    rounds: NDArray[np.int32]
    cap: float
    outside: float

    def amounts(self) -> NDArray[np.float64]:
        """Shape (n_records,), in the filter's unit."""
        return np.asarray(self.taken * (self.cap / RECORD_UNITS) + self.outside)


def counted(store: Store, state: State, grant: GrantState) -> Counted | None:
    """The vector that a settled grant left; None if it left none.

    A corrected grant ran something else than its records were charged for, so its vector says
    nothing about them any more.
    """
    note = grant.settled.get("vector")
    if note is None or grant.corrections:
        return None
    taken, rounds = unpack(store.vector(note["name"]) or b"")
    cap = float(grant.settled["cap"])
    return Counted(taken, rounds, cap,
                   0.0 if grant.body.get("scope") else _outside(state, grant, cap))


def _line(state: State, grant: GrantState, found: Counted | None, row: int) -> Line:
    body, scope = grant.body, grant.body.get("scope")
    plan = label(from_json(body["plan"]))
    if found is None:
        amount, cap, basis = charged_alike(state, grant)
        return Line(grant.grant, body["learner"], plan, amount, cap, None, basis, scope)
    late = row >= len(found.taken)  # it arrived after this grant and paid it nothing
    amount = (0.0 if late
              else float(found.taken[row]) * found.cap / RECORD_UNITS + found.outside)
    return Line(grant.grant, body["learner"], plan, amount, found.cap + found.outside,
                0 if late else int(found.rounds[row]),
                "not in the table yet" if late else "individual", scope)


def charged_alike(state: State, grant: GrantState) -> tuple[float, float, str]:
    """Amount, cap and basis of a grant without a vector: the same for every record."""
    scope = grant.body.get("scope")
    if scope:
        cap = float(from_json(state.scopes[scope].body["plan"]).cap)  # type: ignore[union-attr]
        amount = worst_units(float(grant.body["worst"]), cap) * cap / RECORD_UNITS
        return amount, cap, "unfinished, worst case"
    amount = from_units(grant.counted[0])
    basis = "whole plan, as corrected" if grant.corrections else "whole plan"
    over = grant.status in ("settled", "aborted")
    return amount, amount, basis if over else f"unfinished, {basis}"


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
    total: NDArray[np.float64] | None = None
    cap, scopes = 0.0, set()
    for grant in state.grants.values():
        if grant.body["data"] != name:
            continue
        found = counted(store, state, grant)
        if found is None:
            continue
        amounts, scope = found.amounts(), grant.body.get("scope")
        if total is None:
            total = amounts
        else:
            longer = np.zeros(max(len(total), len(amounts)))
            longer[: len(total)] += total
            longer[: len(amounts)] += amounts
            total = longer
        if scope is None or scope not in scopes:
            cap += found.cap + found.outside
        scopes.add(scope)
    return None if total is None else DataSpend(name, total, cap)
