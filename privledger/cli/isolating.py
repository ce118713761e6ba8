"""`--isolate`: the run's learner in a confined process instead of this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from privledger.broker import ISOLATION, RemoteLearner
from privledger.data import Schema
from privledger.plugins import find_learner
from privledger.runs import RunFile

Make = Callable[[RunFile, Schema], Any]
GUARDED = "guarded"


def isolation(model: Any) -> str:
    """The word for how a learner is kept from the rows, as its grants record it."""
    return ISOLATION if isinstance(model, RemoteLearner) else GUARDED


@contextmanager
def making(isolate: bool, data_dir: str | None, ledger: str | None,
           patience: float) -> Iterator[Make | None]:
    """How to make the learner; None for the usual way. The process ends with the block."""
    if not isolate:
        yield None
        return
    started: list[RemoteLearner] = []

    def make(run: RunFile, schema: Schema) -> RemoteLearner:
        learner = RemoteLearner.start(
            find_learner(run.learner), run.params, schema, run.relation,
            private=private_files(run, data_dir, ledger), patience=patience)
        started.append(learner)
        return learner

    try:
        yield make
    finally:
        for learner in started:
            learner.close()


def private_files(run: RunFile, data_dir: str | None, ledger: str | None) -> tuple[Path, ...]:
    """What the learner's process must not be able to read, wherever it lies."""
    names = [run.table]
    if run.evaluate is not None and run.evaluate.test is not None:
        names.append(run.evaluate.test)
    there = [run.data_path(name, data_dir, must_exist=False) for name in names]
    book = run.ledger_path(ledger)
    return (run.path, *([book] if isinstance(book, Path) else []), *there)
