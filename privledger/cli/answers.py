"""What `check` answers, and how it is printed: for people, as JSON, and for CI systems."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

import privledger
from privledger.accounting import promise
from privledger.cli.output import emit
from privledger.cli.printing import GREEN, RED, YELLOW, charge, findings_table, pairs, text
from privledger.errors import InvalidPlan
from privledger.findings import Finding
from privledger.gate import RULES, WITHIN, Facts, Policy
from privledger.ledger.view_compared import Comparison
from privledger.numerals import many
from privledger.reading import load_toml
from privledger.reports.ci import FORMATS, Outcome, ci_text, summary
from privledger.rounding import exact

if TYPE_CHECKING:
    from rich.console import Console

SUMMARY = "GITHUB_STEP_SUMMARY"
POLICY_FILES = ("privledger.toml", "pyproject.toml")
ROOTS = (".git", ".hg", ".svn", ".jj")

check_format_option = click.option(
    "--format", "format_", type=click.Choice(["text", "json", *FORMATS]), default="text",
    show_default=True, help="What to print on stdout; sarif, junit and github are for CI.")


@frozen
class Answer:
    """The gate's answer.

    Attributes:
        compared: what the ledger was compared with; None where there is none.
        warnings: what does not fail the check, and somebody asked to be told of.
    """

    code: int
    verdict: str
    facts: Facts | None
    findings: tuple[Finding, ...]
    fits: str = ""
    receipt: dict[str, Any] | None = None
    compared: Comparison | None = None
    warnings: tuple[str, ...] = ()


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


def show_answer(format_: str, subject: str, policy: Policy, result: Answer) -> None:
    """Print the verdict; a job on GitHub gets a page, too."""
    if format_ in FORMATS:
        outcome = Outcome(subject, privledger.__version__, result.code, result.verdict, RULES,
                          result.findings, dict(numbers(result, policy)), result.warnings)
        click.echo(ci_text(format_, outcome))
        if format_ == "github" and os.environ.get(SUMMARY):
            with open(os.environ[SUMMARY], "a", encoding="utf-8") as page:
                page.write(summary(outcome))
        return
    emit(format_, {"subject": subject, "policy": policy, "exit": result.code,
                   "verdict": result.verdict, "facts": result.facts, "fits": result.fits,
                   "findings": result.findings, "receipt": result.receipt,
                   "warnings": result.warnings,
                   "comparison": result.compared and result.compared.as_dict()},
         lambda out: _render(out, result, policy))


def numbers(result: Answer, policy: Policy) -> list[tuple[str, str]]:
    """What was compared."""
    facts = result.facts
    compared = [] if result.compared is None else [("compared", result.compared.text)]
    if facts is None:
        return compared
    most = policy.max_alone_epsilon
    limit = "any" if most is None else exact(most)
    rows = [
        *compared,
        ("epsilon", f"{charge(facts.epsilon)} of {exact(policy.max_epsilon)} allowed"),
        ("delta", f"{charge(facts.delta)} of {exact(policy.max_delta)} allowed"),
        *([("alone", f"epsilon {charge(facts.alone)} of the dearest plan of a federation, if every "
                     f"other party gives its noise away; {limit} allowed")]
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


def _render(out: Console, result: Answer, policy: Policy) -> None:
    """One line, the numbers, every finding."""
    owed = [] if result.facts is None else _owed(result.facts)
    colour = RED if result.code != WITHIN else YELLOW if owed else GREEN
    out.print(text("; ".join([result.verdict, *owed]), colour))
    if result.facts is not None or result.compared is not None:
        out.print(pairs(numbers(result, policy)))
    for warning in result.warnings:
        out.print(text(f"warning: {warning}", YELLOW))
    if result.findings:
        out.print(findings_table(result.findings))
