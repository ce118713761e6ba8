"""How long pricing takes, by the counting rule of the format: beyond it nothing is priced."""

from __future__ import annotations

from typing import Any

from .nodes import Node

MOST_EFFORT, FREE_EFFORT = 2500.0, 1.0  # about milliseconds
LIGHT, ALIKE, WITHIN, DISTRIBUTION, PART = 0.15, 0.01, 4.0, 100.0, 8.0
HEAVY = {"PoissonSample": (2.0, 0.3), "FixedSizeSample": (3.0, 0.3), "Tuning": (25.0, 0.5),
         "RandomAllocation": (400.0, 0.3), "TruncatedPoissonSample": (5.0, 0.3),
         "Correlated": (30.0, 30.0),
         "Group": (1.0, 0.3), "AsReplaceOne": (1.0, 0.3), "OneOf": (0.5, 0.5),
         "DiscreteGaussian": (12.0, 12.0), "DiscreteLaplace": (2.0, 2.0)}
EXACT = {"Gaussian", "Sequential", "Repeat", "PostProcess", "Public"}


class Efforts:
    """Adds up what the plans take that differ from each other."""

    def __init__(self) -> None:
        self.total = 0.0
        self.seen: set[tuple[Node, bool]] = set()

    def add(self, plan: Node | None, kind: str, by_distribution: bool) -> bool:
        """Whether there is time for one more plan."""
        whole = kind == "basic" and by_distribution
        if plan is None or (plan, whole) in self.seen:
            return True
        needed = effort_of(plan, kind in ("rdp", "basic"), whole)
        if needed > FREE_EFFORT:
            self.seen.add((plan, whole))
            self.total += needed - FREE_EFFORT
        return max(needed, self.total) <= MOST_EFFORT


def effort_of(plan: Node, curves: bool, whole: bool) -> float:
    """How much work a plan's price is, in the units of the limits; a node met again is little."""
    total, seen, waiting = 0.0, set(), [(plan, 0.0)]
    while waiting:
        node, within = waiting.pop()
        if node in seen:
            total += ALIKE
        else:
            seen.add(node)
            total += within + HEAVY.get(node.name, (LIGHT, LIGHT))[not curves]
        if curves and node.name in ("PoissonSample", "FixedSizeSample") and not (
                node.inner.kinds <= EXACT):
            within += WITHIN
        waiting += [(one, within) for one in node.inside]
    if whole and not plan.kinds <= EXACT:
        total += DISTRIBUTION + PART * len(seen)
    return total


def labelled(values: Any) -> str:
    """Names and what they stand for, for a message."""
    return " ".join(f"{name} {value}" for name, value in sorted(values.items()))
