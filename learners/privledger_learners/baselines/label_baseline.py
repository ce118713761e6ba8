"""The frame of a baseline that protects labels only: each answers once, all else is free."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

import privledger as pl
from privledger_learners.baselines.baseline import refuse_printed
from privledger_learners.baselines.forest_recipe import Steps
from privledger_learners.estimator import (
    LabelClassifier,
    PrivateLearner,
    check_choice,
    check_number,
    no_weights,
)
from privledger_learners.guarding import with_unlabelled
from privledger_learners.label_private import RELATION, LabelRecipe


class LabelBaseline(LabelClassifier, PrivateLearner):
    """Shared by SSRDT and TOP; see their docstrings.

    A subclass says what it makes of the answers (`_teach`), and what its paper says
    (`_printed`).
    """

    relation = RELATION
    unlabelled = True
    variant: str

    def _teach(self, data: pl.Dataset, answers: np.ndarray) -> None:
        """Set the model, from public features and released answers.

        Args:
            answers: chance of each record's answer under every class, shape (n_records, classes);
                1 where there is no label.
        """
        raise NotImplementedError

    def _printed(self, sound: float) -> Steps:
        raise NotImplementedError

    def claimed(self, schema: pl.Schema | None = None) -> Steps:
        """The paper's steps beside their sound price; the last is the whole, as it runs here."""
        recipe = self._recipe(self._known(schema))
        return self._printed(pl.epsilon(recipe.plan, 0.0, RELATION))

    def fit(self, X: object, y: object = None, X_unlabelled: object = None, *,
            labels: Mapping[str, str] | None = None, **named: object) -> Self:
        """Train under a grant.

        Args:
            X: a guarded `Dataset` of a `replace_label` ledger, or a table; a table is put behind
                a fresh in-memory ledger with budget (epsilon, delta).
            y: the target, for a table; None or NaN marks a row without a label.
            X_unlabelled: more rows, without labels.
            labels: what the grant carries, such as {"team": "red"}: caps match it.
            named: `sample_weight` is refused with the reason; there is nothing else.

        Raises:
            BudgetExceeded: the ledger refused; nothing was read.
        """
        no_weights(self, named)
        self._check()
        if X_unlabelled is not None:
            X, y = with_unlabelled(X, y, X_unlabelled, self._known(self.schema))
        return super().fit(X, y, labels=labels)

    def _learn(self, data: pl.Dataset, schema: pl.Schema) -> None:
        recipe = self._recipe(self._known(schema))
        answers = self._granted(data, recipe.plan, lambda session: recipe.ask_all(session, data),
                                claimed=float(self.epsilon))
        self.schema_ = schema
        self._teach(data, answers)
        self.guarantee_ = repr(data.ledger)

    def _recipe(self, schema: pl.Schema) -> LabelRecipe:
        self._check()
        if self.variant == "paper":
            refuse_printed(self._printed(float(self.epsilon)), type(self).__name__)
        return LabelRecipe(schema, float(self.epsilon), 1.0)

    def _check(self) -> None:
        check_number("epsilon", self.epsilon, 0.0, 500.0)
        check_number("delta", self.delta, 0.0, 1.0, open_low=False)
        check_choice("variant", self.variant, ("default", "paper"))
        check_choice("mode", self.mode, ("private", "simulation"))
