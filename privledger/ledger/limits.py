"""Stated limits: what a reader of a history refuses, so that no file can stop an auditor.

A file may come from an attacker. Whatever is larger than what is stated here is refused with a
finding, before it is fetched, unpacked or priced. Writers keep to the same limits, the ones that
add up with half of the room to spare, so nothing honest is ever refused for its size. The
numbers are part of the format: docs/ledger-format.md#limits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from attrs import define, field

from privledger.errors import InvalidPlan

MOST_BODY = 4 << 20
"""Bytes of the canonical text of one body."""

MOST_PLAN = 1 << 20
"""Bytes of a body that holds a plan: it is kept in mind, and priced."""

MOST_PLANS = 24 << 20
"""Bytes of all bodies of more than a few kilobytes with a plan, each different plan once."""

MOST_DEPTH = 260
"""Levels of nested objects and lists in one body."""

MOST_PARTS = 100_000
"""Objects and lists in one body: in memory each is many times its text."""

MOST_DIGITS = 1000
"""Digits in a row in one body."""

_DIGITS = re.compile(f"[0-9]{{{MOST_DIGITS + 1}}}")

MOST_RECORDS = 5_000_000
"""Records in one per-record vector."""

MOST_PACKED = 12 * MOST_RECORDS + (1 << 16)
"""Bytes of one compressed vector: what zlib makes of noise is a little longer than the noise."""

MOST_TOTAL_RECORDS = 64_000_000
"""Records in all vectors of a ledger together, each counted as often as it occurs."""

MOST_EFFORT = 2500.0
"""What pricing all different plans of a ledger may take: about milliseconds of a common core."""

ROOM = 0.5
"""Share of the limits that add up, which a writer keeps to."""

MOST_CHECKPOINT = 64 << 20
"""Bytes of the state, and of all the names, that a checkpoint may hold."""

FREE = 1.0
"""Of every plan so much is not counted: small ones cost no more than reading them does."""

_LIGHT = 0.15  # one more node that differs from the others
_ALIKE = 0.01  # one more that does not
_SAMPLES = ("PoissonSample", "FixedSizeSample")
# Milliseconds for one, under a filter that needs a Renyi curve or an epsilon, and under others.
_HEAVY = {"PoissonSample": (2.0, 0.3), "FixedSizeSample": (3.0, 0.3), "Tuning": (25.0, 0.5),
          "RandomAllocation": (400.0, 0.3), "TruncatedPoissonSample": (5.0, 0.3),
          "Correlated": (30.0, 30.0), "MixtureOfGaussians": (150.0, 0.3),
          "Group": (1.0, 0.3), "AsReplaceOne": (1.0, 0.3), "OneOf": (0.5, 0.5),
          "DiscreteGaussian": (12.0, 12.0), "DiscreteLaplace": (2.0, 2.0)}
_WITHIN = 4.0  # for each node within a sample: its losses are convolved
_DISTRIBUTION, _PART = 100.0, 8.0  # a plan by its privacy-loss distribution, and each of its nodes
_SHORT = 600  # characters: no place for more nodes than are free
_EXACT = ("Gaussian", "Sequential", "Repeat", "PostProcess", "Public")  # Gaussians merge into one


@define
class _Count:
    """Nodes of one plan; `seen` gives every subtree that differs a number."""

    curves: bool
    seen: dict[Any, int] = field(factory=dict)
    milliseconds: float = 0.0


def effort(plan: Any, kind: str, *, whole: bool = False) -> float:
    """About how many milliseconds pricing a plan again takes: a function of its text alone.

    Args:
        plan: JSON values of a node; None where nothing is promised.
        kind: of the ledger's filter.
        whole: by its privacy-loss distribution, as a `basic` ledger does that charges a delta.

    Raises:
        InvalidPlan: nested deeper than `MOST_DEPTH`.
    """
    if plan is None:
        return 0.0
    count = _Count(kind in ("rdp", "basic"))
    _walk(plan, 0.0, count, 0)
    if whole and not _is_exact(plan):
        count.milliseconds += _DISTRIBUTION + _PART * len(count.seen)
    return count.milliseconds


def _walk(node: Any, within: float, count: _Count, depth: int) -> Any:
    """Add up one node and what is below it; a key that equal subtrees share."""
    if depth > MOST_DEPTH:
        raise InvalidPlan("plan", "this one", f"nested at most {MOST_DEPTH} deep")
    kind = type(node)
    if kind is float or kind is str:  # what most of them are
        return kind.__name__, node
    if isinstance(node, list | tuple):
        return tuple([_walk(item, within, count, depth + 1) for item in node])
    if kind is not dict and not isinstance(node, Mapping):
        return kind.__name__, node
    name = str(node.get("node"))
    convolved = count.curves and name in _SAMPLES and not _is_exact(node.get("inner"))
    inside = within + (_WITHIN if convolved else 0.0)
    key = tuple([(part, _walk(item, inside, count, depth + 1)) for part, item in node.items()])
    found = count.seen.get(key)
    if found is None:
        found = count.seen[key] = len(count.seen)
        count.milliseconds += within + _HEAVY.get(name, (_LIGHT, _LIGHT))[not count.curves]
    else:
        count.milliseconds += _ALIKE
    return "node", found


def _is_exact(plan: Any) -> bool:
    """Whether a plan is made of Gaussians alone, which have a price in closed form."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, Mapping) or node.get("node") not in _EXACT:
            return False
        waiting += [node["inner"]] if "inner" in node else []
        waiting += node["nodes"] if isinstance(node.get("nodes"), list) else []
    return True


@define
class Efforts:
    """What pricing again all plans of a history takes that differ from each other.

    Attributes:
        total: milliseconds, without what is free of each.
        kind: of the filter, once it is known.
    """

    total: float = 0.0
    kind: str = "rdp"
    _seen: set[bytes] = field(factory=set)

    def add(self, plan: Any, delta_units: int) -> float:
        """Count a plan that was charged for; what it takes, 0 if known.

        Args:
            plan: JSON values of a node; None where nothing is promised.
            delta_units: what was charged for it; under a `basic` filter by its distribution.
        """
        whole = self.kind == "basic" and delta_units != 0
        needed = effort(plan, self.kind, whole=whole)
        if not self.is_new(plan, needed, whole=whole):
            return min(needed, FREE)
        self._seen.add(_key(plan, whole))
        self.total += needed - FREE
        return needed

    def copy(self) -> Efforts:
        """One that goes on from here and leaves this one as it is."""
        return Efforts(self.total, self.kind, set(self._seen))

    def is_new(self, plan: Any, needed: float, *, whole: bool) -> bool:
        """Whether a plan counts that takes `needed`."""
        return needed > FREE and _key(plan, whole) not in self._seen


def _key(plan: Any, whole: bool) -> bytes:
    return sha256(json.dumps([plan, whole], sort_keys=True).encode("ascii")).digest()


def is_free(text: str) -> bool:
    """Whether an entry's plan is certainly small: from its text, without parsing it."""
    return len(text) < _SHORT and '"delta_units":0,' in text and not any(
        f'"{name}"' in text for name in _HEAVY)


def check_plan(needed: float, before: float = 0.0) -> None:
    """Refuse to reserve a plan that an auditor could not price again within the limits.

    Args:
        needed: its `effort`.
        before: that of the different plans in the ledger.

    Raises:
        InvalidPlan: too expensive to price. Nothing was read.
    """
    most = MOST_EFFORT * ROOM
    if not needed <= most:
        raise InvalidPlan("plan", f"one that takes about {needed:.0f} ms to price",
                          f"priced in at most about {most:.0f} ms: fewer nodes that differ, or "
                          "fewer samples. Nothing was read")
    if not before + max(0.0, needed - FREE) <= most:
        raise InvalidPlan("plan", "one more that differs from all before",
                          f"priced already, or cheap to price: pricing the plans of this ledger "
                          f"again takes about {before:.0f} ms, this one about {needed:.0f} ms, "
                          f"and {most:.0f} ms is the most. Begin another ledger. Nothing was read")


def check_text(kind: str, text: str) -> str:
    """What is too large about the text of a body; empty if nothing is."""
    if 0 < len(text) <= MOST_DIGITS:
        return ""  # too short for anything to be too large
    if not text:
        return f"is empty, or larger than {MOST_BODY} bytes, the limit of an entry"
    most = MOST_PLAN if kind in ("granted", "scope", "corrected") else MOST_BODY
    if len(text) > most:
        return f"is larger than {most} bytes, the limit of {kind}"
    if text.count("{") + text.count("[") > MOST_PARTS:
        return f"has more than {MOST_PARTS} objects and lists"
    return f"has a number of more than {MOST_DIGITS} digits" if _DIGITS.search(text) else ""


def check_written(kind: str, text: str) -> None:
    """For writers: the same, before anything is written.

    Raises:
        InvalidPlan: it would be too large to be read again. Nothing was read.
    """
    wrong = check_text(kind, text)
    if wrong:
        raise InvalidPlan(f"an entry ({kind})", f"one that {wrong}", "smaller")
