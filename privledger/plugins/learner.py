"""What a learner plugin is: an estimator that can say its price before it sees data."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from attrs import frozen

from privledger.facts.schema import Schema
from privledger.graph import Node


@frozen
class LearnerInfo:
    """What a list of learners shows.

    Attributes:
        name: the entry point's name.
        summary: one line.
        paper: source of the algorithm.
        relations: neighbouring relations it supports.
        tasks: `regression`, `classification`.
    """

    name: str
    summary: str
    paper: str = ""
    relations: tuple[str, ...] = ("add_remove",)
    tasks: tuple[str, ...] = ()


@frozen
class ClaimStep:
    """One step of a published algorithm: what the paper says and what it costs.

    Attributes:
        step: a few words.
        reference: where the paper says so.
        claimed: epsilon by the paper's own arithmetic; None where it gives none.
        sound: epsilon that is proved; infinity where none exists.
        delta: at which both are stated.
        note: why they differ, and what this implementation does instead.
    """

    step: str
    reference: str
    claimed: float | None
    sound: float
    delta: float
    note: str = ""

    @property
    def ratio(self) -> float | None:
        """Sound epsilon over the claimed one: how much the paper understates; None where it claims
        nothing."""
        return None if not self.claimed else self.sound / self.claimed


@runtime_checkable
class Learner(Protocol):
    """The whole plugin surface. Learners are scikit-learn compatible estimators.

    Attributes:
        info: a `LearnerInfo`.
    """

    info: LearnerInfo

    def plan(self, schema: Schema) -> Node:
        """What `fit` would spend; sees public facts only."""

    def claimed(self, schema: Schema) -> tuple[ClaimStep, ...]:
        """The paper's arithmetic beside the sound one; shown, never charged."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from a guarded `Dataset`, asking a session for every look at the data."""


class Priced(Learner, Protocol):
    """A learner that says what one fit costs, as everything that checks learners needs.

    Attributes:
        epsilon: of one fit, above 0.
    """

    epsilon: float
