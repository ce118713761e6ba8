"""Synthetic tables: total variation over all pairs of columns, and boosting trained on them.

    OMP_NUM_THREADS=1 python tests/bench/synthetic.py --data DIR --sets adult --epsilons 1

Columns are compared in public bins: 16 of equal width for numbers, all categories, missing values.
Boosting (scikit-learn) learns from real or synthetic rows and is scored on real rows that no fit
saw: adult's own test file, a quarter of the others.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from measure import asked
from privledger_learners import MarginalSynthesizer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import privledger as pl
from learners import DELTA, load

BINS = 16


def codes(schema: pl.Schema, X: Any, y: Any) -> tuple[list[np.ndarray], list[int]]:
    """Public bins of every column, the target's classes last; and how many there are."""
    bins = pl.questions.Bins(schema, BINS)
    known = [str(one) for one in schema.target.categories]
    labels = np.array([known.index(str(one)) for one in y])
    found = bins.codes(pl.encode_features(X, schema, strict=False))
    return [*(one.astype(int) for one in found), labels], [*bins.sizes(), len(known)]


def variations(schema: pl.Schema, one: Any, two: Any) -> np.ndarray:
    """Total variation of each pair of columns."""
    (first, sizes), (second, _) = codes(schema, *one), codes(schema, *two)
    found = []
    for a, b in itertools.combinations(range(len(sizes)), 2):
        tables = [np.bincount(held[a] * sizes[b] + held[b], minlength=sizes[a] * sizes[b])
                  / len(held[a]) for held in (first, second)]
        found.append(np.abs(tables[0] - tables[1]).sum() / 2)
    return np.array(found)


def boosted(schema: pl.Schema, train: Any, test: Any) -> tuple[float, float]:
    """Accuracy and AUC on `test` of boosting trained on `train`."""
    def matrix(X: Any) -> np.ndarray:
        held = pl.encode_features(X, schema, strict=False).arrays
        return np.stack([np.where(one == -1, np.nan, one) if one.dtype.kind == "i" else one
                         for one in held], axis=1)

    yes = schema.target.categories[1]
    model = HistGradientBoostingClassifier(random_state=0, categorical_features=[
        column.kind == "categorical" for column in schema.features])
    model.fit(matrix(train[0]), [str(one) == str(yes) for one in train[1]])
    truth = np.array([str(one) == str(yes) for one in test[1]])
    chance = model.predict_proba(matrix(test[0]))[:, 1]
    return float(((chance > 0.5) == truth).mean()), float(roc_auc_score(truth, chance))


def split(data: Path, name: str) -> tuple[pl.Schema, Any, Any]:
    """Schema, rows to learn from, rows to score on."""
    schema, X, y = load(data, name)
    other = data / name / f"{name}_test.csv.gz"
    if other.exists():
        return schema, (X, y), pl.read_table(other, schema)
    order = np.random.default_rng(0).permutation(len(y))
    last, first = np.split(order, [len(y) // 4])
    return schema, (X.iloc[first], y.iloc[first]), (X.iloc[last], y.iloc[last])


def main() -> None:
    told = asked(__doc__, data=(Path,), sets=["adult", "bank", "credit_default"],
                 epsilons=[0.3, 1.0, 3.0], fits=5, degree=2)
    warnings.simplefilter("ignore")
    print("| set | epsilon | mean TV | worst pair | accuracy | AUC |\n|---|---|---|---|---|---|")
    for name in told.sets:
        schema, train, test = split(told.data, name)
        names = [column.name for column in schema.features]
        score = boosted(schema, train, test)
        print(f"| {name} | real rows | - | - | {score[0]:.3f} | {score[1]:.3f} |", flush=True)
        for epsilon in told.epsilons:
            found = []
            for _ in range(told.fits):
                model = MarginalSynthesizer(epsilon, DELTA, schema, degree=told.degree,
                                            unaccounted=True).fit(*train)
                sample = model.sample()
                made = sample[names], sample[schema.target.name]
                pairs = variations(schema, train, made)
                found.append((pairs.mean(), pairs.max(), *boosted(schema, made, test)))
            mean = np.mean(found, axis=0)
            print(f"| {name} | {epsilon:g} | {mean[0]:.4f} | {mean[1]:.3f} | {mean[2]:.3f} | "
                  f"{mean[3]:.3f} |", flush=True)


if __name__ == "__main__":
    main()
