"""What people spent, over all tables of a ledger whose promise is about them. CONFIDENTIAL."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import numpy as np
from attrs import evolve

from privledger.ledger import Entry, State, Store
from privledger.ledger.roster import everybody
from privledger.ledger.view_people import Taken, each_taken, people_known
from privledger.ledger.view_records import ALL, ROUND, dearest, note_of
from privledger.people.keys import to_bytes
from privledger.reports.page.people import (
    COARSE,
    FINE,
    MOST_FINE,
    MOST_TOP,
    MOST_VALUES,
    People,
    PersonSource,
    ShownPerson,
    TopRecord,
    deflated,
    filtered_rounds,
    histogram,
    packed,
)

MOST_SEARCHED = 300_000
"""People whose digests a page holds: they cannot be packed."""


def over_tables(store: Store, state: State, entries: Sequence[Entry],
                shown: ShownPerson) -> tuple[People, ...]:
    """Everybody in the roster, by place, in one; nothing where no grant counted by person."""
    if not shown.totals or not any(note_of(grant) for grant in state.grants.values()):
        return ()
    size, filtered = people_known(store, state), filtered_rounds(entries)
    total, missed, sources = np.zeros(size), np.zeros(size, dtype=np.bool_), list[PersonSource]()
    for grant, found in each_taken(store, state):
        rounds = _rounds(filtered.get(grant.grant, 0), found)
        total = (total + found.amounts) * ROUND
        missed |= (found.rounds >= 0) & (found.rounds < rounds)
        sources.append(PersonSource(grant.grant, grant.event.scope, found.cap, rounds, size))
    caps = {source.scope or source.grant: source.cap for source in sources}
    cap = max(sum(caps.values()), float(total.max(initial=0.0)))
    numbers = size * len(sources)
    few, levels = numbers <= MOST_VALUES, FINE if numbers <= MOST_FINE else COARSE
    top = dearest(total, MOST_TOP)
    lines: list[list[tuple[float, int]]] = [[] for _ in top]
    for at, (_, found) in enumerate(each_taken(store, state)):  # again: all would fill the memory
        for person, place in enumerate(top):
            lines[person].append((float(found.amounts[place]), int(found.rounds[place])))
        if shown.vectors and few:
            sources[at] = evolve(
                sources[at], took=deflated(np.clip(found.rounds, 0, FINE)),
                spent=packed(found.amounts, sources[at].cap, levels))
    return (People(
        data=ALL, records=size, cap=cap, alike=0.0, alike_grants=0,
        most=float(total.max(initial=0.0)), mean=float(total.mean()) if size else 0.0,
        stopped=int(missed.sum()), counts=histogram(total, cap),
        top=tuple(TopRecord(int(place), float(total[place]), tuple(parts))
                  for place, parts in zip(top, lines, strict=True)),
        sources=tuple(sources), levels=levels,
        total=packed(total, cap, levels) if shown.vectors and not few else "",
        digests=_digests(store, state) if shown.vectors and size <= MOST_SEARCHED else ""),)


def _digests(store: Store, state: State) -> str:
    found = to_bytes(everybody(store, [event for _, event in state.enrolled]))
    return base64.b64encode(found).decode("ascii")


def _rounds(filtered: int, found: Taken) -> int:
    return max(filtered, int(found.rounds.max(initial=0))) if found.counted else 0
