"""Who takes part in a run and what it may ask: fixed before anything is read, and signed for.

Owners are known by Ed25519 keys. For every run each makes a fresh X25519 key and signs it, so a
stranger or a swapped key is found before the first question.
"""

from __future__ import annotations

import hashlib
import json

from attrs import fields, frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from privledger.accounting import check_relation
from privledger.errors import InvalidPlan, InvalidValue, NotGranted
from privledger.graph import Federated, Group, Node, Repeat, canonical, from_json, to_json
from privledger.rounding import count, probability
from privledger.tables.schema import Schema
from privledger.tables.values import Json, bytes_in, bytes_out, table, text_field

MOST_OWNERS = 1000
KEY_BYTES = 32
_HELLO = b"privledger federation hello 2\0"


def new_key() -> bytes:
    """A fresh secret Ed25519 key, 32 bytes: its holder speaks for the owner."""
    return Ed25519PrivateKey.generate().private_bytes_raw()


def public_key(secret: bytes) -> bytes:
    """What others know an owner by, 32 bytes."""
    return Ed25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def signed(secret: bytes, message: bytes) -> bytes:
    """An Ed25519 signature, 64 bytes."""
    return Ed25519PrivateKey.from_private_bytes(secret).sign(message)


def is_signed(public: bytes, signature: bytes, message: bytes) -> bool:
    """Whether the signature is of this key on this message."""
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


@frozen
class Owner:
    """One that takes part: a public name, and its public Ed25519 key of 32 bytes."""

    name: str
    key: bytes

    def __attrs_post_init__(self) -> None:
        if not (isinstance(self.name, str) and 0 < len(self.name) <= 100):
            raise InvalidValue("name", type(self.name).__name__, "a text of 1 to 100 characters")
        if not (type(self.key) is bytes and len(self.key) == KEY_BYTES):
            raise InvalidValue("key", type(self.key).__name__, "32 bytes")


@frozen
class Run:
    """What all owners agree to. Its digest is in every mask and under every signature.

    Attributes:
        name: of the run; another run of the same owners takes another one.
        owners: who takes part, in the order of the roster. All of them answer every question.
        schema: digest of the schema that every owner's table has.
        plan: the one plan that each owner reserves in its own ledger, as canonical JSON.
        delta: that the plan is reserved with.
        learner: the name under which it is reserved.
        relation: of every owner's ledger.
        noise: `local`: every owner adds the whole noise of the plan. `shared`: each adds a share,
            such that all but `colluding` of them make it whole.
        colluding: how many owners may give away what they know, of noise that is shared; at least
            1, as an owner that sees the model knows its own share. 0 for `local`.
        least_honest: with fewer owners that do not, no run begins.
        owners_per_person: how many owners may have rows of one person, at most, as all of them
            declare; None where no owner says, which ledgers of people do not join.
    """

    name: str
    owners: tuple[Owner, ...]
    schema: str
    plan: str
    delta: float
    learner: str
    relation: str
    noise: str = "local"
    colluding: int = 0
    least_honest: int = 1
    owners_per_person: int | None = None

    def __attrs_post_init__(self) -> None:
        if not 1 <= len(self.owners) <= MOST_OWNERS:
            raise InvalidValue("owners", len(self.owners), f"from 1 to {MOST_OWNERS}")
        if (len({owner.name for owner in self.owners}) < len(self.owners)
                or len({owner.key for owner in self.owners}) < len(self.owners)):
            raise InvalidValue("owners", "two alike", "names and keys of their own")
        for name in (self.name, self.learner):
            if not (isinstance(name, str) and 0 < len(name) <= 100):
                raise InvalidValue("name", type(name).__name__, "a text of 1 to 100 characters")
        check_relation(self.relation)
        probability("delta", self.delta, zero=True)
        if self.noise not in ("local", "shared"):
            raise InvalidPlan("noise", self.noise, "local or shared")
        count("colluding", self.colluding, least=0)
        count("least_honest", self.least_honest, least=1)
        if self.noise == "local" and (self.colluding, self.least_honest) != (0, 1):
            raise InvalidPlan("colluding and least_honest", "given", "left out: with its whole "
                              "noise no owner trusts another")
        if self.noise == "shared" and not 1 <= self.colluding < len(self.owners):
            raise InvalidPlan("colluding", self.colluding, "from 1, as an owner that sees the "
                              "model knows its own share of the noise, to one less than the owners")
        if self.owners_per_person is not None:
            count("owners_per_person", self.owners_per_person, most=len(self.owners))
        if self.honest < self.least_honest:
            raise NotGranted(f"{self.honest} of {len(self.owners)} owners are assumed to be "
                             f"honest, and {self.least_honest} are asked for; nothing was read")

    @staticmethod
    def of(name: str, owners: tuple[Owner, ...], schema: Schema, plan: Node, *, delta: float,
           learner: str, relation: str = "add_remove", noise: str = "local",
           colluding: int = 0, least_honest: int = 1,
           owners_per_person: int | None = None) -> Run:
        """A run from the records that it is about."""
        return Run(name, owners, schema_digest(schema), canonical(to_json(plan)), float(delta),
                   learner, relation, noise, colluding, least_honest, owners_per_person)

    @staticmethod
    def from_agreed(value: Json) -> Run:
        """The run of which `agreed` is `value`.

        Raises:
            InvalidPlan: of none.
        """
        try:
            owners = tuple(Owner(name, bytes.fromhex(key)) for name, key in value["owners"])
            found = Run(owners=owners, delta=float.fromhex(value["delta"]), **{
                one.name: value[one.name] for one in fields(Run)
                if one.name in value and one.name not in ("owners", "delta")})
        except (AttributeError, KeyError, TypeError, ValueError):
            raise InvalidPlan("run", "what was agreed", "a run's own words") from None
        if found.agreed != value:
            raise InvalidPlan("run", "what was agreed", "a run's own words")
        return found

    @property
    def honest(self) -> int:
        """How many owners' shares make the noise whole."""
        return len(self.owners) - self.colluding

    @property
    def reserved(self) -> Federated:
        """The plan as each owner's ledger reserves it.

        Raises:
            InvalidMechanism: noise that is shared and not made of Gaussians.
        """
        parties, plan = len(self.owners), from_json(json.loads(self.plan))
        if self.noise == "local":
            return Federated(plan, parties, parties - 1)
        return Federated(plan, parties, self.colluding, self.least_honest, noise="shared")

    @property
    def of_person(self) -> Node:
        """What a run costs a person with rows at as many owners as are declared.

        Whole noises are independent, so it is that many plans, one after another. Of a sum whose
        noise is shared they move one release all together.

        Raises:
            InvalidPlan: no owner declared how many.
        """
        if self.owners_per_person is None:
            raise InvalidPlan("owners_per_person", "not declared", "given")
        plan, several = from_json(json.loads(self.plan)), self.owners_per_person
        if several == 1:
            return plan
        return Repeat(plan, several) if self.noise == "local" else Group(several, plan)

    @property
    def agreed(self) -> Json:
        """Everything above, as JSON values."""
        trusted: Json = {} if self.noise == "local" else {
            "colluding": self.colluding, "least_honest": self.least_honest}
        if self.owners_per_person is not None:
            trusted["owners_per_person"] = self.owners_per_person
        return trusted | {"name": self.name, "schema": self.schema, "plan": self.plan,
                "owners": [[owner.name, owner.key.hex()] for owner in self.owners],
                "delta": float(self.delta).hex(), "learner": self.learner,
                "relation": self.relation, "noise": self.noise}

    @property
    def digest(self) -> bytes:
        """SHA-256 of everything above."""
        return hashlib.sha256(canonical(self.agreed).encode()).digest()

    @property
    def names(self) -> list[str]:
        """Of the owners, in the order of the roster."""
        return [owner.name for owner in self.owners]

    def owner(self, name: str) -> Owner:
        """The one of this name. Raises `NotGranted` for a stranger."""
        for owner in self.owners:
            if owner.name == name:
                return owner
        raise NotGranted("a stranger: not on the roster of this run; nothing was read")


def schema_digest(schema: Schema) -> str:
    """SHA-256 of a schema, in hexadecimal."""
    return hashlib.sha256(canonical(schema.to_dict()).encode()).hexdigest()


def hello(run: Run, name: str, secret: bytes, public: bytes) -> Json:
    """An owner's signed X25519 key for one run.

    Raises:
        InvalidPlan: the secret is not of the key on the roster.
    """
    if public_key(secret) != run.owner(name).key:
        raise InvalidPlan("key", name, "the secret of the key on the roster")
    return {"owner": name, "public": bytes_out(public),
            "signature": bytes_out(signed(secret, _said(run, name, public)))}


def met(run: Run, hellos: list[Json]) -> dict[str, bytes]:
    """The X25519 keys of all owners, each under its owner's signature for this run.

    Raises:
        NotGranted: an owner is missing, unknown, there twice, or signed something else.
    """
    found: dict[str, bytes] = {}
    for one in hellos:
        owner = run.owner(text_field(one, "owner", 100))
        public = bytes_in(one, "public")
        if not is_signed(owner.key, bytes_in(one, "signature"), _said(run, owner.name, public)):
            raise NotGranted(f"the key of {owner.name} is not signed for this run; nothing was "
                             "read")
        if owner.name in found or public in found.values():
            raise NotGranted("a key or an owner is there twice; nothing was read")
        found[owner.name] = public
    if len(found) < len(run.owners):
        raise NotGranted("an owner of the roster is missing; nothing was read")
    return found


def _said(run: Run, name: str, public: bytes) -> bytes:
    return _HELLO + run.digest + hashlib.sha256(name.encode()).digest() + public


# What owners sign at the end: that all of them were asked the same, and where it is charged.

_MARK = b"privledger federation statement 1\0"


def statement(run: Run, name: str, secret: bytes, rounds: int, transcript: bytes,
              receipt: Json) -> Json:
    """One owner's word on a finished run, with the receipt of its ledger."""
    body: Json = {"owner": name, "run": run.digest.hex(), "rounds": rounds,
                  "transcript": transcript.hex(), "receipt": receipt}
    return body | {"signature": bytes_out(signed(secret, _MARK + canonical(body).encode()))}


def verify_statements(run: Run, statements: list[Json]) -> list[str]:
    """What is wrong with the statements of a run; empty if one transcript reached all owners.

    It says nothing of the ledgers themselves: each has `verify`, and its receipt is in here.
    """
    wrong: list[str] = []
    told: dict[str, tuple[str, str]] = {}
    for one in statements:
        try:
            owner = run.owner(text_field(table(one), "owner", 100))
            body = {key: value for key, value in one.items() if key != "signature"}
            if not is_signed(owner.key, bytes_in(one, "signature"),
                             _MARK + canonical(body).encode()):
                wrong.append(f"{owner.name}: not signed by the key on the roster")
            elif one.get("run") != run.digest.hex():
                wrong.append(f"{owner.name}: of another run")
            elif owner.name in told:
                wrong.append(f"{owner.name}: there twice")
            else:
                told[owner.name] = (str(one.get("rounds")), text_field(one, "transcript", 64))
        except NotGranted:
            wrong.append("a statement of a stranger")
        except Exception:
            wrong.append("a statement that cannot be read")
    wrong += [f"{name}: no statement" for name in run.names if name not in told]
    if len(set(told.values())) > 1:
        wrong.append("the owners were not asked the same: split views")
    return wrong
