"""`privledger check` of a ledger: trust first, then limits."""

from __future__ import annotations

from attrs import evolve

from privledger.cli.answers import PrintedAnswer
from privledger.cli.compared_with import Witness
from privledger.cli.opening import reading_store
from privledger.cli.output import note
from privledger.errors import LedgerError
from privledger.findings import Finding
from privledger.gate import NOT_TRUSTED, NOTHING, REFUSED, WITHIN, Facts, Policy, compare
from privledger.reports import Survey
from privledger.rounding import probability, upward_percent


def check_ledger(path: str, policy: Policy, known: Witness,
                 warn_at: float | None = None) -> PrintedAnswer:
    """Trust first, then limits.

    Args:
        warn_at: share of the budget, or of a cap, from which on a warning is given.
    """
    share = None if warn_at is None else probability("warn_at", warn_at, one=True)
    report = trusted(path, known)
    if isinstance(report, PrintedAnswer):
        return report
    if not report.live:
        return PrintedAnswer(NOTHING, "nothing to check: the ledger has no grant", None, (),
                       receipt=report.receipt)
    missing = missing_receipt(policy, known)
    result = decided(ledger_facts(report), policy, report.policy, missing)
    full = () if share is None else tuple(
        f"{name}: {figure.text()} is gone, in the units that add up; asked to warn at "
        f"{upward_percent(share)}" for name, figure in report.full if figure.value >= share)
    return evolve(result, receipt=report.receipt, warnings=full)


def trusted(path: str, known: Witness) -> Survey | PrintedAnswer:
    """A ledger without a fault, summed up; or the verdict that it has one."""
    named: list[Finding] = []
    try:
        with reading_store(path) as store:
            seen = known.survey(store)
        if known.present and seen.past.entries:
            named = known.compare(seen.past)
        if seen.trusted and not named:
            return seen
        findings = list(seen.findings)
    except LedgerError as error:
        note(str(error))
        findings = [Finding("history-can-be-read", -1, str(error))]
    named += [Finding("ledger-not-trusted", found.position, f"{found.rule}: {found.message}")
              for found in findings]
    return PrintedAnswer(NOT_TRUSTED, "the ledger cannot be trusted", None, tuple(named))


def missing_receipt(policy: Policy, known: Witness) -> tuple[Finding, ...]:
    """The finding of a policy that asks for a receipt where none was given."""
    if not policy.require_receipt or known.present:
        return ()
    return (Finding("receipt-missing", -1,
                    "the policy asks for --receipt or --expect-head: without one, a tail that "
                    "was cut off is not noticed"),)


def ledger_facts(seen: Survey) -> Facts:
    """What was spent or reserved, by whom and by which means."""
    return Facts(
        epsilon=seen.spent, delta=seen.spent_delta, relation=seen.relation,
        learners=seen.learners, mechanisms=seen.mechanisms, asserted=seen.asserted,
        simulated=not seen.private, isolation=seen.isolation, windows=seen.windows,
        budget_delta=seen.delta, data=seen.tables, unit=seen.unit,
        trusts=seen.trusts, alone=seen.alone, outside=seen.outside,
    )


def decided(facts: Facts, policy: Policy, own: Policy | None,
            more: tuple[Finding, ...]) -> PrintedAnswer:
    """Compare with the policy given and with the ledger's own; the strictest counts."""
    findings = (*compare(facts, policy), *more)
    if own is not None:  # the ledger would refuse: its own policy counts as well
        said = {(found.rule, found.message) for found in findings}
        findings += tuple(Finding(found.rule, -1, f"the ledger's own policy: {found.message}")
                          for found in compare(facts, own)
                          if (found.rule, found.message) not in said)
    if findings:
        return PrintedAnswer(REFUSED, "refused", facts, findings)
    return PrintedAnswer(WITHIN, "within the policy", facts, ())
