"""Checkpoints: a compact state at one place of the history, so that opening need not fold it all.

A checkpoint is a convenience, never evidence. It is used only if its seal holds and the entry at
its position has its hash; anything else is ignored and the history is folded from the start. An
audit folds everything and compares. Format: docs/ledger-format.md.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

from attrs import asdict, define, evolve, field, frozen

from privledger.errors import InvalidValue, LedgerCorrupt
from privledger.graph import canonical
from privledger.ledger.codec import decode, encode
from privledger.ledger.entries import Entry, parse_body
from privledger.ledger.filters import Budget, FilterRule
from privledger.ledger.line import QueuePosition
from privledger.ledger.state import GrantState, ScopeState, State
from privledger.reading import read_plain, write_whole
from privledger.rounding import count

VERSION = 2
CADENCE = 1000
"""Entries between two checkpoints, at least."""
Packed: TypeAlias = dict[str, Any]
"""What is kept of a state or a view, in values that can be written down."""
_TOTALS = "units", "delta_units", "refusals", "charges"  # kept under their own names
_FIXED = "order", "cap_units", "delta_cap_units"  # of the filter, likewise


@frozen
class Checkpoint:
    """What a store keeps, beside the names of the grants that are over.

    Attributes:
        position, head: the last entry that is folded in, and its hash.
        state: canonical JSON of everything but the names.
        seal: sha256 over the other three, against damage. Not against a forger.
    """

    position: int
    head: str
    state: str
    seal: str

    @property
    def sound(self) -> bool:
        """Whether its seal fits what it says: damage is seen, forgery is not."""
        return self.seal == _seal(self.position, self.head, self.state)


def _seal(position: int, head: str, state: str) -> str:
    return hashlib.sha256(f"{position}\n{head}\n{state}".encode()).hexdigest()


@define
class NamesDigest:
    """sha256 over the names of the grants that are over, as far as it was brought."""

    count: int = 0
    _sha: Any = field(factory=hashlib.sha256)

    def copy(self) -> NamesDigest:
        """One that goes on from here and leaves this one as it is."""
        return NamesDigest(self.count, self._sha.copy())

    def bring(self, names: Sequence[str], count: int) -> str:
        """Go on to the first `count` names; the digest there, in hexadecimal."""
        text = names_text(names[self.count : count])
        if text:
            self._sha.update((("," if self.count else "") + text).encode("ascii"))
            self.count = count
        return str(self._sha.hexdigest())


def names_text(names: Sequence[str]) -> str:
    """JSON strings, separated by commas."""
    return canonical(list(names))[1:-1]


def is_due(state: State, last: int) -> bool:
    """Whether enough was appended since position `last` to pay for another checkpoint."""
    return state.position - last >= max(CADENCE, len(state.grants) + len(state.scopes))


def take_checkpoint(state: State, digest: str) -> Checkpoint:
    """The checkpoint of a state, compact or not; `digest` is that of all its closed names."""
    rule = state.rule
    kept = sorted((grant for grant in state.grants.values()
                   if grant.corrected or grant.grant not in state.closed_names),
                  key=lambda grant: grant.position)
    text = canonical({
        "version": VERSION, "created": encode(state.creation),
        **{name: getattr(state, name) for name in _TOTALS}, "window": state.window,
        "cap_spent": [list(spent) for spent in state.cap_spent],
        "windows": [[name, [list(spent) for spent in totals]]
                    for name, totals in state.windows.items()],
        "filter": None if rule is None else {
            "kind": rule.kind, **{name: getattr(rule, name) for name in _FIXED}},
        "grants": list(map(values_of_grant, kept)),
        "scopes": [
            {"scope": scope.scope, "position": scope.position, "body": encode(scope.event),
             **({"corrections": [encode(one) for one in scope.corrected]}
                if scope.corrected else {})}
            for scope in state.scopes.values()],
        "names": len(state.closed), "digest": digest,
        **({"enrolled": [[position, encode(event)] for position, event in state.enrolled]}
           if state.enrolled else {}),
        **({"line": [asdict(place) for place in state.line.values()]} if state.line else {}),
    })
    return Checkpoint(state.position, state.head, text, _seal(state.position, state.head, text))


def _read(kind: str, body: Any) -> Any:
    return decode(kind, body) if body else None


def values_of_grant(grant: GrantState) -> Packed:
    """A grant and what became of it as JSON values."""
    return {"grant": grant.grant, "position": grant.position, "body": encode(grant.event),
            "status": grant.status, "releases": grant.releases, "touched": grant.touched,
            "settled": {} if grant.end is None else encode(grant.end),
            "crashed": {} if grant.crash is None else encode(grant.crash),
            "corrections": [encode(one) for one in grant.corrected]}


def grant_of_values(one: Packed) -> GrantState:
    """The inverse of `values_of_grant`."""
    kind = "aborted" if one["status"] == "aborted" else "settled"
    return GrantState(one["grant"], one["position"], _read("granted", one["body"]), one["status"],
                      one["releases"], one["touched"], _read(kind, one["settled"]),
                      _read("crashed", one["crashed"]),
                      [_read("corrected", each) for each in one["corrections"]])


def covered(checkpoint: Checkpoint) -> tuple[int, str] | None:
    """How many names a checkpoint counts on, and their digest; None if it cannot be used."""
    try:
        value = parse_body(checkpoint.state)
        if checkpoint.sound and value["version"] == VERSION:
            return int(value["names"]), str(value["digest"])
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    return None


def is_later(checkpoint: Checkpoint) -> bool:
    """Whether a later version wrote it: not for us to read."""
    try:
        return bool(parse_body(checkpoint.state)["version"] > VERSION)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _totals(value: Any) -> list[tuple[int, int]]:
    return [(int(units), int(delta)) for units, delta in value]


def restore_state(checkpoint: Checkpoint, names: str) -> tuple[State, NamesDigest] | None:
    """The compact state of a checkpoint, or None if anything about it is not right.

    Args:
        names: of the grants that are over, as `names_text` wrote them.
    """
    try:
        if covered(checkpoint) is None:
            return None
        value = parse_body(checkpoint.state)
        state = State(compact=True)
        state.take(Entry(0, decode("created", value["created"]), "", ""))
        fixed = value["filter"]
        if fixed is not None:
            assert isinstance(state.budget, Budget)
            state.rule = FilterRule(fixed["kind"], budget=state.budget,
                                    **{name: fixed[name] for name in _FIXED})
        for name in _TOTALS:
            setattr(state, name, int(value[name]))
        state.cap_spent, state.window = _totals(value["cap_spent"]), value["window"]
        state.windows = {str(name): _totals(totals) for name, totals in value["windows"]}
        for one in value["grants"]:
            state.grants[one["grant"]] = grant_of_values(one)
        for one in value["scopes"]:
            state.scopes[one["scope"]] = ScopeState(
                one["scope"], one["position"], _read("scope", one["body"]),
                tuple(_read("corrected", each) for each in one.get("corrections", [])))
        state.enrolled = [(int(position), _read("enrolled", body))
                          for position, body in value.get("enrolled", [])]
        state.line = {one["grant"]: QueuePosition(**one) for one in value.get("line", [])}
        state.closed = json.loads(f"[{names}]")
        state.closed_names = set(state.closed)
        state.position, state.head = checkpoint.position, checkpoint.head
        digest = NamesDigest(len(state.closed), hashlib.sha256(names.encode("ascii")))
        right = digest.bring((), 0) == value["digest"]
        whole = len(state.closed) == value["names"] == len(state.closed_names)
        return (state, digest) if right and whole else None
    except Exception:  # whatever is wrong with it, the history itself is still there
        return None


# Seals of checkpoints that this user's own processes made, kept outside of the ledger.
#
# Who can write a file can write a checkpoint into it, and a seal that fits. So a checkpoint counts
# only if its seal is found here; any other is ignored, and the history is read from the start. A
# seal that is lost costs time, nothing else. One that was ever true stays true: it says what the
# entries up to its head add up to.

_MOST_SEALS = 8  # seals of one ledger: several processes may write checkpoints in turn
_LENGTH = 65


def state_folder() -> Path:
    """$XDG_STATE_HOME/privledger, or ~/.local/state/privledger: private to a user and a host. What
    is relative lies where the command runs, maybe in another author's checkout: it is none. Nor is
    a folder that another user owns or may write to: in its place stands one that cannot exist."""
    places = os.environ.get("XDG_STATE_HOME", ""), os.path.expanduser("~/.local/state")
    found = Path(next(filter(os.path.isabs, places), os.devnull)) / "privledger"
    with suppress(OSError):  # one that is not there yet is made by this user
        if not _is_ours(found.stat()):
            return Path(os.devnull, "privledger")
    return found


def is_known(location: str, uuid: str, seal: str) -> bool:
    """Whether a process of this user made the checkpoint; memory is this process's anyway."""
    return location == ":memory:" or seal in _read_seals(state_path(uuid, "seals"))


def remember_checkpoint(location: str, uuid: str, seal: str) -> None:
    """Keep a seal; where that cannot be done, the next opening takes longer."""
    if location == ":memory:":
        return
    path = state_path(uuid, "seals")
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept = [*_read_seals(path), seal][-_MOST_SEALS:]
        write_whole(path, "".join(f"{one}\n" for one in kept).encode("ascii"))


def state_path(uuid: str, kind: str) -> Path:
    """The name comes from a file that an attacker may have written: only its hash is used."""
    name = hashlib.sha256(uuid.encode("utf-8", "replace")).hexdigest()
    return state_folder() / f"{name}.{kind}"


def _read_seals(path: Path) -> list[str]:
    data = read_ours(path, _MOST_SEALS * _LENGTH)
    return data[:_MOST_SEALS * _LENGTH].decode("ascii", "replace").split()


def read_ours(path: Path, most: int) -> bytes:
    """What a plain file of this user's has, which no other may write; empty if it is none."""
    try:
        facts, data = read_plain(path, most)
    except OSError:
        return b""
    return data if _is_ours(facts) else b""


def _is_ours(facts: os.stat_result) -> bool:
    """Whether this user owns it and no other may write to it."""
    return not hasattr(os, "geteuid") or (
        facts.st_uid == os.geteuid() and not facts.st_mode & 0o022)


# Receipts: what a ledger looked like, in few values.

@frozen
class Receipt:
    """Travels with every released model, so that a cut tail or an old copy is found.

    Attributes:
        uuid: identity of the ledger.
        entries: how many entries it had.
        head: hash of the last of them.
        epsilon, delta: what had been spent or reserved by then.
        mode: `private`, or `simulation` (NOT PRIVATE).
        counter: how often the totals moved (charges, refunds, corrections). It never falls in
            one history; unlike `epsilon` it also moves when a refund is spent again. It lies in
            the file, so an old copy brings the old counter back: keep the receipt elsewhere.
        unit: whom the promise is about: `row`, or `person`, with all rows in all tables.
        time: when it was made, by the clock of its maker; empty where none was said. Two
            receipts of one state are equal whenever they were made.
    """

    uuid: str
    entries: int
    head: str
    epsilon: float
    delta: float
    mode: str
    counter: int = 0
    unit: str = "row"
    time: str = field(default="", eq=False)

    def as_dict(self, *, dated: bool = False) -> dict[str, Any]:
        """For JSON: its values by name; the unit only where it is not the row, and the time only
        where it is known and asked for: two answers about one state carry one receipt."""
        usual = {"unit": "row", "time": "" if dated else self.time}
        return {name: one for name, one in asdict(self).items() if usual.get(name) != one}


def remembered_receipt(state: State) -> Receipt:
    """The receipt of what `state` was folded from."""
    return receipt_later(state)()


def receipt_later(state: State, time: str = "") -> Callable[[], Receipt]:
    """As `remembered_receipt`, of now: its epsilon is computed when the receipt is asked for."""
    if state.budget is None:
        raise LedgerCorrupt("the history is empty: not a ledger")
    rule, units = state.rule, state.units
    without = Receipt(state.uuid, state.position + 1, state.head, 0.0, state.budget.delta,
                      state.mode, state.charges, state.unit, time)
    return cache(lambda: evolve(without, epsilon=rule.epsilon_of(units) if rule else 0.0))


# A hash tree over a history: short proofs that an entry, or an earlier history, is in it.
#
# The tree of RFC 9162 (section 2.1) over the hashes of the entries. A leaf is hashed behind a
# zero byte, two trees behind a one, so that no entry passes for a tree. A proof has about log2(n)
# hashes.

def leaf(digest: str) -> bytes:
    """The leaf of an entry, from the hash that the ledger has of it."""
    return sha256(b"\0" + bytes.fromhex(digest)).digest()


def joined_names(left: bytes, right: bytes) -> bytes:
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
            trees.append((2 * size, joined_names(left, right)))
    found = trees.pop()[1]
    while trees:
        found = joined_names(trees.pop()[1], found)
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
        return None if found is None else (found[0], joined_names(found[1], other))
    found = _rebuilt(size - at, before - at, path, None)
    return None if found is None else (joined_names(other, found[0]), joined_names(other, found[1]))
