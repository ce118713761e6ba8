"""`privledger verify` and `privledger check`: can the history be trusted, is it allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from attrs import frozen

from privledger.accounting import promise
from privledger.cli.opening import LedgerPlace, reading, reading_store
from privledger.cli.output import Guarded, emit, format_option, note
from privledger.cli.planning import Prepared, data_option, prepare
from privledger.cli.render import GREEN, RED, figure, findings_table, pairs, text
from privledger.cli.showing import ledger_argument
from privledger.errors import InvalidPlan, LedgerError, RelationMismatch, UnsupportedNode
from privledger.findings import Finding
from privledger.gate import (
    NOT_TRUSTED,
    NOTHING,
    REFUSED,
    WITHIN,
    Facts,
    Policy,
    compare,
)
from privledger.ledger import audit
from privledger.reports import (
    LedgerReport,
    leaves,
    ledger_report,
    load_receipt,
    receipt_is_in_history,
)
from privledger.reports.signing import check_signature, read_key
from privledger.storage import is_url, shown

if TYPE_CHECKING:
    from rich.console import Console


@click.command(cls=Guarded)
@ledger_argument
@click.option("--receipt", type=click.Path(exists=True, dir_okay=False),
              help="A receipt that was released with a model: finds a cut tail or an old copy.")
@click.option("--key-file", type=click.Path(exists=True, dir_okay=False),
              help="The receipt must be signed with the secret in this file.")
@format_option
def verify(ledger: str, receipt: str | None, key_file: str | None, format_: str) -> None:
    """Re-read and re-price the whole history; list every fault.

    Exit code 0 if it is clean, 3 if it cannot be trusted.
    """
    if key_file and not receipt:
        raise click.UsageError("--key-file checks the signature of a --receipt")
    wanted = load_receipt(receipt) if receipt else None
    signed = _signature(wanted, key_file)
    with reading_store(ledger) as store:
        findings = signed + audit(store)
        entries = store.read()
        if wanted is not None:
            findings += receipt_is_in_history(entries, wanted)

    def render(out: Console) -> None:
        if findings:
            out.print(text(f"NOT TRUSTED: {len(findings)} findings", RED))
            out.print(findings_table(findings))
        else:
            more = " and the receipt is in it" if receipt else ""
            out.print(text(f"clean: {len(entries)} entries re-read and re-priced{more}", GREEN))

    emit(format_, {"ledger": shown(ledger), "trusted": not findings, "entries": len(entries),
                   "receipt": receipt, "findings": findings}, render)
    if findings:
        click.get_current_context().exit(NOT_TRUSTED)


def _signature(receipt: dict[str, Any] | None, key_file: str | None) -> list[Finding]:
    """A receipt that should be signed, and is not, by this key."""
    if receipt is None or not key_file:
        return []
    try:
        check_signature(receipt, read_key(key_file))
    except InvalidPlan as error:
        return [Finding("receipt-is-signed", -1, str(error))]
    return []


@frozen
class Verdict:
    """The gate's answer."""

    code: int
    verdict: str
    facts: Facts | None
    findings: tuple[Finding, ...]


@click.command(cls=Guarded)
@click.argument("subject", metavar="LEDGER|RUN.toml", type=LedgerPlace())
@click.option("--policy", required=True, type=click.Path(exists=True, dir_okay=False),
              help="TOML file with a table [policy].")
@data_option
@click.option("--ledger", type=click.Path(dir_okay=False),
              help="For a run file: the ledger it would continue [default: the run file's].")
@format_option
def check(subject: str, policy: str, data_dir: str | None, ledger: str | None,
          format_: str) -> None:
    """The gate for CI: does a ledger, or a run that has not happened yet, keep to a policy?

    Exit codes: 0 within, 1 refused, 2 usage, 3 the ledger cannot be trusted, 4 internal error,
    5 nothing to check. Anything that cannot be read fails.
    """
    rules = Policy.load(policy)
    if is_run_file(subject):
        result = check_run(subject, rules, data_dir, ledger)
    else:
        result = check_ledger(subject, rules)
    emit(format_, {"subject": shown(subject), "policy": rules, "exit": result.code,
                   "verdict": result.verdict, "facts": result.facts,
                   "findings": result.findings},
         lambda out: render_verdict(out, result, rules))
    click.get_current_context().exit(result.code)


def is_run_file(path: str) -> bool:
    """By content first, so that a renamed ledger is still read as one."""
    if is_url(path):
        return False
    with open(path, "rb") as file:
        head = file.read(16)
    return not head.startswith(b"SQLite format 3") and path.endswith(".toml")


def check_ledger(path: str, policy: Policy) -> Verdict:
    """Trust first, then limits."""
    report = _trusted(path)
    if isinstance(report, Verdict):
        return report
    if not _live(report):
        return Verdict(NOTHING, "nothing to check: the ledger has no grant", None, ())
    return _decide(ledger_facts(report), policy)


def _trusted(path: str) -> LedgerReport | Verdict:
    """The report of a ledger without a fault, or the verdict that there is none."""
    try:
        with reading_store(path) as store:
            findings = audit(store)
        if not findings:
            with reading(path) as opened:
                return ledger_report(opened._history.store, opened.state)
    except LedgerError as error:
        note(str(error))
        findings = [Finding("history-can-be-read", -1, str(error))]
    named = tuple(Finding("ledger-not-trusted", found.position, f"{found.rule}: {found.message}")
                  for found in findings)
    return Verdict(NOT_TRUSTED, "the ledger cannot be trusted", None, named)


def _live(report: LedgerReport) -> bool:
    """Whether anything was granted and not handed back."""
    return any(grant.status != "aborted" or not grant.note.startswith("handed back")
               for grant in report.grants)


def ledger_facts(report: LedgerReport) -> Facts:
    """What was spent or reserved, by whom and by which means."""
    asserted = [f"{line.mechanism}: {line.question}" for grant in report.grants
                for line in grant.lines if line.asserted]
    asserted += [f"Asserted in the plan of {grant.name}" for grant in report.grants
                 if "Asserted" in grant.mechanisms]
    return Facts(
        epsilon=report.spent, delta=report.spent_delta, relation=report.relation,
        learners=tuple(dict.fromkeys(grant.learner for grant in report.grants
                                     if grant.status != "scope")),
        mechanisms=tuple(dict.fromkeys(name for grant in report.grants
                                       for name in grant.mechanisms)),
        asserted=tuple(dict.fromkeys(asserted)), simulated=not report.private,
    )


def check_run(path: str, policy: Policy, data_dir: str | None, ledger: str | None) -> Verdict:
    """Price the plan, on top of what its ledger has spent already, before any data is opened."""
    try:
        prepared = prepare(path, data_dir, ledger)
    except RelationMismatch as error:
        return Verdict(REFUSED, "refused", None, (Finding("wrong-relation", -1, str(error)),))
    except UnsupportedNode as error:
        found = Finding("over-epsilon", -1, f"no finite epsilon is proved: {error}")
        return Verdict(REFUSED, "refused", None, (found,))
    except LedgerError as error:
        found = Finding("ledger-not-trusted", -1, str(error))
        return Verdict(NOT_TRUSTED, "the ledger cannot be trusted", None, (found,))
    before = None
    if prepared.exists:
        report = _trusted(str(prepared.ledger))
        if isinstance(report, Verdict):
            return report
        before = ledger_facts(report)
    return _decide(run_facts(prepared, before), policy)


def run_facts(prepared: Prepared, before: Facts | None) -> Facts:
    """The plan, and what is already in the ledger that it would continue."""
    price = prepared.price
    asserted = tuple(f"{leaf}" for leaf in leaves(prepared.node)
                     if type(leaf).__name__ == "Asserted")
    kinds = tuple(type(leaf).__name__ for leaf in leaves(prepared.node))
    earlier: Any = before or Facts(0.0, 0.0, price.relation, (), ())
    return Facts(
        epsilon=price.total, delta=price.total_delta, relation=price.relation,
        learners=tuple(dict.fromkeys((*earlier.learners, prepared.run.learner))),
        mechanisms=tuple(dict.fromkeys((*earlier.mechanisms, *kinds))),
        asserted=(*earlier.asserted, *asserted), simulated=earlier.simulated,
        refusal=price.refusal or "",
    )


def _decide(facts: Facts, policy: Policy) -> Verdict:
    findings = compare(facts, policy)
    if findings:
        return Verdict(REFUSED, "refused", facts, findings)
    return Verdict(WITHIN, "within the policy", facts, ())


def render_verdict(out: Console, result: Verdict, policy: Policy) -> None:
    """One line, the numbers, every finding."""
    out.print(text(result.verdict, GREEN if result.code == WITHIN else RED))
    if result.facts is not None:
        facts = result.facts
        out.print(pairs([
            ("epsilon", f"{figure(facts.epsilon)} of {figure(policy.max_epsilon)} allowed"),
            ("delta", f"{facts.delta:g} of {policy.max_delta:g} allowed"),
            ("relation", promise(facts.relation)),
            ("learners", ", ".join(facts.learners) or "-"),
            ("mechanisms", ", ".join(facts.mechanisms) or "-"),
        ]))
    if result.findings:
        out.print(findings_table(result.findings))
