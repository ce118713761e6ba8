"""DP-SIS: the k features that go best with the target, and the two-stage baseline.

Seed: Swope, Khanna, Doldo, Roy, Raff, "Feature Selection from Differentially Private
Correlations". Algorithm lines, deviations and the reasons for them are in
docs/papers/dp-sis.md; why a score moves as little as it does is in
docs/proofs/feature-scores.md.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen

import privledger as pl
from privledger_learners.class_numbers import Weights, class_numbers
from privledger_learners.estimator import PrivateLearner, Relation
from privledger_learners.guarding import note_features
from privledger_learners.scikit import SelectorMixin, check_is_fitted
from privledger_learners.trees.grow import laplace

PAPER = "Swope et al., Feature Selection from Differentially Private Correlations"
METHODS = ("auto", "gumbel", "canonical")
GUMBEL_UP_TO = 5.0
"""Epsilon up to which one draw after the other did as well or better with scores that only
rise; with others it did at every epsilon tried (docs/papers/dp-sis.md)."""

COUNTED = 0.1
"""Part of epsilon for class sizes, where weights follow from them."""

_BELOW = 1 - 2.0**-40  # sums of k rounded costs stay within epsilon


@frozen
class Selection:
    """What one selection reserves, and how its features are drawn.

    Attributes:
        draw: a `TopK` for all k at once, else the mechanism of one of k draws.
        counts: buys how large the classes are, before any draw; None where they are not needed.
    """

    plan: pl.Node
    draw: pl.Node
    counts: pl.Laplace | None = None

    def features(self, session: pl.Session, choice: pl.questions.FeatureChoice,
                 k: int) -> list[int]:
        """Positions of k features; one by one in the order they were drawn."""
        if isinstance(self.draw, pl.TopK):
            return [int(place) for place in session.release(self.draw, choice)]
        chosen: list[int] = []
        for _ in range(k):
            chosen += session.release(self.draw, choice).tolist()
            if len(chosen) < k:
                choice = choice.without(*chosen)
        return chosen


class _Selector(SelectorMixin, PrivateLearner):
    """Shared by `DPSIS` and `DPSISTwoStage`; see their docstrings."""

    k: int
    method: str
    relation: Relation
    model_attributes = ("_inferred",)

    def _score(self, schema: pl.Schema) -> Any:
        """What features are scored by, of a guarded table: a name, or a description."""
        raise NotImplementedError

    def _change(self, schema: pl.Schema) -> tuple[float, float]:
        """Proved bounds on how one record moves a score."""
        raise NotImplementedError

    def _weights(self, schema: pl.Schema, counts: np.ndarray | None) -> tuple[int, ...]:
        """What a record of each class counts, in 1024ths; empty where each counts one."""
        return ()

    def _counted(self, schema: pl.Schema) -> float:
        """Part of epsilon that buys class sizes; 0 where they are not needed."""
        return 0.0

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        selection = self._recipe(schema)

        def ask(session: pl.Session) -> list[int]:
            counts = None if selection.counts is None else session.release(
                selection.counts, data.histogram(schema.target.name))
            return selection.features(session, data.features_by(
                self._score(schema), weights=self._weights(schema, counts)), self.k)

        chosen = self._granted(data, selection.plan, ask, claimed=float(self.epsilon))
        self.schema_ = schema
        self.selected_ = np.array(chosen, dtype=np.int64)
        self.support_ = np.zeros(len(schema.features), dtype=bool)
        self.support_[self.selected_] = True

    def transform(self, X: Any) -> Any:
        """The chosen columns of a table; of a guarded Dataset, a handle on them."""
        check_is_fitted(self, "support_")
        names = [c.name for c in self.schema_.features]
        kept = [names[place] for place in np.flatnonzero(self.support_)]
        if isinstance(X, pl.Dataset):
            return X.select(kept)
        note_features(self, X, fitting=False)
        if hasattr(X, "columns"):
            return X[kept] if set(kept) <= set(X.columns) else X.loc[:, self.support_]
        if isinstance(X, dict):
            return {name: X[name] for name in kept}
        if hasattr(X, "tocsr"):
            raise TypeError("sparse tables are not supported: pass a dense array or a frame")
        table = np.asarray(X)
        if table.ndim != 2 or table.shape[1] != len(names):
            raise pl.errors.DataError(f"X has {table.shape[-1] if table.ndim else 0} features, but "
                               f"{type(self).__name__} is expecting {len(names)} features as input")
        return table[:, self.support_]

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self, "support_")
        return np.asarray(self.support_)

    def _recipe(self, schema: pl.Schema) -> Selection:
        features = len(schema.features)
        pl.Budget(self.epsilon, self.delta)  # refuses what is no epsilon or delta
        if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or self.k < 1:
            raise pl.InvalidValue("k", self.k, "a whole number from 1")
        if self.k > features:
            raise pl.InvalidValue("k", self.k, f"at most the number of features, {features} "
                                  f"feature(s)")
        if self.method not in METHODS:
            raise pl.InvalidValue("method", self.method, f"one of {', '.join(METHODS)}")
        low, high = self._change(schema)
        method = self.method
        if method == "auto":
            at_once = low >= 0 and self.epsilon > GUMBEL_UP_TO and self.delta == 0
            method = "canonical" if at_once and self.k < features else "gumbel"
        share = self._counted(schema)
        counts = laplace(share * self.epsilon, self.relation, cells=True) if share else None
        before = [] if counts is None else [counts]
        left = self.epsilon * (1 - share) * (_BELOW if share else 1.0)
        if method == "canonical":
            top = pl.TopK(int(self.k), left, "exponential")
            return Selection(pl.Sequential([*before, top]) if before else top, top, counts)

        def one(noise: float) -> pl.Exponential:
            # Its bounded range is 1/noise.
            return pl.Exponential(2 / ((high - low) * noise), (low, high))

        def whole(noise: float) -> pl.Node:
            draws = pl.Repeat(one(noise), int(self.k))
            return pl.Sequential([*before, draws]) if before else draws

        noise = self.k / (left * _BELOW)
        if self.delta > 0:
            noise = min(noise, pl.calibrate(whole, self.epsilon, self.delta, self.relation))
        return Selection(whole(noise), one(noise), counts)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags


class DPSIS(_Selector):
    """The k features with the highest scores, chosen under differential privacy.

    Args:
        epsilon, delta: what one `fit` may cost, in nats and as a probability. With delta 0 the
            guarantee is pure; above 0 one-by-one draws are calibrated by their exact cost.
        schema: public facts of the table; required unless a guarded Dataset is given.
        k: how many features, a public number.
        scores: "auto" (agreement for classes, rank for numbers), "agreement", "rank",
            "correlation", or a `privledger.questions.CustomScores`, which is recorded as asserted.
        method: "gumbel" draws one feature after the other, "canonical" a set at once (the
            paper's), "auto" the second for agreement above epsilon 5.
        class_weight: None: in `agreement` each record counts one, so that a large class may
            outvote what tells a small one. "balanced": in inverse proportion to the class's
            size, which a tenth of epsilon buys. Or public numbers, one for each class in the
            schema's order, or a dict by class; the largest counts one.
        relation: "add_remove" or "replace_one".
        mode: "private", or "simulation" (seeded noise, NOT PRIVATE).
        random_state: seed of a simulation; never of private noise.
        unaccounted: lets `fit(X, y)` run inside a search, where no ledger adds up what is spent.

    Attributes:
        selected_: positions of the chosen features; in the order they were drawn ("gumbel"),
            or rising ("canonical").
        support_: shape (features,). receipt_: the ledger's head after the fit.
        ledger_, data_: not pickled.
    """

    info = pl.LearnerInfo("dpsis", "k features by private scores against the target", PAPER,
                          ("add_remove", "replace_one"), ("classification", "regression"))

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        k: int = 5,
        scores: str | pl.questions.CustomScores = "auto",
        method: str = "auto",
        class_weight: Weights = None,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.k = k
        self.scores = scores
        self.method = method
        self.class_weight = class_weight
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one. Never charged."""
        plan = self.plan(schema)
        return (
            pl.ClaimStep(
                "centre and scale by the data", "Algorithm 1, lines 1 and 2", 0.0, math.inf, 0.0,
                "data means and maxima move with one record: the score's sensitivity is up to "
                "the number of records; order scores and public bounds need neither"),
            pl.ClaimStep(
                "top-k selection", "Algorithm 1, line 3; Algorithm 2, lines 12 to 18",
                float(self.epsilon), math.inf, 0.0,
                "printed class sizes C(t-h-1, k-h-1) count subsets twice: loss ln 2 at any "
                "epsilon for k = 2; C(t-h-2, k-h-1) is right, and what is drawn here"),
            pl.ClaimStep(
                "everything", "Algorithm 1", float(self.epsilon),
                pl.epsilon(plan, self.delta, self.relation), self.delta,
                "scores of proved sensitivity, exact draws"),
        )

    def _score(self, schema: pl.Schema) -> Any:
        if self.scores != "auto":
            return self.scores
        fits = schema.target.kind == "categorical" and len(schema.target.categories) <= 64
        return "agreement" if fits else "rank"

    def _recipe(self, schema: pl.Schema) -> Selection:
        self._public_weights(schema)
        return super()._recipe(schema)

    def _counted(self, schema: pl.Schema) -> float:
        return COUNTED if isinstance(self.class_weight, str) else 0.0

    def _public_weights(self, schema: pl.Schema) -> np.ndarray | None:
        """Numbers of the caller, shape (classes,); refuses what cannot weigh a class."""
        given = self.class_weight
        if given is None:
            return None
        if self._score(schema) != "agreement":
            raise pl.InvalidValue("class_weight", given, "None, unless features are scored by "
                                  "agreement")
        if isinstance(given, str) and given == "balanced":
            return None
        return class_numbers(given, schema)

    def _weights(self, schema: pl.Schema, counts: np.ndarray | None) -> tuple[int, ...]:
        weights = self._public_weights(schema)
        if counts is not None:
            sizes = np.maximum(np.asarray(counts, dtype=float), 1.0)
            weights = 1.0 / sizes
        if weights is None:
            return ()
        parts = np.floor(pl.questions.FeatureChoice.whole * weights / weights.max())
        return tuple(max(int(part), 1) for part in parts)

    def _change(self, schema: pl.Schema) -> tuple[float, float]:
        score = self._score(schema)
        if isinstance(score, pl.questions.CustomScores):
            low, high = score.change
            return low, high
        if score not in ("agreement", "rank", "correlation"):
            raise pl.InvalidValue("scores", score, "auto, agreement, rank, correlation or "
                                                  "CustomScores")
        return pl.questions.FeatureChoice.bound_of(score, schema).change


class DPSISTwoStage(_Selector):
    """The first stage of the two-stage baseline: blocks of records vote for features.

    Each record falls into one of `blocks` blocks by a coin of its own; every block runs a
    LASSO on its own records and votes for its k largest coefficients; k features are drawn by
    their votes, which one record moves by at most one each.

    Args:
        blocks: a public number; None for the root of the schema's number of rows, or
            10 without one. Never the root of the private number.
        penalty: of the LASSO, fixed beforehand.
        epsilon, delta, schema, k, method, relation, mode, random_state, unaccounted: as in
            `DPSIS`.
    """

    info = pl.LearnerInfo(
        "dpsis-two-stage", "k features by the votes of blocks of records",
        "Kifer, Smith, Thakurta 2012, Private convex empirical risk minimization; as in " + PAPER,
        ("add_remove", "replace_one"), ("classification", "regression"))

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 0.0,
        schema: pl.Schema | None = None,
        *,
        k: int = 5,
        blocks: int | None = None,
        penalty: float = 0.1,
        method: str = "auto",
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.k = k
        self.blocks = blocks
        self.penalty = penalty
        self.method = method
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """The paper's arithmetic beside the sound one. Never charged."""
        plan = self.plan(schema)
        return (
            pl.ClaimStep(
                "split into blocks", "section 2.2", 0.0, math.inf, 0.0,
                "the root of the private number of records as the number of blocks: one record "
                "more may change every block; here a public number and a coin per record"),
            pl.ClaimStep(
                "everything", "section 2.2", float(self.epsilon),
                pl.epsilon(plan, self.delta, self.relation), self.delta,
                "one record changes the votes of one block"),
        )

    def _score(self, schema: pl.Schema) -> pl.questions.Votes:
        blocks = self.blocks
        if blocks is None:
            rows = schema.rows_for(self.relation)
            blocks = 10 if rows is None else max(2, math.isqrt(rows))
        return pl.questions.Votes(blocks, int(self.k), self.penalty)

    def _change(self, schema: pl.Schema) -> tuple[float, float]:
        self._score(schema)  # a wrong number of blocks is refused before anything is asked
        return pl.questions.FeatureChoice.bound_of("votes", schema).change


__all__ = ["DPSIS", "DPSISTwoStage"]
