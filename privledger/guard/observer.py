"""Who stands beside the guard of this process: the kit, the replay, the plugin of pytest.

An observer sees what a learner sees: handles, plans, questions, and answers with their noise. What
a learner is handed in place of an answer is the observer's affair; what was charged is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

Subject = TypeVar("Subject")
Given = ParamSpec("Given")
Found = TypeVar("Found")


class Observer:
    """Does nothing but what a class of its own does otherwise."""

    def opened(self, ledger: object) -> None:
        """A `Ledger` was made or opened, and asked nothing yet."""

    def protected(self, data: object) -> None:
        """A table is behind the guard; `data` is its handle."""

    def drew(self, ledger: object, reserve: Callable[..., Found], asked: object,
             shown: object) -> Found:
        """Around a grant: `reserve` gives what `asked`, a `Request`, asks for, or refuses."""
        return reserve(asked, shown)

    def released(self, granted: object, release: Callable[..., object], mechanism: object,
                 query: object, **named: object) -> object:
        """Around a release of a `GrantedPlan`, which charges and answers."""
        return release(mechanism, query, **named)

    def scored(self, contest: object, score: Callable[..., float], said: object) -> float:
        """Around what a run inside a tuning says of itself."""
        return score(said)


_observers: list[Observer] = []


@contextmanager
def _observing(one: Observer) -> Iterator[None]:
    """In this block `one` is told; of several the last one stands outermost."""
    _observers.append(one)
    try:
        yield
    finally:
        _observers.remove(one)


def tell(name: str, said: object) -> None:
    """Tell every observer."""
    for one in tuple(_observers):
        getattr(one, name)(said)


def observed(name: str) -> Callable[[Callable[Concatenate[Subject, Given], Found]],
                                    Callable[Concatenate[Subject, Given], Found]]:
    """A method that every observer stands around, by its method `name`."""

    def around(method: Callable[Concatenate[Subject, Given], Found]
               ) -> Callable[Concatenate[Subject, Given], Found]:
        @wraps(method)
        def asked(subject: Subject, /, *given: Given.args, **named: Given.kwargs) -> Found:
            ask: Callable[..., Found] = partial(method, subject)
            for one in tuple(_observers):
                ask = partial(getattr(one, name), subject, ask)
            return ask(*given, **named)

        return asked

    return around
