"""`--engine`: the run's table on disk, in chunks that worker processes answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from privledger.engines.engine_choice import ENGINES, EngineChoice
from privledger.errors import InvalidPlan
from privledger.runs import RunFile

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--engine", "name", type=click.Choice(ENGINES),
                 help="Put the table on disk in chunks, and let worker processes answer: of this "
                      "machine, or of a Dask cluster [default: the run file's, else in memory]."),
    click.option("--workers", type=click.IntRange(1, 1024),
                 help="For --engine: processes to start [default: one per usable processor]."),
    click.option("--scheduler", metavar="ADDRESS",
                 help="For --engine dask: a cluster that runs already, such as tls://host:8786."),
    click.option("--tls-ca", type=click.Path(exists=True, dir_okay=False),
                 help="For --scheduler: certificate of who signs the cluster's."),
    click.option("--tls-cert", type=click.Path(exists=True, dir_okay=False),
                 help="For --scheduler: certificate of this client."),
    click.option("--tls-key", type=click.Path(exists=True, dir_okay=False),
                 help="For --scheduler: key of this client."),
    click.option("--spool", type=click.Path(file_okay=False),
                 help="For --engine: folder of the copy, to be kept; all workers see it under "
                      "this path [default: one that goes at the end]."),
)


def engine_options(command: F) -> F:
    """What the command line says about engines."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wanted_engine(run: RunFile, given: dict[str, Any]) -> EngineChoice | None:
    """The run file's engine, and over it what the command line says.

    Raises:
        InvalidPlan: options that go with an engine, and none; or a holdout beside one.
    """
    said = {key: one for key, one in given.items() if one is not None}
    choice = run.engine
    if said and choice is None and "name" not in said:
        raise InvalidPlan(f"--{min(said).replace('_', '-')}", "given", "given with --engine")
    if said:
        choice = (EngineChoice.of(said, Path()) if choice is None else choice.over(said, Path()))
    if choice is not None and run.evaluate is not None and run.evaluate.holdout is not None:
        raise InvalidPlan("[evaluate] holdout", run.evaluate.holdout, "left out with an engine: "
                          "rows go to chunks as they are read, and none is split off; name "
                          "public rows by test")
    return choice
