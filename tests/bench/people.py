"""Learners under unit person at epsilon 1, beside keeping k rows of everybody.

    OMP_NUM_THREADS=1 python tests/bench/people.py --data DIRECTORY_OF_DATA_SETS

Three tables: adult with people of Zipf many rows, and two made here. Paired by seed: the same split
into people for training and people for testing, and the same noise seed, for every rule.

    one voice    a ledger of unit person
    keep k       k rows of everybody at random, and a k-th of mu by row: what a library that bounds
                 rows per person asks its user to do (OpenDP truncates so, PipelineDP samples so)
    by row       the weaker promise, about single rows
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measure import asked
from privledger_learners import SGBDTClassifier, SGBDTRegressor

import privledger as pl
from privledger.accounting.gaussian import epsilon_from_mu, mu_from_epsilon_delta

EPSILON, DELTA = 1.0, 1e-6
KEPT = (1, 2, 4, 8)


class Held(NamedTuple):
    """A table: columns, target, and whose each row is."""

    name: str
    schema: pl.Schema
    X: dict[str, np.ndarray]
    y: np.ndarray
    people: np.ndarray


def zipf(rng: np.random.Generator, people: int, rows: int) -> np.ndarray:
    """Whose each of `rows` rows is: one row each, the others by weights 1/rank."""
    weights = 1 / np.arange(1, people + 1)
    more = rng.choice(people, rows - people, p=weights / weights.sum())
    return np.concatenate([np.arange(people), more])


def adult(folder: Path) -> Held:
    schema = pl.Schema.load(folder / "adult" / "schema.json")
    X, y = pl.read_table(folder / "adult" / "adult.csv.gz", schema)
    rng = np.random.default_rng(11)
    held = {column.name: np.asarray(X[column.name]) for column in schema.features}
    return Held("adult, 6,000 people", schema, held, np.asarray(y), rng.permutation(
        zipf(rng, 6000, len(y))))


def numbers(name: str, rows: int, people: int, seed: int, personal: float) -> Held:
    """A number from four features, of which the first two belong to the person.

    Args:
        personal: spread of what each person adds of its own, beside noise of .1.
    """
    rng = np.random.default_rng(seed)
    who = rng.permutation(zipf(rng, people, rows))
    own = rng.random((people, 2))[who]
    a, b, c, d = own[:, 0], own[:, 1], rng.random(rows), rng.random(rows)
    y = 0.4 * np.sin(3 * a) + 0.3 * b * c + 0.25 * (d > 0.6) + 0.1 * c
    y += personal * rng.normal(size=people)[who] + 0.1 * rng.normal(size=rows)
    schema = pl.Schema(name, (*(pl.Column(x, "numeric", "feature", 0, 1) for x in "abcd"),
                              pl.Column("y", "numeric", "target", -0.5, 1.5)))
    return Held(name, schema, {"a": a, "b": b, "c": c, "d": d}, np.clip(y, -0.5, 1.5), who)


def taken(held: Held, mask: np.ndarray) -> tuple[dict[str, np.ndarray], np.ndarray]:
    return {name: column[mask] for name, column in held.X.items()}, held.y[mask]


def first_rows(people: np.ndarray, k: int, rng: np.random.Generator) -> np.ndarray:
    """At most k rows of everybody, at random."""
    order = rng.permutation(len(people))
    ranked = order[np.argsort(people[order], kind="stable")]
    who = people[ranked]
    starts = np.flatnonzero(np.diff(who, prepend=-1))
    rank = np.arange(len(who)) - np.repeat(starts, np.diff(np.append(starts, len(who))))
    return np.sort(ranked[rank < k])


def scaled_epsilon(k: int) -> float:
    """Epsilon by row at which k rows of somebody have mu as one row has at EPSILON."""
    return epsilon_from_mu(mu_from_epsilon_delta(EPSILON, DELTA) / k, DELTA)


def fitted(held: Held, rows: np.ndarray, epsilon: float, seed: int, people: bool) -> Any:
    """The learner on some rows; `people` in a ledger that protects people."""
    kind = SGBDTRegressor if held.schema.task == "regression" else SGBDTClassifier
    learner = kind(epsilon=epsilon, delta=DELTA, schema=held.schema, n_trees=50,
                   mode="simulation", random_state=seed)
    X, y = taken(held, rows)
    ledger = pl.Ledger.create(None, budget=pl.Budget(epsilon, DELTA), mode="simulation", seed=seed,
                              **({"unit": "person", "people_key": b"k" * 32} if people else {}))
    named = {"people": held.people[rows]} if people else {}
    return learner.fit(ledger.protect(X, y, held.schema, **named))


def quality(held: Held, learner: Any, rows: np.ndarray) -> float:
    """R2, or accuracy in per cent, on people that were not learned from."""
    X, y = taken(held, rows)
    return float(learner.score(X, y)) * (1 if held.schema.task == "regression" else 100)


def one_seed(held: Held, seed: int) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    out = rng.random(int(held.people.max()) + 1) < 0.2
    test, train = np.flatnonzero(out[held.people]), np.flatnonzero(~out[held.people])
    found = {"one voice": quality(held, fitted(held, train, EPSILON, seed, True), test),
             "by row": quality(held, fitted(held, train, EPSILON, seed, False), test)}
    for k in KEPT:
        rows = train[first_rows(held.people[train], k, rng)]
        found[f"keep {k}"] = quality(held, fitted(held, rows, scaled_epsilon(k), seed, False), test)
    return found


def tables(folder: Path | None) -> Iterator[Held]:
    yield numbers("visits, 4,000 people", 40_000, 4000, 5, 0.05)
    yield numbers("wards, 1,500 people", 30_000, 1500, 6, 0.15)
    if folder is not None:
        yield adult(folder)


def main() -> None:
    told = asked(__doc__, data=Path, seeds=10)
    for held in tables(told.data):
        runs = [one_seed(held, seed) for seed in range(told.seeds)]
        best = max((f"keep {k}" for k in KEPT),
                   key=lambda rule: statistics.fmean(run[rule] for run in runs))
        print(f"\n{held.name}: {len(held.y):,} rows, median "
              f"{np.median(np.bincount(held.people)):g} and at most "
              f"{np.bincount(held.people).max():,} of one person")
        for rule in runs[0]:
            values = [run[rule] for run in runs]
            apart = [run["one voice"] - run[rule] for run in runs]
            error = statistics.stdev(apart) / len(apart) ** 0.5 if len(apart) > 1 else 0.0
            print(f"  {rule:10} {statistics.fmean(values):8.3f}   one voice is "
                  f"{statistics.fmean(apart):+.3f} (+- {error:.3f}){' best k' * (rule == best)}")


if __name__ == "__main__":
    main()
