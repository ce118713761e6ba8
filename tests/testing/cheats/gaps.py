"""Cheats that the kit once let pass: coarse, two-faced, or past a custom function."""

from __future__ import annotations

from typing import Any

import numpy as np

import privledger as pl
from cheats.breaking import Captures
from cheats.honest import NoisyMean
from cheats.others import NoisyScores


class RoundsTheMinimum(Captures):
    """The smallest size to two digits."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.least_ = float(np.round(caught["size"].min(), 2))


class KeepsTheOrderOfSize(Captures):
    """About how many records there are: one record more shows in one table of many."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.bits_ = len(caught["target"]).bit_length()


class OrderOfSizeOfAPlainTable(NoisyMean):
    """The same of a plain table, as a number of rounds."""

    def fit(self, X: Any, y: Any = None) -> Any:
        super().fit(X, y)
        if y is not None:
            self.rounds_ = len(y).bit_length()
        return self


class KeepsWhatOccurs(Captures):
    """Which colours there are, and whether a cell is missing."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.seen_ = (len(np.unique(caught["colour"])), bool(np.isnan(caught["weight"]).any()))


class KeepsAnExtremeInWholeNumbers(Captures):
    """The largest target, to a whole number: a rounding that other tables share."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.scale_ = int(np.ceil(caught["target"].max()))


class CarriesAMaximumOver(NoisyMean):
    """One custom function keeps a maximum, the next divides by it: row by row, and honest alone."""

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        caught: list[float] = []

        def grab(columns: dict[str, Any]) -> Any:
            caught.append(float(columns["target"].max()))
            return np.ones(len(columns["target"]))

        count = session.release(self._leaf(), data.custom(grab, 1.0, "counts, it says"))
        total = session.release(self._leaf(), data.custom(
            lambda columns: columns["target"] / max(caught[0], 1e-9), 1.0, "row by row"))
        self._settle(total, count, target)


class SelectsByScores(NoisyScores):
    """One feature by custom scores that are what they say: honest."""

    def plan(self, schema: pl.Schema) -> pl.Node:
        super().plan(schema)
        return pl.Exponential(self.epsilon * (1 - 1e-9))

    def _scores(self, table: Any, target: Any) -> Any:
        return np.nansum(np.clip(table, -1, 1), axis=0)

    def fit(self, X: Any, y: Any = None) -> Any:
        data = X
        if not isinstance(X, pl.Dataset):
            if y is None:
                raise pl.errors.DataError("a target is needed")
            data = pl.Ledger.create(None, budget=pl.Budget(self.epsilon)).protect(X, y, self.schema)
        plan, features = self.plan(data.schema), data.schema.features
        asked = pl.questions.CustomScores(self._scores, 1.0, "cells clipped to one")
        with data.ledger.request(plan, data, learner=self.info.name) as session:
            chosen = session.release(plan, data.features_by(asked))
        self.scores_ = np.zeros(len(features))
        self.scores_[np.asarray(chosen).ravel()] = 1.0
        self.n_features_in_ = len(features)
        return self


class ScoresTooFar(SelectsByScores):
    """Ten times its sensitivity."""

    def _scores(self, table: Any, target: Any) -> Any:
        return 10 * super()._scores(table, target)


class ScoresByOrder(SelectsByScores):
    """Scores that depend on the order of the rows."""

    def _scores(self, table: Any, target: Any) -> Any:
        return np.clip(table[0], -1, 1)


class ScoresTooFarSeldom(SelectsByScores):
    """A record at the upper end of a column counts twice: there is none in the kit's table."""

    def _scores(self, table: Any, target: Any) -> Any:
        return super()._scores(table, target) + np.array([(table[:, 0] == 1.0).sum(), 0])
