"""No warnings while a stranger's function sees rows: their texts could quote a value, and as
errors they would tell which records warn."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from privledger.mutex import Mutex

_lock = Mutex()
_inside: list[Any] = []  # one for each that is inside
_saved: list[Any] = []  # of the first of them: it has the old filters


@contextmanager
def quiet() -> Iterator[None]:
    """Filters belong to the whole process, so the last one out puts the old ones back."""
    mark = warnings.catch_warnings()
    try:
        with _lock:
            _inside.append(mark)
            if not _saved:
                _saved.append(mark)
                mark.__enter__()
                warnings.simplefilter("ignore")
        yield
    finally:
        with _lock:
            if mark in _inside:
                _inside.remove(mark)
            if _saved and not _inside:
                _saved.pop().__exit__(None, None, None)
