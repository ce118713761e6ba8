"""Learner plugins, found through the entry-point group `privledger.learners`."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from privledger.errors import LearnerError
from privledger.plugins.learner import LearnerInfo

GROUP = "privledger.learners"


def learner_names() -> tuple[str, ...]:
    """Names of the installed learners, sorted; nothing is imported."""
    return tuple(sorted({point.name for point in entry_points(group=GROUP)}))


def load_learner(name: str) -> type[Any]:
    """The learner class called `name`, checked before it is handed out.

    Raises:
        LearnerError: not installed, cannot be imported, or not a learner.
    """
    points = [point for point in entry_points(group=GROUP) if point.name == name]
    if not points:
        known = ", ".join(learner_names()) or "none"
        raise LearnerError(f"no learner {name!r} is installed; installed: {known}")
    try:
        found = points[0].load()
    except Exception as error:
        raise LearnerError(f"learner {name!r} cannot be imported: {error}") from error
    for attribute in ("plan", "claimed", "fit"):
        if not callable(getattr(found, attribute, None)):
            raise LearnerError(f"learner {name!r} has no {attribute} method")
    if not isinstance(getattr(found, "info", None), LearnerInfo):
        raise LearnerError(f"learner {name!r} has no LearnerInfo in `info`")
    return found  # type: ignore[no-any-return]
