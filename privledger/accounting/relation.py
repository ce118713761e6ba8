"""Neighbouring relations: which pairs of tables a guarantee speaks about."""

from __future__ import annotations

from typing import Literal

from privledger.errors import InvalidValue

Relation = Literal["add_remove", "replace_one", "replace_label"]
"""`add_remove`: one table has one record more. `replace_one`: one record differs.
`replace_label`: one record's label differs; features and the number of rows are public."""

RELATIONS: tuple[Relation, ...] = ("add_remove", "replace_one", "replace_label")

LABELS_ONLY = ("LABELS ONLY: features and the number of rows are public; nothing is promised "
               "about whole records")


def promise(relation: str) -> str:
    """The relation as reports print it: a promise about labels is never shown without the words.

    >>> promise("replace_one")
    'replace_one'
    """
    return f"{relation}, {LABELS_ONLY}" if relation == "replace_label" else relation


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
