"""What single records spent. CONFIDENTIAL: every number here depends on private data."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.ledger import Entry, GrantState, State, Store
from privledger.ledger.events import Released
from privledger.ledger.roster import all_digests
from privledger.ledger.view import readable
from privledger.ledger.view_people import Taken, each_taken
from privledger.ledger.view_records import (
    ALL,
    ROUND,
    alike,
    dearest_records,
    each_counted,
    grants_for,
    longer,
    note_of,
)
from privledger.tables.person_keys import key_to_bytes

BINS = 40
MOST_TOP = 20
MOST_VALUES = 1_200_000
FINE, COARSE = 65535, 4095
MOST_FINE = 300_000
MOST_SEARCHED = 300_000
"""People whose digests a page holds: they cannot be packed."""


@frozen
class ShownPerson:
    """What of the records goes into a page.

    Attributes:
        totals: histogram, the dearest records, how many the filter stopped.
        vectors: every record's spend, too.
    """

    totals: bool = True
    vectors: bool = False


@frozen
class PersonSource:
    """One grant that counted by record.

    Attributes:
        grant: its name. scope: the filter it drew on, if that was paid for beforehand.
        cap: the most a record can have spent here, in the filter's unit.
        rounds: rounds that were filtered. length: records there were at the time.
        spent, took: every record's spend and rounds, see `packed`; empty unless they are shown.
    """

    grant: str
    scope: str | None
    cap: float
    rounds: int
    length: int
    spent: str = ""
    took: str = ""


@frozen
class TopRecord:
    """One of the dearest records: its position, its spend, and (amount, rounds) by source.

    Rounds are -1 where the record arrived after the grant.
    """

    row: int
    total: float
    lines: tuple[tuple[float, int], ...]


@frozen
class People:
    """The records of one data set.

    Attributes:
        data: its name. records: how many. cap: the most one of them can have spent.
        alike: what grants without counts charge to every record. alike_grants: how many such.
        most, mean: of the spends. stopped: records that missed at least one filtered round.
        counts: `counts[i]` records spent from `i` to `i + 1` of `len(counts)` parts of the cap.
        top: the dearest records.
        levels: packed numbers are in cap / levels, rounded up.
        total: as `PersonSource.spent`, for all sources together, where single ones were too many.
        digests: of people, by place, 16 bytes each, base64: so that the page finds an id under
            the key that its reader types in. Empty unless every spend is shown.
    """

    data: str
    records: int
    cap: float
    alike: float
    alike_grants: int
    most: float
    mean: float
    stopped: int
    counts: tuple[int, ...]
    top: tuple[TopRecord, ...]
    sources: tuple[PersonSource, ...]
    levels: int = FINE
    total: str = ""
    digests: str = ""


def people(store: Store, state: State, entries: Iterable[Entry],
           shown: ShownPerson) -> tuple[People, ...]:
    """Every data set for which a grant counted by record; of a ledger whose promise is about people
    all people in the roster, by place, in one."""
    counting = [grant for grant in state.grants.values() if note_of(grant)]
    if not shown.totals or not counting:
        return ()
    filtered = filtered_rounds(entries)
    if state.unit != "person":
        return tuple(_of_table(store, state, name, filtered, shown)
                     for name in dict.fromkeys(grant.event.data for grant in counting))
    found = _counted(ALL, partial(each_taken, store, state), filtered, shown)
    if shown.vectors and found.records <= MOST_SEARCHED:
        digests = key_to_bytes(all_digests(store, [event for _, event in state.enrolled]))
        found = evolve(found, digests=base64.b64encode(digests).decode("ascii"))
    return (found,)


def filtered_rounds(entries: Iterable[Entry]) -> dict[str, int]:
    """How many releases of each grant went through a filter."""
    found: dict[str, int] = {}
    for event in readable(entries, Released):
        under = [any(step["kind"] == "filter" for step in node.under) for node in event.nodes]
        found[event.grant] = found.get(event.grant, 0) + sum(under[item[0]] for item in event.items)
    return found


def _of_table(store: Store, state: State, data: str, filtered: dict[str, int],
              shown: ShownPerson) -> People:
    """What grants without counts took belongs to every record."""
    grants = grants_for(state, data)
    rest = [grant for grant in grants if not note_of(grant)]
    counting = [grant for grant in grants if note_of(grant)]

    def each() -> Iterator[tuple[GrantState, Taken]]:
        for grant, found in each_counted(store, state, counting):
            assert found is not None
            yield grant, Taken(found.amounts(), found.rounds, found.cap, True)

    # All that was counted at once would fill the memory; of a single grant it is read once.
    only = tuple(each()) if len(counting) == 1 else ()
    return _counted(data, (lambda: iter(only)) if only else each, filtered, shown,
                    *alike(state, rest), len(rest))


def _counted(data: str, each: Callable[[], Iterator[tuple[GrantState, Taken]]],
             filtered: dict[str, int], shown: ShownPerson, same: float = 0.0,
             others: Mapping[str, float] = MappingProxyType({}), alike_grants: int = 0) -> People:
    """Spend of every record, gone through twice.

    Args:
        same, others, alike_grants: what grants that are not in `each` took from every record, the
            cap of each, and how many they are.
    """
    total, missed, sources = np.zeros(0), np.zeros(0, dtype=bool), list[PersonSource]()
    for grant, found in each():
        number = len(found.amounts)
        # A release that failed after its round was paid for is in no entry.
        rounds = max(filtered.get(grant.grant, 0), int(found.rounds.max(initial=0)))
        rounds = rounds if found.counted else 0
        total, missed = longer(total, number), longer(missed, number)
        total[:number] = (total[:number] + found.amounts) * ROUND
        missed[:number] |= (found.rounds >= 0) & (found.rounds < rounds)
        sources.append(PersonSource(grant.grant, grant.event.scope, found.cap, rounds, number))
    total += same
    caps = {**others, **{source.scope or source.grant: source.cap for source in sources}}
    cap = max(sum(caps.values()), float(total.max(initial=0.0)))
    numbers = len(total) * len(sources)
    few, levels = numbers <= MOST_VALUES, FINE if numbers <= MOST_FINE else COARSE
    top = dearest_records(total, MOST_TOP)
    lines: list[list[tuple[float, int]]] = [[] for _ in top]
    for at, (_, found) in enumerate(each()):
        for record, row in enumerate(top):
            there = row < len(found.amounts)
            lines[record].append((float(found.amounts[row]), int(found.rounds[row])) if there
                                 else (0.0, -1))
        if shown.vectors and few:
            sources[at] = evolve(sources[at], took=deflated(np.clip(found.rounds, 0, FINE)),
                                 spent=packed(found.amounts, sources[at].cap, levels))
    return People(
        data=data, records=len(total), cap=cap, alike=same, alike_grants=alike_grants,
        most=float(total.max(initial=0.0)), mean=float(total.mean()) if len(total) else 0.0,
        stopped=int(missed.sum()), counts=spend_counts(total, cap),
        top=tuple(TopRecord(int(row), float(total[row]), tuple(parts))
                  for row, parts in zip(top, lines, strict=True)),
        sources=tuple(sources), levels=levels,
        total=packed(total, cap, levels) if shown.vectors and not few else "")


def spend_counts(total: NDArray[np.float64], cap: float) -> tuple[int, ...]:
    """How many spent how much of the cap, in `BINS` parts of it."""
    counts, _ = np.histogram(np.minimum(total / cap, 1.0) if cap else total, BINS, (0.0, 1.0))
    return tuple(int(one) for one in counts)


def packed(values: NDArray[np.float64], cap: float, levels: int) -> str:
    """Shares of `cap`, rounded up to 1 / levels: high bytes, then low bytes, deflated, base64."""
    if not cap:
        return deflated(values)
    steps = np.ceil(values * (levels / cap))
    lower = np.maximum(steps - 1, 0)
    # As the page's script multiplies them: a step too many is taken back, one too few is never.
    enough = np.minimum(lower * cap / levels, lower * (cap / levels)) >= values
    short = np.minimum(steps * cap / levels, steps * (cap / levels)) < values
    return deflated(np.minimum(np.where(enough, lower, steps + short), levels))


def deflated(values: NDArray[Any]) -> str:
    """Whole numbers below 65,536: high bytes, then low bytes, deflated, base64."""
    values = values.astype(np.uint16)
    planes = np.concatenate([(values >> 8).astype(np.uint8), (values & 255).astype(np.uint8)])
    return base64.b64encode(zlib.compress(planes.tobytes(), 6)).decode("ascii")
