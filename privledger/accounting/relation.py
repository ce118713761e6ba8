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


UNITS = ("row", "person")
"""Whom a promise can be about."""

WHO = {"row": "one row", "person": "one person, with all rows in all tables"}
"""The same in words."""


def check_unit(value: object) -> str:
    """Return `value` as a unit.

    Raises:
        InvalidValue: it is not one of `UNITS`.
    """
    if isinstance(value, str) and value in UNITS:
        return str(value)
    raise InvalidValue("unit", value, "one of " + ", ".join(UNITS))


def promise(relation: str, unit: str = "row") -> str:
    """The relation as reports print it: a promise about labels is never shown without the words.

    One row of data is what a promise is about that says nothing else.

    >>> promise("replace_one")
    'replace_one'
    >>> promise("add_remove", "person")
    'add_remove of one person, with all rows in all tables'
    """
    said = relation if unit == "row" else f"{relation} of {WHO.get(unit, 'nobody known')}"
    return f"{said}, {LABELS_ONLY}" if relation == "replace_label" else said


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
