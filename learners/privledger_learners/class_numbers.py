"""One public number for each class, as a caller writes them: in order, or by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

import privledger as pl
from privledger_learners.estimator import check_number

Weights = str | Sequence[float] | Mapping[object, float] | None
_ASKED = "None, balanced, a number for each class, or a dict of all classes"


def class_numbers(given: Weights, schema: pl.Schema) -> np.ndarray:
    """In the schema's order, shape (classes,). Names may be spelled as the schema allows.

    Raises:
        InvalidValue: not a number above 0 for each class and for nothing else.
    """
    classes = [pl.plugins.label_key(label) for label in schema.target.categories]
    values: Sequence[float] | np.ndarray
    if isinstance(given, Mapping):
        named = {pl.plugins.label_key(label): value for label, value in given.items()}
        if sorted(named) != sorted(classes) or len(named) != len(given):
            raise pl.InvalidValue("class_weight", given, _ASKED)
        values = [named[label] for label in classes]
    elif isinstance(given, (list, tuple, np.ndarray)) and len(given) == len(classes):
        values = given
    else:
        raise pl.InvalidValue("class_weight", given, _ASKED)
    for one in values:
        check_number("class_weight", one, 0.0, 1e9)
    return np.array([float(one) for one in values])
