"""Caps beside the ledger's own: per table, per person or team, per period.

A cap is a budget for the grants that match it. A request is granted only if it fits the ledger
and every cap that it matches, all or nothing. Caps add up in the ledger's own filter.

A cap on a table is a guarantee for the records of that table: releases from other tables do not
depend on them, so only the grants that the cap counts cost them anything. A cap on labels bounds
what those grants add to whatever else is known; it is a way to share a budget out.

A window is a period with a public name. The owner opens one by an entry of the history; a charge
belongs to the window that was open when it was reserved. No clock decides: one that jumps, or that
somebody sets, would free budget. Nothing is given back when a window ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Protocol

from attrs import field, frozen

from privledger.accounting import rdp_cap
from privledger.errors import InvalidValue
from privledger.ledger.budget import Budget
from privledger.ledger.filters import FilterRule, fixed_filter

_LONGEST = 200


def plain_labels(value: object) -> tuple[tuple[str, str], ...]:
    """Labels as sorted pairs of text.

    Raises:
        InvalidValue: not a mapping of short text to short text.
    """
    items = value.items() if isinstance(value, Mapping) else value
    try:
        pairs = tuple(sorted((key, text) for key, text in items))  # type: ignore[attr-defined]
    except (TypeError, ValueError, AttributeError):
        raise InvalidValue("labels", type(value).__name__, "a mapping of text to text") from None
    for key, text in pairs:
        if not (isinstance(key, str) and isinstance(text, str) and key
                and len(key) <= _LONGEST and len(text) <= _LONGEST):
            raise InvalidValue("labels", "an entry", "short text under a short name")
    return pairs


def window_name(value: object) -> str:
    """A public name of a period, such as "2026-Q4".

    Raises:
        InvalidValue: not a short printable text.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST or (
            not value.isprintable()):
        raise InvalidValue("window", type(value).__name__, "a short printable text")
    return value


class Requested(Protocol):
    """What a cap looks at: a grant's table and its labels."""

    @property
    def data(self) -> str:
        """Name of the table that the plan is about."""
    @property
    def labels(self) -> Mapping[str, str]:
        """The owner's labels on the request, by name."""


@frozen
class Cap:
    """A budget for some of the grants.

    Attributes:
        budget: the promise for what these grants release.
        data: name of the table they are for; None for any.
        labels: what they were requested with, such as {"team": "a", "quarter": "2026-4"};
            a grant matches if it carries all of them. Empty for any.
        window: name of the one window it is for; None for any.
        per_window: every window has this budget anew. What matches is refused until the first
            window is open.
    """

    budget: Budget
    data: str | None = None
    labels: tuple[tuple[str, str], ...] = field(default=(), converter=plain_labels)
    window: str | None = None
    per_window: bool = False

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise InvalidValue("Cap budget", type(self.budget).__name__, "a Budget")
        if self.data is not None and not (isinstance(self.data, str) and self.data):
            raise InvalidValue("Cap data", type(self.data).__name__, "the name of a table")
        if self.window is not None:
            window_name(self.window)
        if not isinstance(self.per_window, bool) or (self.per_window and self.window is not None):
            raise InvalidValue("Cap per_window", self.per_window,
                               "true or false, and false with one window named")
        if (self.data is None and not self.labels and self.window is None
                and not self.per_window):
            raise InvalidValue("Cap", "no condition", "for a table, for labels, or for windows")

    def matches(self, window: str | None, request: Requested | None) -> bool:
        """Whether what is charged in a window falls under the cap.

        Args:
            request: a grant; None for a scope, which may serve any table and any request later,
                so it falls under every cap of the window it is paid in.
        """
        if self.window is not None and window != self.window:
            return False
        return request is None or ((self.data is None or request.data == self.data) and all(
            request.labels.get(key) == text for key, text in self.labels))

    def rule(self, ledger: FilterRule) -> FilterRule:
        """The cap in the ledger's own filter; nothing fits if that filter cannot promise it."""
        return _rule(self, ledger)

    @property
    def title(self) -> str:
        """For messages."""
        parts = [] if self.data is None else [f"data {self.data}"]
        parts += [f"{key} {text}" for key, text in self.labels]
        parts += [] if self.window is None else [f"window {self.window}"]
        parts += ["each window"] if self.per_window else []
        return "the cap for " + ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: budget, and what the cap is for; `from_dict` reads it."""
        return {**self.budget.as_dict(), "data": self.data, "labels": dict(self.labels),
                "window": self.window, "per_window": self.per_window}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Cap:
        """The cap that `as_dict` wrote; files of version 2 know no windows."""
        budget = Budget(value["epsilon"], value["delta"], value.get("failure", 0.0))
        return cls(budget, value["data"], value["labels"],
                   value.get("window"), value.get("per_window", False))


@lru_cache(maxsize=256)
def _rule(cap: Cap, ledger: FilterRule) -> FilterRule:
    if ledger.kind != "basic" and not cap.budget.rest > 0:
        return FilterRule(ledger.kind, ledger.order, cap.budget, 0)
    if ledger.kind == "rdp":
        if not rdp_cap(cap.budget.epsilon, cap.budget.rest, ledger.order) > 0:
            return FilterRule("rdp", ledger.order, cap.budget, 0)
        return fixed_filter("rdp", cap.budget, ledger.order)
    return fixed_filter(ledger.kind, cap.budget)
