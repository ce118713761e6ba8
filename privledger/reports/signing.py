"""Signed receipts: whoever holds the key vouches for a head, and an editor of the file cannot."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import Any

from privledger.errors import InvalidPlan, InvalidValue
from privledger.graph import canonical

ALGORITHM = "hmac-sha256"
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
