"""What leaves the guard when something goes wrong inside: an error of a known kind, and no frame.

Frames below hold rows, and tracebacks, contexts and notes keep what they hold. Every exception
is therefore raised afresh from here, where no local variable leads to a record.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TypeVar

from privledger.errors import DataError, PrivledgerError

T = TypeVar("T")

FAILED = "the query failed inside the guard; its charge stands"
_OURS = ("privledger", "numpy", "contextlib")


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
