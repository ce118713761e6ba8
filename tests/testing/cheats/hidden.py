"""Cheats whose spoils are in no plain sight: rounded, chosen by, or taken from a plain table."""

from __future__ import annotations

from typing import Any

import numpy as np

import privledger as pl
from cheats.breaking import Captures
from cheats.honest import NoisyMean


class KeepsTheMaximum(Captures):
    """The largest target, exactly."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.scale_ = float(caught["target"].max())


class RoundsTheMaximum(Captures):
    """The largest target to three digits: no planted number is in the model."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.scale_ = float(np.round(caught["target"].max(), 2))


class WritesTheMaximum(Captures):
    """The largest cell in words, halved."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.note_ = f"fits sizes up to {caught['size'].max() / 2:.4f}"


class ClipsAtTheMaximum(Captures):
    """Predictions stay below the largest target that occurred."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.mean_ = min(self.mean_, float(caught["target"].max()) - 9.0)


class _Asks(NoisyMean):
    """The sum by a custom function of the table."""

    def _values(self, columns: dict[str, Any]) -> Any:
        raise NotImplementedError

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        query = data.custom(self._values, 1.0, "each row by itself, it says")
        total = session.release(self._leaf(), query)
        self._settle(total, session.release(self._leaf(), data.count()), target)


class ScalesByTheMaximum(_Asks):
    """A row counts the more, the smaller the others are."""

    def _values(self, columns: dict[str, Any]) -> Any:
        return columns["target"] / max(columns["target"].max(), 1e-9)


class Ranks(_Asks):
    """A row's value is its place among the others."""

    def _values(self, columns: dict[str, Any]) -> Any:
        return np.argsort(np.argsort(columns["target"])) / len(columns["target"])


class DividesByTheCount(_Asks):
    """One row more, and every row counts less."""

    def _values(self, columns: dict[str, Any]) -> Any:
        return np.full(len(columns["target"]), 1.0 / len(columns["target"]))


class RunsAlong(_Asks):
    """A row's value is what came before it."""

    def _values(self, columns: dict[str, Any]) -> Any:
        return np.tanh(np.cumsum(columns["target"] - 5.0))


class CountsAPlainTable(NoisyMean):
    """The exact number of rows, where it holds the table itself."""

    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X, y)
        if y is not None:
            self.n_samples_ = len(y)
        return self


class MaximumOfAPlainTable(NoisyMean):
    """The largest target of a plain table, as a float of half the size."""

    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X, y)
        if y is not None:
            self.most_ = np.float32(np.asarray(y, dtype=float).max())
        return self


class ShrinksWithAPlainTable(NoisyMean):
    """A regularisation by the exact number of rows of a plain table; it keeps no number."""

    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X, y)
        if y is not None:
            self.mean_ *= 1 - 1 / (2 + len(y))
        return self


class BestOfThree(NoisyMean):
    """Pays for three fits, and takes the one that does best on the rows themselves."""

    def _leaf(self) -> pl.Node:
        sensitivity = 1.0 if self.relation == "add_remove" else 2.0
        return pl.Laplace(6 * sensitivity / (self.epsilon * (1 - 1e-9)), sensitivity)

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Repeat(self._leaf(), 6)

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        caught: list[Any] = []

        def grab(columns: dict[str, Any]) -> Any:
            caught[:] = [np.array(columns["target"])]
            return np.ones(len(columns["target"]))

        means = []
        for _ in range(3):
            total = session.release(self._leaf(), data.sum(target.name))
            self._settle(total, session.release(self._leaf(), data.custom(
                grab, 1.0, "counts, it says")), target)
            means.append(self.mean_)
        self._choose(means, caught[0])

    def _choose(self, means: list[float], y: Any) -> None:
        self.mean_ = min(means, key=lambda mean: float(np.abs(y - mean).sum()))


class BestOfThreeOnAPlainTable(BestOfThree):
    """The same, with the table that it was handed."""

    table: Any = None

    def fit(self, X: Any, y: Any = None) -> Any:
        self._table = y
        super().fit(X, y)
        del self._table
        return self

    def _choose(self, means: list[float], y: Any) -> None:
        self.mean_ = means[0]
        if self._table is not None:
            super()._choose(means, np.asarray(self._table, dtype=float))


class SpendsTwiceOnAPlainTable(NoisyMean):
    """Behind a ledger one grant; on a table of its own two ledgers."""

    def fit(self, X: Any, y: Any = None) -> Any:
        if y is not None:
            super().fit(X, y)
        return super().fit(X, y)


class SwallowsARefusal(NoisyMean):
    """On a plain table a refusal makes it guess."""

    def fit(self, X: Any, y: Any = None) -> Any:
        if y is None:
            return super().fit(X, y)
        try:
            return super().fit(X, y)
        except pl.BudgetExceeded:
            self.mean_ = 5.0
            return self


class PlansByAPlainTable(NoisyMean):
    """The shape of its reservation tells whether a plain table's number of rows is odd."""

    def fit(self, X: Any, y: Any = None) -> Any:
        self._odd = y is not None and len(y) % 2 == 1
        super().fit(X, y)
        del self._odd
        return self

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        if self._odd:
            plan = pl.Sequential([plan.node, plan.node])
        super()._run(data, plan, target)


class SeededOnAPlainTable(NoisyMean):
    """On a plain table its ledger simulates."""

    def _guarded(self, X: Any, y: Any) -> pl.Dataset:
        if isinstance(X, pl.Dataset):
            return X
        if y is None:
            raise pl.errors.DataError("a target is needed")
        ledger = pl.Ledger.create(None, budget=pl.Budget(self.epsilon, self.delta),
                                  relation=self.relation, mode="simulation", seed=0)
        return ledger.protect(X, y, self.schema)


class LargeBudgetOnAPlainTable(NoisyMean):
    """Its own ledger would allow ten fits."""

    def _guarded(self, X: Any, y: Any) -> pl.Dataset:
        if isinstance(X, pl.Dataset):
            return X
        if y is None:
            raise pl.errors.DataError("a target is needed")
        ledger = pl.Ledger.create(None, budget=pl.Budget(10 * self.epsilon, self.delta),
                                  relation=self.relation)
        return ledger.protect(X, y, self.schema)
