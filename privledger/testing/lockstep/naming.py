"""P2 and P3 of partition selection: which groups are named follows from counts and draws, and the
record that differs moves the counts of few groups by one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from unittest.mock import patch

import numpy as np

from privledger.graph.selection import PartitionSelection
from privledger.questions.groups import GroupCounts, GroupQuery, Groups, geometric_law
from privledger.questions.question import Noise
from privledger.testing.lockstep.kept import Additive, GroupSizes, Release, Words

ROUNDED = 3
"""Steps of a grid by which a threshold may lie higher than the node's: it is rounded against us."""


@contextmanager
def counted_groups(into: list[GroupSizes]) -> Iterator[None]:
    """Sizes of groups, as they are before noise, are told to `into`."""
    finish = GroupQuery.finish

    def finishing(self: GroupQuery, merged: GroupCounts, noise: Noise) -> Groups:
        into.append(GroupSizes(dict(merged.counts), noise.state.bar * noise.state.grid))
        return finish(self, merged, noise)

    with patch.multiple(GroupQuery, finish=finishing):
        yield


def named_again(one: Release) -> str:
    """What is wrong with the names and counts of one release: those above the threshold, by the
    draws of this very call, and no others."""
    node, told = one.mechanism, one.truth
    if not isinstance(node, PartitionSelection) or not isinstance(told, Groups) or (
            len(one.counted) != 1):
        return "groups were named by another mechanism"
    (sizes,), shown = one.counted, dict(zip(told.names, told.counts.tolist(), strict=True))
    names = sorted(sizes.people)
    counts = np.array([sizes.people[name] for name in names], dtype=np.int64)
    if list(shown) != sorted(shown) or not set(shown) <= set(names):
        return "names are out of order, or belong to no group"
    if node.noise == "geometric":
        draws = [draw for draw in one.draws if isinstance(draw, Words)]
        if not draws or len(draws[-1].result) != len(names):
            return "the noise was not drawn in this call, one for each group"
        ends = np.array([*accumulate(geometric_law(node)[:-1])], dtype=np.uint64)
        steps, kept = 1.0, counts - 1 - np.searchsorted(ends, draws[-1].result, side="right")
        above = kept >= 0
    else:
        drawn = [draw for draw in one.draws if isinstance(draw, Additive)]
        if len(drawn) != 1 or drawn[0].law != node.noise or len(drawn[0].result) != len(names):
            return "the noise was not drawn in this call, one for each group"
        if not sizes.least >= node.threshold:
            return "groups are named from a smaller number on than the node says"
        if not names:
            return ""
        steps = 2.0 ** round(math.log2(node.scale / drawn[0].scale[0]))
        if not (drawn[0].scale * steps >= node.scale).all():
            return "the noise is narrower than the node says"
        kept = np.rint(counts / steps).astype(np.int64) + drawn[0].result
        above = kept * steps >= node.threshold
        near = np.abs(kept * steps - node.threshold) <= ROUNDED * steps
        above &= ~near | np.array([name in shown for name in names])
    if [name for name, is_above in zip(names, above, strict=True) if is_above] != list(shown):
        return "a group is named that is below the threshold, or one above it is not"
    apart = np.array([*shown.values()]) - kept[above] * steps
    near_enough = 1e-6 if node.noise == "geometric" else 0.0  # it adds one public constant
    if not (np.abs(apart - (apart[:1] if near_enough else 0.0)) <= near_enough).all():
        return "a count is not the number of people plus the draw of this call"
    return ""


def moved_groups(quiet: Release, twin: Release) -> tuple[int, int, int]:
    """Groups of both tables that move, groups that one table alone has, and the furthest move."""
    one, other = quiet.counted[0].people, twin.counted[0].people
    moved = {name: abs(other.get(name, 0) - one.get(name, 0)) for name in {**one, **other}}
    alone = sum(not (one.get(name) and other.get(name)) for name in moved)
    return (sum(by > 0 for by in moved.values()) - alone, alone, max(moved.values(), default=0))
