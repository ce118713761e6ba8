"""Who spent most, on what: the parts of the ledger's total, dearest first."""

from __future__ import annotations

import numpy as np
from attrs import frozen

from privledger.errors import DataError
from privledger.ledger import State, Store
from privledger.ledger.view import View
from privledger.ledger.view_charges import Part
from privledger.ledger.view_figures import Figure
from privledger.ledger.view_people import each_taken, people_known
from privledger.ledger.view_records import (
    ROUND,
    alike,
    data_names,
    data_spend,
    dearest,
    grants_for,
    note_of,
)
from privledger.rounding import add_up

ASPECTS = ("learner", "mechanism", "data", "grant")
"""What `top` ranks by unless it is told; `data` is the table."""


@frozen
class Rank:
    """One line of a ranking.

    Attributes:
        epsilon: of all its grants together, at the budget's delta. Does not add up.
        share: of the units of the whole budget. Shares of one ranking add up to what was spent.
        asserted: part of it rests on unverified claims.
    """

    name: str
    epsilon: Figure
    share: Figure
    grants: int
    asserted: bool


@frozen
class RecordRank:
    """One record that individual filters counted, in the unit of the ledger's filter.

    CONFIDENTIAL.
    """

    data: str
    row: int
    spent: float
    cap: float


@frozen
class PersonRank:
    """One person over all tables, in the unit of the ledger's filter. CONFIDENTIAL.

    Attributes:
        place: in the ledger's roster: `privledger record LEDGER PLACE` shows the rest.
        cap: the most that anybody can have spent.
    """

    place: int
    spent: float
    cap: float


def highest_people(store: Store, state: State, most: int) -> list[PersonRank]:
    """Who spent most over all tables of a ledger of people. CONFIDENTIAL."""
    total, caps = np.zeros(people_known(store, state)), dict[str, float]()
    for grant, found in each_taken(store, state):
        total = (total + found.amounts) * ROUND
        caps[grant.event.scope or grant.grant] = found.cap
    top = dearest(total, most)
    return [PersonRank(int(place), float(total[place]), add_up(caps.values()))
            for place in top if total[place] > 0]


def ranking(view: View, aspect: str) -> list[Rank]:
    """The parts by one of `ASPECTS`, highest first: a plan of several mechanisms stands under all
    their names together, and a scope under the table and the learners that drew on it."""
    return [_rank(part) for part in view.by("table" if aspect == "data" else aspect).values()]


def _rank(part: Part) -> Rank:
    return Rank(part.name, part.amount.epsilon, part.amount.share, part.grants, part.asserted)


def highest_records(store: Store, state: State, most: int) -> list[RecordRank]:
    """Records that individual filters charged most, of every table, with all that they spent.
    CONFIDENTIAL."""
    found: list[RecordRank] = []
    for name in data_names(state):
        try:
            spend = data_spend(store, state, name)
        except DataError:
            spend = None
        if spend is None:
            continue
        # What took the same from every record belongs to each, as `record` says of it.
        grants = grants_for(state, name)
        same, caps = alike(state, [grant for grant in grants
                                   if not note_of(grant) and grant.grant in state.grants])
        counted = {grant.event.scope for grant in grants if note_of(grant)}
        cap = add_up([spend.cap, *(most for key, most in caps.items() if key not in counted)])
        found += [RecordRank(name, int(row), add_up([float(spend.spent[row]), same]), cap)
                  for row in dearest(spend.spent, most)]
    return sorted(found, key=lambda one: -one.spent)[:most]
