"""What every question is: which records x groups x summands x answer.

A kind is a frozen record of public fields, named once in `closed_set.py`, and says only what
differs from `Ask`. Its answer is a sum (`query.Sum`), a choice (`Choose`), single answers
(`label_query.Respond`), a bit above a threshold, or groups. The guard makes a copy of its own by
its fields, checks it against public facts (`check`), prices it (`prepare`), and answers it:
`sketch` every chunk of rows, `merge` the sketches in any order, `finish` with noise.
"""

from __future__ import annotations

from typing import Any

import attrs
import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import NotGranted, RelationMismatch, UnsupportedNode
from privledger.graph import SIZED, Context
from privledger.graph.register import answering
from privledger.graph.selection import Exponential, PermuteAndFlip, ReportNoisyMax, TopK
from privledger.noise.source import NoiseSource
from privledger.questions.cells import (
    Cells,
    CoinCells,
    IndexCells,
    LabelledCells,
    depends_on_label,
    follows_records,
)
from privledger.rounding import MOST_COUNT, down, moderate
from privledger.tables.chunk import Rows
from privledger.tables.columns import TableFacts
from privledger.tables.schema import Schema
from privledger.tables.values import is_plain

# Which records a question is about: how a handle was derived. It holds no rows and no handle.


_KINDS = ("poisson", "fixed", "truncated", "allocation", "part", "filter")
CHANGED = "the handle's derivation was changed. Nothing was read"


@frozen(eq=False)
class Step:
    """One derivation: the context it opens, and the cells it restricts to (for parts)."""

    context: Context
    cells: Cells | None = None

    def check(self, facts: TableFacts) -> None:
        """A derivation says what it restricts to; a part without cells would be the whole."""
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
        who is in it moves when one record does (docs/proofs/fixed-size.md, truncated.md). No
        price is proved for allocations beside samples, or behind filters."""
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
        """No rule says what the target of a record without one would count as."""
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


# One question, and who carries what it says.


@frozen
class Noise:
    """What `finish` draws with.

    Attributes:
        mechanism: the release's own mechanism, as the plan reserved it.
        state: what `prepare` gave: grids and scales, or a selection rate. Public.
        source: the ledger's source of exact noise.
        one: steps that a row or a person weighs in a sketch: 1 under unit row.
    """

    mechanism: Any
    state: Any
    source: NoiseSource
    one: int = 1


@frozen(eq=False, repr=False)
class Ask:
    """One question about one handle; docs/contributing.md shows a new kind.

    What a kind does not say is: nothing is asserted, one group, the target is read, and the bound
    is of one row.

    Attributes:
        data: which records it is asked of: a handle's `Derivation`.
        what: a few public words for the ledger.
        by_person: whether the bound holds for everything of one person, each row of the weight
            `Rows.mass`; else ledgers of unit person refuse it.
        by_position: whether it asks public positions of the table, not the records of its handle.
        wording: of the refusal where records may lack the label that it reads.
    """

    data: Derivation = field(converter=derivation_of)
    what: str = "question"
    by_person = False
    by_position = False
    wording = "ask about the target on"

    @property
    def run(self) -> Any:
        """The run that pays for it once (`query.RunStep`); None where each release pays."""
        return None

    @property
    def cells(self) -> Cells | None:
        """The groups that are answered; None for one answer."""
        return None

    @property
    def cell_count(self) -> int:
        """How many answers the release gives."""
        return 1 if self.cells is None else self.cells.count

    @property
    def clips(self) -> tuple[float, ...]:
        """Norm bound of each summand; empty where records behind a filter have no own price."""
        return ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why each part holds that rests on an unverified claim; for the ledger."""
        return ()

    @property
    def asserted(self) -> bool:
        """Whether part of the sensitivity rests on unverified claims."""
        return bool(self.reasons)

    @property
    def label(self) -> str:
        """What the ledger records: `what`, marked if something is asserted."""
        return f"asserted: {self.what} ({'; '.join(self.reasons)})" if self.reasons else self.what

    def noted(self, state: Any) -> str:
        """The same of a release that was prepared."""
        return self.label

    @property
    def reads_target(self) -> bool:
        """Whether an answer may depend on the target."""
        return True

    @property
    def whole_people(self) -> str:
        """What it is, if it does not shrink with the share of a person's rows in a part."""
        return ""

    @property
    def follows_records(self) -> bool:
        """Whether it asks what follows from records alone, wherever they stand."""
        return self.cells is None or self.cells.by_record

    @property
    def apart(self) -> bool:
        """Whether the handle's records are read as a table of their own."""
        return True

    def fits(self, facts: TableFacts) -> None:
        """Refuse by name what this kind cannot ask of this table."""
        raise NotImplementedError

    def check(self, facts: TableFacts) -> None:
        """Refuse by name what cannot be asked of this table. Decided by public facts alone."""
        self.fits(facts)
        self.data.check(facts)
        if self.whole_people:
            self.data.check_whole_people(facts, self.whole_people)
        self.data.check_labelled(facts, self.reads_target, self.wording)

    def prepare(self, mechanism: Any, relation: str) -> Any:
        """The state of one release, from the derived sensitivity: refuses a mechanism that
        promises less noise than its node is priced at."""
        raise NotImplementedError

    def sketch(self, chunk: Rows, state: Any) -> Any:
        """Inside the guard: whole numbers of one chunk, exact, and nothing else."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """Two chunks' sketches as one: addition, so the order never matters.

        Raises:
            TypeError, ValueError: one of them is no sketch, or of another shape.
        """
        if type(a) is tuple:
            return tuple(Ask.merge(self, *both) for both in zip(a, b, strict=True))
        arrays = [one.shape if type(one) is np.ndarray else None for one in (a, b)]
        if isinstance(a, int | float) or isinstance(b, int | float) or arrays[0] != arrays[1]:
            raise TypeError("sketches of two shapes")
        return a + b

    def finish(self, merged: Any, noise: Noise) -> Any:
        """The only place where noise meets an answer: what is released."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label!r}, {self.cell_count} cells)"


# Exact selection: how sharply a mechanism may choose by a score of known sensitivity.


CHOOSERS = answering("choice")


@frozen
class Bound:
    """How far a record that comes or goes moves a score.

    Attributes:
        sensitivity: the largest change, either way.
        change: smallest and largest change as a record comes, in units of the sensitivity.
        replaced: the largest change as a record is replaced, or moves from group to group; None
            for a removal and an arrival, twice as much.
        room: for rounding, a factor.
    """

    sensitivity: float
    change: tuple[float, float]
    replaced: float | None = None
    room: float = 1.0

    def under(self, relation: str) -> float:
        """Bound on a neighbour's change, with room for rounding."""
        twice = 2 * self.sensitivity if self.replaced is None else self.replaced
        return (self.sensitivity if relation == "add_remove" else twice) * self.room


@frozen(eq=False, repr=False)
class Choose(Ask):
    """One of public candidates for every group, by a score that follows from whole numbers."""

    wording = "choose by the target on"

    @property
    def bound(self) -> Bound:
        """How far one neighbour moves a score, and which way."""
        raise NotImplementedError

    @property
    def candidates(self) -> Any:
        """Which of the scores compete: all."""
        return slice(None)

    def sensitivity(self, relation: str) -> float:
        """Bound on a neighbour's change of a score, with room for rounding."""
        return self.bound.under(relation)

    def check_chooser(self, mechanism: object) -> None:
        """Raise `UnsupportedNode` unless permute-and-flip, or top-k, chooses such things."""
        if isinstance(mechanism, TopK):
            raise UnsupportedNode("top-k selects among the features of a table only. Nothing was "
                                  "read")

    def prepare(self, mechanism: object, relation: str) -> float:
        """As `Ask.prepare`: what scores are multiplied by."""
        return rate_of(mechanism, self, relation)

    def scores(self, merged: Any, one: int) -> NDArray[np.float64]:
        """Inside the guard: a score for each candidate, or for each of every group."""
        raise NotImplementedError

    def picked(self, chosen: NDArray[np.int64]) -> Any:
        """What is released, from the place of what was chosen in every group."""
        return chosen

    def finish(self, merged: Any, noise: Noise) -> Any:
        """As `Ask.finish`: one exact draw for each group."""
        score = np.atleast_2d(self.scores(merged, noise.one)[..., self.candidates])
        starts = np.arange(len(score) + 1, dtype=np.int64) * score.shape[1]
        return self.picked(drawn_choice(score.ravel(), starts, noise) - starts[:-1])


def flips(mechanism: object) -> bool:
    """Whether a choice is drawn by permute-and-flip: what noisy max is with exponential noise."""
    return isinstance(mechanism, PermuteAndFlip) or (
        isinstance(mechanism, ReportNoisyMax) and mechanism.noise == "exponential")


def rate_of(mechanism: Any, choice: Choose, relation: str) -> float:
    """What a score is multiplied by, such that `mechanism` costs what its node says.

    Raises:
        UnsupportedNode: no exact sampler, or a score that moves further than the node says.
    """
    if type(mechanism) not in CHOOSERS:
        raise UnsupportedNode(f"{type(mechanism).__name__} is a sum's mechanism. A quantile, a cut "
                              "or a feature is selected, not summed: use Exponential, "
                              "PermuteAndFlip or ReportNoisyMax. Nothing was read")
    least, most = choice.bound.change
    sensitivity = choice.sensitivity(relation)
    epsilon = down(mechanism.epsilon)  # no more than `rounding.as_promised` of it, which is charged
    if isinstance(mechanism, Exponential):
        low, high = mechanism.score_change
        if not (low <= least and most <= high):
            raise UnsupportedNode(
                f"one record moves the score by {least:g} to {most:g} sensitivities, but the "
                f"mechanism is priced for {low:g} to {high:g}. Nothing was read")
        rate = epsilon / (2 * sensitivity)
    else:
        if isinstance(mechanism, ReportNoisyMax) and mechanism.noise == "laplace":
            raise UnsupportedNode("noisy max with Laplace noise has no exact sampler here: use "
                                  "exponential or gumbel noise. Nothing was read")
        choice.check_chooser(mechanism)
        # A common shift of all scores changes nothing: only the width of the interval counts.
        rate = epsilon / (sensitivity * (most - least))
    rate = down(down(rate))
    moderate("selection rate", rate)
    return rate


def drawn_choice(score: NDArray[np.float64], starts: NDArray[np.int64], noise: Noise,
                 weights: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """One exact draw among the candidates of each group, by the release's own mechanism; of top-k
    a set of them from the only group.

    Args:
        starts: where each group's candidates begin, and where the last ends: shape (groups + 1,).
        weights: of candidates that stand for several; None where each is one.
    """
    mechanism, source, rate = noise.mechanism, noise.source, noise.state
    if isinstance(mechanism, TopK):
        return source.top_k(score, mechanism.k, rate, mechanism.noise)
    if flips(mechanism):
        return source.permute_and_flip(score, starts, rate)
    ones = np.ones(len(score), dtype=np.int64)
    return source.choose(score, ones if weights is None else weights, starts, rate)
