"""Many small cases of one law as one test: every case runs, and all that fail are named."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence

import pytest
from _pytest.mark.structures import ParameterSet


def all_cases(names: str | Sequence[str], values: Iterable[object],
             ids: object = None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """As `pytest.mark.parametrize`, for cases that are quick and leave nothing behind.

    Fixtures, of the session or the module, are the same for all cases.
    """
    parts = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = [one.values if isinstance(one, ParameterSet) else one if len(parts) > 1 else (one,)
             for one in map(_unmarked, values)]
    assert all(len(case) == len(parts) for case in cases)

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            failed = []
            for case in cases:
                try:
                    test(**dict(zip(parts, case, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((case, error))
            if failed:
                case, error = failed[0]
                error.add_note(f"{len(failed)} of {len(cases)} cases of {test.__name__} fail: "
                               + "; ".join(f"{case!r:.200}" for case, _ in failed[:20]))
                raise error

        left = inspect.signature(test)
        run.__signature__ = left.replace(parameters=[  # type: ignore[attr-defined]
            one for name, one in left.parameters.items() if name not in parts])
        return run

    return decorate


def _unmarked(case: object) -> object:
    assert not getattr(case, "marks", ()), "a case with a mark is a test of its own"
    return case
