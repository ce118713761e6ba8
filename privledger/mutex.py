"""A lock that cannot be lost, and what it needs of threads, clocks and processes.

An interrupt may come between any two lines, so no `finally` is certain to run. A lock that lives
by being given back would then be held for ever. This one is held by a *call*: it is over when it
is given back, or when that call is on no thread's stack any more. A waiting thread looks from
time to time. The same holds in a forked child, where every other thread is gone.
"""

from __future__ import annotations

import _thread
import contextlib
import inspect
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import NoReturn, Self

FIRST_LOOK, LONGEST_LOOK = 0.02, 0.25
"""Seconds of waiting before one looks whether the holder is there; doubled, up to the second."""

_SUSPENDED = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_CONTEXTLIB = vars(contextlib)


@contextlib.contextmanager
def delivered() -> Iterator[None]:
    """Around what runs in a callback of the collector, where Python swallows every exception: an
    interrupt is sent again, to the main thread, as if it came a moment later."""
    try:
        yield
    except KeyboardInterrupt:
        deliver()


def deliver() -> None:
    """Send an interrupt again, a moment later: in a callback it would be swallowed once more."""
    threads.interrupt()


class Bell:
    """Something to wait for. A ring that no thread waited for is kept."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wait(self, seconds: float) -> bool:
        """Whether it rang within that time."""
        return self._lock.acquire(timeout=seconds)

    def ring(self) -> None:
        """Wake the thread that waits, now or later. A second ring before that does nothing."""
        with contextlib.suppress(RuntimeError):  # it rang already
            self._lock.release()


class Threads:
    """The real ones. A simulation puts its own in their place (tests/simulation)."""

    def process(self) -> int:
        """Number of this process."""
        return os.getpid()

    def ident(self) -> int:
        """Number of this thread; a later one may get the same."""
        return threading.get_ident()

    def stacks(self) -> dict[int, FrameType]:
        """The innermost frame of every thread of this process."""
        return sys._current_frames()

    def bell(self) -> Bell:
        """A bell that has not rung."""
        return Bell()

    def sleep(self, seconds: float) -> None:
        """Let `seconds` pass in this thread."""
        time.sleep(seconds)

    def clock(self) -> float:
        """Seconds since some moment."""
        return time.monotonic()

    def interrupt(self) -> None:
        """Interrupt the main thread, a moment later."""
        again = threading.Timer(0.01, _thread.interrupt_main)
        again.daemon = True
        again.start()


threads = Threads()


class _Hold:
    """One turn of a lock: who has it, and who comes next."""

    __slots__ = ("after", "bells", "frame", "over", "thread", "times")

    def __init__(self, thread: int, frame: FrameType | None) -> None:
        self.thread, self.frame = thread, frame
        self.over = frame is None
        self.times = 1
        self.bells: list[Bell] = []
        self.after: dict[str, _Hold] = {}

    def end(self) -> None:
        self.over = True
        self.frame = None
        for bell in self.bells:
            bell.ring()

    def gone(self) -> bool:
        """Whether the call that holds it left without a word.

        That thread may run on while its stack is being looked at. Every function still leads to
        its caller then; only a generator that was left in between leads nowhere. A look that
        ends in one proves nothing.
        """
        frame, last = threads.stacks().get(self.thread), None
        while frame is not None:
            if frame is self.frame:
                return False
            frame, last = frame.f_back, frame
        return last is None or not last.f_code.co_flags & _SUSPENDED


class Mutex:
    """A reentrant lock for `with`. Safe against interrupts at every line, and forks.

    The holder is the function that has the `with`; one with a context manager made of a
    generator is looked for behind it, because a generator that waits is on no stack.

    >>> lock = Mutex()
    >>> with lock as outermost:
    ...     outermost
    True
    """

    __slots__ = ("__weakref__", "_begin", "_last")

    def __init__(self, begin: Callable[[], None] | None = None) -> None:
        """`begin` is called in every turn first, to mend what an earlier one left undone."""
        self._last = _Hold(0, None)
        self._begin = begin

    def __enter__(self) -> bool:
        """Whether this is the outermost `with` of its thread."""
        frame = _caller(sys._getframe(1))
        self.take(frame)
        held = self._newest()
        return held.frame is frame and held.times == 1

    def __exit__(self, *_: object) -> None:
        self.give(_caller(sys._getframe(1)))

    def take(self, frame: FrameType, unless: Callable[[], bool] | None = None,
             seconds: float | None = None) -> bool:
        """Wait until `frame` holds it; False if `unless` became true, or the time was over."""
        mine, held = _Hold(threads.ident(), frame), self._newest()
        own = held.thread == mine.thread and not held.over
        if own and _is_above(held.frame, frame):
            held.times += held.frame is frame
            return True
        # If its own, but not from a call above, it was lost by an earlier call.
        if not (own and self._follow(held, mine)) and not self._wait(mine, unless, seconds):
            return False
        if self._begin is not None:
            self._begin()
        return True

    def give(self, frame: FrameType) -> None:
        """End the turn of `frame`, if it has it."""
        held = self._newest()
        if held.frame is frame and not held.over:
            held.times -= 1
            if held.times <= 0:
                held.end()

    def is_mine(self) -> bool:
        """Whether a call above this one holds it."""
        held = self._newest()
        return not held.over and _is_above(held.frame, sys._getframe(1))

    def where(self) -> FrameType | None:
        """The innermost frame of the thread that holds it, if any does."""
        held = self._newest()
        return None if held.over else threads.stacks().get(held.thread)

    def _newest(self) -> _Hold:
        held = self._last
        while True:
            later = held.after.get("")
            if later is None:
                return held
            held = later

    def _follow(self, held: _Hold, mine: _Hold) -> bool:
        """Take the turn after `held`. The dictionary lets one of all who try be the first."""
        if held.after.setdefault("", mine) is not mine:
            return False
        self._last = mine
        return True

    def _wait(self, mine: _Hold, unless: Callable[[], bool] | None,
              seconds: float | None) -> bool:
        patience, bell, rings, unheard = FIRST_LOOK, None, None, 0
        stop = None if seconds is None else threads.clock() + seconds
        while unless is None or not unless():
            held = self._newest()
            if held.over or (unheard > 1 and held.gone()):
                if self._follow(held, mine):
                    return True
                continue
            if stop is not None and threads.clock() > stop:
                return False
            bell = bell or threads.bell()
            if rings is not held:
                held.bells.append(bell)
                rings = held
                continue  # it may have ended before it could see the bell
            unheard = 0 if bell.wait(patience) else unheard + 1
            patience = min(2 * patience, LONGEST_LOOK)
        return False


def _caller(frame: FrameType) -> FrameType:
    """The function that is in a `with`, behind managers and generators it waits in."""
    found: FrameType | None = frame
    while found is not None and (
            found.f_code.co_flags & _SUSPENDED or found.f_globals is _CONTEXTLIB
            or found.f_code.co_name in ("__enter__", "__exit__")):
        frame, found = found, found.f_back
    return frame if found is None else found


def _is_above(wanted: FrameType | None, frame: FrameType | None) -> bool:
    while frame is not None:
        if frame is wanted:
            return True
        frame = frame.f_back
    return False


class Uncopied:
    """No pickles; copies and clones are the same object."""

    __slots__ = ()
    _UNPICKLED = "guarded data cannot be pickled. Protect the table again in the other process"

    def __reduce__(self) -> NoReturn:
        raise TypeError(self._UNPICKLED.format(type(self).__name__))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self
