"""The paper's own arithmetic for its ensembles, beside the sound one. Shown, never charged."""

from __future__ import annotations

import math

import privledger as pl
from privledger_learners.ensembles.labels_only import PublicRecipe
from privledger_learners.ensembles.private import SemiRecipe, SpeRecipe

Recipe = SpeRecipe | SemiRecipe | PublicRecipe


def ensemble_claims(recipe: Recipe, setting: str, epsilon: float, linkage: str,
                    second: int) -> tuple[pl.ClaimStep, ...]:
    """Step by step: structure, labels, everything."""
    total = pl.epsilon(recipe.plan, 0.0, recipe_relation(recipe))
    if isinstance(recipe, PublicRecipe):
        steps = _labels_only(recipe, setting, epsilon, second)
    elif isinstance(recipe, SpeRecipe):
        steps = (*_structure(), *_spe(recipe))
    else:
        steps = (*_structure(), *_semi(recipe, epsilon, linkage))
    where = {"spe": "section 4.1", "sspe1": "Algorithm 3, lines 3-8", "sspe2":
             "Algorithm 3, lines 9-15", "pte": "Algorithm 4; Table 2"}[setting]
    return (*steps, pl.ClaimStep("everything", where, epsilon, total, 0.0, "what is charged"))


def recipe_relation(recipe: Recipe) -> str:
    """The relation a recipe is priced under."""
    return "replace_label" if isinstance(recipe, PublicRecipe) else "add_remove"


def _structure() -> tuple[pl.ClaimStep, ...]:
    return (
        pl.ClaimStep("range of a median", "Algorithm 1, line 11", 0.0, math.inf, 0.0,
                     "smallest and largest private value bound the candidates; here the public "
                     "range, narrowed by released cuts"),
        pl.ClaimStep("stop at ten records", "Algorithm 1, line 3", 0.0, math.inf, 0.0,
                     "ten and eleven records give different trees; here trees are complete"),
    )


def _spe(recipe: SpeRecipe) -> tuple[pl.ClaimStep, ...]:
    medians, leaves = recipe.shares
    return (
        pl.ClaimStep("medians", "equations (5) to (7)", medians, medians, 0.0,
                     "true for add-or-remove; twice as much if a record is replaced"),
        pl.ClaimStep("class counts", "Algorithm 2, line 16", leaves, leaves, 0.0,
                     "likewise; smoothing is free"),
        pl.ClaimStep("disjoint subsets", "Algorithm 2, line 4; Theorem 2", medians + leaves,
                     medians + leaves, 0.0, "true for a private coin per record, which is what "
                     "runs here; not for parts of equal size"),
    )


def _semi(recipe: SemiRecipe, epsilon: float, linkage: str) -> tuple[pl.ClaimStep, ...]:
    medians, leaves = recipe.shares
    both = medians + leaves if linkage == "linked" else max(medians, leaves)
    return (
        pl.ClaimStep("medians of unlabelled records", "Algorithm 3, line 6", epsilon, medians,
                     0.0, ""),
        pl.ClaimStep("class counts of labelled records", "Algorithm 3, line 7", epsilon, leaves,
                     0.0, ""),
        pl.ClaimStep("both sets", "Algorithm 3, lines 3-8", epsilon, both, 0.0,
                     "the larger price holds if a person is in one of the two sets only, which "
                     "the paper does not say; declared here as linkage"),
    )


def _labels_only(recipe: PublicRecipe, setting: str, epsilon: float,
                 second: int) -> tuple[pl.ClaimStep, ...]:
    steps = [
        pl.ClaimStep("structure", "Algorithm 3, line 13; Algorithm 4, line 5", 0.0, 0.0, 0.0,
                     "features are public; LABELS ONLY"),
        pl.ClaimStep("class counts as printed", "Algorithm 3, line 14; Algorithm 2, line 16",
                     epsilon, 2 * epsilon, 0.0, "noise of scale 1/epsilon, but a changed label "
                     "moves two counts by one; here twice the noise, or for two classes one count "
                     "beside public totals"),
    ]
    if setting == "pte":
        trees = recipe.first_trees + second
        steps += [
            pl.ClaimStep("second ensemble", "Algorithm 4, lines 9-12", epsilon, 0.0, 0.0,
                         "pseudo-labels are made of released values: post-processing, the noise "
                         "of line 11 is wasted"),
            pl.ClaimStep("setting (I), not offered", "section 5; Algorithm 4, lines 5 and 10",
                         epsilon, trees * epsilon, 0.0, "every tree asks the same private "
                         "features at epsilon"),
        ]
    return tuple(steps)
