"""Signed receipts: whoever holds the key vouches for a head, and an editor of the file cannot.

HMAC-SHA256 with a secret that both sides know, or Ed25519, where the side that checks needs only
the public key (with the package `cryptography`: the extra `signing`).
"""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privledger.errors import InvalidPlan, InvalidValue
from privledger.graph import canonical

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

ALGORITHM, ED25519 = "hmac-sha256", "ed25519"
_LEAST_KEY = 16  # bytes


def read_key(path: str | Path) -> bytes:
    """A secret key from a file; at least 16 bytes, surrounding white space left out.

    Raises:
        InvalidValue: too short, or cannot be read. The key is never shown.
    """
    try:
        key = Path(path).read_bytes().strip()
    except OSError:
        raise InvalidValue("key file", Path(path).name, "a file that can be read") from None
    if len(key) < _LEAST_KEY:
        raise InvalidValue("key", f"{len(key)} bytes", f"at least {_LEAST_KEY} bytes long")
    return key


def _digest(receipt: dict[str, Any], key: bytes) -> str:
    signed = {name: value for name, value in receipt.items()
              if name not in ("signature", "algorithm")}
    return hmac.new(key, canonical(signed).encode("ascii"), hashlib.sha256).hexdigest()


def sign_receipt(receipt: dict[str, Any], key: bytes) -> dict[str, Any]:
    """The receipt with `algorithm` and `signature` over all its other fields."""
    return receipt | {"algorithm": ALGORITHM, "signature": _digest(receipt, key)}


def check_signature(receipt: dict[str, Any], key: bytes) -> None:
    """Raise unless the receipt was signed with `key`, word for word.

    Raises:
        InvalidPlan: unsigned, signed by another key, or altered since.
    """
    if receipt.get("algorithm") != ALGORITHM or not isinstance(receipt.get("signature"), str):
        raise InvalidPlan("receipt", "an unsigned one", f"signed ({ALGORITHM})")
    if not hmac.compare_digest(_digest(receipt, key), receipt["signature"]):
        raise InvalidPlan("receipt signature", "another", "made with this key for these values")


def _message(receipt: dict[str, Any]) -> bytes:
    """What an Ed25519 signature is over: its purpose, then everything but the signature."""
    signed = {name: value for name, value in receipt.items() if name != "signature"}
    return b"privledger receipt 1\n" + canonical(signed).encode("ascii")


def _keys() -> Any:
    """The key formats of `cryptography`, or a message that says how to get it."""
    try:
        from cryptography.hazmat.primitives import serialization
    except ImportError:
        raise InvalidValue("Ed25519 signature", "no package for it",
                           "made with the package cryptography: "
                           "pip install 'privledger[signing]'") from None
    return serialization


def read_private_key(path: str | Path) -> Ed25519PrivateKey:
    """An Ed25519 key in PEM, as `openssl genpkey -algorithm ed25519` writes it.

    Raises:
        InvalidValue: no such key, or it is encrypted. The key is never shown.
    """
    serialization = _keys()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    try:
        key = serialization.load_pem_private_key(Path(path).read_bytes(), None)
    except Exception:  # a parser's message may quote what it parsed
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise InvalidValue("signing key", Path(path).name, "an Ed25519 private key in PEM")
    return key


def read_public_key(path: str | Path) -> Ed25519PublicKey:
    """An Ed25519 key in PEM, as `openssl pkey -pubout` writes it.

    Raises:
        InvalidValue: no such key.
    """
    serialization = _keys()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    try:
        key = serialization.load_pem_public_key(Path(path).read_bytes())
    except Exception:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise InvalidValue("public key", Path(path).name, "an Ed25519 public key in PEM")
    return key


def sign_with(receipt: dict[str, Any], key: Ed25519PrivateKey) -> dict[str, Any]:
    """The receipt with `algorithm` and an Ed25519 `signature` over everything else."""
    named = receipt | {"algorithm": ED25519}
    return named | {"signature": key.sign(_message(named)).hex()}


def check_signed_with(receipt: dict[str, Any], key: Ed25519PublicKey) -> None:
    """Raise unless the receipt was signed by the owner of `key`, word for word.

    Raises:
        InvalidPlan: unsigned, signed by another key, or altered since.
    """
    from cryptography.exceptions import InvalidSignature

    if receipt.get("algorithm") != ED25519 or not isinstance(receipt.get("signature"), str):
        raise InvalidPlan("receipt", "an unsigned one", f"signed ({ED25519})")
    try:
        key.verify(bytes.fromhex(receipt["signature"]), _message(receipt))
    except (InvalidSignature, ValueError):
        raise InvalidPlan("receipt signature", "another",
                          "made with this key for these values") from None
