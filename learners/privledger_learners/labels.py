"""Class labels between a schema's category list and scikit-learn's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np


def sorted_labels(labels: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Sorted labels, and the schema's position of each. Labels of mixed types keep their order."""
    try:
        order = sorted(range(len(labels)), key=lambda place: labels[place])
    except TypeError:
        order = list(range(len(labels)))
    return np.array([labels[place] for place in order]), np.array(order)


def as_labels(y: Any, classes: np.ndarray) -> np.ndarray:
    """`y` with every label that is another spelling of a class replaced by that class."""
    given = np.asarray(y)
    if given.dtype.kind == classes.dtype.kind or given.ndim != 1:
        return given
    known = {_spelling(label): label for label in classes.tolist()}
    matched = [known.get(_spelling(label)) for label in given.tolist()]
    return given if any(label is None for label in matched) else np.array(matched)


def _spelling(label: Any) -> str:
    if isinstance(label, float) and label.is_integer():
        return str(int(label))
    return str(label)
