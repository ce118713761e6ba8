"""The same table under several ledgers: what each of them promises adds up for its records."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

from attrs import frozen

from privledger.ledger import State, Store
from privledger.ledger.roster import Roster, everybody
from privledger.ledger.view_charges import total_of
from privledger.rounding import add_up


@frozen
class Use:
    """A table in one ledger.

    Attributes:
        ledger: where. data: its name there.
        epsilon, delta: what that ledger spent, on anything, by now.
    """

    ledger: str
    data: str
    epsilon: float
    delta: float


@frozen
class Overlap:
    """A table that several ledgers know by the same fingerprint.

    Attributes:
        epsilon, delta: sums over the ledgers, by basic composition.
    """

    fingerprint: str
    uses: tuple[Use, ...]
    epsilon: float
    delta: float


@frozen
class Shared:
    """People whom two ledgers know by one key. CONFIDENTIAL: the number depends on private data.

    Attributes:
        first, second: what each ledger spent, over all of its tables.
        people: how many they share.
        epsilon, delta: sums over the two, by basic composition: the most for one of them.
    """

    first: Use
    second: Use
    people: int
    epsilon: float
    delta: float


def shared_people(states: Mapping[str, State], stores: Mapping[str, Store]) -> list[Shared]:
    """Pairs of ledgers of one key that share somebody.

    Args:
        states: place -> state; copies of one ledger (the same uuid) are no pair.
        stores: place -> where the people of the ledger are.

    Raises:
        LedgerCorrupt: what is kept of people is missing or was edited.
    """
    found, held = [], {place: state for place, state in states.items() if state.unit == "person"}
    for (one, state), (other, more) in combinations(held.items(), 2):
        if state.uuid == more.uuid or state.creation.key_check != more.creation.key_check:
            continue
        people = _in_both(stores[one], state, stores[other], more)
        if people:
            uses = [_use(one, state), _use(other, more)]
            found.append(Shared(uses[0], uses[1], people, add_up(use.epsilon for use in uses),
                                add_up(use.delta for use in uses)))
    return found


def _in_both(store: Store, state: State, other: Store, more: State) -> int:
    here = everybody(store, [event for _, event in state.enrolled])
    roster = Roster()
    roster.follow(other, [event for _, event in more.enrolled])
    return int((roster.find(here) >= 0).sum())


def _use(place: str, state: State) -> Use:
    total = total_of(state)
    return Use(place, "all tables", total.epsilon.value, total.delta.value)


def overlaps(states: Mapping[str, State]) -> list[Overlap]:
    """Tables that more than one of the ledgers protected, by fingerprint.

    Args:
        states: place -> state; copies of one ledger (the same uuid) count once, with what the
            one that spent most says (how copies differ: forks.py).
    """
    seen: dict[str, dict[str, Use]] = {}
    for place, state in states.items():
        total = total_of(state)
        for name, table in state.tables.items():
            mark = table.fingerprint
            if isinstance(mark, str):
                use = Use(place, name, total.epsilon.value, total.delta.value)
                uses = seen.setdefault(mark, {})
                known = uses.get(state.uuid)
                if known is None or use.epsilon > known.epsilon:
                    uses[state.uuid] = use
    return [
        Overlap(mark, tuple(uses.values()), add_up(use.epsilon for use in uses.values()),
                add_up(use.delta for use in uses.values()))
        for mark, uses in seen.items() if len(uses) > 1
    ]
