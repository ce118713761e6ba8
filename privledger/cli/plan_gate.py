"""`privledger check` of a plan: a run file, or a learner without one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from attrs import evolve, frozen

from privledger.cli.ledger_gate import (
    PrintedAnswer,
    decided,
    missing_receipt,
    trusted,
)
from privledger.cli.output import Witness
from privledger.cli.plan import Prepared, fitting, priced, usual_isolation
from privledger.errors import LedgerError, RelationMismatch, UnsupportedNode
from privledger.findings import Finding
from privledger.gate import NOT_TRUSTED, REFUSED, USAGE, WITHIN, Facts, Policy
from privledger.graph import trusts
from privledger.ledger import Budget, State, asserted_kinds, fixed_filter
from privledger.ledger.origins import alone_epsilon
from privledger.ledger.view_charges import TableSpend, charges_of, planned, table_spends
from privledger.reports import leaves
from privledger.reports.pricing import rule_for, what_fits
from privledger.reports.receipt import RULE as IN_HISTORY
from privledger.reports.receipt import receipt_of
from privledger.runs import RunFile
from privledger.storage import is_url, shown
from privledger.tables.schema import Schema

ABSENT = "ledger-is-there"


@frozen
class Sketch:
    """A learner without a run file, priced from its schema alone."""

    learner: str | None
    schema: str | None
    epsilon: float | None
    delta: float
    relation: str
    params: tuple[str, ...]
    isolation: str | None
    table: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def sketched(plan: Sketch) -> Prepared:
    """A learner as `--learner` names it, against a fresh budget of what it asks for."""
    if plan.schema is None or plan.epsilon is None:
        raise click.UsageError("--learner needs --schema and --epsilon")
    value = {"run": {"learner": plan.learner}, "params": _params(plan.params),
             "data": {"schema": plan.schema, "table": plan.table or "none yet"},
             "labels": dict(plan.labels),
             "budget": {"epsilon": plan.epsilon, "delta": plan.delta},
             "ledger": {"relation": plan.relation}}
    return priced(RunFile.from_dict(value, Path("command line")), Schema.load(plan.schema), None)


def _params(given: Sequence[str]) -> dict[str, Any]:
    try:
        return tomllib.loads("\n".join(given))
    except (ValueError, RecursionError):
        raise click.UsageError("--param takes NAME=VALUE, with VALUE as TOML writes it") from None


def gate_plan(make: Callable[[], Prepared], policy: Policy, known: Witness,
               isolation: str | None, *, new: bool) -> PrintedAnswer:
    """Price a plan, on top of what its ledger has spent already, before any data is opened.

    Args:
        isolation: how the learner will be kept from the rows; None for what `run` does.
        new: the caller said that the ledger is yet to be made. Otherwise one that is not there is
            one that was lost, with everything that was spent from it.
    """
    try:
        prepared = make()
    except RelationMismatch as error:
        return PrintedAnswer(REFUSED, "refused", None, (Finding("wrong-relation", -1, str(error)),))
    except UnsupportedNode as error:
        found = Finding("over-epsilon", -1, f"no finite epsilon is proved: {error}")
        return PrintedAnswer(REFUSED, "refused", None, (found,))
    except LedgerError as error:
        found = Finding("ledger-not-trusted", -1, str(error))
        return PrintedAnswer(NOT_TRUSTED, "the ledger cannot be trusted", None, (found,))
    before: Facts | None = None
    own: Policy | None = None
    receipt, missing = None, missing_receipt(policy, known) if prepared.exists else ()
    if prepared.exists:
        report = trusted(str(prepared.ledger), known)
        if isinstance(report, PrintedAnswer):
            return report
        before, receipt, own = report.facts, report.receipt, report.policy
    elif known.present:
        gone = Finding(IN_HISTORY, -1, "the ledger is missing, but a receipt of it exists: it was "
                                       "moved or deleted")
        return PrintedAnswer(NOT_TRUSTED, "the ledger cannot be trusted", None, (gone,))
    elif not new:
        return _absent(prepared)
    level = isolation or usual_isolation(prepared.run.learner)
    result = decided(run_facts(prepared, before, level), policy, own, missing)
    fits = "" if result.code == WITHIN else _fits(prepared, policy)
    return evolve(result, receipt=receipt, fits=fits,
                  compared=known.comparison if prepared.exists else None)


def _absent(prepared: Prepared) -> PrintedAnswer:
    """Lost, where a receipt of it lies beside its place; else it was not said to be new."""
    seen = None if is_url(prepared.ledger) else receipt_of(prepared.ledger)
    why = ("restore it, or use --new-ledger (in the policy: new_ledger = true) if it was never "
           "created" if seen is None else
           f"{seen.name} is a receipt of it. Restore the ledger: losing it does not return what it "
           "had spent")
    found = Finding(ABSENT, -1, f"{shown(prepared.ledger)} is missing, which does not mean that it "
                                f"is empty: {why}")
    return PrintedAnswer(USAGE if seen is None else NOT_TRUSTED, "the ledger is missing", None,
                         (found,))


def _fits(prepared: Prepared, policy: Policy) -> str:
    """What the plan would have to be, to keep to the budget and to the policy."""
    run, state = prepared.run, prepared.state or State()
    budget = state.budget or run.budget
    relation = state.relation or run.relation
    rule = state.rule or rule_for(prepared.node, budget, relation, run.filter)
    if not policy.max_epsilon > 0:
        return "nothing fits"
    most = fixed_filter(rule.kind, Budget(policy.max_epsilon, budget.delta, budget.failure),
                        rule.order if rule.kind == "rdp" else None)
    own = fitting(prepared, policy.max_epsilon)
    return "; ".join(filter(None, (
        own, what_fits(prepared.node, relation, rule, most.cap_units, state).text)))


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
    return evolve(
        earlier, epsilon=price.total, delta=price.total_delta, relation=price.relation,
        learners=tuple(dict.fromkeys((*earlier.learners, run.learner))),
        mechanisms=tuple(dict.fromkeys((*earlier.mechanisms, *kinds))),
        asserted=(*earlier.asserted, *asserted), unit=run.unit_for(prepared.schema),
        refusal=price.refusal or "", asked=price.epsilon, before=price.spent,
        isolation=tuple(dict.fromkeys((*earlier.isolation, isolation))),
        budget_delta=budget.delta, data=_tables(known, prepared),
        trusts=(*earlier.trusts, *trusts(prepared.node)),
        alone=max(earlier.alone, alone_epsilon([prepared.node], price.relation, budget.delta)),
    )


def _tables(state: State, prepared: Prepared) -> tuple[TableSpend, ...]:
    """What every table would have lost after the plan."""
    name, charge = prepared.run.data, prepared.price.charge
    more = planned(name, charge.units, charge.delta_units, state.rule)
    rows = {table: held.rows for table, held in state.tables.items()}
    return table_spends((*charges_of(state), more), state.rule,
                        rows | {name: prepared.schema.rows_for(prepared.price.relation)})


def with_rule(state: State, prepared: Prepared) -> State:
    """The state with the filter that the plan would fix, if none is fixed yet."""
    if state.rule is not None:
        return state
    run = prepared.run
    rule = rule_for(prepared.node, state.budget or run.budget, state.relation or run.relation,
                    run.filter)
    return evolve(state, rule=rule)
