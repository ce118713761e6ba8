"""One owner's side of a run: its own ledger, its own grant, its own noise: whole, or a share.

Every question goes through the owner's own guard, as one of a confined learner does: it is
charged to the owner's own grant, answered from its own rows, and noised from its own ledger's
source. What is added here is done to the answer afterwards: whole steps, and a mask.
"""

from __future__ import annotations

import hashlib

import numpy as np
from attrs import define, field
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from numpy.typing import NDArray

from privledger.broker.failures import error_out
from privledger.broker.server import Server
from privledger.errors import InvalidPlan, NotGranted, PrivledgerError, UnsupportedNode
from privledger.facts.values import Json, array_in, array_out, items, table, text
from privledger.federation.enlisted import Run, hello, met, schema_digest
from privledger.federation.secure_sum import Attempt, MaskedSum, PlainSum, SecureSum, Words
from privledger.federation.statements import statement
from privledger.graph import (
    IndividualFilter,
    Node,
    OneOf,
    PostProcess,
    Public,
    Sequential,
    canonical,
    children,
    from_json,
    share_of,
    to_json,
)
from privledger.guard.dataset import Dataset
from privledger.guard.handle import _ledger
from privledger.guard.vault import _vault_of
from privledger.mechanisms import Gaussian
from privledger.mutex import Mutex
from privledger.questions.query import Query
from privledger.rounding import count, number

MOST_ATTEMPTS = 8
LEAST_STEPS = 32  # of a share's noise: docs/proofs/federated.md, "Sums of rounded shares"
MOST_STEPS = 2.0**52  # of one owner's answer: sums over a roster stay whole in 64 bits
ASKS = ("request", "filtered", "release", "close")


@define(eq=False)
class _Answers(Server):
    """As `Server`, for sums with Gaussian noise alone, and with the grid of every answer.

    Attributes:
        honest: how many shares make a noise whole; 1 where each owner adds all of it.
    """

    honest: int = 1

    def _release(self, message: Json) -> Json:
        question, leaf = (self._reader.query(message.get("query")),
                          self.purse.node(message.get("mechanism")))
        if type(question) is not Query or type(leaf) is not Gaussian:
            raise UnsupportedNode(
                f"owners add up sums with Gaussian noise; a {type(question).__name__} under "
                f"{type(leaf).__name__} cannot be federated. Nothing was read")
        share = share_of(leaf, self.honest)
        state = question.prepare(share, self.data.ledger.relation)
        if self.honest > 1 and not all(recipe.noise >= LEAST_STEPS for recipe in state.recipes):
            raise UnsupportedNode(f"a share of less than {LEAST_STEPS} grid steps of noise: its "
                                  "sum is not proved to be Gaussian. Nothing was read")
        message = message | {"mechanism": to_json(share)}
        return Server._release(self, message) | {"grids": [recipe.grid for recipe in state.recipes]}


@define(eq=False, repr=False)
class Party:
    """Answers one run on one guarded table. `answer` is all that others reach.

    Attributes:
        run: what was agreed; checked against the table and its ledger here.
        name: of the owner, as on the roster.
        data: straight from `Ledger.protect`.
        statement: what it signed when the run's grant was closed; None before.
    """

    run: Run
    name: str
    data: Dataset
    _secret: bytes = field(alias="secret")
    _server: _Answers = field(init=False)
    _fresh: X25519PrivateKey = field(init=False, factory=X25519PrivateKey.generate)
    _sum: SecureSum | None = field(init=False, default=None)
    _lock: Mutex = field(init=False, factory=Mutex)
    _round: int = field(init=False, default=-1)
    _attempt: int = field(init=False, default=-1)
    _asked: bytes = field(init=False, default=b"")
    _transcript: bytes = field(init=False, default=b"")
    _reply: Json = field(init=False, factory=dict)
    _vector: Words | None = field(init=False, default=None)
    _requested: bool = field(init=False, default=False)
    _over: bool = field(init=False, default=False)
    statement: Json | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        ledger, schema = self.data.ledger, self.data.schema
        if ledger.mode != "private":
            raise NotGranted("a simulation's noise can be repeated: it joins no run; nothing was "
                             "read")
        self._check_people(_ledger(ledger).unit)
        if _vault_of(self.data._vault).public is not None:
            raise UnsupportedNode("features declared public stay with their owner; such a table "
                                  "joins no run. Nothing was read")
        if schema_digest(schema) != self.run.schema:
            raise InvalidPlan("schema", schema.name, "the one of the run")
        if ledger.relation != self.run.relation:
            raise InvalidPlan("relation", ledger.relation, "the one of the run")
        self._transcript = self.run.digest
        shared = self.run.noise == "shared"
        self._server = _Answers(self.data, self.run.learner, isolation="guarded", shares=shared,
                                honest=self.run.honest if shared else 1)
        hello(self.run, self.name, self._secret, bytes(32))  # the secret is of the roster's key

    def _check_people(self, unit: str) -> None:
        """A ledger of people promises something about all of a person's rows: of its own tables."""
        several = self.run.owners_per_person
        if unit == "person" and several is None:
            raise UnsupportedNode("people may have rows with several owners, and no ledger counts "
                                  "that: a ledger of people joins a run that declares with how "
                                  "many (owners_per_person). Nothing was read")
        if unit == "person" and several != 1 and self.run.noise == "shared":
            raise UnsupportedNode("somebody with rows at several owners moves a sum of shared "
                                  "noise several times, which no ledger books: a ledger of people "
                                  "joins such a run if owners_per_person is 1. Nothing was read")

    def answer(self, message: Json) -> Json:
        """One message, one reply. What is refused becomes a reply that names why."""
        with self._lock:
            try:
                if "hello" in message:
                    return self._hello()
                if "meet" in message:
                    return self._meet([table(one) for one in items(message, "meet", 1000)])
                if "end" in message:
                    return self._end()
                return self._answered(message)
            except PrivledgerError as error:
                return error_out(error)
            except Exception as error:  # its text may quote a value
                return error_out(error)

    def close(self) -> None:
        """Leave the run. A grant that touched rows keeps its whole charge."""
        with self._lock:
            self._end()

    def _hello(self) -> Json:
        return hello(self.run, self.name, self._secret,
                     self._fresh.public_key().public_bytes_raw())

    def _meet(self, hellos: list[Json]) -> Json:
        if self._sum is not None:
            raise NotGranted("the owners met already: nobody joins a run again; nothing was read")
        keys = met(self.run, hellos)
        if keys[self.name] != self._fresh.public_key().public_bytes_raw():
            raise NotGranted("another key is given out as this owner's; nothing was read")
        # Fresh keys: what is signed is of this meeting, not of another one with the same words.
        self._transcript = hashlib.sha256(self.run.digest + b"".join(
            keys[name] for name in self.run.names)).digest()
        self._sum = PlainSum() if len(keys) == 1 else MaskedSum.between(
            self._fresh, self.name, keys, self.run.names)
        return {"met": len(keys)}

    def _end(self) -> Json:
        if not self._over:
            self._over = True
            self._vector = None
            self._server.end(failed=True)
        return {"ended": True}

    def _answered(self, message: Json) -> Json:
        if self._sum is None or self._over:
            raise NotGranted("the owners have not met, or the run is over; nothing was read")
        if text(message, "run", 64) != self.run.digest.hex():
            raise NotGranted("a question of another run; nothing was read")
        if items(message, "members", 1000) != self.run.names:
            raise NotGranted("not all owners of the roster are asked; nothing was read")
        place = count("round", message.get("round"), least=0)
        attempt = count("attempt", message.get("attempt"), least=0, most=MOST_ATTEMPTS - 1)
        asked = table(message.get("asked"))
        mark = hashlib.sha256(canonical(asked).encode()).digest()
        if place == self._round + 1:
            # First noted, then asked: whatever happens, nothing is asked twice in a round.
            self._round, self._asked = place, mark
            self._transcript = hashlib.sha256(self._transcript + mark).digest()
            self._reply, self._vector = {}, None
            self._attempt = attempt
            self._reply = self._handled(asked)
        elif place != self._round or mark != self._asked or attempt <= self._attempt:
            raise NotGranted("an older round, a used attempt, or another question in one round; "
                             "nothing was read")
        self._attempt = attempt
        return self._told(attempt)

    def _told(self, attempt: int) -> Json:
        """The reply of this round, under the masks of this attempt."""
        if not self._reply:
            raise NotGranted("this round failed here; what was charged stands")
        if self._vector is None:
            return self._reply
        assert self._sum is not None
        masked = self._sum.masked(self._vector, Attempt(
            self.run.digest, self._round, attempt, tuple(self.run.names), self._transcript))
        return self._reply | {"masked": array_out(masked)}

    def _handled(self, asked: Json) -> Json:
        name = text(asked, "ask", 40)
        if name not in ASKS:
            raise UnsupportedNode(f"a run of many owners has no {name}; nothing was read")
        if name == "request":
            self._check_request(asked)
            asked = asked | {"plan": to_json(self.run.reserved)}
        reply = self._server.answer(asked)
        if "error" in reply:
            return reply
        if name == "release":
            return self._in_steps(reply)
        if name == "close":
            self.statement = statement(self.run, self.name, self._secret, self._round,
                                       self._transcript, table(reply.get("receipt")))
            return self.statement
        return {"done": name}

    def _check_request(self, asked: Json) -> None:
        if self._requested:
            raise NotGranted("a run has one grant; nothing was read")
        if (canonical(table(asked.get("plan"))) != self.run.plan
                or number("delta", asked.get("delta")) != self.run.delta
                or asked.get("scope") is not None):
            raise NotGranted("another plan than the run's; nothing was read")
        wanting = _not_gaussian(from_json(asked.get("plan")))
        if wanting:
            raise UnsupportedNode(f"owners add up sums with Gaussian noise; a plan with {wanting} "
                                  "cannot be federated. Nothing was read")
        self._requested = True

    def _in_steps(self, reply: Json) -> Json:
        """The released numbers in whole steps of their grids; nothing else of the reply."""
        arrays = [array_in(one) for one in items(reply, "answers")]
        grids = [float(grid) for grid in items(reply, "grids")]
        # Grids are powers of two: what was released is a whole number of steps, exactly.
        steps = np.concatenate([np.ravel(array) / grid
                                for array, grid in zip(arrays, grids, strict=True)])
        # A refusal is not masked: it would say something of one share of the noise.
        if self.run.noise == "local" and not (np.abs(steps) <= MOST_STEPS).all():
            raise UnsupportedNode("a sum of more than 2**52 grid steps cannot be federated; what "
                                  "was charged stands")
        self._vector = _modulo(steps)
        return {"grids": [grid.hex() for grid in grids],
                "shapes": [list(array.shape) for array in arrays]}


def _modulo(steps: NDArray[np.float64]) -> Words:
    """Whole numbers of at most 2**63 in magnitude, modulo 2**64."""
    return np.where(steps >= 2.0**63, steps - 2.0**64, steps).astype(np.int64).view(np.uint64)


def _not_gaussian(plan: Node) -> str:
    """A mechanism that no owner will answer and that the plan cannot do without; empty if none.

    Found before the reservation: a learner that asks sums first would have its charge kept.
    """
    inside = children(plan)
    if not inside:
        free = isinstance(plan, Gaussian | PostProcess | Public | IndividualFilter | Sequential)
        return "" if free else type(plan).__name__
    found = [_not_gaussian(one) for one in dict.fromkeys(inside)]
    if isinstance(plan, OneOf):
        return found[0] if all(found) else ""
    return next(filter(None, found), "")
