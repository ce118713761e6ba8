"""`--isolate`: the run's learner in a confined process instead of this one.

The default for learners that are not shipped with this package; `--no-isolate` says otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from attrs import evolve

from privledger.broker import DEFAULTS, ISOLATION, Limits, RemoteLearner
from privledger.cli.prepared import build
from privledger.errors import InvalidPlan, IsolationUnavailable, LearnerError
from privledger.facts.schema import Schema
from privledger.plugins import find_learner, is_shipped
from privledger.runs import RunFile
from privledger.tables.listing import members

Make = Callable[[RunFile, Schema], Any]
GUARDED = "guarded"
HERE = "left out where the learner runs in this process (see --isolate)"

isolate_option = click.option(
    "--isolate/--no-isolate", default=None,
    help="Run the learner in a confined process that never receives rows, or in this one "
         "[default: isolate unless the learner is shipped with privledger].")


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for item in value:
        name, sign, number = item.partition("=")
        try:
            found[name] = int(number) if number.isdecimal() else float(number)
        except ValueError:
            sign = ""
        if not sign:
            raise click.BadParameter(f"{item!r}: give NAME=NUMBER")
    return found


limit_option = click.option(
    "--limit", "limits", multiple=True, metavar="NAME=NUMBER", callback=_pairs,
    help="A limit of the isolated learner's process, over the run file's [isolation]: "
         + ", ".join(Limits().as_dict()) + ".")


def isolation(model: Any) -> str:
    """The word for how a learner is kept from the rows, as its grants record it."""
    return ISOLATION if isinstance(model, RemoteLearner) else GUARDED


def wanted(isolate: bool | None, name: str) -> bool:
    """Whether to isolate the learner called `name`; None for the default."""
    if isolate is not None:
        return isolate
    try:
        return not is_shipped(find_learner(name))
    except LearnerError:
        return False  # it is not there: whoever loads it says so


def usual_isolation(name: str) -> str:
    """How `run` keeps a learner from the rows when it is not told."""
    return ISOLATION if wanted(None, name) else GUARDED


@contextmanager
def making(isolate: bool | None, data_dir: str | None, ledger: str | None,
           given: dict[str, Any] | None = None, patience: float | None = None,
           also: tuple[Path, ...] = ()) -> Iterator[Make | None]:
    """How to make the learner; None for the usual way. The process ends with the block.

    Args:
        isolate: None for the default. given: limits over the run file's.
        also: more that the process must not be able to read.
    """
    if isolate is False:
        _no_limits(given, patience)
        yield None
        return
    started: list[RemoteLearner] = []

    def make(run: RunFile, schema: Schema) -> Any:
        if not wanted(isolate, run.learner):
            _no_limits(given, patience)
            return built_here(run, schema, isolate)
        limits = Limits.of(run.limits.as_dict() | (given or {}))
        if patience is not None:
            limits = evolve(limits, silence_seconds=patience)
        with saying_how(isolate):
            learner = RemoteLearner.start(
                find_learner(run.learner), run.params, schema, run.relation,
                private=(*private_files(run, data_dir, ledger), *also), labels=run.labels,
                limits=limits)
        started.append(learner)
        return learner

    try:
        yield make
    finally:
        for learner in started:
            learner.close()


def built_here(run: RunFile, schema: Schema, isolate: bool | None) -> Any:
    """As `build`, of a run file whose limits, if it has any, are for a process of its own."""
    if run.limits != DEFAULTS and not wanted(isolate, run.learner):
        raise InvalidPlan("[isolation]", "given", HERE)
    return build(run, schema)


def _no_limits(given: dict[str, Any] | None, patience: float | None) -> None:
    """Refuse limits of a process that is not started."""
    if given or patience is not None:
        raise InvalidPlan("--limit, --isolate-timeout", "given", HERE)


@contextmanager
def saying_how(isolate: bool | None) -> Iterator[None]:
    """Where isolation was not asked for but is the default, say what the other choice is."""
    try:
        yield
    except IsolationUnavailable as error:
        if isolate is not None:
            raise
        raise IsolationUnavailable(
            f"{error}. This learner is not shipped with privledger, so it is isolated; "
            "--no-isolate runs it in this process, with all your rights") from None


def private_files(run: RunFile, data_dir: str | None, ledger: str | None) -> tuple[Path, ...]:
    """What the learner's process must not be able to read, wherever it lies."""
    names = [run.table]
    if run.evaluate is not None and run.evaluate.test is not None:
        names.append(run.evaluate.test)
    there = [run.data_path(name, data_dir, must_exist=False, several=True) for name in names]
    book = run.ledger_path(ledger)
    return (run.path, *([book] if isinstance(book, Path) else []), *there,
            *(file for path in there for file in members(path)))
