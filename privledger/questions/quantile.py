"""A quantile of one numeric column, chosen among public edges (docs/proofs/queries.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json, text, whole
from privledger.questions.blocks import target_of
from privledger.questions.derivation import Derivation, derivation_of
from privledger.questions.question import Noise
from privledger.questions.rates import Bound, flips, rate_of, refuse_top_k
from privledger.questions.statistics import summed
from privledger.rounding import count, number, probability
from privledger.tables.chunk import Rows

MOST_BINS = 1 << 16
PARTS = 1 << 16
"""A quantile is a whole number of so many parts, so that scores come from whole numbers."""
_ROOM = 1 + 2.0**-18


@frozen(eq=False)
class QuantileChoice:
    """Which of the public edges splits a column's values like a quantile should.

    Edges lie evenly from `lower` to `upper`, `bins` + 1 of them. An edge with b values below it
    and a values above or on it has the score -|(1 - q) b - q a|. Values outside of the bounds
    count in the first or the last bin; missing ones count nowhere.

    Attributes:
        data: which records it is asked of: a handle's `Derivation`.
        name: a numeric feature, or "" for the target.
        quantile: above 0 and below 1, taken to the nearest of 2^16 parts.
        lower, upper: public bounds.
        bins: how many intervals, at most 2^16.
        what: a few public words for the ledger.
    """

    data: Derivation = field(converter=derivation_of)
    name: str
    quantile: float
    lower: float
    upper: float
    bins: int = 1024
    what: str = "quantile"
    by_person: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        if not 0 < round(probability("quantile", self.quantile) * PARTS) < PARTS:
            raise InvalidValue("quantile", self.quantile, "from 2^-16 to 1 - 2^-16")
        if not number("lower", self.lower) < number("upper", self.upper):
            raise InvalidValue("bounds", (self.lower, self.upper), "lower below upper")
        if not np.isfinite(self.upper - self.lower):
            raise InvalidValue("bounds", (self.lower, self.upper), "of a finite distance")
        count("bins", self.bins, most=MOST_BINS)

    @property
    def part(self) -> int:
        """What is asked for, as a whole number of 2^-16."""
        return round(self.quantile * PARTS)

    @property
    def edges(self) -> NDArray[np.float64]:
        """The candidates, shape (bins + 1,)."""
        return np.linspace(self.lower, self.upper, self.bins + 1)

    @property
    def asserted(self) -> bool:
        """Never: the bound is derived."""
        return False

    @property
    def label(self) -> str:
        """What the ledger records: `what`, as nothing is asserted."""
        return self.what

    @property
    def cell_count(self) -> int:
        """One answer."""
        return 1

    @property
    def bound(self) -> Bound:
        """A value comes on one side of an edge: docs/proofs/queries.md, "Quantiles"."""
        return Bound(max(self.part, PARTS - self.part) / PARTS, (-1.0, 1.0))

    def sensitivity(self, relation: str) -> float:
        """Bound on a neighbour's change, with room for rounding.

        A value that is replaced goes from one side to the other at most: 1, for any quantile.
        """
        return (self.bound.sensitivity if relation == "add_remove" else 1.0) * _ROOM

    def prepare(self, mechanism: object, relation: str) -> float:
        """As `Question.prepare`: what scores are multiplied by."""
        return rate_of(mechanism, self, relation)

    def check_chooser(self, mechanism: object) -> None:
        refuse_top_k(mechanism)

    def sketch(self, chunk: Rows, state: float) -> NDArray[np.int64]:
        """As `Question.sketch`: how many values lie between the edges, shape (bins,)."""
        if self.name:
            schema = chunk.features.schema
            values = chunk.features.arrays[schema.feature_index(self.name)]
        else:
            values = target_of(chunk)
        known = ~np.isnan(values)
        keys = np.searchsorted(self.edges[1:-1], values[known], side="right").astype(np.int64)
        return summed(keys, self.bins, None if chunk.mass is None else chunk.mass[known])

    def merge(self, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `Question.merge`: addition."""
        return a + b

    def scores(self, merged: NDArray[np.int64], one: int) -> NDArray[np.float64]:
        """Inside the guard: one score per edge, shape (bins + 1,), each rounded once."""
        below = [0, *np.cumsum(merged).tolist()]
        whole = PARTS * one
        return np.array([-float(Fraction(abs(PARTS * held - self.part * below[-1]), whole))
                         for held in below])

    def finish(self, merged: NDArray[np.int64], noise: Noise) -> NDArray[np.float64]:
        """As `Question.finish`: one of the edges, shape ()."""
        score, source = self.scores(merged, noise.one), noise.source
        starts = np.array([0, len(score)], dtype=np.int64)
        if flips(noise.mechanism):
            chosen = source.permute_and_flip(score, starts, noise.state)
        else:
            chosen = source.choose(score, np.ones(len(score), dtype=np.int64), starts, noise.state)
        return np.array(self.edges[chosen[0]])

    def own(self, to: Copier) -> QuantileChoice:
        return QuantileChoice(to.derivation(self.data), self.name, self.quantile, self.lower,
                              self.upper, self.bins, self.what)

    def check(self, facts: TableFacts) -> None:
        """As `Question.check`: the column is numeric."""
        facts.column(self.name, "numeric")
        self.data.check(facts)
        self.data.check_labelled(facts, not self.name, "ask for a quantile of the target on")

    def to_wire(self, to: Describer) -> Json:
        return {"name": str(self.name), "quantile": float(self.quantile),
                "lower": float(self.lower), "upper": float(self.upper), "bins": int(self.bins),
                "what": str(self.what)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> QuantileChoice:
        quantile, lower, upper = (number(key, wire.get(key))
                                  for key in ("quantile", "lower", "upper"))
        return cls(reader.handle(wire.get("data")), text(wire, "name"), quantile, lower, upper,
                   whole(wire, "bins"), text(wire, "what", 200))

    def __repr__(self) -> str:
        return f"QuantileChoice({self.what!r}, {self.bins} bins)"
