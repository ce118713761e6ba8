"""A question about every single label, for randomised response: one answer per record."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, RelationMismatch, SchemaError, UnsupportedNode
from privledger.graph.selection import RandomizedResponse
from privledger.noise.source import NoiseSource
from privledger.questions.blocks import target_of
from privledger.questions.cells import CategoryCells
from privledger.questions.question import Ask, Derivation, Noise
from privledger.rounding import whole_numbers
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts
from privledger.tables.values import fixed


def _whole(name: str, value: Any, dimensions: int) -> NDArray[np.int64]:
    array = whole_numbers(name, value, dimensions)
    if not array.size:
        raise InvalidValue(name, "none", "at least one")
    return fixed(array)


def _rows(value: Any) -> slice | NDArray[np.int64] | None:
    if type(value) is slice:
        return slice(*(None if end is None else int(operator.index(end))
                       for end in (value.start, value.stop, value.step)))
    return None if value is None else _whole("rows", value, 1)


def _candidates(value: Any) -> NDArray[np.int64] | None:
    return None if value is None else _whole("candidates", value, 2)


@frozen(eq=False, repr=False)
class Respond(Ask):
    """Single answers of records, each randomised by itself."""

    kind = "answers"

    @property
    def candidates(self) -> NDArray[np.int64] | None:
        """What each may answer; None for every bucket."""
        return None

    @property
    def buckets(self) -> int:
        """How many answers a record may give."""
        raise NotImplementedError

    def prepare(self, mechanism: object, relation: str) -> int:
        """As `Ask.prepare`: randomised response alone keeps a single answer private."""
        if type(mechanism) is not RandomizedResponse:
            raise UnsupportedNode(f"single {self.kind} take RandomizedResponse; nothing was read")
        if mechanism.num_buckets != self.buckets:
            raise UnsupportedNode(f"the answer has {self.buckets} buckets, the mechanism says "
                                  f"{mechanism.num_buckets}; nothing was read")
        return self.buckets

    def finish(self, merged: Any, noise: Noise) -> NDArray[np.int64]:
        """As `Ask.finish`: one noisy answer per record."""
        return respond(noise.source, merged, self.candidates, noise.mechanism)


@frozen(eq=False, repr=False)
class LabelQuery(Respond):
    """The labels of a handle's records, each randomised by itself; see `Dataset.labels`.

    Attributes:
        rows: public positions among the handle's records; None for all.
        candidates: public class positions, shape (rows asked, k); None for every class.
    """

    rows: slice | NDArray[np.int64] | None = field(default=None, converter=_rows)
    candidates: NDArray[np.int64] | None = field(default=None, converter=_candidates)
    what: str = "labels"
    kind = "labels"
    by_person = by_position = True
    wording = "ask"

    @property
    def buckets(self) -> int:
        """As `Respond.buckets`: every class, or a record's own list of them."""
        if self.candidates is not None:
            return int(self.candidates.shape[1])
        return len(self.data.schema.target.categories)

    def sketch(self, chunk: Rows, state: NDArray[np.int64]) -> NDArray[np.int64]:
        """As `Ask.sketch`: the class of every record that is asked and stands in the chunk,
        zero for those that stand elsewhere.

        Args:
            state: positions that are asked, as `among` gives them, shape (rows asked,).
        """
        codes, found = target_of(chunk).astype(np.int64), np.zeros(len(state), dtype=np.int64)
        if chunk.parent is None:
            here = (state >= chunk.first) & (state < chunk.first + chunk.n)
            found[here] = codes[state[here] - chunk.first]
            return found
        held = chunk.positions()
        order = np.argsort(held, kind="stable")
        place = np.minimum(np.searchsorted(held, state, sorter=order), max(len(held) - 1, 0))
        if len(held):
            here = held[order[place]] == state
            found[here] = codes[order[place[here]]]
        return found

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: single labels may be asked here, and of whom is public."""
        if not facts.public_features:
            raise RelationMismatch("single labels are released where only labels are protected: a "
                                   "ledger of relation replace_label. Nothing was read")
        check_buckets("", self.data, facts)
        if facts.unit == "person" and facts.most_rows != 1:
            raise UnsupportedNode(f"single labels of people of whom one has {facts.most_rows}: "
                                  "each row would answer separately, and m answers cost m times "
                                  "epsilon. Nothing was read")
        if any(step.context.certificate != "index" or (
                step.cells is not None and step.cells.has_coins) for step in self.data.steps):
            raise UnsupportedNode("single labels are asked of public sets of records: not of a "
                                  "sample, a filter, or a part that labels or coins decide. "
                                  "Nothing was read")

    def among(self, positions: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
        """The positions that are asked, out of those of the handle's records.

        Raises:
            InvalidValue: no row, a row twice or outside, or candidates that do not fit them.
        """
        asked = np.arange(len(positions)) if self.rows is None else self.rows
        if isinstance(asked, slice):
            asked = np.arange(len(positions))[asked]
        # A label that answers twice is randomised twice, and pays for one.
        if not len(asked) or not int(asked.max()) < len(positions) or (
                len(np.unique(asked)) != len(asked)):
            raise InvalidValue("rows", "given", f"distinct, and below {len(positions)}")
        if self.candidates is not None:
            self._check_candidates(len(asked), classes)
        chosen: NDArray[np.int64] = positions[asked]
        return chosen

    def _check_candidates(self, asked: int, classes: int) -> None:
        assert self.candidates is not None
        lists = np.sort(self.candidates, axis=1)
        if len(lists) != asked or not int(lists.max()) < classes or (
                (lists[:, 1:] == lists[:, :-1]).any()):
            raise InvalidValue("candidates", self.candidates.shape,
                               f"{asked} lists of distinct classes below {classes}")

    @property
    def label(self) -> str:
        """What the ledger records."""
        return self.what if self.candidates is None else f"{self.what} among public candidates"

    def noted(self, state: NDArray[np.int64]) -> str:
        """As `Ask.noted`: with how many positions are asked."""
        return f"{self.label} of {len(state)} records"


def check_buckets(name: str, data: Derivation, facts: TableFacts) -> None:
    """Raise `SchemaError` unless the handle's column has the table's categories: an answer beyond
    its buckets would tell that there is one."""
    column = facts.column(name, "categorical")
    if column not in data.schema.columns:
        raise SchemaError(f"column {column.name!r} of the handle is not the table's")


def respond(source: NoiseSource, codes: NDArray[np.int64],
            candidates: NDArray[np.int64] | None,
            mechanism: RandomizedResponse) -> NDArray[np.int64]:
    """Randomised response over every class, or over each record's own candidates.

    A label outside of its candidates counts as a uniform draw from them, so what is answered
    is randomised response of some candidate (docs/proofs/relations.md).
    """
    buckets, noise = mechanism.num_buckets, mechanism.noise_parameter
    if candidates is None:
        return source.randomized_response(codes, buckets, noise)
    held = candidates == codes[:, None]
    others = source.uniform_below(np.full(len(codes), buckets))
    slots = np.where(held.any(axis=1), held.argmax(axis=1), others)
    answered = source.randomized_response(slots.astype(np.int64), buckets, noise)
    return np.take_along_axis(candidates, answered[:, None], axis=1)[:, 0]


# Every record's own category, randomised: what a survey would have heard from each of them.


Pieces = tuple[tuple[int, NDArray[np.int64]], ...]
"""First position and codes of every stretch of rows."""


@frozen(eq=False, repr=False)
class ResponseQuery(Respond):
    """A categorical column of all records, one randomised answer each, in the order of the rows.

    For a ledger of relation replace_one: there the positions of rows are public, and one record
    changes one answer. (Where only labels are protected, `data.labels` asks for labels.)

    Attributes:
        name: a categorical feature, which has one bucket more for missing values, or "" for the
            target.
    """

    name: str
    what: str = "responses"
    wording = "ask for responses of the target on"

    @property
    def buckets(self) -> int:
        """As `Respond.buckets`."""
        schema = self.data.schema
        if not self.name:
            return len(schema.target.categories)
        return len(schema.features[schema.feature_index(self.name)].categories) + 1

    @property
    def reads_target(self) -> bool:
        """Only of the target."""
        return not self.name

    def sketch(self, chunk: Rows, state: int) -> Pieces:
        """As `Ask.sketch`: every record's bucket."""
        codes = CategoryCells(self.name, state).index(chunk)
        return ((int(chunk.first), np.asarray(codes).astype(np.int64)),)

    def merge(self, a: Pieces, b: Pieces) -> Pieces:
        """As `Ask.merge`: stretches, side by side."""
        return (*a, *b)

    def finish(self, merged: Any, noise: Noise) -> NDArray[np.int64]:
        """As `Ask.finish`: one noisy bucket per record, shape (n_records,)."""
        return super().finish(np.concatenate([held for _, held in sorted(
            merged, key=lambda one: one[0])]), noise)

    def fits(self, facts: TableFacts) -> None:
        """As `Ask.fits`: all records of a table whose positions are public."""
        check_buckets(self.name, self.data, facts)
        if facts.relation != "replace_one":
            raise RelationMismatch("responses of single records need a ledger of relation "
                                   "replace_one, where one record is one answer. Nothing was read")
        if self.data.steps:
            raise UnsupportedNode("responses are asked of all records at once: not of a part, a "
                                  "sample or a filter, whose members are private. Nothing was "
                                  "read")
        if facts.chunked:
            raise UnsupportedNode("responses of a table in chunks are not offered: ask of a table "
                                  "in memory. Nothing was read")
