"""Checks of constructor parameters, for every learner: what can never be right is named."""

from __future__ import annotations

import math
import numbers
from typing import Any

import privledger as pl


def check_number(name: str, value: Any, low: float, high: float, *, open_low: bool = True) -> None:
    """Raise `InvalidValue` unless `value` is a finite number in (low, high] or [low, high]."""
    fits = (isinstance(value, numbers.Real) and not isinstance(value, bool)
            and math.isfinite(value) and (low < float(value) if open_low else low <= float(value))
            and float(value) <= high)
    if not fits:
        raise pl.InvalidValue(name, value, f"a number in {'(' if open_low else '['}{low}, {high}]")


def check_count(name: str, value: Any, least: int, most: int = 10**6) -> None:
    """Raise `InvalidValue` unless `value` is a whole number from `least` to `most`."""
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or not (
            least <= int(value) <= most):
        raise pl.InvalidValue(name, value, f"a whole number from {least} to {most}")


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise `InvalidValue` unless `value` is one of `choices`."""
    if value not in choices:
        raise pl.InvalidValue(name, value, f"one of {choices}")


def check_common(learner: Any) -> None:
    """Raise `InvalidValue` for a budget, relation, mode or grid that can never be right.

    The three parameters that every tree learner takes in one sense; a learner whose relation
    follows from what it is has none to check.
    """
    check_number("epsilon", learner.epsilon, 0.0, 1e6)
    check_number("delta", learner.delta, 0.0, 1.0, open_low=False)
    check_choice("mode", learner.mode, ("private", "simulation"))
    if learner.numeric_bins is not None:
        check_count("numeric_bins", learner.numeric_bins, 1, 65534)


def check_depth(depth: Any, deepest: int = 14, name: str = "depth") -> None:
    """Raise `InvalidValue` unless a depth is None, for the rule, or from 1 to `deepest`."""
    if depth is not None:
        check_count(name, depth, 1, deepest)
