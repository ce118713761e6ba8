"""Private partitioning ensembles: SPE, SSPE and PTE (paper 001), soundly priced.

Huang, Lei, Kaban 2023, doi:10.1007/978-3-031-26412-2_36; deviations in
docs/papers/partitioning.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import privledger as pl
from privledger_learners.ensembles.algorithms import PublicRecipe, SemiRecipe, SpeRecipe
from privledger_learners.ensembles.median_trees import (
    DEEPEST,
    LABEL_SETTINGS,
    LEAF_RECORDS,
    SETTINGS,
    Choices,
)
from privledger_learners.estimator import (
    Relation,
    check_choice,
    check_common,
    check_count,
    check_depth,
    check_number,
    no_weights,
)
from privledger_learners.guarding import with_unlabelled
from privledger_learners.trees.forest import TreeClassifier

NO_SETTING_ONE = (
    "one of spe, sspe1, sspe2, pte. Transductive ensembles where features are private too "
    "(setting I) grow N1 + N2 trees from the same unlabelled records at epsilon each, so they "
    "would cost (N1 + N2) epsilon; use sspe1 there, or pte where only labels are private")


class PrivateEnsembleClassifier(TreeClassifier):
    """Median trees whose structure never looks at labels; noisy class counts in their leaves.

    Args:
        epsilon, delta: what one `fit` may cost. Pure DP: `delta` may stay 0.
        schema: public facts of the table; required unless a guarded Dataset is given.
        setting: what is private, and where the structure comes from.
            `spe`: everything; structure from the labelled records themselves.
            `sspe1`: everything; structure from records without a label.
            `sspe2`: LABELS ONLY; structure from public features, free.
            `pte`: the same, and a second ensemble from pseudo-labels, free.
        variant: `default`, or `paper`: ten trees on disjoint parts, as deep as there are
            attributes (at most 14), half of epsilon for medians, bare counts; under sound
            accounting as well.
        linkage: of sspe1. `disjoint`: you declare that a person is in one of the two sets
            only, so the larger price counts. `linked`: in both at most once; prices add up.
        n_trees, depth: None for the rule: from the number of (labelled) records, which is
            bought where it is private; at most `max_depth`.
        second_trees: of the second ensemble of pte.
        sharing: `all` or `disjoint`: whether trees ask the same records or parts of their own.
        structure_share: part of epsilon for medians; sspe1 uses it where `linked`.
        count_share: part of epsilon for the number of records.
        smoothing: how strongly a leaf is drawn to the node above it; 0 for not at all.
        votes: `log` adds log-probabilities, `mean` averages shares, `counts` adds bare counts.
        numeric_bins: cuts of a numeric feature lie on a public grid of so many bins.
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of public coins, and of simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        forest_: released values only. receipt_: the ledger's head after the fit.
        guarantee_: what the ledger promises, in words.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo(
        "private-ensemble-classifier", "median trees that never look at labels, for classes, also "
        "with unlabelled records", "Huang, Lei, Kaban 2023, doi:10.1007/978-3-031-26412-2_36",
        ("add_remove", "replace_label"), ("classification",))

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        setting: str = "spe",
        variant: str = "default",
        linkage: str = "disjoint",
        n_trees: int | None = None,
        depth: int | None = None,
        max_depth: int = DEEPEST,
        second_trees: int = 20,
        sharing: str | None = None,
        structure_share: float | None = None,
        count_share: float = 0.02,
        level_ratio: float = 1.5,
        smoothing: float | None = None,
        votes: str | None = None,
        numeric_bins: int = 65534,
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.setting = setting
        self.variant = variant
        self.linkage = linkage
        self.n_trees = n_trees
        self.depth = depth
        self.max_depth = max_depth
        self.second_trees = second_trees
        self.sharing = sharing
        self.structure_share = structure_share
        self.count_share = count_share
        self.level_ratio = level_ratio
        self.smoothing = smoothing
        self.votes = votes
        self.numeric_bins = numeric_bins
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    @property
    def relation(self) -> Relation:  # type: ignore[override]  # it follows from the setting
        """The neighbouring relation of the setting."""
        return "replace_label" if self.setting in LABEL_SETTINGS else "add_remove"

    @property
    def unlabelled(self) -> bool:
        """Whether tables given to `fit` may lack labels."""
        return self.setting != "spe"

    def fit(self, X: Any, y: Any = None, X_unlabelled: Any = None, *,
            labels: Mapping[str, str] | None = None, **named: object) -> Self:
        """Train under a grant.

        Args:
            X: a guarded `Dataset` (its ledger enforces the budget), or a table; a table is
                put behind a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table; None or NaN marks a row without a label.
            X_unlabelled: more rows, without labels; not for setting `spe`.
            labels: what the grant carries, such as {"team": "red"}: caps match it.
            named: `sample_weight` is refused with the reason; there is nothing else.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        no_weights(self, named)
        self._check()
        if X_unlabelled is not None:
            if not self.unlabelled:
                raise pl.InvalidValue("X_unlabelled", "given", "None for setting spe; sspe1, "
                                      "sspe2 and pte use records without a label")
            X, y = with_unlabelled(X, y, X_unlabelled, self._known(None))
        super().fit(X, y, labels=labels)
        self.guarantee_ = repr(self.ledger_)
        return self

    def _recipe(self, schema: pl.Schema) -> SpeRecipe | SemiRecipe | PublicRecipe:
        self._check()
        choices, epsilon = self._choices(schema), float(self.epsilon)
        if self.setting == "spe":
            return SpeRecipe(schema, epsilon, choices, self._least(schema))
        if self.setting == "sspe1":
            return SemiRecipe(schema, epsilon, choices, self.linkage == "linked")
        return PublicRecipe(schema, epsilon, choices,
                            self.second_trees if self.setting == "pte" else 0)

    def _hopeless(self, schema: pl.Schema, rows: float | None) -> str:
        """Where some labels are missing, or features public, and in the paper's form: never."""
        plain = self.setting == "spe" and self.variant == "default" and self.smoothing != 0
        return super()._hopeless(schema, rows) if plain else ""

    def _choices(self, schema: pl.Schema) -> Choices:
        paper, classes = self.variant == "paper", len(schema.target.categories)

        def pick(given: Any, papers: Any, ours: Any) -> Any:
            return given if given is not None else papers if paper else ours

        deep = min(len(schema.features), self.max_depth)
        return Choices(
            trees=pick(self.n_trees, 10, None),
            disjoint=pick(self.sharing, "disjoint", "all") == "disjoint",
            depth=pick(self.depth, deep, None), max_depth=self.max_depth,
            structure=float(pick(self.structure_share, 0.5, 0.35 if classes < 10 else 0.2)),
            count=float(self.count_share),
            ratio=float(self.level_ratio), layered=not paper,
            # Where medians are precise, more classes need larger leaves.
            leaf_records=LEAF_RECORDS * (1 if self.setting == "spe" else max(1, classes / 6)),
            # A node's counts carry the noise of as many numbers as there are classes.
            smoothing=float(pick(self.smoothing, 0.0, max(1.0, classes / 3))),
            votes=pick(self.votes, "counts", "log"), numeric_bins=self.numeric_bins)

    def _check(self) -> None:
        check_common(self)
        check_count("numeric_bins", self.numeric_bins, 1, 65534)
        if self.setting not in SETTINGS:
            raise pl.InvalidValue("setting", self.setting, NO_SETTING_ONE)
        check_choice("variant", self.variant, ("default", "paper"))
        check_choice("linkage", self.linkage, ("disjoint", "linked"))
        check_choice("sharing", self.sharing, (None, "all", "disjoint"))
        check_choice("votes", self.votes, (None, "log", "mean", "counts"))
        check_count("max_depth", self.max_depth, 1, DEEPEST)
        check_count("second_trees", self.second_trees, 1, 1000)
        if self.n_trees is not None:
            check_count("n_trees", self.n_trees, 1, 200)
        check_depth(self.depth, DEEPEST)
        if self.structure_share is not None:
            check_number("structure_share", self.structure_share, 0.0, 0.99)
        check_number("count_share", self.count_share, 0.0, 0.5)
        check_number("level_ratio", self.level_ratio, 0.1, 10.0)
        if self.smoothing is not None:
            check_number("smoothing", self.smoothing, 0.0, 1e3, open_low=False)
        self._check_votes()

    def _check_votes(self) -> None:
        smoothed = self.smoothing != 0 if self.smoothing is not None else self.variant != "paper"
        if self.votes in ("log", "mean") and not smoothed:
            raise pl.InvalidValue("votes", self.votes, "counts where smoothing is off: bare noisy "
                                  "counts are no probabilities")
        if self.votes is None and smoothed == (self.variant == "paper"):
            raise pl.InvalidValue("votes", None, "given where smoothing is not the variant's own")


__all__ = ["PrivateEnsembleClassifier"]
