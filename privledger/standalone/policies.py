"""A ledger's own policy: what it forbids was never granted, released or opened."""

from __future__ import annotations

import re
from typing import Any

from .federations import alone_at_least, federations
from .nodes import RELATIONS, SPENDING, Node, among, chance, counted, flag, zero_or_more
from .reading import Bad, real
from .shapes import ISOLATIONS, labels, maybe, period, record, some, text

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
