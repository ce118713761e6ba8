"""One released node: what is asked, at what price, and how near a pair of tables comes to it.

A claim is plain values only, so that a stranger can ask the same question again. The question's
own `prepare`, `sketch` and `finish` are called, with a source that draws nothing and notes what
it was given; what the two worlds' draws differ by is compared with the node's price.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np
from attrs import field, frozen
from scipy.stats import laplace, norm

from privledger.accounting.pld import response_loss as priced_response
from privledger.errors import InvalidValue
from privledger.graph import Node, delta
from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.graph.nodes import from_json, to_json
from privledger.graph.selection import (
    Exponential,
    PartitionSelection,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    TopK,
)
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource
from privledger.questions.blocks import Block, ClassIs, ColumnValue, Ones, TargetShares
from privledger.questions.cells import CategoryCells, Cells, CrossCells, IntervalCells
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.groups import WORDS, GroupQuery, Selecting, geometric_law
from privledger.questions.grown import GrownCells
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.questions.question import Derivation, Noise
from privledger.questions.score import Score
from privledger.questions.votes import Votes
from privledger.tables.bins import Bins
from privledger.tables.chunk import Rows
from privledger.tables.schema import Schema
from privledger.tables.values import Json
from privledger.testing.examples import example_schema
from privledger.testing.lockstep.kept import (
    Additive,
    AdditiveLaw,
    Chosen,
    ChosenSet,
    Draw,
    Floats,
    Ints,
    Responses,
)
from privledger.testing.lockstep.laws import TOLERANCE, response_law, selection_loss, set_loss
from privledger.testing.lockstep.neighbours import TablePair
from tests.certified.pairs import check_pair, encoded

Parameters = Mapping[str, object]
_COINS = 20260101  # of records, for votes: equal in both worlds


@frozen
class Shift:
    """How far two answers lie apart, in units of their own noise.

    Attributes:
        l1: sum of |difference| / scale, what Laplace noise pays in nats.
        l2: root of the sum of squares, what Gaussian noise pays as mu.
    """

    l1: float
    l2: float


def ratio(loss: float, price: float) -> float:
    """Loss over price, with the tolerance on the side of the price. Infinite if NaN."""
    if not (loss >= 0 and price > 0):
        return 0.0 if loss == 0 else math.inf
    return loss / (price * (1 + TOLERANCE))


def additive_shift(a: object, b: object, scale: object, grid: object = 1.0) -> Shift:
    """Distance of two un-noised answers.

    Args:
        a, b: answers before noise, of one shape. scale: sigma or b of each number, in grid
            steps. grid: length of a step, in units of the answers; a number or one for each.

    Returns:
        Both norms; infinite if shapes differ, or anything is not a number.
    """
    one, other = (np.asarray(side, dtype=np.float64).ravel() for side in (a, b))
    if one.shape != other.shape:
        return Shift(math.inf, math.inf)
    with np.errstate(all="ignore"):
        unit = np.atleast_1d(np.asarray(scale, dtype=np.float64)
                             * np.asarray(grid, dtype=np.float64))
        shift = np.abs(one - other) / unit.ravel()
    shift[one == other] = 0.0
    if not np.isfinite(shift).all():
        return Shift(math.inf, math.inf)
    return Shift(math.fsum(shift), math.sqrt(math.fsum(shift * shift)))


class Notes:
    """A source of no noise: every draw is noted and answered by zeros, or first candidates."""

    def __init__(self) -> None:
        self.draws: list[Draw] = []

    def gaussian(self, sigma: object, size: int) -> Ints:
        """Noted; zero."""
        return self._added("gaussian", sigma, size)

    def laplace(self, scale: object, size: int) -> Ints:
        """Noted; zero."""
        return self._added("laplace", scale, size)

    def discrete_laplace(self, parameter: float, size: int) -> Ints:
        """Noted; zero."""
        return self._added("discrete_laplace", 1 / parameter, size)

    def discrete_gaussian(self, sigma: float, size: int) -> Ints:
        """Noted; zero."""
        return self._added("discrete_gaussian", sigma, size)

    def _added(self, law: AdditiveLaw, scale: object, size: int) -> Ints:
        held: Floats = np.broadcast_to(np.asarray(scale, dtype=np.float64), (size,))
        result = np.zeros(size, dtype=np.int64)
        self.draws.append(Additive(law, held, result))
        return result

    def choose(self, scores: Floats, weights: Ints, starts: Ints, rate: float) -> Ints:
        """Noted; the first candidate of every segment."""
        self.draws.append(Chosen("exponential", scores, weights, starts, rate, starts[:-1]))
        return starts[:-1]

    def permute_and_flip(self, scores: Floats, starts: Ints, rate: float) -> Ints:
        """Noted; the first candidate of every segment."""
        ones = np.ones(len(scores), dtype=np.int64)
        self.draws.append(Chosen("permute_and_flip", scores, ones, starts, rate, starts[:-1]))
        return starts[:-1]

    def top_k(self, scores: Floats, k: int, rate: float,
              noise: Literal["exponential", "gumbel"], gamma: float = 0.5) -> Ints:
        """Noted; the first k."""
        result = np.arange(k, dtype=np.int64)
        self.draws.append(ChosenSet(scores, k, rate, noise, gamma, result))
        return result

    def uniform_below(self, bounds: Ints) -> Ints:
        """Zero: an offset within a run of cuts."""
        return np.zeros(len(bounds), dtype=np.int64)

    def randomized_response(self, codes: Ints, buckets: int, noise_parameter: float) -> Ints:
        """Noted; unchanged."""
        self.draws.append(Responses(codes, buckets, noise_parameter, codes))
        return codes


@frozen(eq=False)
class Claim:
    """One node as it is released.

    Attributes:
        name: short, of this node among others.
        asked: name of a builder in `BUILDERS`. parameters: its arguments, plain values.
        task: whose `example_schema` the tables have.
        mechanism: what is drawn with. relation: what the node is priced under.
    """

    name: str
    asked: str
    parameters: Parameters
    task: str
    mechanism: Node
    relation: str
    _question: Any = field(init=False)

    def __attrs_post_init__(self) -> None:
        built = BUILDERS[self.asked](self.schema, **self.parameters)
        object.__setattr__(self, "_question", built)

    @property
    def schema(self) -> Schema:
        """Of both tables."""
        return example_schema(self.task, texts=self.asked == "groups")

    @property
    def price(self) -> float:
        """What the node promises: the range, pure epsilon, mu, or the delta at `EPSILON`."""
        node = self.mechanism
        if isinstance(node, PartitionSelection):
            return delta(node, EPSILON)
        if isinstance(node, Exponential):
            return node.range
        if isinstance(node, PermuteAndFlip | ReportNoisyMax | TopK):
            return node.epsilon
        if isinstance(node, Gaussian):
            return 1 / node.noise_multiplier
        if isinstance(node, Laplace):
            return node.l1_sensitivity / node.scale
        if isinstance(node, DiscreteLaplace):
            return node.parameter * node.sensitivity
        if isinstance(node, DiscreteGaussian):
            return node.sensitivity / node.sigma
        if isinstance(node, RandomizedResponse):
            return priced_response(node.noise_parameter, node.num_buckets)
        raise InvalidValue("mechanism", type(node).__name__, "one that is released")

    def ratio(self, pair: TablePair) -> float:
        """Loss over price on one pair of tables; above one is a fault of privacy."""
        check_pair(pair, self.relation)
        if isinstance(self.mechanism, PartitionSelection):
            node, query = self.mechanism, self._question
            state = query.prepare(node, self.relation)
            return ratio(naming_delta(node, state, *(
                query.sketch(rows, state).counts for rows in encoded(pair))), self.price)
        first, second = (self._world(rows) for rows in encoded(pair))
        return ratio(self._loss(*first, *second), self.price)

    def l1_sensitivity(self) -> float:
        """Of a query: what Laplace noise has to be scaled to."""
        question = self._question
        return math.fsum(question.sensitivity(block, self.relation, 1) for block in question.blocks)

    def _world(self, rows: Rows) -> tuple[list[Draw], Floats]:
        """The draws of one release, and the whole numbers before noise."""
        source, question = Notes(), self._question
        rows.source = SeededSource(_COINS)
        state = (question.among(rows.positions(), _classes(self.schema))
                 if isinstance(question, LabelQuery)
                 else question.prepare(self.mechanism, self.relation))
        sketch = question.sketch(rows, state)
        if not isinstance(question, LabelQuery) or rows.n:
            # It has the draws that questions make, and no others.
            question.finish(sketch, Noise(self.mechanism, state, cast(NoiseSource, source)))
        whole = (np.concatenate([part.ravel() for part in sketch])
                 if isinstance(question, Query) else np.zeros(0))
        return source.draws, whole.astype(np.float64)

    def _loss(self, a: list[Draw], truth_a: Floats, b: list[Draw], truth_b: Floats) -> float:
        total = 0.0
        if [type(draw) for draw in a] != [type(draw) for draw in b]:
            return math.inf
        for one, other in zip(a, b, strict=True):
            if isinstance(one, Chosen) and isinstance(other, Chosen):
                loss = selection_loss(one, other)
                total += loss.range if one.law == "exponential" else loss.pure
            elif isinstance(one, ChosenSet) and isinstance(other, ChosenSet):
                loss = set_loss(one, other)
                total += loss.range if one.noise == "gumbel" else loss.pure
            elif isinstance(one, Responses) and isinstance(other, Responses):
                total += response_law(one) * int((one.codes != other.codes).sum())
            elif isinstance(one, Additive) and isinstance(other, Additive):
                quiet = np.minimum(one.scale, other.scale)
                shift = additive_shift(truth_a, truth_b, quiet)
                total += shift.l1 if one.law.endswith("laplace") else shift.l2
        return total

    def to_json(self) -> Json:
        """Plain values that say everything."""
        return {"name": self.name, "asked": self.asked, "parameters": dict(self.parameters),
                "task": self.task, "mechanism": to_json(self.mechanism),
                "relation": self.relation}

    @classmethod
    def from_json(cls, value: Json) -> Claim:
        """The inverse of `to_json`."""
        return cls(value["name"], value["asked"], value["parameters"], value["task"],
                   from_json(value["mechanism"]), value["relation"])


EPSILON = 1.0
"""At which the delta of named groups is looked at."""


def naming_delta(node: PartitionSelection, state: Selecting, *worlds: Mapping[str, int]) -> float:
    """The hockey-stick divergence at `EPSILON` of what is named of two tables, the larger way.

    Of tables that differ in one group, all others being independent of it; more are infinite. By
    sums over outcomes in whole steps (geometric noise), or by the closed forms of the noise.
    """
    moved = [name for name in {*worlds[0], *worlds[1]}
             if worlds[0].get(name, 0) != worlds[1].get(name, 0)]
    less, more = sorted(world.get(name, 0) for world in worlds for name in moved) or (0, 0)
    if len(moved) > 1 or more - less > 1:
        return math.inf
    if not moved:
        return 0.0
    if node.noise == "geometric":
        chances = [_told(geometric_law(node), people, more) for people in (less, more)]
    else:
        law = laplace(scale=state.noise) if node.noise == "laplace" else norm(scale=state.noise)
        each = round(1 / state.grid)
        # A step of the grid that is shown is half a step of the noise; beyond the last all is one.
        edges = state.bar - 0.5 + np.linspace(0, more * each + 40 * state.noise, 20_001)
        chances = [np.append(-np.diff(over, append=0.0), 1 - over[0]) for over in (
            law.sf(edges - people * each) if people else np.zeros(len(edges))
            for people in (less, more))]
    return max(float(np.maximum(0.0, one - math.exp(EPSILON) * other).sum())
               for one, other in (chances, chances[::-1]))


def _told(law: Sequence[int], people: int, most: int) -> Floats:
    """Chances of every difference of so many people to their draw, then of no name at all."""
    held = law[:people]
    shown = [*[0] * (people - len(held)), *held[::-1], *[0] * (most - people), WORDS - sum(held)]
    return np.array([one / WORDS for one in shown])


def _classes(schema: Schema) -> int:
    return len(schema.target.categories)


def _tree(schema: Schema, bins: int, leaves: int) -> GrownCells:
    """A root, or two leaves: below and above the middle of the first feature."""
    root = GrownCells(Bins(schema, bins))
    return root if leaves == 1 else root.grow(np.array([0]), np.array([bins // 2]))


def _choice(schema: Schema, *, score: str, among: str, bins: int = 6, leaves: int = 1,
            feature: int = 0, labels: bool = False, penalty: float = 0.0) -> Choice:
    gradient = None
    if score == "gain":
        gradient = Score("squared", 0.5, 0.0, 10.0).gradient(0.5)
    return Choice(
        Derivation(schema, None), _tree(schema, bins, leaves), score, among,
        np.full(leaves, feature) if among == "cuts" else None,
        CategoryCells("", _classes(schema)) if labels else None, gradient, penalty)


def _label_choice(schema: Schema, *, bins: int = 6, leaves: int = 1) -> LabelChoice:
    return LabelChoice(Derivation(schema, None), _tree(schema, bins, leaves),
                       CategoryCells("", _classes(schema)))


def _feature_choice(schema: Schema, *, score: str, blocks: int = 1, most: int = 1,
                    excluded: Sequence[int] = ()) -> FeatureChoice:
    votes = Votes(blocks, most) if score == "votes" else None
    return FeatureChoice(Derivation(schema, None), score, excluded, votes=votes)


def _blocks(schema: Schema, names: list[str]) -> list[Block]:
    middle = Score("squared", 0.5, 0.0, 10.0)
    logistic = Score("logistic", 0.0)
    softmax = Score("softmax", np.zeros(max(1, _classes(schema))))
    made: dict[str, Callable[[], Block]] = {
        "ones": Ones, "shares": TargetShares, "class": lambda: ClassIs(0),
        "sum": lambda: ColumnValue("size", 0.5, 0.5),
        "target sum": lambda: ColumnValue("", 5.0, 5.0),
        "gradient": lambda: middle.gradient(0.5), "logistic": lambda: logistic.gradient(0.5),
        "filtered": lambda: logistic.gradient(0.5, filtered=True),
        "hessian": lambda: logistic.hessian(), "softmax": lambda: softmax.gradient(0.25),
        "softmax hessian": lambda: softmax.hessian(),
        "coordinate": lambda: softmax.gradient(0.25, coordinate=0)}
    return [made[name]() for name in names]


def _cells(schema: Schema, name: str) -> Cells | None:
    target = CategoryCells("", max(2, _classes(schema)))
    made: dict[str, Callable[[], Cells | None]] = {
        "": lambda: None, "colour": lambda: CategoryCells("colour", 4),
        "size": lambda: IntervalCells("size", (0.25, 0.75)), "target": lambda: target,
        "tree": lambda: _tree(schema, 6, 2),
        "colour and target": lambda: CrossCells(CategoryCells("colour", 4), target)}
    return made[name]()


def _query(schema: Schema, *, blocks: list[str], cells: str = "") -> Query:
    return Query(Derivation(schema, None), tuple(_blocks(schema, blocks)), _cells(schema, cells))


def _labels(schema: Schema) -> LabelQuery:
    return LabelQuery(Derivation(schema, None))


def _groups(schema: Schema) -> GroupQuery:
    return GroupQuery(Derivation(schema, None), schema.keys[0].name)


BUILDERS: Mapping[str, Callable[..., object]] = {
    "choice": _choice, "label choice": _label_choice, "feature choice": _feature_choice,
    "query": _query, "labels": _labels, "groups": _groups}
