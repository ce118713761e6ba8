"""What the pytest plugin does once a test uses it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import privledger as pl
from privledger.gate import Policy, compare
from privledger.guard.inside import Found, Observer
from privledger.reports import Outline, ledger_report, outline, survey
from privledger.rounding import exact, upward

Marked = tuple[Sequence[Any], Mapping[str, Any]]


@lru_cache(maxsize=8)
def load_policy(path: str) -> Policy:
    """The policy that `--privledger-policy` names."""
    return Policy.load(path)


def _budget(epsilon: float, delta: float = 0.0, relation: str = "add_remove",
            filter: str = "auto") -> dict[str, Any]:
    return {"budget": pl.Budget(epsilon, delta), "relation": relation, "filter": filter}


class Noting(Observer):
    """Refusals name the path to the node that runs most often."""

    def drew(self, ledger: object, reserve: Callable[..., Found], asked: object,
             shown: object) -> Found:
        try:
            return reserve(asked, shown)
        except pl.BudgetExceeded as refusal:
            plan = asked.plan  # type: ignore[attr-defined]
            refusal.add_note(f"node path: {_path(outline(plan))}")
            raise


def make_ledger(marked: Marked | None, policy: str | None) -> pl.Ledger:
    """A fresh ledger in memory.

    Args:
        marked: arguments of the marker; None for the largest budget that the policy allows.
        policy: file name, or None.

    Raises:
        ValueError, TypeError: no budget, or an impossible one.
    """
    if marked is not None:
        options = _budget(*marked[0], **marked[1])
    elif policy is not None:
        known = load_policy(policy)
        options = _budget(known.max_epsilon, known.max_delta)
    else:
        raise ValueError("privledger_ledger needs @pytest.mark.privacy_budget(epsilon=..., "
                         "delta=...) or --privledger-policy FILE")
    return pl.Ledger.create(None, **options)


def spend_properties(ledger: pl.Ledger) -> list[tuple[str, str]]:
    """What JUnit XML says about a test."""
    state = ledger.state
    return [("privledger_epsilon", upward(ledger.spent)),
            ("privledger_epsilon_budget", exact(ledger.budget.epsilon)),
            ("privledger_delta_budget", exact(ledger.budget.delta)),
            ("privledger_relation", ledger.relation),
            ("privledger_grants", str(len(state.grants)))]


def complaints(ledger: pl.Ledger, policy: str | None, test: str) -> str:
    """Why a test that passed fails after all; empty if it does not."""
    ledger._history.flush()
    report = ledger_report(ledger._history.store, ledger.state)
    lines = [f"{found.rule}: {found.message}" for found in report.findings]
    if policy is not None:
        lines += [f"{found.rule}: {found.message}"
                  for found in compare(survey(ledger._history.store).facts,
                                   load_policy(policy))]
    if not lines:
        return ""
    spent = [f"  {grant.name} ({grant.learner or 'no learner'}): "
             f"epsilon {upward(grant.epsilon, 4)}, {_path(grant.plan)}" for grant in report.grants]
    return "\n".join([f"{test} does not keep to its privacy budget", *lines, "granted:",
                      *(spent or ["  nothing"])])


def _path(line: Outline) -> str:
    """From the root of a plan to the leaf that is released most often."""
    parts = [line.label]
    while line.children:
        line = max(line.children, key=lambda child: child.times)
        parts.append(f"{line.members} x {line.label}" if line.members > 1 else line.label)
    return " > ".join(parts)
