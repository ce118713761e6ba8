"""Long work step by step, for whoever shows how far it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from attrs import frozen

T = TypeVar("T")


class PlanSteps(Protocol):
    """Goes along with long work."""

    def __call__(self, title: str, items: Collection[T]) -> Iterable[T]:
        """The same items, counted under `title` as they are taken."""


def silent(title: str, items: Collection[T]) -> Iterable[T]:
    """Nobody looks."""
    return items


@frozen
class CountedNode(Sequence[T]):
    """A sequence that is counted each time somebody goes through it."""

    items: Sequence[T]
    title: str
    steps: PlanSteps

    def __iter__(self) -> Iterator[T]:
        return iter(self.steps(self.title, self.items))

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, place):  # type: ignore[no-untyped-def]
        return self.items[place]
