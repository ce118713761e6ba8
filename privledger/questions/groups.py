"""Which groups of people are large enough to be named: partition selection. Holds no rows.

Proof: docs/proofs/partition-selection.md.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import PrivledgerError, RelationMismatch, UnsupportedNode
from privledger.graph.selection import PartitionSelection
from privledger.questions.cells import check_texts
from privledger.questions.question import Ask, Noise
from privledger.questions.sums import MORE, grid_for
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts

MOST_SCALE = 2.0**24
"""Beyond, a grid that goes with the noise has steps of more than a person."""
WORDS = 1 << 64
"""Of one draw of geometric noise, each as likely."""


@lru_cache(maxsize=8)
def geometric_law(mechanism: PartitionSelection) -> tuple[int, ...]:
    """How many of 2^64 words show a group from its 1st, 2nd, ... person on. Public.

    What any of them has above e^(1/scale) times the one before adds up to at most delta, and so
    it does for the one after (docs/proofs/partition-selection.md); checked in whole numbers.

    Raises:
        PrivledgerError: no such numbers were found; nothing is drawn.
    """
    grown = int(Fraction(math.exp(1 / mechanism.scale)) * (WORDS - (1 << 17)))
    start = delta = int(Fraction(mechanism.shown_alone) * WORDS)
    for _ in range(64):
        law, part, left = [start], start, WORDS - start
        while left:
            needed = left - max(0, -((start - left) * WORDS // grown))
            part = min(left, max(-(-part * WORDS // grown), min(part * grown // WORDS, needed)))
            left -= part
            law.append(part)
        over = max(sum(max(0, after * WORDS - before * grown) for before, after in pairwise(way))
                   for way in ((0, *law), (0, *law[::-1]))) - delta * WORDS
        if over <= 0:
            return tuple(law)
        start -= -(-over // WORDS)
    raise PrivledgerError("no law of geometric noise meets its delta; nothing was drawn")


@frozen(eq=False)
class Groups:
    """Released groups.

    Attributes:
        names: sorted. counts: noisy numbers of people, at least the threshold, shape (groups,).
    """

    names: tuple[str, ...]
    counts: NDArray[np.float64]


@frozen(eq=False, repr=False)
class GroupCounts:
    """How many people speak for each group, inside the guard."""

    counts: dict[str, int]

    def __add__(self, other: GroupCounts) -> GroupCounts:
        """Of both chunks, name by name."""
        return GroupCounts({name: self.counts.get(name, 0) + other.counts.get(name, 0)
                            for name in {**self.counts, **other.counts}})


@frozen
class Selecting:
    """How one release selects, in whole steps of a grid. Public.

    Attributes:
        grid: a power of two, at most a person. noise: scale of the noise, in steps.
        bar: least noisy count that is published, in steps.
        most: groups that a person speaks for.
    """

    grid: float
    noise: float
    bar: int
    most: int


def _geometric(names: list[str], counts: dict[str, int], noise: Noise) -> Groups:
    """Each group shows from a number of people on that is drawn by `geometric_law`."""
    law = geometric_law(noise.mechanism)
    ends = np.array([*accumulate(law[:-1])], dtype=np.uint64)
    drawn = 1 + np.searchsorted(ends, noise.source.integers64(len(names)), side="right")
    mean = float(sum(at * part for at, part in enumerate(law, 1)) / Fraction(WORDS))
    above = np.array([counts[name] for name in names], dtype=np.int64) - drawn
    kept = np.flatnonzero(above >= 0)
    return Groups(tuple(names[at] for at in kept),
                  above[kept] + max(mean, noise.mechanism.threshold))


@frozen(eq=False, repr=False)
class GroupQuery(Ask):
    """The groups of a column of texts, and how many people each has. Takes `PartitionSelection`.

    A person of more groups than the mechanism says speaks for so many of them, each choice as
    likely, by the ledger's own coins.

    Attributes:
        name: a column of kind `text`.
    """

    name: str
    what: str = "groups"
    by_person = True
    reads_target = False
    whole_people = "a choice of groups"

    def prepare(self, mechanism: object, relation: str) -> Selecting:
        """As `Ask.prepare`: grid, noise and threshold in whole steps, on the safe side.

        Raises:
            UnsupportedNode: another mechanism, or noise of over 2^24 people.
            RelationMismatch: another relation than add_remove.
        """
        if type(mechanism) is not PartitionSelection:
            raise UnsupportedNode("groups are named by PartitionSelection; nothing was read")
        if relation != "add_remove":
            raise RelationMismatch("groups are named in a ledger of relation add_remove; nothing "
                                   "was read")
        if not mechanism.scale <= MOST_SCALE:
            raise UnsupportedNode("noise of over 2^24 people names no group; nothing was read")
        scale = mechanism.scale * MORE
        grid = grid_for(1.0, scale)
        # Wider noise reaches as far as its own scale says; a step more pays for its rounding.
        above = (Fraction(mechanism.threshold) - 1) * Fraction(MORE) ** 2 / Fraction(grid)
        return Selecting(grid, scale / grid, math.ceil(above) + 1 + round(1 / grid),
                         mechanism.groups_per_person)

    def sketch(self, chunk: Rows, state: Selecting) -> GroupCounts:
        """As `Ask.sketch`: people of each group that has any."""
        key = chunk.features.keys[self.name]
        known = np.flatnonzero(key.codes >= 0)
        codes = key.codes[known].astype(np.int64)
        if chunk.people is not None:
            codes = self._spoken(chunk, chunk.people[known].astype(np.int64), codes,
                                 len(key.names), state.most)
        counts = np.bincount(codes, minlength=len(key.names))
        return GroupCounts({key.names[at]: int(counts[at]) for at in np.flatnonzero(counts)})

    def _spoken(self, chunk: Rows, people: NDArray[np.int64], codes: NDArray[np.int64],
                groups: int, most: int) -> NDArray[np.int64]:
        """Groups that people speak for, one entry each: at most so many of a person's own."""
        pairs = np.unique(people * groups + codes) if groups else codes
        who = pairs // max(groups, 1)
        words = chunk.coins(self).integers64(len(pairs))
        order = np.lexsort((words, who))
        first = np.searchsorted(who[order], who[order], side="left")
        kept = order[np.arange(len(pairs)) - first < most]
        return np.asarray(pairs[kept] % max(groups, 1))

    def finish(self, merged: GroupCounts, noise: Noise) -> Groups:
        """As `Ask.finish`: groups whose noisy count is at least the threshold."""
        names, state = sorted(merged.counts), noise.state
        if noise.mechanism.noise == "geometric":
            return _geometric(names, merged.counts, noise)
        each = round(1 / state.grid)
        draw = (noise.source.laplace if noise.mechanism.noise == "laplace"
                else noise.source.gaussian)
        counts = np.array([merged.counts[name] * each for name in names], dtype=np.int64)
        noisy = counts + draw(state.noise, len(names))
        kept = np.flatnonzero(noisy >= state.bar)
        return Groups(tuple(names[at] for at in kept),
                      noisy[kept].astype(np.float64) * state.grid)

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: the column is a text, of a table in memory."""
        check_texts(self.name, facts)
