"""Small honest learners for lines that no shipped learner runs: each asks a few odd questions."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import define, field

import privledger as pl

Answers = list[Any]


@define(eq=False)
class Probe:
    """Keeps what it was told, and predicts the first number of it for everybody."""

    epsilon: float = 1.0
    delta: float = 0.0
    relation: str = "add_remove"
    random_state: int | None = None
    answers_: Answers = field(factory=list, init=False)

    @property
    def info(self) -> pl.LearnerInfo:
        return pl.LearnerInfo(type(self).__name__.lower(), "a few odd questions",
                              relations=(self.relation,), tasks=self._tasks)

    _tasks = ("regression",)

    def plan(self, schema: pl.Schema) -> pl.Node:
        raise NotImplementedError

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        raise NotImplementedError

    def fit(self, data: pl.Dataset) -> Any:
        with data.ledger.request(self.plan(data.schema), data, learner=self.info.name,
                                 delta=self.delta) as session:
            self.answers_ = self._ask(session, data)
        return self

    def predict(self, X: Any) -> np.ndarray:
        rows = len(next(iter(X.values()))) if isinstance(X, dict) else len(X)
        return np.full(rows, float(np.ravel(self.answers_[0])[0]))

    def _laplace(self, share: float, sensitivity: float = 1.0) -> pl.Laplace:
        """A part of epsilon."""
        return pl.Laplace(sensitivity / (share * self.epsilon * (1 - 1e-9)), sensitivity)

    def _gaussian(self, times: int = 1) -> pl.Gaussian:
        """Everything, in so many releases."""
        return pl.Gaussian(pl.calibrate(lambda noise: pl.Repeat(pl.Gaussian(noise), times),
                                        self.epsilon, self.delta, self.relation) * (1 + 1e-9))


class Moving(Probe):
    """Parts by the residual of a score that moves while they are asked."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Parallel([self._laplace(1.0)] * 2)

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        score = data.score("squared", [0.0], center=5.0, scale=5.0)
        parts = data.partition(pl.questions.ResidualCells(score, (0.5,)))
        first = session.release(self._laplace(1.0), parts[0].count())
        score.add(pl.questions.IntervalCells("", (5.0,)), np.array([-0.7, 0.7, 0.0]))
        return [first, session.release(self._laplace(1.0), parts[1].count())]


class Overreaching(Probe):
    """Asks for more than was reserved, again and again, and takes a refusal for an answer."""

    RATE, TRIES = 0.3, 4

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Sequential([self._laplace(0.3), pl.Repeat(
            pl.PoissonSample(self.RATE, self._laplace(0.3)), 2)])

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        sample, whole = data.poisson(self.RATE), data.poisson(0.9)
        again = [data.poisson(self.RATE) for _ in range(self.TRIES)]
        asked: Answers = []
        for handle in (data, data, whole, sample, sample, *again):
            try:
                asked.append(session.release(self._laplace(0.3), handle.count()))
            except pl.NotGranted:
                asked.append("refused")
        return asked


class Colours(Probe):
    """A count of each colour, in parts of which a replaced record may leave one for another."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Parallel([self._laplace(0.5)] * 4)

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        parts = data.partition(data.cells("colour"))
        return [session.release(self._laplace(0.5), parts[place].count()) for place in range(4)]


class Labels(Probe):
    """A Gaussian histogram of the classes, where only labels are private."""

    _tasks = ("classification",)

    def plan(self, schema: pl.Schema) -> pl.Node:
        noise = pl.calibrate(lambda z: pl.nodes.LabelOnly(pl.Gaussian(z)), self.epsilon,
                             self.delta, self.relation)
        return pl.nodes.LabelOnly(pl.Gaussian(noise))

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        node: Any = self.plan(data.schema)
        return [session.release(node.node, data.histogram("target"))]


class Sampled(Probe):
    """A count and a median, each on a sample of its own."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Sequential([pl.PoissonSample(0.3, self._laplace(1.0)),
                              pl.PoissonSample(0.3, pl.Exponential(self.epsilon))])

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        counted = session.release(self._laplace(1.0), data.poisson(0.3).count())
        sample, tree = data.poisson(0.3), data.root(data.bins(64))
        picked = session.release(pl.Exponential(self.epsilon), sample.choose(
            tree, "rank", features=np.array([0])))
        return [counted, picked.cut]


class Fixed(Probe):
    """A sum on sixty of the example's records, whose number is public."""

    SIZE, RECORDS = 60, 240

    def _node(self) -> pl.Gaussian:
        return pl.Gaussian(pl.calibrate(
            lambda noise: pl.nodes.FixedSizeSample(self.SIZE, self.RECORDS, pl.Gaussian(noise)),
            self.epsilon, self.delta, self.relation) * (1 + 1e-9))

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.nodes.FixedSizeSample(self.SIZE, self.RECORDS, self._node())

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        return [session.release(self._node(), data.fixed_size(
            self.SIZE, self.RECORDS).sum("target"))]


class Allocated(Probe):
    """A sum in each round of an allocation."""

    def _node(self) -> pl.Gaussian:
        return pl.Gaussian(pl.calibrate(lambda noise: pl.nodes.RandomAllocation(
            4, pl.Gaussian(noise)), self.epsilon, self.delta, self.relation) * (1 + 1e-9))

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.nodes.RandomAllocation(4, self._node())

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        rounds = data.random_allocation(4)
        return [session.release(self._node(), rounds[one].sum("target")) for one in range(4)]


class Stream(Probe):
    """Sums with correlated noise, of groups by coins; on samples if told so."""

    RATE = 1.0

    def _strategy(self, noise: float) -> Any:
        step = pl.Gaussian(noise)
        return pl.nodes.Correlated(step if self.RATE == 1 else pl.PoissonSample(self.RATE, step),
                                   (1.0, 0.5, -0.25), 6, 3, 2)

    def plan(self, schema: pl.Schema) -> pl.Node:
        return self._strategy(pl.calibrate(
            self._strategy, self.epsilon, self.delta, self.relation) * (1 + 1e-9))

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        node: Any = self.plan(data.schema)
        stream = data.correlated(3)
        return [session.release(node, stream.step(data.sum("target"))) for _ in range(6)]


class SampledStream(Stream):
    """The same, on samples."""

    RATE = 0.5


class Above(Probe):
    """A run of sparse vector, which no lock replays."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.SparseVector(41 / self.epsilon, 82 / self.epsilon, 1, 10.0)

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        node: Any = self.plan(data.schema)
        run, said = data.sparse_vector(), []
        while len(said) < 3 and not (said and said[-1]):
            said.append(int(session.release(node, run.above(data.sum("target"), 1000.0))))
        return said


class CutOff(Fixed):
    """A sum on a Poisson sample of fifty at most, which no lock replays."""

    MOST = 50

    def _node(self) -> pl.Gaussian:
        return pl.Gaussian(pl.calibrate(lambda noise: pl.nodes.TruncatedPoissonSample(
            0.3, self.MOST, 10**15, pl.Gaussian(noise)), self.epsilon, self.delta,
            self.relation) * (1 + 1e-9))

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.nodes.TruncatedPoissonSample(0.3, self.MOST, 10**15, self._node())

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        return [session.release(self._node(), data.truncated_poisson(
            0.3, self.MOST, 10**15).sum("target"))]


class Scoped(Probe):
    """Two grants on one filter, of which a record of full size can pay one and a half."""

    ROUNDS = 4

    def _node(self, inside: bool) -> pl.IndividualFilter:
        noise = self._gaussian()
        cap = 1 / noise.noise_multiplier**2
        each = pl.Gaussian(noise.noise_multiplier * np.sqrt(1.5 * self.ROUNDS))
        return pl.IndividualFilter("gdp", cap, node=pl.Repeat(each, self.ROUNDS)
                                   if inside else None)

    def plan(self, schema: pl.Schema) -> pl.Node:
        return self._node(inside=False)

    def fit(self, data: pl.Dataset) -> Any:
        scope = data.ledger.open_scope(self._node(inside=False), delta=self.delta)
        node = self._node(inside=True)
        assert isinstance(node.node, pl.Repeat)
        self.answers_ = []
        for _ in range(2):
            with data.ledger.request(node, data, scope=scope, delta=self.delta,
                                     learner=self.info.name) as session:
                handle = session.filtered()
                self.answers_ += [session.release(node.node.node, handle.sum("target"))
                                  for _ in range(self.ROUNDS)]
        return self


class Stumbling(Probe):
    """A function that fails on every table, and what the guard says of it."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Repeat(self._laplace(0.5), 2)

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        def fails(columns: dict[str, Any]) -> Any:
            raise ValueError(f"cannot take {float(columns['target'].max())!r}")

        try:
            session.release(self._laplace(0.5), data.custom(fails, 1.0, "never answers"))
        except pl.errors.DataError as error:
            said = str(error)
        return [session.release(self._laplace(0.5), data.count()), said]


class Leaving(Stumbling):
    """A function that ends the process, with a cell as its code."""

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        def leaves(columns: dict[str, Any]) -> Any:
            raise SystemExit(float(columns["target"].max()))

        try:
            session.release(self._laplace(0.5), data.custom(leaves, 1.0, "never answers"))
        except SystemExit as error:
            said = repr(error.code)
        return [session.release(self._laplace(0.5), data.count()), said]


class Missing(Probe):
    """The sum of a column with missing cells."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return self._laplace(1.0)

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        return [session.release(self._laplace(1.0), data.sum("weight"))]


class TwoGrants(Probe):
    """Two grants one after the other, of half of the budget each."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return self._laplace(0.5)

    def fit(self, data: pl.Dataset) -> Any:
        self.answers_ = []
        for _ in range(2):
            with data.ledger.request(self.plan(data.schema), data, delta=self.delta,
                                     learner=self.info.name) as session:
                self.answers_.append(session.release(self._laplace(0.5), data.sum("target")))
        return self


class Contest(Probe):
    """The larger of two noisy sums by a tuning, of which one fails where its answer is odd."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.nodes.Tuning(self._laplace(1 / 3), shape=1.0, success=0.3)

    def _trial(self, data: pl.Dataset, candidate: int) -> tuple[float, Any]:
        with data.ledger.request(self._laplace(1 / 3), data) as session:
            found = float(session.release(self._laplace(1 / 3), data.sum("target")))
        if candidate == 1 and found > 0:
            raise ArithmeticError("above zero")
        return found, found

    def _ask(self, session: pl.Session, data: pl.Dataset) -> Answers:
        try:
            best = session.best_of(self.plan(data.schema), 2, self._trial)
        except ArithmeticError:
            return [0.0]
        assert best is not None
        return [best.score, best.candidate]
