"""Checks of constructor parameters, for every learner."""

from __future__ import annotations

import math
import numbers
from typing import Any

import privledger as pl


def check_number(name: str, value: Any, low: float, high: float, *, open_low: bool = True) -> None:
    """Raise `InvalidValue` unless `value` is a finite number in (low, high] or [low, high]."""
    fits = (isinstance(value, numbers.Real) and not isinstance(value, bool)
            and math.isfinite(value) and (low < value if open_low else low <= value)
            and value <= high)
    if not fits:
        raise pl.InvalidValue(name, value, f"a number in {'(' if open_low else '['}{low}, {high}]")


def check_count(name: str, value: Any, least: int, most: int = 10**6) -> None:
    """Raise `InvalidValue` unless `value` is a whole number from `least` to `most`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not (
            least <= value <= most):
        raise pl.InvalidValue(name, value, f"a whole number from {least} to {most}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise `InvalidValue` unless `value` is one of `choices`."""
    if value not in choices:
        raise pl.InvalidValue(name, value, f"one of {choices}")
