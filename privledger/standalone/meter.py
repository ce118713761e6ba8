"""Which releases a plan still admits: every one is taken off a node of it, in its own context.

A token of a context stands for one sample, partition or filter, at one place, for good.
"""

from __future__ import annotations

from typing import Any

from .nodes import FREE, Node, filter_word, number
from .reading import Bad

STEP = {"kind": "", "token": "", "rate": 0.0, "part": 0, "parts": 0, "certificate": "", "caps": "",
        "size": 0, "out_of": 0}
SAMPLES = ("poisson", "fixed", "truncated", "allocation")


class Step:
    """How a table was narrowed down, once."""

    __slots__ = ("kind", "meaning", "part", "token")

    def __init__(self, value: Any) -> None:
        if type(value) is not dict or set(value) - set(STEP) or "kind" not in value or (
                "token" not in value):
            raise Bad("a context that is none")
        found = {**STEP, **value}
        for name, usual in STEP.items():
            if type(usual) is str and type(found[name]) is not str:
                raise Bad(f"a context with a {name} that is no text")
        rate = number(found["rate"])
        if any(type(found[name]) is not int for name, usual in STEP.items() if usual == 0 and (
                type(usual) is int)) or found["kind"] not in (*SAMPLES, "part", "filter"):
            raise Bad("a context of an unknown kind, or with impossible parts")
        self.kind, self.token, self.part = found["kind"], found["token"], found["part"]
        self.meaning = (self.kind, rate, found["parts"], found["certificate"], found["caps"],
                        found["size"], found["out_of"])

    def opens(self, unit: Node) -> bool:
        """Whether this step leads into `unit`: same kind, rate, parts, certificate and caps."""
        _, rate, parts, certificate, caps, size, out_of = self.meaning
        if self.kind == "poisson":
            return unit.name == "PoissonSample" and unit["rate"] == rate
        if self.kind == "fixed":
            return (unit.name == "FixedSizeSample" and unit["size"] == size
                    and unit["out_of"] == out_of)
        if self.kind == "truncated":
            return unit.name == "TruncatedPoissonSample" and (
                unit["rate"], unit["most"], unit["out_of"]) == (rate, size, out_of)
        if self.kind == "allocation":
            return (unit.name == "RandomAllocation" and unit["steps"] == parts
                    and 0 <= self.part < parts)
        if self.kind == "part":
            return (unit.name == "Parallel" and len(unit.inside) == parts
                    and 0 <= self.part < parts and unit["certificate"] == certificate)
        return unit.name == "IndividualFilter" and filter_word(unit) == caps


def units_of(node: Node, times: int, found: dict[Node, int]) -> None:
    """Leaves, and nodes that open a context: what they are in does not matter."""
    if node.name in FREE:
        return
    if node.name in ("Sequential", "Repeat", "Group", "AsReplaceOne", "LabelOnly", "Federated"):
        for member in node.inside:
            units_of(member, times * int(node.fields.get("count", 1)), found)
    else:
        found[node] = found.get(node, 0) + times


class Meter:
    """What one grant, or one opened context, still admits."""

    def __init__(self, node: Node | None, any_leaf: bool = False) -> None:
        self.any_leaf = any_leaf
        self.left: dict[Node, int] = {}
        if node is not None:
            units_of(node, 1, self.left)
        self.opened: dict[str, tuple[Any, Node, dict[int, Meter]]] = {}
        self.choices: list[list[Meter]] = []  # members of a `OneOf` that explain all so far
        self.places: dict[str, Any] = {}  # what a sample was drawn from

    def release(self, chain: list[Step], leaf: Node) -> None:
        """Take one release off the plan.

        Raises:
            Bad: the plan has no such node left there, or a sample is used at two places.
        """
        above: dict[str, Any] = {}
        for place, step in enumerate(chain):
            if step.kind in SAMPLES:
                if step.token in above:
                    raise Bad("a sample that is drawn from itself")
                above[step.token] = [(one.token, one.part, one.meaning) for one in chain[:place]]
        if any(self.places.get(token, place) != place for token, place in above.items()):
            raise Bad("one sample at two places")
        if not self.take(chain, leaf, True):
            raise Bad("a release that the plan of its grant does not hold")
        self.places.update(above)

    def take(self, chain: list[Step], leaf: Node, really: bool) -> bool:
        """Whether the plan has `leaf` left under `chain`; taken off it if `really`."""
        if self.any_leaf:
            return True
        if not chain:
            times = self.left.get(leaf, 0)
            if times and really:
                self.left[leaf] = times - 1
            return times > 0 or self.take_of_one(chain, leaf, really)
        step, rest = chain[0], chain[1:]
        if any(run[0].knows(step.token) for run in self.choices):
            return self.take_of_one(chain, leaf, really)
        if step.token in self.opened:
            meaning, unit, meters = self.opened[step.token]
            return (step.meaning == meaning and 0 <= step.part < parts_of(unit)
                    and below(meters, unit, step).take(rest, leaf, really))
        for unit, times in self.left.items():
            if times and step.opens(unit):
                fresh: dict[int, Meter] = {}
                if below(fresh, unit, step).take(rest, leaf, really):
                    if really:
                        self.left[unit] = times - 1
                        self.opened[step.token] = step.meaning, unit, fresh
                    return True
        return self.take_of_one(chain, leaf, really)

    def take_of_one(self, chain: list[Step], leaf: Node, really: bool) -> bool:
        """Under some member of a choice; the members that do not admit it drop out."""
        held = [run for run in self.choices if chain and run[0].knows(chain[0].token)]
        for run in held or self.choices:
            kept = [member for member in run if member.take(chain, leaf, False)]
            if kept:
                if really:
                    run[:] = [member for member in kept if member.take(chain, leaf, True)]
                return True
        if held:
            return False
        for unit, times in self.left.items():
            if unit.name == "OneOf" and times:
                kept = [member for member in map(Meter, unit.inside)
                        if member.take(chain, leaf, really)]
                if kept:
                    if really:
                        self.left[unit] = times - 1
                        self.choices.append(kept)
                    return True
        return False

    def knows(self, token: str) -> bool:
        """Whether a sample, partition or filter with this token was opened here."""
        return token in self.opened or any(run[0].knows(token) for run in self.choices)


def parts_of(unit: Node) -> int:
    """How many parts, or rounds of an allocation, a unit has."""
    if unit.name == "Parallel":
        return len(unit.inside)
    return int(unit["steps"]) if unit.name == "RandomAllocation" else 1


def below(meters: dict[int, Meter], unit: Node, step: Step) -> Meter:
    """The meter of what is under a step: of its own part or round, or the only one."""
    if step.part not in meters:
        place = step.part if unit.name == "Parallel" else 0
        # A filter without a described inside admits anything.
        meters[step.part] = Meter(unit.inside[place] if unit.inside else None,
                                  unit.name == "IndividualFilter" and not unit.inside)
    return meters[step.part]


def steps_of(node: Any) -> list[Step]:
    """The steps that a released node says it happened under."""
    if type(node["under"]) is not list:
        raise Bad("contexts that are no list")
    return [Step(step) for step in node["under"]]
