"""Every record's own category, randomised: what a survey would have heard from each of them."""

from __future__ import annotations

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import RelationMismatch, UnsupportedNode
from privledger.facts.columns import Copier, Describer, Reader, TableFacts
from privledger.facts.values import Json, text
from privledger.mechanisms import RandomizedResponse
from privledger.questions.cells import CategoryCells
from privledger.questions.derivation import Derivation, derivation_of
from privledger.questions.question import Noise
from privledger.tables.chunk import Rows

Pieces = tuple[tuple[int, NDArray[np.int64]], ...]
"""First position and codes of every stretch of rows."""


@frozen(eq=False, repr=False)
class ResponseQuery:
    """A categorical column of all records, one randomised answer each, in the order of the rows.

    For a ledger of relation replace_one: there the positions of rows are public, and one record
    changes one answer. (Where only labels are protected, `data.labels` asks for labels.)

    Attributes:
        data: the whole table's handle, as `Derivation`.
        name: a categorical feature, which has one bucket more for missing values, or "" for the
            target.
        what: a few public words for the ledger.
    """

    data: Derivation = field(converter=derivation_of)
    name: str
    what: str = "responses"

    @property
    def asserted(self) -> bool:
        """Never: a record has one answer."""
        return False

    @property
    def label(self) -> str:
        """What the ledger records: `what`, as nothing is asserted."""
        return self.what

    @property
    def cell_count(self) -> int:
        """One answer of the record that differs."""
        return 1

    @property
    def buckets(self) -> int:
        """How many answers a record may give."""
        schema = self.data.schema
        if not self.name:
            return len(schema.target.categories)
        return len(schema.features[schema.feature_index(self.name)].categories) + 1

    def prepare(self, mechanism: object, relation: str) -> int:
        """As `Question.prepare`: randomised response over the column's buckets."""
        if type(mechanism) is not RandomizedResponse:
            raise UnsupportedNode("single answers take RandomizedResponse; nothing was read")
        if mechanism.num_buckets != self.buckets:
            raise UnsupportedNode(f"the column has {self.buckets} buckets, the mechanism says "
                                  f"{mechanism.num_buckets}; nothing was read")
        return self.buckets

    def sketch(self, chunk: Rows, state: int) -> Pieces:
        """As `Question.sketch`: every record's bucket."""
        codes = CategoryCells(self.name, state).index(chunk)
        return ((int(chunk.first), np.asarray(codes).astype(np.int64)),)

    def merge(self, a: Pieces, b: Pieces) -> Pieces:
        """As `Question.merge`: stretches, side by side."""
        return (*a, *b)

    def finish(self, merged: Pieces, noise: Noise) -> NDArray[np.int64]:
        """As `Question.finish`: one noisy bucket per record, shape (n_records,)."""
        codes = np.concatenate([held for _, held in sorted(merged, key=lambda one: one[0])])
        return noise.source.randomized_response(codes, int(noise.state),
                                                noise.mechanism.noise_parameter)

    def own(self, to: Copier) -> ResponseQuery:
        return ResponseQuery(to.derivation(self.data), self.name, self.what)

    def check(self, facts: TableFacts) -> None:
        """As `Question.check`: all records of a table whose positions are public."""
        facts.column(self.name, "categorical")
        if facts.relation != "replace_one":
            raise RelationMismatch("responses of single records need a ledger of relation "
                                   "replace_one, where one record is one answer. Nothing was read")
        self.data.check(facts)
        if self.data.steps:
            raise UnsupportedNode("responses are asked of all records at once: not of a part, a "
                                  "sample or a filter, whose members are private. Nothing was "
                                  "read")
        if facts.chunked:
            raise UnsupportedNode("responses of a table in chunks are not offered: ask of a table "
                                  "in memory. Nothing was read")
        self.data.check_labelled(facts, not self.name, "ask for responses of the target on")

    def to_wire(self, to: Describer) -> Json:
        return {"name": str(self.name), "what": str(self.what)}

    @classmethod
    def from_wire(cls, wire: Json, reader: Reader) -> ResponseQuery:
        return cls(reader.handle(wire.get("data")), text(wire, "name"), text(wire, "what", 200))

    def __repr__(self) -> str:
        return f"ResponseQuery({self.label!r})"
