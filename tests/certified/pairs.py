"""Pairs of tables as plain values, and as the guard reads them."""

from __future__ import annotations

from privledger.errors import InvalidValue
from privledger.rounding import count
from privledger.tables.chunk import Rows
from privledger.tables.encode import encode_features, encode_keys, encode_target
from privledger.tables.schema import Schema
from privledger.tables.values import Json, items, table
from privledger.testing.lockstep.neighbours import Row, TablePair, pair_columns

RELATIONS = ("add_remove", "replace_one", "replace_label")


def check_pair(pair: TablePair, relation: str) -> None:
    """Raise `InvalidValue` unless these are neighbours under `relation`."""
    old, new = pair.old, pair.new
    if relation == "add_remove":
        fits = (old is None) != (new is None)
    else:
        fits = old is not None and new is not None and old != new and (
            relation == "replace_one" or old[:-1] == new[:-1])
    if relation not in RELATIONS or not fits:
        raise InvalidValue("relation", relation, "one under which the tables are neighbours")


def encoded(pair: TablePair) -> tuple[Rows, Rows]:
    """Both as the guard reads them, without a noise source."""
    first, second = (Rows(encode_keys(one.X, encode_features(one.X, pair.schema)), encode_target(
        one.y, pair.schema, unlabelled=one.unlabelled)) for one in pair.tables())
    return first, second


def pair_to_json(pair: TablePair) -> Json:
    """Plain values that say everything."""
    return {"schema": pair.schema.to_dict(),
            "common": [[list(row), often] for row, often in pair.common],
            "old": None if pair.old is None else list(pair.old),
            "new": None if pair.new is None else list(pair.new)}


def pair_from_json(value: Json) -> TablePair:
    """The inverse of `pair_to_json`. Raises `PrivledgerError` if it says no such thing."""
    schema = Schema.from_dict(table(value.get("schema")))
    common = []
    for one in items(value, "common"):
        if not isinstance(one, list) or len(one) != 2:
            raise InvalidValue("common", type(one).__name__, "rows and how often they occur")
        common.append((_row(one[0], schema), count("how often", one[1])))
    ends = [None if value.get(key) is None else _row(value[key], schema) for key in ("old", "new")]
    return TablePair(schema, tuple(common), *ends)


def _row(value: object, schema: Schema) -> Row:
    if not isinstance(value, list) or len(value) != len(pair_columns(schema)) or not all(
            cell is None or isinstance(cell, float | int | str) for cell in value):
        raise InvalidValue("row", type(value).__name__, "one value per feature, and the target")
    return tuple(value)
