"""Compare a ledger or a plan with a policy. Pure: facts and policy in, findings out."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from attrs import fields, frozen

from privledger.accounting import check_relation, promise
from privledger.errors import InvalidPlan
from privledger.findings import Finding
from privledger.graph.nodes import LEAF_TYPES, IndividualFilter, PostProcess, Public
from privledger.rounding import non_negative, probability

WITHIN, REFUSED, USAGE, NOT_TRUSTED, INTERNAL, NOTHING = range(6)
"""Exit codes of `privledger check`."""

MECHANISMS = tuple(
    kind.__name__ for kind in (*LEAF_TYPES, IndividualFilter)
    if kind not in (PostProcess, Public)
)


@frozen
class Policy:
    """What a project allows. Unknown keys are refused, so that a misspelt rule never vanishes.

    Attributes:
        max_epsilon, max_delta: the largest guarantee that may be spent.
        relation: the neighbouring relation it must be stated for; None allows those about whole
            records. `replace_label`, which is about labels only, has to be asked for by name.
        allow_simulation: accept seeded noise, which protects nobody.
        allow_asserted: accept costs and sensitivities that somebody merely vouches for.
        learners, mechanisms: what may appear; None allows everything.
    """

    max_epsilon: float
    max_delta: float
    relation: str | None = None
    allow_simulation: bool = False
    allow_asserted: bool = False
    learners: tuple[str, ...] | None = None
    mechanisms: tuple[str, ...] | None = None

    def __attrs_post_init__(self) -> None:
        non_negative("policy max_epsilon", self.max_epsilon)
        probability("policy max_delta", self.max_delta, zero=True)
        if self.relation is not None:
            check_relation(self.relation)
        for name in ("allow_simulation", "allow_asserted"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidPlan(f"policy {name}", getattr(self, name), "true or false")
        unknown = set(self.mechanisms or ()) - set(MECHANISMS)
        if unknown:
            raise InvalidPlan("policy mechanisms", ", ".join(sorted(unknown)),
                              f"among {', '.join(MECHANISMS)}")

    @staticmethod
    def load(path: str | Path) -> Policy:
        """Read `[policy]` from a TOML file.

        Raises:
            InvalidPlan: not TOML, an unknown key, or a value that can never be right.
        """
        try:
            value = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            raise InvalidPlan("policy", Path(path).name, "a TOML file that can be read") from None
        return Policy.from_dict(value)

    @staticmethod
    def from_dict(value: dict[str, Any]) -> Policy:
        """The policy in a parsed TOML document."""
        table = value.get("policy")
        if set(value) != {"policy"} or not isinstance(table, dict):
            raise InvalidPlan("policy file", ", ".join(sorted(value)), "one table, [policy]")
        known = [attribute.name for attribute in fields(Policy)]
        for key in table:
            if key not in known:
                raise InvalidPlan("policy key", key, f"one of {', '.join(known)}")
        for key in ("max_epsilon", "max_delta"):
            if key not in table:
                raise InvalidPlan("policy", "a file without it", f"given {key}")
        arguments = dict(table)
        for key in ("learners", "mechanisms"):
            if key in arguments:
                arguments[key] = _names(key, arguments[key])
        if "relation" in arguments and not isinstance(arguments["relation"], str):
            raise InvalidPlan("policy relation", arguments["relation"], "a word")
        return Policy(**arguments)


def _names(key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidPlan(f"policy {key}", value, "a list of names")
    return tuple(value)


@frozen
class Facts:
    """What the gate looks at: of a ledger, or of a plan before data exist.

    Attributes:
        epsilon, delta: spent, reserved or asked for, by the ledger's own filter.
        relation: what they are stated for.
        learners: names that grants were given to.
        mechanisms: node types that spend.
        asserted: descriptions of whatever somebody merely vouches for.
        simulated: seeded noise.
        refusal: why the run's own ledger would refuse the plan; empty if it would not.
    """

    epsilon: float
    delta: float
    relation: str
    learners: tuple[str, ...]
    mechanisms: tuple[str, ...]
    asserted: tuple[str, ...] = ()
    simulated: bool = False
    refusal: str = ""


def compare(facts: Facts, policy: Policy) -> tuple[Finding, ...]:
    """Every rule that does not hold. Comparisons are false for NaN, so NaN is refused."""
    found = []
    if not facts.epsilon <= policy.max_epsilon:
        found.append(Finding(
            "over-epsilon", -1,
            f"epsilon {facts.epsilon:.6g} is over the policy's {policy.max_epsilon:g}; at most "
            f"{policy.max_epsilon:g} would fit: add noise, run fewer rounds, or ask for less"))
    if facts.refusal:
        found.append(Finding("over-epsilon", -1, f"the run's own budget: {facts.refusal}"))
    if not facts.delta <= policy.max_delta:
        found.append(Finding(
            "over-delta", -1,
            f"delta {facts.delta:.6g} is over the policy's {policy.max_delta:g}; a budget with "
            f"delta {policy.max_delta:g} would fit"))
    if policy.relation is not None and facts.relation != policy.relation:
        found.append(Finding("wrong-relation", -1,
                             f"stated for {facts.relation}, the policy asks for "
                             f"{policy.relation}"))
    if policy.relation is None and facts.relation == "replace_label":
        found.append(Finding("wrong-relation", -1,
                             f"stated for {promise(facts.relation)}; a policy that accepts this "
                             'says so: relation = "replace_label"'))
    return (*found, *_origins(facts, policy))


def _origins(facts: Facts, policy: Policy) -> tuple[Finding, ...]:
    """Rules about who spent and by which means."""
    found = []
    if facts.simulated and not policy.allow_simulation:
        found.append(Finding("simulation-noise", -1,
                             "NOT PRIVATE: the noise is seeded; a ledger in mode private "
                             "would fit"))
    if not policy.allow_asserted:
        found += [Finding("asserted-node", -1,
                          f"somebody merely vouches for it: {what}; a derived query would fit")
                  for what in facts.asserted]
    for rule, allowed, names in (
        ("learner-not-allowed", policy.learners, facts.learners),
        ("mechanism-not-allowed", policy.mechanisms, facts.mechanisms),
    ):
        if allowed is not None:
            found += [Finding(rule, -1, f"{name or '(unnamed)'} is not among "
                                        f"{', '.join(allowed) or 'none'}")
                      for name in sorted(set(names)) if name not in allowed]
    return tuple(found)
