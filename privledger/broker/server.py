"""The owner's side of one fit: answers a confined learner's requests on one guarded table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from attrs import define, field

from privledger.broker.failures import error_out, number_out
from privledger.broker.values import Json, array_out, items, table, text
from privledger.broker.wire import Reader
from privledger.data import Dataset, Picked
from privledger.errors import InvalidPlan, LearnerError, NotGranted, PrivledgerError
from privledger.graph import IndividualFilter, Node, from_json
from privledger.ledger import Receipt
from privledger.rounding import count, number
from privledger.session import Ledger, Scope, Session

ISOLATION = "brokered"
MOST_SESSIONS = 10_000


def node_in(value: Any) -> Node:
    """A node that another process described; every record checks itself."""
    try:
        return from_json(value)
    except RecursionError:
        raise InvalidPlan("plan", "a deeper one", "nested less deeply") from None


def receipt_out(receipt: Receipt) -> Json:
    """A receipt as JSON values, infinity included."""
    return receipt.as_dict() | {"epsilon": number_out(receipt.epsilon),
                                "delta": number_out(receipt.delta)}


@define(eq=False)
class Server:
    """What one confined learner may ask for. It decides nothing itself: `Ledger` and `Session`
    do, exactly as for a learner in this process.

    Attributes:
        data: the guarded table.
        learner: who asks, by the owner's word.
        last: the error that was answered last.
    """

    data: Dataset
    learner: str
    last: PrivledgerError | None = field(default=None, init=False)
    _reader: Reader = field(init=False)
    _sessions: list[Session] = field(factory=list, init=False)
    _scopes: dict[str, Scope] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self._reader = Reader(self.data)

    def answer(self, message: Json) -> Json:
        """One request, one reply. Errors become replies; none carries a record's value."""
        asks: dict[str, Callable[[Json], Json]] = {
            "totals": self._totals, "request": self._request, "open_scope": self._open_scope,
            "filtered": self._filtered, "release": self._release, "close": self._close}
        try:
            self._reader.learn(items(message, "define"))
            name = text(message, "ask")
            if name not in asks:
                raise NotGranted("a request of an unknown kind; nothing was read")
            return asks[name](message)
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
    def _ledger(self) -> Ledger:
        ledger: Ledger = self.data.ledger
        return ledger

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
        scope, lease = message.get("scope"), message.get("lease")
        claimed = message.get("claimed")
        if scope is not None and scope not in self._scopes:
            raise NotGranted("a scope that this learner did not open; nothing was read")
        session = self._ledger._request(
            node_in(message.get("plan")),
            self._reader.object(message.get("data"), Dataset), self.learner,
            number("delta", message.get("delta")),
            None if scope is None else self._scopes[scope], table(message.get("labels")),
            lease, ISOLATION, None if claimed is None else number("claimed", claimed))
        self._sessions.append(session)
        return {"grant": session.grant, "session": len(self._sessions) - 1}

    def _open_scope(self, message: Json) -> Json:
        name, node = message.get("name"), node_in(message.get("node"))
        if not isinstance(node, IndividualFilter):
            raise NotGranted("a scope is an individual filter; nothing was read")
        chosen = None if name is None else text(message, "name", 200)
        scope = self._ledger.open_scope(node, name=chosen,
                                        delta=number("delta", message.get("delta")))
        self._scopes[scope.name] = scope
        return {"name": scope.name}

    def _filtered(self, message: Json) -> Json:
        node = None if message.get("node") is None else node_in(message["node"])
        if node is not None and not isinstance(node, IndividualFilter):
            raise NotGranted("no filter was reserved; nothing was read")
        self._reader.keep(message.get("id"), self._session(message).filtered(node))
        return {}

    def _release(self, message: Json) -> Json:
        answer = self._session(message).release(
            node_in(message.get("mechanism")), self._reader.query(message.get("query")),
            rollover=count("rollover", message.get("rollover"), least=0))
        if isinstance(answer, Picked):
            return {"feature": array_out(answer.feature), "cut": array_out(answer.cut)}
        if isinstance(answer, np.ndarray) and answer.dtype.kind == "i":
            return {"chosen": array_out(answer)}
        answers = answer if isinstance(answer, list) else [answer]
        return {"answers": [array_out(item) for item in answers]}

    def _close(self, message: Json) -> Json:
        session = self._session(message)
        session.close(failed=LearnerError if message.get("failed") is not False else None)
        return {"receipt": receipt_out(session.receipt or self._ledger.receipt)}
