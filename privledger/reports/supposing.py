"""Questions about a ledger that change nothing: would more fit, and under another relation."""

from __future__ import annotations

from attrs import frozen

from privledger.accounting import check_relation
from privledger.errors import PrivledgerError
from privledger.graph import AsReplaceOne, Group, Node, certify
from privledger.ledger import State
from privledger.ledger.view import view_of
from privledger.numerals import many


@frozen
class OtherPrice:
    """Everything paid for, as one plan, priced once more.

    Attributes:
        epsilon: at `delta`; None if nothing is proved. why: the theorem, or what is missing.
    """

    what: str
    relation: str
    epsilon: float | None
    delta: float
    why: str


def other_prices(state: State, relation: str) -> list[OtherPrice]:
    """The ledger's plans as they are, and what they would cost under `relation`.

    Sensitivities are stated for the ledger's own relation: under replace_one, each plan counts as
    one removal and one addition. The reverse has no price: the row count was public.
    """
    assert state.budget is not None
    delta = state.budget.delta
    whole = view_of(state).whole()
    own = _priced("as it is", whole, state.relation, delta)
    if relation == state.relation:
        return [own]
    what = f"under {relation}"
    if relation != "replace_one" or state.relation != "add_remove":
        return [own, OtherPrice(what, relation, None, delta,
                                f"no theorem leads from {state.relation} to {relation}")]
    return [own, _priced(what, AsReplaceOne(whole), relation, delta)]


def group_price(state: State, rows: int) -> OtherPrice:
    """What one person with so many rows is promised."""
    assert state.budget is not None
    whole = view_of(state).whole()
    return _priced(f"for {many(rows, 'row')} of one person", Group(rows, whole), state.relation,
                   state.budget.delta)


def _priced(what: str, node: Node, relation: str, delta: float) -> OtherPrice:
    try:
        found = certify(node, delta, check_relation(relation))
    except PrivledgerError as error:
        return OtherPrice(what, relation, None, delta, str(error))
    return OtherPrice(what, relation, found.epsilon, delta, found.theorem)
