"""What one record spent, and where: for auditors, because it depends on private data."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.accounting import check_relation
from privledger.errors import DataError, LedgerCorrupt, PrivledgerError
from privledger.graph import (
    Federated,
    IndividualFilter,
    Node,
    OneOf,
    Parallel,
    PostProcess,
    Repeat,
    Sequential,
    children,
    cost_of,
    from_json,
    label,
)
from privledger.graph.nodes import with_children
from privledger.ledger.events import VectorNote
from privledger.ledger.filters import FilterRule
from privledger.ledger.individual import RECORD_UNITS, worst_units
from privledger.ledger.origins import origin_text
from privledger.ledger.state import GrantState, ScopeState, State
from privledger.ledger.store import Store
from privledger.ledger.vectors import read_index, spent_by_all, unpack
from privledger.ledger.view_charges import VOID, caps_over, said_of_plan
from privledger.rounding import count, from_units, sum_up, units_up, up

# What a record spent in an individual filter, in the unit that its ledger adds up.
#
# A filter counts squared mu or a Renyi bound at its own order; a ledger counts squared mu, zCDP
# rho, a Renyi bound at the ledger's order, or epsilon. The one may be printed as the other only
# after conversion, and whatever else the plan costs every record belongs to it.

STEPS = 64
_MORE = 1 + 2.0**-50  # covers the few roundings of one product and one sum


@frozen
class Currency:
    """From a record's units (cap / 2**52) to the ledger's unit, never too low.

    `docs/proofs/filters.md`, "In the ledger's unit": with gdp, zcdp and rdp ledgers the price of a
    plan is convex in its filter's cap, so a record is charged along the chord from the plan
    without the filter to the plan with all of it. Epsilon is not convex: a basic ledger's
    record is charged the next of `STEPS` prices.

    Attributes:
        prices: of the plan with 0, 1/n, ..., n/n of its filter's cap, rising; n + 1 of them.
        whole: nothing better is proved than the whole plan's price.
    """

    prices: tuple[float, ...]
    whole: bool = False

    @property
    def cap(self) -> float:
        """The most a record can be charged."""
        return self.prices[-1]

    @property
    def basis(self) -> str:
        """How a record's amount is known."""
        if self.whole:
            return "individual, priced as the whole plan"
        return "individual" if len(self.prices) == 2 else f"individual, in {STEPS} steps"

    def amounts(self, taken: NDArray[np.int64]) -> NDArray[np.float64]:
        """Shape (n_records,): what records lost that took so many units of the filter."""
        low, top = self.prices[0], self.prices[-1]
        if len(self.prices) == 2:
            along = taken * ((top - low) / RECORD_UNITS * _MORE)
            return np.asarray(np.minimum((along + low) * _MORE, max(top, low)))
        steps = len(self.prices) - 1
        place = -(-taken // (RECORD_UNITS // steps))
        return np.asarray(np.array(self.prices)[np.minimum(place, steps)])

    def between(self, before: NDArray[np.int64],
                taken: NDArray[np.int64]) -> NDArray[np.float64]:
        """What `taken` added after `before`; over a scope's grants it adds up to the total."""
        if len(self.prices) == 2:
            return self.amounts(taken)
        return np.asarray(self.amounts(before + taken) - self.amounts(before))


@lru_cache(maxsize=512)
def currency(plan: Node, rule: FilterRule, relation: str, units: int, delta: float) -> Currency:
    """How records that drew on the filter in `plan` are charged in the ledger's unit.

    Args:
        plan: with one individual filter that was used.
        units: what the ledger charged for it.
        delta: that the plan was stated at.
    """
    top = from_units(units)
    if rule.kind != "basic" and not _is_convex(plan):
        return Currency((top, top), whole=True)
    parts = [step / STEPS for step in range(STEPS)] if rule.kind == "basic" else [0.0]
    try:
        prices = [from_units(_price(_with_cap(plan, part), rule, relation, delta))
                  for part in parts]
    except PrivledgerError:
        return Currency((top, top), whole=True)
    rising = np.maximum.accumulate([min(price, top) for price in prices])
    return Currency((*(float(price) for price in rising), top))


def _price(plan: Node, rule: FilterRule, relation: str, delta: float) -> int:
    return rule.price(cost_of(plan, check_relation(relation), rule.orders), delta)[0]


def _is_convex(plan: Node) -> bool:
    """Whether only sums and maxima lie above every filter; a minimum of theorems is concave."""
    if isinstance(plan, IndividualFilter):
        return True
    held = any(_holds_filter(child) for child in children(plan))
    return not held or (isinstance(plan, Sequential | Repeat | Parallel | OneOf | Federated)
                        and all(_is_convex(child) for child in children(plan)))


def _holds_filter(node: Node) -> bool:
    return isinstance(node, IndividualFilter) or any(map(_holds_filter, children(node)))


def _with_cap(node: Node, part: float) -> Node:
    """The plan with so much of its filters' caps."""
    if isinstance(node, IndividualFilter):
        return PostProcess("an unused filter") if part == 0 else evolve(
            node, cap=up(node.cap * part))
    return with_children(node, tuple(_with_cap(child, part) for child in children(node)))


ALL = "all tables"
ROUND = 1 + 2.0**-52  # a sum of two is rounded up by it


@frozen
class SpendLine:
    """One grant's part in a record's spend.

    Attributes:
        grant, learner, node: where it came from.
        share: part of the cap that this grant took from the record, 0 to 1.
        amount: the same in the unit of the ledger's filter, never too low.
        rounds: rounds the record took part in, or None if every record took part in all.
        basis: `individual` (and how, if the filter's unit is not the ledger's), `whole plan`
            (`as corrected`), `not in the table yet` (a late
            arrival), or what an unfinished grant may have taken.
        data, time: which table, and when, as it was written down. origin: see `origin_text`.
    """

    grant: str
    learner: str
    node: str
    amount: float
    cap: float
    rounds: int | None
    basis: str
    scope: str | None = None
    data: str = ""
    time: str = ""
    origin: str = ""

    @property
    def share(self) -> float:
        """What was taken of the cap, from 0 to 1; 0 without a cap."""
        return self.amount / self.cap if self.cap else 0.0


@frozen
class RecordSpend:
    """One record of one data set: lines in order of the history.

    Attributes:
        known: whether something told how many records there are. Where nothing did, every
            record of the table was charged this, and `row` may be none of them.
        epsilon: what the total is, at the budget's delta. bound: the same of the whole ledger,
            which no record is above.
    """

    row: int
    data: str
    lines: tuple[SpendLine, ...]
    known: bool = True
    epsilon: float = 0.0
    bound: float = 0.0

    @property
    def total(self) -> float:
        """Sum of the amounts, in the ledger filter's unit; rounded up."""
        return sum_up(line.amount for line in self.lines)


def took_nothing(grant: GrantState) -> bool:
    """Whether a grant is over, and read nothing: the vault was never opened under it."""
    return (grant.status in ("settled", "aborted") and not grant.releases
            and grant.end is not None and grant.end.touched is False)


def data_names(state: State) -> list[str]:
    """Tables that grants were given for, in order."""
    return list(dict.fromkeys(grant.event.data for grant in state.grants.values()))


def _pick_data(state: State, data: str | None, held: Sequence[str] = ()) -> str:
    """The table that is named; without a name the only one that was granted for, or is there."""
    granted = data_names(state)
    known = list(dict.fromkeys([*state.tables, *granted, *held]))
    if not known:
        raise DataError("no table in this ledger yet")
    for names in (granted, known) if data is None else ():
        if len(names) == 1:
            return str(names[0])
    if data not in known:
        raise DataError(f"name the data set: one of {', '.join(known)}")
    return str(data)


def certified(state: State, lines: Sequence[SpendLine]) -> tuple[float, float]:
    """Epsilon of what one record or person spent, and of the whole ledger, which it never passes;
    both at the budget's delta."""
    if state.rule is None:
        return 0.0, 0.0
    bound = state.rule.epsilon_of(state.units)
    return min(state.rule.epsilon_of(units_up(sum_up(line.amount for line in lines))), bound), bound


def record_spend(store: Store, state: State, row: int, data: str | None,
                 rows: Callable[[str], int | None] = lambda name: None,
                 held: Sequence[str] = ()) -> RecordSpend:
    """Lines of one record; `row` is its position in the protected table, from 0.

    Args:
        rows: how many records a table has, for a caller that holds it. held: such tables.

    Raises:
        DataError: no such record is known, by what filters counted, by a declared number of
            rows, or by `rows`. How many there are is not said.
    """
    place = count("row", row, least=0)
    name = _pick_data(state, data, held)
    lines = []
    table = state.tables.get(name)
    declared = [rows(name), table.rows if table else None]
    lengths = [length for length in declared if isinstance(length, int)]
    for grant, counts in each_counted(store, state, grants_for(state, name)):
        lines.append(_line(state, grant, counts, place))
        lengths += [] if counts is None else [len(counts.taken)]
    if lengths and place >= max(lengths):
        raise DataError("no such record is known")
    found = within_scopes(lines)
    return RecordSpend(place, name, found, bool(lengths), *certified(state, found))


def within_scopes(lines: Sequence[SpendLine]) -> tuple[SpendLine, ...]:
    """No scope took more than its cap, whatever its grants count with."""
    room: dict[str, float] = {}
    found = []
    for line in lines:
        if line.scope:
            left = room.get(line.scope, line.cap)
            room[line.scope] = up(left - line.amount) if line.amount < left else 0.0
            line = evolve(line, amount=min(line.amount, left))
        found.append(line)
    return tuple(found)


def grants_for(state: State, data: str) -> list[GrantState]:
    """Grants that took something from the records of `data`, in order of the history."""
    return [*(grant for grant in state.grants.values()
              if grant.event.data == data and took_something(grant)), *beside_scopes(state, data)]


def beside_scopes(state: State, data: str | None = None) -> list[GrantState]:
    """What corrections say ran beside the filters of scopes, each as a grant that every record
    of the scope's table paid for; with `data` None of all scopes, for people in all tables."""
    used = {grant.event.scope for grant in state.grants.values()
            if data is None or grant.event.data == data}
    found = [scope.beside(data or ALL) for name, scope in state.scopes.items()
             if data is None or name in used]
    return [one for one in found if one is not None]


def took_something(grant: GrantState) -> bool:
    """Whether a grant took anything from the records of its table."""
    given_back = grant.status == "aborted" and not grant.touched and not grant.corrected
    return not given_back and not (grant.event.scope and took_nothing(grant))


@frozen(eq=False)
class Counted:
    """What one grant counted record by record.

    Attributes:
        taken: shape (n_records,), int64, in cap / 2**52. rounds: shape (n_records,), int32.
        before: what records had taken of the same scope earlier, as `taken`.
        currency: what they cost in the ledger's unit, with what the plan costs beside.
    """

    taken: NDArray[np.int64]
    rounds: NDArray[np.int32]
    before: NDArray[np.int64]
    currency: Currency

    @property
    def cap(self) -> float:
        """The most a record can have spent here, in the ledger's unit."""
        return self.currency.cap

    def amounts(self) -> NDArray[np.float64]:
        """Shape (n_records,), in the ledger's unit, never too low."""
        return self.currency.between(self.before, self.taken)

    def at(self, row: int) -> float:
        """One of them."""
        one = slice(row, row + 1)
        return float(self.currency.between(self.before[one], self.taken[one])[0])


def each_counted(store: Store, state: State, grants: Sequence[GrantState],
                 ) -> Iterator[tuple[GrantState, Counted | None]]:
    """Grants in order of the history, each with what it counted on top of earlier ones."""
    totals: dict[str, NDArray[np.int64]] = {}
    for grant in grants:
        found, scope = counted(store, state, grant), grant.event.scope
        if found is not None and scope and len(found.currency.prices) > 2:
            taken = found.taken
            before = longer(totals.get(scope, taken[:0]), len(taken))
            found = evolve(found, before=before[: len(taken)])
            totals[scope] = before + longer(taken, len(before))
        yield grant, found


def longer(values: NDArray[Any], length: int) -> NDArray[Any]:
    """Zeros at the end: records that arrived later."""
    if len(values) >= length:
        return values
    result = np.zeros(length, dtype=values.dtype)
    result[: len(values)] = values
    return result


def dearest_records(spent: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Rows of the `most` largest, dearest first; of equal ones the first rows."""
    rows = np.arange(len(spent))
    if 0 < most < len(spent):  # to sort all of them takes long
        least = np.partition(spent, -most)[-most]
        above = np.flatnonzero(spent > least)
        rows = np.sort(np.append(above, np.flatnonzero(spent == least)[: most - len(above)]))
    return rows[np.argsort(-spent[rows], kind="stable")][:most]


def note_of(grant: GrantState) -> VectorNote | None:
    """Which vector says what a grant took from each record; None if it left none.

    A corrected grant ran something else than its records were charged for, so its vector says
    nothing about them any more.
    """
    return grant.end.vector if grant.end and not grant.corrected else None


def counted(store: Store, state: State, grant: GrantState) -> Counted | None:
    """The vector of `note_of`, read; None if there is none. `before` is nothing."""
    note = note_of(grant)
    if note is None:
        return None
    if state.unit == "person":
        taken, rounds = spent_by_all(store, note, read_index(store, note).count)
    else:
        taken, rounds = unpack(store.vector(note.name) or b"")
    return Counted(taken, rounds, np.zeros(len(taken), np.int64), currency_of(state, grant))


def currency_of(state: State, grant: GrantState) -> Currency:
    """By the plan that was paid for: the grant's, or that of the scope it drew on."""
    paid = _scope_of(state, grant).event if grant.event.scope else grant.event
    assert state.rule is not None
    return currency(from_json(paid.plan), state.rule, state.relation, paid.units, paid.delta)


def _scope_of(state: State, grant: GrantState) -> ScopeState:
    found = state.scopes.get(grant.event.scope or "")
    if found is None:
        raise LedgerCorrupt("a grant uses a scope that was never opened")
    return found


def _line(state: State, grant: GrantState, found: Counted | None, row: int) -> SpendLine:
    if found is None:
        return line_of(state, grant, *charged_alike(state, grant))
    if row >= len(found.taken):  # it arrived after this grant and paid it nothing
        return line_of(state, grant, 0.0, found.cap, "not in the table yet", 0)
    return line_of(state, grant, found.at(row), found.cap, found.currency.basis,
                   int(found.rounds[row]))


def line_of(state: State, grant: GrantState, amount: float, cap: float, basis: str,
            rounds: int | None = None) -> SpendLine:
    """What a grant took from one record, its plan as corrected last, and where it came from."""
    event, plan = grant.event, grant.plan
    caps = () if event.scope else caps_over(state.caps, event.window, event)
    return SpendLine(grant.grant, event.learner,
                     VOID if plan is None else said_of_plan(plan, label),
                     amount, cap, rounds, basis, event.scope, event.data, str(event.time or ""),
                     origin_text(event, caps))


def charged_alike(state: State, grant: GrantState) -> tuple[float, float, str]:
    """Amount, cap and basis of a grant without a vector: the same for every record."""
    scope = grant.event.scope
    if scope:
        plan = from_json(_scope_of(state, grant).event.plan)
        if not isinstance(plan, IndividualFilter):
            raise LedgerCorrupt("a scope is opened for something else than a filter")
        cap = plan.cap
        found = currency_of(state, grant)
        if len(found.prices) > 2:  # what it added to earlier grants' is not known
            return found.cap, found.cap, "unfinished, worst case"
        most = math.inf if grant.event.worst is None else grant.event.worst
        worst = np.array([worst_units(most, cap)], np.int64)
        return float(found.amounts(worst)[0]), found.cap, "unfinished, worst case"
    amount = from_units(grant.counted[0])
    if grant.corrected and grant.grant not in state.grants:
        return amount, amount, "beside the scope's filter, by a correction"
    basis = "whole plan, as corrected" if grant.corrected else "whole plan"
    over = grant.status in ("settled", "aborted")
    return amount, amount, basis if over else f"unfinished, {basis}"


def alike(state: State, grants: Sequence[GrantState]) -> tuple[float, dict[str, float]]:
    """What grants without counts took from every record, and the cap of each, by its scope."""
    total: list[float] = []
    caps: dict[str, float] = {}
    for grant in grants:
        amount, cap, _ = charged_alike(state, grant)
        total.append(amount)
        caps.setdefault(grant.event.scope or grant.grant, cap)
    return sum_up(total), caps


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
    held = [grant for grant in state.grants.values() if grant.event.data == name]
    for grant, found in each_counted(store, state, held):
        if found is None:
            continue
        amounts, scope = found.amounts(), grant.event.scope
        length = max(len(amounts), 0 if total is None else len(total))
        before = np.zeros(length) if total is None else longer(total, length)
        total = (before + longer(amounts, length)) * ROUND
        if scope is None or scope not in scopes:
            cap += found.cap
        scopes.add(scope)
    if total is None:
        return None
    for grant in beside_scopes(state, name):
        amount, most, _ = charged_alike(state, grant)
        total, cap = (total + amount) * ROUND, cap + most
    return DataSpend(name, total, cap)
