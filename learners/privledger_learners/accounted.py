"""Fits on plain tables that no ledger adds up: refused in searches, else warned about.

Every fit on a plain table opens an in-memory ledger of its own. A search fits clones on rows
that overlap, and each of these ledgers says that epsilon was spent once. So a fit inside
scikit-learn's searches, cross-validations and ensembles is refused, which the call stack tells,
in a worker process too. Outside of them, a fit on rows that another living in-memory ledger of
this process holds warns. What is remembered of rows is a few hundred 64-bit digests under a key
that is drawn anew in every process; they go when the ledger goes.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

import privledger as pl

# Each of these fits its estimator, or clones of it, several times on rows that overlap, or
# scores it on private rows, or both. Module names, of scikit-learn and of what builds on it.
SEARCHES = (
    "sklearn.model_selection", "sklearn.ensemble", "sklearn.calibration", "sklearn.multiclass",
    "sklearn.multioutput", "sklearn.semi_supervised", "sklearn.inspection", "sklearn.impute",
    "sklearn.feature_selection._rfe", "sklearn.feature_selection._sequential",
    "sklearn.linear_model._ransac", "imblearn.ensemble", "dask_ml.model_selection", "skopt",
)
REMEMBERED, MOST_ROWS, SHARED = 512, 100_000, 0.05
# The key: odd words from the interpreter's own keyed hash of text (SipHash), whose secret is
# drawn afresh for every process, unless PYTHONHASHSEED fixes it. No learner draws anything.
_WEIGHTS = np.array([hash(f"accounted {place}") % 2**64 for place in range(64)],
                    dtype=np.uint64) | np.uint64(1)
_seen: WeakKeyDictionary[Any, np.ndarray] = WeakKeyDictionary()


class UnaccountedWarning(UserWarning):
    """Two in-memory ledgers hold the same rows: what they spent adds up, and neither says so."""


class Accounted:
    """A learner that says no when a search clones it, before any fit; mixed into every learner.

    Searches clone what they fit, outside of the `try` in which many of them fit: so the refusal
    arrives as it is, and not as a row of failed fits.
    """

    def __sklearn_clone__(self) -> Any:
        if self.unaccounted is False:  # type: ignore[attr-defined]
            refuse_search(self)
        return super().__sklearn_clone__()  # type: ignore[misc]


def refuse_search(learner: Any) -> None:
    """Raise if a fit on a plain table is part of a search; nothing was read.

    Raises:
        NotGranted: unless the learner was made with `unaccounted=True`.
    """
    if learner.unaccounted is True or learner.mode == "simulation":
        return
    if learner.unaccounted is not False:
        raise pl.InvalidValue("unaccounted", learner.unaccounted, "True or False")
    caller = _search()
    if caller is not None:
        raise pl.NotGranted(
            f"a fit on a plain table inside {caller}: every fit would open a ledger of its own, "
            "and none would say what all of them spent, nor pay for the scores. Use "
            "privledger_learners.PrivateSearchCV, which draws and scores trials under one "
            "ledger; or, where the rows are public, unaccounted=True. Nothing was read")


def _search() -> str | None:
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if any(name == known or name.startswith(known + ".") for known in SEARCHES):
            return str(name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def note_rows(learner: Any, ledger: Any, X: Any, y: Any, schema: pl.Schema) -> None:
    """Remember digests of the rows behind an in-memory ledger; warn if another holds them."""
    if learner.unaccounted is True or learner.mode == "simulation":
        return
    sketch = _sketch(X, y, schema)
    if sketch is None:
        return
    if any(_overlaps(sketch, other) for other in list(_seen.values())):
        warnings.warn(
            "these rows, or many of them, were fitted in this process under another in-memory "
            "ledger: what the fits spent adds up, and no ledger says so. Put the table behind "
            "one ledger (Ledger.create, protect), or say unaccounted=True",
            UnaccountedWarning, stacklevel=4)
    _seen[ledger] = sketch


def _sketch(X: Any, y: Any, schema: pl.Schema) -> np.ndarray | None:
    """The smallest keyed digests of the rows, sorted; equal for equal rows."""
    labels = np.zeros(0) if y is None else np.asarray(y).reshape(-1)
    if len(labels) > MOST_ROWS:
        return None  # before a large table is encoded once more
    columns = pl.encode_features(X, schema)
    if not 0 < columns.n_rows <= MOST_ROWS or (y is not None and len(labels) != columns.n_rows):
        return None
    total = np.zeros(columns.n_rows, dtype=np.uint64)
    arrays = [np.asarray(array, dtype=np.float64) for array in columns.arrays]
    if len(labels) and labels.dtype.kind in "fiub":
        arrays.append(labels.astype(np.float64))
    for place, array in enumerate(arrays):
        weight = _WEIGHTS[place % len(_WEIGHTS)]
        total = _mixed((total ^ (array + 0.0).view(np.uint64)) * weight + np.uint64(place))
    return np.unique(total)[:REMEMBERED]


def _mixed(words: np.ndarray) -> np.ndarray:
    """Spread every bit over the word (the finaliser of SplitMix64)."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(words ^ (words >> np.uint64(31)))


def _overlaps(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two tables share rows, as far as both sketches reach."""
    reach = min(one[-1] if len(one) == REMEMBERED else np.uint64(2**64 - 1),
                other[-1] if len(other) == REMEMBERED else np.uint64(2**64 - 1))
    one, other = one[one <= reach], other[other <= reach]
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared > SHARED * min(len(one), len(other))
