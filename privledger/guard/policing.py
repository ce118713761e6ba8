"""A ledger's own policy, enforced: what it forbids is refused before anything is read."""

from __future__ import annotations

from privledger.errors import InvalidValue, PolicyViolation
from privledger.findings import Finding
from privledger.graph import Node
from privledger.ledger import (
    Budget,
    Cap,
    History,
    Origins,
    Policy,
    origin_findings,
    request_origins,
)
from privledger.ledger.entries import now
from privledger.ledger.events import Granted, Refused, ScopeOpened
from privledger.rounding import exact


def keep_policy(policy: Policy | None, facts: Origins) -> None:
    """Raise `PolicyViolation` unless `facts` break no rule of the policy."""
    if policy is not None:
        _raise(list(origin_findings(facts, policy)))


def refuse_forbidden(history: History, asked: Granted | ScopeOpened, plan: Node,
                     rows: int | None) -> None:
    """Refuse a request that the ledger's own policy forbids, and leave a line about it.

    Args:
        rows: the table's number of rows, as its schema declares it.
    """
    error = forbids(history, asked, plan, rows)
    if error is not None:
        history.note(Refused(learner_of(asked), "policy", now(),
                             rules=tuple(rule for rule, _ in error.findings)))
        raise error


def forbids(history: History, asked: Granted | ScopeOpened, plan: Node,
            rows: int | None) -> PolicyViolation | None:
    """What the ledger's own policy has against a request, if anything."""
    state = history.state
    if state.policy is not None:
        try:
            keep_policy(state.policy, request_origins(state, asked, plan, rows))
        except PolicyViolation as error:
            return error
    return None


def learner_of(asked: Granted | ScopeOpened) -> str:
    """Who asks; empty for a scope."""
    return asked.learner if isinstance(asked, Granted) else ""


def check_creation(policy: object, budget: Budget, relation: str, mode: str) -> None:
    """Whether a ledger with this promise may exist under the policy."""
    if not isinstance(policy, Policy):
        raise InvalidValue("policy", type(policy).__name__, "a Policy")
    found = list(origin_findings(
        Origins(relation, simulated=mode != "private", budget_delta=float(budget.delta)), policy))
    if not budget.epsilon <= policy.max_epsilon:
        found.append(Finding("over-epsilon", -1, f"a budget of epsilon {exact(budget.epsilon)}; "
                                                 f"at most {exact(policy.max_epsilon)} is allowed"))
    if not budget.delta <= policy.max_delta:
        found.append(Finding("over-delta", -1, f"a budget of delta {exact(budget.delta)}; at most "
                                               f"{exact(policy.max_delta)} is allowed"))
    _raise(found)


def policy_caps(policy: Policy | None) -> list[Cap]:
    """Caps for the tables that the policy limits."""
    limits = policy.data if isinstance(policy, Policy) else ()
    return [Cap(Budget(limit.max_epsilon, limit.max_delta), data=limit.name) for limit in limits]


def _raise(findings: list[Finding]) -> None:
    if findings:
        raise PolicyViolation(tuple((found.rule, found.message) for found in findings))
