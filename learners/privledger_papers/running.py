"""Fitting what is not known yet: one job a cell, form and repetition, in processes of their own."""

from __future__ import annotations

import math
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path

import numpy as np
from attrs import frozen

from privledger_papers.forms import Form, Refused
from privledger_papers.protocols import Protocol, protocol_of, split
from privledger_papers.published_cells import Cell
from privledger_papers.results import VERSION, Result, Results
from privledger_papers.scores import measured, of_one_class
from privledger_papers.systems import default, printed, promise
from privledger_papers.tasks import MissingData, Table, load

QUICK = 2
ENOUGH, FAST = 10, 2.0
"""Fits that every cell is due whose fits take fewer seconds of CPU than that."""
DERIVED = ("mean_rank",)
"""Metrics that follow from other cells."""


@frozen
class Job:
    """One fit that a row needs; the default's are shared by all systems of a task."""

    cell: Cell
    form: str
    seed: int
    repetition: int

    @property
    def key(self) -> tuple[str, str, int, int, str]:
        """As of its result."""
        return named(self.cell, self.form), self.form, self.seed, self.repetition, VERSION


def named(cell: Cell, form: str) -> str:
    """Under which name results of a form of a cell are kept."""
    if form == "printed":
        return cell.key
    at = "" if cell.epsilon is None else f"@{cell.epsilon:g}"
    return f"{cell.table}/{promise(cell)}/{cell.data}{at}/{cell.metric}"


def repetitions_of(cell: Cell, most: int | None) -> int:
    """Fits of one form: the paper's, or fewer where fewer are asked for."""
    own = protocol_of(cell).repetitions
    return own if most is None else min(own, most)


def jobs(cells: Iterable[Cell], most: int | None, seed: int) -> Iterator[Job]:
    """Everything that the rows of some cells need, each fit once, first repetitions first."""
    cells = [cell for cell in cells if cell.metric not in DERIVED]
    seen = set()
    for repetition in range(max((repetitions_of(cell, most) for cell in cells), default=0)):
        for cell in cells:
            if repetition >= repetitions_of(cell, most):
                continue
            for form in ("printed", "default"):
                job = Job(cell, form, seed, repetition)
                if job.key not in seen:
                    seen.add(job.key)
                    yield job


def form_of(job: Job, table: Table) -> Form | Refused | None:
    """What a job fits; None where its cell has no default."""
    return printed(job.cell, table) if job.form == "printed" else default(job.cell, table)


@lru_cache(maxsize=2)
def _table(paper: str, data: str, folder: Path) -> Table:
    return load(paper, data, folder)


def one(job: Job, folder: Path) -> Result | None:
    """Fit and measure; None where there is nothing to fit, or no data."""
    cell, protocol = job.cell, protocol_of(job.cell)
    try:
        table = _table(cell.paper, cell.data, folder)
    except MissingData:
        return None
    form = form_of(job, table)
    if not isinstance(form, Form):
        return None
    train, test = split(protocol, len(table.y), job.seed, job.repetition)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # public tables, fitted many times
        fit(form, table, train, protocol)
        score = measured(cell, table, form.learner, *table.rows(test))
    if not math.isfinite(score):
        raise ValueError(f"{cell.key}: the score is not a number")
    return _result(job, form, score, protocol, time.process_time() - start,
                   of_one_class(cell, score, table.y[test]))


def fit(form: Form, table: Table, train: np.ndarray, protocol: Protocol) -> None:
    """Fit as the protocol says: with few labels, or with rows that arrive late."""
    learner = form.learner
    if protocol.labelled < 1:
        known, bare = np.split(train, [round(protocol.labelled * len(train))])
        if form.unlabelled:
            learner.fit(*table.rows(known), table.rows(bare)[0])  # type: ignore[call-arg]
        else:
            learner.fit(*table.rows(known))
    elif form.arriving:
        early, late = np.split(train, [round(0.9 * len(train))])
        learner.partial_fit(*table.rows(early))  # type: ignore[attr-defined]
        learner.partial_fit(*table.rows(late))  # type: ignore[attr-defined]
    else:
        learner.fit(*table.rows(train))


def _result(job: Job, form: Form, score: float, protocol: Protocol, seconds: float,
            one_class: bool | None) -> Result:
    charge, receipt = None, ""
    if form.private:
        ledger = form.learner.ledger_  # type: ignore[attr-defined]  # every private learner has it
        charge, receipt = float(ledger.spent), str(ledger.receipt.head)
    return Result(named(job.cell, job.form), job.form, job.seed, job.repetition, VERSION, score,
                  charge, protocol.delta if form.private else 0.0, receipt,
                  type(form.learner).__name__, round(seconds, 3), form.note, one_class)


def run(cells: Iterable[Cell], folder: Path, results: Results, *, most: int | None, seed: int,
        workers: int, said: Callable[[Job, Result | None, int, int], None]) -> None:
    """Run what `results` does not hold yet; each result is kept as soon as it is there.

    What is known to be slow comes last, so a run that is stopped leaves the most cells with
    `ENOUGH` fits.

    Args:
        most: repetitions at most; None for each paper's own number.
        said: told of each job that ended: the job, its result, how many are done, of how many.
    """
    there = [job for job in jobs(cells, most, seed) if job.key not in results]
    slow = {(one.cell, one.form) for one in results.all() if one.seconds >= FAST}
    there.sort(key=lambda job: ((named(job.cell, job.form), job.form) in slow,
                                job.repetition, job.cell.paper, job.cell.data))
    for number, (job, result) in enumerate(_done(there, folder, workers), 1):
        if result is not None:
            results.add(result)
        said(job, result, number, len(there))


def _done(there: list[Job], folder: Path,
          workers: int) -> Iterator[tuple[Job, Result | None]]:
    if workers <= 1 or len(there) <= 1:
        for job in there:
            yield job, one(job, folder)
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the processes share the cores already
    os.environ["PYTHONSAFEPATH"] = "1"  # they load no module of the current folder
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        waiting: dict[Future[Result | None], Job] = {
            pool.submit(one, job, folder): job for job in there}
        try:
            for future in as_completed(waiting):
                yield waiting[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
