"""Public facts about a table, and where each comes from. Read from JSON or TOML."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve, field, frozen
from numpy.typing import NDArray

from privledger.errors import (
    DataDerived,
    DataError,
    InvalidPlan,
    InvalidValue,
    RelationMismatch,
    SchemaError,
)
from privledger.graph import canonical
from privledger.numerals import code_of, float_code, meant, nearest
from privledger.reading import load_json, load_toml
from privledger.rounding import MOST_COUNT, count, number
from privledger.tables.text_form import TextForm, day, in_days

KINDS = ("numeric", "categorical", "identifier", "string", "timestamp", "text")
ROLES = ("feature", "target", "identifier", "timestamp", "group", "alternate_target", "ignore",
         "key")
_TABLE_KEYS = ("name", "columns", "target", "provenance", "bounds_from", "public_rows",
               "expected_rows", "expected_rows_provenance", "public_people", "most_records",
               "most_records_provenance", "missing_value_marker", "array_layout", "unit",
               "features", "feature_kind", "target_categories", "reading")
_CELLS = (str, bool, int, float, Decimal, np.bool_, np.integer, np.floating)
PUBLIC_WORDS = ("public", "declared", "physical", "ledger", "released")
_COLUMN_KEYS = {"name", "kind", "role", "lower", "upper", "categories", "ordered", "integer",
                "unit", "note", "missing", "outside", "provenance", "bounds_from",
                "missing_value_marker", "days_since"}


def _column_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value)


def label_key(value: object) -> str:
    """One text for one category, however the file spells it: 1, 1.0 and "1" are the same."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float_code(value)
    return code_of(format(value, "f") if isinstance(value, Decimal) else str(value))


def label_array(labels: Sequence[object]) -> NDArray[np.generic]:
    """Categories as an array that keeps their types: NumPy would make texts of 1 beside "yes",
    and 1 of True beside 2."""
    kinds = {bool if isinstance(one, bool | np.bool_) else str if isinstance(one, str) else float
             for one in labels}
    return np.array(labels, dtype=object if len(kinds) > 1 else None)


@frozen
class Column:
    """One column: every field is public.

    Attributes:
        name: unique.
        kind: `numeric`, `categorical`, `identifier`, `string`, `timestamp` or `text`.
        role: `feature` (default, but for kind `identifier`), `target`, `identifier`, `timestamp`,
            `group`, `alternate_target`, `ignore`, or `key` (of kind `text` only: rows can be
            grouped by it). Only features are inputs.
        lower, upper: public bounds, lower below upper, within 1e140 of zero and at least 1e-140
            apart. Needed for numeric features and targets.
        categories: public list of texts, numbers or booleans, none of them empty or NaN. Needed
            for categorical features and targets. 1, 1.0, "1" and "1.0" are the same.
        integer: whether values are whole. A table with others is refused, and so are bounds that
            are not whole.
        missing_value_marker: what stands for a missing cell in this column.
        missing: whether values may be missing; never for the target.
        outside: `clip` (default): values beyond the bounds are moved to them. `refuse`: the table
            is refused.
        provenance, bounds_from: where this column's bounds or categories come from; never the
            private data.
        ordered: categories are in their natural order, so that cuts between them make sense.
        unit, note: for readers.
        days_since: of a numeric column of dates: a date such as "2000-01-01" that is 0. Values
            are whole days since then, from dates of frames and Parquet (times of day are cut
            off, time zones refused) and from texts such as 2020-05-17; `lower` and `upper` may be
            dates, too.
    """

    name: str
    kind: str
    role: str = "feature"
    lower: float = 0.0
    upper: float = 0.0
    categories: tuple[Any, ...] = ()
    integer: bool = False
    missing: bool = False
    outside: str = "clip"
    provenance: str = "public"
    unit: str = ""
    ordered: bool = False
    missing_value_marker: str | float | None = None
    days_since: str | None = None

    @property
    def labels(self) -> NDArray[np.generic]:
        """The categories as an array, of objects where they are of several types."""
        return label_array(self.categories)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("a column needs a name")
        if self.kind not in KINDS or self.role not in ROLES:
            raise SchemaError(f"column {self.name!r}: kind must be one of {', '.join(KINDS)}, "
                              f"role one of {', '.join(ROLES)}")
        if self.outside not in ("clip", "refuse"):
            raise SchemaError(f"column {self.name!r}: outside must be clip or refuse")
        for flag in ("missing", "integer", "ordered"):
            if not isinstance(getattr(self, flag), bool):  # "false" would be taken for true
                raise SchemaError(f"column {self.name!r}: {flag} must be true or false")
        if not isinstance(self.categories, list | tuple):
            raise SchemaError(f"column {self.name!r}: categories must be a list")
        object.__setattr__(self, "categories", tuple(self.categories))
        if not isinstance(self.unit, str):
            raise SchemaError(f"column {self.name!r}: unit must be a text")
        check_provenance(f"column {self.name!r}", self.provenance)
        if (self.kind == "text") != (self.role == "key"):
            raise SchemaError(f"column {self.name!r}: a text is a key, to be grouped by only, and "
                              "nothing else is")
        if self.role == "key":
            self._check_unused("a text", categories=self.categories, ordered=self.ordered,
                               lower=self.lower, upper=self.upper, integer=self.integer)
            self._check_marker()
        if self.days_since is not None and (self.kind != "numeric" or day(self.days_since) is None):
            raise SchemaError(f"column {self.name!r}: days_since is a date such as 2000-01-01, of "
                              "a numeric column")
        for bound in ("lower", "upper") if self.days_since is not None else ():
            object.__setattr__(self, bound, in_days(getattr(self, bound), self.days_since))
        if self.role not in ("feature", "target"):
            return
        if self.kind == "numeric":
            self._check_bounds()
            self._check_unused("a numeric column", categories=self.categories, ordered=self.ordered)
        elif self.kind == "categorical":
            self._check_unused("a categorical column", lower=self.lower, upper=self.upper,
                               integer=self.integer)
            self._check_categories()
        else:
            raise SchemaError(f"column {self.name!r}: a {self.role} must be numeric or categorical")
        self._check_marker()

    def _check_unused(self, what: str, **given: object) -> None:
        """Refuse what says nothing about such a column: the author meant another one by it."""
        for name, value in given.items():
            if value:
                raise SchemaError(f"column {self.name!r}: {name} does not apply to {what}")

    def _check_categories(self) -> None:
        for category in self.categories:
            if isinstance(category, float | np.floating) and not np.isfinite(category):
                raise SchemaError(f"column {self.name!r}: NaN and infinity cannot be categories; "
                                  "missing = true allows missing cells")
            if not isinstance(category, _CELLS) or category == "":
                raise SchemaError(f"column {self.name!r}: a category is a text that is not empty, "
                                  "a number, or a boolean; missing = true allows missing cells")
        keys = [label_key(category) for category in self.categories]
        if not keys or len(set(keys)) != len(keys):
            raise SchemaError(f"column {self.name!r}: needs a list of distinct categories")

    def _check_marker(self) -> None:
        marker = self.missing_value_marker
        if marker is None:
            return
        what = f"column {self.name!r}: missing_value_marker"
        if isinstance(marker, bool) or not isinstance(marker, str | int | float) or (
                marker == "" or marker != marker or marker in (math.inf, -math.inf)):
            raise SchemaError(f"{what} is a text that is not empty, or a number")
        if label_key(marker) in map(label_key, self.categories):
            raise SchemaError(f"{what} is one of the categories: a cell would be both")

    def _check_bounds(self) -> None:
        try:
            number("lower", self.lower)
            number("upper", self.upper)
        except InvalidValue as error:
            raise SchemaError(f"column {self.name!r}: {error}") from None
        if self.integer and not (float(self.lower).is_integer() and float(self.upper).is_integer()):
            raise SchemaError(f"column {self.name!r}: integer = true declares whole values, so its "
                              "bounds must be whole")
        if not self.lower < self.upper:
            raise SchemaError(f"column {self.name!r}: lower must be below upper")
        if max(abs(self.lower), abs(self.upper)) > 1e140 or self.upper - self.lower < 1e-140:
            raise SchemaError(f"column {self.name!r}: bounds must lie within 1e140 of zero and "
                              "1e-140 apart")


def check_provenance(what: str, value: object) -> None:
    """Refuse bounds, categories or counts that say they were read off the private data."""
    if not isinstance(value, str):
        raise SchemaError(f"{what}: provenance must be a word from the list in docs/schema.md")
    if value.lower() not in PUBLIC_WORDS:
        raise DataDerived(
            f"{what}: provenance is {value!r}, only {', '.join(PUBLIC_WORDS)} are accepted; what "
            "was taken from the private data must be bought from the ledger"
        )


def check_promise(name: str, rows: object, provenance: object) -> None:
    """Refuse a number of rows that no author stands for, or that was counted.

    An expected number is compared with no table: whether it agrees is itself an answer about it.
    """
    if rows is None:
        if provenance is not None:
            raise SchemaError(f"{name}_provenance is given, and no {name}")
        return
    if isinstance(rows, bool) or not isinstance(rows, int):
        raise SchemaError(f"{name}: a whole number is needed")
    count(name, rows, most=MOST_COUNT)
    if not isinstance(provenance, str):
        raise SchemaError(f"{name} needs {name}_provenance: where the number comes "
                          f"from, one of {', '.join(PUBLIC_WORDS)}, and after a colon any text")
    check_provenance(name, provenance.partition(":")[0].strip())


@frozen
class Schema:
    """Columns in file order, and what else is public about the table.

    Attributes:
        name: of the table; default `table`.
        columns: list of columns, in file order.
        target: name of the target column; the same as `role = "target"` there.
        provenance, bounds_from: where the facts come from, for the table as a whole.
        expected_rows: about how many rows there will be, or people in a ledger that protects
            them: a promise made without looking. The only such number that may steer a learner
            under add_remove.
        expected_rows_provenance: where that promise comes from: a provenance word, and after a
            colon any text ("declared: the trial enrols 500").
        public_rows: the true number of rows, where it is public: relations `replace_one` and
            `replace_label` only.
        public_people: in a ledger of unit person, under a relation that keeps it public: how many
            people there are. It stands in place of `public_rows`, which is refused there.
        most_records: no table that is meant has more rows, or people; a larger one is not
            protected. Truncated samples need such a bound where the number is private.
        most_records_provenance: where that bound comes from, as `expected_rows_provenance`.
        missing_value_marker: a text or a number that stands for a missing cell, such as "?" or
            -99, in features and target; a column's own goes before it. Feature columns may then
            have missing values unless they say otherwise.
        array_layout: true if a frame with other column names may be matched by position.
        unit: whom the promise is about: in a file {"person": COLUMN}, for all that one person
            has, or "row". Left out, a table with a column of role `group` is refused by ledgers
            of rows.
        reading: how CSV files of the table are written (`form` in Python): `separator` (comma,
            semicolon, tab, vertical bar, colon), `decimal` (`.` or `,`), `encoding` (`utf-8`,
            `latin-1`, `cp1252`, `iso-8859-15`, `utf-16`), `quote` (a double or a single one), and
            `missing`, a list of texts that stand for an empty cell in every column.
        person: name of the column that says which person stands behind a row.
        task: `regression` or `classification`, by the target's kind.
    """

    name: str
    columns: tuple[Column, ...] = field(converter=_column_tuple)
    public_rows: int | None = None
    array_layout: bool = False
    expected_rows: int | None = None
    expected_rows_provenance: str | None = None
    unit: str | None = None
    person: str | None = None
    public_people: int | None = None
    most_records: int | None = None
    most_records_provenance: str | None = None
    form: TextForm | None = None

    def __attrs_post_init__(self) -> None:
        if self.form is not None:
            if type(self.form) is not TextForm:
                raise SchemaError("form: a TextForm")
            self.form.check(str(one) for column in self.columns for one in column.categories)
        if not isinstance(self.array_layout, bool):
            raise SchemaError("array_layout must be true or false")
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise SchemaError("two columns have the same name")
        if sum(column.role == "target" for column in self.columns) > 1:
            raise SchemaError("more than one target column")
        if not self.features:
            raise SchemaError("no feature column")
        if self.public_rows is not None:
            count("public_rows", self.public_rows, most=MOST_COUNT)
        if self.public_people is not None:
            count("public_people", self.public_people, most=MOST_COUNT)
        check_promise("expected_rows", self.expected_rows, self.expected_rows_provenance)
        check_promise("most_records", self.most_records, self.most_records_provenance)
        self._check_person()

    def _check_person(self) -> None:
        if self.unit not in (None, "row", "person") or (self.unit != "person" and self.person):
            raise SchemaError("unit: \"row\" or a person's column, [unit] person = \"COLUMN\"")
        if self.unit != "person":
            return
        held = {column.name: column for column in self.columns}.get(self.person or "")
        if held is None:
            raise SchemaError("[unit] person: the name of a column of this schema")
        if held.kind != "identifier" or held.role in ("feature", "target"):
            raise SchemaError(f"column {held.name!r} names the person of each row: its kind must "
                              "be identifier, and it can be neither feature nor target")

    def check_unit(self, unit: str, relation: str) -> None:
        """Refuse a table that a ledger of this unit does not protect.

        Raises:
            SchemaError: the schema is about people and the ledger about rows, or a column has
                the role `group`, so that people have several rows, and nothing is said about it.
            RelationMismatch: it states a number of rows, which another person's row would change.
        """
        if unit != "row":
            if relation == "replace_one" and self.public_rows is not None:
                raise RelationMismatch("public_rows states how many rows there are, but another "
                                       "person in one person's place may have more rows: state "
                                       "public_people instead")
            return
        if self.public_people is not None:
            raise SchemaError("public_people counts people, but this ledger protects rows")
        if self.unit == "person":
            raise SchemaError("the schema protects people, but this ledger protects rows: create "
                              "one with unit=\"person\"")
        groups = [column.name for column in self.columns if column.role == "group"]
        if groups and self.unit is None:
            raise SchemaError(
                f"column {groups[0]!r} has the role group, so a person may have several rows, but "
                "this ledger protects single rows. Create one with unit=\"person\" and set [unit] "
                f"person = \"{groups[0]}\", or set unit = \"row\" in the schema")

    @cached_property
    def features(self) -> tuple[Column, ...]:
        """The input columns, in file order."""
        return tuple(column for column in self.columns if column.role == "feature")

    @cached_property
    def target(self) -> Column:
        """The column that is learned. Raises `SchemaError` if there is none."""
        for column in self.columns:
            if column.role == "target":
                return column
        raise SchemaError("the schema has no target column")

    @cached_property
    def keys(self) -> tuple[Column, ...]:
        """Columns of texts that rows can be grouped by, and nothing else."""
        return tuple(column for column in self.columns if column.role == "key")

    @property
    def task(self) -> str:
        """`classification` for a categorical target, else `regression`."""
        return "classification" if self.target.kind == "categorical" else "regression"

    @cached_property
    def digest(self) -> str:
        """sha256 of the canonical JSON of the schema."""
        return hashlib.sha256(canonical(self.to_dict()).encode("ascii")).hexdigest()

    @property
    def declared_rows(self) -> int | None:
        """The number of rows that was declared, public or expected, for the keeper of a policy."""
        stated = self.public_rows if self.public_people is None else self.public_people
        return self.expected_rows if stated is None else stated

    def rows_for(self, relation: str) -> int | None:
        """The number of rows, or people, that a learner may be steered by; None if it has to
        buy one.

        Raises:
            RelationMismatch: the schema states the true number, and `relation` is add_remove:
                tables of n and n + 1 rows would be treated differently with probability 1.
        """
        name = "public_rows" if self.public_people is None else "public_people"
        if relation == "add_remove" and (self.public_rows, self.public_people) != (None, None):
            raise RelationMismatch(
                f"{name} states the true number of {name[7:]}, which add_remove hides. Declare "
                "expected_rows with expected_rows_provenance, a figure that was fixed without "
                "looking at the data, or use relation replace_one")
        return self.declared_rows

    def check_size(self, records: int) -> None:
        """Refuse a table of more rows, or people, than any that is meant.

        Raises:
            DataError: what `most_records` promises does not hold. No price would.
        """
        if self.most_records is not None and records > self.most_records:
            raise DataError("the table has more records than most_records of its schema allows")

    def feature_index(self, name: str) -> int:
        """Position among the features. Raises `SchemaError` for a name that is none."""
        for index, column in enumerate(self.features):
            if column.name == name:
                return index
        raise SchemaError(f"no feature column {name!r}")

    def select(self, names: tuple[str, ...]) -> Schema:
        """The same schema with only some features."""
        unknown = set(names) - {column.name for column in self.features}
        if unknown:
            raise SchemaError(f"no feature column {', '.join(sorted(unknown))}")
        kept = tuple(c for c in self.columns if c.role != "feature" or c.name in names)
        return evolve(self, columns=kept)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; `from_dict` reads them back."""
        value: dict[str, object] = {
            "name": self.name,
            "columns": [_column_dict(column) for column in self.columns],
            "public_rows": self.public_rows,
            "array_layout": self.array_layout,
        }
        if self.expected_rows is not None:  # absent else: digests of older schemas stay
            value |= {"expected_rows": self.expected_rows,
                      "expected_rows_provenance": self.expected_rows_provenance}
        if self.public_people is not None:
            value["public_people"] = self.public_people
        if self.most_records is not None:
            value |= {"most_records": self.most_records,
                      "most_records_provenance": self.most_records_provenance}
        if self.unit is not None:
            value["unit"] = self.unit if self.person is None else {"person": self.person}
        if self.form is not None:
            value["reading"] = self.form.as_dict()
        return value

    @staticmethod
    def from_dict(value: Any) -> Schema:
        """Read the JSON or TOML form; see docs/schema.md."""
        if not isinstance(value, dict):
            raise SchemaError("a schema is an object with a list of columns")
        for key in value:
            near = nearest(str(key), _TABLE_KEYS, 0.8)
            if near is not None and key not in _TABLE_KEYS:  # others are a title, a source, a note
                raise SchemaError(f"the schema has no key {key!r}: {near!r} is meant?")
        for key in ("provenance", "bounds_from"):
            check_provenance("schema", value.get(key, "public"))
        rows = {"public_rows": value.get("public_rows"),
                "expected_rows": value.get("expected_rows"),
                "expected_rows_provenance": value.get("expected_rows_provenance"),
                "public_people": value.get("public_people"),
                "most_records": value.get("most_records"),
                "most_records_provenance": value.get("most_records_provenance")}
        rows |= {**_unit(value.get("unit")), "form": TextForm.of(value.get("reading"))}
        try:
            if "columns" in value:
                marker = value.get("missing_value_marker")
                columns = tuple(_column(c, marker, value.get("target")) for c in value["columns"])
                return Schema(str(value.get("name", "table")), columns, **rows,
                              array_layout=value.get("array_layout", False))
            return _array_schema(value, rows)
        except (KeyError, TypeError) as error:
            raise SchemaError(f"the schema lacks or misuses {error}") from None

    @staticmethod
    def load(path: str | Path) -> Schema:
        """Read a `.json` or `.toml` schema file.

        Raises:
            SchemaError: not a schema; columns and rules are named.
            DataDerived: it says that something was read off the private data.
        """
        load = load_toml if str(path).endswith(".toml") else load_json
        if not os.path.exists(path):  # also where no file can have that name
            raise SchemaError(f"{Path(path).name}: no such schema file")
        try:
            value = load(path, "schema")
        except InvalidPlan as error:
            raise SchemaError(str(error)) from None
        return Schema.from_dict(value)


def _column_dict(column: Column) -> dict[str, Any]:
    result: dict[str, Any] = {"name": column.name, "kind": column.kind, "role": column.role,
                              "missing": column.missing, "outside": column.outside,
                              "provenance": column.provenance}
    if column.kind == "numeric":
        result |= {"lower": column.lower, "upper": column.upper, "integer": column.integer}
    if column.kind == "categorical":
        result["categories"] = list(column.categories)
        if column.ordered:
            result["ordered"] = True
    if column.missing_value_marker is not None:
        result["missing_value_marker"] = column.missing_value_marker
    if column.days_since is not None:
        result["days_since"] = column.days_since
    return result


def _column(value: Any, marker: str | float | None, target: object) -> Column:
    if not isinstance(value, dict):
        raise SchemaError("every column of a schema is an object with a name and a kind")
    unknown = set(value) - _COLUMN_KEYS
    if unknown:
        raise SchemaError(f"column {value.get('name')!r}: unknown keys "
                          f"{', '.join(sorted(unknown))}"
                          f"{meant(min(map(str, unknown)), _COLUMN_KEYS)}")
    name = value["name"]
    check_provenance(f"column {name!r}", value.get("bounds_from", "public"))
    usual = {"identifier": "identifier", "text": "key"}.get(value["kind"], "feature")
    role = value.get("role", "target" if target is not None and name == target else usual)
    allowed = value.get("missing", marker is not None and role == "feature")
    read = role in ("feature", "target", "key")
    listed = value.get("categories")
    if isinstance(listed, str):  # its letters are no list
        raise SchemaError(f"column {name!r}: categories must be a list")
    if value["kind"] == "numeric" and role in ("feature", "target") and (
            "lower" not in value or "upper" not in value):
        raise SchemaError(f"column {name!r}: bounds missing; lower and upper must be public facts")
    since = value.get("days_since")
    since = str(since) if day(since) else since
    return Column(
        name, value["kind"], role, value.get("lower", 0.0), value.get("upper", 0.0),
        tuple(listed or ()), value.get("integer", False), allowed,
        value.get("outside", "clip"),
        value.get("provenance", "public"), str(value.get("unit") or ""),
        value.get("ordered", False), value.get("missing_value_marker", marker if read else None),
        since)


def _unit(value: object) -> dict[str, str]:
    """What a schema says about whom a promise has to be about."""
    if not value:
        return {}
    if value == "row":
        return {"unit": "row"}
    if isinstance(value, dict) and set(value) == {"person"} and isinstance(value["person"], str):
        return {"unit": "person", "person": value["person"]}
    raise SchemaError("unit: \"row\" or a person's column, [unit] person = \"COLUMN\"; privacy "
                      "units of at most so many rows are not supported")


def _array_schema(value: dict[str, Any], rows: dict[str, Any]) -> Schema:
    """The compact form for arrays: one bound for every feature."""
    marker = value.get("missing_value_marker")
    features = tuple(
        Column(f"x{index}", value["feature_kind"], "feature", value["lower"], value["upper"],
               missing=marker is not None, missing_value_marker=marker)
        for index in range(count("features", value["features"]))
    )
    target = Column(value["target"], "categorical", "target",
                    categories=tuple(value["target_categories"]))
    return Schema(str(value.get("name", "table")), (*features, target), **rows, array_layout=True)
