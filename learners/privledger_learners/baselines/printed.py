"""What the papers' baselines claim, beside what each printed step costs. Shown, never charged.

`sound` of a step that is shown as printed is infinite where nothing finite is proved; the last
step is the whole, as it runs here. How each definition is known: docs/papers/baselines.md.
"""

from __future__ import annotations

import math

import privledger as pl

Steps = tuple[pl.ClaimStep, ...]
RANGES = pl.ClaimStep(
    "ranges of the numeric features", "authors' code of paper 000", 0.0, math.inf, 0.0,
    "smallest and largest value that occur bound bins and cuts (F4); here the public bounds of "
    "the schema")


def whole(where: str, epsilon: float, delta: float, sound: float, note: str) -> pl.ClaimStep:
    """The last step: the forest as it runs here."""
    return pl.ClaimStep("everything", where, epsilon, sound, delta, note)


def dp_ert(epsilon: float, delta: float, sound: float, *, number: bool) -> Steps:
    """Ranges, empty leaves, of a regression leaf means; then everything."""
    leaves = [pl.ClaimStep(
        "empty leaves", "authors' code of paper 000", 0.0, math.inf, 0.0,
        "a leaf is asked only if it holds a record, which one record decides; here every leaf "
        "answers by noisy counts alone")]
    if number:
        leaves = [pl.ClaimStep(
            "leaf means", "paper 000, section 4.1", epsilon, math.inf, 0.0,
            "noise in proportion to 1 / N of a private N (F2); here a noisy sum and a noisy "
            "count")]
    return (RANGES, *leaves, whole(
        "arXiv:1410.6973", epsilon, delta, sound,
        "epsilon over the number of trees each; tests are public coins and cost nothing"))


def rdt(epsilon: float, delta: float, sound: float, *, public: bool, trees: int) -> Steps:
    """Height, leaf counts, then everything."""
    height = pl.ClaimStep(
        "height", "section 4", 0.0, 0.0 if public else math.inf, 0.0,
        "min(attributes / 2, log_b(n) - 1); n is " + (
            "public here" if public else "private: one record more gives deeper trees; here it "
            "is bought, declared, or the depth is given"))
    return (height, pl.ClaimStep(
        "class counts of one tree", "section 4", epsilon / trees, epsilon / trees, 0.0,
        "leaves are disjoint; twice as much if a record is replaced"), whole(
        "section 4", epsilon, delta, sound, "trees on the same records add up"))


def dp_rf(epsilon: float, delta: float, sound: float) -> Steps:
    """Bins, bootstrap, then everything."""
    return (RANGES, pl.ClaimStep(
        "bootstrap", "Patil, Singh 2014", epsilon, math.inf, delta,
        "a record that is drawn c times costs c epsilon, and nothing bounds c; here all trees "
        "share all records"), whole(
        "Patil, Singh 2014", epsilon, delta, sound,
        "epsilon over the number of trees each; a level's counts and choice add up"))
