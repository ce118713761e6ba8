#!/usr/bin/env python3
"""Check a proof about a privacy-budget ledger with Python's standard library alone.

    python -I verify_proof.py PROOF.json EARLIER_RECEIPT.json LATER_RECEIPT.json
    python -I verify_proof.py PROOF.json RECEIPT.json

With two receipts: the ledger of the later one begins with exactly the entries of the earlier one,
so what was spent at the earlier date was neither changed nor dropped. With one: an entry, as it is
printed, is in the ledger at its place. Neither the ledger nor any data is needed.

Exit code: 0 proved, 3 not proved, 2 usage. Not checked here: signatures (whoever made a receipt may
have made it up: get each from whom you trust), and prices.
"""

from __future__ import annotations

import json
import sys
from hashlib import sha256


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
                f"receipt, when ({old.get('time', 'undated')}) epsilon {old.get('epsilon')} at "
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


def read(path: str) -> object:
    """One JSON file."""
    with open(path, encoding="utf-8") as file:
        value = json.load(file)
    if type(value) is dict and type(value.get("receipt")) is dict:
        return value["receipt"]
    return value


def main(arguments: list[str]) -> int:
    """Check what is named on the command line."""
    if not 2 <= len(arguments) <= 3:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        proof, *receipts = [read(path) for path in arguments]
        print(check(proof, receipts))
    except (Wrong, ValueError, OSError, RecursionError) as error:
        print(f"NOT PROVED: {error}")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
