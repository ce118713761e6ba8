"""Strict JSON, the one text of a value, and the hash that binds an entry to the one before."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any

FORMAT = 4  # the latest version of the format that this reader knows
FIELDS = {"position", "kind", "body", "previous", "hash"}
MOST_BODY, MOST_PLAN = 4 << 20, 1 << 20  # bytes of a body; of one with a plan
MOST_LINE = MOST_BODY + (1 << 16)
MOST_PARTS, MOST_DIGITS, MOST_DEPTH = 100_000, 1000, 260
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
HUGE = re.compile(f"[0-9]{{{MOST_DIGITS + 1}}}")


class Bad(Exception):
    """A fault, in words."""


class NoPrice(Exception):
    """Names what has no price in this reader."""


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, refused if a key is there twice."""
    if len(dict(pairs)) != len(pairs):
        raise Bad("the same key twice in one object")
    return dict(pairs)


def finite(text: str) -> float:
    """A number of JSON, refused if it is none of size."""
    if not math.isfinite(float(text)):
        raise Bad("a number that is not finite")
    return float(text)


def parse(raw: bytes, encoding: str) -> Any:
    """The value of some JSON, if it is within the limits."""
    try:
        text = raw.decode(encoding)
        if text.count("{") + text.count("[") > MOST_PARTS:
            raise Bad(f"more than {MOST_PARTS} objects and lists")
        if HUGE.search(text):
            raise Bad(f"a number of more than {MOST_DIGITS} digits")
        return json.loads(text, object_pairs_hook=no_repeats, parse_float=finite,
                          parse_constant=finite)
    except (ValueError, RecursionError):
        raise Bad("not JSON") from None


def canonical(value: Any) -> str:
    """Keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def chain_hash(position: int, kind: str, text: str, previous: str) -> str:
    """Of the hash before, and the one text of the rest; `text` is that of the body."""
    whole = f"{previous}[{position},{canonical(kind)},{text}]"
    return hashlib.sha256(whole.encode("ascii")).hexdigest()


def whole(value: Any, least: int = 0) -> int:
    """A whole number of at least `least`; no true, no 1.0."""
    if type(value) is not int or value < least:
        raise Bad(f"not a whole number of at least {least}")
    return value


def real(value: Any, zero: bool = False) -> float:
    """A finite number above zero, or zero too. No boolean, no text."""
    if type(value) not in (int, float) or not (
            0 < value < math.inf or (zero and value == 0)):
        raise Bad("not a number above zero")
    try:
        found = float(value)
    except OverflowError:
        raise Bad("a number too large") from None
    if 0 < found < 2.2250738585072014e-308:
        raise Bad("a number too close to zero")
    return found


def inert(value: Any) -> str:
    """Text that can do nothing to a terminal: printable ASCII only."""
    return ascii(str(value)[:100])[1:-1][:100]
