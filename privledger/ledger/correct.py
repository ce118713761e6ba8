"""Corrections: what was granted turns out to have cost more. Totals may only rise.

History is never edited. A correction names a grant, says why, and charges what the corrected
plan costs beyond what was charged before. A total that passes the cap this way stays there:
the promise was broken, every further request is refused, and `verify` says so.
"""

from __future__ import annotations

from attrs import frozen

from privledger.accounting import check_relation
from privledger.errors import InvalidValue, NotGranted
from privledger.graph import Node, cost_of, to_json
from privledger.ledger.events import Corrected
from privledger.ledger.state import GrantIsClosed, GrantState, State


@frozen
class Correction:
    """What a correction will add.

    Attributes:
        units, delta_units: beyond what the grant was charged so far; never negative.
        event: of the history entry.
    """

    units: int
    delta_units: int
    event: Corrected


def correction(state: State, grant: str, plan: Node | None, why: str, time: str) -> Correction:
    """Price `plan` afresh, as what `grant` really ran; None if nothing can be promised for it.

    Args:
        plan: the node tree with the true parameters, stated for the ledger's relation.
        why: a sentence, kept for ever.

    Raises:
        NotGranted: there is no such grant.
        InvalidValue: no reason given, or a grant that drew on a scope (correct the scope's
            own plan instead, by granting nothing more under it).
        UnsupportedNode: the corrected plan has no price under the ledger's filter; pass None.
    """
    if not isinstance(why, str) or not why.strip():
        raise InvalidValue("why", why, "a sentence")
    found = _paid(state, grant)
    charged, charged_delta = found.charged
    rule = state.rule
    if rule is None:
        raise NotGranted(f"{grant}: nothing was ever charged in this ledger")
    if plan is None:
        units = max(charged, rule.cap_units + 1)
        delta_units = charged_delta
    else:
        cost = cost_of(plan, check_relation(state.relation), rule.orders)
        units, delta_units = rule.price(cost, float(found.event.delta))
    extra = max(0, units - charged), max(0, delta_units - charged_delta)
    return Correction(*extra, Corrected(grant, None if plan is None else to_json(plan), *extra,
                                        why.strip()[:2000], time))


def _paid(state: State, grant: str) -> GrantState:
    found = state.grants.get(grant)
    if found is None and grant in state.closed_names:
        raise GrantIsClosed(grant)  # the history brings it back and asks again
    if found is None:
        raise NotGranted(f"there is no grant {grant!r} to correct")
    if found.event.scope:
        raise InvalidValue("grant", grant, "one that was charged itself: this one drew on a scope")
    if found.status == "aborted" and not found.touched:
        raise InvalidValue("grant", grant, "one that read something: this one was handed back")
    return found
