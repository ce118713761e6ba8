"""Receipts: what a ledger looked like, in seven values."""

from __future__ import annotations

from typing import Any

from attrs import asdict, frozen

from privledger.errors import LedgerCorrupt
from privledger.ledger.state import State


@frozen
class Receipt:
    """Travels with every released model, so that a cut tail or an old copy is found.

    Attributes:
        uuid: identity of the ledger.
        entries: how many entries it had.
        head: hash of the last of them.
        epsilon, delta: what had been spent or reserved by then.
        mode: `private`, or `simulation` (NOT PRIVATE).
        counter: how often the totals moved (charges, refunds, corrections). It never falls in
            one history; unlike `epsilon` it also moves when a refund is spent again. It lies in
            the file, so an old copy brings the old counter back: keep the receipt elsewhere.
        unit: whom the promise is about: `row`, or `person`, with all rows in all tables.
    """

    uuid: str
    entries: int
    head: str
    epsilon: float
    delta: float
    mode: str
    counter: int = 0
    unit: str = "row"

    def as_dict(self) -> dict[str, Any]:
        """For JSON: its values by name; the unit only where it is not the row."""
        value = asdict(self)
        return value if self.unit != "row" else {
            name: one for name, one in value.items() if name != "unit"}


def receipt_of(state: State) -> Receipt:
    """The receipt of what `state` was folded from."""
    if state.budget is None:
        raise LedgerCorrupt("the history is empty: not a ledger")
    epsilon = state.rule.epsilon_of(state.units) if state.rule else 0.0
    return Receipt(state.uuid, state.position + 1, state.head, epsilon, state.budget.delta,
                   state.mode, state.charges, state.unit)
