"""Masks that cancel in the sum over all owners: vectors of whole numbers modulo 2**64.

Each pair of owners has one key of the run, by HKDF-SHA256 from their X25519 secret, their names
and their public keys: different points of the curve can give one secret. The mask of one attempt
is a ChaCha20 stream under a key of its own, from the pair's key and everything the attempt is
about. The first of a pair adds the stream, the second takes it away. An attempt is used once.
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

from privledger.errors import NotGranted
from privledger.graph import canonical

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
    """How an owner hides its vector from whoever adds up."""

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
    """Words that both of a pair know and nobody else."""
    key: bytes = HKDF(SHA256(), SEED_BITS // 8, attempt.run,
                      b"privledger mask 1\0" + attempt.context).derive(shared)
    data: bytes = Cipher(ChaCha20(key, _NONCE), None).encryptor().update(bytes(8 * size))
    return np.frombuffer(data, dtype="<u8").astype(np.uint64)
