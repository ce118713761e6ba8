"""The two prices of what ran in a federation, side by side: declared, and alone.

Declared is what the ledger charged. Alone is the price if every other party gives its noise away
(docs/proofs/federated.md); of what needs no trust it is the same.
"""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from privledger.accounting import check_relation
from privledger.graph import Trust, alone, cost_of, trusts
from privledger.ledger.view_charges import ChargeFigures
from privledger.ledger.view_figures import Amount
from privledger.ledger.view_plans import plan_or_none


@frozen
class FederatedTrust:
    """A grant or scope whose plan ran in a federation.

    Attributes:
        name: of the grant or scope. trusts: what the reader is asked to believe.
        declared: as the ledger charged it. alone: if every other party gives its noise away.
    """

    name: str
    trusts: tuple[Trust, ...]
    declared: Amount
    alone: Amount

    @property
    def text(self) -> str:
        """In words, with both prices."""
        return (f"{'; '.join(one.text for one in self.trusts)}: {prices_text(self)}")


def prices_text(one: FederatedTrust) -> str:
    """Both epsilons of a charge, at the budget's delta."""
    return (f"declared epsilon {one.declared.epsilon.text()}, alone epsilon "
            f"{one.alone.epsilon.text()}")


def rests_on_others(one: ChargeFigures) -> bool:
    """Whether owners share the noise of a charge's plan."""
    return one.plan is not None and any(
        trust.noise == "shared" for trust in trusts(plan_or_none(one.plan)))


def federated_of(one: ChargeFigures, relation: str) -> FederatedTrust | None:
    """What a charge asks to believe, with both prices; None if its plan ran in no federation."""
    if one.plan is None:
        return None
    plan = plan_or_none(one.plan)
    believed = trusts(plan)
    return (
        FederatedTrust(one.name, believed, one.amount, _alone(one, relation)) if believed else None
    )


def alone_of(charges: Iterable[ChargeFigures], relation: str, total: Amount) -> Amount:
    """`total` with the charges that are named here priced alone; never less than `total`."""
    units, delta_units = total.units, total.delta_units
    for one in charges:
        own = _alone(one, relation)
        units += own.units - one.amount.units
        delta_units += own.delta_units - one.amount.delta_units
    return Amount(units, delta_units, total.rule)


def _alone(one: ChargeFigures, relation: str) -> Amount:
    rule = one.amount.rule
    if rule is None or one.plan is None or not one.amount.units:
        return one.amount
    plan = plan_or_none(one.plan)
    if all(believed.noise == "local" for believed in trusts(plan)):
        return one.amount
    units, delta_units = rule.price(cost_of(alone(plan), check_relation(relation), rule.orders),
                                    one.delta)
    # A correction or a caller may have charged more than the price: never less than that.
    return Amount(max(units, one.amount.units), max(delta_units, one.amount.delta_units), rule)
