"""P5, beside Poisson samples: who is in which part is one private word per record."""

from __future__ import annotations

from collections.abc import Iterator

from privledger.questions.cells import CoinCells
from privledger.questions.cross_cells import CrossCells
from privledger.questions.feature_choice import FeatureChoice
from privledger.testing.lockstep.kept import Broken, RecordedRun, Release, Words


def coins_of(one: Release) -> list[CoinCells]:
    """Cells by private coins that a release's question is about."""
    steps = getattr(getattr(one.question, "data", None), "steps", ())
    waiting = [*(step.cells for step in steps), getattr(one.question, "cells", None)]
    found = []
    while waiting:
        cells = waiting.pop()
        if isinstance(cells, CoinCells):
            found.append(cells)
        elif isinstance(cells, CrossCells):
            waiting += [cells.first, cells.second]
    return found


def uncoined(run: RecordedRun) -> Iterator[Broken]:
    """Where a partition by coins, or a vote of blocks, was not drawn afresh for every record.

    Cells are drawn once, for the whole table, whoever asks first. Votes of a part are drawn for
    the part, so their number is not known here.
    """
    known: set[int] = set()
    for place, one in enumerate(run.releases):
        drawn = [len(draw.result) for draw in one.draws if isinstance(draw, Words)]
        fresh = {id(cells) for cells in coins_of(one)} - known
        whole = len(fresh)
        if isinstance(one.question, FeatureChoice) and one.question.votes is not None:
            voted = {id(one.question.key)} - known
            whole += len(voted) if not one.question.data.steps else 0
            fresh |= voted
        if one.failed and not drawn:
            continue
        known |= fresh
        if sum(size == run.n_people for size in drawn) < whole or len(drawn) < len(fresh):
            yield Broken("P5", place, "a partition by coins is not one word for each record")
