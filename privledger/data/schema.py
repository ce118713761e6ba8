"""Public facts about a table, and where each comes from. Read from JSON or TOML."""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any

from attrs import field, frozen

from privledger.errors import DataDerived, InvalidValue, SchemaError
from privledger.graph import canonical
from privledger.rounding import MOST_COUNT, count, number

KINDS = ("numeric", "categorical", "identifier", "string", "timestamp")
ROLES = ("feature", "target", "identifier", "timestamp", "group", "alternate_target", "ignore")
PUBLIC_WORDS = ("public", "declared", "physical", "ledger", "released")
_COLUMN_KEYS = {"name", "kind", "role", "lower", "upper", "categories", "ordered", "integer",
                "unit", "note", "missing", "outside", "provenance", "bounds_from"}


def _column_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value)


def label_key(value: object) -> str:
    """One text for one category, however the file spells it: 1, 1.0 and "1" are the same."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


@frozen
class Column:
    """One column: every field is public.

    Attributes:
        kind: `numeric` (needs lower < upper) or `categorical` (needs categories) for features
            and targets.
        role: only `feature` columns are inputs.
        missing: whether cells may be empty.
        ordered: whether the categories come in their natural order, so that cuts make sense.
        outside: `clip` values beyond the bounds, or `refuse` the table.
        provenance: where bounds and categories come from; never the private data.
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

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError("a column needs a name")
        if self.kind not in KINDS or self.role not in ROLES:
            raise SchemaError(f"column {self.name!r}: kind must be one of {', '.join(KINDS)}, "
                              f"role one of {', '.join(ROLES)}")
        if self.outside not in ("clip", "refuse"):
            raise SchemaError(f"column {self.name!r}: outside must be clip or refuse")
        check_provenance(f"column {self.name!r}", self.provenance)
        if self.role not in ("feature", "target"):
            return
        if self.kind == "numeric":
            self._check_bounds()
        elif self.kind == "categorical":
            keys = [label_key(category) for category in self.categories]
            if not keys or len(set(keys)) != len(keys):
                raise SchemaError(f"column {self.name!r}: needs a list of distinct categories")
        else:
            raise SchemaError(f"column {self.name!r}: a {self.role} must be numeric or categorical")

    def _check_bounds(self) -> None:
        try:
            number("lower", self.lower)
            number("upper", self.upper)
        except InvalidValue as error:
            raise SchemaError(f"column {self.name!r}: {error}") from None
        if not self.lower < self.upper:
            raise SchemaError(f"column {self.name!r}: lower must be below upper")
        if max(abs(self.lower), abs(self.upper)) > 1e140 or self.upper - self.lower < 1e-140:
            raise SchemaError(f"column {self.name!r}: bounds must lie within 1e140 of zero and "
                              "1e-140 apart")


def check_provenance(what: str, value: object) -> None:
    """Refuse bounds, categories or counts that say they were read off the private data."""
    if not isinstance(value, str):
        raise SchemaError(f"{what}: provenance must be a word")
    if value.lower() not in PUBLIC_WORDS:
        raise DataDerived(
            f"{what}: provenance is {value!r}, only {', '.join(PUBLIC_WORDS)} are accepted; "
            "bounds and categories taken from the private data must be bought from the ledger"
        )


@frozen
class Schema:
    """Columns in file order, and what else is public about the table.

    Attributes:
        task: `regression` or `classification`, by the target's kind.
        public_rows: the number of rows, if it is public; needed by nothing under add_remove.
    """

    name: str
    columns: tuple[Column, ...] = field(converter=_column_tuple)
    public_rows: int | None = None
    array_layout: bool = False

    def __attrs_post_init__(self) -> None:
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise SchemaError("two columns have the same name")
        if sum(column.role == "target" for column in self.columns) > 1:
            raise SchemaError("more than one target column")
        if not self.features:
            raise SchemaError("no feature column")
        if self.public_rows is not None:
            count("public_rows", self.public_rows, most=MOST_COUNT)

    @property
    def features(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if column.role == "feature")

    @property
    def target(self) -> Column:
        for column in self.columns:
            if column.role == "target":
                return column
        raise SchemaError("the schema has no target column")

    @property
    def task(self) -> str:
        return "classification" if self.target.kind == "categorical" else "regression"

    @property
    def digest(self) -> str:
        """sha256 of the canonical JSON of the schema."""
        return hashlib.sha256(canonical(self.to_dict()).encode("ascii")).hexdigest()

    def feature_index(self, name: str) -> int:
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
        return Schema(self.name, kept, self.public_rows, self.array_layout)

    def to_dict(self) -> dict[str, Any]:
        """JSON values; `from_dict` reads them back."""
        return {
            "name": self.name,
            "columns": [_column_dict(column) for column in self.columns],
            "public_rows": self.public_rows,
            "array_layout": self.array_layout,
        }

    @staticmethod
    def from_dict(value: Any) -> Schema:
        """Read the JSON or TOML form; see docs/schema.md."""
        if not isinstance(value, dict):
            raise SchemaError("a schema is an object with a list of columns")
        for key in ("provenance", "bounds_from"):
            check_provenance("schema", value.get(key, "public"))
        rows = value.get("public_rows")
        if value.get("unit"):
            raise SchemaError("privacy units of several rows are not supported in this version: "
                              "keep one row per person before protecting the table")
        try:
            if "columns" in value:
                marker = value.get("missing_value_marker") is not None
                columns = tuple(_column(c, marker, value.get("target")) for c in value["columns"])
                return Schema(str(value.get("name", "table")), columns, rows,
                              bool(value.get("array_layout", False)))
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
        text = Path(path).read_text(encoding="utf-8")
        try:
            value = tomllib.loads(text) if str(path).endswith(".toml") else json.loads(text)
        except (ValueError, tomllib.TOMLDecodeError):
            raise SchemaError(f"{Path(path).name}: neither JSON nor TOML") from None
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
    return result


def _column(value: dict[str, Any], missing: bool, target: object) -> Column:
    unknown = set(value) - _COLUMN_KEYS
    if unknown:
        raise SchemaError(f"column {value.get('name')!r}: unknown keys "
                          f"{', '.join(sorted(unknown))}")
    name = value["name"]
    check_provenance(f"column {name!r}", value.get("bounds_from", "public"))
    role = value.get("role", "target" if target is not None and name == target else "feature")
    allowed = bool(value.get("missing", missing and role == "feature"))
    if value["kind"] == "numeric" and role in ("feature", "target") and (
            "lower" not in value or "upper" not in value):
        raise SchemaError(f"column {name!r}: bounds missing; lower and upper must be public facts")
    return Column(
        name, value["kind"], role, value.get("lower", 0.0), value.get("upper", 0.0),
        tuple(value.get("categories") or ()), bool(value.get("integer", False)), allowed,
        value.get("outside", "clip"),
        value.get("provenance", "public"), str(value.get("unit") or ""),
        bool(value.get("ordered", False)),
    )


def _array_schema(value: dict[str, Any], rows: int | None) -> Schema:
    """The compact form for arrays: one bound for every feature."""
    features = tuple(
        Column(f"x{index}", value["feature_kind"], "feature", value["lower"], value["upper"])
        for index in range(count("features", value["features"]))
    )
    target = Column(value["target"], "categorical", "target",
                    categories=tuple(value["target_categories"]))
    return Schema(str(value.get("name", "table")), (*features, target), rows, True)
