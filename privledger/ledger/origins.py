"""The rules of a policy that need no price: who, by which means, on what."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from attrs import frozen

from privledger.accounting import check_relation, promise
from privledger.errors import PrivledgerError
from privledger.findings import Finding
from privledger.graph import Node, Trust, alone, certify, children, trusts
from privledger.graph.nodes import below
from privledger.ledger.events import Granted, ScopeOpened
from privledger.ledger.policy import MECHANISMS, Policy, admits
from privledger.ledger.state import State
from privledger.rounding import exact, upward


@frozen
class Origins:
    """What was granted, or is asked for, apart from its price.

    Attributes:
        relation: what prices are stated for; None where that is not the question.
        learners: names that grants were given to.
        mechanisms: node types that spend.
        asserted: descriptions of asserted nodes and queries: unverified claims. An external run
            is one too; a policy says of it what it allows under `foreign` and `isolation`.
        simulated: seeded noise.
        isolation: how learners were kept from the rows.
        rows: table -> its declared number of rows, or None where none was declared.
        windows: periods that were opened.
        budget_delta: the delta that is promised.
        trusts: what plans of federations ask to believe.
        alone: the dearest of these plans, in epsilon, if every other party gives its noise away.
        outside: libraries, with their versions, whose runs were charged.
    """

    relation: str | None = None
    learners: tuple[str, ...] = ()
    mechanisms: tuple[str, ...] = ()
    asserted: tuple[str, ...] = ()
    simulated: bool = False
    isolation: tuple[str, ...] = ()
    rows: tuple[tuple[str, int | None], ...] = ()
    windows: tuple[str, ...] = ()
    budget_delta: float = 0.0
    trusts: tuple[Trust, ...] = ()
    alone: float = 0.0
    outside: tuple[tuple[str, str], ...] = ()


def outside_of(event: Granted) -> tuple[tuple[str, str], ...]:
    """(library, version) of a grant to a run elsewhere; empty for all others."""
    if event.isolation != "foreign":
        return ()
    return ((event.labels.get("library", ""), event.labels.get("version", "")),)


def library_of(event: Granted) -> str:
    """The same as one text; `?` where the entry does not say it."""
    return "".join(f"{name or '?'} {version}".strip() for name, version in outside_of(event))


def claims_of(name: str, kinds: Sequence[str], library: str) -> tuple[str, ...]:
    """What of a grant or scope is an unverified claim, in words.

    Args:
        kinds: asserted nodes of its plan. library: of an external run; empty for all others.
    """
    found = [f"{kind} in the plan of {name}" for kind in kinds]
    return (*found, *([f"external run of {library}: {name}"] if library else []))


def origin_text(event: Granted, caps: Sequence[str] = ()) -> str:
    """Isolation, library, labels, window and caps of a grant in one line; a learner in the
    owner's process without any of these has an empty one."""
    library = library_of(event)
    own = ("library", "version", "hook") if library else ()
    labels = [f"{key}={text}" for key, text in sorted(event.labels.items()) if key not in own]
    hook = event.labels.get("hook")
    return "; ".join([
        *([f"external run of {library}" + (f" by {hook}" if hook else "")] if library else []),
        *([event.isolation] if event.isolation not in ("guarded", "foreign") else []),
        *([f"labels {', '.join(labels)}"] if labels else []),
        *([f"window {event.window}"] if event.window else []),
        *([f"under {', '.join(caps)}"] if caps else [])])


def mechanism_kinds(node: Node) -> tuple[str, ...]:
    """Types of the nodes that spend: leaves, and filters without a described inside."""
    found = {type(each).__name__ for each in below(node)
             if not children(each)} & set(MECHANISMS)
    return tuple(sorted(found))


def recorded_kinds(plan: Any) -> Iterator[str]:
    """The same of a plan as the history holds it, without building its nodes."""
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        inside = [node["inner"]] if isinstance(node.get("inner"), dict) else []
        inside += node["nodes"] if isinstance(node.get("nodes"), list) else []
        waiting += inside
        if not inside and node["node"] in MECHANISMS:
            yield str(node["node"])


def asserted_kinds(kinds: Sequence[str]) -> list[str]:
    """Those whose cost is an unverified claim."""
    return [kind for kind in kinds if kind.startswith("Asserted")]


def origin_findings(facts: Origins, policy: Policy) -> Iterator[Finding]:
    """Every rule that does not hold."""
    if (facts.relation is not None and policy.relations is not None
            and facts.relation not in policy.relations):
        yield Finding("wrong-relation", -1, f"stated for {facts.relation}, but the policy requires "
                                            f"{' or '.join(policy.relations)}")
    if policy.relations is None and facts.relation == "replace_label":
        yield Finding("wrong-relation", -1, f"stated for {promise(facts.relation)}; a policy that "
                                            'accepts this says so: relation = "replace_label"')
    if facts.budget_delta and not facts.budget_delta >= policy.min_delta:
        yield Finding("under-delta", -1,
                      f"delta {exact(facts.budget_delta)} is under the policy's minimum, "
                      f"{exact(policy.min_delta)}; that delta, or a pure guarantee, would fit")
    if facts.simulated and not policy.allow_simulation:
        yield Finding("simulation-noise", -1, "NOT PRIVATE: the noise is seeded; a ledger in "
                                              "mode private would fit")
    if not policy.allow_asserted:
        for what in facts.asserted:
            yield Finding("asserted-node", -1, f"an unverified claim: {what}. A query with a "
                                               "derived sensitivity would fit")
    for rule, allowed, names in (
        ("learner-not-allowed", policy.learners, facts.learners),
        ("mechanism-not-allowed", policy.mechanisms, facts.mechanisms),
        ("isolation-not-allowed", policy.isolation, facts.isolation),
        ("window-not-allowed", policy.windows, facts.windows),
    ):
        for name in sorted(set(names)):
            if allowed is not None and name not in allowed:
                yield Finding(rule, -1, f"{name or '(unnamed)'} is not allowed; allowed: "
                                        f"{', '.join(allowed) or 'none'}")
    yield from federated_findings(facts, policy)
    for library, version in sorted(set(facts.outside)):
        if policy.foreign is not None and not admits(policy.foreign, library, version):
            yield Finding("library-not-allowed", -1,
                          f"{library or '(unnamed)'} {version} is not among the allowed libraries: "
                          f"{', '.join(policy.foreign) or 'none'}")
    for table, rows in facts.rows:
        if policy.min_rows is not None and not (rows is not None and rows >= policy.min_rows):
            declared = "declares no number of rows" if rows is None else f"declares {rows} rows"
            yield Finding("too-few-rows", -1,
                          f"{table} {declared}, but the policy requires {policy.min_rows}: declare "
                          "`expected_rows` in the schema, with its provenance, or under "
                          "replace_one `public_rows`")


def federated_findings(facts: Origins, policy: Policy) -> Iterator[Finding]:
    """The rules about federations that do not hold."""
    shared = [one for one in facts.trusts if one.noise == "shared"]
    if shared and policy.forbid_shared_noise:
        yield Finding("shared-noise", -1, f"{shared[0].text}; full noise from each party would fit")
    for one in shared:
        if policy.least_honest is not None and one.least_honest < policy.least_honest:
            yield Finding("too-few-honest", -1, f"{one.text}, but the policy requires "
                                                f"{policy.least_honest} honest parties")
    most = policy.max_alone_epsilon
    if facts.trusts and most is not None and not facts.alone <= most:
        yield Finding("over-alone-epsilon", -1,
                      f"epsilon {upward(facts.alone)} if every other party reveals its noise is "
                      f"over the policy's {exact(most)}; full noise from each party, or more "
                      "noise, would fit")


def alone_epsilon(plans: Iterable[Node], relation: str, delta: float) -> float:
    """The dearest plan of a federation, alone, at the ledger's delta; infinite without a price."""
    dearest = 0.0
    for plan in plans:
        if trusts(plan):
            try:
                found = certify(alone(plan), delta, check_relation(relation)).epsilon
            except (PrivledgerError, ArithmeticError, ValueError):
                found = math.inf
            dearest = max(dearest, found)
    return dearest


def request_origins(state: State, asked: Granted | ScopeOpened, plan: Node,
                    rows: int | None) -> Origins:
    """What one request brings: the grant or scope, its plan, its table's declared rows."""
    kinds, grant = mechanism_kinds(plan), asked if isinstance(asked, Granted) else None
    delta = 0.0 if state.budget is None else state.budget.delta
    return Origins(
        trusts=trusts(plan), alone=alone_epsilon([plan], state.relation, delta),
        relation=state.relation, mechanisms=kinds, simulated=state.mode != "private",
        learners=() if grant is None else (grant.learner,),
        asserted=tuple(f"{kind} in the plan" for kind in asserted_kinds(kinds)),
        rows=() if grant is None else ((grant.data, rows),),
        isolation=() if grant is None else (grant.isolation,),
        outside=() if grant is None else outside_of(grant),
    )
