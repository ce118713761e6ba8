"""What people do to a table before they give it away: mistakes, and honest preparations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import asdict, define, field

import privledger as pl
from tests.worlds import protected

Table = tuple[dict[str, Any], np.ndarray]
Preparation = Callable[["Prepared", dict[str, Any], np.ndarray], Table]
LEAST, ROUNDS = 5, 12


@define(eq=False, slots=False)
class Prepared:
    """Histograms of two columns and sums of two, after `how` was done to the plain table."""

    epsilon: float = 1.0
    delta: float = 0.0
    relation: str = "add_remove"
    schema: pl.Schema | None = None
    random_state: int | None = None
    how: str = "as it is"
    answers_: list[Any] = field(factory=list, init=False)
    asked_: tuple[str, ...] = field(default=("size", "weight"), init=False)
    rounds_: int = field(default=ROUNDS, init=False)

    @property
    def info(self) -> pl.LearnerInfo:
        return pl.LearnerInfo("prepared", self.how, relations=(self.relation,),
                              tasks=("regression",))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return asdict(self, recurse=False, filter=lambda one, _: one.init)

    def _node(self, sensitivity: float) -> pl.Laplace:
        share = self.epsilon / (ROUNDS + 2) * (1 - 1e-9)
        return pl.Laplace(sensitivity * (2 if self.relation != "add_remove" else 1) / share,
                          sensitivity * (2 if self.relation != "add_remove" else 1))

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Sequential([pl.Repeat(self._node(10.0), ROUNDS), pl.Repeat(self._node(1.0), 2)])

    def fit(self, X: Any, y: Any = None) -> Any:
        data = X
        if not isinstance(X, pl.Dataset):
            assert self.schema is not None
            X, y = {name: np.array(column) for name, column in X.items()}, np.array(y, dtype=float)
            X, y = HOW[self.how](self, X, y)
            _, data = protected(pl.Budget(self.epsilon, self.delta), X, y, self.schema,
                                relation=self.relation)
        with data.ledger.request(self.plan(data.schema), data, learner="prepared",
                                 delta=self.delta) as session:
            self.answers_ = [session.release(self._node(1.0), data.histogram("colour"))]
            for place in range(self.rounds_):
                column = self.asked_[place % len(self.asked_)] if self.asked_ else "target"
                self.answers_.append(session.release(self._node(10.0), data.sum(column)))
        return self

    def predict(self, X: Any) -> np.ndarray:
        rows = len(next(iter(X.values()))) if isinstance(X, dict) else len(X)
        return np.full(rows, float(self.answers_[-1]))


def _only(X: dict[str, Any], y: np.ndarray, kept: Any) -> Table:
    return {name: column[kept] for name, column in X.items()}, y[kept]


def _weights(X: dict[str, Any]) -> np.ndarray:
    return np.nan_to_num(X["weight"].astype(float))


def _minority(y: np.ndarray) -> np.ndarray:
    high = np.flatnonzero(y > 5)
    low = np.flatnonzero(y <= 5)
    return high if len(high) < len(low) else low


def distinct_bins(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    values = np.unique(X["size"])
    return X | {"size": np.searchsorted(values, X["size"]) / len(values)}, y


def min_max(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    low, high = X["size"].min(), X["size"].max()
    return X | {"size": (X["size"] - low) / ((high - low) or 1.0)}, y


def standardised(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    weight = X["weight"]
    return X | {"weight": (weight - np.nanmean(weight)) / (np.nanstd(weight) or 1.0)
                if np.isfinite(weight).any() else weight}, y


def outliers_out(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return _only(X, y, np.abs(y - y.mean()) <= 3 * y.std())


def rare_out(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    _, where, often = np.unique(X["colour"], return_inverse=True, return_counts=True)
    return _only(X, y, often[where] >= LEAST)


def extremes_out(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    tenth = len(y) // 10
    return _only(X, y, np.sort(np.argsort(y, kind="stable")[tenth:len(y) - tenth]))


def last_fifth_out(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return _only(X, y, slice(0, max(1, int(0.8 * len(y)))))


def threshold(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return X, np.where(y > np.median(y), 10.0, 0.0)


def target_encoded(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    _, where = np.unique(X["colour"], return_inverse=True)
    means = np.bincount(where, weights=y) / np.bincount(where)
    return X | {"weight": means[where] - 5}, y


def mean_imputed(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    weight = X["weight"].astype(float)
    gaps = np.isnan(weight)
    return X | {"weight": np.where(gaps, weight[~gaps].mean() if (~gaps).any() else 0.0, weight)}, y


def resampled(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    few = _minority(y)
    more = np.random.default_rng(0).choice(few, len(y) - 2 * len(few)) if len(few) else few
    return _only(X, y, np.concatenate([np.arange(len(y)), more]).astype(int))


def deduplicated(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    seen: dict[Any, int] = {}
    for place, row in enumerate(zip(X["size"], _weights(X), X["colour"], strict=True)):
        seen.setdefault(row, place)
    return _only(X, y, np.array(list(seen.values())))


def column_sorted(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return X | {"size": np.sort(X["size"])}, y


def early_stop(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    error, guess = np.inf, 0.0
    for me.rounds_ in range(1, ROUNDS):
        guess += 0.5 * (y.mean() - guess)
        now = float(np.mean((y - guess) ** 2))
        if now > 0.99 * error:
            break
        error = now
    return X, y


def rows_as_number(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    me.n_rows_ = len(y)
    return X, y


def feature_selected(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    def score(column: np.ndarray) -> float:
        return float(abs(np.mean((column - column.mean()) * (y - y.mean()))) / (column.std() or 1))
    size, weight = score(X["size"]), score(_weights(X))
    me.asked_ = ("size",) if size >= weight else ("weight",)
    return X, y


def principal(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    both = np.stack([X["size"], _weights(X) / 10], axis=1)
    both = both - both.mean(axis=0)
    axis = np.linalg.svd(both, full_matrices=False)[2][0]
    return X | {"weight": np.clip(both @ axis * 5, -5, 5)}, y


def categories_read(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    names = np.unique(X["colour"])
    return X | {"weight": np.searchsorted(names, X["colour"]).astype(float)}, y


def constant_dropped(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    kept = [name for name in ("size", "weight") if np.ptp(np.nan_to_num(X[name])) > 0]
    me.asked_ = tuple(kept)
    return X, y


def shuffled_split(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    order = np.random.default_rng(7).permutation(len(y))
    return _only(X, y, order[:max(1, int(0.8 * len(y)))])


def class_weights(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    high = y > 5
    share = np.where(high, high.mean(), 1 - high.mean())
    return X, np.clip(y / (2 * share), 0, 10)


def quantile_clipped(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    low, high = np.quantile(X["size"], [0.01, 0.99])
    return X | {"size": np.clip(X["size"], low, high)}, y


def log_if_skewed(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    spread = y.std()
    skew = float(np.mean((y - y.mean()) ** 3) / spread**3) if spread else 0.0
    return X, np.log1p(y) if skew > 1 else y


def depth_by_rows(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    me.rounds_ = min(ROUNDS, int(np.log2(len(y))) + 1)
    return X, y


def cross_validated(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    folds = np.arange(len(y)) % 5
    errors = []
    for shrink in (0.0, 0.25, 0.5, 0.75, 1.0):
        errors.append(sum(float(np.sum((y[folds == one] - shrink * y[folds != one].mean()) ** 2))
                          for one in range(5) if (folds != one).any()))
    me.rounds_ = 1 + int(np.argmin(errors))
    return X, y


def synthesised(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    few = _minority(y)
    if len(few) < 2:
        return X, y
    other = np.roll(few, 1)
    more, targets = _only(X, y, few)
    more = more | {name: (X[name][few] + X[name][other]) / 2 for name in ("size", "weight")}
    return ({name: np.concatenate([column, more[name]]) for name, column in X.items()},
            np.concatenate([y, (targets + y[other]) / 2]))


def first_thousand(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return _only(X, y, slice(0, 1000))


def whole_batches(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return _only(X, y, slice(0, max(1, len(y) // 32 * 32)))


MISTAKES: dict[str, Preparation] = {one.__name__.replace("_", "-"): one for one in (
    distinct_bins, min_max, standardised, outliers_out, rare_out, extremes_out, last_fifth_out,
    threshold, target_encoded, mean_imputed, resampled, deduplicated, column_sorted, early_stop,
    rows_as_number, feature_selected, principal, categories_read, constant_dropped, shuffled_split,
    class_weights, quantile_clipped, log_if_skewed, depth_by_rows, cross_validated, synthesised,
    first_thousand, whole_batches)}


def by_the_bounds(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return X | {"size": np.clip(X["size"], 0.1, 0.9) * 0.5}, np.log1p(y)


def in_order(me: Prepared, X: dict[str, Any], y: np.ndarray) -> Table:
    return _only(X, y, np.argsort(y, kind="stable"))


HONEST: dict[str, Preparation] = {
    "as it is": lambda me, X, y: (X, y), "by-the-bounds": by_the_bounds, "in-order": in_order,
    "reversed": lambda me, X, y: _only(X, y, slice(None, None, -1))}
"""Each row by itself, and in any order: what a plain table may have done to it."""

HOW = HONEST | MISTAKES
