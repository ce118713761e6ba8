"""`privledger verify` and `privledger check`: can the history be trusted, is it allowed."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve, frozen

from privledger.cli.opening import LedgerPlace, reading_store
from privledger.cli.output import Guarded, emit, format_option, note
from privledger.cli.planning import Prepared, data_option, prepare, priced
from privledger.cli.render import GREEN, RED, findings_table, text
from privledger.cli.running import default_name
from privledger.cli.showing import ledger_argument
from privledger.cli.verdicts import Verdict, check_format_option, find_policy, show_verdict
from privledger.data import Schema
from privledger.errors import InvalidPlan, LedgerError, RelationMismatch, UnsupportedNode
from privledger.findings import Finding
from privledger.gate import NOT_TRUSTED, NOTHING, REFUSED, WITHIN, Facts, Policy, compare
from privledger.ledger import Budget, State, Store, asserted_kinds, fixed_filter
from privledger.reports import (
    Past,
    Survey,
    leaves,
    load_receipt,
    survey,
)
from privledger.reports.advice import what_fits
from privledger.reports.per_table import table_spends
from privledger.reports.pricing import rule_for
from privledger.reports.receipt import RULE as IN_HISTORY
from privledger.reports.signing import (
    check_signature,
    check_signed_with,
    read_key,
    read_public_key,
)
from privledger.runs import RunFile
from privledger.storage import is_url, shown

if TYPE_CHECKING:
    from rich.console import Console

_key_option = click.option("--key-file", type=click.Path(exists=True, dir_okay=False),
                           help="The receipt must be signed with the secret in this file.")
_public_option = click.option(
    "--public-key", type=click.Path(exists=True, dir_okay=False),
    help="The receipt must be signed with the Ed25519 key whose public half (PEM) this is.")


@frozen
class Witness:
    """What somebody kept elsewhere about a history: a receipt, a head, or nothing."""

    receipt: dict[str, Any] | None = None
    head: str | None = None
    key_file: str | None = None
    public_key: str | None = None

    @property
    def present(self) -> bool:
        return self.receipt is not None or self.head is not None

    def survey(self, store: Store) -> Survey:
        """Audit `store`, and take down what `compare` needs."""
        return survey(store, 0 if self.receipt is None else self.receipt["entries"], self.head)

    def compare(self, past: Past) -> list[Finding]:
        """Everything about a history that the witness contradicts."""
        found = []
        if self.receipt is not None:
            found += [*self._signature(self.receipt), *past.receipt_is_there(self.receipt)]
        return [*found, *past.head_is_there()]

    def _signature(self, receipt: dict[str, Any]) -> list[Finding]:
        """A receipt that should be signed, and is not, by this key."""
        public = read_public_key(self.public_key) if self.public_key else None
        secret = read_key(self.key_file) if self.key_file else None
        try:
            if public is not None:
                check_signed_with(receipt, public)
            if secret is not None:
                check_signature(receipt, secret)
        except InvalidPlan as error:
            return [Finding("receipt-is-signed", -1, str(error))]
        return []


def witness(receipt: str | None, head: str | None, key_file: str | None,
            public_key: str | None) -> Witness:
    """Read what the options name; a key without a receipt would check nothing."""
    if (key_file or public_key) and receipt is None:
        raise click.UsageError("a key needs --receipt: nothing else is signed")
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise click.UsageError("--expect-head takes 64 hexadecimal digits")
    return Witness(load_receipt(receipt) if receipt else None, head, key_file, public_key)


@click.command(cls=Guarded)
@ledger_argument
@click.option("--receipt", type=click.Path(exists=True, dir_okay=False),
              help="A receipt that was released with a model: finds a cut tail or an old copy.")
@_key_option
@_public_option
@format_option
def verify(ledger: str, receipt: str | None, key_file: str | None, public_key: str | None,
           format_: str) -> None:
    """Read the whole history again, price every plan again, trust no total.

    Exit code 0 if clean, 3 if the ledger cannot be trusted.
    """
    known = witness(receipt, None, key_file, public_key)
    with reading_store(ledger) as store:
        seen = known.survey(store)
    findings, entries = list(seen.findings), seen.past.entries
    if entries:
        findings = known.compare(seen.past) + findings

    def render(out: Console) -> None:
        if findings:
            out.print(text(f"NOT TRUSTED: {len(findings)} findings", RED))
            out.print(findings_table(findings))
        else:
            more = " and the receipt is in it" if receipt else ""
            out.print(text(f"clean: {entries} entries re-read and re-priced{more}", GREEN))

    emit(format_, {"ledger": shown(ledger), "trusted": not findings, "entries": entries,
                   "compared_with": receipt, "receipt": seen.receipt,
                   "findings": findings}, render)
    if findings:
        click.get_current_context().exit(NOT_TRUSTED)


@frozen
class Sketch:
    """A learner that nobody wrote a run file for, priced from its schema alone."""

    learner: str | None
    schema: str | None
    epsilon: float | None
    delta: float
    relation: str
    params: tuple[str, ...]
    isolation: str


@click.command(cls=Guarded)
@click.argument("subject", metavar="[LEDGER|RUN.toml]", type=LedgerPlace(), required=False)
@click.option("--policy", type=click.Path(exists=True, dir_okay=False),
              help="TOML file with a table [policy] [default: privledger.toml, or "
                   "[tool.privledger.policy] of pyproject.toml, in the working directory].")
@data_option
@click.option("--ledger", type=click.Path(dir_okay=False),
              help="For a run file: the ledger it would continue [default: the run file's].")
@click.option("--receipt", type=click.Path(exists=True, dir_okay=False),
              help="A receipt that was kept elsewhere: finds a cut tail or an old copy.")
@click.option("--expect-head", metavar="HASH", help="An entry with this hash must be there.")
@_key_option
@_public_option
@click.option("--learner", help="Price this learner, before there is a run file or any data.")
@click.option("--schema", type=click.Path(exists=True, dir_okay=False), help="For --learner.")
@click.option("--epsilon", type=float, help="For --learner.")
@click.option("--delta", type=float, default=0.0, show_default=True, help="For --learner.")
@click.option("--relation", type=click.Choice(["add_remove", "replace_one", "replace_label"]),
              default="add_remove", show_default=True, help="For --learner.")
@click.option("--param", "params", multiple=True, metavar="NAME=VALUE",
              help="For --learner: one of its parameters, as TOML writes it.")
@click.option("--isolation", type=click.Choice(["guarded", "brokered"]), default="guarded",
              show_default=True, help="For a plan: how the learner will be kept from the rows.")
@check_format_option
def check(subject: str | None, policy: str | None, data_dir: str | None, ledger: str | None,
          receipt: str | None, expect_head: str | None, key_file: str | None,
          public_key: str | None, format_: str, **sketch: Any) -> None:
    """The gate for CI: does a ledger, or a run that has not happened yet, keep to a policy?

    Exit codes: 0 within, 1 refused, 2 usage, 3 the ledger cannot be trusted, 4 internal error,
    5 nothing to check. Anything that cannot be read fails.
    """
    plan = Sketch(**sketch)
    if (subject is None) == (plan.learner is None):
        raise click.UsageError("give LEDGER, RUN.toml, or --learner NAME")
    rules = find_policy(policy)
    known = witness(receipt, expect_head, key_file, public_key)
    if subject is None:
        if known.present:
            raise click.UsageError("a learner has no ledger: no receipt and no head to compare")
        name = f"learner {plan.learner}"
        result = check_plan(lambda: sketched(plan), rules, known, plan.isolation)
    elif is_run_file(subject):
        name = shown(subject)
        result = check_plan(lambda: prepare(subject, data_dir, ledger), rules, known,
                            plan.isolation)
    else:
        name = shown(subject)
        result = check_ledger(subject, rules, known)
    show_verdict(format_, name, rules, result)
    click.get_current_context().exit(result.code)


def is_run_file(path: str) -> bool:
    """By content first, so that a renamed ledger is still read as one."""
    if is_url(path):
        return False
    with open(path, "rb") as file:
        head = file.read(16)
    return not head.startswith(b"SQLite format 3") and path.endswith(".toml")


def check_ledger(path: str, policy: Policy, known: Witness) -> Verdict:
    """Trust first, then limits."""
    report = _trusted(path, known)
    if isinstance(report, Verdict):
        return report
    if not report.live:
        return Verdict(NOTHING, "nothing to check: the ledger has no grant", None, (),
                       receipt=report.receipt)
    missing = _missing_receipt(policy, known)
    result = _decide(ledger_facts(report), policy, report.policy, missing)
    return evolve(result, receipt=report.receipt)


def _trusted(path: str, known: Witness) -> Survey | Verdict:
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
    return Verdict(NOT_TRUSTED, "the ledger cannot be trusted", None, tuple(named))


def _missing_receipt(policy: Policy, known: Witness) -> tuple[Finding, ...]:
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
        budget_delta=seen.delta, data=seen.tables,
    )


def sketched(plan: Sketch) -> Prepared:
    """A learner as `--learner` names it, against a fresh budget of what it asks for."""
    if plan.schema is None or plan.epsilon is None:
        raise click.UsageError("--learner needs --schema and --epsilon")
    value = {"run": {"learner": plan.learner}, "params": _params(plan.params),
             "data": {"schema": plan.schema, "table": "none yet"},
             "budget": {"epsilon": plan.epsilon, "delta": plan.delta},
             "ledger": {"relation": plan.relation}}
    return priced(RunFile.from_dict(value, Path("command line")), Schema.load(plan.schema), None)


def _params(given: Sequence[str]) -> dict[str, Any]:
    try:
        return tomllib.loads("\n".join(given))
    except ValueError:
        raise click.UsageError("--param takes NAME=VALUE, with VALUE as TOML writes it") from None


def check_plan(make: Callable[[], Prepared], policy: Policy, known: Witness,
               isolation: str) -> Verdict:
    """Price a plan, on top of what its ledger has spent already, before any data is opened."""
    try:
        prepared = make()
    except RelationMismatch as error:
        return Verdict(REFUSED, "refused", None, (Finding("wrong-relation", -1, str(error)),))
    except UnsupportedNode as error:
        found = Finding("over-epsilon", -1, f"no finite epsilon is proved: {error}")
        return Verdict(REFUSED, "refused", None, (found,))
    except LedgerError as error:
        found = Finding("ledger-not-trusted", -1, str(error))
        return Verdict(NOT_TRUSTED, "the ledger cannot be trusted", None, (found,))
    before: Facts | None = None
    own: Policy | None = None
    receipt, missing = None, _missing_receipt(policy, known) if prepared.exists else ()
    if prepared.exists:
        report = _trusted(str(prepared.ledger), known)
        if isinstance(report, Verdict):
            return report
        before, receipt, own = ledger_facts(report), report.receipt, report.policy
    elif known.present:
        gone = Finding(IN_HISTORY, -1, "there is no ledger, and somebody has seen one: it was "
                                       "moved or deleted")
        return Verdict(NOT_TRUSTED, "the ledger cannot be trusted", None, (gone,))
    result = _decide(run_facts(prepared, before, isolation), policy, own, missing)
    fits = "" if result.code == WITHIN else _fits(prepared, policy)
    return evolve(result, receipt=receipt, fits=fits)


def _fits(prepared: Prepared, policy: Policy) -> str:
    """What the plan would have to be, to keep to the budget and to the policy."""
    run, state = prepared.run, prepared.state or State()
    budget = state.budget or run.budget
    relation = state.relation or run.relation
    rule = state.rule or rule_for(prepared.node, budget, relation, run.filter)
    if not policy.max_epsilon > 0:
        return "nothing fits"
    most = fixed_filter(rule.kind, Budget(policy.max_epsilon, budget.delta),
                        rule.order if rule.kind == "rdp" else None)
    return what_fits(prepared.node, relation, rule, most.cap_units, state).text


def run_facts(prepared: Prepared, before: Facts | None, isolation: str = "guarded") -> Facts:
    """The plan, and what is already in the ledger that it would continue."""
    price, run = prepared.price, prepared.run
    kinds = tuple(type(leaf).__name__ for leaf in leaves(prepared.node))
    asserted = tuple(f"{leaf}" for leaf in leaves(prepared.node)
                     if asserted_kinds([type(leaf).__name__]))
    earlier = before or Facts(0.0, 0.0, price.relation, (), ())
    state = prepared.state or State()
    budget = state.budget or run.budget
    known = with_rule(state, prepared)
    return Facts(
        epsilon=price.total, delta=price.total_delta, relation=price.relation,
        learners=tuple(dict.fromkeys((*earlier.learners, run.learner))),
        mechanisms=tuple(dict.fromkeys((*earlier.mechanisms, *kinds))),
        asserted=(*earlier.asserted, *asserted), simulated=earlier.simulated,
        refusal=price.refusal or "",
        isolation=tuple(dict.fromkeys((*earlier.isolation, isolation))),
        windows=earlier.windows, budget_delta=budget.delta,
        data=table_spends(known, (run.data_name or default_name(run), price.charge.units,
                                  price.charge.delta_units, prepared.schema.public_rows)),
    )


def with_rule(state: State, prepared: Prepared) -> State:
    """The state with the filter that the plan would fix, if none is fixed yet."""
    if state.rule is not None:
        return state
    run = prepared.run
    rule = rule_for(prepared.node, state.budget or run.budget, state.relation or run.relation,
                    run.filter)
    return evolve(state, rule=rule)


def _decide(facts: Facts, policy: Policy, own: Policy | None,
            more: tuple[Finding, ...]) -> Verdict:
    findings = (*compare(facts, policy), *more)
    if own is not None:  # the ledger would refuse: its own policy counts as well
        said = {(found.rule, found.message) for found in findings}
        findings += tuple(Finding(found.rule, -1, f"the ledger's own policy: {found.message}")
                          for found in compare(facts, own)
                          if (found.rule, found.message) not in said)
    if findings:
        return Verdict(REFUSED, "refused", facts, findings)
    return Verdict(WITHIN, "within the policy", facts, ())
