"""Errors as names and public texts, in both directions. No traceback, no arguments, no code."""

from __future__ import annotations

import math
from typing import Any

from privledger import errors
from privledger.errors import (
    BudgetExceeded,
    InvalidValue,
    IsolationError,
    PolicyViolation,
    PrivledgerError,
)
from privledger.tables.values import Json, table, text_field

MOST_TEXT = 2000
_NUMBERS = ("asked", "spent", "left")
_WORDS = ("unit", "fits", "scope")
# Those of the store may name files, which is nothing a learner needs to know.
PUBLIC: dict[str, type[PrivledgerError]] = {
    name: kind for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, PrivledgerError)
    and not issubclass(kind, errors.LedgerError | errors.IsolationLimit)
}


def number_out(value: float) -> str:
    """A float, infinity included, exactly."""
    return float(value).hex()


def number_in(body: Json, key: str) -> float:
    """The inverse of `number_out`."""
    try:
        value = float.fromhex(text_field(body, key, 64))
    except (ValueError, OverflowError):
        value = math.nan
    if math.isnan(value):
        raise IsolationError(f"malformed message: {key} must be a number") from None
    return value


def showable(words: str) -> str:
    """A text of the other side as it may be shown: what steers a terminal is left out."""
    return "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in words)


def error_out(error: BaseException) -> Json:
    """An error as JSON values. What is not of the package's own tree loses its text."""
    name = type(error).__name__
    if name not in PUBLIC or type(error) is not PUBLIC[name]:
        return {"error": "PrivledgerError", "text": "the request failed; what was charged stands"}
    body: Json = {"error": name, "text": str(error)[:MOST_TEXT]}
    if isinstance(error, BudgetExceeded):
        body |= {key: number_out(getattr(error, key)) for key in _NUMBERS}
        body |= {key: str(getattr(error, key))[:400] for key in _WORDS}
        body |= {} if error.own is None else {"own": number_out(error.own)}
    return body


def error_in(value: Any) -> PrivledgerError:
    """The error that `error_out` wrote, of the same class and with the same text."""
    body = table(value)
    kind = PUBLIC.get(text_field(body, "error"), PrivledgerError)
    if kind is BudgetExceeded:
        numbers: Any = {key: number_in(body, key) for key in _NUMBERS}
        words: Any = {key: showable(text_field(body, key, 400)) for key in _WORDS}
        numbers |= {"own": number_in(body, "own")} if "own" in body else {}
        return BudgetExceeded(**numbers, **words)
    message = showable(text_field(body, "text", MOST_TEXT))
    found = kind.__new__(kind)
    Exception.__init__(found, message)
    if isinstance(found, PolicyViolation):
        found.findings = ()  # the text names them
    if isinstance(found, InvalidValue):
        found.name, found.value, found.rule = message, None, ""
    return found
