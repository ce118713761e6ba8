"""What the owner and a holder of guarded data may ask of a ledger: totals, grants, scopes."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from privledger.accounting import check_relation, promise
from privledger.engines.driver import Done
from privledger.errors import (
    BudgetExceeded,
    InvalidValue,
    LedgerCorrupt,
    NotGranted,
    PolicyViolation,
    PrivledgerError,
    UnsupportedNode,
)
from privledger.findings import Finding
from privledger.graph import IndividualFilter, Node, cost_of, from_json, to_json
from privledger.graph.additive import Gaussian
from privledger.graph.fold import charging
from privledger.graph.nodes import (
    Correlated,
    FixedSizeSample,
    OneOf,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    RandomAllocation,
    Repeat,
    Sequential,
    TruncatedPoissonSample,
    Tuning,
    below,
    check_filtered,
    check_node,
    children,
)
from privledger.graph.register import MECHANISMS
from privledger.guard.dataset import Dataset
from privledger.guard.inside import observed
from privledger.guard.policing import forbids, refuse_forbidden
from privledger.guard.recalled import (
    Answered,
    KeptQuestion,
    Recall,
    asked_of,
    kept_answer,
    value_of,
)
from privledger.guard.reserve import (
    Asking,
    note_open,
    note_over,
    patience,
    reserve,
    reserve_in_scope,
    would_refuse,
)
from privledger.guard.session import Booking, GrantedPlan
from privledger.guard.spends import Scope, own_scope
from privledger.guard.vault import Vault, _vault_of
from privledger.ledger import Budget, History, Receipt, State, audit, events, plain_labels
from privledger.ledger.entries import now, this_process
from privledger.ledger.store import Store
from privledger.ledger.view_charges import left_of, total_of
from privledger.mutex import Mutex, Uncopied
from privledger.noise.source import NoiseSource
from privledger.rounding import as_written, exact, non_negative, positive, probability, upward
from privledger.tables.columns import TableFacts
from privledger.tables.ingest import Progress

# Parts that may divide one person's records: which plans have a proved price under unit person.
# A part by a predicate takes some of a person's rows and leaves the others, so the person is in
# several parts at once, in each with a share of its weight; the shares add up to one. The dearest
# part still bounds the whole wherever costs add up over releases and a share of a mechanism costs
# at most this share of its price (docs/proofs/people.md, "Parts"). Everything else is refused.


_FREE = (PostProcess, Public)
_WHOLE = (PoissonSample, FixedSizeSample, RandomAllocation, TruncatedPoissonSample, Correlated,
          Tuning)
_INNER = (Sequential, Repeat, OneOf, Parallel, *_FREE)


def check_divided(plan: Node, facts: TableFacts, state: State) -> None:
    """Refuse a plan whose parts have no proved price for people who are in several of them.

    Raises:
        UnsupportedNode: nothing was read.
    """
    if facts.unit != "person":
        return
    found = _outside_filters(plan)
    divided = [(node, sampled) for node, sampled in found
               if isinstance(node, Parallel) and _divides(node, facts)]
    for node, _ in divided:
        _check_inside(node)
    other = [sampled for node, sampled in divided
             if not all(isinstance(one, Gaussian) for one in _priced(node))]
    if any(other):
        raise UnsupportedNode(
            "parts that may split one person's records, inside a sample or a tuning, are proved "
            "for Gaussian noise only. Nothing was read")
    if other and not _adds_up(plan, state):
        raise UnsupportedNode(
            "parts that may split one person's records, priced as a whole at a delta, are proved "
            "for Gaussian noise only. Ask for less than the budget's epsilon without a delta, or "
            "use a ledger with filter=\"rdp\". Nothing was read")


def _adds_up(plan: Node, state: State) -> bool:
    """Whether the ledger charges what adds up: anything but a whole plan's epsilon at a delta."""
    kind = None if state.rule is None else state.rule.kind
    if kind in ("gdp", "zcdp", "rdp"):
        return True
    assert state.budget is not None
    part = cost_of(plan, check_relation(state.relation)).pure_part
    return part is not None and part <= as_written(state.budget.epsilon)


def _outside_filters(plan: Node) -> list[tuple[Node, bool]]:
    """Every node but those in an individual filter, where each person pays for what it sends; and
    whether it stands in something that is priced by more than its inside's additive cost."""
    waiting, found = [(plan, False)], []
    while waiting:
        node, sampled = waiting.pop()
        found.append((node, sampled))
        if not isinstance(node, IndividualFilter):
            sampled = sampled or isinstance(node, _WHOLE)
            waiting.extend((child, sampled) for child in children(node))
    return found


def _divides(node: Parallel, facts: TableFacts) -> bool:
    """Whether a person may be in two parts that are asked: by coins, and by positions of people,
    each person is in one."""
    if facts.most_rows == 1 or node.certificate == "iid_per_record" or (
            node.certificate == "index" and facts.relation != "replace_label"):
        return False
    asked = [child for child in node.nodes
             if not all(isinstance(one, (*_FREE, Sequential, Repeat, OneOf, Parallel))
                        for one in below(child))]
    return len(asked) > 1


def _priced(node: Parallel) -> list[Node]:
    return [one for one in below(node) if not isinstance(one, _INNER)]


def _check_inside(node: Parallel) -> None:
    for one in _priced(node):
        row = MECHANISMS.get(type(one))
        if row is None or not row.divides:
            raise UnsupportedNode(
                f"{type(one).__name__} in several parts that may split one person's records: each "
                "part would use the person in full. Use parts by coins, or a sample around the "
                "parts. Nothing was read")


_LONGEST_NAME = 1000


@frozen(eq=False)
class Request:
    """A plan to be reserved; the fields are the arguments of `Ledger.request`.

    Attributes:
        wait: seconds to wait for budget; None for what the ledger's owner said.
        isolation: how the learner is kept from the rows, by the word of the caller.
        shares: whether what is released is one owner's share of noise that several owners add,
            by the word of a party to their run, which lets out nothing but their masked sum.
    """

    plan: Node
    data: Dataset
    learner: str = ""
    delta: float = 0.0
    scope: Scope | None = None
    labels: Mapping[str, str] | None = None
    lease: float | None = None
    claimed: float | None = None
    wait: float | None = None
    isolation: str = "guarded"
    shares: bool = False


class LedgerService(Uncopied):
    """Answers from one history, and reserves in it; it neither protects nor corrects.

    Attributes:
        on_release: told the number of releases after each, or None.
        on_rows: told how many rows of a table went to chunks, or None.
        on_chunks: told how many chunks of a pass are done, and of how many, or None.
        owner_labels: what every grant carries, by the owner's word; None: the caller says.
    """

    def __init__(self, store: Store, source: NoiseSource, *, writable: bool = True,
                 history: History | None = None) -> None:
        self._history = History(store, writable=writable) if history is None else history
        self._source = source
        self._recall, self._answering = Recall(self._history), Mutex()
        self._scoped: set[str] = set()  # grants on scopes that were asked for here
        self.on_release: Callable[[int], None] | None = None
        self.on_rows: Progress | None = None
        self.on_chunks: Done | None = None
        self.owner_labels: Mapping[str, str] | None = None
        self._wait = 0.0
        if self._history.refresh().budget is None:
            raise LedgerCorrupt(f"{store.location}: the history is empty")
        if self._history.state.mode == "private" and not source.private:
            raise InvalidValue("mode", "simulation", "private for this ledger")

    @property
    def budget(self) -> Budget:
        """The promise: a copy, so that what is decided by does not change."""
        budget = self._history.state.budget
        assert budget is not None
        return Budget(budget.epsilon, budget.delta, budget.failure)

    @property
    def relation(self) -> str:
        """The neighbouring relation of the promise, fixed for ever."""
        return self._history.state.relation

    @property
    def unit(self) -> str:
        """Whom the promise is about: `row`, or `person`, with all rows in all tables."""
        return self._history.state.unit

    @property
    def mode(self) -> str:
        """`private`, or `simulation`: NOT PRIVATE."""
        return self._history.state.mode

    @property
    def path(self) -> str:
        """Where the history lies: a file, a URL without a password, or `:memory:`."""
        return self._history.store.location

    @property
    def spent(self) -> float:
        """Epsilon, at the budget's delta, of everything spent or reserved so far."""
        return self._history.look(total_of).epsilon.value

    @property
    def left(self) -> float:
        """Epsilon of the largest plan that would still be granted, at the budget's delta."""
        return self._history.look(left_of).value

    @property
    def wait(self) -> float:
        """Seconds, at most an hour, that a request waits for budget where it does not say: of
        learners, too, which are not asked, and of confined ones, which have no say. 0 at first."""
        return self._wait

    @wait.setter
    def wait(self, seconds: float) -> None:
        """Raises `InvalidValue` for anything but seconds."""
        self._wait = patience(seconds)

    @property
    def receipt(self) -> Receipt:
        """The newest entry's place and hash, to compare the ledger with later."""
        self._history.refresh()
        return self._history.receipt()

    def answer(self, mechanism: Node, query: object, *, keep: bool = False, learner: str = "",
               labels: Mapping[str, str] | None = None, delta: float = 0.0) -> Answered:
        """One question about a whole table in a grant of its own.

        Args:
            mechanism, query: as `Session.release`; the plan is the mechanism.
            keep: keep the answer in the history, where it is published, and give out the one
                that is kept if the same was asked before: then nothing is read or charged. Not in
                a simulation, and for questions about columns only; others are paid for each time.
            learner, labels, delta: as `Ledger.request`.

        Raises:
            BudgetExceeded, PolicyViolation: as `Ledger.request`; nothing was read.
            InvalidValue: a question about a part or a sample.
        """
        if not isinstance(keep, bool):
            raise InvalidValue("keep", type(keep).__name__, "True or False")
        probability("delta", delta, zero=True)  # of an answer that is there, too
        asked = asked_of(mechanism, query, self._history, keep=keep)
        with self._answering:  # so that two threads do not pay for the same
            found = None if asked.key is None else self._recall.find(
                asked.key, asked.vault.sealing)
            if found is not None:
                return Answered(value_of(found[1]), found[0], True)
            return self._answered(asked, learner, labels, delta)

    def _answered(self, asked: KeptQuestion, learner: str, labels: Mapping[str, str] | None,
                  delta: float) -> Answered:
        """Reserve, release, settle with the answer, and only then give it out."""
        given = self._grant(Request(asked.leaf, Dataset(asked.vault.schema, asked.seal), learner,
                                    delta, labels=labels, wait=0.0), None)
        try:
            value = given.release(asked.leaf, asked.question)
            given.answer = self._recall.sealed(
                given.grant, kept_answer(asked.key, value), asked.vault.sealing)
        except BaseException as error:
            given.close(type(error))
            raise
        given.close()
        return Answered(value, given.grant, False)

    def would_grant(self, plan: Node, data: Dataset, *, learner: str = "", delta: float = 0.0,
                    labels: Mapping[str, str] | None = None
                    ) -> BudgetExceeded | PolicyViolation | None:
        """What `request` would answer now: the same decision, and nothing is written or read.

        Args:
            plan, data, learner, delta, labels: as `Ledger.request`.

        Returns:
            None if it would be granted; else the refusal that `request` would raise. It says what
            the plan asks for, what that costs here, what was spent, and which limit binds.

        Raises:
            UnsupportedNode, RelationMismatch, InvalidPlan: it cannot be priced here.
        """
        asked = Request(plan, data, learner, delta, labels=labels)
        _, vault = _sealed_vault(asked, self._history)
        event = self._event(asked, vault)
        own = from_json(event.plan)
        check_filtered(own)
        forbidden = forbids(self._history, event, own, vault.schema.declared_rows)
        if forbidden is not None:
            return forbidden
        if vault.facts.unit == "person":
            check_divided(own, vault.facts, self._history.state)
        return would_refuse(self._history, event, own)

    @observed("drew")
    def _grant(self, asked: Request, shown: object) -> GrantedPlan:
        """Reserve, durably, or refuse; nothing is read here.

        Args:
            shown: the learner's view of this ledger, for the handles of the grant.

        Raises: as `Ledger.request`.
        """
        seal, vault = _sealed_vault(asked, self._history)
        drawn = None if asked.scope is None else own_scope(asked.scope)
        seconds = self.wait if asked.wait is None else patience(asked.wait)
        event = self._event(asked, vault)
        own = from_json(event.plan)  # the caller may change its nodes at any time
        check_filtered(own)
        # Of the table as it was protected: a handle can be made with another schema.
        refuse_forbidden(self._history, event, own, vault.schema.declared_rows)
        if vault.facts.unit == "person":
            check_divided(own, vault.facts, self._history.state)
        asking = Asking()  # kept until the session takes its place
        if drawn is None:
            stored, first = reserve(self._history, event, own, seconds)
        else:
            first, stored = False, self._reserve_alone(asking, event, own, drawn, seconds)
        given = GrantedPlan(
            plan=from_json(stored.plan), grant=stored.grant, vault=vault,
            data=Dataset(asked.data.schema, seal, ledger=shown),
            history=self._history, source=self._source, scope=drawn, on_release=self.on_release,
            shares=asked.shares, booking=self._booking(stored, first))
        if drawn is not None:
            note_open(given.grant, given)
        return given

    def _booking(self, granted: events.Granted, first: bool) -> Booking | None:
        """Of a charge in a ledger whose filter its first plan fixes; None of any other."""
        state = self._history.state
        if granted.scope or state.rule is None or state.filter_asked != "auto":
            return None
        return Booking(state.rule, check_relation(state.relation), float(granted.delta), first)

    def _event(self, asked: Request, vault: Vault) -> events.Granted:
        """What is to be written, without its charge."""
        return events.Granted(
            grant=f"grant-{secrets.token_hex(6)}", learner=str(asked.learner)[:200],
            data=vault.identity, plan=to_json(asked.plan),
            delta=probability("delta", asked.delta, zero=True), units=0, delta_units=0,
            time=now(), labels=self._labels(asked.labels),
            claimed=None if asked.claimed is None else non_negative("claimed", asked.claimed),
            lease=None if asked.lease is None else positive("lease", asked.lease),
            holder=this_process(), isolation=asked.isolation,
            enrolled=None if vault.standing is None else vault.standing.enrolled,
            mark=vault.version.removeprefix("mark:") if asked.scope is not None and (
                vault.facts.unit == "row" and vault.version.startswith("mark:")) else None)

    def _reserve_alone(self, asking: Asking, event: events.Granted, plan: Node, scope: Scope,
                       seconds: float) -> events.Granted:
        note_open(event.grant, asking)
        try:
            stored = reserve_in_scope(self._history, event, plan, scope, self._scoped, seconds)
        except PrivledgerError:
            note_over(event.grant)
            raise
        self._scoped.add(stored.grant)
        return stored

    def _labels(self, asked: Mapping[str, str] | None) -> dict[str, str]:
        """Labels of a request: the owner's, where there are such; else those that were asked."""
        given = dict(plain_labels(asked or {}))
        if self.owner_labels is None:
            return given
        owned = dict(plain_labels(self.owner_labels))
        if given not in ({}, owned):
            raise NotGranted("labels are set by the ledger's owner in the run file: a learner "
                             "cannot choose its own caps. Nothing was read")
        return owned

    def open_scope(self, node: IndividualFilter, *, name: str | None = None,
                   delta: float = 0.0) -> Scope:
        """Pay for an individual filter once; later requests may draw on it.

        Raises:
            BudgetExceeded: it does not fit.
        """
        if type(node) is not IndividualFilter or node.node is not None:
            raise InvalidValue("node", type(node).__name__, "an IndividualFilter without inside")
        label = f"scope-{secrets.token_hex(4)}" if name is None else short_name("name", name)
        checked = probability("delta", delta, zero=True)
        if self._history.refresh().knows(label):
            raise InvalidValue("name", label, "none that a grant has")
        text = to_json(node)
        own = from_json(text)  # the caller may change its node at any time
        assert isinstance(own, IndividualFilter)
        known = self._history.state.scopes.get(label)
        if known is not None:
            if from_json(known.event.plan) != own:
                raise InvalidValue("name", label, "a scope that is not open with other caps")
            return Scope(label, own)
        event = events.ScopeOpened(label, text, checked, 0, 0, time=now())
        refuse_forbidden(self._history, event, own, None)
        reserve(self._history, event, own)
        return Scope(label, from_json(text))  # type: ignore[arg-type]

    def verify(self) -> list[Finding]:
        """Read everything again, trusting no total. An empty list is a clean ledger."""
        self._history.flush()
        with charging():  # by prices that no stranger's node ever entered
            return audit(self._history.store)

    def __repr__(self) -> str:
        mark = "" if self.mode == "private" else ", NOT PRIVATE (simulation)"
        budget = self.budget
        return (f"Ledger({self.path}, epsilon {upward(self.spent)} of {exact(budget.epsilon)} at "
                f"delta {exact(budget.delta)}, {promise(self.relation, self.unit)}{mark})")


def _sealed_vault(asked: Request, history: History) -> tuple[Any, Vault]:
    """The seal and the rows that a request is for: whole, and guarded by this ledger.

    Raises:
        InvalidValue: they are not.
    """
    probability("delta", asked.delta, zero=True)
    check_node("plan", asked.plan)
    data = asked.data
    seal = data._vault if type(data) is Dataset and not data.steps else None
    vault: Vault | None = None if seal is None else _vault_of(seal)
    if vault is None or vault._guardian is not history:
        raise InvalidValue("data", type(data).__name__,
                           "a Dataset straight from this ledger's protect")
    return seal, vault


def short_name(name: str, value: object) -> str:
    """Names go into every entry and into the index of a database: they stay short.

    Raises:
        InvalidValue: no text, or one that is empty or too long.
    """
    if not (isinstance(value, str) and 0 < len(value) <= _LONGEST_NAME):
        raise InvalidValue(name, type(value).__name__,
                           f"a text of 1 to {_LONGEST_NAME} characters")
    return value
