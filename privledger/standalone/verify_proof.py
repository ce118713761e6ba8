#!/usr/bin/env python3
"""Check a proof about a privacy-budget ledger with Python's standard library alone.

    python -I verify_proof.py PROOF.json EARLIER_RECEIPT.json LATER_RECEIPT.json
    python -I verify_proof.py PROOF.json RECEIPT.json
    ... --public-key OWNER.pem      both receipts are signed with this Ed25519 key
    ... --witness-key WITNESS.pem   both are countersigned with this one

With two receipts: the ledger of the later one begins with exactly the entries of the earlier one,
so what was spent at the earlier date was neither changed nor dropped. With one: an entry, as it is
printed, is in the ledger at its place. Neither the ledger nor any data is needed.

Without a key the maker of a receipt may have made it up: get each from whom you trust. A witness
vouches for the time at which it saw a receipt. Not checked here: prices.

Exit code: 0 proved, 3 not proved, 2 usage.
"""

from __future__ import annotations

import base64
import json
import sys
from hashlib import sha256, sha512


class Wrong(Exception):
    """Why nothing is proved."""


def joined(left: bytes, right: bytes) -> bytes:
    """Two neighbouring trees as one."""
    return sha256(b"\1" + left + right).digest()


def hashes(texts: object) -> list[bytes]:
    """A path: texts of 64 hexadecimal digits."""
    if type(texts) is not list or len(texts) > 130:
        raise Wrong("the path is no list of hashes")
    return [digest(text) for text in texts]


def digest(text: object) -> bytes:
    """One hash."""
    if type(text) is not str or len(text) != 64 or set(text) - set("0123456789abcdef"):
        raise Wrong("a hash that is none")
    return bytes.fromhex(text)


def size_of(value: object) -> int:
    """A whole number above 0; true is none."""
    if type(value) is not int or not 0 < value < 1 << 62:
        raise Wrong("a number of entries that is none")
    return value


def included(leaf: bytes, place: int, size: int, path: list[bytes]) -> bytes:
    """The root that a path leads to, as in RFC 9162, 2.1.3.2."""
    if not 0 <= place < size:
        raise Wrong("no such entry")
    first, last, found = place, size - 1, leaf
    for one in path:
        if not last:
            raise Wrong("the path is too long")
        if first & 1 or first == last:
            found = joined(one, found)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            found = joined(found, one)
        first, last = first >> 1, last >> 1
    if last:
        raise Wrong("the path is too short")
    return found


def extends(old: bytes, before: int, new: bytes, after: int, path: list[bytes]) -> bool:
    """Whether the larger tree begins with the smaller, as in RFC 9162, 2.1.4.2."""
    if before > after:
        raise Wrong("the earlier receipt has more entries")
    if before == after:
        return old == new and not path
    if not path:
        raise Wrong("the path is too short")
    if not before & before - 1:
        path = [old, *path]
    first, last = before - 1, after - 1
    while first & 1:
        first, last = first >> 1, last >> 1
    small = large = path[0]
    for one in path[1:]:
        if not last:
            raise Wrong("the path is too long")
        if first & 1 or first == last:
            small, large = joined(one, small), joined(one, large)
            while not first & 1 and first:
                first, last = first >> 1, last >> 1
        else:
            large = joined(large, one)
        first, last = first >> 1, last >> 1
    return small == old and large == new and not last


def canonical(value: object) -> str:
    """JSON as the ledger writes it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True,
                      allow_nan=False)


def fields(value: object) -> dict[str, object]:
    """A JSON object."""
    if type(value) is not dict:
        raise Wrong("no JSON object")
    return value


def entry_hash(entry: dict[str, object]) -> bytes:
    """The hash of an entry, computed again from its text."""
    if type(entry.get("text")) is not str or type(entry.get("kind")) is not str:
        raise Wrong("an entry without kind and text")
    whole = (f"{digest(entry.get('previous')).hex()}"
             f"[{entry['position']},{canonical(entry['kind'])},{entry['text']}]")
    return sha256(whole.encode("ascii")).digest()


def check(proof: object, receipts: list[object]) -> str:
    """What is proved, in words; or `Wrong`."""
    said, known = fields(proof), [fields(one) for one in receipts]
    if any(type(one.get("uuid")) is not str or one["uuid"] != known[0]["uuid"]
           for one in (said, *known)):
        raise Wrong("proof and receipts are of different ledgers")
    path, latest = hashes(said.get("path")), known[-1]
    size, tree = size_of(latest.get("entries")), digest(latest.get("tree"))
    if said.get("kind") == "consistency" and len(known) == 2:
        old = known[0]
        before, small = size_of(old.get("entries")), digest(old.get("tree"))
        if not extends(small, before, tree, size, path):
            raise Wrong("the later ledger does not begin with the earlier one")
        return (f"proved: the ledger of {size} entries begins with the {before} of the earlier "
                f"receipt, when ({old.get('time') or 'no date'}) epsilon {old.get('epsilon')} at "
                f"delta {old.get('delta')} had been spent")
    if said.get("kind") == "inclusion" and len(known) == 1:
        entry = fields(said.get("entry"))
        place = entry.get("position")
        if type(place) is not int:
            raise Wrong("an entry without its position")
        leaf = sha256(b"\0" + entry_hash(entry)).digest()
        if included(leaf, place, size, path) != tree:
            raise Wrong("the entry is not in the ledger of the receipt")
        return f"proved: entry {entry['position']} of {size} is {entry['kind']} {entry['text']}"
    raise Wrong("a consistency proof goes with two receipts, an inclusion proof with one")


# Ed25519 (RFC 8032, 5.1): points as (X, Y, Z, T), x = X/Z, y = Y/Z, xy = T/Z.
PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
CURVE = -121665 * pow(121666, -1, PRIME) % PRIME
ROOT = pow(2, (PRIME - 1) // 4, PRIME)  # of -1
PEM = bytes.fromhex("302a300506032b6570032100")  # what comes before the 32 bytes of a key
Point = tuple[int, int, int, int]


def added(one: Point, other: Point) -> Point:
    """The sum of two points; complete, so also of equal ones."""
    a = (one[1] - one[0]) * (other[1] - other[0])
    b = (one[1] + one[0]) * (other[1] + other[0])
    c, d = 2 * one[3] * other[3] * CURVE, 2 * one[2] * other[2]
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def times(number: int, point: Point) -> Point:
    """A point, so many times."""
    found: Point = (0, 1, 1, 0)
    while number:
        if number & 1:
            found = added(found, point)
        point, number = added(point, point), number >> 1
    return found


def point_of(data: bytes) -> Point:
    """A point from its 32 bytes."""
    whole = int.from_bytes(data, "little")
    odd, y = whole >> 255, whole & (1 << 255) - 1
    if len(data) != 32 or y >= PRIME:
        raise Wrong("a key or a signature that is none")
    square = (y * y - 1) * pow(CURVE * y * y + 1, -1, PRIME) % PRIME
    x = pow(square, (PRIME + 3) // 8, PRIME)
    if (x * x - square) % PRIME:
        x = x * ROOT % PRIME
    if (x * x - square) % PRIME or (not x and odd):
        raise Wrong("a key or a signature that is none")
    if x & 1 != odd:
        x = PRIME - x
    return x, y, 1, x * y % PRIME


def bytes_of(point: Point) -> bytes:
    """A point as 32 bytes."""
    inverse = pow(point[2], -1, PRIME)
    x, y = point[0] * inverse % PRIME, point[1] * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


BASE = point_of((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))


def signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether this is the signature of the key's owner on the message."""
    first, scalar = signature[:32], int.from_bytes(signature[32:], "little")
    if len(signature) != 64 or scalar >= ORDER:
        return False
    x, y, z, t = point_of(key)
    mixed = int.from_bytes(sha512(first + key + message).digest(), "little") % ORDER
    return bytes_of(added(times(scalar, BASE), times(mixed, (-x, y, z, -t)))) == first


def key_in(path: str) -> bytes:
    """The 32 bytes of an Ed25519 public key in PEM."""
    with open(path, encoding="ascii") as file:
        lines = [line.strip() for line in file if line.strip()]
    if len(lines) != 3 or lines[0] != "-----BEGIN PUBLIC KEY-----":
        raise Wrong("no Ed25519 public key in PEM")
    data = base64.b64decode(lines[1], validate=True)
    if data[:12] != PEM or len(data) != 44:
        raise Wrong("no Ed25519 public key in PEM")
    return data[12:]


def check_signed(value: object, key: bytes, whose: str) -> None:
    """Refuse a receipt that the owner of the key did not sign, word for word."""
    told = fields(value)
    signature = told.get("signature")
    if told.get("algorithm") != "ed25519" or type(signature) is not str:
        raise Wrong(f"a receipt that the {whose} did not sign")
    rest = {name: item for name, item in told.items() if name != "signature"}
    message = b"privledger receipt 1\n" + canonical(rest).encode("ascii")
    if not signed(key, bytes.fromhex(signature), message):
        raise Wrong(f"a receipt that the {whose} did not sign")


def read(path: str) -> object:
    """One JSON file."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def told(value: object, keys: dict[str, bytes]) -> object:
    """A receipt by itself, once its signer signed it."""
    seen = type(value) is dict and type(value.get("receipt")) is dict
    if "--witness-key" in keys:
        check_signed(value if seen else {}, keys["--witness-key"], "witness")
    inside = fields(value)["receipt"] if seen else value
    if "--public-key" in keys:
        check_signed(inside, keys["--public-key"], "owner")
    return inside


def main(arguments: list[str]) -> int:
    """Check what is named on the command line."""
    paths: dict[str, str] = {}
    names = list(arguments)
    for name in ("--public-key", "--witness-key"):
        if name in names[:-1]:
            place = names.index(name)
            paths[name] = names[place + 1]
            del names[place:place + 2]
    if not 2 <= len(names) <= 3 or any(name.startswith("--") for name in names):
        print(__doc__, file=sys.stderr)
        return 2
    try:
        keys = {name: key_in(path) for name, path in paths.items()}
        proof, *receipts = [read(path) for path in names]
        print(check(proof, [told(one, keys) for one in receipts]))
        for name in keys:
            print("signed by the owner" if name == "--public-key" else "countersigned")
    except (Wrong, ValueError, OSError, RecursionError) as error:
        print(f"NOT PROVED: {error}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
