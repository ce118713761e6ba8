"""Constructor parameters -> rule and shaping, checked."""

from __future__ import annotations

from typing import Any

import privledger as pl
from privledger_learners.checking import check_count, check_number
from privledger_learners.gain.rule import Rule, Shape
from privledger_learners.gain.train import Shaping

CHOICES = {
    "leaf": ("posterior", "ratio"),
    "geometric": ("none", "leaves", "gradients"),
    "mode": ("private", "simulation"),
    "relation": ("add_remove", "replace_one"),
}
PURE_SHAPES = (Shape(4, 2), Shape(8, 2), Shape(16, 3), Shape(32, 3), Shape(48, 4), Shape(64, 5))
GAUSSIAN_SHAPES = (Shape(32, 3), Shape(64, 3), Shape(64, 4))
"""Little signal to much, found on development sets (docs/papers/dpboost.md). With delta above 0
many trees cost little more than few."""


def check_params(learner: Any) -> None:
    """Raise `InvalidValue` for a parameter that can never be right."""
    for name, choices in CHOICES.items():
        if getattr(learner, name) not in choices:
            raise pl.InvalidValue(name, getattr(learner, name), f"one of {choices}")
    check_number("epsilon", learner.epsilon, 0, 1e6)
    check_number("delta", learner.delta, 0, 1 - 1e-12, open_low=False)
    check_count("parts", learner.parts, 1, 10**4)
    check_count("numeric_bins", learner.numeric_bins, 2, 65534)
    if learner.n_trees is not None:
        check_count("n_trees", learner.n_trees, 1, 10**5)
    if learner.depth is not None:
        check_count("depth", learner.depth, 1, 10)
    for name in ("learning_rate", "gradient_clip", "leaf_width"):
        if getattr(learner, name) is not None:
            check_number(name, getattr(learner, name), 0, 100)
    if learner.start_share is not None:
        check_number("start_share", learner.start_share, 0, 0.9, open_low=False)
    check_number("split_share", learner.split_share, 0, 0.99)
    check_number("count_share", learner.count_share, 0, 0.99)
    check_number("regularization", learner.regularization, 0, 1e6)
    check_number("penalty", learner.penalty, 0, 1e6, open_low=False)
    if not isinstance(learner.gradient_filtering, bool):
        raise pl.InvalidValue("gradient_filtering", learner.gradient_filtering, "True or False")
    if learner.n_trees is not None and learner.n_trees % learner.parts:
        raise pl.InvalidValue("n_trees", learner.n_trees, "a multiple of parts")


def make_rule(learner: Any, schema: pl.Schema) -> Rule:
    """The priced part of a learner's parameters."""
    regression = schema.task == "regression"
    if not regression and len(schema.target.categories) < 2:
        raise pl.SchemaError("a classifier needs at least two classes in the schema")
    wants = "regression" if "regression" in learner.info.tasks else "classification"
    if schema.task != wants:
        raise pl.SchemaError(f"the schema's target is for {schema.task}, "
                             f"{learner.info.name} does {wants}")
    share, clip, gaussian = learner.start_share, learner.gradient_clip, learner.delta > 0
    if share is None:
        share = (0.12 if regression else 0.03) if gaussian else (0.2 if regression else 0.08)
    if clip is None:
        clip = 0.25 if regression else 0.5
    rate = make_shaping(learner, schema).rate
    return Rule(
        shapes=_shapes(learner), parts=int(learner.parts), start_share=float(share),
        split_share=float(learner.split_share), count_share=float(learner.count_share),
        clip=float(clip),
        shrink=max(1 - rate, 0.5) if learner.geometric == "gradients" else 1.0,
        gaussian=gaussian, regression=regression, relation=learner.relation)


def _shapes(learner: Any) -> tuple[Shape, ...]:
    """The candidates of the rule, with whatever was set fixed, each once."""
    found = []
    for shape in GAUSSIAN_SHAPES if learner.delta > 0 else PURE_SHAPES:
        trees = shape.trees if learner.n_trees is None else learner.n_trees
        trees = -(-trees // learner.parts) * learner.parts
        one = Shape(int(trees), int(shape.depth if learner.depth is None else learner.depth))
        if one not in found:
            found.append(one)
    return tuple(found)


def make_shaping(learner: Any, schema: pl.Schema) -> Shaping:
    """The free part."""
    regression = schema.task == "regression"
    rate, width = learner.learning_rate, learner.leaf_width
    if rate is None:
        rate = 0.6 if regression else 0.8
    return Shaping(
        rate=rate, width=(0.3 if regression else 1.2) if width is None else width,
        leaf=learner.leaf, regularization=learner.regularization, penalty=learner.penalty,
        filtered=learner.gradient_filtering,
        bound_shrink=1.0 if learner.geometric == "none" else max(1 - rate, 0.5))
