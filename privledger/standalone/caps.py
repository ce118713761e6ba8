"""Budgets beside the ledger's own: for one table, for labels, for a window, for each window."""

from __future__ import annotations

from typing import Any

Total = tuple[int, int]


class Cap:
    """One cap, and what the grants that match it took: for each window where it begins anew."""

    def __init__(self, body: Any) -> None:
        self.epsilon, self.delta = float(body["epsilon"]), float(body["delta"])
        self.purse = float(body.get("failure", 0.0))
        self.data, self.labels = body["data"], body["labels"]
        self.window, self.each = body.get("window"), bool(body.get("per_window"))
        self.totals: dict[str | None, Total] = {}

    def matches(self, grant: Any) -> bool:
        """A scope may serve any table and any request, so it falls under all but other windows."""
        if self.window is not None and grant.get("window") != self.window:
            return False
        if "grant" not in grant:
            return True
        carried = grant.get("labels") or {}
        return (self.data is None or grant["data"] == self.data) and all(
            carried.get(key) == value for key, value in self.labels.items())

    def spent(self, window: str | None) -> Total:
        """Units and delta units charged to it, in `window` if it is a cap for each."""
        return self.totals.get(window if self.each else None, (0, 0))

    def add(self, window: str | None, units: int, delta_units: int) -> Total:
        """Charge it; returns what is spent then."""
        before = self.spent(window)
        after = before[0] + units, before[1] + delta_units
        self.totals[window if self.each else None] = after
        return after

    def shown(self, window: str | None, end: Total | None = None) -> list[int]:
        """As a checkpoint lists it: a cap for all time by what it was when the window ended."""
        return list(self.spent(window) if self.each or end is None else end)

    def __str__(self) -> str:
        return f"the cap for data {self.data}, labels {self.labels}, window {self.window}"
