"""The multinomial forest's own privacy arithmetic beside the sound one. Shown, never charged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import privledger as pl

if TYPE_CHECKING:
    from privledger_learners.mrf import MultinomialRecipe


def mrf_claims(recipe: MultinomialRecipe) -> tuple[pl.ClaimStep, ...]:
    """Steps of one tree as printed, then the forest that runs here.

    `sound` of a printed step is what it costs as printed: infinite where nothing finite is
    proved.
    """
    feature, cut = recipe.structure_epsilons()
    leaves = recipe.factor * recipe.leaves
    steps = []
    if recipe.variant == "multinomial":
        steps = [
            pl.ClaimStep("features of all levels", "section 3.2; Lemma 5", feature, feature, 0.0,
                         "normalised scores lie in [0, 1] whatever the records: sound"),
            pl.ClaimStep("cuts of all levels", "section 3.2; Lemma 6", cut, math.inf, 0.0,
                         "printed candidates are values that occur in the data; here all cuts of "
                         "the public range, which cost the claimed sum (F10)"),
            pl.ClaimStep("when to stop", "Algorithm 1, line 3", 0.0, math.inf, 0.0,
                         "a test of the private count of the estimation part; here the depth is "
                         "public or from a bought count"),
            pl.ClaimStep("labels", "section 3.3; Lemma 7", leaves, math.inf, 0.0,
                         "drawn anew for every prediction as printed: q answers cost q times as "
                         "much; here once per leaf, by counts"),
        ]
    tree = max(feature + cut, leaves) if recipe.halves else feature + cut + leaves
    steps.append(pl.ClaimStep(
        "the forest, where the tables state one tree", "Table 3", tree, recipe.trees * tree, 0.0,
        f"Theorem 2 divides the total by the number of trees, the tables do not: {recipe.trees} "
        "trees on the same records add up"))
    steps.append(pl.ClaimStep(
        "everything, as run here", "Theorem 2", recipe.trees * tree,
        pl.epsilon(recipe.plan, recipe.delta, recipe.relation), recipe.delta,
        "the whole forest; with the row count where it is bought, and at the caller's delta"))
    return tuple(steps)
