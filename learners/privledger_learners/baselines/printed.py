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


def dp_df(epsilon: float, delta: float, sound: float) -> Steps:
    """Bins, children, sensitivity, pruning, then everything."""
    return (RANGES, pl.ClaimStep(
        "children", "code of paper 000", 0.0, math.inf, 0.0,
        "a node has a child for every value that occurs in it; here for the schema's categories "
        "and bins"), pl.ClaimStep(
        "Gini", "Fletcher, Islam 2015", epsilon / 2, math.inf, delta,
        "its sensitivity is taken from a noisy number of records, which may be too large; here "
        "records times Gini, whose bound holds for every number"), pl.ClaimStep(
        "pruning", "code of paper 000", 0.0, math.inf, 0.0,
        "by true sizes; here by noisy ones"), whole(
        "Fletcher, Islam 2015", epsilon, delta, sound, "trees on the same records add up"))


def srt(epsilon: float, delta: float, sound: float) -> Steps:
    """Parts, labels, then everything."""
    return (pl.ClaimStep(
        "parts of equal size", "Fletcher, Islam 2017", epsilon, 3 * epsilon, delta,
        "not disjoint under add-or-remove (F3: at most 3 epsilon); here a private coin for each "
        "record"), pl.ClaimStep(
        "labels", "Fletcher, Islam 2017; form recalled", epsilon, math.inf, delta,
        "the exponential mechanism with smooth sensitivity exp(-j epsilon), j the lead of the "
        "first class, is not private (F13), and is not offered; here class counts, whose bound "
        "is one"), whole(
        "Fletcher, Islam 2017", epsilon, delta, sound,
        "parts are disjoint: each tree has the whole epsilon"))


def max_tree(epsilon: float, delta: float, sound: float) -> Steps:
    """Copies of a record first: the bootstrap has no price."""
    return (pl.ClaimStep(
        "bootstrap", "Liu, Li, Li, Chen 2018", epsilon, math.inf, delta,
        "a record that is drawn c times costs c epsilon, and nothing bounds c; here all trees "
        "share all records"), whole(
        "Liu, Li, Li, Chen 2018", epsilon, delta, sound,
        "epsilon over the number of trees each, half of it for tests"))


REACH = ("a flipped label reaches every unlabelled record near it, and each of them learns on: "
         "nothing bounds their number; here every label answers once by randomised response, and "
         "what follows is post-processing")


def ssrdt(epsilon: float, sound: float) -> Steps:
    """Leaf counts, labels of the unlabelled, then everything. LABELS ONLY."""
    where = "Jagannathan, Monteleoni, Pillaipakkamnatt 2013; recalled"
    return (pl.ClaimStep(
        "class counts", where, epsilon, 2 * epsilon, 0.0,
        "noise of scale 1 / epsilon, but a flipped label moves two counts by one (F5)"),
        pl.ClaimStep("labels of unlabelled records", where, epsilon, math.inf, 0.0, REACH),
        whole(where, epsilon, 0.0, sound, "LABELS ONLY; trees are free"))


def top(epsilon: float, sound: float) -> Steps:
    """Labels by neighbours, then everything. LABELS ONLY."""
    where = "Long, Sakuma 2017; abstract only"
    return (pl.ClaimStep("labels by neighbours", where, epsilon, math.inf, 0.0, REACH),
            whole(where, epsilon, 0.0, sound, "LABELS ONLY; the line needs no noise of its own"))
