"""Fresh learners, their ledgers and their fits: what every check begins with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from attrs import define, field, frozen
from numpy.typing import NDArray

from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.guard.inside import Found, Observer, _observing
from privledger.guard.trusted_copy import remember_schema
from privledger.guard.vault import Vault, _sealed
from privledger.ledger import Budget
from privledger.plugins import Priced
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns, own_schema
from privledger.tables.encode import encode_features, encode_keys, encode_target
from privledger.tables.schema import Schema
from privledger.testing.examples import Example, Table, example_schema, example_table

# What a failed check raises.


class LearnerCheckFailed(AssertionError):
    """A learner breaks a rule; `check` is the rule's stable id."""

    def __init__(self, check: str, message: str) -> None:
        super().__init__(f"{check}: {message}")
        self.check = check

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.check, str(self).removeprefix(f"{self.check}: "))


def fail(check: str, message: str) -> NoReturn:
    """Raise `LearnerCheckFailed` for the rule `check`."""
    raise LearnerCheckFailed(check, message)


# A small table behind a guard that notices every reading outside a release.


@define(eq=False, repr=False, slots=False)
class WatchedRows(Rows):
    """Rows that remember whether they were read while no release was running."""

    watch: WatchedTable | None = field(default=None, kw_only=True)

    def __getattribute__(self, name: str) -> Any:
        if name in ("features", "target", "cache"):
            watch = object.__getattribute__(self, "__dict__").get("watch")
            if watch is not None and not watch.reading():
                watch.early += 1
        return object.__getattribute__(self, name)


@define(eq=False)
class WatchedTable:
    """A guarded example table that counts readings outside a release.

    Attributes:
        data: the handle to give to a learner.
        early: readings while no release was running.
    """

    ledger: Ledger
    data: Dataset
    vault: Vault
    early: int = 0

    @classmethod
    def build(cls, ledger: Ledger, task: str, table: Table | None = None,
              schema: Schema | None = None, *, unlabelled: bool = False) -> WatchedTable:
        """Guard `table`, the example's own if it is None."""
        schema = example_schema(task) if schema is None else schema
        X, y = example_table(task) if table is None else table
        own = own_schema(schema)
        columns: Columns = encode_keys(X, encode_features(X, own))
        rows = WatchedRows(columns, encode_target(y, own, unlabelled=unlabelled), ledger._source)
        vault = Vault("example", rows, ledger._history, relation=ledger.relation,
                      public_features=ledger.relation == "replace_label",
                      unlabelled=unlabelled)
        remember_schema(vault, schema)
        watched = cls(ledger, Dataset(schema, _sealed(vault), ledger=ledger.handle), vault)
        rows.watch = watched
        return watched

    def reading(self) -> bool:
        """Whether a release is running right now."""
        return self.vault.reading


def relation_of(learner: Priced) -> Any:
    """The learner's neighbouring relation; the first it supports, if it has no choice."""
    found = getattr(learner, "relation", None)
    return found if isinstance(found, str) else learner.info.relations[0]


def delta_of(learner: Priced) -> float:
    """The learner's delta; zero, if it has none."""
    return float(getattr(learner, "delta", 0.0))


def fresh(learner: Priced, **changes: Any) -> Any:
    """An unfitted copy with some parameters changed; a deep copy without `get_params`.

    A change of a parameter that the learner does not have is left out.
    """
    if hasattr(learner, "get_params"):
        held = learner.get_params(deep=False)
        return type(learner)(**held | {k: v for k, v in changes.items() if k in held})
    twin = copy.deepcopy(learner)
    for name, value in changes.items():
        if hasattr(twin, name):
            setattr(twin, name, value)
    return twin


def ledger_for(learner: Priced, factor: float = 1.0) -> Ledger:
    """A ledger in memory for `factor` fits of the learner, under its own relation."""
    delta = min(delta_of(learner) * max(1.0, factor), 0.5)
    return Ledger.create(None, budget=Budget(float(learner.epsilon) * factor, delta),
                         relation=relation_of(learner))


def watch(ledger: Ledger, given: Example) -> WatchedTable:
    """The example behind a guard that notices every early reading."""
    return WatchedTable.build(ledger, given.schema.task, (given.X, given.y), given.schema,
                              unlabelled=given.unlabelled)


def protect_example(ledger: Ledger, given: Example, cells: Table | None = None) -> Dataset:
    """The example behind the ledger's own guard; with these features and targets, if any."""
    X, y = (given.X, given.y) if cells is None else cells
    return ledger.protect(X, y, given.schema, public_features=ledger.relation == "replace_label",
                          unlabelled=given.unlabelled and y is not None, people=given.people)


def fitted_on(learner: Priced, data: Dataset) -> Any:
    """What a fit returns; the learner itself, where it returns nothing."""
    found = learner.fit(data)
    return learner if found is None else found


def takes_tables(learner: Priced) -> bool:
    """Whether the learner can be given a plain table, with its schema as a parameter."""
    return (hasattr(learner, "get_params") and "schema" in learner.get_params(deep=False)
            and relation_of(learner) != "replace_label"
            and not getattr(learner, "unlabelled", False))


@frozen(eq=False)
class Way:
    """One of the ways in which a learner gets a table: behind a ledger, or in its own hands.

    Attributes:
        name: for messages. plain: whether the learner is given the table itself.
        learner: unfitted; every fit is one of a fresh copy.
    """

    name: str
    plain: bool
    learner: Priced

    def fit(self, table: Example, cells: Table | None = None) -> Any:
        """What a fit on `table` returns; on these features and targets in its place, if any."""
        if not self.plain:
            ledger = ledger_for(self.learner)
            return fitted_on(fresh(self.learner), protect_example(ledger, table, cells))
        twin = fresh(self.learner, schema=table.schema, unaccounted=True)
        found = twin.fit(*((table.X, table.y) if cells is None else cells))
        return twin if found is None else found


def ways(learner: Priced, **changes: Any) -> tuple[Way, ...]:
    """A guarded handle; and the plain table, of a learner that takes one. Parameters changed."""
    learner = fresh(learner, **changes)
    guarded = Way("behind a ledger", False, learner)
    return (guarded, Way("on a plain table", True, learner)) if takes_tables(learner) else (
        guarded,)


def outputs(fitted: Any, probes: Any) -> NDArray[np.float64]:
    """All that a fitted learner says about public probe points, as one vector.

    Probabilities where it has them, else predictions (classes by position); the support of a
    selector; log probabilities of the points by a model of the whole table.
    """
    if hasattr(fitted, "get_support"):
        return np.asarray(fitted.get_support(), dtype=np.float64).ravel()
    for name in ("predict_proba", "predict", "score_samples", "transform"):
        if hasattr(fitted, name):
            found = np.asarray(getattr(fitted, name)(probes)).ravel()
            return found.astype(np.float64) if found.dtype.kind in "fiub" else _codes(fitted, found)
    raise TypeError(f"{type(fitted).__name__} has none of get_support, predict_proba, predict, "
                    "score_samples, transform: nothing to compare")


def _codes(fitted: Any, labels: NDArray[Any]) -> NDArray[np.float64]:
    """Labels as numbers. A label that is no class still gets one of its own."""
    known = [str(label) for label in getattr(fitted, "classes_", ())]
    places = [known.index(text) if text in known else -1.0 - sum(text.encode())
              for text in map(str, labels)]
    return np.asarray(places, dtype=np.float64)


class Requests(Observer):
    """Every grant that was asked for while `recording`, in any ledger; and these ledgers."""

    def __init__(self, first: Callable[[Ledger], None] | None = None) -> None:
        self.sessions: list[Any] = []
        self.ledgers: list[Any] = []
        self._first = first

    def opened(self, ledger: object) -> None:
        if self._first is not None and isinstance(ledger, Ledger):
            self._first(ledger)

    def drew(self, ledger: object, reserve: Callable[..., Found], asked: object,
             shown: object) -> Found:
        if not any(known is ledger for known in self.ledgers):
            self.ledgers.append(ledger)
        session = reserve(asked, shown)
        self.sessions.append(session)
        return session

    @property
    def grants(self) -> list[Any]:
        """What the ledgers know of the grants, in order."""
        return [grant for ledger in self.ledgers for grant in ledger.state.grants.values()]

    @property
    def unsettled(self) -> int:
        """Grants that were not settled."""
        return sum(session.receipt is None for session in self.sessions)

    @property
    def touched(self) -> int:
        """Grants under which rows were read."""
        return sum(session.touched for session in self.sessions)


@contextmanager
def recording(first: Callable[[Ledger], None] | None = None) -> Iterator[Requests]:
    """Notice every session that a ledger of this process opens.

    Args:
        first: called with each ledger that is made, before it is asked.
    """
    found = Requests(first)
    with _observing(found):
        yield found


@define(eq=False)
class WatchedFit:
    """One fit that was watched.

    Attributes:
        asked: grants and ledgers. watched: the guarded table; None for a plain one.
        error: what the fit raised, of the kinds that were waited for.
    """

    asked: Requests
    watched: WatchedTable | None = None
    error: BaseException | None = None

    @property
    def early(self) -> int:
        """Readings outside a release."""
        return 0 if self.watched is None else self.watched.early

    @property
    def opened(self) -> int:
        """Readings."""
        return 0 if self.watched is None else self.watched.vault.opened

    @property
    def ledgers(self) -> list[Any]:
        """The guarded table's; of a plain one all that were asked."""
        return self.asked.ledgers if self.watched is None else [self.watched.ledger]

    @property
    def grants(self) -> list[Any]:
        """What these ledgers know of the grants, in order."""
        return [grant for ledger in self.ledgers for grant in ledger.state.grants.values()]

    @property
    def releases(self) -> int:
        """Releases under these grants."""
        return sum(grant.releases for grant in self.grants)

    @property
    def spent(self) -> float:
        """Of these ledgers."""
        return float(sum(ledger.spent for ledger in self.ledgers))


def attempt(way: Way, table: Example, factor: float = 1.0,
            first: Callable[[Ledger], None] | None = None,
            wait_for: type[BaseException] | tuple[type[BaseException], ...] = ()) -> WatchedFit:
    """A fit, watched.

    Args:
        factor: of a guarded fit: how many fits its ledger pays for.
        first: called with each ledger that is made, before it is asked.
        wait_for: kinds of errors that are kept; others are raised.
    """
    with recording(first) as asked:
        found = WatchedFit(asked)
        try:
            if way.plain:
                way.fit(table)
            else:
                found.watched = watch(ledger_for(way.learner, factor), table)
                fitted_on(fresh(way.learner), found.watched.data)
        except wait_for as error:
            found.error = error
    return found


def stopping(place: int, kind: type[BaseException]) -> Callable[[Ledger], None]:
    """What lets a ledger stop every fit after so many releases."""

    def stop(releases: int) -> None:
        if releases >= place:
            raise kind("the kit stopped this fit")

    def prepare(ledger: Ledger) -> None:
        ledger.on_release = stop

    return prepare
