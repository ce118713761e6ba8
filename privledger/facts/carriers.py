"""Who carries described objects: into the guard, and between a confined learner and its owner."""

from __future__ import annotations

from typing import Any, Protocol

from privledger.facts.schema import Schema
from privledger.facts.values import Json


class Copier(Protocol):
    """The guard's side: copies by exact type, through this package's own constructors."""

    def shared(self, what: Any, kind: type) -> Any:
        """The copy of an object of that kind; the same one every time."""

    def cells(self, what: Any) -> Any:
        """The copy of cells of any known kind; the same one every time."""

    def part(self, what: Any, kind: type) -> Any:
        """A copy of something that belongs to one question only."""

    def block(self, what: Any) -> Any:
        """The same for a block of any known kind."""

    def derivation(self, data: Any) -> Any:
        """The copy of a derivation of the guarded table's own."""

    def known(self, what: Any) -> Any:
        """The copy that stands for `what` already; None for none."""

    def keep(self, what: Any, copy: Any) -> Any:
        """Let `copy` stand for `what`, unless another thread was first."""


class Describer(Protocol):
    """A confined learner's side: objects of this package -> numbers and plain values."""

    @property
    def schema(self) -> Schema:
        """Of the data."""

    def object(self, what: Any) -> int:
        """The number of cells, bins or a score, which is written down first."""

    def block(self, block: Any) -> Json:
        """A block with the name of its kind."""

    def public_rows(self) -> int:
        """How many records there are, where that is public."""


class Reader(Protocol):
    """The owner's side: plain values -> objects that are built and checked here, by exact type."""

    @property
    def schema(self) -> Schema:
        """Of the data."""

    def object(self, place: Any, kind: type) -> Any:
        """What a number stands for, if it is of that kind."""

    def cells(self, place: Any) -> Any:
        """Cells of any known kind."""

    def block(self, body: Any) -> Any:
        """A block of any known kind."""

    def handle(self, place: Any) -> Any:
        """A handle on the guarded data."""
