"""One peer on one prepared table, under a Python of its own: needs NumPy and the peer alone.

Called by peers.py, as every peer wants other versions of shared packages:
`python peer_fits.py TABLE.npz JOB.json` prints a line of JSON for each fit.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

BINS = 32  # of a numeric column, where a peer takes categories only: equal width, public bounds


def ebm(facts: dict[str, Any], epsilon: float, delta: float) -> Any:
    """DP-EBM with its defaults, and public bounds."""
    from interpret.privacy import DPExplainableBoostingClassifier as Classifier
    from interpret.privacy import DPExplainableBoostingRegressor as Regressor

    if len(facts["classes"]) > 2:
        raise NotImplementedError("two classes or a number")
    bounds = {place: (one["lower"], one["upper"]) for place, one in enumerate(facts["features"])
              if one["size"] == 0}
    options: dict[str, Any] = {
        "epsilon": epsilon, "delta": delta, "privacy_bounds": bounds, "n_jobs": 1,
        "feature_types": ["continuous" if one["size"] == 0 else "nominal"
                          for one in facts["features"]]}
    if facts["classes"]:
        return Named(Classifier(**options), facts)
    return Named(Regressor(**options, privacy_target_min=facts["lower"],
                           privacy_target_max=facts["upper"]), facts)


class Named:
    """Categories as words, which DP-EBM wants."""

    def __init__(self, model: Any, facts: dict[str, Any]) -> None:
        self.model, self.facts = model, facts

    def _table(self, X: np.ndarray) -> np.ndarray:
        table = X.astype(object)
        for place, one in enumerate(self.facts["features"]):
            if one["size"]:
                table[:, place] = [f"c{int(code)}" for code in X[:, place]]
        return table

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.fit(self._table(X), y)
        self.classes_ = getattr(self.model, "classes_", None)

    def predict(self, X: np.ndarray) -> Any:
        return self.model.predict(self._table(X))

    def predict_proba(self, X: np.ndarray) -> Any:
        return self.model.predict_proba(self._table(X))


def forest(facts: dict[str, Any], epsilon: float, delta: float) -> Any:
    """diffprivlib's forest: ten trees of depth five, as it comes; pure epsilon."""
    from diffprivlib.models import RandomForestClassifier

    if not facts["classes"]:
        raise NotImplementedError("classes only")
    low = [one["lower"] for one in facts["features"]]
    high = [one["upper"] for one in facts["features"]]
    return RandomForestClassifier(epsilon=epsilon, bounds=(np.array(low), np.array(high)),
                                  classes=facts["classes"])


def logistic(facts: dict[str, Any], epsilon: float, delta: float) -> Any:
    """diffprivlib's logistic regression: objective perturbation; pure epsilon."""
    from diffprivlib.models import LogisticRegression

    if not facts["classes"]:
        raise NotImplementedError("classes only")
    return Spread(LogisticRegression(epsilon=epsilon,
                                     data_norm=math.sqrt(len(facts["features"]))), facts)


def linear(facts: dict[str, Any], epsilon: float, delta: float) -> Any:
    """diffprivlib's linear regression: noise on the moments; pure epsilon."""
    from diffprivlib.models import LinearRegression

    if facts["classes"]:
        raise NotImplementedError("a number only")
    low = np.concatenate([np.zeros(one["size"] - 1) if one["size"] else -np.ones(1)
                          for one in facts["features"]])
    return Spread(LinearRegression(epsilon=epsilon, bounds_X=(low, np.ones(len(low))),
                                   bounds_y=(facts["lower"], facts["upper"])), facts)


class Spread:
    """Numbers scaled to [-1, 1] by public bounds, a column for each category but the first."""

    def __init__(self, model: Any, facts: dict[str, Any]) -> None:
        self.model, self.facts = model, facts

    def _table(self, X: np.ndarray) -> np.ndarray:
        columns = []
        for place, one in enumerate(self.facts["features"]):
            if one["size"]:
                columns.append(np.eye(one["size"])[X[:, place].astype(int), 1:])
            else:
                part = (X[:, place] - one["lower"]) / (one["upper"] - one["lower"])
                columns.append(np.clip(2 * part - 1, -1, 1)[:, None])
        return np.concatenate(columns, axis=1)

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        self.model.fit(self._table(X), y)
        self.classes_ = getattr(self.model, "classes_", None)

    def predict(self, X: np.ndarray) -> Any:
        return self.model.predict(self._table(X))

    def predict_proba(self, X: np.ndarray) -> Any:
        return self.model.predict_proba(self._table(X))


class Synthetic:
    """Boosting without privacy on the rows that a synthesiser of marginals draws."""

    def __init__(self, facts: dict[str, Any], epsilon: float, delta: float) -> None:
        self.facts, self.epsilon, self.delta = facts, epsilon, delta

    def _sizes(self) -> list[int]:
        last = {"size": len(self.facts["classes"])}
        return [one["size"] or BINS for one in [*self.facts["features"], last]]

    def _codes(self, values: np.ndarray, one: dict[str, Any]) -> np.ndarray:
        if one.get("size"):
            return values.astype(int)
        part = (values - one["lower"]) / (one["upper"] - one["lower"])
        return np.clip((part * BINS).astype(int), 0, BINS - 1)

    def _values(self, codes: np.ndarray, one: dict[str, Any]) -> np.ndarray:
        if one.get("size"):
            return codes.astype(float)
        return one["lower"] + (one["upper"] - one["lower"]) * (codes + 0.5) / BINS

    def _columns(self) -> list[dict[str, Any]]:
        target = {"size": len(self.facts["classes"]), "lower": self.facts["lower"],
                  "upper": self.facts["upper"]}
        return [*self.facts["features"], target]

    def _drawn(self, codes: np.ndarray) -> np.ndarray:
        from mbi import Dataset, Domain
        from pandas import DataFrame
        from snsynth.mst.mst import MSTSynthesizer

        names = [f"c{place}" for place in range(codes.shape[1])]
        made = MSTSynthesizer(epsilon=self.epsilon, delta=self.delta)
        made.MST(Dataset(DataFrame(codes, columns=names), Domain(names, self._sizes())),
                 self.epsilon, self.delta)
        drawn = made.undo_compress_fn(made.synthesizer.synthetic_data(rows=len(codes)))
        return drawn.df[names].to_numpy()

    def fit(self, X: np.ndarray, y: np.ndarray) -> None:
        from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

        columns = self._columns()
        both = np.column_stack([X, y])
        codes = np.column_stack([self._codes(both[:, place], one)
                                 for place, one in enumerate(columns)])
        drawn = self._drawn(codes)
        rows = np.column_stack([self._values(drawn[:, place], one)
                                for place, one in enumerate(columns)])
        kinds = [place for place, one in enumerate(columns[:-1]) if 2 < one["size"] <= 255]
        model = (HistGradientBoostingClassifier if self.facts["classes"]
                 else HistGradientBoostingRegressor)
        if self.facts["classes"] and len(np.unique(rows[:, -1])) < 2:
            rows[0, -1] = 1 - rows[0, -1]  # it takes no table of one class
        self.model = model(random_state=0, categorical_features=kinds or None)
        self.model.fit(rows[:, :-1], rows[:, -1])
        self.classes_ = getattr(self.model, "classes_", None)

    def predict(self, X: np.ndarray) -> Any:
        return self.model.predict(X)

    def predict_proba(self, X: np.ndarray) -> Any:
        return self.model.predict_proba(X)


SYSTEMS: dict[str, Callable[[dict[str, Any], float, float], Any]] = {
    "DP-EBM": ebm, "diffprivlib forest": forest, "diffprivlib logistic": logistic,
    "diffprivlib linear": linear, "MST + boosting": Synthetic}


def scored(model: Any, X: np.ndarray, y: np.ndarray, facts: dict[str, Any]) -> dict[str, float]:
    """Accuracy, and the area under the curve of two classes; or R2.

    Predicted numbers are cut to the public range, whoever predicts them.
    """
    found = np.asarray(model.predict(X), dtype=float)
    if not facts["classes"]:
        found = np.clip(found, facts["lower"], facts["upper"])
        return {"score": 1 - float(np.square(y - found).mean() / np.square(y - y.mean()).mean())}
    figures = {"score": float((found == y).mean())}
    if len(facts["classes"]) == 2:
        second = np.asarray(model.predict_proba(X), dtype=float)
        if second.shape[1] == 2:
            figures["auc"] = area(second[:, 1], y == 1)
    return figures


def area(values: np.ndarray, positive: np.ndarray) -> float:
    """Chance that a positive is above a negative; half of it where they are equal."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[place]
    many = int(positive.sum())
    return float((ranks[positive].sum() - many * (many + 1) / 2) / (many * (len(values) - many)))


def fits(table: Any, job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One line for every epsilon and seed of the job."""
    facts, X, y = job["facts"], table["X"], table["y"]
    for seed, epsilon in job["wanted"]:
        train, test = table[f"train{seed}"], table[f"test{seed}"]
        model = SYSTEMS[job["system"]](facts, epsilon, job["delta"])
        start = time.process_time()
        model.fit(X[train], y[train])
        seconds = time.process_time() - start
        yield {"seed": seed, "epsilon": epsilon, "seconds": round(seconds, 3),
               **{key: round(value, 5)
                  for key, value in scored(model, X[test], y[test], facts).items()}}


def main() -> None:
    warnings.simplefilter("ignore")
    job = json.loads(Path(sys.argv[2]).read_text(encoding="utf-8"))
    with np.load(sys.argv[1]) as held:
        table = {name: held[name] for name in held.files}
    try:
        for line in fits(table, job):
            print(json.dumps(line), flush=True)
    except ImportError as error:
        print(json.dumps({"skipped": f"not installed: {error.name}"}), flush=True)
    except NotImplementedError as error:
        print(json.dumps({"skipped": f"for {error}"}), flush=True)


if __name__ == "__main__":
    main()
