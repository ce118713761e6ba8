"""Which releases a reserved plan still admits, node by node.

A plan is flattened into *units*: leaves, and composites that open a context of their own
(a sample, the parts of a partition, an individual filter). Sequence within a plan does
not change its price, so units form a multiset. A context is bound to one unit when it is first
used: two releases on one sample can never be passed off as two fresh samples.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import evolve, frozen

from privledger.errors import NotGranted
from privledger.graph.nodes import (
    NODES,
    IndividualFilter,
    Node,
    OneOf,
    Parallel,
    PostProcess,
    Public,
    RandomAllocation,
    Repeat,
    children,
    row_of,
)

SAMPLES = tuple(row.opened_by for row in NODES.values() if row.coins)
SIZED = tuple(row.opened_by for row in NODES.values() if "size" in row.step)
"""Samples that know how many are in, and of how many."""


@frozen(cache_hash=True)
class Context:
    """How a data handle was derived, one step.

    Attributes:
        kind: `poisson`, `fixed`, `truncated`, `allocation`, `part` or `filter`.
        token: identity of the sample, partition or filter scope.
        rate: sampling rate, for `poisson` and `truncated`.
        size, out_of: how many records of how many, for `fixed`; at most, for `truncated`.
        part, parts: which part, of how many; for `allocation`, which round.
        certificate: why parts are disjoint.
        caps: kind, cap and order of the filter, for `filter`.
    """

    kind: Literal["poisson", "fixed", "truncated", "allocation", "part", "filter"]
    token: str
    rate: float = 0.0
    part: int = 0
    parts: int = 0
    certificate: str = ""
    caps: str = ""
    size: int = 0
    out_of: int = 0

    @property
    def is_sample(self) -> bool:
        """Whether private coins decide who is in."""
        return self.kind in SAMPLES


Unit: TypeAlias = Node
PARTS_OF_PARTS = (". Parts of parts need a Parallel within a Parallel; counts per class of every "
                  "cell need one release, on CrossCells(cells, data.cells(TARGET))")


def flatten(node: Node | None, times: int, counts: dict[Unit, int]) -> None:
    """Add the units of `times` runs of `node` to `counts`."""
    row = row_of(node)
    if node is None or isinstance(node, PostProcess | Public):
        return
    if isinstance(node, Repeat):
        flatten(node.node, times * node.count, counts)
    elif row is not None and row.through:
        for child in children(node):
            flatten(child, times, counts)
    else:
        counts[node] = counts.get(node, 0) + times


class Meter:
    """Counts down what one grant, or one opened context inside it, still admits."""

    def __init__(self, node: Node | None, *, admit_any: bool = False) -> None:
        self._open = admit_any
        self._left: dict[Unit, int] = {}
        flatten(node, 1, self._left)
        self._opened: dict[str, tuple[Context, dict[int, Meter], Unit]] = {}
        # For each `OneOf` in use, the members that would still explain every release so far.
        self._runs: list[list[Meter]] = []
        # Of each sample, what it was drawn from: two nodes of a plan are two samples.
        self._above: dict[str, tuple[Context, ...]] = {}

    def admit(self, chain: tuple[Context, ...], leaf: Node) -> None:
        """Take one release off the plan, or raise `NotGranted` and change nothing."""
        above = _above_samples(chain)
        if any(self._above.get(token, place) != place for token, place in above.items()):
            raise NotGranted("one token denotes one sample, at one step of a derivation. Nothing "
                             "was read")
        if not self._take(chain, leaf, commit=True):
            raise NotGranted(
                f"no grant covers {type(leaf).__name__} "
                + (f"under {' > '.join(step.kind for step in chain)} " if chain else "")
                + "here: the reserved plan has no such node left. Nothing was read"
                + (PARTS_OF_PARTS if sum(step.kind == "part" for step in chain) > 1 else "")
            )
        self._above.update(above)

    def bind(self, step: Context, node: Parallel) -> Meter:
        """What part `step` of a partition may still release: the partition is bound to `node`, a
        `Parallel` of the plan, as its first release would bind it.

        Raises:
            NotGranted: `node` is not there any more, is not what `step` opens, or another node
                has that partition.
        """
        opened = self._opened.get(step.token)
        if opened is None and self._left.get(node, 0) and _matches(node, step) and not (
                self._knows(step.token)):
            self._left[node] -= 1
            opened = self._opened[step.token] = _meaning(step), {}, node
        if opened is None or opened[0] != _meaning(step) or opened[2] != node or not (
                0 <= step.part < len(node.nodes)):
            raise NotGranted("the reserved plan has no such Parallel left for this partition. "
                             "Nothing was read")
        return _below(opened[1], node, step)

    def covers(self, plan: Node) -> bool:
        """Whether what is left holds every unit of `plan`, so that it costs no more; units that
        are not here may be those of one member of a `OneOf`."""
        wanted: dict[Unit, int] = {}
        flatten(plan, 1, wanted)
        return self._open or self._holds(wanted)

    def _holds(self, wanted: dict[Unit, int]) -> bool:
        lacking = {unit: times - self._left.get(unit, 0) for unit, times in wanted.items()
                   if times > self._left.get(unit, 0)}
        return not lacking or any(
            Meter(member)._holds(lacking) for unit, times in self._left.items()
            if times and isinstance(unit, OneOf) and not wanted.get(unit) for member in unit.nodes)

    def left(self) -> dict[Unit, int]:
        """Units not yet used (opened contexts excluded)."""
        return {unit: times for unit, times in self._left.items() if times}

    def is_over(self, chain: tuple[Context, ...]) -> bool:
        """Whether nothing is left under the last step of a derivation; no where it cannot be told.
        """
        opened = self._opened.get(chain[0].token)
        if opened is None:
            return False
        _, meters, unit = opened
        if len(chain) > 1:
            inner = meters.get(chain[0].part)
            return inner is not None and inner.is_over(chain[1:])
        return len(meters) == unit_parts(unit) and all(one._is_spent() for one in meters.values())

    def _is_spent(self) -> bool:
        return not (self._open or self._runs or any(self._left.values())) and all(
            self.is_over((step,)) for step, _, _ in self._opened.values())

    def _take(self, chain: tuple[Context, ...], leaf: Node, *, commit: bool) -> bool:
        if self._open:
            return True
        if not chain:
            times = self._left.get(leaf, 0)
            if times and commit:
                self._left[leaf] = times - 1
            return times > 0 or self._take_of_one(chain, leaf, commit=commit)
        step, rest = chain[0], chain[1:]
        if any(run[0]._knows(step.token) for run in self._runs):
            return self._take_of_one(chain, leaf, commit=commit)
        opened = self._opened.get(step.token)
        if opened is not None:
            bound, meters, unit = opened
            # A token means one sample, partition or filter, for good.
            if _meaning(step) != bound or not 0 <= step.part < unit_parts(unit):
                return False
            return _below(meters, unit, step)._take(rest, leaf, commit=commit)
        for unit, times in self._left.items():
            if times and _matches(unit, step):
                inner: dict[int, Meter] = {}
                if _below(inner, unit, step)._take(rest, leaf, commit=commit):
                    if commit:
                        self._left[unit] = times - 1
                        self._opened[step.token] = _meaning(step), inner, unit
                    return True
        return self._take_of_one(chain, leaf, commit=commit)

    def _take_of_one(self, chain: tuple[Context, ...], leaf: Node, *, commit: bool) -> bool:
        """A release under some member of a `OneOf`; members that do not admit it drop out."""
        holder = [run for run in self._runs if chain and run[0]._knows(chain[0].token)]
        for run in holder or self._runs:
            kept = [member for member in run if member._take(chain, leaf, commit=False)]
            if kept:
                if commit:
                    run[:] = [member for member in kept if member._take(chain, leaf, commit=True)]
                return True
        if holder:
            return False
        for unit, times in self._left.items():
            if isinstance(unit, OneOf) and times:
                fresh = [Meter(member) for member in unit.nodes]
                kept = [member for member in fresh if member._take(chain, leaf, commit=commit)]
                if kept:
                    if commit:
                        self._left[unit] = times - 1
                        self._runs.append(kept)
                    return True
        return False

    def _knows(self, token: str) -> bool:
        """Whether a context was opened here; every member of a run saw the same releases."""
        return token in self._opened or any(run[0]._knows(token) for run in self._runs)


def _above_samples(chain: tuple[Context, ...]) -> dict[str, tuple[Context, ...]]:
    """The steps above each sample of a derivation.

    Raises:
        NotGranted: a sample of itself, which is no smaller than it was.
    """
    above: dict[str, tuple[Context, ...]] = {}
    for place, step in enumerate(chain):
        if step.is_sample:
            if step.token in above:
                raise NotGranted("a sample cannot be drawn from itself. Nothing was read")
            above[step.token] = chain[:place]
    return above


def _below(meters: dict[int, Meter], unit: Unit, step: Context) -> Meter:
    """The meter of a part, or of all that is under a step; made when it is first asked."""
    found = meters.get(step.part)
    if found is None:
        # A filter without a described inside admits anything: its caps do the guarding.
        free = isinstance(unit, IndividualFilter) and unit.node is None
        inside = insides(unit)[step.part if isinstance(unit, Parallel) else 0]
        found = meters[step.part] = Meter(inside, admit_any=free)
    return found


def _meaning(step: Context) -> Context:
    """What a token stands for: the step without the part it points at."""
    return evolve(step, part=0)


Opening: TypeAlias = tuple[str, dict[str, object]]


def opening(unit: Unit) -> Opening | None:
    """What a step must be to open a unit: the node without its children; None for what is a
    release itself."""
    row = row_of(unit)
    if row is None or not row.opened_by:
        return None
    values = {name: getattr(unit, own) for name, own in row.step.items()}
    if row.child == "nodes":
        values["parts"] = len(values["parts"])
    return row.opened_by, values


def _matches(unit: Unit, step: Context) -> bool:
    """A smaller rate than the reserved one costs less; exact equality keeps it simple."""
    found = opening(unit)
    return found is not None and found[0] == step.kind and found[1] == {
        name: getattr(step, name) for name in found[1]} and (
            "parts" not in found[1] or 0 <= step.part < step.parts)


def opens_alike(one: Unit, other: Unit) -> bool:
    """Whether one derivation could open either."""
    return opening(one) == opening(other) is not None


def unit_parts(unit: Unit) -> int:
    """How many parts a unit opens one by one: rounds of an allocation, too."""
    return unit.steps if isinstance(unit, RandomAllocation) else len(insides(unit))


def insides(unit: Unit) -> tuple[Node | None, ...]:
    """The nodes that a unit opens: one for each part, or the one under a sample, a filter, and
    every round of an allocation; none for what is a release itself."""
    if opening(unit) is None:
        return ()
    return children(unit) or (None,)  # the inside of a free filter
