"""The owner's side of one fit: answers a confined learner's requests on one guarded table."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from attrs import define, field

from privledger.accounting import check_relation
from privledger.broker.allowance import DEFAULTS, ResourceLimits
from privledger.broker.channel import MIB
from privledger.broker.failures import error_out, number_out
from privledger.broker.wire import WireReader
from privledger.errors import IsolationLimit, LearnerError, NotGranted, PrivledgerError
from privledger.graph import IndividualFilter, Node, canonical, cost_of
from privledger.graph.fold import charging
from privledger.guard import Scope, Session
from privledger.guard.dataset import Dataset
from privledger.guard.handle import _ledger, _request
from privledger.guard.service import LedgerService, Request
from privledger.guard.vault import _vault_of
from privledger.ledger import Receipt, choose_filter, plain_labels
from privledger.questions.choice import Choice, LabelChoice
from privledger.questions.groups import Groups
from privledger.questions.label_query import LabelQuery, ResponseQuery
from privledger.questions.options import Picked
from privledger.questions.query import Query
from privledger.rounding import count, number, probability
from privledger.tables.columns import TableFacts
from privledger.tables.values import Json, array_out, items, text_field

# How long the answer to a confined learner's question will be, before anything is charged.


_AROUND, _OF_BLOCK = 4096, 128  # bytes of a reply, and of an array in it, beside the numbers


def refuse_long(question: object, facts: TableFacts, message_mb: int) -> None:
    """An answer that no message can carry is not worked out: cells of cells are soon more than the
    owner's memory, and would be noised one by one; a label for every row would be charged first.

    Args:
        question: built on this side. facts: public, of the guarded table.
        message_mb: what one message may have, in MiB.

    Raises:
        IsolationLimit: it has more than that, in base64.
    """
    numbers = _numbers(question, facts)
    blocks = len(question.blocks) if isinstance(question, Query) else 2
    if 32 * numbers / 3 + _AROUND + _OF_BLOCK * blocks > message_mb * MIB:
        raise IsolationLimit("message_mb", message_mb)


def _numbers(question: object, facts: TableFacts) -> int:
    """Of 8 bytes each, at most. 0 where it is not public: then `check` refuses the question."""
    if isinstance(question, Query):
        return question.cell_count * sum(block.width for block in question.blocks)
    if isinstance(question, Choice | LabelChoice):
        # A class for every leaf is counted one by one, although the answer is short.
        classes = 2 if question.labels is None else max(2, question.labels.count)
        return question.cell_count * classes
    if isinstance(question, LabelQuery):
        asked = question.rows
        if asked is None:
            return facts.n_rows or 0
        return len(range(*asked.indices(facts.n_rows or 0))) if isinstance(
            asked, slice) else len(asked)
    return (facts.n_rows or 0) if isinstance(question, ResponseQuery) else 0


ISOLATION = "brokered"
MOST_SESSIONS = 10_000


def receipt_out(receipt: Receipt) -> Json:
    """A receipt as JSON values, infinity included."""
    return receipt.as_dict(dated=True) | {"epsilon": number_out(receipt.epsilon),
                                "delta": number_out(receipt.delta)}


def scope_prefix(learner: str, labels: Mapping[str, str]) -> str:
    """What the names of a learner's own scopes begin with: those of others are out of reach."""
    mark = hashlib.sha256(canonical(dict(plain_labels(labels))).encode()).hexdigest()[:12]
    return f"{learner[:100]}[{mark}]: "


@define(eq=False)
class Server:
    """What one confined learner may ask for. It decides nothing itself: `Ledger` and `Session`
    do, exactly as for a learner in this process.

    Attributes:
        data: the guarded table.
        learner: who asks, by the owner's word.
        labels: what its grants carry, by the owner's word too: caps match them.
        resources: what pricing its plans may still cost.
        isolation: how it is kept from the rows, by the owner's word.
        shares: as `Request.shares`, by the owner's word.
        last: the error that was answered last.
        waited: seconds that requests took, where the ledger's owner lets them wait for budget.
    """

    data: Dataset
    learner: str
    labels: Mapping[str, str] = field(factory=dict)
    resources: ResourceLimits = field(factory=lambda: ResourceLimits(DEFAULTS))
    isolation: str = ISOLATION
    shares: bool = False
    last: PrivledgerError | None = field(default=None, init=False)
    waited: float = field(default=0.0, init=False)
    _reader: WireReader = field(init=False)
    _sessions: list[Session] = field(factory=list, init=False)
    _scopes: dict[str, Scope] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = WireReader(self.data)

    def answer(self, message: Json) -> Json:
        """One request, one reply. Errors become replies; none carries a record's value.

        Raises:
            IsolationLimit: the learner passed a limit, which ends it.
        """
        asks: dict[str, Callable[[Json], Json]] = {
            "totals": self._totals, "request": self._request, "open_scope": self._open_scope,
            "filtered": self._filtered, "release": self._release, "close": self._close}
        try:
            self._reader.learn(items(message, "define"))
            name = text_field(message, "ask")
            if name not in asks:
                raise NotGranted("a request of an unknown kind; nothing was read")
            return asks[name](message)
        except IsolationLimit:
            raise
        except PrivledgerError as error:
            self.last = error
            return error_out(error)
        except Exception as error:  # its text may quote a value
            self.last = None
            return error_out(error)

    def end(self, *, failed: bool) -> None:
        """Close what was left open. A grant that touched rows keeps its whole charge."""
        for session in self._sessions:
            session.close(failed=LearnerError if failed else None)

    @property
    def _ledger(self) -> LedgerService:
        return _ledger(self.data.ledger)

    def _session(self, message: Json) -> Session:
        place = count("session", message.get("session"), least=0)
        if place >= len(self._sessions):
            raise NotGranted("no grant was given; nothing was read")
        return self._sessions[place]

    def _totals(self, message: Json) -> Json:
        ledger = self._ledger
        return {"spent": number_out(ledger.spent), "left": number_out(ledger.left),
                "receipt": receipt_out(ledger.receipt)}

    def _request(self, message: Json) -> Json:
        if len(self._sessions) >= MOST_SESSIONS:
            raise NotGranted("too many grants for one learner; nothing was read")
        self._refuse_chosen(message)
        scope, claimed = message.get("scope"), message.get("claimed")
        if scope is not None and scope not in self._scopes:
            raise NotGranted("a scope that this learner did not open; nothing was read")
        plan, delta = self._priced(message.get("plan"), message)
        asked = Request(
            plan, self._reader.object(message.get("data"), Dataset), self.learner, delta,
            None if scope is None else self._scopes[scope], self.labels,
            claimed=None if claimed is None else number("claimed", claimed),
            isolation=self.isolation, shares=self.shares)
        with self.resources.pricing(), self._waiting():
            session = _request(self.data.ledger, asked)
        self._sessions.append(session)
        return {"grant": session.grant, "session": len(self._sessions) - 1}

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Waiting for budget is not the learner's time."""
        begun = time.monotonic()
        try:
            yield
        finally:
            if self._ledger.wait:
                self.waited += time.monotonic() - begun

    @staticmethod
    def _refuse_chosen(message: Json) -> None:
        """What is its owner's to say: which caps a grant falls under, and how long it is held."""
        if message.get("labels"):
            raise NotGranted("labels are set by the ledger's owner in the run file: a learner "
                             "cannot choose its own caps. Nothing was read")
        if message.get("lease") is not None:
            raise NotGranted("how long a grant may be held is its owner's to say; a learner in "
                             "its own process has no lease. Nothing was read")

    def _priced(self, plan: Any, message: Json) -> tuple[Node, float]:
        """A plan whose price is known by now: the request, which holds a lock, finds it."""
        ledger = self._ledger
        node = self.resources.node(plan)
        delta = probability("delta", message.get("delta"), zero=True)
        if delta > ledger.budget.delta:
            raise NotGranted("a delta above the budget's; nothing was read")
        with self.resources.pricing():
            # Price a plan as its request will, so that the request finds every price made.
            rule, relation = ledger._history.refresh().rule, check_relation(ledger.relation)
            with charging():  # a request looks nowhere else
                if rule is None:
                    rule = choose_filter(cost_of(node, relation), ledger.budget)
                rule.price(cost_of(node, relation, rule.orders), delta)
        return node, delta

    def _open_scope(self, message: Json) -> Json:
        name = message.get("name")
        node, delta = self._priced(message.get("node"), message)
        if not isinstance(node, IndividualFilter):
            raise NotGranted("a scope is an individual filter; nothing was read")
        # Another learner's scope, or another team's, is paid for already: its name is not free.
        own = None if name is None else f"{scope_prefix(self.learner, self.labels)}{name!s:.60}"
        if name is not None:
            text_field(message, "name")
        with self.resources.pricing():
            scope = self._ledger.open_scope(node, name=own, delta=delta)
        self._scopes[scope.name] = scope
        return {"name": scope.name}

    def _filtered(self, message: Json) -> Json:
        node = None if message.get("node") is None else self.resources.node(message["node"])
        if node is not None and not isinstance(node, IndividualFilter):
            raise NotGranted("no filter was reserved. Nothing was read")
        self._reader.keep(message.get("id"), self._session(message).filtered(node))
        return {}

    def _release(self, message: Json) -> Json:
        question = self._reader.query(message.get("query"))
        refuse_long(question, _vault_of(self.data._vault).facts, self.resources.limits.message_mb)
        answer = self._session(message).release(
            self.resources.node(message.get("mechanism")), question,
            rollover=count("rollover", message.get("rollover"), least=0))
        if isinstance(answer, Picked):
            return {"feature": array_out(answer.feature), "cut": array_out(answer.cut)}
        if isinstance(answer, Groups):
            return {"names": list(answer.names), "counts": array_out(answer.counts)}
        if isinstance(answer, np.ndarray) and answer.dtype.kind == "i":
            return {"chosen": array_out(answer)}
        answers = answer if isinstance(answer, list) else [answer]
        return {"answers": [array_out(item) for item in answers]}

    def _close(self, message: Json) -> Json:
        session = self._session(message)
        session.close(failed=LearnerError if message.get("failed") is not False else None)
        return {"receipt": receipt_out(session.receipt or self._ledger.receipt)}
