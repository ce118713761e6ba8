"""Dataset handles: descriptions of what may be asked. They hold no rows and show none."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

import numpy as np
from attrs import Factory, field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, NotGranted, SchemaError
from privledger.graph import Context
from privledger.guard.vault import _vault_of
from privledger.mutex import Uncopied
from privledger.numerals import meant
from privledger.questions.blocks import Block, ColumnValue, CustomValue, Ones, RowValues, longest
from privledger.questions.cells import (
    CategoryCells,
    Cells,
    CoinCells,
    IndexCells,
    IntervalCells,
    RowsPerPersonCells,
    check_people,
)
from privledger.questions.choice import Choice, LabelChoice, QuantileChoice
from privledger.questions.closed_set import CELLS
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.feature_scores import CustomScores
from privledger.questions.groups import GroupQuery
from privledger.questions.grown import GrownCells
from privledger.questions.label_query import LabelQuery, ResponseQuery
from privledger.questions.noise_stream import NoiseStream
from privledger.questions.query import Query
from privledger.questions.question import Derivation, Step
from privledger.questions.score import Score
from privledger.questions.threshold import ThresholdRun
from privledger.questions.votes import Votes
from privledger.rounding import MOST_COUNT, count, number, positive, probability
from privledger.tables.bins import Bins
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns, TableFacts, has_label
from privledger.tables.schema import Column, Schema

_tokens = itertools.count(1)


@frozen(eq=False, repr=False)
class Dataset(Uncopied):
    """A handle on guarded data. Deriving another handle, or describing a query, reads nothing.

    Made by `Ledger.protect`. Answers come from `session.release(mechanism, query)` only.

    Attributes:
        schema: the public facts.
        steps: how the handle was derived, outermost first.
        ledger: a `LedgerHandle`; the `Ledger` itself stays with its owner.
    """

    schema: Schema
    _vault: Any = field(alias="vault")  # a seal
    steps: tuple[Step, ...] = ()
    ledger: Any = None

    @property
    def identity(self) -> str:
        """The name under which the ledger knows these records."""
        return str(self._vault.identity)

    @property
    def derivation(self) -> Derivation:
        """What a question keeps of this handle."""
        return Derivation(self.schema, self._vault, self.steps)

    @property
    def chain(self) -> tuple[Context, ...]:
        """The contexts that the steps open, outermost first."""
        return self.derivation.chain

    @property
    def public_features(self) -> Columns:
        """The encoded features, where the owner declared them public; `.arrays` are read-only.

        Raises:
            NotGranted: the features are private here, or the handle is a part or a sample.
        """
        held = self._public("features").features
        # Views: a caller that gives one another shape does not change what the guard reads.
        arrays = tuple(held.arrays[held.schema.feature_index(column.name)].view()
                       for column in self.schema.features)
        return Columns(self.schema, arrays, held.n_rows)

    @property
    def public_rows(self) -> int:
        """How many records there are, where that is public. Raises as `public_features` does."""
        return self._public("the number of records").n

    @property
    def public_labelled(self) -> NDArray[np.bool_]:
        """Which records have a label, shape (n_records,). Raises as `public_features` does."""
        held = self._public("which records have a label")
        assert held.target is not None
        return has_label(held.target)

    @property
    def unlabelled(self) -> bool:
        """Whether the table was protected as one where records may lack a label."""
        return bool(self._vault.unlabelled)

    def _public(self, what: str) -> Rows:
        public: Rows | None = _vault_of(self._vault).public
        if public is None:
            raise NotGranted(f"{what}: the features are private here. Public features need a "
                             "ledger of relation replace_label and protect(..., "
                             "public_features=True)")
        if self.steps:
            raise NotGranted(f"{what}: ask the handle on all records, then select by position")
        return public

    def _derive(self, step: Step) -> Dataset:
        return Dataset(self.schema, self._vault, (*self.steps, step), self.ledger)

    def poisson(self, rate: float) -> Dataset:
        """A fresh Poisson sample: every record enters with probability `rate`, in secret.

        Drawn by the ledger's own source at the first release, after any filter above it.
        """
        checked = probability("rate", rate, one=True)
        return self._derive(Step(Context("poisson", f"sample-{next(_tokens)}", rate=checked)))

    def fixed_size(self, size: int, out_of: int) -> Dataset:
        """A fresh sample of `size` of all records, drawn in secret and without replacement.

        For a ledger of relation replace_one, where the number of records (or people, who are
        drawn whole) is public. Drawn by the ledger's own source at the first release.

        Args:
            size: how many are in the sample, 1 to `out_of`.
            out_of: how many there are.
        """
        most = count("out_of", out_of, most=MOST_COUNT)
        checked = count("size", size, most=most)
        return self._derive(Step(Context("fixed", f"sample-{next(_tokens)}", size=checked,
                                         out_of=most)))

    def truncated_poisson(self, rate: float, most: int, out_of: int) -> Dataset:
        """A fresh Poisson sample that is cut off: of more than `most` records that entered, a
        secret and uniformly random choice of `most` stays.

        Args:
            rate: the probability with which each enters.
            most: how many are in the sample at most.
            out_of: a public bound on the number of records, or people: `most_records` of the
                schema, their number where that is public, or more; 10**15 assumes nothing.
        """
        checked = probability("rate", rate, one=True)
        size, there = count("most", most, most=MOST_COUNT), count("out_of", out_of, most=MOST_COUNT)
        return self._derive(Step(Context("truncated", f"sample-{next(_tokens)}", rate=checked,
                                         size=size, out_of=there)))

    def random_allocation(self, steps: int) -> Allocation:
        """One pass of `steps` rounds; every record is in one of them, by a fresh private coin."""
        return Allocation(self, count("steps", steps, least=2, most=MOST_COUNT))

    def select(self, columns: Sequence[str]) -> Dataset:
        """The same records with only some features."""
        if isinstance(columns, str) or len(set(columns)) != len(columns):
            raise InvalidValue("columns", columns, "a list of distinct names")
        return Dataset(self.schema.select(tuple(columns)), self._vault, self.steps, self.ledger)

    def partition(self, parts: int | tuple[int, ...] | Cells) -> Partition:
        """Disjoint parts: by a public predicate or by position (`Cells`), or by a private coin
        per record: so many equally likely parts, or parts with whole-number weights."""
        if isinstance(parts, IndexCells):
            facts: TableFacts | None = _vault_of(self._vault).facts
            if facts is not None:  # else the rows are in another process, which decides
                facts.check_positions(len(parts.places))
        if isinstance(parts, CELLS):
            public: Any = parts
            return Partition(self, public)
        if isinstance(parts, tuple):
            return Partition(self, CoinCells(count("parts", len(parts), least=2, most=1000), parts))
        return Partition(self, CoinCells(count("parts", parts, least=2, most=MOST_COUNT)))

    def ask(self, question: Any, **budget: Any) -> Any:
        """The answer to a question that asks by itself: `question.run(self, **budget)`.

        Args:
            question: such as `pl.summary(pl.mean("pay"), by=["region"])`.
            budget: what it may cost, as its `run` says: `epsilon`, `delta`.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        if not callable(getattr(question, "run", None)):
            raise InvalidValue("question", type(question).__name__, "a summary, such as "
                               "pl.summary(pl.mean(\"pay\"), by=[\"region\"])")
        return question.run(self, **budget)

    def count(self) -> Query:
        """How many records."""
        return Query(self, (Ones(),), None, "count")

    def people(self) -> Query:
        """How many people, in a ledger of unit person; `count` counts them there, too."""
        facts: TableFacts | None = _vault_of(self._vault).facts
        if facts is not None:  # else the rows are in another process
            check_people(facts)
        return Query(self, (Ones(),), None, "people")

    def rows_per_person(self, edges: Sequence[float]) -> Query:
        """How many people have fewer rows than the first of the public `edges`, and so on."""
        return Query(self, (Ones(),), RowsPerPersonCells(edges), "rows per person")

    def sum(self, name: str, *, lower: float | None = None, upper: float | None = None) -> Query:
        """Sum of a numeric column (a feature, or the target by its name).

        The answer is the sum of (x - middle) / half, where middle and half come from the
        column's public bounds (or narrower public `lower`, `upper`); add middle * count back
        to get a sum in the column's own unit.
        """
        column = self._numeric(name)
        low = column.lower if lower is None else number("lower", lower)
        high = column.upper if upper is None else number("upper", upper)
        if not low < high:
            raise InvalidValue("bounds", (low, high), "lower below upper")
        value = ColumnValue(self._key(name), (low + high) / 2, (high - low) / 2)
        return Query(self, (value,), None, f"sum of {name}")

    def quantile(self, name: str, quantile: float = 0.5, *, lower: float | None = None,
                 upper: float | None = None, bins: int = 1024,
                 between: bool = False) -> QuantileChoice:
        """A quantile of a numeric column among public edges, in the column's own unit.

        Args:
            name: a feature, or the target by its name.
            lower, upper: public bounds, narrower than the column's.
            bins: how many intervals; the answer is one of the edges.
            between: the answer is the middle of an interval, which is nearer where many rows have
                one value.
        """
        column = self._numeric(name)
        low = column.lower if lower is None else number("lower", lower)
        high = column.upper if upper is None else number("upper", upper)
        return QuantileChoice(self, self._key(name), quantile, low, high, bins,
                              f"quantile of {name}", between)

    def row_sum(self, names: Sequence[str] | None = None, kind: str = "values",
                clip: float | None = None, cells: Cells | None = None) -> Query:
        """Sum of whole rows as vectors, or of the products of their entries; see `RowValues`.

        Args:
            names: numeric columns, the target by its name; None for every numeric feature.
            clip: of a row's norm; None for one that shortens no row in L2.
        """
        chosen = names if names is not None else [
            column.name for column in self.schema.features if column.kind == "numeric"]
        keys = [self._key(self._numeric(name).name) for name in chosen]
        bound = longest(len(keys), kind) if clip is None else clip
        return Query(self, (RowValues(keys, bound, kind),), cells, f"row sum of {kind}")

    def histogram(self, name: str, edges: Sequence[float] | None = None) -> Query:
        """Counts per category, or per interval between public `edges`."""
        return Query(self, (Ones(),), self.cells(name, edges), f"histogram of {name}")

    def cells(self, name: str, edges: Sequence[float] | None = None) -> Cells:
        """A public partition by one column."""
        column = self._column(name)
        if column.kind == "categorical":
            if edges is not None:
                raise InvalidValue("edges", "given", "left out: a categorical column has a cell "
                                                     "for each category of its schema")
            extra = 1 if column.role == "feature" else 0
            return CategoryCells(self._key(name), len(column.categories) + extra)
        if edges is None:
            raise InvalidValue("edges", edges, "given for a numeric column")
        return IntervalCells(self._key(name), edges)

    def query(self, blocks: Sequence[Block], cells: Cells | None = None,
              what: str = "query") -> Query:
        """A joint question: several statistics released together, per cell."""
        return Query(self, tuple(blocks), cells, what)

    def labels(self, rows: Any = None, candidates: Any = None, what: str = "labels") -> LabelQuery:
        """Every single label, for `RandomizedResponse` where only labels are protected.

        The release is an int64 array: one class position of the schema's list per record, in
        the order given to `protect`.

        Args:
            rows: public positions among this handle's records: a slice, or distinct whole
                numbers. Asked this way each set of rows pays in full; parts of a partition by
                `IndexCells` pay once for all of them.
            candidates: for each of the rows the same number of distinct classes, public or
                computed from earlier releases, shape (rows, k). The answer is one of them; a
                label that is not among them counts as a uniform draw from them.
        """
        return LabelQuery(self, rows, candidates, what)

    def sparse_vector(self) -> ThresholdRun:
        """A run of sparse vector on this handle, for one `SparseVector` node of a plan: which of
        a stream of sums is above its threshold. See `ThresholdRun.above`."""
        return ThresholdRun(len(self.steps))

    def correlated(self, groups: int | tuple[int, ...] | Cells | None = None) -> NoiseStream:
        """A run of sums whose noise is correlated, for one `Correlated` node of a plan: see
        `NoiseStream.step`.

        Args:
            groups: as `partition`: who takes part in step t is group t modulo their number, the
                same records for the whole run. None: all records in every step.
        """
        return NoiseStream(None if groups is None else self.partition(groups).cells)

    def groups(self, name: str) -> GroupQuery:
        """The groups of a column of kind `text` that have enough people, with a noisy number of
        them. Takes `PartitionSelection`; the release is a `Groups`."""
        if name not in [column.name for column in self.schema.keys]:
            raise SchemaError(f"no column of kind text is called {name!r}"
                              f"{meant(name, [column.name for column in self.schema.keys])}")
        return GroupQuery(self, name, f"groups of {name}")

    def responses(self, name: str) -> ResponseQuery:
        """A categorical column (a feature, or the target by its name) of all records, one
        randomised answer each, under replace_one. Takes `RandomizedResponse`."""
        return ResponseQuery(self, self._key(name), f"responses of {name}")

    def custom(self, function: Any, sensitivity: float, why: str) -> Query:
        """Sum of a per-row function, clipped to [-sensitivity, sensitivity]. Asserted."""
        block = CustomValue(function, positive("sensitivity", sensitivity), why)
        return Query(self, (block,), None, "custom query")

    def score(self, loss: str, start: Any, *, center: float = 0.0, scale: float = 1.0) -> Score:
        """A running score of an additive model on these records; see `Score`."""
        return Score(loss, start, center, scale)

    def bins(self, numeric_bins: int = 1024, cuts: Iterable[Iterable[int]] = (),
             grid: int = 1024) -> Bins:
        """Public bins of the features; `cuts` on a public grid may have been released."""
        return Bins(self.schema, numeric_bins, cuts, grid)

    def root(self, bins: Bins) -> GrownCells:
        """A tree of one leaf on public bins; releases make it grow."""
        return GrownCells(bins)

    def choose(self, cells: GrownCells, score: str, **options: Any) -> Choice:
        """Which cut, or feature, is best in every leaf of `cells`; options as in `Choice`."""
        return Choice(self, cells, score, **options)

    def features_by(self, score: str | Votes | CustomScores,
                    excluded: Sequence[int] = (), weights: Sequence[int] = ()) -> FeatureChoice:
        """Which features have a high score, `excluded` positions aside; `weights` of classes are
        for `agreement`. See `FeatureChoice`."""
        if isinstance(score, Votes):
            return FeatureChoice(self, "votes", excluded, votes=score, weights=weights)
        if isinstance(score, CustomScores):
            return FeatureChoice(self, "custom", excluded, custom=score, weights=weights)
        return FeatureChoice(self, score, excluded, weights=weights)

    def choose_label(self, cells: GrownCells, labels: Cells, **options: Any) -> LabelChoice:
        """Which class has many records in every leaf of `cells`; see `LabelChoice`."""
        return LabelChoice(self, cells, labels, **options)

    def _column(self, name: str) -> Column:
        for column in self.schema.columns:
            if column.name == name and column.role in ("feature", "target"):
                return column
        raise SchemaError(f"no feature or target column {name!r}"
                          f"{meant(name, [column.name for column in self.schema.columns])}")

    def _numeric(self, name: str) -> Column:
        column = self._column(name)
        if column.kind != "numeric":
            raise SchemaError(f"column {name!r} is not numeric")
        return column

    def _key(self, name: str) -> str:
        return "" if self._column(name).role == "target" else name

    def __repr__(self) -> str:
        derived = "".join(f" > {step.context.kind}" for step in self.steps)
        return f"Dataset({self.schema.name!r}{derived}, guarded)"

    def __len__(self) -> NoReturn:
        raise TypeError("the number of records is private. To learn it, ask for a count under a "
                        "grant")

    def __array__(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("guarded rows cannot be split into folds or read as an array. Pass the "
                        "handle to a learner's fit, and search with PrivateSearchCV, which pays "
                        "for its scores")


def _place(value: int, count: int) -> int:
    """A whole number that is a place among so many; loops end at the first that is none."""
    place = int(operator.index(value))
    if not 0 <= place < count:
        raise IndexError(place)
    return place


def _certificate(partition: Partition) -> str:
    certify: Any = getattr(partition.cells, "certificate", None)  # a stranger's have none
    return "public_predicate" if certify is None else str(
        certify(_vault_of(partition.data._vault).public is not None))


@frozen(eq=False)
class Partition:
    """Disjoint parts of a handle. Why they are disjoint follows from the kind of cells.

    Attributes:
        token: identity, new for every partition.
        certificate: `iid_per_record` for private coins; `index` for positions, and for parts
            by features that are public; else `public_predicate`.
    """

    data: Dataset
    cells: Cells
    token: str = field(init=False, factory=lambda: f"parts-{next(_tokens)}")
    certificate: str = field(init=False, default=Factory(_certificate, takes_self=True))

    def __len__(self) -> int:
        return self.cells.count

    def __getitem__(self, part: int) -> Dataset:
        """The handle on one part; its releases are a member of a `Parallel` node."""
        context = Context("part", self.token, part=_place(part, self.cells.count),
                          parts=self.cells.count, certificate=self.certificate)
        return self.data._derive(Step(context, self.cells))

    def query(self, blocks: Sequence[Block], what: str = "query per part") -> Query:
        """One answer per part, in one release and one node."""
        return Query(self.data, tuple(blocks), self.cells, what)

    def counts(self) -> Query:
        """How many records in each part."""
        return self.query((Ones(),), "count per part")


@frozen(eq=False)
class Allocation:
    """One pass of rounds over a handle's records, for one `RandomAllocation` node of a plan.

    Attributes:
        steps: how many rounds; each record, or person, is in one, which is secret.
        token: identity: another pass is another allocation, whose coins are new.
    """

    data: Dataset
    steps: int
    token: str = field(init=False, factory=lambda: f"allocation-{next(_tokens)}")

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Dataset:
        """The handle on the records of one round, 0 to `steps` - 1."""
        return self.data._derive(Step(Context("allocation", self.token, parts=self.steps,
                                              part=_place(step, self.steps))))
