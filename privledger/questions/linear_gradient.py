"""Sums of encoded rows, each times the residual of a running score: one clipped vector a record."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.columns import Copier, Describer, Reader
from privledger.facts.columns import TableFacts
from privledger.facts.values import Json
from privledger.questions.row_encoding import MOST_COLUMNS, STEP, RowEncoding
from privledger.questions.score import Score, residuals_of
from privledger.rounding import moderate, number
from privledger.tables.chunk import Rows


@frozen(eq=False)
class LinearGradient:
    """The negative gradient of a loss by the weights of a linear score: residual x encoded row.

    One vector per record for all classes, clipped as one; class by class, in each the columns of
    the encoding.

    Attributes:
        encoding: of the row.
        clip: largest L2 norm of one record's vector (L1 under Laplace noise); a longer one is
            shortened as a whole.
        score: whose residual, target minus mean; None for the encoded row itself.
    """

    encoding: RowEncoding
    clip: float
    score: Score | None = None
    signed: bool = field(default=True, init=False)
    asserted: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        moderate("clip", self.clip)
        if self.width > MOST_COLUMNS:
            raise InvalidValue("encoding", self.width, f"at most {MOST_COLUMNS} numbers a record")

    @property
    def width(self) -> int:
        """Numbers per record: columns times classes."""
        return self.encoding.count * (1 if self.score is None else self.score.width)

    @property
    def reads_target(self) -> bool:
        """Whether there is a residual."""
        return self.score is not None

    def check(self, facts: TableFacts) -> None:
        """As `Block.check`: encoding and score fit the table."""
        self.encoding.check(facts)
        if self.score is not None:
            self.score.check(facts)

    def own(self, to: Copier) -> LinearGradient:
        return LinearGradient(to.shared(self.encoding, RowEncoding), self.clip,
                              None if self.score is None else to.shared(self.score, Score))

    def to_wire(self, to: Describer) -> Json:
        return {"encoding": to.object(self.encoding), "clip": float(self.clip),
                "score": None if self.score is None else to.object(self.score)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> LinearGradient:
        score = wire.get("score")
        return cls(reader.object(wire.get("encoding"), RowEncoding),
                   number("clip", wire.get("clip")),
                   None if score is None else reader.object(score, Score))

    def values(self, rows: Rows) -> NDArray[np.float64]:
        """Every record's vector, shape (n, width), or (n,) for one number."""
        held = self.encoding.of(rows)
        if self.score is None:
            found: NDArray[np.float64] = np.multiply(held.T, STEP, dtype=np.float64)
        else:
            residuals = residuals_of(self.score, rows)
            residuals *= STEP
            found = np.empty((self.width, rows.n))
            for code, residual in enumerate(residuals):
                for place, column in enumerate(held.T, code * self.encoding.count):
                    np.multiply(column, residual, out=found[place])
        each: NDArray[np.float64] = found[0] if self.width == 1 else found.T
        return each
