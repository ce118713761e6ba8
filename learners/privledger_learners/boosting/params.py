"""Constructor parameters -> rule and shaping, checked."""

from __future__ import annotations

from typing import Any

import privledger as pl
from privledger_learners.boosting.rule import Rule
from privledger_learners.boosting.train import Shaping
from privledger_learners.checking import check_count, check_number

CHOICES = {
    "individual_filter": (None, "gdp", "renyi"),
    "splits": ("adaptive", "random"),
    "leaf": ("posterior", "ratio"),
    "mode": ("private", "simulation"),
    "relation": ("add_remove", "replace_one"),
}


def check_params(learner: Any) -> None:
    """Raise `InvalidValue` for a parameter that can never be right."""
    for name, choices in CHOICES.items():
        if getattr(learner, name) not in choices:
            raise pl.InvalidValue(name, getattr(learner, name), f"one of {choices}")
    check_count("n_trees", learner.n_trees, 1)
    check_count("extra_rounds", learner.extra_rounds, 0)
    check_count("numeric_bins", learner.numeric_bins, 2, 65534)
    if learner.depth is not None:
        check_count("depth", learner.depth, 1, 12)
    for name in ("learning_rate", "gradient_clip", "leaf_width"):
        if getattr(learner, name) is not None:
            check_number(name, getattr(learner, name), 0, 100)
    if learner.start_share is not None:
        check_number("start_share", learner.start_share, 0, 0.9, open_low=False)
    check_number("count_share", learner.count_share, 0, 0.99)
    check_number("sampling_rate", learner.sampling_rate, 0, 1)
    check_number("stream_share", learner.stream_share, 0, 1)
    check_number("regularization", learner.regularization, 0, 1e12)
    check_number("numeric_weight", learner.numeric_weight, 0, 1e6)
    _together(learner)


def _together(learner: Any) -> None:
    filtered = learner.individual_filter is not None or learner.scope is not None
    if (learner.extra_rounds or learner.rollover) and not filtered:
        raise pl.InvalidValue("individual_filter", None,
                              "gdp or renyi when extra_rounds or rollover is set")
    if learner.individual_filter == "gdp" and learner.sampling_rate != 1:
        raise pl.InvalidValue("individual_filter", "gdp", "renyi when sampling_rate is below 1")
    if filtered and learner.relation != "add_remove":
        raise pl.errors.RelationMismatch("individual filters are proved for add_remove only")
    if learner.leaf == "ratio" and learner.static_noise:
        raise pl.InvalidValue("leaf", "ratio", "posterior with static_noise: no count is released")


def make_rule(learner: Any, schema: pl.Schema, **changes: Any) -> Rule:
    """The priced part of a learner's parameters."""
    regression = schema.task == "regression"
    if not regression and len(schema.target.categories) < 2:
        raise pl.SchemaError("a classifier needs at least two classes in the schema")
    wants = "regression" if "regression" in learner.info.tasks else "classification"
    if schema.task != wants:
        raise pl.SchemaError(f"the schema's target is for {schema.task}, "
                             f"{learner.info.name} does {wants}")
    share = learner.start_share
    if changes.get("start_share") is not None:
        share = changes["start_share"]
    if share is None:
        share = 0.12 if regression else 0.03
    clip = learner.gradient_clip
    if clip is None and not regression:
        clip = 0.4
    chosen = changes.get("individual_filter", learner.individual_filter)
    return Rule(
        trees=int(learner.n_trees), start_share=float(share),
        count_share=float(learner.count_share), clip=clip, regression=regression,
        sampling_rate=float(learner.sampling_rate), extra_rounds=int(learner.extra_rounds),
        static_noise=bool(learner.static_noise), individual_filter=chosen,
    )


def make_shaping(learner: Any, schema: pl.Schema) -> Shaping:
    """The free part: learning rate, prior width, tree shapes."""
    regression = schema.task == "regression"
    rate = learner.learning_rate
    width = learner.leaf_width
    return Shaping(
        rate=(0.60 if regression else 0.45) if rate is None else rate,
        width=(0.20 if regression else 1.00) if width is None else width,
        depth=learner.depth, splits=learner.splits, leaf=learner.leaf,
        regularization=learner.regularization, numeric_weight=learner.numeric_weight,
        default_clip=0.2 if regression else 0.4, fixed_width=width is not None,
    )
