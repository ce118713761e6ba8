"""Fits that ran: one line each in a file that only grows."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from attrs import asdict, frozen

VERSION = "0.1.0"
"""Of the fits that count. Raised by hand, when a version fits otherwise: not by every release."""


@frozen
class Result:
    """One fit.

    Attributes:
        cell: key of the cell, or of the task and epsilon of a default. form: `printed` or
            `default`.
        seed, repetition: which split. version: of the package that fits so.
        score: in the cell's metric. charge: epsilon at `delta` by the fit's own ledger, whose
            head is `receipt`; None and empty where nothing is private.
        learner: what ran. seconds: of CPU.
        note: how it differs from what is printed.
        one_class: whether its score is that of always answering one and the same class; None
            where the metric is no share of right answers.
    """

    cell: str
    form: str
    seed: int
    repetition: int
    version: str
    score: float
    charge: float | None
    delta: float
    receipt: str
    learner: str
    seconds: float
    note: str = ""
    one_class: bool | None = None

    @property
    def key(self) -> tuple[str, str, int, int, str]:
        """What makes it the same fit."""
        return self.cell, self.form, self.seed, self.repetition, self.version


class Results:
    """The file. A last line that was torn off by a crash is dropped; any other is an error."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._kept: dict[tuple[str, str, int, int, str], Result] = {}
        if path.exists():
            self._read()

    def _read(self) -> None:
        text = self.path.read_text("utf-8")
        whole, _, torn = text.rpartition("\n")
        for number, line in enumerate(whole.splitlines(), 1):
            try:
                one = Result(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise ValueError(f"{self.path}, line {number}: no result ({error})") from None
            self._kept.setdefault(one.key, one)
        if torn:  # a crash: that fit runs again
            with self.path.open("r+", encoding="utf-8") as file:
                file.truncate(len((whole + "\n").encode()) if whole else 0)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def add(self, result: Result) -> None:
        """Keep a result; it is on disk when this returns. One that is there stays."""
        if result.key in self._kept:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(result), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._kept[result.key] = result

    def of(self, cell: str, form: str, seed: int) -> list[Result]:
        """All repetitions of one form of a cell, in order, of this version."""
        return sorted((one for one in self._kept.values() if (one.cell, one.form, one.seed,
                       one.version) == (cell, form, seed, VERSION)), key=lambda one: one.repetition)

    def all(self) -> Iterable[Result]:
        """Every result that is kept."""
        return self._kept.values()
