"""Policies: what an organisation allows, as a record; and what breaks one, as findings.

A policy is compared with a plan before any data exist, with a ledger afterwards (`gate.py`), and,
where a ledger was created with one, with every request before anything is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import asdict, field, fields, frozen

from privledger.accounting import check_relation
from privledger.errors import InvalidPlan
from privledger.graph.node_checks import MOST_PARTIES
from privledger.graph.nodes import LEAF_TYPES, IndividualFilter, PostProcess, Public
from privledger.ledger.filters import window_name
from privledger.reading import load_toml
from privledger.rounding import MOST_COUNT, count, non_negative, positive, probability

# Which runs of other libraries a policy allows: `opacus`, `opacus>=1.5`, `opacus==1.5.2`.

_LIBRARY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)(?:(>=|==)(\d{1,9}(?:\.\d{1,9}){0,5}))?")
_VERSION = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post\d+)?(?:\+[A-Za-z0-9.]+)?")


def check_rule(rule: str) -> str:
    """The rule itself.

    Raises:
        InvalidPlan: not a library, or one with >= or == and a version in numbers.
    """
    if not _LIBRARY.fullmatch(rule):
        raise InvalidPlan("policy foreign", rule, "a library, alone or with >= or == and a version "
                                                  "in numbers: opacus>=1.5")
    return rule


def admits(rules: tuple[str, ...], library: str, version: str) -> bool:
    """Whether one of the rules is about this library and its version.

    A version that is not made of numbers, as a release before 1.5 may be called, is at least none.
    """
    for rule in rules:
        found = _LIBRARY.fullmatch(rule)
        if found is None or found[1] != library:
            continue
        if found[2] is None:
            return True
        told = _VERSION.fullmatch(version)
        if told is not None:
            have, want = _numbers(told[1]), _numbers(found[3])
            if have == want or (found[2] == ">=" and have > want):
                return True
    return False


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in (*text.split("."), *["0"] * 6)[:6])


MECHANISMS = tuple(
    kind.__name__ for kind in (*LEAF_TYPES, IndividualFilter)
    if kind not in (PostProcess, Public)
)
LATER = ("max_alone_epsilon", "least_honest", "forbid_shared_noise", "foreign")
"""Rules that older readers do not know: only written where they say something."""
ISOLATIONS = ("guarded", "brokered", "foreign")


@frozen
class DataLimit:
    """What may be spent on one table, by name."""

    name: str
    max_epsilon: float
    max_delta: float

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InvalidPlan("policy data", self.name, "a table's name")
        positive("policy data max_epsilon", self.max_epsilon)
        probability("policy data max_delta", self.max_delta, zero=True)


@frozen
class Policy:
    """What a project allows. Unknown keys are refused, so that a misspelt rule never vanishes.

    Attributes:
        max_epsilon: what may be spent, reserved and asked for, by the ledger's filter.
        max_delta: the delta that goes with it.
        min_delta: a delta that is promised is at least this, or 0 (pure DP).
        relation: the neighbouring relation it must be stated for, or several; None allows
            those about whole records. `replace_label` has to be asked for by name.
        allow_simulation: accept seeded noise, which protects no person.
        allow_asserted: accept costs and sensitivities that are unverified claims.
        learners, mechanisms: what may appear, such as `["Gaussian"]`; None allows everything.
        isolation: how a learner may have been kept from the rows; None allows every way.
        min_rows: a table must declare at least so many rows: `expected_rows` of its schema, a
            promise, or under replace_one `public_rows`; None asks for nothing.
        require_receipt: `check` of a ledger must be given a receipt, or a head, to compare.
        windows: the only periods that may be opened, such as `["2026-Q4"]`; None allows any name.
        new_ledger: `check` of a run file takes a ledger that is not there for a new one. It says
            nothing about requests, so no ledger keeps it.
        data: limits of single tables.
        max_alone_epsilon: the most that each plan of a federation, by itself, may cost at the
            ledger's delta if every other party reveals its noise; None allows any. What
            several such plans cost together is not limited by it.
        least_honest: where parties share noise, `Federated.least_honest` is at least this.
        forbid_shared_noise: each party of a federation adds the whole noise.
        foreign: libraries whose runs may be charged (`Ledger.foreign`), such as
            `["opacus>=1.5"]`, each alone or with >= or == and a version;
            None allows every one, an empty list none.
    """

    max_epsilon: float
    max_delta: float
    min_delta: float = 0.0
    relation: str | tuple[str, ...] | None = None
    allow_simulation: bool = False
    allow_asserted: bool = False
    learners: tuple[str, ...] | None = None
    mechanisms: tuple[str, ...] | None = None
    isolation: tuple[str, ...] | None = None
    min_rows: int | None = None
    require_receipt: bool = False
    windows: tuple[str, ...] | None = None
    new_ledger: bool = False
    data: tuple[DataLimit, ...] = field(default=())
    max_alone_epsilon: float | None = None
    least_honest: int | None = None
    forbid_shared_noise: bool = False
    foreign: tuple[str, ...] | None = None

    def __attrs_post_init__(self) -> None:
        non_negative("policy max_epsilon", self.max_epsilon)
        probability("policy max_delta", self.max_delta, zero=True)
        probability("policy min_delta", self.min_delta, zero=True)
        if self.min_delta > self.max_delta:
            raise InvalidPlan("policy min_delta", self.min_delta, "at most max_delta")
        for relation in self.relations or ():
            check_relation(relation)
        for name in ("allow_simulation", "allow_asserted", "require_receipt", "new_ledger",
                     "forbid_shared_noise"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidPlan(f"policy {name}", getattr(self, name), "true or false")
        _among("mechanisms", self.mechanisms, MECHANISMS)
        _among("isolation", self.isolation, ISOLATIONS)
        if self.min_rows is not None:
            count("policy min_rows", self.min_rows, most=MOST_COUNT)
        if self.max_alone_epsilon is not None:
            non_negative("policy max_alone_epsilon", self.max_alone_epsilon)
        if self.least_honest is not None:
            count("policy least_honest", self.least_honest, most=MOST_PARTIES)
        for window in self.windows or ():
            window_name(window)
        for rule in self.foreign or ():
            check_rule(rule)

    @property
    def relations(self) -> tuple[str, ...] | None:
        """Every relation that is allowed; None for all."""
        return (self.relation,) if isinstance(self.relation, str) else self.relation

    @staticmethod
    def load(path: str | Path) -> Policy:
        """Read `[policy]` from a TOML file, or `[tool.privledger.policy]` of a pyproject.toml.

        Raises:
            InvalidPlan: not TOML, an unknown key, or a value that can never be right.
        """
        name = Path(path).name
        value: Any = load_toml(path, "policy")
        if name == "pyproject.toml":
            tool = value.get("tool")
            value = tool.get("privledger") if isinstance(tool, dict) else None
            if not isinstance(value, dict):
                raise InvalidPlan("pyproject.toml", "one without it",
                                  "given a table [tool.privledger.policy]")
        found = Policy.from_dict(value)
        found.check_effects()
        return found

    def check_effects(self) -> None:
        """Raise `InvalidPlan` for a rule that another one leaves nothing to say: of a file that
        the owner writes. Ledgers keep what they were created with."""
        ways = self.isolation or ISOLATIONS
        if self.foreign and "foreign" not in ways:
            raise InvalidPlan("policy foreign", list(self.foreign), "left out where isolation "
                              "does not allow foreign runs")
        if self.least_honest is not None and self.forbid_shared_noise:
            raise InvalidPlan("policy least_honest", self.least_honest, "left out with "
                                                                        "forbid_shared_noise: it "
                                                                        "concerns parties that "
                                                                        "share noise")
        vouched = [name for name in self.mechanisms or () if name.startswith("Asserted")]
        if vouched and not self.allow_asserted:
            raise InvalidPlan("policy mechanisms", ", ".join(vouched),
                              "left out unless allow_asserted is true")

    @staticmethod
    def from_dict(value: Mapping[str, Any]) -> Policy:
        """The policy in a parsed TOML document."""
        table = value.get("policy")
        if set(value) != {"policy"} or not isinstance(table, dict):
            raise InvalidPlan("policy file", ", ".join(sorted(map(str, value))),
                              "one table, [policy]")
        known = [attribute.name for attribute in fields(Policy)]
        for key in table:
            if key not in known:
                raise InvalidPlan("policy key", key, f"one of {', '.join(known)}")
        for key in ("max_epsilon", "max_delta"):
            if key not in table:
                raise InvalidPlan("policy", "a file without it", f"given {key}")
        arguments = dict(table)
        for key in ("learners", "mechanisms", "isolation", "windows", "foreign"):
            if arguments.get(key) is not None:
                arguments[key] = _names(key, arguments[key])
        if isinstance(arguments.get("relation"), list):
            arguments["relation"] = _names("relation", arguments["relation"])
        elif not isinstance(arguments.get("relation", ""), str | None):
            raise InvalidPlan("policy relation", arguments["relation"], "a word, or a list")
        if "data" in arguments:
            arguments["data"] = _limits(arguments["data"])
        return Policy(**arguments)

    def as_dict(self) -> dict[str, Any]:
        """JSON values, as a ledger keeps them; `from_dict` of `{"policy": ...}` reads them back."""
        value = {name: list(item) if isinstance(item, tuple) else item
                 for name, item in asdict(self, recurse=False).items() if name != "new_ledger"
                 and (name not in LATER or (item is not None and item is not False))}
        value["data"] = {limit.name: {"max_epsilon": limit.max_epsilon,
                                      "max_delta": limit.max_delta} for limit in self.data}
        return value


def _names(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidPlan(f"policy {key}", value, "a list of names")
    return tuple(value)


def _among(key: str, names: tuple[str, ...] | None, known: tuple[str, ...]) -> None:
    unknown = set(names or ()) - set(known)
    if unknown:
        raise InvalidPlan(f"policy {key}", ", ".join(sorted(unknown)),
                          f"among {', '.join(known)}")


def _limits(value: object) -> tuple[DataLimit, ...]:
    if not isinstance(value, dict):
        raise InvalidPlan("policy data", value, "tables, [policy.data.NAME]")
    found = []
    for name, table in value.items():
        if not isinstance(table, dict) or set(table) != {"max_epsilon", "max_delta"}:
            raise InvalidPlan(f"policy data {name}", table, "given max_epsilon and max_delta")
        found.append(DataLimit(name, table["max_epsilon"], table["max_delta"]))
    return tuple(found)
