"""`privledger ask`: statistics of a table, asked in SQL, under a ledger."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

import privledger
from privledger.cli.fit import LEDGER, SCHEMA, TABLE, ledger_beside, run_of
from privledger.cli.output import FILE, PLACE, Reply, command, people_key_option
from privledger.cli.plan import Prepared, check_same, price_run, state_at
from privledger.cli.run import open_ledger, refuse_early, refuse_if_remembered
from privledger.cli.sql import Statement, statements
from privledger.cli.terminal import quiet_option, text, watching
from privledger.graph import Sequential, to_json
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.ledger import State
from privledger.reports import plain, release_count
from privledger.reports.receipt import read_key
from privledger.rounding import number, positive, probability
from privledger.tables.raw import check_arrow
from privledger.tables.schema import Schema
from privledger.tables.sources import read_with_target

if TYPE_CHECKING:
    from rich.console import Console

Offered: TypeAlias = Any
"""What an installed package offers under names of `privledger`: summaries and their answers."""
NAMES: Offered = privledger
BAR = 40
MOST_SQL = 1_000_000
ENDINGS = (".csv", ".json", ".parquet", ".svg")


@partial(command, formats=click.option(
    "--format", "format_", type=click.Choice(["text", "json", "csv"]), default="text",
    show_default=True, help="Output format on stdout."))
@TABLE
@click.argument("sql", metavar="SQL")
@SCHEMA
@click.option("--epsilon", type=float, required=True, help="What all statements may cost.")
@click.option("--delta", type=float, default=0.0, show_default=True,
              help="Of them; well below one in the number of people.")
@LEDGER
@click.option("--budget", type=float, metavar="EPSILON",
              help="Of a new ledger, for all that is ever asked of it [default: --epsilon].")
@click.option("--plan", "only_plan", is_flag=True,
              help="Print price and expected error, and open neither table nor ledger.")
@click.option("--rows", type=float, help="For --plan: a public number of rows.")
@click.option("--keep", is_flag=True,
              help="Keep the answers in the ledger, and give out those that are kept: the same "
                   "question again costs nothing. Each question is a grant of its own then.")
@click.option("--fingerprint-key", type=FILE, metavar="FILE",
              help="For --keep: a secret by which the same table is recognised next time.")
@click.option("--sampling", is_flag=True,
              help="Intervals of noise and sample, in place of those of the noise.")
@click.option("-o", "--output", type=PLACE, metavar="FILE",
              help="Write the answer here, too: .csv, .json, .parquet, or .svg for a picture.")
@people_key_option
@quiet_option
def ask(table: str, sql: str, schema_file: str, epsilon: float, delta: float, ledger: str | None,
        budget: float | None, only_plan: bool, rows: float | None, keep: bool,
        fingerprint_key: str | None, sampling: bool, output: str | None,
        people_key: str | None) -> Reply:
    """Answer SQL about TABLE with noise, under a ledger: a statement, or a file FILE.sql of them.

    Several statements are one grant, and share epsilon. What is not supported is refused with
    its place in the text, and nothing is read. Exit code 1 if the ledger refuses.
    """
    positive("--epsilon", epsilon)
    probability("--delta", delta, zero=True)
    if keep == (fingerprint_key is None):
        raise click.UsageError("--keep and --fingerprint-key go together: without the key a later "
                               "run cannot tell that the table is the same")
    if not hasattr(NAMES, "summary"):
        raise click.UsageError("no installed package offers summaries: install privledger whole")
    schema = Schema.load(schema_file)
    asked = statements(_sql(sql), schema, NAMES)
    _check_output(output, len(asked))
    if only_plan:
        found = _questions(asked, schema, epsilon, delta, "add_remove")
        told = [one.forecast(schema, rows=None if rows is None else number("--rows", rows))
                for one in found]
        return Reply(_forecast_values(asked, told), partial(_render, asked=asked, answers=told))
    place = ledger_beside(table, ledger)
    state = state_at(place)
    prepared = _prepared(asked, table, schema_file, schema, (epsilon, delta), place, state,
                         budget, people_key)
    if state is None:
        refuse_if_remembered(prepared, None)
    key = None if fingerprint_key is None else read_key(fingerprint_key)
    answers = _answers(prepared, Path(table), key)
    if sampling:
        answers = [one.sampling() for one in answers]
    if output:
        _write(output, answers)
    return Reply(_values(asked, answers), partial(_render, asked=asked, answers=answers),
                 other=lambda _: "\n".join(one.to_csv() for one in answers).rstrip("\n"))


def _sql(given: str) -> str:
    if given.endswith(".sql"):
        place = Path(given)
        if not place.is_file() or place.stat().st_size > MOST_SQL:
            raise click.UsageError(f"{given}: no file of SQL")
        return place.read_text(encoding="utf-8")
    return given


def _check_output(output: str | None, many: int) -> None:
    """Find out before anything is spent, not after."""
    if output is None:
        return
    if not output.endswith(ENDINGS) or not Path(output).absolute().parent.is_dir():
        raise click.UsageError(f"-o {output}: a file that ends in {', '.join(ENDINGS)}, in a "
                               "folder that exists")
    if many > 1 and not output.endswith(".json"):
        raise click.UsageError(f"-o {output}: several statements go into a .json file")
    if output.endswith(".parquet"):
        check_arrow(f"-o {output}")


def _questions(asked: tuple[Statement, ...], schema: Schema, epsilon: float, delta: float,
               relation: str) -> list[Offered]:
    """A summary for each statement; they share epsilon and delta evenly."""
    return [NAMES.summary(*one.statistics, by=list(one.by), where=one.where,
                               epsilon=epsilon / len(asked), delta=delta / len(asked),
                               relation=relation, schema=schema) for one in asked]


def _prepared(asked: tuple[Statement, ...], table: str, schema_file: str, schema: Schema,
              price: tuple[float, float], place: Path | str, state: State | None,
              budget: float | None, people_key: str | None) -> Prepared:
    """What a run that asks would be: priced against its ledger, no table opened."""
    epsilon, delta = price
    run = run_of(table, schema_file, schema, state, {"epsilon": epsilon, "delta": delta},
                 "summary", epsilon if budget is None else budget, None, people_key)
    if state is not None:
        check_same(run, state, run.unit_for(schema))
    found = _questions(asked, schema, epsilon, delta, run.relation)
    plans = [one.plan(schema) for one in found]
    node = plans[0] if len(plans) == 1 else Sequential(plans)
    return Prepared(run, schema, found, node, (), price_run(run, node, state), place,
                    state is not None, state)


def _answers(prepared: Prepared, table: Path, key: bytes | None) -> list[Offered]:
    """Reserve all, then ask; or, to keep answers under a key, one grant for each."""
    run, schema = prepared.run, prepared.schema

    def protecting(book: Ledger) -> Dataset:
        X, y = read_with_target(table, schema)
        return book.protect(X, y, schema, name=run.data, fingerprint_key=key)

    with open_ledger(prepared, table, protecting) as book, watching(
            book, release_count(prepared.node)):
        if key is None:  # what is kept may cost nothing
            refuse_early(prepared, book)
        data = protecting(book)
        if key is not None:
            return [one.run(data, keep=True) for one in prepared.model]
        with book.request(prepared.node, data, learner=run.learner,
                          delta=run.params["delta"]) as session:
            return [one.fit(session.within(one.plan(schema), data)).answer_
                    for one in prepared.model]


def _values(asked: tuple[Statement, ...], answers: list[Offered]) -> list[dict[str, Offered]]:
    return [{"statement": one.text, "interval": answer.interval, "epsilon": answer.epsilon,
             "delta": answer.delta, "recalled": answer.recalled,
             "rows": [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]}
            for one, answer in zip(asked, answers, strict=True)]


def _forecast_values(asked: tuple[Statement, ...], told: list[Offered]) -> list[dict[str, Offered]]:
    return [{"statement": one.text, "epsilon": found.price, "delta": found.delta,
             "assumed": found.assumed, "plan": to_json(found.plan),
             "expected": [dict(zip(found.table()[0], row, strict=True))
                          for row in found.table()[1]]}
            for one, found in zip(asked, told, strict=True)]


def _write(output: str, answers: list[Offered]) -> None:
    if output.endswith(".parquet"):
        import pyarrow.parquet as pq

        pq.write_table(answers[0].to_arrow(), output)
    elif not output.endswith(".json"):
        only = answers[0]
        Path(output).write_text(only.to_csv() if output.endswith(".csv") else only.to_svg(),
                                encoding="utf-8")
    else:
        Path(output).write_text(json.dumps([plain(one.to_dict()) for one in answers], indent=2,
                                           allow_nan=False) + "\n", encoding="utf-8")


def _render(out: Console, asked: tuple[Statement, ...], answers: list[Offered]) -> None:
    for one, answer in zip(asked, answers, strict=True):
        if len(asked) > 1:
            out.print(text(one.text, "bold"))
        click.echo(str(answer))
        for line in answer_bars(answer) if hasattr(answer, "held") else ():  # no forecast has any
            click.echo(line)


def answer_bars(answer: Offered) -> list[str]:
    """A bar for each cell of the histograms of an answer, below what they are of."""
    groups: dict[tuple[Offered, ...], list[tuple[str, float]]] = {}
    for row in answer.held:
        if row.statistic.startswith("histogram(") and row.value is not None:
            groups.setdefault((row.statistic, *row.group), []).append((row.cell, row.value))
    lines = []
    for title, cells in groups.items():
        most = max(max(value for _, value in cells), 1.0)
        wide = max(len(cell) for cell, _ in cells)
        lines += ["", str(text("  ".join(map(str, title))))]
        lines += [f"{cell.ljust(wide)}  {'█' * round(BAR * max(value, 0.0) / most)} {value:.0f}"
                  for cell, value in cells]
    return lines
