"""Neighbouring relations: which pairs of tables a guarantee speaks about."""

from __future__ import annotations

from typing import Literal

from privledger.errors import InvalidValue

Relation = Literal["add_remove", "replace_one"]
"""`add_remove`: one table has one record more. `replace_one`: one record differs."""

RELATIONS: tuple[Relation, ...] = ("add_remove", "replace_one")


def check_relation(value: object) -> Relation:
    """Return `value` as a relation.

    Raises:
        InvalidValue: it is not one of `RELATIONS`.

    >>> check_relation("add_remove")
    'add_remove'
    """
    for relation in RELATIONS:
        if isinstance(value, str) and value == relation:
            return relation
    raise InvalidValue("relation", value, "one of " + ", ".join(RELATIONS))
