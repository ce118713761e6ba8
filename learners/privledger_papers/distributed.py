"""Algorithm 9 of paper 003: each owner adds the whole noise, then ratios are averaged.

The owners' tables are parts of one table by private coins, so one ledger holds all of them: a
record is in one part, and a round costs what one owner's does (`Parallel`). The start costs
nothing: it is the middle of the target's range, or even odds. The filter is in use (read to the
letter, the printed line 16 trains on records that line 10 left out).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from attrs import define, field, frozen

import privledger as pl
from privledger_papers.tasks import Features

BINS = 1024


@frozen
class Rounds:
    """What fixes a fit before data exist, by the paper's names.

    Attributes:
        owners: k. regular, extra: rounds that the noise is for, and those after them (T_regular,
            T_extra). rate: of every owner's Poisson samples (gamma). count_share: r1.
        clip: of gradients, on a target scaled to [-1, 1] (g*). depth: of trees (d).
        regularization: the smallest count (lambda). learning_rate: of values.
    """

    owners: int = 5
    regular: int = 100
    extra: int = 100
    rate: float = 0.1
    count_share: float = 0.1
    clip: float = 0.3
    depth: int = 3
    regularization: float = 20.0
    learning_rate: float = 0.05

    def tree(self, noise: float) -> pl.Gaussian:
        """One owner's counts and sums of gradients, of all leaves."""
        return pl.Gaussian(noise, shares=(self.count_share, 1 - self.count_share))

    def several(self, noise: float, rounds: int) -> pl.Node:
        """Rounds of every owner, each on samples of its own part."""
        own = pl.Repeat(pl.PoissonSample(self.rate, self.tree(noise)), rounds)
        return own if self.owners == 1 else pl.Parallel([own] * self.owners, "iid_per_record")

    def plan(self, noise: float, order: float) -> pl.IndividualFilter:
        """All rounds behind filters whose cap is what the regular ones cost at that order."""
        cap = float(pl.rdp(self.several(noise, self.regular), [order])[0])
        return pl.IndividualFilter("renyi", cap, order=order, node=self.several(
            noise, self.regular + self.extra))


@lru_cache(maxsize=64)  # the same for every repetition of a cell
def priced(rounds: Rounds, epsilon: float, delta: float) -> tuple[float, pl.IndividualFilter]:
    """The smallest noise within a budget, and the plan; the order suits the plain rounds."""
    def plain(noise: float) -> pl.Node:
        return rounds.several(noise, rounds.regular)

    first = pl.certify(plain(pl.calibrate(plain, epsilon, delta)), delta, accountant="rdp")
    order = first.order or 2.0
    noise = pl.calibrate(lambda one: rounds.plan(one, order), epsilon, delta)
    return noise, rounds.plan(noise, order)


@define(eq=False)
class DistributedSGBDT:
    """S-GBDT as Algorithm 9 trains it, under add-or-remove.

    Attributes:
        ledger_: what was charged. trees: cells and released leaf values.
    """

    epsilon: float
    delta: float
    schema: pl.Schema
    rounds: Rounds = Rounds()
    random_state: int | None = None
    ledger_: pl.Ledger = field(init=False)
    trees: list[tuple[pl.questions.TreeCells, np.ndarray]] = field(init=False, factory=list)
    _bins: pl.questions.Bins = field(init=False)

    def fit(self, X: Features, y: np.ndarray) -> DistributedSGBDT:
        """One tree a round: every owner's noisy ratios, averaged."""
        if len(self.schema.target.categories) > 2:
            raise pl.errors.SchemaError("two classes, or a number")
        noise, plan = priced(self.rounds, self.epsilon, self.delta)
        self.ledger_ = pl.Ledger.create(None, budget=pl.Budget(self.epsilon, self.delta))
        data = self.ledger_.protect(X, y, self.schema)
        center, scale = self._scaling()
        score = data.score(self._loss, np.zeros(1), center=center, scale=scale)
        self._bins, self.trees = data.bins(BINS), []
        coins = np.random.default_rng(self.random_state)  # public: of features and borders
        with self.ledger_.request(plan, data, delta=self.delta,
                                  learner="distributed-sgbdt") as session:
            paying = session.filtered(plan)
            owners = self._owners(paying)
            for _ in range(self.rounds.regular + self.rounds.extra):
                cells = pl.questions.TreeCells(self._bins, self._tests(coins),  # type: ignore[arg-type]  # a converter
                                               1 << self.rounds.depth)
                values = np.mean([self._ratios(session, owner, score, cells, noise)
                                  for owner in owners], axis=0)
                score.add(cells, values)
                self.trees.append((cells, values))
        return self

    def _owners(self, paying: pl.Dataset) -> list[pl.Dataset]:
        """Who has which records, by private coins that are drawn once."""
        if self.rounds.owners == 1:
            return [paying]
        parts = paying.partition(self.rounds.owners)
        return [parts[place] for place in range(self.rounds.owners)]

    def _ratios(self, session: pl.Session, owner: pl.Dataset, score: pl.questions.Score,
                cells: pl.questions.TreeCells, noise: float) -> np.ndarray:
        """One owner's leaf values, shape (leaves,)."""
        how, sample = self.rounds, owner.poisson(self.rounds.rate)
        asked = sample.query((score.hessian(), score.gradient(how.clip)), cells, "tree")
        counts, sums = session.release(how.tree(noise), asked)
        ratios = np.ravel(sums) / np.maximum(how.regularization, np.ravel(counts))
        return np.asarray(how.learning_rate * np.clip(ratios, -how.clip, how.clip))

    def _tests(self, coins: np.random.Generator) -> list[pl.questions.Test]:
        """A complete random tree, one test a level: a uniform feature, a uniform border."""
        sizes, found = self._bins.sizes(), []
        for level in range(self.rounds.depth):
            j = int(coins.integers(len(sizes)))
            if self.schema.features[j].kind == "categorical":
                side = np.arange(sizes[j]) == coins.integers(sizes[j])
            else:  # the last bin is that of missing values
                side = np.arange(sizes[j]) > coins.integers(max(sizes[j] - 2, 1))
                side[-1] = coins.random() < 0.5
            found.append(pl.questions.Test(j, (side.astype(np.uint8) << level).astype(np.uint8)))
        return found

    @property
    def _loss(self) -> str:
        return "squared" if self.schema.task == "regression" else "logistic"

    def _scaling(self) -> tuple[float, float]:
        target = self.schema.target
        if self.schema.task != "regression":
            return 0.0, 1.0
        return (target.lower + target.upper) / 2, (target.upper - target.lower) / 2

    def predict(self, X: Features) -> np.ndarray:
        """Numbers in the target's unit, or classes of the schema, shape (n,)."""
        codes = self._bins.codes(pl.encode_features(X, self._bins.schema, strict=False))
        total = np.zeros(len(codes[0]))
        for cells, values in self.trees:
            total += values.take(cells.assign(codes))
        if self.schema.task != "regression":
            return np.asarray(self.schema.target.labels[(total > 0).astype(int)])
        center, scale = self._scaling()
        return np.asarray(center + scale * np.clip(total, -1, 1))
