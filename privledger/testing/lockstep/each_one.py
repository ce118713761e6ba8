"""What every record or person, and not only the one that differs, adds to a release of sums.

A sum is the sum of what each adds, so a record that goes moves the answer by what it had added.
Queries are watched while they add up; nothing in them is replaced. docs/proofs/lockstep.md, P3.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from privledger.ledger.individual import RECORD_UNITS
from privledger.mechanisms import Gaussian, Laplace
from privledger.numerals import upward
from privledger.questions.one_voice import Voices
from privledger.questions.query import Query, Summing
from privledger.questions.sums import cell_sums
from privledger.tables.chunk import Rows
from privledger.testing.lockstep.kept import Added, Broken, Floats, Ints, RecordedRun
from privledger.testing.lockstep.laws import TOLERANCE


def ratio_of(added: Added, node: object) -> float:
    """The largest loss as one of them goes, over the node's price; 0 for another node."""
    if not len(added.l1):
        return 0.0
    if isinstance(node, Gaussian):
        return math.sqrt(float(added.l2.max())) * node.noise_multiplier
    if isinstance(node, Laplace):
        return float(added.l1.max()) * node.scale / node.l1_sensitivity
    return 0.0


def beyond(quiet: RecordedRun) -> Iterator[Broken]:
    """P3 for everybody: who adds more than the node of a release pays for."""
    for place, one in enumerate(quiet.releases):
        found = max((max(ratio_of(each, one.mechanism), each.longest) for each in one.added),
                    default=0.0)
        if not one.failed and not found <= 1 + TOLERANCE:
            yield Broken("P3", place, f"somebody adds {upward(found)} times what the node pays for")
            return


def unpaid(run: RecordedRun) -> Iterator[Broken]:
    """P6 for everybody: who pays less under an individual filter than it adds, unsampled rounds."""
    for number, grant in enumerate(run.grants):
        if len(grant.vectors) != 1 or run.by_person:  # places of people are drawn
            continue
        (scope, taken, _), = grant.vectors
        owed = np.zeros(len(taken))
        for one in run.releases:
            chain = one.charged[0][0] if one.charged else ()
            if one.grant == number and len(chain) == 1 and chain[0].kind == "filter":
                for each in one.added:
                    owed += each.l2
        owed *= 1.0 if scope.node.kind == "gdp" else scope.node.order / 2
        if not (owed <= taken / RECORD_UNITS * scope.node.cap * (1 + 1e-6)).all():
            yield Broken("P6", -1, "somebody pays less than it adds")


def _added(query: Query, state: Summing, values: list[Floats | None], who: Ints,
           n_who: int) -> Added:
    """By the same code that adds up a cell: each row, or a person's part in a cell, alone."""
    l1, l2 = np.zeros(len(who)), np.zeros(len(who))
    alone, longest = np.arange(len(who)), 0.0
    for block, recipe, array in zip(query.blocks, state.recipes, values, strict=True):
        steps = cell_sums(array, recipe.grid, alone, len(who), len(who), block.width,
                          math.ceil(block.clip / recipe.grid)).astype(np.float64)
        norms = np.linalg.norm(steps, ord=state.norm, axis=1)
        longest = max(longest, float(norms.max(initial=0.0)) * recipe.grid / block.clip)
        steps = steps / recipe.noise
        l1 += np.abs(steps).sum(axis=1)
        l2 += np.square(steps).sum(axis=1)
    each = [np.bincount(who, weights=one, minlength=n_who).astype(np.float64)
            for one in (l1, l2)]
    return Added(each[0], each[1], longest)


def _of_rows(query: Query, chunk: Rows, state: Summing) -> Added:
    values = query.contributions(chunk, state) if state.values is None else state.values
    found = _added(query, state, values, np.arange(chunk.n), chunk.n)
    if state.mask is not None:
        found.l1[~state.mask] = found.l2[~state.mask] = 0.0
    return found


def _of_people(query: Query, said: Voices, state: Summing) -> Added:
    return _added(query, state, list(said.values), said.who,
                  int(said.who.max()) + 1 if len(said.who) else 0)


@contextmanager
def watched(into: list[Added]) -> Iterator[None]:
    """Whatever is added up in this block is told to `into`."""
    sketch, told = Query.sketch, Query.told

    def sketching(self: Query, chunk: Rows, state: Summing) -> tuple[Ints, ...]:
        if chunk.people is None:
            into.append(_of_rows(self, chunk, state))
        return sketch(self, chunk, state)

    def telling(self: Query, said: Voices, state: Summing) -> tuple[Ints, ...]:
        into.append(_of_people(self, said, state))
        return told(self, said, state)

    Query.sketch = sketching  # type: ignore[method-assign]
    Query.told = telling  # type: ignore[method-assign]
    try:
        yield
    finally:
        Query.sketch = sketch  # type: ignore[method-assign]
        Query.told = told  # type: ignore[method-assign]
