"""The line of those who wait for budget: whose turn it is. Public prices, labels and clocks only.

A place is a note of the history. It reserves nothing and promises nothing: whether a plan fits is
decided as ever (`decide`), and what is here can only make a request wait. So clocks may be read.

Whose turn it is: first whoever falls under the cap of a team (a cap on labels) that has used the
smallest share of it; without such a cap the whole ledger's share counts; between equals, whoever
came first. A share only grows, so nobody waits behind one team for ever. Whoever is first and does
not fit yet holds what it waits for: nobody behind it is granted anything under that budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from fractions import Fraction

from attrs import frozen

MOST_PLACES = 1000
"""In one line; who comes later is refused at once."""


@frozen
class QueuePosition:
    """A request that waits.

    Attributes:
        grant: the name that its grant will have. data, labels: as of the grant, for caps.
        units, delta_units: what it will charge.
        until: time at which it gives up; ISO 8601, by the clock of who waits.
        host, pid, started: the process that waits, as of a grant's holder.
    """

    grant: str
    data: str
    labels: dict[str, str]
    units: int
    delta_units: int
    until: str
    host: str = ""
    pid: int = 0
    started: str = ""


@frozen
class Limit:
    """A budget with what is left of it, in whole units.

    Attributes:
        title: for messages. team: whether it is a cap on labels: somebody's share.
        used, cap: of units and of delta units.
        matches: whether a place falls under it.
    """

    title: str
    team: bool
    used: tuple[int, int]
    cap: tuple[int, int]
    matches: Callable[[QueuePosition], bool]

    @property
    def share(self) -> Fraction:
        """How much of it is used, 0 to 1 and above."""
        return max((Fraction(used, cap) if cap else Fraction(used > 0)
                    for used, cap in zip(self.used, self.cap, strict=True)), default=Fraction(0))


def follow(line: dict[str, QueuePosition], said: Mapping[str, object],
           known: Callable[[str], bool]) -> bool:
    """Fold the fields of a refusal in. A place that cannot be read is none.

    Args:
        known: whether a grant of that name was given already.

    Returns:
        Whether it counts as a refusal: who begins to wait, or gives up, is not refused by that.
    """
    left, place = said.get("left_line"), said.get("waits")
    if isinstance(left, str):
        line.pop(left, None)
    if isinstance(place, QueuePosition) and not known(place.grant) and len(line) < MOST_PLACES:
        line[place.grant] = place
    return left is None and place is None


def is_over(place: QueuePosition, moment: str) -> bool:
    """Whether a place ended by its own time; one that says no time that can be read did."""
    try:
        return datetime.fromisoformat(moment) > datetime.fromisoformat(place.until)
    except (TypeError, ValueError):
        return True


def _in_turn(
    places: Mapping[str, QueuePosition], limits: tuple[Limit, ...]
) -> Iterator[QueuePosition]:
    def key(numbered: tuple[int, QueuePosition]) -> tuple[Fraction, int]:
        number, place = numbered
        own = [limit.share for limit in limits if limit.team and limit.matches(place)]
        return max(own) if own else limits[0].share, number

    return (place for _, place in sorted(enumerate(places.values()), key=key))


def held_by(
    places: Mapping[str, QueuePosition], own: QueuePosition, limits: tuple[Limit, ...]
) -> str:
    """The title of a budget that somebody before `own` waits for; empty if it is its turn.

    Args:
        places: of those who still wait, by grant, in the order in which they came.
        own: who asks, last in line if it has no place yet.
        limits: the ledger's own budget first.
    """
    taken = {limit.title: (0, 0) for limit in limits}
    held: set[str] = set()
    for place in _in_turn({**places, own.grant: places.get(own.grant, own)}, limits):
        under = [limit for limit in limits if limit.matches(place)]
        if place.grant == own.grant:
            waited = [limit.title for limit in under
                      if limit.title in held or not _fits(limit, place, taken[limit.title])]
            return waited[0] if waited else ""
        wanting = [limit.title for limit in under
                   if limit.title in held or not _fits(limit, place, taken[limit.title])]
        held.update(wanting)
        if not wanting:  # it will be granted as soon as it looks
            for limit in under:
                units, delta_units = taken[limit.title]
                taken[limit.title] = units + place.units, delta_units + place.delta_units
    return ""


def _fits(limit: Limit, place: QueuePosition, taken: tuple[int, int]) -> bool:
    return all(used + more + asked <= cap for used, more, asked, cap in zip(
        limit.used, taken, (place.units, place.delta_units), limit.cap, strict=True))
