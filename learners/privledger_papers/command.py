"""`privledger reproduce`: the papers' tables again, each number beside what is sound."""

from __future__ import annotations

import os
from pathlib import Path

import click

from privledger_papers.curves import FIGURES, cells_of, draw
from privledger_papers.published_cells import Cell, UnknownCell, chosen, only
from privledger_papers.rendering import FORMATS, summary
from privledger_papers.results import Result, Results
from privledger_papers.rows import rows
from privledger_papers.running import QUICK, Job, run

KEPT = "reproduce.jsonl"


@click.command()
@click.argument("names", nargs=-1, metavar="[000 | 000.T1 | all]...")
@click.option("--data", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="Folder of data sets: NAME/NAME.csv.gz (or .npz), and NAME/schema.json.")
@click.option("--repetitions", type=click.IntRange(1), help="Fits of a cell; else the paper's.")
@click.option("--quick", is_flag=True, help=f"{QUICK} fits of a cell: minutes instead of days.")
@click.option("--systems", multiple=True, help="Only this system; may be given again.")
@click.option("--sets", multiple=True, help="Only this data set, by the paper's name.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True,
              help="Of the splits, the same for all systems; never of noise.")
@click.option("--resume", is_flag=True, help="Go on with the file of results: nothing runs twice.")
@click.option("--results", type=click.Path(dir_okay=False, path_type=Path), default=Path(KEPT),
              show_default=True, help="Where each fit is kept, one line each.")
@click.option("--format", "format_", type=click.Choice(list(FORMATS)), default="table",
              show_default=True)
@click.option("--plot", type=click.Path(file_okay=False, path_type=Path),
              help="Folder for the curves of figures that print no numbers.")
@click.option("--workers", type=click.IntRange(1), help="Processes; else one for every core.")
def reproduce(names: tuple[str, ...], data: Path | None, repetitions: int | None, quick: bool,
              systems: tuple[str, ...], sets: tuple[str, ...], seed: int, resume: bool,
              results: Path, format_: str, plot: Path | None, workers: int | None) -> None:
    """Run the tables of the five papers again: NAMES such as 001.T1, 003 or all.

    Every system runs in its printed form with sound steps, and beside it the learner that is
    recommended for the task; each private fit has a ledger, whose charge is shown. Without --data
    nothing runs, and what is kept is shown.
    """
    if not names:
        raise click.UsageError("which? a paper (000), a table (001.T1), a figure (000.F1a), or all")
    try:
        cells = wanted(names, systems, sets, curves=plot is not None)
    except UnknownCell as error:
        raise click.UsageError(str(error)) from None
    if results.exists() and not resume and data is not None:
        raise click.UsageError(f"{results} exists: --resume goes on with it, --results names "
                               "another")
    try:
        kept = Results(results)
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    if data is not None:
        run(cells, data, kept, most=repetitions or (QUICK if quick else None), seed=seed,
            workers=workers or os.cpu_count() or 1, said=_said)
    found = rows(cells, kept, data, seed)
    click.echo(FORMATS[format_](found))
    if plot is not None:
        for path in draw(found, plot):
            click.echo(str(path), err=True)
    if format_ == "table":
        for sentence in summary(found):
            click.echo(sentence, err=True)


def wanted(names: tuple[str, ...], systems: tuple[str, ...], sets: tuple[str, ...], *,
           curves: bool) -> tuple[Cell, ...]:
    """Printed cells of `names`, and what a paper never measures; points of figures that are
    named, or of all where `curves`.

    Raises:
        UnknownCell: a name that nothing has.
    """
    tables = [name for name in names if name not in FIGURES]
    drawn = cells_of(names, drawn=curves)
    found = (chosen(tables) if tables else ()) + drawn
    return only(only(found, "system", systems), "data", sets)


def _said(job: Job, result: Result | None, done: int, of: int) -> None:
    """One line on stderr for each fit that ended."""
    if result is not None:
        click.echo(f"[{done}/{of}] {result.cell} {result.form}: {result.score:.4g}", err=True)
