"""FeatureChoice: which features of a table have a high score. Holds no rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privledger.errors import DataError, InvalidValue, SchemaError, UnsupportedNode
from privledger.graph.selection import TopK
from privledger.questions.feature_scores import (
    CustomScores,
    ReleasedScores,
    Sketch,
    merged_of,
    scores_of,
    sketch_of,
)
from privledger.questions.order_keys import WHOLE_WEIGHT
from privledger.questions.question import Bound, Choose
from privledger.questions.votes import MOST_PRODUCTS, Votes, columns_in, fits_sums
from privledger.rounding import count, up
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts
from privledger.tables.schema import Schema

FEATURE_SCORES = ("agreement", "rank", "correlation", "votes", "custom")
MOST_CLASSES = 64
_ROOM = 1 + 2.0**-20


@frozen(eq=False)
class ScoreName:
    """Name of one question's scores in the guard's cache: k draws compute them once."""


def _weights(value: Iterable[Any]) -> tuple[int, ...]:
    return tuple(count("weights", one, most=WHOLE_WEIGHT) for one in value)


def _positions(value: Iterable[Any]) -> tuple[int, ...]:
    return tuple(sorted({count("excluded", place, least=0) for place in value}))


@frozen(eq=False, repr=False)
class FeatureChoice(Choose):
    """Which of the handle's features have a high score.

    Answered by `TopK` (a set of k), `Exponential` or `PermuteAndFlip` (one feature).

    Attributes:
        data: as of every question; its schema's features are the candidates.
        score: `agreement`: the most records whose class a monotone function of the feature
            can tell. `rank`: |pairs in the same order - pairs in opposite order as the
            target| / records. `correlation`: |sum of products| after mapping feature and
            target to [-1, 1] by their public bounds. `votes` of `votes`; `custom`.
        excluded: positions of features that are no candidates; public, or released before.
        votes, custom: given exactly for those scores.
        weights: of `agreement`: what a record of each class counts, in 1024ths from 1 to 1024;
            public, or released before. Empty: each counts one.
    """

    score: str
    excluded: tuple[int, ...] = field(default=(), converter=_positions)
    votes: Votes | None = None
    custom: CustomScores | None = None
    what: str = "choice of features"
    key: ScoreName = field(factory=ScoreName, repr=False)
    weights: tuple[int, ...] = field(default=(), converter=_weights)
    by_person = True
    whole: ClassVar[int] = WHOLE_WEIGHT

    def __attrs_post_init__(self) -> None:
        if self.score not in FEATURE_SCORES:
            raise InvalidValue("score", self.score, f"one of {', '.join(FEATURE_SCORES)}")
        if (self.votes is not None) != (self.score == "votes"):
            raise InvalidValue("votes", self.score, "given exactly for votes")
        if (self.custom is not None) != (self.score == "custom"):
            raise InvalidValue("custom", self.score, "given exactly for custom scores")
        features = len(self.data.schema.features)
        if self.excluded and self.excluded[-1] >= features:
            raise InvalidValue("excluded", self.excluded[-1], "positions of the features")
        if len(self.excluded) >= features:
            raise InvalidValue("excluded", "every feature", "one candidate left")
        check_fits(self.score, self.data.schema)
        if self.weights and (self.score != "agreement" or len(self.weights) != len(
                self.data.schema.target.categories)):
            raise InvalidValue("weights", len(self.weights),
                               "one for each class, and of agreement only")

    def without(self, *features: int) -> FeatureChoice:
        """The same question without these features too. They must have been released."""
        return evolve(self, excluded=(*self.excluded, *features))

    @property
    def reasons(self) -> tuple[str, ...]:
        """Only custom scores: their bound is an unverified claim."""
        return () if self.custom is None else (self.custom.why,)

    @property
    def candidates(self) -> NDArray[np.int64]:
        """Positions of the features that may be chosen."""
        everything = np.arange(len(self.data.schema.features), dtype=np.int64)
        return np.delete(everything, np.array(self.excluded, dtype=np.int64))

    @property
    def bound(self) -> Bound:
        """How far a record that comes or goes moves a score (docs/proofs/feature-scores.md)."""
        if self.custom is not None:
            low, high = self.custom.change
            return Bound(self.custom.sensitivity, (low, high), room=_ROOM)
        return evolve(self.bound_of(self.score, self.data.schema), room=_ROOM)

    @staticmethod
    def bound_of(score: str, schema: Schema) -> Bound:
        """The same for a score of known kind, before there are data."""
        check_fits(score, schema)
        if score == "agreement":
            return Bound(1.0, (0.0, 1.0))
        if score == "rank":
            most = rank_sensitivity(schema)
            return Bound(most, (-1.0, min(1.0, up(1.0 / most))))
        if score in ("correlation", "votes"):  # replaced, a row keeps its coin: one block votes
            return Bound(1.0, (-1.0, 1.0), 1.0 if score == "votes" else None)
        raise InvalidValue("score", score, "one with a derived bound")

    def check_chooser(self, mechanism: object) -> None:
        if isinstance(mechanism, TopK) and mechanism.k >= len(self.candidates):
            raise UnsupportedNode("top-k needs more candidates than it chooses; nothing was read")

    def sketch(self, chunk: Rows, state: float) -> Sketch:
        """As `Ask.sketch`: sorted keys or their tallies, sums of products. Scores that see a
        whole table at once are computed here, and have no chunks."""
        asked = (self.score, self.votes, self.custom, self.data.schema, self.weights)
        known: ReleasedScores | None = chunk.cache.get(self.key)
        if known is None or known.asked != asked:
            known = chunk.cache[self.key] = ReleasedScores(asked)
        if known.sketch is None:  # found once for all draws
            known.sketch = sketch_of(*asked[:4], self.key, known, chunk)
        return known.sketch

    def merge(self, a: Sketch, b: Sketch) -> Sketch:
        """As `Ask.merge`: addition."""
        return merged_of(a, b, self.data.schema)

    def scores(self, merged: Sketch, one: int = 1) -> NDArray[np.float64]:
        """As `Choose.scores`: of every feature of the handle, shape (features,)."""
        return scores_of(self.score, self.votes, self.data.schema, merged, self.weights)

    def picked(self, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `Choose.picked`: positions of the features, k of them or one."""
        return self.candidates[chosen]

    @property
    def follows_records(self) -> bool:
        """All but votes, whose blocks are private coins."""
        return self.votes is None

    @property
    def whole_people(self) -> str:
        """A block's vote, and what is vouched for, move in full."""
        return f"a choice by {self.score}" if self.score in ("votes", "custom") else ""

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: candidates and target are the schema's."""
        if not facts.has_target:
            raise DataError("the data were protected without a target; nothing was read")
        check_fits(self.score, facts.schema)
        schema = self.data.schema
        if schema is not facts.schema and not set(schema.columns) <= set(facts.schema.columns):
            raise SchemaError("the handle's columns are not the data's")

    def check(self, facts: TableFacts) -> None:
        """As `Ask.check`; and a table in chunks is asked for scores that sums lead to."""
        super().check(facts)
        if facts.chunked and self.custom is not None:
            raise UnsupportedNode("custom scores read all records at once, but this table is in "
                                  "chunks. Nothing was read")
        if facts.chunked and self.votes is not None and not fits_sums(
                self.votes, self.data.schema):
            raise UnsupportedNode(
                f"{self.votes.blocks} blocks times the square of {columns_in(self.data.schema)} "
                f"columns is over {MOST_PRODUCTS} sums, the limit for a table in chunks. Ask about "
                "fewer features or blocks. Nothing was read")


def rank_sensitivity(schema: Schema) -> float:
    """1 + (1 - 1/(C - 1))/2 for C public classes, 1.5 for a number."""
    if schema.target.kind == "numeric":
        return 1.5
    classes = max(2, len(schema.target.categories))
    return up(1.0 + (1.0 - 1.0 / (classes - 1)) / 2) if classes > 2 else 1.0


def check_fits(score: str, schema: Schema) -> None:
    """Raise `SchemaError` unless the target is there and of a kind that the score takes."""
    target = schema.target
    if score == "agreement" and not (target.kind == "categorical"
                                     and len(target.categories) <= MOST_CLASSES):
        raise SchemaError(f"agreement takes a target of at most {MOST_CLASSES} classes; for "
                          "numbers use rank")
