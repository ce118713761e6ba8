"""Which records a question is about: how a handle was derived. It holds no rows and no handle."""

from __future__ import annotations

from typing import Any

import attrs
from attrs import frozen

from privledger.errors import NotGranted, RelationMismatch, UnsupportedNode
from privledger.facts.columns import TableFacts
from privledger.facts.schema import Schema
from privledger.facts.values import is_plain
from privledger.graph import SIZED, Context
from privledger.questions.cells import (
    Cells,
    CoinCells,
    IndexCells,
    LabelledCells,
    depends_on_label,
    follows_records,
)
from privledger.rounding import MOST_COUNT

_KINDS = ("poisson", "fixed", "truncated", "allocation", "part", "filter")
CHANGED = "the handle's derivation was changed. Nothing was read"


@frozen(eq=False)
class Step:
    """One derivation: the context it opens, and the cells it restricts to (for parts)."""

    context: Context
    cells: Cells | None = None

    def check(self, facts: TableFacts) -> None:
        """A derivation says what it restricts to; a part without cells would be everybody."""
        context, cells = self.context, self.cells
        if (context.kind == "part") != (cells is not None) or (
                context.kind not in ("part", "allocation") and context.part != 0):
            raise NotGranted(CHANGED)
        if context.kind == "fixed":
            _check_fixed(context, facts)
        elif context.kind == "truncated":
            _check_truncated(context, facts)
        elif context.kind == "allocation" and not (
                type(context.parts) is type(context.part) is int
                and 2 <= context.parts <= MOST_COUNT and 0 <= context.part < context.parts):
            raise NotGranted("an allocation has two rounds or more, and this round is not among "
                             "them. Nothing was read")
        if cells is not None:
            cells.check(facts)
            if context.parts != cells.count or (
                    context.certificate != cells.certificate(facts.public_features)):
                raise NotGranted(CHANGED)


def own_context(given: Any) -> Context:
    """A copy of a context, of plain values."""
    if type(given) is not Context or not is_plain(given):
        raise NotGranted(CHANGED)
    context = Context(*(getattr(given, one.name) for one in attrs.fields(Context)))
    if not is_plain(context) or context.kind not in _KINDS:
        raise NotGranted(CHANGED)
    return context


def _check_fixed(context: Context, facts: TableFacts) -> None:
    """A sample of fixed size is out of as many as there are, and their number is public."""
    if facts.relation != "replace_one":
        raise RelationMismatch("samples of a fixed size need a ledger of relation replace_one. "
                               "Under the other relations the number of records is private, or "
                               "only labels are. Nothing was read")
    if facts.chunked:
        raise UnsupportedNode("samples of a fixed size are drawn from a table in memory only. "
                              "Nothing was read")
    there = facts.n_people if facts.unit == "person" else facts.n_rows
    if type(context.size) is not int or context.out_of != there or (
            not 1 <= context.size <= context.out_of):
        raise NotGranted("out_of of a fixed-size sample must be the table's public number of "
                         "records, or of people. Nothing was read")


def _check_truncated(context: Context, facts: TableFacts) -> None:
    """A sample that is cut off is of a table that has, publicly, no more records than its node
    says; a node that says the most there are of anything assumes nothing."""
    if facts.chunked:
        raise UnsupportedNode("truncated samples are drawn from a table in memory only. Nothing "
                              "was read")
    sizes = (context.size, context.out_of)
    if any(type(one) is not int or not 1 <= one <= MOST_COUNT for one in sizes) or (
            not 0 < context.rate <= 1) or context.out_of < most_records(facts):
        raise NotGranted("a truncated sample needs a table of at most out_of records, or people, "
                         "by a public bound: most_records of its schema, or their number where "
                         "that is public. Nothing was read")


def most_records(facts: TableFacts) -> int:
    """At most so many records, or people, publicly."""
    there = facts.n_people if facts.unit == "person" else facts.n_rows
    if there is None:
        there = facts.schema.most_records
    return MOST_COUNT if there is None else there


@frozen(eq=False, repr=False)
class Derivation:
    """Which records, and which of their columns, a question is about.

    Attributes:
        schema: the public facts of the handle's columns.
        seal: stands for the guarded table; it leads nowhere.
        steps: how the handle was derived, outermost first.
    """

    schema: Schema
    seal: Any
    steps: tuple[Step, ...] = ()

    @property
    def chain(self) -> tuple[Context, ...]:
        """The contexts that the steps open, outermost first."""
        return tuple(step.context for step in self.steps)

    def check(self, facts: TableFacts) -> None:
        """Raise `NotGranted` unless every step restricts to what it says."""
        for step in self.steps:
            step.check(facts)
        self._check_alone()
        if facts.unit == "person" and facts.relation == "replace_label" and (
                facts.most_rows != 1) and any(
                depends_on_label(step.cells) for step in self.steps):
            raise UnsupportedNode("no price is proved for parts by label in a ledger of people: "
                                  "labels of one person's records may move to many parts at once. "
                                  "Nothing was read")

    @property
    def is_sized(self) -> bool:
        """Whether it is about a sample of fixed size or one that is cut off, or parts of one."""
        return any(step.context.kind in SIZED for step in self.steps)

    def _check_alone(self) -> None:
        """A sample whose size counts is of the whole table, and what is below it knows no places:
        who is in it moves when one record does (docs/proofs/fixed-size.md, truncated.md). Nobody
        proved anything of allocations beside samples, or behind filters."""
        if self.is_sized and not (self.steps[0].context.kind in SIZED and all(
                step.context.kind == "part" and follows_records(step.cells)
                for step in self.steps[1:])):
            raise UnsupportedNode("a fixed-size or truncated sample is drawn from the whole table. "
                                  "It can be combined with parts by records only: not with another "
                                  "sample, a filter, coins or positions. Nothing was read")
        kinds = [step.context.kind for step in self.steps]
        if "allocation" in kinds and len(kinds) - kinds.count("part") > 1:
            raise UnsupportedNode("no price is proved for a round of an allocation with a sample, "
                                  "a filter or another allocation. Nothing was read")

    def check_whole_people(self, facts: TableFacts, what: str) -> None:
        """Refuse parts that may divide a person's records, for what does not shrink with them."""
        if facts.unit == "person" and not all(
                step.cells is None or follows_people(step.cells, facts) for step in self.steps):
            raise UnsupportedNode(f"{what} on parts that may split one person's records: each part "
                                  "would change in full. Nothing was read")

    def is_labelled(self, facts: TableFacts) -> bool:
        """Whether it holds records with a label only."""
        return not facts.unlabelled or any(
            type(step.cells) is LabelledCells and step.context.part == 1 for step in self.steps)

    def check_labelled(self, facts: TableFacts, asks: bool, how: str) -> None:
        """What the target of a record without one would count as is nobody's guess."""
        asks = asks or any(depends_on_label(step.cells) for step in self.steps)
        if asks and not self.is_labelled(facts):
            raise UnsupportedNode(f"some records have no label: {how} "
                                  "data.partition(LabelledCells())[1]. Nothing was read")

    def __repr__(self) -> str:
        return f"Derivation({self.schema.name!r}, {len(self.steps)} steps)"


def follows_people(cells: Cells, facts: TableFacts) -> bool:
    """Whether all of a person's records lie in one cell: by a coin, or by position of people."""
    return facts.most_rows == 1 or type(cells) is CoinCells or (
        type(cells) is IndexCells and facts.n_rows is None)


def derivation_of(data: Any) -> Any:
    """What a question keeps of the handle it is asked of; a stranger's is refused by the guard."""
    return getattr(data, "derivation", data)
