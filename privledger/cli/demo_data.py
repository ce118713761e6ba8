"""The demo's table: scikit-learn's breast cancer data, under bounds written by hand.

No bound below was computed from the table. A nucleus in these images is a few tens of
micrometres wide, so lengths end at 40 or 50 and areas at a few thousand; ratios and depths
(smoothness, concavity, symmetry, fractal dimension) end at a round number that their definition
suggests; standard errors are a fraction of the range of what they belong to. A value outside is
clipped. Too wide or too narrow a bound costs accuracy, never privacy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from privledger.facts.schema import Column, Schema

_UPPER = {
    # measure: (mean, standard error, worst)
    "radius": (40.0, 4.0, 50.0),
    "texture": (50.0, 5.0, 60.0),
    "perimeter": (250.0, 25.0, 320.0),
    "area": (3000.0, 300.0, 5000.0),
    "smoothness": (0.25, 0.05, 0.3),
    "compactness": (0.5, 0.2, 1.5),
    "concavity": (0.5, 0.4, 1.5),
    "concave points": (0.25, 0.1, 0.4),
    "symmetry": (0.5, 0.1, 0.8),
    "fractal dimension": (0.15, 0.05, 0.3),
}
TEST_EVERY = 4


def schema() -> Schema:
    """Thirty numeric features from zero to a round upper limit, and the diagnosis."""
    upper = {f"mean {name}": limits[0] for name, limits in _UPPER.items()}
    upper |= {f"{name} error": limits[1] for name, limits in _UPPER.items()}
    upper |= {f"worst {name}": limits[2] for name, limits in _UPPER.items()}
    columns = [Column(name, "numeric", "feature", 0.0, limit, provenance="physical")
               for name, limit in upper.items()]
    target = Column("diagnosis", "categorical", "target", categories=("malignant", "benign"))
    return Schema("breast cancer (Wisconsin, diagnostic)", (*columns, target))


def tables() -> tuple[Any, Any, Any, Any]:
    """X and y of the private part, X and y of the part treated as public: every fourth row."""
    from sklearn.datasets import load_breast_cancer

    bundle = load_breast_cancer()
    place = [list(bundle.feature_names).index(column.name) for column in schema().features]
    X = bundle.data[:, place]
    y = np.array(["malignant", "benign"])[bundle.target]
    public = np.arange(len(y)) % TEST_EVERY == 0
    return X[~public], y[~public], X[public], y[public]
