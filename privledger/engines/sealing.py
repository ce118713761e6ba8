"""Messages that only owners of a spool's key can read or make: a mask, and a mark.

The mask is a SHAKE-256 stream under the key and a fresh nonce, the mark an HMAC over all of it. So
a scheduler, a wire and their logs see uniform bytes, and cannot change one unnoticed.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets

import numpy as np

from privledger.errors import EngineError

_NONCE, _MARK = 16, 32


def seal(key: bytes, purpose: str, text: bytes) -> bytes:
    """A message for whoever has the key and expects this purpose."""
    nonce = secrets.token_bytes(_NONCE)
    body = nonce + _masked(key, purpose, nonce, text)
    return body + _mark(key, purpose, body)


def unseal(key: bytes, purpose: str, message: bytes) -> bytes:
    """The text of a message.

    Raises:
        EngineError: it is not one under this key and for this purpose.
    """
    body, mark = message[:-_MARK], message[-_MARK:]
    if len(body) < _NONCE or not hmac.compare_digest(mark, _mark(key, purpose, body)):
        raise EngineError("a message that nobody who has the spool's key wrote")
    return _masked(key, purpose, body[:_NONCE], body[_NONCE:])


def _masked(key: bytes, purpose: str, nonce: bytes, text: bytes) -> bytes:
    mask = hashlib.shake_256(_derived(key, "mask", purpose) + nonce).digest(len(text))
    mixed = np.frombuffer(text, dtype=np.uint8) ^ np.frombuffer(mask, dtype=np.uint8)
    return mixed.tobytes()


def _mark(key: bytes, purpose: str, body: bytes) -> bytes:
    return hmac.digest(_derived(key, "mark", purpose), body, "sha256")


def _derived(key: bytes, use: str, purpose: str) -> bytes:
    return hmac.digest(key, f"privledger {use}\0{purpose}".encode(), "sha256")
