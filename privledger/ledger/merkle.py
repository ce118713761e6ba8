"""A hash tree over a history: short proofs that an entry, or an earlier history, is in it.

The tree of RFC 9162 (section 2.1) over the hashes of the entries. A leaf is hashed behind a zero
byte, two trees behind a one, so that no entry passes for a tree. A proof has about log2(n) hashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from privledger.errors import InvalidValue
from privledger.rounding import count


def leaf(digest: str) -> bytes:
    """The leaf of an entry, from the hash that the ledger has of it."""
    return sha256(b"\0" + bytes.fromhex(digest)).digest()


def joined(left: bytes, right: bytes) -> bytes:
    """Two neighbouring trees as one."""
    return sha256(b"\1" + left + right).digest()


def _split(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << (size - 1).bit_length() - 1


def root(leaves: Sequence[bytes]) -> bytes:
    """Of at least one leaf; in one pass, with about log2(n) trees at hand."""
    if not leaves:
        raise InvalidValue("leaves", 0, "at least one")
    trees: list[tuple[int, bytes]] = []
    for one in leaves:
        trees.append((1, one))
        while len(trees) > 1 and trees[-1][0] == trees[-2][0]:
            (size, right), (_, left) = trees.pop(), trees.pop()
            trees.append((2 * size, joined(left, right)))
    found = trees.pop()[1]
    while trees:
        found = joined(trees.pop()[1], found)
    return found


def inclusion(leaves: Sequence[bytes], place: int) -> list[bytes]:
    """The hashes that lead from a leaf to the root, from below.

    Raises:
        InvalidValue: there is no such leaf.
    """
    place = count("place", place, least=0, most=max(0, len(leaves) - 1))
    if len(leaves) <= 1:
        return []
    at = _split(len(leaves))
    if place < at:
        return [*inclusion(leaves[:at], place), root(leaves[at:])]
    return [*inclusion(leaves[at:], place - at), root(leaves[:at])]


def consistency(leaves: Sequence[bytes], size: int) -> list[bytes]:
    """The hashes that show the first `size` leaves to be those of the smaller tree.

    Raises:
        InvalidValue: the smaller tree is empty, or no smaller.
    """
    return _consistency(leaves, count("size", size, most=len(leaves)), whole=True)


def _consistency(leaves: Sequence[bytes], size: int, *, whole: bool) -> list[bytes]:
    """Args: whole: this subtree is all of the smaller tree, whose root the reader has."""
    if size == len(leaves):
        return [] if whole else [root(leaves)]
    at = _split(len(leaves))
    if size <= at:
        return [*_consistency(leaves[:at], size, whole=whole), root(leaves[at:])]
    return [*_consistency(leaves[at:], size - at, whole=False), root(leaves[:at])]


def begins_with(tree: bytes, size: int, old: bytes, before: int, path: Sequence[bytes]) -> bool:
    """Whether `path` shows that the tree of `size` leaves begins with the one of `before`.

    The proof is taken apart as it was made, from the root downwards: its last hash is always that
    of the other half.
    """
    if not 0 < before <= size:
        return False
    if before == size:
        return tree == old and not path
    found = _rebuilt(size, before, list(path), old)
    return found == (old, tree)


def _rebuilt(size: int, before: int, path: list[bytes],
             old: bytes | None) -> tuple[bytes, bytes] | None:
    """The smaller and the larger root that a path stands for; None where it does not fit.

    Args:
        old: the smaller tree's root, while this subtree holds all of it; else None.
    """
    if before == size:
        if old is not None:
            return None if path else (old, old)
        return (path[0], path[0]) if len(path) == 1 else None
    if not path:
        return None
    at, other = _split(size), path.pop()
    if before <= at:
        found = _rebuilt(at, before, path, old)
        return None if found is None else (found[0], joined(found[1], other))
    found = _rebuilt(size - at, before - at, path, None)
    return None if found is None else (joined(other, found[0]), joined(other, found[1]))
