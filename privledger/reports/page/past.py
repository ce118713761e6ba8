"""How the budget went down, entry by entry, and where it went: the view's, fit for a page."""

from __future__ import annotations

from collections.abc import Iterable

from attrs import frozen

from privledger.ledger import Entry
from privledger.ledger.view import View
from privledger.ledger.view_charges import Part
from privledger.ledger.view_figures import summed
from privledger.ledger.view_timeline import timeline
from privledger.numerals import many
from privledger.reports.safe_text import clean

MOST_POINTS = 400
MOST_BARS = 12
LONGEST = 60
ASPECTS = {"learner": "learner", "mechanism": "mechanism", "data set": "table"}
"""What the page calls its bars, and what the view groups by."""


@frozen
class Move:
    """The total after one entry that moved it.

    Attributes:
        position: of the entry. time: as the entry has it.
        left: share of the filter's cap that is left, 0 to 1; below 0 if it is overspent.
        spent: epsilon, at the budget's delta, that everything so far certifies.
        what: which grant, scope or correction.
    """

    position: int
    time: str
    left: float
    spent: float
    what: str


@frozen
class Bar:
    """What one learner, mechanism or data set took.

    Attributes:
        share: of the whole budget, in the filter's unit; shares of one kind add up to the total.
        epsilon: what this part alone certifies. Epsilons do not add up.
        grants: how many charges.
    """

    name: str
    share: float
    epsilon: float
    grants: int


def moves(entries: Iterable[Entry]) -> tuple[Move, ...]:
    """Every change of the total, thinned out evenly to at most `MOST_POINTS`."""
    found = [moment for moment in timeline(entries) if moment.change]
    step = -(-len(found) // MOST_POINTS) if found else 1
    kept = found[::-1][::step][::-1]  # the last one always stays
    return tuple(Move(one.position, clean(one.time), one.total.share_left.value,
                      one.total.epsilon.value, clean(one.what)) for one in kept)


def bars(view: View) -> dict[str, tuple[Bar, ...]]:
    """Charges by learner, mechanism and data set, dearest first, the rest in one bar."""
    if view.rule is None:
        return {}
    return {kind: _ranked([part for part in view.by(aspect).values() if part.amount.units], view)
            for kind, aspect in ASPECTS.items()}


def _ranked(parts: list[Part], view: View) -> tuple[Bar, ...]:
    kept, rest = parts[:MOST_BARS], parts[MOST_BARS:]
    if rest:
        amount = summed([one.amount for one in rest], view.rule)
        kept.append(Part(f"({many(len(rest), 'other')})", amount, sum(one.grants for one in rest),
                         any(one.asserted for one in rest)))
    return tuple(Bar(clean(one.name, LONGEST) or "(no name)", one.amount.share.value,
                     one.amount.epsilon.value, one.grants) for one in kept)
