"""The coordinator: asks all owners the same, and learns sums. It holds no row and no secret.

The learner is the one that fits a single table. Its handle says that the rows are elsewhere, and
each of its questions is one round.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import numpy as np
from attrs import define, field
from numpy.typing import NDArray

from privledger.broker.child import BrokeredLedger, Elsewhere
from privledger.broker.failures import number_in
from privledger.broker.wire import WireDescriber
from privledger.errors import (
    EngineError,
    InvalidPlan,
    InvalidValue,
    NotGranted,
    PrivledgerError,
    UnsupportedNode,
)
from privledger.federation.enlisted import Run, met, schema_digest, verify_statements
from privledger.federation.party import ASKS, MOST_ATTEMPTS, MOST_STEPS, Party, Words
from privledger.guard.dataset import Dataset
from privledger.guard.vault import _sealed
from privledger.ledger import Budget
from privledger.rounding import count
from privledger.tables.schema import Schema
from privledger.tables.values import Json, array_in, array_out, items, table, text_field, whole


class OwnerLine(Protocol):
    """The way to one owner. Replaceable: it carries JSON objects and is trusted with nothing.

    All owners are sent a message before the first reply is waited for.
    """

    def send(self, message: Json) -> None:
        """Carry one message. A reply to an earlier one is of no use any more."""

    def receive(self) -> Json:
        """The reply to it. Raises a `PrivledgerError` or an `OSError` if none comes."""


class Direct:
    """A line that asks when the reply is wanted."""

    _message: Json

    def send(self, message: Json) -> None:
        self._message = message

    def receive(self) -> Json:
        return self.ask(self._message)

    def ask(self, message: Json) -> Json:
        """The reply to a message."""
        raise NotImplementedError


@define(eq=False, repr=False, slots=False)
class InProcess(Direct):
    """An owner in this process; messages are written out as they would be on a wire."""

    party: Party

    def ask(self, message: Json) -> Json:
        reply = self.party.answer(json.loads(json.dumps(message, allow_nan=False)))
        return table(json.loads(json.dumps(reply, allow_nan=False)))


@define(eq=False, repr=False)
class Federation:
    """One run. `data` is what a learner's `fit` takes.

    Attributes:
        run: what was agreed. schema: of every owner's table.
        lines: the way to each owner, by its name.
        budget: what learners are told of a promise; each owner's own ledger decides.
        attempts: how often a round may be tried, 1 to 8. Trying again costs nothing: the same
            noised numbers go out under new masks.
        on_round: called with the number of every round, for progress.
        statements: what the owners signed when the grant was closed; see `verify_statements`.
    """

    run: Run
    schema: Schema
    lines: Mapping[str, OwnerLine]
    budget: Budget
    attempts: int = 3
    data: Dataset = field(init=False)
    statements: list[Json] = field(init=False, factory=list)
    on_round: Callable[[int], None] = field(init=False, default=lambda done: None)
    _round: int = field(init=False, default=-1)
    _over: bool = field(init=False, default=False)
    _asked: Json = field(init=False, factory=dict)
    _why: PrivledgerError = field(init=False, factory=lambda: NotGranted(
        "the run is over; nothing was read"))

    def __attrs_post_init__(self) -> None:
        count("attempts", self.attempts, least=1, most=MOST_ATTEMPTS)
        if schema_digest(self.schema) != self.run.schema:
            raise InvalidPlan("schema", self.schema.name, "the one of the run")
        if sorted(self.lines) != sorted(self.run.names):
            raise InvalidPlan("lines", len(self.lines), "one to each owner of the roster")
        hellos = self._greeted({"hello": self.run.digest.hex()})
        met(self.run, hellos)
        self._greeted({"meet": hellos})
        vault = _sealed(Elsewhere(f"run-{self.run.digest.hex()[:16]}", self.schema))
        ledger = BrokeredLedger(self.run.relation, "private", self.budget, self,
                                WireDescriber(vault, self.schema), noise_factor=math.sqrt(
                                    len(self.run.owners) / (
                                        self.run.honest if self.run.noise == "shared" else 1)))
        self.data = Dataset(self.schema, vault, ledger=ledger)

    @property
    def rounds(self) -> int:
        """How many questions were asked."""
        return self._round + 1

    def send(self, message: Json) -> None:
        """As `Channel.send`: the question of the next round."""
        self._asked = message

    def receive(self) -> Json:
        """As `Channel.receive`: what all owners together say to it.

        Raises:
            EngineError: an owner is gone or says what cannot be, `attempts` times over.
        """
        name = text_field(self._asked, "ask", 40)
        if name not in ASKS:
            raise UnsupportedNode(f"a run of many owners has no {name}: each owner's ledger has "
                                  "its own. Nothing was read")
        if self._over:
            raise self._why
        self._round += 1
        self.on_round(self._round)
        for attempt in range(self.attempts):
            found = self._tried(name, attempt)
            if found is not None:
                return found
        self._why = EngineError(f"round {self._round} is void: an owner is gone or says what "
                                "cannot be; what was charged stands")
        self.end()
        raise self._why

    def end(self) -> None:
        """Tell all owners that the run is over. Owners that read nothing get their charge back."""
        if self._over and self.statements:
            return  # it is over by all owners' signatures
        self._over = True
        for _ in self._replies({"end": self.run.digest.hex()}):
            continue  # where none comes, it ends by itself, at its owner's hand

    def _greeted(self, message: Json) -> list[Json]:
        found = []
        for name, reply in zip(self.run.names, self._replies(message), strict=True):
            if reply is None:
                raise EngineError(f"{name} does not answer; nothing was read")
            if "error" in reply:
                raise EngineError(f"{name} refuses: {text_field(reply, 'text', 400)}")
            found.append(reply)
        return found

    def _replies(self, message: Json) -> Iterator[Json | None]:
        """Of all owners in the roster's order; None from where none comes."""
        sent = []
        for name in self.run.names:
            try:
                self.lines[name].send(message)
                sent.append(True)
            except (PrivledgerError, OSError):
                sent.append(False)
        for name, there in zip(self.run.names, sent, strict=True):
            try:
                yield table(self.lines[name].receive()) if there else None
            except (PrivledgerError, OSError):
                yield None

    def _tried(self, name: str, attempt: int) -> Json | None:
        """What one attempt gave; None if it is void."""
        message = {"run": self.run.digest.hex(), "members": self.run.names,
                   "round": self._round, "attempt": attempt, "asked": self._asked}
        replies: list[Json] = []
        for reply in self._replies(message):
            if reply is None:
                return None
            replies.append(reply)
        refused = [reply for reply in replies if "error" in reply]
        if refused and name == "request":
            self.end()  # owners that granted it get it back
        if refused:
            return refused[0]  # not tried again; all owners have heard the question
        try:
            return self._combined(name, replies)
        except (PrivledgerError, ValueError, ArithmeticError, MemoryError):
            return None

    def _combined(self, name: str, replies: list[Json]) -> Json:
        if name == "release":
            return {"answers": [array_out(one) for one in _summed(replies)]}
        if name == "close":
            wrong = verify_statements(self.run, replies)
            if wrong:
                raise EngineError(wrong[0])
            self.statements, self._over = replies, True
            receipts = [table(one.get("receipt")) for one in replies]
            return {"receipt": max(receipts, key=lambda one: number_in(one, "epsilon"))}
        if any(one.get("done") != name for one in replies):
            raise EngineError("an owner says what cannot be")
        return {"grant": f"run-{self.run.digest.hex()[:16]}", "session": 0}


def _summed(replies: list[Json]) -> list[NDArray[np.float64]]:
    """The sum of all owners' vectors, back in the questions' own units.

    Raises:
        EngineError, InvalidValue: shapes or grids differ, or masks did not cancel.
    """
    first = replies[0]
    shapes = [tuple(whole({"size": size}, "size") for size in items({"shape": one}, "shape", 2))
              for one in items(first, "shapes")]
    grids = [_grid(text_field({"grid": one}, "grid", 64)) for one in items(first, "grids")]
    sizes = [math.prod(shape) for shape in shapes]
    vectors = [array_in(reply.get("masked"), "u") for reply in replies]
    total: Words = np.zeros_like(vectors[0], dtype=np.uint64)  # not of a size that was only said
    for reply, vector in zip(replies, vectors, strict=True):
        if (vector.dtype != np.uint64 or vector.shape != (sum(sizes),)
                or reply.get("shapes") != first["shapes"]
                or reply.get("grids") != first["grids"]):
            raise EngineError("an owner answers in another shape or on another grid")
        total = total + vector  # modulo 2**64
    steps = total.view(np.int64)
    most = int(MOST_STEPS) * len(replies)
    if ((steps > most) | (steps < -most)).any():
        raise EngineError("masks that do not cancel: the owners were asked different things")
    found, start = [], 0
    for shape, grid, size in zip(shapes, grids, sizes, strict=True):
        part = steps[start:start + size].astype(np.float64) * grid
        found.append(part.reshape(shape))
        start += size
    return found


def _grid(value: str) -> float:
    grid = float.fromhex(value)
    if not (math.isfinite(grid) and grid > 0 and math.frexp(grid)[0] == 0.5):
        raise InvalidValue("grid", "something else", "a power of two")
    return grid
