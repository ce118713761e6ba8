"""The line of those who wait for budget. Nothing is charged by it; a checkpoint keeps it."""

from __future__ import annotations

from collections.abc import Container, Mapping

MOST_PLACES = 1000
PLACE_FIELDS = ("grant", "data", "labels", "units", "delta_units", "until", "host", "pid",
                "started")


class Line:
    """Places by grant, in the order in which they came."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, object]] = {}

    def refused(self, body: Mapping[str, object], granted: Container[str]) -> bool:
        """Fold a `refused` entry in; whether it counts as a refusal."""
        self.places.pop(str(body.get("left_line", "")), None)
        place = body.get("waits")
        if isinstance(place, dict) and place["grant"] not in granted and (
                len(self.places) < MOST_PLACES):
            self.places[place["grant"]] = {name: place[name] for name in PLACE_FIELDS}
        return not ("waits" in body or "left_line" in body)

    def granted(self, grant: str) -> None:
        """Whoever waited has what it asked for."""
        self.places.pop(grant, None)
