"""What one grant works with, and what leaves when something goes wrong: a known error, no frame.

Frames below hold rows, and tracebacks, contexts and notes keep what they hold. Every exception
is therefore raised afresh from here, where no local variable leads to a record.
"""

from __future__ import annotations

import secrets
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np
from attrs import field, frozen

from privledger.errors import DataError, PrivledgerError
from privledger.graph import Context, Meter
from privledger.guard.spends import Spends
from privledger.guard.vault import Pass, Vault
from privledger.ledger import Policy
from privledger.ledger.log import ReleaseLog
from privledger.noise.source import NoiseSource
from privledger.questions.asking import Held, Members
from privledger.questions.noise_stream import NoiseStream
from privledger.questions.query import Running
from privledger.questions.threshold import ThresholdRun

T = TypeVar("T")
Subject = TypeVar("Subject")
Given = ParamSpec("Given")
Found = TypeVar("Found")

FAILED = "the query failed inside the guard. Its charge stands"
_OURS = ("privledger", "numpy", "contextlib")


@frozen(eq=False, repr=False)
class Inside:
    """What a release works with. Never leaves the guard.

    Attributes:
        vault, leave: the rows, and what opens them while the grant stands.
        source: of every noise, sample and coin.
        meter: what the plan still admits. log: what was charged, in order.
        spends: of the grant's filters.
        policy: the ledger's; None where it has none.
        vouched: whether a reason was given, so that asserted questions may be asked.
        members: who is behind each handle.
        runs: of sparse vector and of correlated noise, by the guard's own copy of what stands for
            each.
    """

    vault: Vault
    leave: Pass
    source: NoiseSource
    meter: Meter
    log: ReleaseLog
    spends: Spends
    policy: Policy | None = None
    vouched: bool = True
    runs: dict[ThresholdRun | NoiseStream, Running] = field(init=False, factory=dict)
    members: Members = field(init=False, factory=lambda: Members(secrets.token_hex(8)))

    def charge(self, leaf: Any, chain: tuple[Context, ...], question: str, cells: int) -> None:
        """Take one release off the reserved plan and itemise it. In memory, O(1).

        Raises:
            NotGranted: the plan has no such node left; nothing was charged.
        """
        self.meter.admit(chain, leaf)
        self.leave.touched = True  # before the note: a log that is not empty is touched
        self.log.add(chain, leaf, question, cells)

    def read(self, look: Callable[[Held], T]) -> T:
        """Answer from rows. Whatever goes wrong, no text about the records gets out.

        Args:
            look: sees the rows, and adds noise to what it says of them.

        Raises: as `guarded`.
        """
        self.leave.touched = True  # the vault says so too, however it is opened

        def answer() -> T:
            # Floating-point warnings would tell which records overflow, also as exceptions.
            with self.vault.open(self.leave) as held, np.errstate(all="ignore"):
                return look(held)

        return guarded(answer)


def guarded(answer: Callable[[], T]) -> T:
    """Run what reads rows. Whatever goes wrong, nothing about the records gets out with it.

    Raises:
        PrivledgerError: one of ours, raised by our own code: its text speaks of parameters only.
        DataError: any other `Exception`. What went wrong may depend on the records.
        BaseException: an interrupt or an exit, of the same type and without arguments.
    """
    try:
        return _once(answer)
    except BaseException as error:  # the first was clean, unless an interrupt hit its handler
        failure = _clean(error)
    try:
        raise failure
    finally:
        del failure, answer


def _once(answer: Callable[[], T]) -> T:
    try:
        return answer()
    except BaseException as error:
        failure = _clean(error)
    try:
        raise failure
    finally:
        del failure, answer


def _clean(error: BaseException) -> BaseException:
    """An exception of the same meaning that holds nothing from below."""
    if isinstance(error, PrivledgerError):
        if type(error).__module__ != "privledger.errors" or _is_foreign(error.__traceback__):
            return DataError(FAILED)
        error.__context__ = error.__cause__ = None
        vars(error).pop("__notes__", None)
        return error.with_traceback(None)
    if isinstance(error, Exception):
        return DataError(FAILED)
    if isinstance(error, SystemExit):
        return SystemExit(1)  # its code could be a value
    return _nearest(type(error))


def _is_foreign(trace: TracebackType | None) -> bool:
    """Whether code that is not ours was on the way: then a value may stand in the text."""
    while trace is not None:
        name = str(trace.tb_frame.f_globals.get("__name__", ""))
        if name.partition(".")[0] not in _OURS:
            return True
        trace = trace.tb_next
    return False


def _nearest(kind: type[BaseException]) -> BaseException:
    """A new one of this type, or of its nearest base that is part of Python."""
    for base in kind.__mro__:
        known = base.__module__.partition(".")[0] in (*sys.stdlib_module_names, "builtins")
        if known and issubclass(base, BaseException):
            try:
                return base()
            except TypeError:  # it needs arguments
                continue
    return BaseException()


class Observer:
    """Who stands beside the guard of this process: the kit, the replay, the plugin of pytest.

    An observer sees what a learner sees: handles, plans, questions, and answers with their noise.
    What a learner is handed in place of an answer is the observer's affair; what was charged is
    not. This one does nothing but what a class of its own does otherwise.
    """

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

    def settled(self, granted: object) -> None:
        """A `GrantedPlan` is over, and its end is in the history, which has `granted.receipt`."""

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
