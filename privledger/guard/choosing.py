"""Answers to choices: exact selection among the candidates of every leaf."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import UnsupportedNode
from privledger.mechanisms import Exponential, PermuteAndFlip, TopK
from privledger.noise.source import NoiseSource
from privledger.questions.choice import Choice, LabelChoice, Picked
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.feature_scores import feature_scores
from privledger.questions.options import label_options, options_of, picked
from privledger.rounding import down, moderate
from privledger.tables.chunk import Rows

CHOOSERS = (Exponential, PermuteAndFlip, TopK)


Asked = Choice | LabelChoice | FeatureChoice


def rate_of(mechanism: Any, choice: Asked, relation: str) -> float:
    """What a score is multiplied by, such that `mechanism` costs what its node says.

    Raises:
        UnsupportedNode: no exact sampler, or a score that moves further than the node says.
    """
    if type(mechanism) not in CHOOSERS:
        raise UnsupportedNode(f"{type(mechanism).__name__} does not choose; nothing was read")
    least, most = choice.bound.change
    sensitivity = choice.sensitivity(relation)
    if isinstance(mechanism, Exponential):
        low, high = mechanism.score_change
        if not (low <= least and most <= high):
            raise UnsupportedNode(
                f"one record moves the score by {least:g} to {most:g} sensitivities, the "
                f"mechanism says {low:g} to {high:g}; nothing was read")
        rate = mechanism.epsilon / (2 * sensitivity)
    else:
        _check_kind(mechanism, choice)
        # A common shift of all scores changes nothing: only the width of the interval counts.
        rate = mechanism.epsilon / (sensitivity * (most - least))
    rate = down(down(rate))
    moderate("selection rate", rate)
    return rate


def _check_kind(mechanism: Any, choice: Asked) -> None:
    if isinstance(choice, FeatureChoice):
        if isinstance(mechanism, TopK) and mechanism.k >= len(choice.candidates):
            raise UnsupportedNode("top-k needs more candidates than it chooses; nothing was read")
    elif isinstance(mechanism, TopK):
        raise UnsupportedNode("top-k chooses among the features of a table; nothing was read")
    elif choice.among not in ("features", "labels"):
        raise UnsupportedNode("permute-and-flip chooses features or labels; for cuts use "
                              "Exponential. Nothing was read")


def choose_features(mechanism: Any, choice: FeatureChoice, rate: float, rows: Rows,
                    source: NoiseSource) -> NDArray[np.int64]:
    """Inside the guard: positions of the chosen features, k of them or one."""
    candidates = choice.candidates
    scores = feature_scores(choice, rows)[candidates]
    if isinstance(mechanism, TopK):
        return candidates[source.top_k(scores, mechanism.k, rate, mechanism.noise)]
    starts = np.array([0, len(scores)], dtype=np.int64)
    if isinstance(mechanism, PermuteAndFlip):
        return candidates[source.permute_and_flip(scores, starts, rate)]
    return candidates[source.choose(scores, np.ones(len(scores), dtype=np.int64), starts, rate)]


def choose(mechanism: Any, choice: Choice, rate: float, rows: Rows,
           source: NoiseSource) -> Picked:
    """Inside the guard: one exact draw per leaf; a leaf without candidates picks nothing."""
    options = options_of(choice, rows)
    if not len(options.leaf):
        nothing = np.zeros(0, dtype=np.int64)
        return picked(choice, options, nothing, None)
    if isinstance(mechanism, PermuteAndFlip):
        return picked(choice, options,
                      source.permute_and_flip(options.score, options.starts, rate), None)
    chosen = source.choose(options.score, options.weight, options.starts, rate)
    offset = None
    if choice.among != "features":
        offset = source.uniform_below(options.length[chosen])
    return picked(choice, options, chosen, offset)


def choose_labels(mechanism: Any, choice: LabelChoice, rate: float, rows: Rows,
                  source: NoiseSource) -> NDArray[np.int64]:
    """Inside the guard: one exact draw among the classes per leaf, shape (leaves,)."""
    score, starts = label_options(choice, rows)
    if isinstance(mechanism, PermuteAndFlip):
        chosen = source.permute_and_flip(score, starts, rate)
    else:
        chosen = source.choose(score, np.ones(len(score), dtype=np.int64), starts, rate)
    return chosen - starts[:-1]
