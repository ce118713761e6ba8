"""Ledger: what its owner holds. It decides through the history and hands out sessions."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from privledger.accounting import promise
from privledger.engines import Engine, Local
from privledger.errors import InvalidValue, LedgerError, LedgerMissing
from privledger.graph import Node, from_json, to_json
from privledger.graph.nodes import Sequential, check_node
from privledger.guard.creating import check_agrees, creation, refuse_person_elsewhere
from privledger.guard.dataset import Dataset
from privledger.guard.elsewhere import ExternalRun, ForeignGrant, foreign
from privledger.guard.enrolling import Enrolling, check_key, person_record
from privledger.guard.handle import LedgerHandle, Session, _handle_of, _session
from privledger.guard.inside import tell
from privledger.guard.policing import keep_policy
from privledger.guard.protecting import Chunking, Identities, Late, ProtectedTable, grown, protected
from privledger.guard.reserve import check_effort
from privledger.guard.service import LedgerService, Request
from privledger.guard.spends import Scope
from privledger.ledger import Budget, Cap, History, Origins, Policy, State, correction, window_name
from privledger.ledger.entries import now
from privledger.ledger.events import Event, WindowOpened
from privledger.ledger.history import first_entries
from privledger.ledger.settle import settle_left, take_up
from privledger.ledger.store import Store
from privledger.ledger.view_charges import charges_of
from privledger.ledger.view_people import PersonSpend, record_at
from privledger.ledger.view_records import RecordSpend, record_spend
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource, SystemSource
from privledger.rounding import count, downward, exact, upward
from privledger.storage import kept_store, refuse_findings, shown, store_at
from privledger.tables.frames import is_plain_table
from privledger.tables.person_keys import KeyGiven, PeopleKey
from privledger.tables.person_keys import people_key as key_of
from privledger.tables.schema import Schema
from privledger.tables.sources import as_source


class Ledger(LedgerService):
    """One budget, one history. Make it with `Ledger.create` or `Ledger.open`.

    Copying, cloning and deep-copying give the same object; pickling raises.
    """

    _UNPICKLED = "a ledger cannot be pickled: another process opens the file by its path"

    def __init__(self, store: Store, source: NoiseSource, *, writable: bool = True,
                 history: History | None = None, people_key: PeopleKey | None = None) -> None:
        super().__init__(store, source, writable=writable, history=history)
        if people_key is not None:
            check_key(self._history, people_key)
        self._enrolling = Enrolling(self._history, people_key)
        self._identities = Identities()
        self._shown: weakref.ref[LedgerHandle] | None = None
        tell("opened", self)

    @staticmethod
    def create(
        path: str | os.PathLike[str] | None,
        *,
        budget: Budget,
        relation: str = "add_remove",
        filter: str = "auto",
        order: float | None = None,
        mode: str = "private",
        seed: int | None = None,
        caps: Sequence[Cap] = (),
        policy: Policy | None = None,
        unit: str = "row",
        people_key: KeyGiven | None = None,
    ) -> Ledger:
        """Start a ledger in a new file, or in memory for None or ":memory:".

        Args:
            path: or `postgresql://USER@HOST/DATABASE?ledger=NAME`, for many hosts.
            budget: the promise, for everything that will ever be released under it.
            relation: `add_remove`, `replace_one`, or `replace_label`, which protects labels
                only; fixed for ever.
            filter: how plans add up: `gdp`, `rdp`, `basic`, or `auto`, which lets the first
                plan (chosen before anything private was seen) fix it.
            order: Renyi order for `filter="rdp"`; a good one is chosen if it is None.
            mode: `private`, or `simulation`: seeded noise, NOT PRIVATE, refused by `check`.
            seed: for simulation only.
            caps: further budgets, each for the grants of one table or with some labels. A
                request must fit all that it matches. Fixed for ever, like the budget.
            policy: what may be asked for; anything else is refused before it is read. Kept in
                the history, and its limits of single tables become caps.
            unit: whom the promise is about: `row`, where no person has more than one, or `person`,
                with all rows in all tables of the ledger; fixed for ever.
            people_key: for unit `person`: the path of a file that `privledger people-key` made,
                or bytes. The ledger keeps a check value of it, and digests of ids under it.

        Raises:
            LedgerError: the file exists, or cannot be written.
            PolicyViolation: the ledger itself is not what the policy allows.
        """
        key = None if people_key is None else key_of(people_key)
        refuse_person_elsewhere(path, unit)
        lines, source = creation(budget, relation, filter, order, mode, seed, caps, policy, unit,
                                 key)
        with kept_store(store_at(path, create=True, first=first_entries(lines))) as store:
            return Ledger(store, source, people_key=key)

    @staticmethod
    def open(path: str | os.PathLike[str], *, read_only: bool = False,
             people_key: KeyGiven | None = None) -> Ledger:
        """Open an existing ledger (a file, or a URL) and find grants whose holder is gone.

        Args:
            people_key: for unit `person`, as `create`; without it no table can be protected, and
                no person looked up.

        Raises:
            InvalidValue: another key than the ledger's.
            LedgerCorrupt: truncated, edited, or not a ledger.
            LedgerMisplaced: moved, replaced, or under a second name.
            LedgerTooNew: written by a later version.
        """
        return _opened(path, read_only, None if people_key is None else key_of(people_key))

    @staticmethod
    def open_or_create(
        path: str | os.PathLike[str] | None,
        *,
        budget: Budget,
        relation: str = "add_remove",
        filter: str = "auto",
        order: float | None = None,
        mode: str = "private",
        seed: int | None = None,
        caps: Sequence[Cap] = (),
        policy: Policy | None = None,
        unit: str = "row",
        people_key: KeyGiven | None = None,
    ) -> Ledger:
        """Go on with the ledger at `path` if it promises the same; start it if there is none.

        For scripts and notebooks that run more than once, and beside each other: of several that
        find none, one makes it. What was spent stays spent.

        Args:
            path: and all others as for `create`. A ledger that is there must have been made with
                the same; `filter="auto"` goes on with whatever filter was fixed.

        Raises:
            InvalidValue: the ledger that is there promises something else, such as another budget;
                or it is a simulation, or this asks for one. What differs is named; nothing is
                written.
            LedgerCorrupt, LedgerMisplaced, LedgerTooNew: as `open`.
            LedgerError: it cannot be made.
        """
        key = None if people_key is None else key_of(people_key)
        lines, source = creation(budget, relation, filter, order, mode, seed, caps, policy, unit,
                                 key)

        def create() -> Ledger:
            return Ledger.create(path, budget=budget, relation=relation, filter=filter,
                                 order=order, mode=mode, seed=seed, caps=caps, policy=policy,
                                 unit=unit, people_key=people_key)

        if path is None or str(path) == ":memory:":
            return create()

        def agrees(state: State) -> NoiseSource:
            check_agrees(state, lines, shown(path))
            return source

        for tries in range(2):
            with suppress(LedgerMissing):
                return _opened(path, False, key, agrees)
            try:
                return create()
            except LedgerError:
                if tries:  # not because another process was first: then it would be there
                    raise
        raise AssertionError("not reached")

    @property
    def state(self) -> State:
        """The fold of the whole history, every grant in it, read afresh: changing it changes
        nothing."""
        return self._history.full()

    @property
    def handle(self) -> LedgerHandle:
        """What a learner may ask of this ledger; it comes with every Dataset, as `data.ledger`."""
        shown = None if self._shown is None else self._shown()
        if shown is None:
            shown = _handle_of(self)
            self._shown = weakref.ref(shown)  # the handle keeps the ledger, not the other way
        return shown

    def protect(self, X: Any, y: Any = None, schema: Schema | None = None, *,
                name: str | None = None, fingerprint_key: bytes | None = None,
                public_features: bool = False, unlabelled: bool = False,
                people: object = None, target: str | None = None,
                engine: Engine | None = None, spool: str | Path | None = None) -> Dataset:
        """Put a table behind the guard. From here on its rows are reached by releases only.

        Args:
            X: a frame of pandas, polars, pyarrow or another library that narwhals knows, a
                mapping of columns, or a 2-D array, with the schema's features. Or what is read
                in batches: `pl.scan_parquet`, `pl.scan_csv`, a pyarrow dataset, a polars scan, a
                Dask frame.
            y: the target, or None.
            schema: public facts; never inferred.
            name: a stable identity under which these rows, in this order, come back later;
                needed only where a filter scope must recognise them.
            fingerprint_key: secret of an organisation. The same records under the same key
                leave the same mark in every ledger, so that `privledger overlap` notices a
                table that was opened under two of them. Keep it as secret as the table.
            public_features: declares that features, the number of rows, and which of them have
                a label, are public. Required by `replace_label` ledgers, refused by others.
            unlabelled: the target may be missing (None, NaN) in some rows.
            people: under unit `person`, one id for each row: whole numbers or texts. By the
                schema's `[unit] person` the column of that name in X is taken.
            target: name of the schema's target column, to be taken from X in place of `y`.
            engine: who answers, chunk by chunk, from a copy of the rows on disk; None for this
                process, from memory. What is read in batches takes `Local()` then.
            spool: folder of that copy, to be kept, and gone on with after a crash; None for one
                that goes with the table. Only its owner may open it.

        Raises:
            RelationMismatch: public features under another relation than `replace_label`, or
                a schema that states the true number of rows under `add_remove`.
            DataError: the table does not fit; columns and rules are named, never values.
            EngineError: the engine cannot be used. SpoolError: the chunk store cannot be written.
        """
        if schema is None and isinstance(y, Schema):
            y, schema = None, y
        found = None if is_plain_table(X) else as_source(X)
        X = X if found is None else found
        if engine is None and found is not None:
            engine = Local()
        if engine is None and spool is not None:
            raise InvalidValue("spool", "given", "left out without an engine: the table is kept in "
                                                 "memory")
        table = ProtectedTable(
            X,
            y,
            schema,
            name,
            fingerprint_key,
            public_features,
            unlabelled,
            people,
            target,
            None if engine is None else Chunking(engine, spool, self.on_rows, self.on_chunks),
        )
        data = protected(table, self._history, self._source, self._identities, self._enrolling,
                         self.handle)
        tell("protected", data)
        return data

    def append(self, data: Dataset, X: Any, y: Any = None, *, people: object = None,
               target: str | None = None) -> Dataset:
        """Late arrivals: a handle on the old records followed by new ones, same identity.

        In a filter scope new records start with their whole cap; under unit `person` new people
        do, and those whom the ledger knows go on with what they have left.
        """
        found = None if is_plain_table(X) else as_source(X)
        late = Late(data, X if found is None else found, y, people, target)
        return grown(late, self._history, self._source, self._identities, self._enrolling,
                     self.handle)

    def request(self, plan: Node, data: Dataset, *, learner: str = "",
                delta: float = 0.0, scope: Scope | None = None,
                labels: Mapping[str, str] | None = None,
                lease: float | None = None, claimed: float | None = None,
                wait: float | None = None) -> Session:
        """Reserve `plan`, durably, and open a session; or refuse. Nothing is read here.

        Args:
            plan: the whole composition, from public facts.
            data: the handle it is for.
            learner: who asks, for the ledger.
            delta: for `basic` ledgers, the part of the budget's delta this plan may use.
            scope: draw on a filter scope that is already paid for; `plan` is then an
                `IndividualFilter` equal to the scope's, around what will run.
            labels: text under names, such as {"team": "a"}, that caps may match.
            lease: seconds after which the next opener of the ledger may record the holder as gone,
                for holders on other hosts. The charge stays either way, and a holder that is
                alive may still settle.
            claimed: epsilon that a paper states for this plan at `delta`, or None where it
                states none. Kept beside the charge for readers; never charged or trusted.
            wait: seconds, at most an hour, to wait: for budget that a new window or an open grant
                may bring, in line (docs/concepts.md); or while another grant draws on `scope`:
                each of two open ones would count the other at its worst case, and release noise.
                None for `wait` of the ledger, which its owner sets.

        Raises:
            BudgetExceeded: it does not fit; nothing was spent.
            ScopeBusy: another grant on `scope` is open; nothing was read or charged.
            PolicyViolation: the ledger's own policy forbids it.
            UnsupportedNode, RelationMismatch: it cannot be priced here.
        """
        return _session(self._grant(Request(
            plan, data, learner, delta, scope, labels, lease, claimed, wait), self.handle))

    def foreign(self, plan: Node, *, table: str, library: str, version: str, hook: str,
                learner: str = "", labels: Mapping[str, str] | None = None,
                delta: float = 0.0) -> ForeignGrant:
        """Reserve `plan`, durably, for a run of another library on rows this ledger never sees.

        The charge is never handed back, whatever happens later. docs/others.md says what is held
        against the reservation, and what stays on the library's word.

        Args:
            table: what the rows are called; a protected table's name, if they are its own.
            library, version: who runs it. hook: where the run asks, such as `step_hook`.
            labels: as of `request`; `library`, `version` and `hook` are added, and caps match them.
            delta: as of `request`.

        Raises:
            BudgetExceeded, PolicyViolation, UnsupportedNode: nothing was charged.
        """
        return foreign(self._history, ExternalRun(plan, table, library, version, hook, learner,
                                                labels or {}, delta))

    @property
    def window(self) -> str | None:
        """The window that is open; None before the first one."""
        return self._history.refresh().window

    def open_window(self, name: str) -> None:
        """Open the next window: charges belong to it from now on, and caps `per_window` start
        afresh. For the ledger's owner. The budget itself never starts afresh.

        A clock does not decide, because one that jumps would free budget. The window before
        ends here, and none is ever opened twice; naming the open one again changes nothing.

        Raises:
            InvalidValue: the name was used before, or the ledger is older than windows.
        """
        checked = window_name(name)

        def lines(state: State) -> list[Event]:
            if state.window == checked:
                return []
            keep_policy(state.policy, Origins(windows=(checked,)))
            wrong = state.window_entry(checked)
            if wrong is not None:
                raise InvalidValue("window", checked, wrong)
            return [WindowOpened(checked, now())]

        self._history.commit(lines)

    def graph(self) -> Node:
        """Everything paid for so far as one composition node."""
        return Sequential([from_json(one.plan) for one in charges_of(self._history.full())
                           if one.paid and one.plan is not None])

    def correct(self, grant: str, plan: Node | None, why: str) -> float:
        """An auditor's finding: what `grant` ran was really `plan`. Never gives budget back.

        Args:
            grant: name of the grant or of the scope, as `show` lists it. A grant that drew on a
                scope corrects the scope.
            plan: the node tree with the true parameters; None if nothing can be promised. Of a
                scope: what ran beyond what its filter counted; all of it is charged, and every
                record of the scope is charged it.
            why: a sentence that stays in the history.

        Returns:
            Epsilon spent, at the budget's delta, after the correction. Above the budget the
            promise is broken: every further request is refused, and `verify` says so.

        Raises:
            NotGranted, InvalidValue: no such grant, or one that charged nothing itself.
            UnsupportedNode: `plan` has no price here; pass None.
        """
        if plan is not None:
            check_node("plan", plan)
            plan = from_json(to_json(plan))
            check_effort(self._history, to_json(plan))
        self._history.commit(lambda state: [correction(state, grant, plan, why, now()).event])
        return self.spent

    @overload
    def record(self, row: int, data: str | None = None) -> RecordSpend: ...

    @overload
    def record(self, *, person: object) -> PersonSpend: ...

    def record(self, row: int | None = None, data: str | None = None, *,
               person: object = None) -> RecordSpend | PersonSpend:
        """What one record spent, and on what; or one person, over all tables. For auditors: it
        depends on private data.

        Args:
            row: position in the protected table; in a ledger of people a place in its roster.
            data: which table.
            person: an id, in a ledger with unit `person` that was opened with its key.

        Raises:
            DataError: no person is known by that id, or it cannot be one.
        """
        if (row is None) == (person is None):
            raise InvalidValue("record", "both or none", "a row, or person=")
        if row is None:
            return person_record(self._history, self._enrolling, person)
        if self.unit == "person":
            return record_at(self._history.store, self._history.full(),
                             count("row", row, least=0))

        def rows(name: str) -> int | None:
            held = self._identities.newest.get(name)
            return None if held is None else held._n_rows

        return record_spend(self._history.store, self._history.full(data), row, data, rows,
                            list(self._identities.newest))

    def close(self) -> None:
        """Write what is pending and let go of the file.

        Raises:
            NotSettled: a session could not be settled, and still cannot.
        """
        try:
            settle_left(self._history)
            self._history.flush()
        finally:
            self._history.store.close()
            for vault in list(self._identities.newest.values()):
                vault.discard()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _repr_html_(self) -> str:
        """For notebooks. Names from outside are escaped."""
        budget = self.budget
        mode = "private" if self.mode == "private" else "<strong>simulation, NOT PRIVATE</strong>"
        rows = (("ledger", escape(self.path)),
                ("budget", f"epsilon {exact(budget.epsilon)}, delta {exact(budget.delta)}, "
                           f"{escape(promise(self.relation, self.unit))}"),
                ("spent", f"epsilon {upward(self.spent)} (reservations included)"),
                ("left", f"epsilon {downward(self.left)}"), ("mode", mode))
        return "<table>" + "".join(f"<tr><th>{name}</th><td>{cell}</td></tr>"
                                   for name, cell in rows) + "</table>"



def _opened(path: str | os.PathLike[str], read_only: bool, key: PeopleKey | None,
            agrees: Callable[[State], NoiseSource] | None = None) -> Ledger:
    """A ledger that is there; `agrees` may refuse it before anything is written, and says where
    its noise comes from."""
    with kept_store(store_at(path, read_only=read_only)) as store:
        refuse_findings(store)
        history = History(store, writable=not read_only)
        state = history.refresh()
        source: NoiseSource = (agrees(state) if agrees is not None else
                               SeededSource(0) if state.mode == "simulation" else SystemSource())
        ledger = Ledger(store, source, history=history, people_key=key)
        if not read_only:
            ledger._history.mark_crashed()
            for finding in take_up(history):
                warnings.warn(f"{finding.message}; nothing of it was taken up", stacklevel=3)
        return ledger
