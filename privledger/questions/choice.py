"""Choice: which cut, or which feature, in every leaf of a grown tree. Holds no rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.carriers import Copier, Describer, Reader
from privledger.facts.plain import fixed, refuse
from privledger.facts.table import TableFacts
from privledger.facts.values import Json, array_in, array_out, table, text
from privledger.questions.cells import Cells
from privledger.questions.derivation import derivation_of
from privledger.questions.grown import NO_TEST, GrownCells
from privledger.questions.score import Gradient
from privledger.questions.split_scores import Bound
from privledger.rounding import non_negative, number, whole_numbers

SCORES = ("rank", "squared_error", "gain", "gini", "entropy")
AMONG = ("cuts", "features", "both")


@frozen(eq=False)
class Picked:
    """What was chosen in every leaf, shape (leaves,) each.

    Attributes:
        feature: chosen feature, -1 where the leaf had no candidate (a public fact).
        cut: chosen cut; -1 where only features were chosen.
    """

    feature: NDArray[np.int32]
    cut: NDArray[np.int32]


def _features(value: Any) -> Any:
    if value is None:
        return None
    return fixed(whole_numbers("features", value, least=NO_TEST))


def _allowed(value: Any) -> Any:
    if value is None:
        return None
    held = np.asarray(value)
    if held.ndim != 2 or held.dtype.kind != "b":
        raise InvalidValue("allowed", str(held.dtype), "True or False per leaf and feature")
    return fixed(held.copy())


@frozen(eq=False)
class Choice:
    """A question for every leaf of `cells`: which candidate has a high score.

    Attributes:
        data: which records it is asked of: a handle's `Derivation`.
        cells: the tree whose leaves are asked; candidates lie inside their boxes.
        score: `rank` (medians), `squared_error` (of classes if `labels` is given, else of the
            numeric target in [0, 1]), `gain` (of `gradient`), `gini` or `entropy` (fall of the
            impurity of `labels`, normalised to [0, 1]).
        among: `cuts` of the one feature in `features`, `features` (each by its best cut), or
            `both` at once; then every feature has the same measure.
        features: one feature per leaf, for `cuts`; -1 asks nothing of a leaf.
        allowed: for `features` and `both`: which features compete in which leaf, a public
            choice of shape (leaves, features); None for all.
        labels: cells whose numbers are the classes.
        gradient: block of gradients, width one; `penalty` is added to every side's count.
        what: a few public words for the ledger.
    """

    data: Any = field(converter=derivation_of)
    cells: GrownCells
    score: str
    among: str = "cuts"
    features: Any = field(default=None, converter=_features)
    labels: Cells | None = None
    gradient: Gradient | None = None
    penalty: float = 0.0
    allowed: Any = field(default=None, converter=_allowed)
    what: str = "choice of a cut"

    def __attrs_post_init__(self) -> None:
        if type(self.cells) is not GrownCells:
            raise InvalidValue("cells", type(self.cells).__name__, "a grown tree")
        if self.score not in SCORES:
            raise InvalidValue("score", self.score, f"one of {', '.join(SCORES)}")
        if self.among not in AMONG:
            raise InvalidValue("among", self.among, f"one of {', '.join(AMONG)}")
        if (self.features is not None) != (self.among == "cuts"):
            raise InvalidValue("features", self.among, "given exactly for choices among cuts")
        if self.features is not None:
            self._check_features()
        if self.allowed is not None and (self.among == "cuts" or self.allowed.shape != (
                self.cells.count, len(self.cells.bins.schema.features))):
            raise InvalidValue("allowed", self.allowed.shape, "one flag per leaf and feature, "
                               "for choices among features or both")
        if (self.gradient is not None) != (self.score == "gain"):
            raise InvalidValue("gradient", self.score, "given exactly for the gain")
        if self.labels is None and self.score in ("gini", "entropy"):
            raise InvalidValue("labels", None, "given for impurities")
        if self.labels is not None and self.score in ("rank", "gain"):
            raise InvalidValue("labels", self.score, "None for this score")
        if not non_negative("penalty", self.penalty) <= 1e6:
            raise InvalidValue("penalty", self.penalty, "from 0 to 10^6")

    def _check_features(self) -> None:
        count = len(self.cells.bins.schema.features)
        if (self.features.shape != (self.cells.count,) or (self.features < NO_TEST).any()
                or (self.features >= count).any()):
            raise InvalidValue("features", self.features.shape, "one feature, or -1, per leaf")

    @property
    def asserted(self) -> bool:
        """Never: every score has a derived bound."""
        return False

    @property
    def label(self) -> str:
        """What the history says was asked."""
        return self.what

    @property
    def cell_count(self) -> int:
        """Leaves that are asked at once, each with a choice of its own."""
        return self.cells.count

    @property
    def bound(self) -> Bound:
        """How far a record that comes or goes moves the score (docs/proofs/split-scores.md)."""
        if self.score == "squared_error":
            return Bound(2.0 if self.labels is not None else 1.0, (-1.0, 0.0))
        if self.score == "gain":
            return Bound(3.0, (-1.0, 1 / 3))
        return Bound(1.0, (-1.0, 1.0))

    def sensitivity(self, relation: str) -> float:
        """Bound on a neighbour's change, with room for rounding.

        Replacing a record, or moving it from leaf to leaf, is a removal and an arrival: twice.
        """
        classes = 2 if self.labels is None else self.labels.count
        room = 1 + (classes + 4) * 2.0**-20
        return self.bound.sensitivity * room * (1 if relation == "add_remove" else 2)

    def own(self, to: Copier) -> Choice:
        """As `Question.own`."""
        gradient = self.gradient
        return Choice(to.derivation(self.data), to.shared(self.cells, GrownCells), self.score,
                      self.among, self.features,
                      None if self.labels is None else to.cells(self.labels),
                      None if gradient is None else to.part(gradient, Gradient),
                      self.penalty, self.allowed, self.what)

    def check(self, facts: TableFacts) -> None:
        """As `Question.check`: tree, labels and gradient fit the table."""
        self.cells.check(facts)
        if self.labels is not None:
            check_classes(self.labels, facts)
        if self.gradient is not None:
            if self.gradient.width != 1:
                refuse(self.gradient)
            self.gradient.check(facts)
        if self.score == "squared_error" and self.labels is None:
            facts.column("", "numeric")
        self.data.check(facts)
        self.data.check_labelled(facts, self.score != "rank", "choose by the target on")

    def to_wire(self, to: Describer) -> Json:
        """As `Question.to_wire`."""
        return {
            "cells": to.object(self.cells), "score": self.score, "among": self.among,
            "features": None if self.features is None else array_out(self.features),
            "allowed": None if self.allowed is None else array_out(
                self.allowed.astype(np.int32)),
            "labels": None if self.labels is None else to.object(self.labels),
            "gradient": None if self.gradient is None else self.gradient.to_wire(to),
            "penalty": float(self.penalty), "what": str(self.what),
        }

    @classmethod
    def from_wire(cls, body: Json, reader: Reader) -> Choice:
        """As `Question.from_wire`."""
        features, labels, gradient = (body.get(key) for key in ("features", "labels", "gradient"))
        allowed = body.get("allowed")
        return cls(
            reader.handle(body.get("data")), reader.object(body.get("cells"), GrownCells),
            text(body, "score"), text(body, "among"),
            None if features is None else array_in(features, "i"),
            None if labels is None else reader.cells(labels),
            None if gradient is None else Gradient.from_wire(table(gradient), reader),
            number("penalty", body.get("penalty")),
            None if allowed is None else array_in(allowed, "i").astype(np.bool_),
            text(body, "what", 200))

    def __repr__(self) -> str:
        return f"Choice({self.what!r}, {self.cell_count} leaves)"


def check_classes(labels: Cells, facts: TableFacts) -> None:
    """Raise unless every record's class follows from the record alone, and fits the table."""
    if not labels.by_record:
        refuse(labels)
    labels.check(facts)


@frozen(eq=False)
class LabelChoice:
    """A question for every leaf of `cells`: which class has many records.

    A class's score is its count in the leaf, so it only rises as a record comes. Every class
    of `labels` is a candidate, whether it occurs or not.

    Attributes:
        data: which records it is asked of: a handle's `Derivation`.
        cells: the tree whose leaves are asked.
        labels: cells whose numbers are the classes.
        what: a few public words for the ledger.
    """

    data: Any = field(converter=derivation_of)
    cells: GrownCells
    labels: Cells
    what: str = "choice of a label"

    def __attrs_post_init__(self) -> None:
        if type(self.cells) is not GrownCells:
            raise InvalidValue("cells", type(self.cells).__name__, "a grown tree")

    @property
    def asserted(self) -> bool:
        """Never: the bound is derived."""
        return False

    @property
    def label(self) -> str:
        """What the history says was asked."""
        return self.what

    @property
    def cell_count(self) -> int:
        """Leaves that are asked at once, each with a choice of its own."""
        return self.cells.count

    @property
    def among(self) -> str:
        """What is chosen among, in the words of the broker and of error messages."""
        return "labels"

    @property
    def bound(self) -> Bound:
        """A count: docs/proofs/split-scores.md."""
        return Bound(1.0, (0.0, 1.0))

    def sensitivity(self, relation: str) -> float:
        """Counts are exact: one, or two for a removal and an arrival."""
        return 1.0 if relation == "add_remove" else 2.0

    def own(self, to: Copier) -> LabelChoice:
        """As `Question.own`."""
        return LabelChoice(to.derivation(self.data), to.shared(self.cells, GrownCells),
                           to.cells(self.labels), self.what)

    def check(self, facts: TableFacts) -> None:
        """As `Question.check`: tree and labels fit the table."""
        self.cells.check(facts)
        check_classes(self.labels, facts)
        self.data.check(facts)
        self.data.check_labelled(facts, True, "choose by the target on")

    def to_wire(self, to: Describer) -> Json:
        """As `Question.to_wire`."""
        return {"cells": to.object(self.cells), "labels": to.object(self.labels),
                "what": str(self.what)}

    @classmethod
    def from_wire(cls, body: Json, reader: Reader) -> LabelChoice:
        """As `Question.from_wire`."""
        return cls(reader.handle(body.get("data")), reader.object(body.get("cells"), GrownCells),
                   reader.cells(body.get("labels")), text(body, "what", 200))

    def __repr__(self) -> str:
        return f"LabelChoice({self.what!r}, {self.cell_count} leaves)"
