"""Check that copies, pipelines and searches never make a second budget."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from privledger.errors import PrivledgerError
from privledger.guard import Ledger
from privledger.plugins.learner import Priced
from privledger.testing.examples import Example, examples_for
from privledger.testing.failing import fail
from privledger.testing.fitting import (
    fitted_on,
    fresh,
    ledger_for,
    protect,
    recording,
    takes_tables,
    watch,
)

RULE = "copies-never-fork-the-budget"
GUARDED = (b"WatchedRows", b"Vault", b"privledger.guard.ledger")


def check_copies_never_fork_the_budget(learner: Priced, example: Example | None = None) -> None:
    """Copies, clones, pickles, pipelines and searches are charged, each fit of them, in full."""
    given = examples_for(learner, example)[0]
    watched = watch(ledger_for(learner), given)
    fitted = fitted_on(fresh(learner), watched.data)
    _one_ledger(copy.deepcopy(fitted), watched.ledger)
    _one_ledger(copy.copy(fitted), watched.ledger)
    text = _pickled(fitted)
    if any(name in text for name in GUARDED):
        fail(RULE, "guarded data or a ledger went into a pickle")
    _every_fit_is_charged(learner, fitted, text, given)
    if hasattr(learner, "get_params"):
        _searches(learner, given)


def _one_ledger(twin: Any, ledger: Ledger) -> None:
    for name, value in vars(twin).items():
        if isinstance(value, Ledger) and value is not ledger:
            fail(RULE, f"{name} of a copy is a second ledger")


def _pickled(fitted: Any) -> bytes:
    try:
        return pickle.dumps(fitted)
    except (TypeError, pickle.PicklingError, AttributeError) as error:
        fail(RULE, f"a fitted learner must pickle: {error}")


def _every_fit_is_charged(learner: Priced, fitted: Any, text: bytes, given: Example) -> None:
    """Fits of every kind of copy on one ledger: as many grants as fits, and no more left over."""
    copies = {"deepcopy": copy.deepcopy(fresh(learner)), "pickle": pickle.loads(text),
              "deepcopy of a fitted one": copy.deepcopy(fitted)}
    if hasattr(learner, "get_params"):
        from sklearn.base import clone
        from sklearn.pipeline import Pipeline

        copies["clone"] = clone(fitted)
        if _has_tags(learner):
            copies["Pipeline"] = Pipeline([("model", clone(learner))])
    # Ample: a filter may count a plan at several times its own epsilon.
    ledger = ledger_for(learner, 20.0 * len(copies))
    data = protect(ledger, given)
    for number, (name, twin) in enumerate(copies.items(), start=1):
        before = ledger.spent
        twin.fit(data)
        if len(ledger.state.grants) < number or not ledger.spent > before:
            fail(RULE, f"a fit of a {name} was not charged to the ledger of its data")
    if ledger.verify():
        fail(RULE, "after fits of copies the ledger does not verify")


def _has_tags(learner: Priced) -> bool:
    """Whether scikit-learn itself can fit it: its pipelines and searches ask for its tags."""
    return hasattr(learner, "__sklearn_tags__")


def _searches(learner: Priced, given: Example) -> None:
    """Guarded data cannot be split behind the ledger's back; every fit on a table is charged."""
    from sklearn.model_selection import GridSearchCV, cross_val_score

    watched = watch(ledger_for(learner), given)
    searches: tuple[Callable[[], Any], ...] = (
        lambda: GridSearchCV(fresh(learner), {}, cv=2).fit(watched.data),
        lambda: cross_val_score(fresh(learner), watched.data, cv=2))
    for search in searches:
        # Refused by whoever notices first; what counts is what was read.
        with warnings.catch_warnings(), suppress(Exception):
            warnings.simplefilter("ignore")
            search()
        charged = sum(grant.releases for grant in watched.ledger.state.grants.values())
        if watched.early or watched.vault.opened > charged:
            fail(RULE, "a search read guarded rows without a charge")
    if not (takes_tables(learner) and _has_tags(learner)):
        return
    with recording() as asked, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cross_val_score(fresh(learner, schema=given.schema), _table(given), given.y, cv=2,
                            scoring=lambda model, X, y: 0.0, error_score="raise")
        except (PrivledgerError, TypeError, ValueError):
            return  # a learner for guarded data only
    if len(asked.sessions) < 2:
        fail(RULE, "cross_val_score fitted twice and asked for fewer than two grants")


def _table(given: Example) -> Any:
    """A table that scikit-learn can split: a frame where pandas is there, else one array."""
    try:
        import pandas
    except ImportError:
        import numpy as np

        return np.array(list(given.X.values()), dtype=object).T
    return pandas.DataFrame(given.X)
