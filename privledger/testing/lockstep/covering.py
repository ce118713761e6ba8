"""How often a plan lets a node run on one record, counted apart from the guard's own meter."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from privledger.graph import IndividualFilter, Node, OneOf, Parallel, Repeat, Tuning
from privledger.graph.nodes import children
from privledger.questions.threshold import AboveThreshold
from privledger.testing.lockstep.kept import Broken, Release, Run


def allowed(plan: Node, leaf: Node) -> float:
    """How often `leaf` may run on one record under `plan`; infinite inside an open filter."""
    if plan == leaf:
        return 1
    if isinstance(plan, Tuning):  # its inside runs under meters of its own
        return 0
    if isinstance(plan, IndividualFilter) and plan.node is None:
        return math.inf
    inside = [allowed(node, leaf) for node in children(plan)]
    if not inside:
        return 0
    if isinstance(plan, Parallel | OneOf):
        return max(inside)
    if isinstance(plan, Repeat):
        return inside[0] * plan.count if inside[0] else 0
    return sum(inside)


def happened(releases: Sequence[Release], leaf: Node, depth: int = 0) -> int:
    """How often `leaf` ran on one record at most: in one part of every partition, and in one round
    of every allocation."""
    found = 0
    parts: dict[str, dict[int, list[Release]]] = defaultdict(lambda: defaultdict(list))
    for one in releases:
        chain = [step for step in one.charged[0][0] if step.kind in ("part", "allocation")]
        if len(chain) > depth:
            parts[chain[depth].token][chain[depth].part].append(one)
        else:
            found += sum(node == leaf for _, node in one.charged)
    for members in parts.values():
        found += max(happened(part, leaf, depth + 1) for part in members.values())
    return found


def uncovered(run: Run) -> Iterator[Broken]:
    """P3: every release is charged once, as a node that the plan still holds."""
    by_grant: dict[int, list[Release]] = defaultdict(list)
    for place, one in enumerate(run.releases):
        if one.failed or (isinstance(one.question, AboveThreshold) and not one.charged):
            continue  # a run of sparse vector is charged with its first question
        if len(one.charged) != 1 or one.charged[0][1] != one.mechanism:
            yield Broken("P3", place, "what was released is not what was itemised")
            return
        by_grant[one.grant].append(one)
    yield from _secret(run)
    for grant, releases in by_grant.items():
        for leaf in dict.fromkeys(one.charged[0][1] for one in releases):
            if happened(releases, leaf) > allowed(run.grants[grant].plan, leaf):
                yield Broken("P3", -1, "a node was released more often than it was reserved")


def _secret(run: Run) -> Iterator[Broken]:
    """What trials of a tuning release, and how many there are, is in no history."""
    for number, grant in enumerate([*run.grants, *run.idle]):
        if grant.trial:
            continue
        # One that fails among the rows was charged, too.
        own = sum(len(one.charged) for one in run.releases
                  if one.grant == number < len(run.grants))
        if grant.status == "settled" and grant.items != own + len(grant.tunings):
            yield Broken("P3", -1, "the history itemises other releases than there were")
        if any(cells != 1 for cells in grant.tunings):
            yield Broken("P3", -1, "the history says more of a tuning than that it happened")
