"""`privledger fit`: a run without a run file, from a table, a schema and an epsilon."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from privledger.accounting import Relation
from privledger.cli.output import FILE, PLACE, Reply, command, people_key_option
from privledger.cli.plan import isolate_option, limit_option, making, priced, state_at
from privledger.cli.run import carried_out, check_outputs, data_files, refuse_if_remembered
from privledger.cli.terminal import quiet_option
from privledger.errors import InvalidPlan
from privledger.ledger import Budget, State
from privledger.plugins import Holdout
from privledger.rounding import exact
from privledger.runs import Evaluation, RunFile
from privledger.storage import is_url
from privledger.tables.schema import Schema

TABLE = click.argument("table", metavar="TABLE", type=click.Path(exists=True))
SCHEMA = click.option("--schema", "schema_file", required=True, metavar="FILE", type=FILE,
                      help="Public facts about the table.")

LEDGER = click.option("--ledger", metavar="LEDGER",
                      help="Ledger, continued if it exists [default: TABLE's name with .ledger, "
                           "for fit and ask alike: what both spend adds up].")


@command
@TABLE
@SCHEMA
@click.option("--epsilon", type=float, required=True, help="What this fit may cost.")
@click.option("--delta", type=float, default=0.0, show_default=True,
              help="Of this fit; well below one in the number of people.")
@click.option("--model", required=True, type=PLACE, metavar="FILE",
              help="Where to save the fitted model, for privledger predict.")
@click.option("--learner", metavar="NAME",
              help="One of privledger learners [default: what public facts recommend].")
@LEDGER
@click.option("--budget", type=float, metavar="EPSILON",
              help="Of a new ledger, for all that is ever asked of it [default: --epsilon].")
@click.option("--holdout", type=float, metavar="SHARE",
              help="Hold out a share by a private coin, and score the model on it.")
@people_key_option
@isolate_option
@limit_option
@quiet_option
def fit_command(table: str, schema_file: str, epsilon: float, delta: float, model: str,
                learner: str | None, ledger: str | None, budget: float | None,
                holdout: float | None, people_key: str | None, isolate: bool | None,
                limits: dict[str, Any]) -> Reply:
    """Train on TABLE (CSV, Parquet, NPZ, or a folder) under a ledger, and keep the model.

    The same as privledger run with a run file that says so much; its exit codes are the same.
    A ledger that is there goes on with its own promise, whatever --budget says.
    """
    check_outputs(model, None)
    schema, place = Schema.load(schema_file), ledger_beside(table, ledger)
    state = state_at(place)
    run = run_of(table, schema_file, schema, state, {"epsilon": epsilon, "delta": delta},
               learner, epsilon if budget is None else budget, holdout, people_key)
    with making(isolate, None, str(place), limits) as make:
        prepared = priced(run, schema, place, make)
        if not prepared.exists:
            refuse_if_remembered(prepared, None)
        return carried_out(prepared, data_files(run, None), model)


def ledger_beside(table: str, ledger: str | None) -> Path | str:
    """Where the ledger is: beside the table, unless it is named."""
    if ledger is not None:
        return ledger if is_url(ledger) else Path(ledger)
    return Path(table).with_name(Path(table).name.partition(".")[0] + ".ledger")


def run_of(table: str, schema_file: str, schema: Schema, state: State | None,
         asked: dict[str, float], learner: str | None, budget: float, holdout: float | None,
         people_key: str | None) -> RunFile:
    """The run file that would say the same."""
    relation: Relation = "add_remove"
    promise, chosen, unit = Budget(budget, asked["delta"]), "auto", None
    if state is not None and state.budget is not None:
        promise, chosen, unit = state.budget, state.filter_asked, state.unit
        relation = state.relation  # type: ignore[assignment]
    if learner is None:
        learner = f"auto-{'classifier' if schema.task == 'classification' else 'regressor'}"
    if not asked["epsilon"] <= promise.epsilon:
        raise InvalidPlan("--epsilon", asked["epsilon"],
                          f"at most that of the ledger, {exact(promise.epsilon)}")
    evaluate = None if holdout is None else Evaluation(score=Holdout.of(holdout))
    return RunFile(path=Path("fit"), learner=learner, schema=str(Path(schema_file).absolute()),
                   table=str(Path(table).absolute()), budget=promise, ledger="",
                   params=dict(asked), data_name=Path(table).name, relation=relation,
                   filter=chosen, evaluate=evaluate, unit=unit,
                   people_key=None if people_key is None else str(Path(people_key).absolute()))
