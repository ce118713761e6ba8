"""The same table under several ledgers: what each of them promises adds up for its records."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from privledger.ledger import State
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
