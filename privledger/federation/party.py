"""One owner's side of a run: its own ledger, its own grant, its own noise: whole, or a share.

Every question goes through the owner's own guard, as one of a confined learner does: it is
charged to the owner's own grant, answered from its own rows, and noised from its own ledger's
source. What is added here is done to the answer afterwards: whole steps, and a mask.
"""

from __future__ import annotations

import hashlib
from typing import Protocol

import numpy as np
from attrs import define, field, frozen
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from privledger.broker.failures import error_out
from privledger.broker.server import Server
from privledger.errors import InvalidPlan, NotGranted, PrivledgerError, UnsupportedNode
from privledger.federation.enlisted import Run, hello, met, schema_digest, statement
from privledger.graph import (
    Correlated,
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
from privledger.graph.additive import Gaussian
from privledger.guard.dataset import Dataset
from privledger.guard.handle import _ledger
from privledger.guard.vault import _vault_of
from privledger.mutex import Mutex
from privledger.questions.query import Query
from privledger.rounding import count, number
from privledger.tables.values import Json, array_in, array_out, items, table, text_field

# Masks that cancel in the sum over all owners: vectors of whole numbers modulo 2**64.
#
# Each pair of owners has one key of the run, by HKDF-SHA256 from their X25519 secret, their names
# and their public keys: different points of the curve can give one secret. The mask of one attempt
# is a ChaCha20 stream under a key of its own, from the pair's key and everything the attempt is
# about. The first of a pair adds the stream, the second takes it away. An attempt is used once.

SEED_BITS = 256
"""Of the key of every stream."""

Words = NDArray[np.uint64]
_NONCE = bytes(16)  # a key is used for one stream


@frozen
class Attempt:
    """What one vector answers, and with whom. Every field is in the mask.

    Attributes:
        run: digest of the run. round, attempt: numbers from 0.
        members: whose vectors are added up, in the order of the roster.
        transcript: digest of all that was asked, with its mechanisms, up to this question.
        context: all of it in 32 bytes; made once, as every pair of owners asks for it.
    """

    run: bytes
    round: int
    attempt: int
    members: tuple[str, ...]
    transcript: bytes
    context: bytes = field(init=False)

    @context.default
    def _context(self) -> bytes:
        said = canonical({"run": self.run.hex(), "round": self.round, "attempt": self.attempt,
                          "members": list(self.members), "transcript": self.transcript.hex()})
        return hashlib.sha256(said.encode()).digest()


class SecureSum(Protocol):
    """How an owner hides its vector from the coordinator."""

    def masked(self, vector: Words, attempt: Attempt) -> Words:
        """The vector under the masks of one attempt. Raises `NotGranted` for a second one."""


@define(eq=False, repr=False)
class PlainSum:
    """No masks: for a roster of one, whose sum is its own vector."""

    _burnt: set[bytes] = field(factory=set, init=False)

    def masked(self, vector: Words, attempt: Attempt) -> Words:
        """As `SecureSum.masked`: a copy."""
        _burn(self._burnt, attempt)
        return vector.copy()


@define(eq=False, repr=False)
class MaskedSum:
    """Masks by pairs. Without one of the vectors the sum of the others is uniform."""

    _pairs: tuple[tuple[bool, bytes], ...] = field(alias="pairs")
    _burnt: set[bytes] = field(factory=set, init=False)

    @staticmethod
    def between(secret: X25519PrivateKey, name: str, keys: dict[str, bytes],
                names: list[str]) -> MaskedSum:
        """The secrets of one owner with every other.

        Args:
            name: whose they are. keys: public X25519 keys by owner. names: the roster's order.

        Raises:
            NotGranted: a key that gives no secret.
        """
        own = names.index(name)
        try:
            return MaskedSum(tuple(
                (own < place, _pair_key(secret, keys, other, names[min(own, place)],
                                        names[max(own, place)]))
                for place, other in enumerate(names) if place != own))
        except ValueError:
            raise NotGranted("a key of the run gives no secret; nothing was read") from None

    def masked(self, vector: Words, attempt: Attempt) -> Words:
        _burn(self._burnt, attempt)
        found = vector.copy()
        for adds, shared in self._pairs:
            stream = _stream(shared, attempt, len(vector))
            found = found + stream if adds else found - stream  # modulo 2**64
        return found


def _burn(burnt: set[bytes], attempt: Attempt) -> None:
    if attempt.context in burnt:
        raise NotGranted("this attempt was answered already; nothing was read")
    burnt.add(attempt.context)


def _pair_key(secret: X25519PrivateKey, keys: dict[str, bytes], other: str, first: str,
              second: str) -> bytes:
    """What two owners share, 32 bytes, and no other two: not even where their secrets agree.

    An owner may give out any point as its key, one that is worth another owner's too (its inverse
    for example): without the names its stream with a third owner would be that other owner's.
    """
    found = secret.exchange(X25519PublicKey.from_public_bytes(keys[other]))
    said = canonical({"first": first, "first_key": keys[first].hex(),
                      "second": second, "second_key": keys[second].hex()})
    key: bytes = HKDF(SHA256(), SEED_BITS // 8, None,
                      b"privledger pair 1\0" + said.encode()).derive(found)
    return key


def _stream(shared: bytes, attempt: Attempt, size: int) -> Words:
    """Words that only both of a pair know."""
    key: bytes = HKDF(SHA256(), SEED_BITS // 8, attempt.run,
                      b"privledger mask 1\0" + attempt.context).derive(shared)
    data: bytes = Cipher(ChaCha20(key, _NONCE), None).encryptor().update(bytes(8 * size))
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)


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
                          self.resources.node(message.get("mechanism")))
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
        # A ledger of people promises something about all of a person's rows: of its own tables.
        unit = _ledger(ledger).unit
        several = self.run.owners_per_person
        if unit == "person" and several is None:
            raise UnsupportedNode("people may have rows with several owners, and no ledger counts "
                                  "that: a ledger of people joins a run that declares with how "
                                  "many (owners_per_person). Nothing was read")
        if unit == "person" and several != 1 and self.run.noise == "shared":
            raise UnsupportedNode("a person with rows at several owners changes a sum with shared "
                                  "noise several times, but no ledger charges for that. A ledger "
                                  "of people can join such a run if owners_per_person is 1. "
                                  "Nothing was read")
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
        return hello(self.run, self.name, self._secret, self._fresh.public_key().public_bytes_raw())

    def _meet(self, hellos: list[Json]) -> Json:
        if self._sum is not None:
            raise NotGranted("the owners met already: an owner cannot join a run twice; nothing "
                             "was read")
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
        if text_field(message, "run", 64) != self.run.digest.hex():
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
        # The reply of this round, under the masks of this attempt.
        if not self._reply:
            raise NotGranted("this round failed here; what was charged stands")
        if self._vector is None:
            return self._reply
        assert self._sum is not None
        masked = self._sum.masked(self._vector, Attempt(
            self.run.digest, self._round, attempt, tuple(self.run.names), self._transcript))
        return self._reply | {"masked": array_out(masked)}

    def _handled(self, asked: Json) -> Json:
        name = text_field(asked, "ask", 40)
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
        check_sums(from_json(asked.get("plan")))
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


def check_sums(plan: Node) -> None:
    """Raise `UnsupportedNode` where the plan has a mechanism that no owner will answer."""
    if wanting := _not_gaussian(plan):
        raise UnsupportedNode(f"owners add up sums with Gaussian noise; a plan with {wanting} "
                              "cannot be federated. Nothing was read")


def _not_gaussian(plan: Node) -> str:
    """A mechanism that no owner will answer and that the plan cannot do without; empty if none.

    Found before the reservation: a learner that asks sums first would have its charge kept.
    """
    inside = children(plan)
    if not inside or isinstance(plan, Correlated):
        free = isinstance(plan, Gaussian | PostProcess | Public | IndividualFilter | Sequential)
        return "" if free else type(plan).__name__
    found = [_not_gaussian(one) for one in dict.fromkeys(inside)]
    needed = found if not isinstance(plan, OneOf) or all(found) else []
    return next(filter(None, needed), "")
