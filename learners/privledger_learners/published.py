"""The papers' own arithmetic, beside the sound one: numbers in, steps out. Shown, never charged.

Every function takes what a plan comes to, and returns one `ClaimStep` for each step of a paper.
`sound` of a step that is shown as printed is what that costs: infinite where nothing finite is
proved. The last step is the whole, as it runs here.
"""

from __future__ import annotations

import math

import numpy as np

import privledger as pl

NO_PRICE_AT_START = ("printed noise divides by the private number of records: no finite epsilon; "
                     "a noisy sum and a noisy count here")
ORDERS = tuple(float(order) for order in range(2, 201))


def _zhu_wang(rate: float, mu_squared: float, order: int) -> float:
    """The amplification the paper prints (its Theorem 14), at an integer order."""
    powers = np.arange(3, order + 1)
    terms = [
        (order - 1) * math.log1p(-rate) + math.log(order * rate - rate + 1),
        math.log(order * (order - 1) / 2) + 2 * math.log(rate)
        + (order - 2) * math.log1p(-rate) + mu_squared,
    ]
    log_choose = np.array([math.lgamma(order + 1) - math.lgamma(k + 1) - math.lgamma(order - k + 1)
                           for k in powers])
    rest = (math.log(3) + log_choose + (order - powers) * math.log1p(-rate)
            + powers * math.log(rate) + (powers - 1) * powers * mu_squared / 2)
    everything = np.concatenate([terms, rest])
    top = float(everything.max())
    return (top + math.log(float(np.exp(everything - top).sum()))) / (order - 1)


def published_epsilon(rate: float, mu_squared: float, rounds: int, delta: float) -> float:
    """What Algorithm 7 would report: the smallest (bound + log(1/delta)) / order it can find.

    Its condition exp(bound - order * epsilon) = delta is not a valid conversion: the exponent
    of the sound one is (order - 1)(bound - epsilon).
    """
    best = math.inf
    for order in ORDERS:
        if rate == 1:
            bound = rounds * order * mu_squared / 2
        else:
            bound = rounds * _zhu_wang(rate, mu_squared, int(order))
        best = min(best, (bound + math.log(1 / delta)) / order)
    return best


def sgbdt_claims(*, claimed: float, start: float | None, trees: float, whole: float,
                 delta: float) -> tuple[pl.ClaimStep, ...]:
    """Step by step: initial score, trees, everything.

    Args:
        claimed: `published_epsilon` of the trees: the printed initial score has no price to add.
        start, trees, whole: what is proved at `delta`; no start is None.
    """
    steps = [pl.ClaimStep(
        "trees", "Algorithm 7, line 6; Theorem 18", claimed, trees, delta,
        "the printed conversion drops the divergence's own order; priced here by Gaussian "
        "DP or by the exact sampled Gaussian curve")]
    if start is not None:
        steps.insert(0, _start(start, delta))
    steps.append(pl.ClaimStep(
        "everything", "Theorem 11", claimed, whole, delta, "one plan, priced as a whole" + (
            "; claimed for the trees alone, as the printed initial score has no price"
            if start is not None else "")))
    return tuple(steps)


def _start(sound: float, delta: float) -> pl.ClaimStep:
    return pl.ClaimStep("initial score", "Algorithm 6; Theorem 20", None, sound, delta,
                        NO_PRICE_AT_START)


def dpboost_claims(*, claimed_splits: float, claimed_leaves: float | None, claimed: float | None,
                   start: float | None, splits: float, leaves: float, whole: float,
                   delta: float) -> tuple[pl.ClaimStep, ...]:
    """Step by step: initial score, splits and leaves of one tree, everything.

    Args:
        claimed_splits, claimed_leaves, claimed: pure exponents as declared, added up; the
            printed arithmetic knows no other, and none for an initial score.
        start, splits, leaves, whole: what is proved at `delta`; no start is None.
    """
    steps = [
        pl.ClaimStep("splits of a tree", "Algorithms 2 and 3; Corollary 27", claimed_splits,
                     splits, delta,
                     "sensitivity 3 g*^2 is the one-sided change; the range of changes is 4 g*^2, "
                     "so the printed mechanism costs two thirds of its epsilon"),
        pl.ClaimStep("leaves of a tree", "section V-B", claimed_leaves, leaves, delta,
                     "a noisy count and a noisy sum here, in place of a quotient with noise"),
        pl.ClaimStep("everything", "section V-B", claimed, whole, delta,
                     "parts by a coin per record; equal parts of a shuffled table are not covered "
                     "by parallel composition"),
    ]
    return tuple(steps) if start is None else (_start(start, delta), *steps)


def diprime_claims(*, structure: float, leaves: float, trees: int, partitioned: bool,
                   variant: str, attribute: float, candidates: int, regression: bool,
                   sound: float, delta: float) -> tuple[pl.ClaimStep, ...]:
    """Structure as printed, leaves as printed, and what runs here, in pure epsilon.

    Args:
        structure, leaves: pure epsilon of one tree's levels and of its leaves.
        attribute: part of a level for the choice of the attribute.
        candidates: features that compete in a leaf.
        sound: what the whole plan costs at the caller's `delta`.
    """
    steps = [_levels(structure, variant, attribute, candidates)]
    steps.append(pl.ClaimStep(
        "leaf means" if regression else "leaf counts", "section 3.1, first part", leaves,
        math.inf if regression else leaves, 0.0,
        "the printed noise 2B/(N eps) divides by the private number of records of the leaf (F2); "
        "a noisy sum and a noisy count here" if regression else "one record, one class, one leaf"))
    if trees > 1 and partitioned:
        steps.append(pl.ClaimStep(
            "trees on a partition", "Algorithm 2, line 10", structure + leaves,
            3 * (structure + leaves), 0.0,
            "a balanced random partition is not parallel composition: up to three times by a "
            "coupling argument (F3); here every record has a coin of its own, and the cost is "
            "the claimed one"))
    claimed = (structure + leaves) * (1 if partitioned else trees)
    steps.append(pl.ClaimStep(
        "everything, as run here", "section 3.1, privacy analysis", claimed,
        sound, delta,
        "the paper's sum for the trees; here with the row count and the histogram of the target, "
        "where they are bought"))
    return tuple(steps)


def _levels(structure: float, variant: str, attribute: float, candidates: int) -> pl.ClaimStep:
    """All levels of one tree."""
    if variant in ("base", "joint"):
        note = ("the attribute does not depend on the data, so the medians of others are never "
                "used" if variant == "base" else
                "not in the paper: attribute and cut in one exponential mechanism")
        return pl.ClaimStep("levels", "section 3.1, privacy analysis",
                            structure if variant == "base" else None, structure, 0.0, note)
    chosen = attribute * structure
    printed = candidates * (structure - chosen) + chosen
    return pl.ClaimStep(
        "levels, as printed", "Algorithm 1, lines 20-30; section 3.1", structure, printed, 0.0,
        f"{candidates} medians of the same records, all of which the choice looks at: each "
        "is paid for (F1). Here the attribute comes first and one median follows, which costs "
        "the claimed sum")


def mrf_claims(*, feature: float, cut: float, leaves: float, trees: int, halves: bool,
               multinomial: bool, sound: float, delta: float) -> tuple[pl.ClaimStep, ...]:
    """Steps of one tree as printed, then the forest that runs here.

    Args:
        feature, cut, leaves: pure epsilon of one tree's feature choices, cuts and leaves.
        sound: what the whole plan costs at the caller's `delta`.
    """
    steps = []
    if multinomial:
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
    tree = max(feature + cut, leaves) if halves else feature + cut + leaves
    steps.append(pl.ClaimStep(
        "the forest, where the tables state one tree", "Table 3", tree, trees * tree, 0.0,
        f"Theorem 2 divides the total by the number of trees, the tables do not: {trees} "
        "trees on the same records add up"))
    steps.append(pl.ClaimStep(
        "everything, as run here", "Theorem 2", trees * tree,
        sound, delta,
        "the whole forest; with the row count where it is bought, and at the caller's delta"))
    return tuple(steps)


def ensemble_claims(setting: str, *, epsilon: float, sound: float,
                    steps: tuple[pl.ClaimStep, ...]) -> tuple[pl.ClaimStep, ...]:
    """The steps of one setting of SPE, SSPE or PTE, then everything."""
    where = {"spe": "section 4.1", "sspe1": "Algorithm 3, lines 3-8", "sspe2":
             "Algorithm 3, lines 9-15", "pte": "Algorithm 4; Table 2"}[setting]
    return (*steps, pl.ClaimStep("everything", where, epsilon, sound, 0.0, "what is charged"))


def _median_trees() -> tuple[pl.ClaimStep, ...]:
    return (
        pl.ClaimStep("range of a median", "Algorithm 1, line 11", 0.0, math.inf, 0.0,
                     "smallest and largest private value bound the candidates; here the public "
                     "range, narrowed by released cuts"),
        pl.ClaimStep("stop at ten records", "Algorithm 1, line 3", 0.0, math.inf, 0.0,
                     "ten and eleven records give different trees; here trees are complete"),
    )


def spe_claims(medians: float, leaves: float) -> tuple[pl.ClaimStep, ...]:
    """SPE: epsilon of all medians, and of all leaves, on the same records."""
    return (
        *_median_trees(),
        pl.ClaimStep("medians", "equations (5) to (7)", medians, medians, 0.0,
                     "true for add-or-remove; twice as much if a record is replaced"),
        pl.ClaimStep("class counts", "Algorithm 2, line 16", leaves, leaves, 0.0,
                     "likewise; smoothing is free"),
        pl.ClaimStep("disjoint subsets", "Algorithm 2, line 4; Theorem 2", medians + leaves,
                     medians + leaves, 0.0, "true for a private coin per record, which is what "
                     "runs here; not for parts of equal size"),
    )


def sspe_claims(medians: float, leaves: float, *, epsilon: float,
                linked: bool) -> tuple[pl.ClaimStep, ...]:
    """SSPE-1: medians of unlabelled records, leaves of labelled ones, linked or not."""
    both = medians + leaves if linked else max(medians, leaves)
    return (
        *_median_trees(),
        pl.ClaimStep("medians of unlabelled records", "Algorithm 3, line 6", epsilon, medians,
                     0.0, ""),
        pl.ClaimStep("class counts of labelled records", "Algorithm 3, line 7", epsilon, leaves,
                     0.0, ""),
        pl.ClaimStep("both sets", "Algorithm 3, lines 3-8", epsilon, both, 0.0,
                     "the larger price holds if a person is in one of the two sets only, which "
                     "the paper does not say; declared here as linkage"),
    )


def label_only_claims(epsilon: float, trees: int, second: int) -> tuple[pl.ClaimStep, ...]:
    """SSPE-2 and, with a `second` ensemble of so many trees, PTE: features are public."""
    steps = [
        pl.ClaimStep("structure", "Algorithm 3, line 13; Algorithm 4, line 5", 0.0, 0.0, 0.0,
                     "features are public; LABELS ONLY"),
        pl.ClaimStep("class counts as printed", "Algorithm 3, line 14; Algorithm 2, line 16",
                     epsilon, 2 * epsilon, 0.0, "noise of scale 1/epsilon, but a changed label "
                     "moves two counts by one; here twice the noise, or for two classes one count "
                     "beside public totals"),
    ]
    if second:
        steps += [
            pl.ClaimStep("second ensemble", "Algorithm 4, lines 9-12", epsilon, 0.0, 0.0,
                         "pseudo-labels are made of released values: post-processing, the noise "
                         "of line 11 is wasted"),
            pl.ClaimStep("setting (I), not offered", "section 5; Algorithm 4, lines 5 and 10",
                         epsilon, (trees + second) * epsilon, 0.0,
                         "every tree asks the same private features at epsilon"),
        ]
    return tuple(steps)
