"""Checks of the order of things: price, grant, reading; and of what a failure costs."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from itertools import product
from typing import Any

from privledger.errors import BudgetExceeded, PrivledgerError
from privledger.graph import cost_of
from privledger.graph.additive import Laplace
from privledger.guard import Ledger
from privledger.plugins import Priced
from privledger.testing.examples import Example, examples_for, neighbours_of
from privledger.testing.fitting import (
    Way,
    attempt,
    delta_of,
    fail,
    fitted_on,
    fresh,
    ledger_for,
    protect_example,
    recording,
    relation_of,
    stopping,
    takes_tables,
    watch,
    ways,
)

NEARLY = 1e-9  # of a charge: two ways to add up the same floats


def price_of(learner: Priced, given: Example) -> float:
    """What a ledger of (epsilon, delta) charges for the plan alone; infinity if it is refused."""
    ledger = ledger_for(learner)
    data = protect_example(ledger, given)
    try:
        with ledger.request(fresh(learner).plan(given.schema), data, delta=delta_of(learner)):
            return ledger.spent
    except BudgetExceeded:
        return math.inf


def check_plan_needs_no_data(learner: Priced, example: Example | None = None) -> None:
    """`plan(schema)` gives a priced node, the same one twice, from public facts alone."""
    for given in examples_for(learner, example):
        plan = fresh(learner).plan(given.schema)
        cost_of(plan, relation_of(learner))
        if fresh(learner).plan(given.schema) != plan:
            fail("plan-needs-no-data", "two plans from one schema differ")


def check_no_read_before_grant(learner: Priced, example: Example | None = None) -> None:
    """Rows are read inside releases only, and every reading release was charged."""
    rule = "no-read-before-grant"
    for given, way in product(examples_for(learner, example), ways(learner)):
        fit = attempt(way, given)
        if fit.early:
            fail(rule, f"rows were read {fit.early} times outside a release")
        if fit.opened > fit.releases:
            fail(rule, "rows were read more often than releases were charged")
        if not fit.grants or fit.asked.unsettled:
            fail(rule, f"{way.name}, the learner fitted without a grant that it asked for and "
                       "settled")


def check_refusal_reads_nothing(learner: Priced, example: Example | None = None) -> None:
    """Over budget: `BudgetExceeded`, zero rows read, nothing spent."""
    rule = "refusal-reads-nothing"
    for given, way in product(examples_for(learner, example), ways(learner)):
        fit = attempt(way, given, 0.5, half_spent if way.plain else None, BudgetExceeded)
        if fit.error is None:
            fail(rule, f"{way.name}, a fit over budget was not refused")
        if fit.early or fit.opened or fit.asked.touched or (fit.spent and not way.plain):
            fail(rule, f"{way.name}, a refused fit read rows or spent budget")


def check_spend_within_plan(learner: Priced, example: Example | None = None) -> None:
    """A fit charges what `plan(schema)` costs, however much is left, and no more than epsilon."""
    rule = "spend-within-plan"
    for given in examples_for(learner, example):
        price = price_of(learner, given)
        if not price <= float(learner.epsilon) * (1 + NEARLY):
            fail(rule, "the plan costs more than its epsilon")
        for way in ways(learner):
            # The second leaves room for a learner that asks again.
            for factor in (1.0,) if way.plain else (1.0, 4.0):
                _spends_its_plan(way, given, price, factor)


def _spends_its_plan(way: Way, given: Example, price: float, factor: float) -> None:
    """One ledger, one grant; of a plain table it is of the learner's own epsilon and delta."""
    rule, fit = "spend-within-plan", attempt(way, given, factor)
    if len(fit.ledgers) != 1 or len(fit.grants) != 1:
        fail(rule, f"{way.name}, the fit did not ask one ledger for one grant")
    (ledger,) = fit.ledgers
    if factor == 1 and abs(ledger.spent - price) > NEARLY * price:
        fail(rule, f"{way.name}, the fit was charged another sum than its plan costs")
    findings = ledger.verify()
    if findings:
        fail(rule, f"{way.name}, the ledger does not verify: {findings[0].message}")
    if way.plain and (ledger.budget.epsilon > float(way.learner.epsilon)
                      or ledger.budget.delta > delta_of(way.learner)):
        fail(rule, f"{way.name}, the learner's own ledger has a larger budget than the learner "
                   "says")
    if ledger.mode != "private":
        fail(rule, f"{way.name}, the noise is seeded: NOT PRIVATE")


def half_spent(ledger: Ledger) -> None:
    """Half of a budget is spent by an external run."""
    ledger.foreign(Laplace(2 / ledger.budget.epsilon, 1.0), table="another", library="the kit",
                   version="1", hook="here")


def check_same_plan_for_neighbouring_tables(learner: Priced,
                                            example: Example | None = None) -> None:
    """One record more, less or another does not change what is reserved."""
    for given in examples_for(learner, example):
        usual = None
        tables = {"the table itself": given} | neighbours_of(given, relation_of(learner))
        for (name, table), way in product(tables.items(), ways(learner)):
            plans = [grant.event.plan for grant in attempt(way, table).grants]
            usual = plans if usual is None else usual
            if plans != usual:
                fail("same-plan-for-neighbouring-tables",
                     f"{way.name}, another reservation: {name}")


class Crash(Exception):
    """What the kit throws into a fit."""


def check_crash_keeps_the_charge(learner: Priced, example: Example | None = None) -> None:
    """A fit that dies after a release has spent its whole reservation, and says how it died."""
    given = examples_for(learner, example)[0]
    price = price_of(learner, given)
    guarded, *plain = ways(learner)
    releases = attempt(guarded, given).releases
    kinds: tuple[type[BaseException], ...] = (Crash, KeyboardInterrupt, SystemExit)
    for turn, place in enumerate(sorted({1, (releases + 1) // 2, releases})):
        for kind in kinds if turn == 0 else kinds[turn % 3:][:1]:
            _crash(guarded, given, place, kind, price)
    for way in plain:
        _crash(way, given, 1, Crash, price)


def _crash(way: Way, given: Example, place: int, kind: type[BaseException], price: float) -> None:
    rule, where = "crash-keeps-the-charge", f"{way.name}, {kind.__name__} at release {place}"
    fit = attempt(way, given, 1.0, stopping(place, kind), (kind, Exception))
    if fit.error is None:
        # A private learner may need fewer releases this time: then nothing was thrown.
        if fit.releases >= place:
            fail(rule, f"{where} was swallowed")
        return
    if not isinstance(fit.error, kind):
        fail(rule, f"{where} was replaced by {type(fit.error).__name__}")
    if not fit.spent >= price * (1 - NEARLY):
        fail(rule, f"after {where} part of the charge was handed back")
    if fit.asked.unsettled or any(grant.status != "settled" for grant in fit.grants):
        fail(rule, f"after {where} a grant was left open")


# Check that copies, pipelines and searches never make a second budget.

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
    data = protect_example(ledger, given)
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
        # Refused by what notices first; what counts is what was read.
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
