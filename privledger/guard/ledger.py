"""Ledger: what users hold. It decides through the history and hands out sessions."""

from __future__ import annotations

import os
import secrets
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from html import escape
from types import TracebackType
from typing import Any, NoReturn
from uuid import uuid4

from attrs import asdict

from privledger.accounting import check_relation, promise
from privledger.errors import (
    DataError,
    InvalidValue,
    LedgerCorrupt,
    NotGranted,
    PrivledgerError,
)
from privledger.facts.columns import Columns
from privledger.facts.schema import Schema
from privledger.findings import Finding
from privledger.graph import IndividualFilter, Node, from_json, to_json
from privledger.graph.nodes import Sequential, check_node
from privledger.graph.remember import charging
from privledger.guard.alone import Asking, note_open, note_over, patience
from privledger.guard.dataset import Dataset
from privledger.guard.handle import LedgerHandle, Session, _handle_of, _session
from privledger.guard.identity import Identities, declared, fingerprint
from privledger.guard.mirror import own_schema, remember
from privledger.guard.policing import check_creation, keep, policy_caps, refuse_forbidden
from privledger.guard.reserve import (
    Lines,
    check_effort,
    filter_body,
    reserve,
    reserve_in_scope,
)
from privledger.guard.scope import Scope, own_scope
from privledger.guard.session import Granted
from privledger.guard.vault import Vault, _sealed, _vault_of
from privledger.ledger import (
    FORMAT,
    Budget,
    Cap,
    History,
    Origins,
    Policy,
    Receipt,
    State,
    audit,
    correction,
    fixed_filter,
    plain_labels,
    window_name,
)
from privledger.ledger.history import first_entries, now
from privledger.ledger.holder import this_process
from privledger.ledger.settle import settle_left, take_up
from privledger.ledger.store import Store
from privledger.ledger.view_records import RecordSpend, record_spend
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource, SystemSource
from privledger.rounding import downward, exact, non_negative, positive, probability, upward
from privledger.storage import kept, refuse_findings, store_at
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_features, encode_target

MODES = ("private", "simulation")
_LONGEST_NAME = 1000


class Ledger:
    """One budget, one history. Make it with `Ledger.create` or `Ledger.open`.

    Copying, cloning and deep-copying give the same object; pickling raises.
    """

    def __init__(self, store: Store, source: NoiseSource, *, writable: bool = True,
                 history: History | None = None) -> None:
        self._history = History(store, writable=writable) if history is None else history
        self._source = source
        self._identities = Identities()
        self.on_release: Callable[[int], None] | None = None
        self._shown: weakref.ref[LedgerHandle] | None = None
        # What every grant carries from here on, by the owner's word; None: whoever asks says.
        self.owner_labels: Mapping[str, str] | None = None
        if self._history.refresh().budget is None:
            raise LedgerCorrupt(f"{store.location}: the history is empty")
        if self._history.state.mode == "private" and not source.private:
            raise InvalidValue("mode", "simulation", "private for this ledger")

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

        Raises:
            LedgerError: the file exists, or cannot be written.
            PolicyViolation: the ledger itself is not what the policy allows.
        """
        if not isinstance(budget, Budget):
            raise InvalidValue("budget", type(budget).__name__, "a Budget")
        checked = check_relation(relation)
        if mode not in MODES:
            raise InvalidValue("mode", mode, f"one of {', '.join(MODES)}")
        if mode == "private" and seed is not None:
            raise InvalidValue("seed", seed, "None: noise that protects people has no seed")
        rule = None if filter == "auto" else fixed_filter(filter, budget, order)
        source: NoiseSource = SystemSource() if mode == "private" else SeededSource(
            0 if seed is None else seed)
        body = {
            "format": FORMAT, "uuid": str(uuid4()), "time": now(), "relation": checked,
            "budget": {"epsilon": float(budget.epsilon), "delta": float(budget.delta)},
            "filter": filter, "mode": mode, "noise": source.describe(),
            "caps": [_check_cap(cap).as_dict() for cap in (*caps, *policy_caps(policy))],
        }
        if policy is not None:
            check_creation(policy, budget, checked, mode)
            body["policy"] = policy.as_dict()
        lines: Lines = [("created", body)]
        if rule is not None:
            lines.append(("filter", filter_body(rule)))
        with kept(store_at(path, create=True, first=first_entries(lines))) as store:
            return Ledger(store, source)

    @staticmethod
    def open(path: str | os.PathLike[str], *, read_only: bool = False) -> Ledger:
        """Open an existing ledger (a file, or a URL) and find grants whose holder is gone.

        Raises:
            LedgerCorrupt: truncated, edited, or not a ledger.
            LedgerMisplaced: moved, replaced, or under a second name.
            LedgerTooNew: written by a later version.
        """
        with kept(store_at(path, read_only=read_only)) as store:
            refuse_findings(store)
            history = History(store, writable=not read_only)
            simulated = history.refresh().mode == "simulation"
            ledger = Ledger(store, SeededSource(0) if simulated else SystemSource(),
                            history=history)
            if not read_only:
                ledger._history.mark_crashed()
                for finding in take_up(history):
                    warnings.warn(f"{finding.message}; nothing of it was taken up", stacklevel=2)
            return ledger

    @property
    def state(self) -> State:
        """The fold of the whole history, every grant in it, read afresh: changing it changes
        nothing."""
        return self._history.full()

    @property
    def budget(self) -> Budget:
        """The promise: a copy, so that nobody changes what is decided by."""
        budget = self._history.state.budget
        assert budget is not None
        return Budget(budget.epsilon, budget.delta)

    @property
    def handle(self) -> LedgerHandle:
        """What a learner may ask of this ledger; it comes with every Dataset, as `data.ledger`."""
        shown = None if self._shown is None else self._shown()
        if shown is None:
            shown = _handle_of(self)
            self._shown = weakref.ref(shown)  # the handle keeps the ledger, not the other way
        return shown

    @property
    def relation(self) -> str:
        return self._history.state.relation

    @property
    def mode(self) -> str:
        return self._history.state.mode

    @property
    def path(self) -> str:
        return self._history.store.location

    @property
    def spent(self) -> float:
        """Epsilon, at the budget's delta, of everything spent or reserved so far."""
        rule, units = self._history.look(lambda state: (state.rule, state.units))
        return rule.epsilon_of(units) if rule else 0.0

    @property
    def left(self) -> float:
        """Epsilon of the largest plan that would still be granted, at the budget's delta."""
        rule, units = self._history.look(lambda state: (state.rule, state.units))
        if rule is None:
            return self.budget.epsilon
        return rule.left_of(units)

    @property
    def receipt(self) -> Receipt:
        self._history.refresh()
        return self._history.receipt()

    def protect(self, X: Any, y: Any = None, schema: Schema | None = None, *,
                name: str | None = None, fingerprint_key: bytes | None = None,
                public_features: bool = False, unlabelled: bool = False) -> Dataset:
        """Put a table behind the guard. From here on its rows are reached by releases only.

        Args:
            X: pandas frame, mapping of columns, or 2-D array with the schema's features.
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

        Raises:
            RelationMismatch: public features under another relation than `replace_label`, or
                a schema that states the true number of rows under `add_remove`.
            DataError: the table does not fit; columns and rules are named, never values.
        """
        if schema is None and isinstance(y, Schema):
            y, schema = None, y
        if not isinstance(schema, Schema):
            raise InvalidValue("schema", type(schema).__name__, "a Schema; it is never inferred "
                                                               "from private data")
        public, partial = declared(self.relation, public_features, unlabelled, y)
        own = own_schema(schema)  # bounds are read again inside the guard
        own.rows_for(self.relation)  # a true number of rows is refused under add_remove
        columns = encode_features(X, own)
        target = None if y is None else encode_target(y, own, unlabelled=partial)
        check_rows(columns, target)
        if name is not None:
            _short("name", name)
            self._identities.check(name, columns, target)
        mark = None if fingerprint_key is None else fingerprint(fingerprint_key, columns, target)
        rows = Rows(columns, target, self._source)
        vault = Vault(name or f"data-{secrets.token_hex(6)}", rows, self._history,
                      relation=self.relation, public_features=public, unlabelled=partial)
        data = self._guard(vault, schema, mark)
        self._identities.newest[vault.identity] = vault
        return data

    def _guard(self, vault: Vault, schema: Schema, mark: str | None) -> Dataset:
        own = vault.schema
        body: dict[str, Any] = {"data": vault.identity, "schema": own.name,
                                "schema_sha256": own.digest, "time": now()}
        if mark is not None:
            body["fingerprint"] = mark
        if own.declared_rows is not None:
            body["rows"] = own.declared_rows
        if vault.public is not None:
            body["public_features"] = True
        if vault.unlabelled:
            body["unlabelled"] = True
        self._history.note("protected", body)
        return self._shown_as(vault, schema)

    def _shown_as(self, vault: Vault, schema: Schema) -> Dataset:
        """The handle on a vault: a seal, a schema to show, and what may be asked of us."""
        shown = own_schema(schema)  # neither the guard's nor the caller's, who may use it again
        remember(vault, shown)
        return Dataset(shown, _sealed(vault), ledger=self.handle)

    def append(self, data: Dataset, X: Any, y: Any = None) -> Dataset:
        """Late arrivals: a handle on the old records followed by new ones, same identity.

        In a filter scope the new records start with their whole cap.
        """
        old: Vault = _vault_of(data._vault)
        if old._guardian is not self._history:
            raise NotGranted("these records are guarded by another ledger")
        columns = encode_features(X, old.schema)
        target = None if y is None else encode_target(y, old.schema, unlabelled=old.unlabelled)
        check_rows(columns, target)
        if (target is not None) != old.facts.has_target:
            raise DataError("late arrivals come with a target exactly if the others did")
        if data.steps:
            raise InvalidValue("data", repr(data), "a handle straight from protect or append")
        if self._identities.newest.get(old.identity) is not old:
            # Two branches would put two people into one row, or one person into two.
            raise NotGranted("late arrivals go to the newest handle of these records; "
                             "this one was extended already")
        vault = old.grown(columns, target)
        self._identities.grow(vault.identity, vault)
        return self._shown_as(vault, old.schema)

    def request(self, plan: Node, data: Dataset, *, learner: str = "",
                delta: float = 0.0, scope: Scope | None = None,
                labels: Mapping[str, str] | None = None,
                lease: float | None = None, claimed: float | None = None,
                wait: float = 0.0) -> Session:
        """Reserve `plan`, durably, and open a session; or refuse. Nothing is read here.

        Args:
            plan: the whole composition, from public facts.
            data: the handle it is for.
            learner: who asks, for the ledger.
            delta: for `basic` ledgers, the part of the budget's delta this plan may use.
            scope: draw on a filter scope that is already paid for; `plan` is then an
                `IndividualFilter` equal to the scope's, around what will run.
            labels: text under names, such as {"team": "a"}, that caps may match.
            lease: seconds after which whoever opens the ledger may record the holder as gone,
                for holders on other hosts. The charge stays either way, and a holder that is
                alive may still settle.
            claimed: epsilon that a paper states for this plan at `delta`, or None where it
                states none. Kept beside the charge for readers; never charged or trusted.
            wait: seconds, at most an hour, to wait while another grant draws on `scope`: each of
                two open ones would count the other at its worst case, and release noise alone.

        Raises:
            BudgetExceeded: it does not fit; nothing was spent.
            ScopeBusy: another grant on `scope` is open; nothing was read or charged.
            PolicyViolation: the ledger's own policy forbids it.
            UnsupportedNode, RelationMismatch: it cannot be priced here.
        """
        return self._request(plan, data, learner, delta, scope, labels, lease, "guarded", claimed,
                             wait)

    def _request(self, plan: Node, data: Dataset, learner: str, delta: float,
                 scope: Scope | None, labels: Mapping[str, str] | None, lease: float | None,
                 isolation: str, claimed: float | None = None, wait: float = 0.0) -> Session:
        """`request` by a caller that vouches for how the learner is kept from the rows."""
        checked = probability("delta", delta, zero=True)
        check_node("plan", plan)
        seal = data._vault if type(data) is Dataset and not data.steps else None
        vault = None if seal is None else _vault_of(seal)
        if seal is None or vault is None or vault._guardian is not self._history:
            raise InvalidValue("data", type(data).__name__,
                               "a Dataset straight from this ledger's protect")
        drawn, seconds = None if scope is None else own_scope(scope), patience(wait)
        body: dict[str, Any] = {
            "grant": f"grant-{secrets.token_hex(6)}", "time": now(), "learner": str(learner)[:200],
            "data": vault.identity, "plan": to_json(plan), "delta": checked,
            "holder": asdict(this_process()), "scope": None, "labels": self._labels(labels),
            "lease": None if lease is None else positive("lease", lease),
            "isolation": isolation,
        }
        if claimed is not None:
            body["claimed"] = non_negative("claimed", claimed)
        own = from_json(body["plan"])  # the caller may change its nodes at any time
        # Of the table as it was protected: a handle can be made with another schema.
        refuse_forbidden(self._history, body, own, vault.schema.declared_rows)
        if drawn is None:
            stored = reserve(self._history, "granted", body, own, checked)
        else:
            asking = Asking()  # kept until the session takes its place
            stored = self._reserve_alone(asking, body, own, drawn, seconds)
        granted = Granted(
            plan=from_json(stored["plan"]), grant=stored["grant"], vault=vault,
            data=Dataset(data.schema, seal, ledger=self.handle), history=self._history,
            source=self._source, scope=drawn, on_release=self.on_release)
        if drawn is not None:
            note_open(granted.grant, granted)
        return _session(granted)

    def _reserve_alone(self, asking: Asking, body: dict[str, Any], plan: Node, scope: Scope,
                       seconds: float) -> dict[str, Any]:
        note_open(body["grant"], asking)
        try:
            return reserve_in_scope(self._history, body, plan, scope, seconds)
        except PrivledgerError:
            note_over(body["grant"])
            raise

    def _labels(self, asked: Mapping[str, str] | None) -> dict[str, str]:
        """Labels of a request: the owner's, where there are such; else those that were asked."""
        given = dict(plain_labels(asked or {}))
        if self.owner_labels is None:
            return given
        owned = dict(plain_labels(self.owner_labels))
        if given not in ({}, owned):
            raise NotGranted("labels are set by the ledger's owner, in the run file; a learner "
                             "cannot choose the caps it falls under. Nothing was read")
        return owned

    def open_scope(self, node: IndividualFilter, *, name: str | None = None,
                   delta: float = 0.0) -> Scope:
        """Pay for an individual filter once; later requests may draw on it.

        Raises:
            BudgetExceeded: it does not fit.
        """
        if type(node) is not IndividualFilter or node.node is not None:
            raise InvalidValue("node", type(node).__name__, "an IndividualFilter without inside")
        label = f"scope-{secrets.token_hex(4)}" if name is None else _short("name", name)
        checked = probability("delta", delta, zero=True)
        text = to_json(node)
        own = from_json(text)  # the caller may change its node at any time
        assert isinstance(own, IndividualFilter)
        known = self._history.refresh().scopes.get(label)
        if known is not None:
            if from_json(known.body["plan"]) != own:
                raise InvalidValue("name", label, "a scope that is not open with other caps")
            return Scope(label, own)
        body = {"scope": label, "time": now(), "plan": text, "delta": checked}
        refuse_forbidden(self._history, body, own, None)
        reserve(self._history, "scope", body, own, checked)
        return Scope(label, from_json(text))  # type: ignore[arg-type]

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

        def lines(state: State) -> Lines:
            if state.window == checked:
                return []
            keep(state.policy, Origins(windows=(checked,)))
            wrong = state.window_entry(checked)
            if wrong is not None:
                raise InvalidValue("window", checked, wrong)
            return [("window", {"window": checked, "time": now()})]

        self._history.commit(lines)

    def graph(self) -> Node:
        """Everything paid for so far as one composition node."""
        state = self._history.full()
        paid = [(s.position, s.body["plan"]) for s in state.scopes.values()]
        paid += [(g.position, g.plan) for g in state.grants.values() if g.plan is not None
                 and not g.body.get("scope") and (g.status != "aborted" or g.touched)]
        return Sequential([from_json(plan) for _, plan in sorted(paid, key=lambda p: p[0])])

    def correct(self, grant: str, plan: Node | None, why: str) -> float:
        """An auditor's finding: what `grant` ran was really `plan`. Never gives budget back.

        Args:
            grant: name of the grant, as `show` lists it.
            plan: the node tree with the true parameters; None if nothing can be promised.
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
            rule = self._history.state.rule
            check_effort(self._history, "rdp" if rule is None else rule.kind,
                         {"plan": to_json(plan)})
        self._history.commit(lambda state: [
            correction(state, grant, plan, why, now()).event])
        return self.spent

    def record(self, row: int, data: str | None = None) -> RecordSpend:
        """What one record spent, and on what. For auditors: it depends on private data."""
        def rows(name: str) -> int | None:
            held = self._identities.newest.get(name)
            return None if held is None else held._n_rows

        return record_spend(self._history.store, self._history.full(), row, data, rows)

    def verify(self) -> list[Finding]:
        """Read everything again, trusting no total. An empty list is a clean ledger."""
        self._history.flush()
        with charging():  # by prices that no stranger's node ever entered
            return audit(self._history.store)

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

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        mark = "" if self.mode == "private" else ", NOT PRIVATE (simulation)"
        budget = self.budget
        return (f"Ledger({self.path}, epsilon {upward(self.spent)} of {exact(budget.epsilon)} at "
                f"delta {exact(budget.delta)}, {promise(self.relation)}{mark})")

    def _repr_html_(self) -> str:
        """For notebooks. Names from outside are escaped."""
        budget = self.budget
        mode = ("private" if self.mode == "private"
                else "<strong>simulation, NOT PRIVATE</strong>")
        rows = (("ledger", escape(self.path)),
                ("budget", f"epsilon {exact(budget.epsilon)}, delta {exact(budget.delta)}, "
                           f"{escape(promise(self.relation))}"),
                ("spent", f"epsilon {upward(self.spent)} (reservations included)"),
                ("left", f"epsilon {downward(self.left)}"), ("mode", mode))
        return "<table>" + "".join(f"<tr><th>{name}</th><td>{cell}</td></tr>"
                                   for name, cell in rows) + "</table>"

    def __copy__(self) -> Ledger:
        return self

    def __deepcopy__(self, memo: object) -> Ledger:
        return self

    def __sklearn_clone__(self) -> Ledger:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a ledger cannot be pickled: another process opens the file by its path")


def _short(name: str, value: object) -> str:
    """Names go into every entry and into the index of a database: they stay short."""
    if not (isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME):
        raise InvalidValue(name, type(value).__name__,
                           f"a text of 1 to {_LONGEST_NAME} characters")
    return value


def _check_cap(cap: object) -> Cap:
    if not isinstance(cap, Cap):
        raise InvalidValue("caps", type(cap).__name__, "a sequence of Cap")
    return cap


def check_rows(columns: Columns, target: Any) -> None:
    """At least one record, and as many targets as records."""
    if columns.n_rows == 0:
        raise DataError("the table is empty: Found array with 0 sample(s), a minimum of 1 is "
                        "required")
    if target is not None and len(target) != columns.n_rows:
        raise DataError("Found input variables with inconsistent numbers of samples: "
                        "features and target differ in length")
