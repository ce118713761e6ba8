"""Which releases a plan still admits: every one is taken off a node of it, in its own context.

A token of a context stands for one sample, partition or filter, at one place, for good. And the
ledger's own policy.
"""

from __future__ import annotations

import re
from typing import Any

from .dues import alone_at_least, federations
from .reading import (
    FREE,
    RELATIONS,
    SPENDING,
    Bad,
    Node,
    among,
    chance,
    counted,
    filter_word,
    flag,
    number,
    real,
    zero_or_more,
)
from .shapes import ISOLATIONS, labels, maybe, period, record, some, text

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


# A ledger's own policy: what it forbids was never granted, released or opened.

LIMIT = record({"max_epsilon": (real, True), "max_delta": (chance(zero=True), True)})


def relations(value: Any) -> Any:
    """A relation, or a list of them."""
    for one in value if type(value) is list else [value]:
        among(*RELATIONS)(one)
    return value


def limits(value: Any) -> Any:
    """Limits of single tables: each an epsilon and a delta."""
    labels(dict.fromkeys(value, "") if type(value) is dict else value)
    for one in value.values():
        if set(LIMIT(one)) != {"max_epsilon", "max_delta"}:
            raise Bad("a limit of a table with other fields")
    return value


LIBRARY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)(?:(>=|==)(\d{1,9}(?:\.\d{1,9}){0,5}))?")
RELEASE = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post\d+)?(?:\+[A-Za-z0-9.]+)?")


def library(value: object) -> object:
    """A library, alone or with >= or == and a version in numbers."""
    if not LIBRARY.fullmatch(text(value)):
        raise Bad("a library's rule that is none")
    return value


def admitted(rules: list[str], name: str, version: str) -> bool:
    """Whether a rule allows this library in this version."""
    for rule in rules:
        found, told = LIBRARY.fullmatch(rule), RELEASE.fullmatch(version)
        if found is None or found[1] != name:
            continue
        if found[2] is None:
            return True
        if told is not None:
            have, want = ([int(part) for part in (number + ".0.0.0.0.0").split(".")[:6]]
                          for number in (told[1], found[3]))
            if have == want or (found[2] == ">=" and have > want):
                return True
    return False


POLICY = {
    "max_epsilon": (zero_or_more, True), "max_delta": (chance(zero=True), True),
    "min_delta": (chance(zero=True), False), "relation": (maybe(relations), False),
    "allow_simulation": (flag, False), "allow_asserted": (flag, False),
    "learners": (maybe(some(text)), False),
    "mechanisms": (maybe(some(among(*SPENDING))), False),
    "isolation": (maybe(some(among(*ISOLATIONS))), False),
    "min_rows": (maybe(counted()), False), "require_receipt": (flag, False),
    "windows": (maybe(some(period)), False), "data": (limits, False),
    "new_ledger": (flag, False), "max_alone_epsilon": (maybe(zero_or_more), False),
    "least_honest": (maybe(counted()), False), "forbid_shared_noise": (flag, False),
    "foreign": (maybe(some(library)), False),
}


class Policy:
    """The rules of one policy that a history can break."""

    def __init__(self, value: Any) -> None:
        record(POLICY)(value)
        if set(value) - set(POLICY):
            raise Bad("a policy with a rule that is not known")
        if value.get("min_delta", 0) > value["max_delta"]:
            raise Bad("a policy with a least delta above the largest")
        self.value = value
        self.rows: dict[str, Any] = {}
        self.relation, self.delta = "", 0.0

    def allows(self, rule: str, found: str) -> None:
        """Refuse a word that a list of the policy does not have; no list allows all."""
        allowed = self.value.get(rule)
        if allowed is not None and found not in allowed:
            raise Bad(f"against the ledger's policy, {rule}: {found}")

    def creation(self, body: Any) -> None:
        """Hold the first entry against the policy: relation, delta, mode."""
        self.relation, self.delta = body["relation"], float(body["budget"]["delta"])
        relation = self.value.get("relation")
        right = relation if type(relation) is list else [relation]
        delta = body["budget"]["delta"]
        if (relation is None and body["relation"] == "replace_label") or (
                relation is not None and body["relation"] not in right):
            raise Bad("against the ledger's policy, relation")
        if delta and not delta >= self.value.get("min_delta", 0):
            raise Bad("against the ledger's policy, min_delta")
        if body["mode"] != "private" and not self.value.get("allow_simulation"):
            raise Bad("against the ledger's policy, allow_simulation")

    def protected(self, body: Any) -> None:
        """Note the rows of a table, if they are public."""
        self.rows[body["data"]] = body.get("rows")

    def planned(self, plan: Node | None) -> None:
        """Hold a plan against the policy: mechanisms, and what is asserted."""
        if plan is None:
            return
        for kind in sorted(spending(plan)):
            self.allows("mechanisms", kind)
            if kind.startswith("Asserted") and not self.value.get("allow_asserted"):
                raise Bad(f"against the ledger's policy, allow_asserted: {kind}")

        for one in federations(plan):
            least = self.value.get("least_honest")
            if one["noise"] == "shared" and (self.value.get("forbid_shared_noise") or (
                    least is not None and one["least_honest"] < least)):
                raise Bad("against the ledger's policy, forbid_shared_noise or least_honest")
        most = self.value.get("max_alone_epsilon")
        if most is not None and federations(plan) and not (
                alone_at_least(plan, self.relation, self.delta) <= most):
            raise Bad("against the ledger's policy, max_alone_epsilon")

    def granted(self, body: Any) -> None:
        """Hold a grant against the policy: learner, isolation, rows of the table."""
        self.allows("learners", body["learner"])
        self.allows("isolation", body.get("isolation", "guarded"))
        rules, told = self.value.get("foreign"), body.get("labels") or {}
        if body.get("isolation") == "foreign" and rules is not None and not admitted(
                rules, told.get("library", ""), told.get("version", "")):
            raise Bad("against the ledger's policy, foreign")
        rows, least = self.rows.get(body["data"]), self.value.get("min_rows")
        if least is not None and not (rows is not None and rows >= least):
            raise Bad("against the ledger's policy, min_rows")

    def released(self, body: Any) -> None:
        """Refuse an asserted sensitivity where the policy does."""
        if not self.value.get("allow_asserted") and any(
                question.startswith("asserted:") for question in body["questions"]):
            raise Bad("against the ledger's policy, allow_asserted: a sensitivity")


def spending(plan: Node) -> set[str]:
    """Types of the nodes that spend: without anything below, and not free."""
    found, waiting, seen = set(), [plan], set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
            if not node.inside and node.name in SPENDING:
                found.add(node.name)
    return found
