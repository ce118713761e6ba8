"""Classes that count more than their records do: a score of released values moves, nothing else.

Clip bounds are public and noise is as without, so weights cost nothing; docs/papers/s-gbdt.md.
"""

from __future__ import annotations

import numpy as np

import privledger as pl
from privledger_learners.boosting.sum_of_trees import Model
from privledger_learners.class_numbers import Weights, class_numbers

WEIGHED_CLIP = 0.95
"""On |y - p|: a rare class has large residuals; with a lower bound its share comes out too low."""


def default_clip(schema: pl.Schema, *, weighed: bool = False) -> float:
    """Gradient clip where none is given and none is bought; public facts only."""
    if schema.task == "regression":
        return 0.2
    if len(schema.target.categories) > 2:
        return 0.4
    return WEIGHED_CLIP if weighed else 0.28


def check_weights(given: Weights, schema: pl.Schema, *, bought: bool) -> None:
    """Raise `InvalidValue` for what cannot weigh the schema's classes.

    Args:
        bought: the sizes of the classes will be released.
    """
    if given is None:
        return
    if schema.task == "regression":
        raise pl.InvalidValue("class_weight", given, "None: a number has no classes")
    if isinstance(given, str) and given == "balanced":
        if not bought:
            raise pl.InvalidValue("class_weight", given, "public numbers where start_share is 0: "
                                  "the sizes of the classes are not bought")
        return
    class_numbers(given, schema)


def weights_of(given: Weights, model: Model) -> np.ndarray | None:
    """Weights in the schema's order, the largest 1, shape (classes,); None for none.

    "balanced" is one over the class's share, as the released start has it.
    """
    if given is None:
        return None
    if isinstance(given, str):
        shares = pl.questions.probabilities(
            model.loss, model.start.score if model.loss == "logistic" else model.start.score[None])
        found = 1 / (np.append(1 - shares, shares) if model.loss == "logistic" else shares[0])
    else:
        found = class_numbers(given, model.bins.schema)
    return np.asarray(found / found.max())
