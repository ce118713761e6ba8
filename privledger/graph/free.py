"""Leaves that cost nothing: what is computed from released and public values, and public facts."""

from __future__ import annotations

from attrs import frozen

from privledger.errors import InvalidMechanism


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise InvalidMechanism(name, type(value).__name__, "a text")


@frozen(cache_hash=True)
class PostProcess:
    """A function of released and public values only. Costs nothing."""

    note: str = ""

    def __attrs_post_init__(self) -> None:
        _check_text("PostProcess note", self.note)


@frozen(cache_hash=True)
class Public:
    """A public fact that the computation used. Costs nothing."""

    fact: str = ""

    def __attrs_post_init__(self) -> None:
        _check_text("Public fact", self.fact)
