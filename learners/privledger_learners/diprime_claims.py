"""DiPriMe's own privacy arithmetic beside the sound one. Shown, never charged."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import privledger as pl

if TYPE_CHECKING:
    from privledger_learners.diprime import DiprimeRecipe

PAPERS_CANDIDATES = 5


def diprime_claims(recipe: DiprimeRecipe) -> tuple[pl.ClaimStep, ...]:
    """Structure as printed, leaves as printed, and what runs here, in pure epsilon.

    `sound` of a printed step is what it costs as printed: infinite where nothing finite is
    proved. The last step is this plan, at the caller's delta.
    """
    structure = recipe.factor * recipe.structure
    leaves = recipe.factor * recipe.leaves
    steps = [_structure(recipe, structure)]
    regression = recipe.schema.task == "regression"
    steps.append(pl.ClaimStep(
        "leaf means" if regression else "leaf counts", "section 3.1, first part", leaves,
        math.inf if regression else leaves, 0.0,
        "the printed noise 2B/(N eps) divides by the private number of records of the leaf (F2); "
        "a noisy sum and a noisy count here" if regression else "one record, one class, one leaf"))
    if recipe.trees > 1 and recipe.partitioned:
        steps.append(pl.ClaimStep(
            "trees on a partition", "Algorithm 2, line 10", structure + leaves,
            3 * (structure + leaves), 0.0,
            "a balanced random partition is not parallel composition: up to three times by a "
            "coupling argument (F3); here every record has a coin of its own, and the cost is "
            "the claimed one"))
    claimed = (structure + leaves) * (1 if recipe.partitioned else recipe.trees)
    steps.append(pl.ClaimStep(
        "everything, as run here", "section 3.1, privacy analysis", claimed,
        pl.epsilon(recipe.plan, recipe.delta, recipe.relation), recipe.delta,
        "the paper's sum for the trees; here with the row count and the histogram of the target, "
        "where they are bought"))
    return tuple(steps)


def _structure(recipe: DiprimeRecipe, structure: float) -> pl.ClaimStep:
    """All levels of one tree."""
    if recipe.variant in ("base", "joint"):
        note = ("the attribute does not depend on the data, so the medians of others are never "
                "used" if recipe.variant == "base" else
                "not in the paper: attribute and cut in one exponential mechanism")
        return pl.ClaimStep("levels", "section 3.1, privacy analysis",
                            structure if recipe.variant == "base" else None, structure, 0.0, note)
    candidates = PAPERS_CANDIDATES if recipe.candidates is None else recipe.candidates
    candidates = min(candidates, len(recipe.schema.features))
    attribute = recipe.attribute * structure
    printed = candidates * (structure - attribute) + attribute
    return pl.ClaimStep(
        "levels, as printed", "Algorithm 1, lines 20-30; section 3.1", structure, printed, 0.0,
        f"{candidates} medians of the same records, all of which the choice looks at: each "
        "is paid for (F1). Here the attribute comes first and one median follows, which costs "
        "the claimed sum")
