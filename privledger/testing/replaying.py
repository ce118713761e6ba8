"""Checks of what a model is made of: answers alone, asked by functions of single rows.

A fit is repeated on another table while every release still happens and then says what it said
the first time. Whatever differs in the end came from the records past the ledger: a number that
a custom function kept, a look at a plain table, a choice by an exact score.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import evolve
from numpy.typing import NDArray

from privledger.errors import PrivledgerError
from privledger.guard import Session
from privledger.noise.seeded import repeatable
from privledger.questions.blocks import CustomValue
from privledger.tables.chunk import Rows
from privledger.testing.examples import Example, examples_for
from privledger.testing.failing import fail
from privledger.testing.fitting import Way, outputs, relation_of, ways
from privledger.testing.structure import table_probes
from privledger.testing.taint import walk

ANSWERS, ALONE = "answers-alone-decide", "rows-are-treated-alone"
SEED, MOST_LOOKS = 20_11, 24


class Tape:
    """What releases said, in order. The first fit records; later ones are told the same."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.place = 0
        self.recording = True

    def rewind(self) -> None:
        """From now on repeat, from the start."""
        self.place, self.recording = 0, False

    def says(self, answer: Any) -> Any:
        """The recorded answer in place of `answer`; what goes beyond the record, as it is."""
        self.place += 1
        if self.recording:
            self.answers.append(copy.deepcopy(answer))
            return answer
        known = self.place <= len(self.answers)
        return copy.deepcopy(self.answers[self.place - 1]) if known else answer


@contextmanager
def answered_by(tape: Tape) -> Iterator[None]:
    """Every release of this process happens, and then says what `tape` says."""
    real = Session.release

    def release(self: Session, *given: Any, **named: Any) -> Any:
        return tape.says(real(self, *given, **named))

    Session.release = release  # type: ignore[method-assign]
    try:
        yield
    finally:
        Session.release = real  # type: ignore[method-assign]


def others_of(given: Example, relation: str) -> dict[str, Example]:
    """Tables of the same schema with other records; under `replace_label`, with other labels."""
    target = given.schema.target
    y = given.y.copy()
    known = np.array([value is not None and value == value for value in y])
    if target.kind == "numeric":
        y[known] = target.lower + target.upper - y[known].astype(float)
    else:
        labels = [str(label) for label in target.categories]
        turned = [labels.index(str(label)) + 1 for label in y[known]]
        y[known] = np.array(target.categories)[np.array(turned) % len(labels)]
    found = {"other targets": evolve(given, y=y)}
    if relation == "replace_label":
        return found
    mirrored = evolve(given, y=y, X={c.name: _mirrored(c, given.X[c.name])
                                     for c in given.schema.features})
    if relation == "add_remove" and given.n_records > 37:
        return found | {"fewer, other records": mirrored.take(np.arange(given.n_records - 37))}
    return found | {"other records": mirrored}


def _mirrored(column: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Other cells of the column, none of them the largest again."""
    if column.kind == "numeric":
        return np.asarray(column.lower + 0.9 * (column.upper - values.astype(float)))
    keys = [str(category) for category in column.categories]
    return np.array([column.categories[(keys.index(str(v)) + 1) % len(keys)]
                     if str(v) in keys else v for v in values], dtype=values.dtype)


def facts_of(fitted: Any, probes: Any) -> dict[str, Any]:
    """All that a fitted learner holds and says, comparable."""
    found: dict[str, Any] = {"its outputs": outputs(fitted, probes).tobytes()}
    for path, value in walk(fitted):
        plain = value.tobytes() if isinstance(value, np.ndarray | np.generic) else repr(value)
        found[path] = (found.get(path), plain)
    try:
        found["its pickle"] = pickle.dumps(fitted)
    except Exception:
        return found  # another check says that it must pickle
    return found


def check_answers_alone_decide(learner: Any, example: Example | None = None) -> None:
    """With the same answers, fits on tables that share no record give the same model.

    Guarded and on a plain table, in four fits each. What is compared is what repeats:
    public randomness is seeded, and what differs between two fits on one table is left out.

    Not seen: what a model keeps where neither its attributes, its pickle nor its outputs on a
    grid of probes lead; what shows on other records than the kit's only; what a learner that
    recognises the kit does not do.
    """
    given = examples_for(learner, example)[0]
    probes = table_probes(given)
    for way in ways(learner, random_state=7):
        tape = Tape()
        with answered_by(tape):
            with repeatable(SEED):
                first = facts_of(way.fit(given), probes)
            again = _replayed(way, tape, given, probes)
            steady = {path: value for path, value in first.items() if again.get(path) == value}
            for name, table in others_of(given, relation_of(learner)).items():
                found = _replayed(way, tape, table, probes)
                if tape.place != len(tape.answers):
                    fail(ANSWERS, f"{way.name}, with {name} and the same answers, the fit asked "
                                  "another number of questions")
                for path, value in steady.items():
                    if found.get(path) != value:
                        fail(ANSWERS, f"{way.name}, with {name} and the same answers, {path} of "
                                      f"{type(learner).__name__} is another: it came from the "
                                      "records past the ledger")


def _replayed(way: Way, tape: Tape, table: Example, probes: Any) -> dict[str, Any]:
    tape.rewind()
    with repeatable(SEED):
        return facts_of(way.fit(table), probes)


@contextmanager
def watched_functions(notice: Callable[[str], None]) -> Iterator[None]:
    """Every custom function is asked again, about parts of its table, and must say the same."""
    real, looks = CustomValue.values, 0

    def values(self: CustomValue, rows: Rows) -> NDArray[np.float64]:
        nonlocal looks
        whole = real(self, rows)
        looks += 1
        if looks <= MOST_LOOKS:
            for name, places in _parts_of(rows.n).items():
                try:
                    part = real(self, rows.subset(places))
                except PrivledgerError:
                    notice(f"fails on {name}")
                    continue
                if not np.array_equal(part, whole[places]):
                    notice(f"says other things about the same rows in {name}")
        return whole

    CustomValue.values = values  # type: ignore[method-assign]
    try:
        yield
    finally:
        CustomValue.values = real  # type: ignore[method-assign]


def _parts_of(rows: int) -> dict[str, NDArray[np.intp]]:
    """Subsets and orders that leave no row beside all others."""
    every = np.arange(rows)
    found = {"another order": every[::-1], "the first half": every[: (rows + 1) // 2],
             "the second half": every[rows // 2:], "every third row": every[::3]}
    singles = {f"a table of one row ({place})": every[place:place + 1]
               for place in sorted({0, rows // 2, rows - 1}) if place >= 0}
    return {name: places for name, places in (found | singles).items() if len(places)}


def check_rows_are_treated_alone(learner: Any, example: Example | None = None) -> None:
    """A custom function says of a row the same in every table: halves, one row, another order.

    Not seen: a function of the whole table that agrees on all of these parts of the kit's
    example; the functions of `CustomScores`, which are about columns.
    """
    noticed: list[str] = []
    for turn, given in enumerate(examples_for(learner, example)):
        for way in ways(learner)[: 2 if turn == 0 else 1]:
            with watched_functions(noticed.append):
                way.fit(given)
            if noticed:
                fail(ALONE, f"{way.name}, a custom function {noticed[0]}: its sensitivity is not "
                            "what the query says")
