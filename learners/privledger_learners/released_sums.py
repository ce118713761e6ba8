"""What learners share that ask for noisy sums of rows and compute all else from the answers."""

from __future__ import annotations

import numpy as np

import privledger as pl
from privledger_learners.boosting.sum_of_trees import Priced
from privledger_learners.estimator import PrivateLearner, Relation, check_choice, check_number
from privledger_learners.floor import Floor


class _OfSums(PrivateLearner):
    """A learner whose plan is Gaussian noise on sums of rows; a subclass says which sums."""

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        schema: pl.Schema | None = None,
        *,
        relation: Relation = "add_remove",
        mode: str = "private",
        random_state: int | None = None,
        unaccounted: bool = False,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.schema = schema
        self.relation = relation
        self.mode = mode
        self.random_state = random_state
        self.unaccounted = unaccounted

    def _plan_of(self, schema: pl.Schema, noise: float) -> pl.Node:
        """What is asked, with an overall noise multiplier; refuses what can never be asked."""
        raise NotImplementedError

    def _recipe(self, schema: pl.Schema) -> Priced[pl.Schema]:
        check_choice("mode", self.mode, ("private", "simulation"))
        check_choice("relation", self.relation, ("add_remove", "replace_one"))
        check_number("epsilon", self.epsilon, 0.0, 1e6)
        check_number("delta", self.delta, 0.0, 1.0)
        self._plan_of(schema, 1.0)
        noise = pl.calibrate(lambda one: self._plan_of(schema, one), self.epsilon, self.delta,
                             self.relation)
        return Priced(schema, noise, self._plan_of(schema, noise))

    def _floor_of(self, schema: pl.Schema, why: str) -> Floor:
        return Floor.gaussian(schema, self.relation, float(self.epsilon), float(self.delta), why)

    def claimed(self, schema: pl.Schema | None = None) -> tuple[pl.ClaimStep, ...]:
        """No paper's price is claimed: the sound cost of the plan."""
        known = self._known(schema)
        floor = self._floor(known)
        if floor is not None:
            return floor.claimed(self.delta)
        return (pl.ClaimStep("everything", "not from a paper", None, pl.epsilon(
            self._recipe(known).plan, self.delta, self.relation), self.delta,
            "Gaussian sums of bounded vectors"),)

    @property
    def _change(self) -> float:
        """How far one neighbour moves a signed sum, in lengths of a row."""
        return 1.0 if self.relation == "add_remove" else 2.0


def numeric_features(schema: pl.Schema) -> list[str]:
    """Names, in the schema's order."""
    return [column.name for column in schema.features if column.kind == "numeric"]


def scaled_numbers(X: object, schema: pl.Schema) -> np.ndarray:
    """Numeric features of rows that the caller owns, on [-1, 1] by their bounds as in the guard,
    shape (n, features); NaN where missing."""
    held = pl.encode_features(X, schema, strict=False)
    found = [np.clip((held.arrays[place] - (column.lower + column.upper) / 2)
                     / ((column.upper - column.lower) / 2), -1.0, 1.0)
             for place, column in enumerate(schema.features) if column.kind == "numeric"]
    return np.stack(found, axis=1) if found else np.zeros((held.n_rows, 0))


def along(X: object, schema: pl.Schema, directions: np.ndarray,
          middle: np.ndarray | float = 0.0) -> np.ndarray:
    """Products of the scaled numbers less `middle` with directions, shape (n, directions);
    missing counts zero. Column by column: no last bit depends on which rows are beside a row."""
    numbers = np.nan_to_num(scaled_numbers(X, schema), nan=0.0) - middle
    found = np.zeros((len(numbers), len(directions)))
    for column, weights in zip(numbers.T, directions.T, strict=True):
        found += column[:, None] * weights
    return found


def symmetric(upper: np.ndarray) -> np.ndarray:
    """The matrix whose upper triangle was released, row by row."""
    many = int((np.sqrt(8 * len(upper) + 1) - 1) / 2)
    found = np.zeros((many, many))
    found[np.triu_indices(many)] = upper
    return np.asarray(found + np.triu(found, 1).T)


class _OfFeatures(_OfSums):
    """A learner of numeric features alone: a target, where there is one, is not looked at."""

    def _known(self, schema: pl.Schema | None) -> pl.Schema:
        found = schema if schema is not None else self.schema
        if not isinstance(found, pl.Schema):
            raise pl.SchemaError("a schema is needed: bounds must be public facts, they are never "
                                 "read off the data")
        if not numeric_features(found):
            raise pl.SchemaError("no numeric feature column")
        return found
