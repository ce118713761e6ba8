"""Which epsilon gives about which score: tried on made-up tables of a schema, before any data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.estimator import PrivateLearner, check_count, check_number
from privledger_learners.statistics.answers import table_html, table_text

MADE_UP = ("SIMULATED, NOT PRIVATE: scores on made-up tables, in which the target depends on a few "
           "columns, chosen by a seed; real data may be easier or harder. No data were opened")
MOST_ROWS, TEST_ROWS, DRIVING = 20_000, 2_000, 3


@frozen(repr=False)
class LearnerForecast:
    """What a learner would cost, and how it did on made-up tables.

    Attributes:
        lines: (epsilon, price, score, lowest, highest, prior, best) each. `prior` is what the
            largest class, or the mean, scores; `best` what the rule scores that made the table.
        measure: what a score is. rows: of each table.
    """

    lines: tuple[tuple[float, ...], ...]
    measure: str
    rows: int

    def table(self) -> tuple[tuple[str, ...], tuple[tuple[float | str, ...], ...]]:
        """Names of columns, and rows."""
        names = ("epsilon", "price", self.measure, "lowest", "highest", "prior", "best")
        return names, tuple((epsilon, pl.plugins.upward(price), *(round(one, 3) for one in rest))
                            for epsilon, price, *rest in self.lines)

    def __str__(self) -> str:
        return f"{table_text(*self.table())}\n{self.rows} rows; {MADE_UP}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return table_html(*self.table()) + f"<p><small>{self.rows} rows; {MADE_UP}</small></p>"


def forecast(learner: PrivateLearner, schema: pl.Schema, *, rows: int | None = None,
             epsilons: Sequence[float] = (0.1, 0.3, 1.0, 3.0), tables: int = 3,
             seed: int = 0) -> LearnerForecast:
    """Which epsilon gives `learner` about which score on a table of so many rows.

    Args:
        learner: a learner of this package; it is not changed. schema: public facts of the table.
        rows: a public number of rows; None for the schema's. Above 20,000 that many are tried.
        tables: made-up tables per epsilon. seed: of all of them.

    Raises:
        InvalidValue: an impossible number, or no public number of rows.
    """
    if rows is None:
        known = schema.rows_for(learner.relation)
        if known is None:
            raise pl.InvalidValue("rows", rows, "a public number, as the schema declares none")
        rows = max(1, int(known))
    check_count("rows", rows, 1, 10**12)
    check_count("tables", tables, 1, 100)
    check_count("seed", seed, 0, 2**31)
    if not isinstance(epsilons, Sequence) or not epsilons:
        raise pl.InvalidValue("epsilons", epsilons, "a list of numbers")
    for epsilon in epsilons:
        check_number("epsilon", epsilon, 0.0, 1e6)
    size = min(int(rows), MOST_ROWS)
    made = [made_up(schema, size, seed + number) for number in range(tables)]
    lines = []
    for epsilon in epsilons:
        tried = type(learner)(**{**learner.get_params(deep=False), "epsilon": float(epsilon),
                                 "schema": schema, "mode": "simulation"})
        price = pl.epsilon(tried.plan(schema), tried.delta, tried.relation)
        scores = [_score(tried, one, seed + number) for number, one in enumerate(made)]
        lines.append((float(epsilon), price, float(np.mean(scores)), min(scores), max(scores),
                      float(np.mean([one.prior for one in made])),
                      float(np.mean([one.best for one in made]))))
    measure = "accuracy" if schema.task == "classification" else "R2"
    return LearnerForecast(tuple(lines), measure, size)


@frozen(eq=False)
class MadeUp:
    """A table that a seed made: rows to learn from, rows to be scored on, and two references."""

    X: dict[str, np.ndarray]
    y: np.ndarray
    fresh_rows: dict[str, np.ndarray]
    fresh_y: np.ndarray
    prior: float
    best: float


def made_up(schema: pl.Schema, rows: int, seed: int) -> MadeUp:
    """Even columns within their bounds; a target that follows `DRIVING` of them, and noise."""
    rng = np.random.default_rng(seed)
    whole = rows + TEST_ROWS
    columns, signals = {}, []
    for column in schema.features:
        if column.kind == "categorical":
            codes = rng.integers(len(column.categories), size=whole)
            columns[column.name] = np.asarray(column.labels)[codes]
            signals.append(rng.normal(size=len(column.categories))[codes])
        else:
            at = rng.random(whole)
            columns[column.name] = column.lower + at * (column.upper - column.lower)
            if column.integer:
                columns[column.name] = np.clip(np.round(columns[column.name]),
                                               np.ceil(column.lower), np.floor(column.upper))
            # A line and a bend, of even size.
            signals.append(rng.choice([-1, 1]) * (2 * at - 1) * 1.7
                           + rng.normal() * 0.5 * np.cos(2 * np.pi * at))
    driving = rng.permutation(len(signals))[:DRIVING]
    signal = sum((signals[place] for place in driving), np.zeros(whole))
    noisy = signal + rng.normal(size=whole) * 0.5
    target = schema.target
    if schema.task == "classification":
        cuts = np.quantile(signal, np.linspace(0, 1, len(target.categories) + 1)[1:-1])
        codes, told = np.searchsorted(cuts, noisy), np.searchsorted(cuts, signal)
        y = np.asarray(target.labels)[codes]
        test = slice(rows, None)
        prior = float(np.bincount(codes[test]).max() / TEST_ROWS)
        best = float((codes[test] == told[test]).mean())
    else:
        low, high = np.quantile(noisy, [0.01, 0.99])
        scale = (target.upper - target.lower) / max(high - low, 1e-9)
        y = np.clip(target.lower + (noisy - low) * scale, target.lower, target.upper)
        told = np.clip(target.lower + (signal - low) * scale, target.lower, target.upper)
        prior, best = 0.0, _r2(y[rows:], told[rows:])
    return MadeUp({name: held[:rows] for name, held in columns.items()}, y[:rows],
                  {name: held[rows:] for name, held in columns.items()}, y[rows:], prior, best)


def _r2(true: np.ndarray, told: np.ndarray) -> float:
    return float(1 - np.square(true - told).mean() / max(np.var(true), 1e-300))


def _score(learner: PrivateLearner, made: MadeUp, seed: int) -> float:
    fresh = type(learner)(**{**learner.get_params(deep=False), "random_state": seed})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # simulated noise, few rows: `MADE_UP` says so
        fresh.fit(made.X, made.y)
    told = fresh.predict(made.fresh_rows)
    if made.y.dtype.kind in "fi" and not hasattr(fresh, "classes_"):
        return _r2(made.fresh_y, np.asarray(told, dtype=float))
    return float((np.asarray(told) == made.fresh_y).mean())
