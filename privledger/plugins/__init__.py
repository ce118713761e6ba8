"""The plugin surface: what a learner is, and how installed ones are found."""

from __future__ import annotations

import inspect
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol, runtime_checkable

from attrs import frozen

from privledger.errors import InvalidPlan, LearnerError, RelationMismatch
from privledger.graph import Node
from privledger.ledger.events import PrivateScore
from privledger.numerals import nearest, upward
from privledger.plugins import intervals
from privledger.plugins.holdout import Holdout
from privledger.tables.person_keys import passing_people_key
from privledger.tables.schema import Schema, label_key

# What a learner plugin is: an estimator that can say its price before it sees data.


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


# Learner plugins, found through the entry-point group `privledger.learners`.

GROUP = "privledger.learners"
SHIPPED, SHIPPED_MODULE = "privledger", "privledger_learners"


def learner_names() -> tuple[str, ...]:
    """Names of the installed learners, sorted; nothing is imported."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def find_learner(name: str) -> EntryPoint:
    """Where the learner called `name` is; nothing is imported.

    Raises:
        LearnerError: not installed, or by two distributions.
    """
    # Every different entry point of that name, whichever distribution it is from.
    found = {(_owner(point), point.value): point for point in entry_points(group=GROUP)
             if point.name == name}
    points = list(found.values())
    if not points:
        known = ", ".join(learner_names()) or "none"
        near = nearest(name, learner_names())
        meant = "" if near is None else f" (did you mean {near}?)"
        raise LearnerError(f"no learner {name!r} is installed{meant}; installed: {known}")
    if len(points) > 1:
        # Whichever came first on the path would win, and the user would not be told which.
        owners = ", ".join(sorted(f"{_owner(point)} ({point.value})" for point in points))
        raise LearnerError(f"learner {name!r} is installed more than once, so none of them is "
                           f"used: {owners}; uninstall all but one")
    return points[0]


def _owner(point: EntryPoint) -> str:
    """The distribution that an entry point belongs to."""
    dist = getattr(point, "dist", None)
    if dist is None:
        return "an unknown distribution"
    about = dist.metadata  # read from its file whenever it is asked for
    return f"{about['Name']} {about['Version']}"


def is_shipped(point: EntryPoint) -> bool:
    """Whether a learner comes with this package, and not with another distribution."""
    dist = getattr(point, "dist", None)
    return (dist is not None and dist.name == SHIPPED
            and point.module.partition(".")[0] == SHIPPED_MODULE)


def load_learner(name: str) -> type[Any]:
    """The learner class called `name`, checked before it is handed out.

    Raises:
        LearnerError: not installed, cannot be imported, or not a learner.
    """
    point = find_learner(name)
    try:
        found = point.load()
    except Exception as error:
        raise LearnerError(f"learner {name!r} cannot be imported: {error}") from error
    return checked_plugin(found, name)


def checked_plugin(found: Any, name: str) -> type[Any]:
    """`found`, if it has all that a learner needs; else `LearnerError`."""
    for attribute in ("plan", "claimed", "fit"):
        if not callable(getattr(found, attribute, None)):
            raise LearnerError(f"learner {name!r} has no {attribute} method")
    if not isinstance(getattr(found, "info", None), LearnerInfo):
        raise LearnerError(f"learner {name!r} has no LearnerInfo in `info`")
    return found  # type: ignore[no-any-return]


def configured(learner: Any, name: str, params: dict[str, Any], schema: Schema,
               relation: str) -> Any:
    """An instance with these parameters; unknown ones are refused by name."""
    learner = checked_plugin(learner, name)
    if relation not in learner.info.relations:
        raise RelationMismatch(f"{name} supports {', '.join(learner.info.relations)}, "
                               f"the run asks for {relation}")
    known = inspect.signature(learner).parameters
    open_ended = any(item.kind is inspect.Parameter.VAR_KEYWORD for item in known.values())
    for key in params:
        if key not in known and not open_ended:
            raise InvalidPlan("[params] key", key, f"one of {', '.join(known)}")
    given = params | ({"relation": relation} if "relation" in known else {})
    return learner(**given, schema=schema)


# Names at the top of `privledger` that installed packages offer: questions people begin with.

NAMES = "privledger.names"


@cache
def offered(name: str) -> Any:
    """What an installed package offers as `privledger.name`; None if none does.

    Raises:
        LearnerError: several do, so none of them is used; or it cannot be imported.
    """
    points = {point.value: point for point in entry_points(group=NAMES, name=name)}
    if len(points) > 1:
        raise LearnerError(f"privledger.{name} is offered more than once: {', '.join(points)}; "
                           "uninstall all but one")
    for value, point in points.items():
        try:
            return point.load()
        except Exception as error:
            raise LearnerError(f"privledger.{name} cannot be imported from {value}: "
                               f"{error}") from error
    return None


__all__ = ["ClaimStep", "Holdout", "Learner", "LearnerInfo", "PrivateScore", "configured",
           "find_learner", "intervals", "is_shipped", "label_key", "learner_names",
           "load_learner", "passing_people_key", "upward"]
