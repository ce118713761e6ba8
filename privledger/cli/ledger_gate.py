"""What `check` answers of a ledger: trust first, then limits; and how every answer is printed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

import privledger
from privledger.accounting import promise
from privledger.cli.output import Reply, Witness, note, reading_store
from privledger.cli.terminal import GREEN, RED, YELLOW, charge, findings_table, pairs, text
from privledger.errors import InvalidPlan, LedgerError
from privledger.findings import Finding
from privledger.gate import NOT_TRUSTED, NOTHING, REFUSED, RULES, WITHIN, Facts, Policy, compare
from privledger.ledger.epochs import SealedStretch
from privledger.ledger.view import Comparison
from privledger.numerals import many
from privledger.reading import load_toml
from privledger.reports import Survey
from privledger.reports.ci import FORMATS, Outcome, ci_text, summary
from privledger.rounding import exact, probability, upward_percent

if TYPE_CHECKING:
    from rich.console import Console


SUMMARY = "GITHUB_STEP_SUMMARY"
POLICY_FILES = ("privledger.toml", "pyproject.toml")
ROOTS = (".git", ".hg", ".svn", ".jj")

check_format_option = click.option(
    "--format", "format_", type=click.Choice(["text", "json", *FORMATS]), default="text",
    show_default=True, help="Output format on stdout; sarif, junit and github are for CI.")


@frozen
class PrintedAnswer:
    """The gate's answer.

    Attributes:
        compared: what the ledger was compared with; None where there is none.
        warnings: what does not fail the check, and the caller asked to be told of.
        sealed: the stretch of the ledger that an earlier audit priced.
    """

    code: int
    verdict: str
    facts: Facts | None
    findings: tuple[Finding, ...]
    fits: str = ""
    receipt: dict[str, Any] | None = None
    compared: Comparison | None = None
    warnings: tuple[str, ...] = ()
    sealed: SealedStretch | None = None


def find_policy(given: str | None) -> Policy:
    """The policy that was named, or the nearest from the working directory upwards.

    As ruff and pytest look for theirs, but no further than the root of the project: the first
    folder with a repository in it.

    Raises:
        InvalidPlan: none there, or it cannot be understood.
    """
    if given is not None:
        return Policy.load(given)
    here = Path.cwd()
    for folder in (here, *here.parents):
        for name in POLICY_FILES:
            if (folder / name).is_file() and (name != "pyproject.toml" or _has_policy(folder)):
                return Policy.load(folder / name)
        if any((folder / mark).exists() for mark in ROOTS):
            break  # another project's policy is not this one's
    raise InvalidPlan("policy", "none", "given: --policy FILE, or privledger.toml or "
                                        "[tool.privledger.policy] in the working directory or "
                                        "above it, up to the root of the project")


def _has_policy(folder: Path) -> bool:
    """Whether its pyproject.toml speaks of privledger at all; one that cannot be read stops."""
    tool = load_toml(folder / "pyproject.toml", "pyproject.toml").get("tool")
    return isinstance(tool, dict) and "privledger" in tool


def answer_told(subject: str, policy: Policy, result: PrintedAnswer) -> Reply:
    """The verdict in every format; a job on GitHub gets a page, too."""
    def for_ci(format_: str) -> str:
        outcome = Outcome(subject, privledger.__version__, result.code, result.verdict, RULES,
                          result.findings, dict(gate_numbers(result, policy)), result.warnings)
        if format_ == "github" and os.environ.get(SUMMARY):
            with open(os.environ[SUMMARY], "a", encoding="utf-8") as page:
                page.write(summary(outcome))
        return ci_text(format_, outcome)

    return Reply({"subject": subject, "policy": policy, "exit": result.code,
                  "verdict": result.verdict, "facts": result.facts, "fits": result.fits,
                  "findings": result.findings, "receipt": result.receipt,
                  "warnings": result.warnings,
                  "comparison": result.compared and result.compared.as_dict(),
                  **({} if result.sealed is None else {"sealed": result.sealed})},
                 lambda out: _render(out, result, policy), result.code, for_ci)


def gate_numbers(result: PrintedAnswer, policy: Policy) -> list[tuple[str, str]]:
    """What was compared."""
    facts = result.facts
    compared = [] if result.compared is None else [("compared", result.compared.text)]
    compared += [] if result.sealed is None else [("read", result.sealed.text)]
    if facts is None:
        return compared
    most = policy.max_alone_epsilon
    limit = "any" if most is None else exact(most)
    rows = [
        *compared,
        ("epsilon", f"{charge(facts.epsilon)} of {exact(policy.max_epsilon)} allowed"),
        ("delta", f"{charge(facts.delta)} of {exact(policy.max_delta)} allowed"),
        *([("alone", f"epsilon {charge(facts.alone)} of the most expensive federated plan, if "
                     f"every other party reveals its noise; {limit} allowed")]
          if facts.trusts else []),
        *(("federated", one.text) for one in facts.trusts[:5]),
        ("relation", promise(facts.relation, facts.unit)),
        ("learners", ", ".join(facts.learners) or "-"),
        ("mechanisms", ", ".join(facts.mechanisms) or "-"),
        *([("isolation", ", ".join(facts.isolation))] if facts.isolation else []),
        *([("external runs", ", ".join(" ".join(one).strip() for one in facts.outside))]
          if facts.outside else []),
        *([("claims", "; ".join(facts.asserted[:5]))] if facts.asserted else []),
    ]
    if policy.data:
        rows += [(f"table {spend.name}", f"epsilon {charge(spend.epsilon)}, delta "
                                         f"{charge(spend.delta)}") for spend in facts.data]
    if result.fits:
        rows.append(("instead", result.fits))
    return rows


def _owed(facts: Facts) -> list[str]:
    """What a policy may allow, and a reader must know of."""
    claims = len(facts.asserted) + len(facts.outside)
    return [*(["NOT PRIVATE: simulation"] if facts.simulated else []),
            *([many(claims, "unverified claim")] if claims else [])]


def _render(out: Console, result: PrintedAnswer, policy: Policy) -> None:
    """One line, the numbers, every finding."""
    owed = [] if result.facts is None else _owed(result.facts)
    colour = RED if result.code != WITHIN else YELLOW if owed else GREEN
    out.print(text("; ".join([result.verdict, *owed]), colour))
    if result.facts is not None or result.compared is not None:
        out.print(pairs(gate_numbers(result, policy)))
    for warning in result.warnings:
        out.print(text(f"warning: {warning}", YELLOW))
    if result.findings:
        out.print(findings_table(result.findings))


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
    result = decided(report.facts, policy, report.policy, missing)
    full = () if share is None else tuple(
        f"{name}: {figure.text()} is spent, in the filter's units; --warn-at is "
        f"{upward_percent(share)}" for name, figure in report.full if figure.value >= share)
    return evolve(result, receipt=report.receipt, warnings=full, sealed=report.sealed)


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
                    "the policy requires --receipt or --expect-head: without one, deleted last "
                    "entries would go unnoticed"),)


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
