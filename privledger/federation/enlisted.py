"""Who takes part in a run and what it may ask: fixed before anything is read, and signed for.

Owners are known by Ed25519 keys. For every run each makes a fresh X25519 key and signs it, so a
stranger or a swapped key is found before the first question.
"""

from __future__ import annotations

import hashlib

from attrs import frozen
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from privledger.accounting import check_relation
from privledger.errors import InvalidPlan, InvalidValue, NotGranted, UnsupportedNode
from privledger.facts.schema import Schema
from privledger.facts.values import Json, bytes_in, bytes_out, text
from privledger.graph import Node, canonical, to_json
from privledger.rounding import probability

MOST_OWNERS = 1000
KEY_BYTES = 32
_HELLO = b"privledger federation hello 1\0"


def new_key() -> bytes:
    """A fresh secret Ed25519 key, 32 bytes: whoever has it speaks for its owner."""
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
        noise: `local`: every owner adds the whole noise of the plan.
    """

    name: str
    owners: tuple[Owner, ...]
    schema: str
    plan: str
    delta: float
    learner: str
    relation: str
    noise: str = "local"

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
        if self.noise != "local":
            raise UnsupportedNode("noise that owners share rests on their trust in each other, and "
                                  "there is no node for its price yet: each owner adds the whole "
                                  "noise (`local`). Nothing was read")

    @staticmethod
    def of(name: str, owners: tuple[Owner, ...], schema: Schema, plan: Node, *, delta: float,
           learner: str, relation: str = "add_remove") -> Run:
        """A run from the records that it is about."""
        return Run(name, owners, schema_digest(schema), canonical(to_json(plan)), float(delta),
                   learner, relation)

    @property
    def agreed(self) -> Json:
        """Everything above, as JSON values."""
        return {"name": self.name, "schema": self.schema, "plan": self.plan,
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
        NotGranted: somebody is missing, unknown, there twice, or signed something else.
    """
    found: dict[str, bytes] = {}
    for one in hellos:
        owner = run.owner(text(one, "owner", 100))
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
