"""The line of those who wait for budget: whose turn it is. Public prices, labels and clocks only.

A place is a note of the history. It reserves nothing and promises nothing: whether a plan fits is
decided as ever (`decide`), and what is here can only make a request wait. So clocks may be read.

Whose turn it is: first a request under the cap of a team (a cap on labels) that has used the
smallest share of it; without such a cap the whole ledger's share counts; between equals, the one
that came first. A share only grows, so no request waits behind one team for ever. A first request
that does not fit yet holds what it waits for. None behind it is granted under that budget, unless
it leaves the room: whatever open grants hand back, those before it come as if it had not been there
(docs/proofs/waiting.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from itertools import accumulate
from typing import TypeAlias

from attrs import frozen

MOST_PLACES = 1000
"""In one line; who comes later is refused at once."""
MOST_AHEAD = timedelta(hours=2)
"""A request waits an hour at most, and a clock may be an hour off: a place for more is none."""
MOST_TOGETHER = 6
"""Of so many who wait, every combination that may come together is looked at."""
MOST_SPANS = 64
"""Of sums of refunds; with so many exact ones none is made up."""
WAYS = 0, 1  # units, delta units
Demand: TypeAlias = tuple[tuple[int, int] | None, ...]
"""Units and delta units that are asked of each limit; None where it is not concerned."""


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

    @property
    def process(self) -> tuple[str, int, str]:
        """The process that waits."""
        return self.host, self.pid, self.started


@frozen
class Refund:
    """What an open grant that read nothing may hand back: units and delta units.

    Attributes:
        process: which holds it, as of a place.
    """

    grant: str
    process: tuple[str, int, str]
    amounts: tuple[int, int]


@frozen
class Limit:
    """A budget with what is left of it, in whole units.

    Attributes:
        title: for messages. team: whether it is a cap on labels: a team's share.
        used, cap: of units and of delta units.
        matches: whether a place falls under it.
        refunds: of every grant under it that may be handed back.
        renews: whether it begins afresh with the next window.
        closed: whether it waits for its first window; nothing fits until then.
    """

    title: str
    team: bool
    used: tuple[int, int]
    cap: tuple[int, int]
    matches: Callable[[QueuePosition], bool]
    refunds: tuple[Refund, ...] = ()
    renews: bool = True
    closed: bool = False

    @property
    def share(self) -> Fraction:
        """How much of it is used, 0 to 1 and above."""
        return max((Fraction(used, cap) if cap else Fraction(used > 0)
                    for used, cap in zip(self.used, self.cap, strict=True)), default=Fraction(0))


def follow_queue(line: dict[str, QueuePosition], said: Mapping[str, object],
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
    """Whether a place ended by its own time. One is none that says no time that can be read, or
    one that is further ahead than a request may wait."""
    try:
        ahead = datetime.fromisoformat(place.until) - datetime.fromisoformat(moment)
    except (TypeError, ValueError):
        return True
    return not timedelta(0) <= ahead <= MOST_AHEAD


def demand_of(place: QueuePosition, limits: tuple[Limit, ...]) -> Demand:
    """What a place asks of each limit."""
    own = place.units, place.delta_units
    return tuple(own if limit.matches(place) else None for limit in limits)


def can_come(demand: Demand, limits: tuple[Limit, ...],
             back: Callable[[Refund], bool] = lambda refund: True) -> bool:
    """Whether a demand would fit in a new window, and with refunds.

    Args:
        back: whether a refund is one of them.
    """
    for limit, asked in zip(limits, demand, strict=True):
        if asked is None:
            continue
        refunds = [] if limit.renews else [one.amounts for one in limit.refunds if back(one)]
        for way in WAYS:
            used = 0 if limit.renews else limit.used[way] - sum(one[way] for one in refunds)
            if used + asked[way] > limit.cap[way]:
                return False
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
    """The title of a budget that a request before `own` waits for; empty if it is its turn.

    Args:
        places: of those who still wait, by grant, in the order in which they came.
        own: who asks, last in line if it has no place yet.
        limits: the ledger's own budget first.
    """
    taken = {limit.title: (0, 0) for limit in limits}
    held, before = set[str](), list[QueuePosition]()
    for place in _in_turn({**places, own.grant: places.get(own.grant, own)}, limits):
        under = [limit for limit in limits if limit.matches(place)]
        wanting = [limit.title for limit in under
                   if limit.title in held or not _fits(limit, place, taken[limit.title])]
        if place.grant == own.grant:
            firm = [limit.title for limit in under if limit.title in wanting and (
                limit.renews or not _fits(limit, place, taken[limit.title]))]
            return firm[0] if firm else _delayed(before, place, limits) if wanting else ""
        before.append(place)
        held.update(wanting)
        if not wanting:  # it will be granted as soon as it looks
            for limit in under:
                units, delta_units = taken[limit.title]
                taken[limit.title] = units + place.units, delta_units + place.delta_units
    return ""


def _fits(limit: Limit, place: QueuePosition, taken: tuple[int, int]) -> bool:
    return not limit.closed and all(used + more + asked <= cap for used, more, asked, cap in zip(
        limit.used, taken, (place.units, place.delta_units), limit.cap, strict=True))


def _delayed(before: Sequence[QueuePosition], own: QueuePosition, limits: tuple[Limit, ...]) -> str:
    """The title of a budget that some of those before `own` might get only without it; else empty.

    They are short of some amount there, and beside `own` of more. It matters only if some refunds
    add up to the one amount and not to the other. Each of those is smaller than the other amount,
    so with all refunds that are, they would come. Else nothing is taken from them.
    """
    asks = demand_of(own, limits)
    sums = [[_sums_of(one.amounts[way] for one in limit.refunds if more) for way in WAYS]
            for limit, more in zip(limits, asks, strict=True)]
    for demand in _together([demand_of(place, limits) for place in before]):
        for limit, asked, more, found in zip(limits, demand, asks, sums, strict=True):
            if asked is None or more is None:
                continue
            for way in WAYS:
                short = limit.used[way] + asked[way] - limit.cap[way]
                beside = short + more[way]
                if short < beside and any(low < beside and high >= short
                                          for low, high in found[way]):
                    large = {one.grant for one in limit.refunds if one.amounts[way] >= beside}
                    if can_come(demand, limits, lambda one, large=large: one.grant not in large):  # type: ignore[misc]
                        return limit.title
    return ""


def _sums_of(amounts: Iterable[int]) -> list[tuple[int, int]]:
    """What some of `amounts` may add up to, nothing included: spans, in order. Where there are many
    sums, those that lie next to each other share a span."""
    spans = [(0, 0)]
    for amount in amounts:
        both = iter(sorted([*spans, *((low + amount, high + amount) for low, high in spans)]))
        spans = [next(both)]
        for low, high in both:
            if low <= spans[-1][1]:
                spans[-1] = spans[-1][0], max(high, spans[-1][1])
            else:
                spans.append((low, high))
        while len(spans) > MOST_SPANS:
            nearest = min(range(1, len(spans)), key=lambda at: spans[at][0] - spans[at - 1][1])
            spans[nearest - 1:nearest + 1] = [(spans[nearest - 1][0], spans[nearest][1])]
    return spans


def _together(demands: Sequence[Demand]) -> Iterator[Demand]:
    """What those ask for who may come together: any of them if they are few, else each alone, and
    each with all before it."""
    if len(demands) > MOST_TOGETHER:
        yield from demands
        yield from accumulate(demands, _sum)
        return
    found: list[Demand] = []
    for demand in demands:
        found += [demand, *(_sum(one, demand) for one in found)]
    yield from found


def _sum(one: Demand, other: Demand) -> Demand:
    return tuple(b if a is None else a if b is None else (a[0] + b[0], a[1] + b[1])
                 for a, b in zip(one, other, strict=True))
