"""Columns that fit a schema, in the layout that everything inside the guard reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue, RelationMismatch, SchemaError
from privledger.tables.schema import Column, Schema
from privledger.tables.text_form import TextForm
from privledger.tables.values import is_plain, refuse

MISSING = -1


@frozen(eq=False)
class TextKey:
    """One column of texts that rows are grouped by. Private: the names are, too.

    Attributes:
        names: that occur, or did in a larger table. codes: which of them each record has, -1 for
            none, int32, shape (n_records,).
    """

    names: tuple[str, ...]
    codes: NDArray[np.int32]

    def at(self, members: NDArray[np.integer | np.bool_]) -> TextKey:
        """Of some records."""
        return TextKey(self.names, self.codes[members])

    def plus(self, other: TextKey) -> TextKey:
        """With more records behind these."""
        place = {name: at for at, name in enumerate(self.names)}
        moved = [place.setdefault(name, len(place)) for name in other.names]
        codes = np.array([*moved, MISSING], dtype=np.int32)[other.codes]
        return TextKey(tuple(place), np.concatenate([self.codes, codes]))

    def __repr__(self) -> str:
        return "TextKey(private)"


@frozen(eq=False)
class Columns:
    """Encoded features, one array per feature of the schema.

    Attributes:
        arrays: float64 clipped to the bounds with NaN for missing (numeric), or int32 category
            positions with -1 for missing (categorical); each of shape (n_records,).
        keys: texts by the name of their column, where the schema has such.
    """

    schema: Schema
    arrays: Sequence[NDArray[Any]]
    n_rows: int
    keys: Mapping[str, TextKey] = field(factory=dict)

    def __repr__(self) -> str:
        return f"Columns({len(self.arrays)} features)"


def has_label(target: NDArray[Any]) -> NDArray[np.bool_]:
    """Which records of an encoded target have a label, shape (n_records,)."""
    found: NDArray[np.bool_] = (~np.isnan(target) if target.dtype.kind == "f"
                                else target != MISSING)
    return found


# What is public about one guarded table. Every check of a question reads this, never a record.


@frozen(eq=False)
class TableFacts:
    """Public facts of a guarded table.

    Attributes:
        schema: its columns.
        relation: the neighbouring relation of the ledger that guards it.
        has_target: whether it was protected with a target.
        unlabelled: whether records may lack a label.
        public_features: whether the owner declared everything but the labels public.
        n_rows: the number of records, where it is public: under every relation but add_remove,
            and under unit person only where everything but the labels is. Else None.
        unit: `row`, or `person`: whom the promise is about, a record or everything of a person.
        n_people: the number of people, where the relation makes it public; None under unit row.
        most_rows: rows of the person with the most, where everything but the labels is public and
            the unit is a person; else None.
        chunked: whether it lies in chunks, which answer one by one.
    """

    schema: Schema
    relation: str
    has_target: bool = True
    unlabelled: bool = False
    public_features: bool = False
    n_rows: int | None = None
    unit: str = "row"
    n_people: int | None = None
    most_rows: int | None = None
    chunked: bool = False

    def column(self, name: str, kind: str) -> Column:
        """The feature of that name, or the target for "".

        Raises:
            SchemaError: there is none, or it is not of that kind.
        """
        schema = self.schema
        column = schema.features[schema.feature_index(name)] if name else schema.target
        if column.kind != kind:
            raise SchemaError(f"column {column.name!r} is not {kind}")
        return column

    def check_positions(self, places: int) -> None:
        """Raise unless positions mean something here: a public number of rows, as many places."""
        if self.relation == "add_remove":
            raise RelationMismatch("parts by position need a public number of rows: use a ledger "
                                   "of relation replace_one or replace_label")
        if self.n_rows is None and places != self.n_people:
            raise InvalidValue("IndexCells places", places, "as many as there are people")
        if self.n_rows is not None and places != self.n_rows:
            raise InvalidValue("IndexCells places", places, "as many as there are rows")


def own_form(form: TextForm | None) -> TextForm | None:
    """A form of its own, which no caller holds."""
    if form is None:
        return None
    if type(form) is not TextForm or not is_plain(form):
        refuse(form)
    return TextForm(*(getattr(form, one.name) for one in attrs.fields(TextForm)))


def own_schema(schema: Schema) -> Schema:
    """A schema of its own, which no caller holds."""
    if type(schema) is not Schema or any(type(column) is not Column for column in schema.columns):
        refuse(schema)
    columns = [Column(*(getattr(column, one.name) for one in attrs.fields(Column)))
               for column in schema.columns]
    if not all(is_plain(column) for column in columns) or type(schema.name) is not str:
        refuse(schema)
    return Schema(schema.name, columns, schema.public_rows, schema.array_layout,
                  schema.expected_rows, schema.expected_rows_provenance, schema.unit,
                  schema.person, schema.public_people, schema.most_records,
                  schema.most_records_provenance, own_form(schema.form))
