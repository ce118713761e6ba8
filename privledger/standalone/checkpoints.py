"""Checkpoints: a convenience in a file that says what the entries before it add up to."""

from __future__ import annotations

import hashlib
from typing import Any

from .reading import Bad, canonical, parse

CHECKPOINT_VERSION = 2
GRANT = {"status": "granted", "releases": 0, "touched": True, "settled": {}, "crashed": {},
         "corrections": []}


class Checkpoint:
    """One that a file keeps, compared when the history reaches its position."""

    def __init__(self, position: Any, head: str, state: str, seal: str, names: str) -> None:
        self.position, self.head, self.state, self.names = position, head, state, names
        whole = hashlib.sha256(f"{position}\n{head}\n{state}".encode()).hexdigest()
        self.sound = seal == whole

    def check(self, book: Any) -> None:
        """Raise `Bad` if it is not what the book holds now."""
        try:
            kept = parse(self.state.encode(), "utf-8")
            if self.sound and kept["version"] > CHECKPOINT_VERSION:
                return  # a later version wrote it, for itself
        except (Bad, LookupError, TypeError):
            pass
        right = canonical(state_of(book))
        if (not self.sound or self.state != right or self.head != book.hashes[-1]
                or self.names != canonical(book.closed)[1:-1]):
            raise Bad("the checkpoint is not what the entries before it add up to")


def state_of(book: Any) -> dict[str, Any]:
    """Everything that decides on requests, as a writer keeps it."""
    fixed = book.filter_body
    current = book.windows[-1]
    return {
        "version": CHECKPOINT_VERSION, "created": book.created, "units": book.units,
        "delta_units": book.delta_units, "refusals": book.refusals, "charges": book.charges,
        "cap_spent": [cap.shown(current) for cap in book.caps], "window": current,
        "windows": [[name or "", [cap.shown(name, end) for cap in book.caps]]
                    for name, end in zip(book.windows[:-1], book.window_ends, strict=True)],
        "filter": None if fixed is None else {name: fixed[name] for name in (
            "kind", "order", "cap_units", "delta_cap_units")},
        "grants": [kept_grant(grant) for grant in book.grants.values()
                   if grant["corrections"] or grant["name"] not in book.closed_names],
        "scopes": [{"scope": name, "position": scope["position"], "body": scope["body"],
                    **({"corrections": scope["corrections"]} if scope["corrections"] else {})}
                   for name, scope in book.scopes.items()],
        "names": len(book.closed),
        "digest": hashlib.sha256(canonical(book.closed)[1:-1].encode("ascii")).hexdigest(),
        **({"enrolled": book.people.tables} if book.people.tables else {}),
        **({"line": list(book.line.places.values())} if book.line.places else {}),
    }


def kept_grant(grant: Any) -> dict[str, Any]:
    """What a checkpoint keeps of a grant, to compare it with the entries."""
    return {"grant": grant["name"], "position": grant["position"], "body": grant["body"],
            **{field: grant[field] for field in GRANT}}
