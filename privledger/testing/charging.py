"""Checks of the order of things: price, grant, reading; and of what a failure costs."""

from __future__ import annotations

import copy
import math
import pickle
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from privledger.errors import BudgetExceeded, PrivledgerError
from privledger.graph import cost_of
from privledger.graph.additive import Laplace
from privledger.guard import Ledger
from privledger.plugins import Priced
from privledger.testing.examples import Example, examples_for, neighbours_of
from privledger.testing.fitting import (
    Way,
    delta_of,
    fail,
    fitted_on,
    fresh,
    ledger_for,
    plain_ways,
    protect_example,
    recording,
    relation_of,
    takes_tables,
    watch,
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
    for given in examples_for(learner, example):
        watched = watch(ledger_for(learner), given)
        fresh(learner).fit(watched.data)
        if watched.early:
            fail("no-read-before-grant", f"rows were read {watched.early} times outside a release")
        grants = watched.ledger.state.grants.values()
        if watched.vault.opened > sum(grant.releases for grant in grants):
            fail("no-read-before-grant", "rows were read more often than releases were charged")
        if not grants:
            fail("no-read-before-grant", "the learner fitted without asking for a grant")
        for way in plain_ways(learner):
            with recording() as asked:
                way.fit(given)
            if not asked.sessions or asked.unsettled:
                fail("no-read-before-grant", f"{way.name}, the learner fitted without a grant "
                                             "that it asked for and settled")


def check_refusal_reads_nothing(learner: Priced, example: Example | None = None) -> None:
    """Over budget: `BudgetExceeded`, zero rows read, nothing spent."""
    for given in examples_for(learner, example):
        watched = watch(ledger_for(learner, 0.5), given)
        try:
            fresh(learner).fit(watched.data)
        except BudgetExceeded:
            pass
        else:
            fail("refusal-reads-nothing", "a fit over budget was not refused")
        if watched.early or watched.vault.opened or watched.ledger.spent:
            fail("refusal-reads-nothing", "a refused fit read rows or spent budget")
        for way in plain_ways(learner):
            with recording(half_spent) as asked:
                try:
                    way.fit(given)
                except BudgetExceeded:
                    pass
                else:
                    fail("refusal-reads-nothing", f"{way.name}, a fit over budget was not refused")
            if asked.touched:
                fail("refusal-reads-nothing", f"{way.name}, a refused fit read rows")


def check_spend_within_plan(learner: Priced, example: Example | None = None) -> None:
    """A fit charges what `plan(schema)` costs, however much is left, and no more than epsilon."""
    for given in examples_for(learner, example):
        price = price_of(learner, given)
        if not price <= float(learner.epsilon) * (1 + NEARLY):
            fail("spend-within-plan", "the plan costs more than its epsilon")
        for factor in (1.0, 4.0):  # the second leaves room for a learner that asks again
            watched = watch(ledger_for(learner, factor), given)
            fresh(learner).fit(watched.data)
            if factor == 1.0:
                if abs(watched.ledger.spent - price) > NEARLY * price:
                    fail("spend-within-plan", "the fit was charged another sum than its plan costs")
            elif len(watched.ledger.state.grants) != 1:
                fail("spend-within-plan", "the fit asked for more than one grant")
            findings = watched.ledger.verify()
            if findings:
                fail("spend-within-plan", f"the ledger does not verify: {findings[0].message}")
        for way in plain_ways(learner):
            _spends_its_plan(way, given, price)


def _spends_its_plan(way: Way, given: Example, price: float) -> None:
    """On a plain table: one ledger of the learner's own epsilon and delta, one grant."""
    with recording() as asked:
        way.fit(given)
    if len(asked.ledgers) != 1 or len(asked.grants) != 1:
        fail("spend-within-plan", f"{way.name}, the fit asked for more than one grant")
    ledger = asked.ledgers[0]
    if abs(ledger.spent - price) > NEARLY * price:
        fail("spend-within-plan", f"{way.name}, the fit was charged another sum than its plan "
                                  "costs")
    budget = ledger.budget
    if budget.epsilon > float(way.learner.epsilon) or budget.delta > delta_of(way.learner):
        fail("spend-within-plan", f"{way.name}, the learner's own ledger has a larger budget "
                                  "than the learner says")
    if ledger.mode != "private":
        fail("spend-within-plan", f"{way.name}, the noise is seeded: NOT PRIVATE")


def half_spent(ledger: Ledger) -> None:
    """Half of a budget is somebody else's."""
    ledger.foreign(Laplace(2 / ledger.budget.epsilon, 1.0), table="another", library="the kit",
                   version="1", hook="here")


def check_same_plan_for_neighbouring_tables(learner: Priced,
                                            example: Example | None = None) -> None:
    """One record more, less or another does not change what is reserved."""
    for given in examples_for(learner, example):
        plans = {}
        tables = {"itself": given} | neighbours_of(given, relation_of(learner))
        for name, table in tables.items():
            ledger = ledger_for(learner)
            fresh(learner).fit(protect_example(ledger, table))
            plans[name] = [grant.event.plan for grant in ledger.state.grants.values()]
            for way in plain_ways(learner):
                with recording() as asked:
                    way.fit(table)
                if [grant.event.plan for grant in asked.grants] != plans["itself"]:
                    fail("same-plan-for-neighbouring-tables",
                         f"another reservation on a plain table: {name}")
        for name, plan in plans.items():
            if plan != plans["itself"]:
                fail("same-plan-for-neighbouring-tables", f"another reservation with a {name}")


class Crash(Exception):
    """What the kit throws into a fit."""


def check_crash_keeps_the_charge(learner: Priced, example: Example | None = None) -> None:
    """A fit that dies after a release has spent its whole reservation, and says how it died."""
    given = examples_for(learner, example)[0]
    calm = ledger_for(learner)
    fresh(learner).fit(protect_example(calm, given))
    releases = sum(grant.releases for grant in calm.state.grants.values())
    kinds: tuple[type[BaseException], ...] = (Crash, KeyboardInterrupt, SystemExit)
    for turn, place in enumerate(sorted({1, (releases + 1) // 2, releases})):
        for kind in kinds if turn == 0 else kinds[turn % 3:][:1]:
            _crash(learner, given, place, kind, price_of(learner, given))
    for way in plain_ways(learner):
        _crash_plainly(way, given)


def _crash_plainly(way: Way, given: Example) -> None:
    """On a plain table: what was thrown after the first release arrives, and the charge stays."""
    rule = "crash-keeps-the-charge"

    def prepare(ledger: Ledger) -> None:
        ledger.on_release = _stopping(1, Crash)

    with recording(prepare) as asked:
        try:
            way.fit(given)
        except Crash:
            pass
        except Exception as error:
            fail(rule, f"{way.name}, a crash was replaced by {type(error).__name__}")
        else:
            fail(rule, f"{way.name}, a crash was swallowed")
    if asked.unsettled or any(grant.status != "settled" for grant in asked.grants):
        fail(rule, f"{way.name}, a crash left a grant open, or handed its charge back")


def _crash(learner: Priced, given: Example, place: int, kind: type[BaseException],
           price: float) -> None:
    ledger = ledger_for(learner)
    ledger.on_release = _stopping(place, kind)
    rule, where = "crash-keeps-the-charge", f"{kind.__name__} at release {place}"
    try:
        fitted_on(fresh(learner), protect_example(ledger, given))
    except kind:
        pass
    except PrivledgerError as error:
        fail(rule, f"{where} was replaced by {type(error).__name__}")
    except Exception as error:
        fail(rule, f"{where} was replaced by {type(error).__name__}")
    else:
        # A private learner may need fewer releases this time: then nothing was thrown.
        if sum(grant.releases for grant in ledger.state.grants.values()) >= place:
            fail(rule, f"{where} was swallowed")
        return
    if not ledger.spent >= price * (1 - NEARLY):
        fail(rule, f"after {where} part of the charge was handed back")
    left = [grant for grant in ledger.state.grants.values() if grant.status not in ("settled",)]
    if left:
        fail(rule, f"after {where} a grant was left open")


def _stopping(place: int, kind: type[BaseException]) -> Any:
    def stop(releases: int) -> None:
        if releases >= place:
            raise kind("the kit stopped this fit")
    return stop


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
