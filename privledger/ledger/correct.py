"""Corrections: what was granted turns out to have cost more. Totals may only rise.

History is never edited. A correction names a grant, says why, and charges what the corrected
plan costs beyond what was charged before. Of a scope it names what ran beyond what the filter
counted, and charges all of it: the filter goes on counting, and its cap stays paid for, so this
is one more plan beside it. A total that passes the cap this way stays there: the promise was
broken, every further request is refused, and `verify` says so.
"""

from __future__ import annotations

from attrs import frozen

from privledger.accounting import check_relation
from privledger.errors import InvalidValue, NotGranted
from privledger.graph import Node, cost_of, to_json
from privledger.ledger.events import Corrected
from privledger.ledger.state import GrantIsClosed, GrantState, ScopeState, State


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
        grant: its name, or that of a scope. A grant that drew on a scope corrects the scope.
        plan: the node tree with the true parameters, stated for the ledger's relation; under a
            scope, of what ran beyond what its filter counted.
        why: a sentence, kept for ever.

    Raises:
        NotGranted: there is no such grant, nor a scope of that name.
        InvalidValue: no reason given, or a grant that was handed back.
        UnsupportedNode: the corrected plan has no price under the ledger's filter; pass None.
    """
    if not isinstance(why, str) or not why.strip():
        raise InvalidValue("why", why, "a sentence")
    found, why = _paid(state, grant), why.strip()
    charged, charged_delta = found.charged
    rule = state.rule
    if rule is None:
        raise NotGranted(f"{grant}: nothing was ever charged in this ledger")
    name = grant
    if plan is None:
        extra = max(0, rule.cap_units + 1 - charged), 0
    else:
        cost = cost_of(plan, check_relation(state.relation), rule.orders)
        units, delta_units = rule.price(cost, float(found.event.delta))
        before = (0, 0) if isinstance(found, ScopeState) else (charged, charged_delta)
        extra = max(0, units - before[0]), max(0, delta_units - before[1])
    if isinstance(found, ScopeState):
        name = found.scope
        why = why if name == grant else f"{grant}: {why}"
    return Correction(*extra, Corrected(name, None if plan is None else to_json(plan), *extra,
                                        why[:2000], time))


def _paid(state: State, grant: str) -> GrantState | ScopeState:
    found = state.grants.get(grant)
    if found is None and grant in state.closed_names:
        raise GrantIsClosed(grant)  # the history brings it back and asks again
    if found is None and grant in state.scopes:
        return state.scopes[grant]
    if found is None:
        raise NotGranted(f"there is no grant and no scope {grant!r} to correct")
    if found.event.scope:
        if found.event.scope not in state.scopes or state.knows(found.event.scope):
            raise InvalidValue("grant", grant, "one whose scope has a name of its own")
        return state.scopes[found.event.scope]
    if found.status == "aborted" and not found.touched:
        raise InvalidValue("grant", grant, "one that read something: this one was handed back")
    return found
