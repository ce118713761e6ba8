"""Checks of what a model is made of: answers alone, asked by functions of single rows.

A fit is repeated on another table while every release still happens and then says what it said
the first time. Whatever differs in the end came from the records past the ledger: a number that
a custom function kept, a look at a plain table, a choice by an exact score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import PrivledgerError
from privledger.guard.inside import Observer, _observing
from privledger.noise.seeded import generator
from privledger.questions import CustomScores, feature_scores
from privledger.questions.blocks import CustomValue
from privledger.tables.chunk import Rows
from privledger.tables.schema import Schema
from privledger.testing.examples import Example, examples_for, others_of
from privledger.testing.fitting import fail, relation_of, ways
from privledger.testing.lockstep.kept import parted
from privledger.testing.lockstep.replay import Fitting, replays, steady_of

ANSWERS, ALONE = "model-follows-answers", "rows-are-treated-alone"
SEED, MOST_LOOKS = 20_11, 24
_VALUES = CustomValue.values


@frozen(eq=False)
class _Asked:
    """A custom function's rows, and what it said of them."""

    rows: Rows
    said: NDArray[np.float64]

    def otherwise(self, value: CustomValue, own: _Asked) -> bool:
        """Whether `value`, which was asked of `own` rows, says other things of these."""
        try:
            found = not np.array_equal(_VALUES(value, self.rows), self.said)
            # What it keeps of rows is to be of its own again, the last as well as the first time.
            _VALUES(value, own.rows)
        except PrivledgerError:
            return True
        return found


class _Functions(Observer):
    """Custom functions of a first fit; and what those of a later one say of the same rows.

    Attributes:
        other: releases whose custom functions say other things than in the first fit.
    """

    def __init__(self) -> None:
        self.first: list[list[_Asked]] = []
        self.asked: list[tuple[CustomValue, _Asked]] = []
        self.place, self.other = 0, set[int]()

    def again(self) -> None:
        """From now on compare, from the start."""
        self.place, self.other = 0, set()

    def released(self, granted: object, release: Callable[..., object], mechanism: object,
                 query: object, **named: object) -> object:
        self.asked = []
        answer = release(mechanism, query, **named)
        if self.place == len(self.first):
            self.first.append([one for _, one in self.asked])
        first = self.first[self.place]
        self.place += 1
        # As many calls, or a part of the table is empty now: then none can tell which is which.
        if len(first) == len(self.asked) and any(
                one.otherwise(value, own)
                for one, (value, own) in zip(first, self.asked, strict=True)):
            self.other.add(self.place)
        return answer

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Every custom function that is asked in this block is looked at."""

        def values(value: CustomValue, rows: Rows) -> NDArray[np.float64]:
            said = _VALUES(value, rows)
            self.asked.append((value, _Asked(rows, said.copy())))
            return said

        with patch.multiple(CustomValue, values=values), _observing(self):
            yield


def check_model_follows_answers(learner: Any, example: Example | None = None) -> None:
    """With the same answers, fits on tables that share no record give the same model.

    Guarded and on a plain table, in five fits each; questions, charges and histories are the same,
    too. Custom functions say the same of the same rows: none of them carries what another one saw.
    What is compared of a model is what repeats: public randomness is seeded, and what differs
    between two fits on one table is left out.

    Not seen: what a model keeps where neither its attributes, its pickle nor its outputs on a
    grid of probes lead; what shows on other records than the kit's only, or in another kind of
    table than columns by name; a spoil with noise of the learner's own on it, which no two
    fits share; what a learner that recognises the kit does not do.
    """
    given, relation = examples_for(learner, example)[0], relation_of(learner)
    for way in ways(learner, random_state=7):
        fitting = Fitting(way.learner, relation, way.plain, SEED, "private")
        functions = _Functions()
        with functions.watching():
            real, replayed = replays(fitting, given, generator(SEED))
            if real.failed:
                fail(ANSWERS, f"{way.name}, the fit on a table of the kit fails: {real.failed}")
            functions.again()
            steady, restless = steady_of(real, replayed(given, shared=False)), functions.other
            for name, table in others_of(given, relation).items():
                functions.again()
                found = replayed(table, shared=False)
                where = f"{way.name}, with {name} and the same answers"
                for one in parted(real, found, where, steady):
                    fail(ANSWERS, one.why)
                if functions.other - restless:
                    fail(ANSWERS, f"{where}, the custom function of release "
                                  f"{min(functions.other - restless)} says other things of the "
                                  "same rows: it carries what it did not get from the ledger")


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

    with patch.multiple(CustomValue, values=values), patch.multiple(feature_scores, _custom=custom):
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
