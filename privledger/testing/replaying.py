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
from attrs import evolve, frozen
from numpy.typing import NDArray

from privledger.errors import PrivledgerError
from privledger.guard.inside import Observer, _observing
from privledger.noise.seeded import repeatable
from privledger.questions import CustomScores, feature_scores
from privledger.questions.blocks import CustomValue
from privledger.tables.chunk import Rows
from privledger.tables.schema import Schema
from privledger.testing.examples import Example, examples_for, same_records
from privledger.testing.fitting import Way, fail, held_as, outputs, relation_of, ways
from privledger.testing.structure import table_probes
from privledger.testing.taint import walk

ANSWERS, ALONE = "model-follows-answers", "rows-are-treated-alone"
SEED, MOST_LOOKS = 20_11, 24


@frozen(eq=False)
class _Asked:
    """A custom function's rows, and what it said of them."""

    rows: Rows
    said: NDArray[np.float64]


class Tape(Observer):
    """What releases said, in order. The first fit records; later ones are told the same.

    Attributes:
        other: releases whose custom functions say other things than in the first fit, of the
            same rows.
    """

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.functions: list[list[_Asked]] = []
        self.asking: list[tuple[CustomValue, _Asked]] = []
        self.place = 0
        self.recording = True
        self.other: set[int] = set()

    def rewind(self) -> None:
        """From now on repeat, from the start."""
        self.place, self.recording, self.other, self.asking = 0, False, set(), []

    def released(self, granted: object, release: Callable[..., object], mechanism: object,
                 query: object, **named: object) -> object:
        return self.says(release(mechanism, query, **named))

    def says(self, answer: Any) -> Any:
        """The recorded answer in place of `answer`; what goes beyond the record, as it is."""
        asked, self.asking = self.asking, []
        self.place += 1
        if self.recording:
            self.functions.append([one for _, one in asked])
            self.answers.append(copy.deepcopy(answer))
            return answer
        if self.place > len(self.answers):
            return answer
        first = self.functions[self.place - 1]
        # As many calls, or a part of the table is empty now: then nobody can tell which is which.
        if len(first) == len(asked):
            for (value, own), one in zip(asked, first, strict=True):
                if _says_another(value, one, own):
                    self.other.add(self.place)
        return copy.deepcopy(self.answers[self.place - 1])


def _says_another(value: CustomValue, first: _Asked, own: _Asked) -> bool:
    """Whether it says other things of the first fit's rows than then."""
    try:
        found = not np.array_equal(_VALUES(value, first.rows), first.said)
        # What it keeps of rows is to be of its own again, the last as well as the first time.
        _VALUES(value, own.rows)
    except PrivledgerError:
        return True
    return found


_VALUES = CustomValue.values


@contextmanager
def answered_by(tape: Tape) -> Iterator[None]:
    """Every release of this process happens, and then says what `tape` says."""

    def values(self: CustomValue, rows: Rows) -> NDArray[np.float64]:
        said = _VALUES(self, rows)
        tape.asking.append((self, _Asked(rows, said.copy())))
        return said

    with held_as(CustomValue, values=values), _observing(tape):
        yield


def others_of(given: Example, relation: str) -> dict[str, Example]:
    """Tables of the same schema with other records; under `replace_label`, with other labels.

    One of them has equal records, where it may only three: no other extremes, order of size,
    missing cells, sets of categories or powers of two of a row count.
    """
    target = given.schema.target
    y = given.y.copy()
    known = np.array([value is not None and value == value for value in y])
    if target.kind == "numeric":
        y[known] = target.lower + target.upper - y[known].astype(float)
    else:
        labels = [str(label) for label in target.categories]
        turned = [labels.index(str(label)) + 1 for label in y[known]]
        y[known] = target.labels[np.array(turned) % len(labels)]
    found = {"other targets": evolve(given, y=y)}
    if relation == "replace_label":
        return found
    mirrored = evolve(given, y=y, X={c.name: _mirrored(c, given.X[c.name])
                                     for c in given.schema.features})
    middle = (target.lower + 0.37 * (target.upper - target.lower) if target.kind == "numeric"
              else target.categories[0])
    fewer = relation == "add_remove" and given.n_records > 37
    equal = same_records(given, 3 if fewer else given.n_records, middle)
    if fewer:
        return found | {"fewer, other records": mirrored.take(np.arange(given.n_records - 37)),
                        "few, equal records": equal}
    return found | {"other records": mirrored, "equal records": equal}


def _mirrored(column: Any, values: NDArray[Any]) -> NDArray[Any]:
    """Other cells of the column, with other extremes."""
    if column.kind == "numeric":
        span = column.upper - column.lower
        return np.asarray(column.lower + 0.05 * span + 0.85 * (column.upper - values.astype(float)))
    keys = [str(category) for category in column.categories]
    return np.array([column.categories[(keys.index(str(v)) + 1) % len(keys)]
                     if str(v) in keys else v for v in values], dtype=values.dtype)


def replay_facts(fitted: Any, probes: Any) -> dict[str, Any]:
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


def check_model_follows_answers(learner: Any, example: Example | None = None) -> None:
    """With the same answers, fits on tables that share no record give the same model.

    Guarded and on a plain table, in five fits each; and custom functions say the same of the
    same rows: none of them carries what another one saw. What is compared is what repeats:
    public randomness is seeded, and what differs between two fits on one table is left out.

    Not seen: what a model keeps where neither its attributes, its pickle nor its outputs on a
    grid of probes lead; what shows on other records than the kit's only, or in another kind of
    table than columns by name; a spoil with noise of the learner's own on it, which no two
    fits share; what a learner that recognises the kit does not do.
    """
    given = examples_for(learner, example)[0]
    probes = table_probes(given)
    for way in ways(learner, random_state=7):
        tape = Tape()
        with answered_by(tape):
            with repeatable(SEED):
                first = replay_facts(way.fit(given), probes)
            again = _replayed(way, tape, given, probes)
            steady = {path: value for path, value in first.items() if again.get(path) == value}
            restless = set(tape.other)
            for name, table in others_of(given, relation_of(learner)).items():
                found = _replayed(way, tape, table, probes)
                where = f"{way.name}, with {name} and the same answers"
                if tape.place != len(tape.answers):
                    fail(ANSWERS, f"{where}, the fit asked another number of questions")
                if tape.other - restless:
                    fail(ANSWERS, f"{where}, the custom function of release "
                                  f"{min(tape.other - restless)} says other things of the same "
                                  "rows: it carries what it did not get from the ledger")
                for path, value in steady.items():
                    if found.get(path) != value:
                        fail(ANSWERS, f"{where}, {path} of {type(learner).__name__} is another: "
                                      "it came from the records past the ledger")


def _replayed(way: Way, tape: Tape, table: Example, probes: Any) -> dict[str, Any]:
    tape.rewind()
    with repeatable(SEED):
        return replay_facts(way.fit(table), probes)


@contextmanager
def watched_functions(notice: Callable[[str], None]) -> Iterator[None]:
    """Every custom function is asked again, about parts of its table, and must say the same.

    Custom scores are asked about another order, where they must stay, and about tables without
    one record, where they may move as far as they say.
    """
    real, looks, scores = CustomValue.values, 0, feature_scores._custom

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

    def custom(asked: CustomScores, schema: Schema, rows: Rows) -> NDArray[np.float64]:
        nonlocal looks
        whole = scores(asked, schema, rows)
        looks += 1
        if looks <= MOST_LOOKS:
            for wrong in _scores_off(asked, whole, rows.n,
                                     lambda places: scores(asked, schema, rows.subset(places))):
                notice(wrong)
        return whole

    with held_as(CustomValue, values=values), held_as(feature_scores, _custom=custom):
        yield


def _scores_off(asked: CustomScores, whole: NDArray[np.float64], rows: int,
                of: Callable[[NDArray[np.intp]], NDArray[np.float64]]) -> Iterator[str]:
    """What custom scores say of parts of their table that they should not."""
    every, room = np.arange(rows), 1e-9 * (asked.sensitivity + np.abs(whole).max(initial=0.0))
    low, high = (end * asked.sensitivity for end in asked.change)
    try:
        if (np.abs(of(every[::-1]) - whole) > room).any():
            yield "for scores says other things about the same rows in another order"
        for place in sorted({0, rows // 3, rows // 2, rows - 1} & set(range(rows))):
            came = whole - of(np.delete(every, place))
            if (came < low - room).any() or (came > high + room).any():
                yield "for scores moves farther with one record than its sensitivity"
    except PrivledgerError:
        yield "for scores fails on a part of its table"


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

    The functions of `CustomScores`, which are about columns, say the same in another order, and
    move with one record no farther than they say.

    Not seen: a function of the whole table that agrees on all of these parts of the kit's
    example.
    """
    noticed: list[str] = []
    for turn, given in enumerate(examples_for(learner, example)):
        for way in ways(learner)[: 2 if turn == 0 else 1]:
            with watched_functions(noticed.append):
                way.fit(given)
            if noticed:
                fail(ALONE, f"{way.name}, a custom function {noticed[0]}: its sensitivity is not "
                            "what the query says")
