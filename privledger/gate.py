"""Compare a ledger or a plan with a policy. Pure: facts and policy in, findings out."""

from __future__ import annotations

import math
from collections.abc import Iterator

from privledger.findings import Finding
from privledger.ledger import DataLimit, Origins, Policy, origin_findings
from privledger.ledger.view_charges import TableSpend
from privledger.ledger.view_figures import CHOSEN, Figure
from privledger.reports.survey import Facts

__all__ = ["Facts", "Policy", "compare"]

WITHIN, REFUSED, USAGE, NOT_TRUSTED, INTERNAL, NOTHING = range(6)
"""Exit codes of `privledger check`."""

RULES = {
    "over-epsilon": "More epsilon is spent, reserved or requested than is allowed.",
    "over-delta": "A larger delta than is allowed.",
    "under-delta": "The promised delta is smaller than the policy's minimum, and not 0.",
    "data-over-epsilon": "More epsilon than is allowed for one table.",
    "data-over-delta": "A larger delta than is allowed for one table.",
    "wrong-relation": "Prices are stated for another neighbouring relation.",
    "simulation-noise": "Seeded noise, which protects no person.",
    "asserted-node": "A cost or a sensitivity that is an unverified claim.",
    "learner-not-allowed": "A learner that is not on the list.",
    "mechanism-not-allowed": "A mechanism that is not on the list.",
    "isolation-not-allowed": "A learner was isolated from the rows in a way that is not on the "
                             "list.",
    "library-not-allowed": "A run of another library, or of a version, that is not on the list.",
    "window-not-allowed": "A period was opened that is not on the list.",
    "shared-noise": "Parties of a federation share noise.",
    "too-few-honest": "Parties that share noise assume fewer honest ones than are required.",
    "over-alone-epsilon": "More epsilon than is allowed if all other parties reveal their noise.",
    "too-few-rows": "A table declares fewer rows than are required, or none.",
    "receipt-missing": "The policy requires a receipt or a head to compare with.",
    "receipt-is-in-history": "Last entries were deleted, an old copy was restored, or it is "
                             "another ledger.",
    "receipt-is-signed": "The receipt is not signed with the key that was given.",
    "ledger-is-there": "The run's ledger is missing, and neither --new-ledger nor the policy says "
                       "that none exists yet.",
    "ledger-not-trusted": "The ledger is damaged, edited, or cannot be read.",
    "nothing-to-check": "The ledger contains nothing that could be compared.",
    "cannot-check": "The check itself failed; nothing was checked.",
}
"""Rules of `privledger check`: identifier, and what it means. Stable across versions."""


def compare(facts: Facts, policy: Policy) -> tuple[Finding, ...]:
    """Every rule that does not hold. Comparisons are false for NaN, so NaN is refused."""
    found = []
    most = _chosen(policy.max_epsilon)
    if not facts.epsilon <= policy.max_epsilon:
        found.append(Finding(
            "over-epsilon", -1,
            f"epsilon {_charge(facts.epsilon)} is over the policy's limit of {most} in all"
            if facts.asked is None else
            f"the run requests epsilon {_charge(facts.asked)}, {_charge(facts.before)} is spent: "
            f"{_charge(facts.epsilon)} in all is over the policy's limit of {most}"))
    if facts.refusal:
        found.append(Finding("over-epsilon", -1, f"the run's own budget: {facts.refusal}"))
    if not facts.delta <= policy.max_delta:
        found.append(Finding(
            "over-delta", -1,
            f"delta {_charge(facts.delta)} is over the policy's limit of "
            f"{_chosen(policy.max_delta)}: create the ledger with that delta, or a smaller one"))
    limits = {limit.name: limit for limit in policy.data}
    for spend in facts.data:
        if spend.name in limits:
            found += _over_limit(spend, limits[spend.name])
    origins = Origins(
        facts.relation, facts.learners, facts.mechanisms, facts.asserted, facts.simulated,
        facts.isolation, tuple((spend.name, spend.rows) for spend in facts.data),
        facts.windows, facts.budget_delta, facts.trusts, facts.alone, facts.outside)
    return (*found, *origin_findings(origins, policy))


def _charge(value: float) -> str:
    return "(not a number)" if math.isnan(value) else Figure(value).text()


def _chosen(value: float) -> str:
    return Figure(value, direction=CHOSEN).text()


def _over_limit(spend: TableSpend, limit: DataLimit) -> Iterator[Finding]:
    most = _chosen(limit.max_epsilon)
    if not spend.epsilon <= limit.max_epsilon:
        yield Finding("data-over-epsilon", -1,
                      f"{spend.name}: epsilon {_charge(spend.epsilon)} is over the table's "
                      f"limit of {most}")
    if not spend.delta <= limit.max_delta:
        yield Finding("data-over-delta", -1,
                      f"{spend.name}: delta {_charge(spend.delta)} is over the table's "
                      f"{_chosen(limit.max_delta)}: plan with that delta, or a smaller one")
