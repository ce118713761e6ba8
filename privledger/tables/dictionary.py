"""A schema from a public description: a data dictionary, never the data.

A dictionary has one line for each *column* of the table, and says its kind. A file without a
column that does so is taken for a table, and refused before anything of it is used.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping

from privledger.errors import SchemaError
from privledger.tables.schema import Schema

MOST_COLUMNS = 10_000
MOST_TEXT = 4_000_000
NAMES = {
    "name": ("name", "column", "variable", "field", "variable / field name", "variable name"),
    "kind": ("kind", "type", "field type", "data type"),
    "lower": ("lower", "min", "minimum", "text validation min"),
    "upper": ("upper", "max", "maximum", "text validation max"),
    "categories": ("categories", "values", "levels", "choices", "permissible values",
                   "choices, calculations, or slider labels"),
    "role": ("role",),
    "missing": ("missing", "nullable"),
    "ordered": ("ordered",),
    "provenance": ("provenance", "bounds_from"),
    "secret": ("identifier?",),
}
"""What a schema calls it -> what dictionaries do, in small letters."""
KINDS = {
    "numeric": ("numeric", "number", "float", "real", "double", "continuous", "slider"),
    "integer": ("integer", "int", "count"),
    "categorical": ("categorical", "category", "enum", "nominal", "ordinal", "radio", "dropdown",
                    "yesno", "truefalse", "boolean", "bool"),
    "identifier": ("identifier", "id"),
    "timestamp": ("timestamp", "date", "datetime", "time"),
    "string": ("string", "text", "notes", "char"),
}
_YES, _NO = ("true", "yes", "y", "1"), ("false", "no", "n", "0", "")


def schema_of_dictionary(text: str, *, name: str, target: str | None = None,
                         provenance: str = "declared", expected_rows: int | None = None) -> Schema:
    """The schema that a data dictionary describes, as CSV.

    Args:
        text: a header and one line for each column. Categories are separated by "|", by ";", or
            where there is neither by ",".
        target: name of the target column. provenance: where bounds and categories come from,
            unless a line says so itself.

    Raises:
        SchemaError: no dictionary, or a bound, a kind or a list of categories is missing; all
            that is missing is named at once.
    """
    columns, missing = [], []
    for line in _lines(text):
        column, lacks = _column(line, provenance)
        columns.append(column)
        missing += [f"column {column['name']!r} needs {what}" for what in lacks]
    if missing:
        raise SchemaError("; ".join(missing[:50]) + ". Take what is missing from public "
                          "knowledge, not from the data")
    if target is not None and target not in [column["name"] for column in columns]:
        raise SchemaError(f"no column is called {target!r}")
    value: dict[str, object] = {"name": name, "columns": columns}
    if target is not None:
        value["target"] = target
    if expected_rows is not None:
        value |= {"expected_rows": expected_rows, "expected_rows_provenance": provenance}
    return Schema.from_dict(value)


def _lines(text: str) -> Iterable[dict[str, str]]:
    """Every line by the schema's own words."""
    if len(text) > MOST_TEXT:
        raise SchemaError("the file is too long for a data dictionary")
    rows = [row for row in csv.reader(io.StringIO(text.removeprefix("\ufeff"))) if any(row)]
    known = {alias: word for word, aliases in NAMES.items() for alias in aliases}
    heads = [known.get(head.strip().lower(), "") for head in (rows[0] if rows else [])]
    twice = [head for head in heads if head and heads.count(head) > 1]
    if twice:
        raise SchemaError(f"two columns of the dictionary give {twice[0]}: keep one of them")
    if "name" not in heads or "kind" not in heads:
        raise SchemaError("this is no data dictionary: its header needs the columns name and kind. "
                          "If this is the table itself: init never reads data")
    if not 1 < len(rows) <= MOST_COLUMNS:
        raise SchemaError("a data dictionary needs a header and one line for each column")
    for number, row in enumerate(rows[1:], 2):
        if len(row) > len(heads):
            raise SchemaError(f"line {number} of the dictionary has more cells than its header")
        yield {head: cell.strip() for head, cell in zip(heads, row, strict=False) if head}


def _column(line: Mapping[str, str], provenance: str) -> tuple[dict[str, object], list[str]]:
    """One column as `Schema.from_dict` reads it, and what is missing."""
    name = line.get("name", "")
    if not name:
        raise SchemaError("a line of the dictionary has no name")
    said = line.get("kind", "").lower()
    kind = next((kind for kind, words in KINDS.items() if said in words), "")
    if not kind:
        words = sorted(word for words in KINDS.values() for word in words)
        raise SchemaError(f"column {name!r}: its kind must be one of {', '.join(words)}")
    column: dict[str, object] = {"name": name, "kind": "numeric" if kind == "integer" else kind}
    if kind == "integer":
        column["integer"] = True
    role = line.get("role", "")
    if not role and (_flag(name, line, "secret") or kind in ("string", "timestamp")):
        role = "ignore"  # nothing that learns takes them
    if role:
        column["role"] = role
    for flag in ("missing", "ordered"):
        if _flag(name, line, flag):
            column[flag] = True
    column["provenance"] = line.get("provenance") or provenance
    if role not in ("", "feature", "target"):
        return column, []
    return column, _facts(name, kind, said, line, column)


def _facts(name: str, kind: str, said: str, line: Mapping[str, str],
           column: dict[str, object]) -> list[str]:
    """Add bounds or categories; what is missing of them."""
    if kind in ("numeric", "integer"):
        for bound in ("lower", "upper"):
            if line.get(bound):
                column[bound] = _number(name, line[bound])
        return [f"{article} {bound} bound" for article, bound in (("a", "lower"), ("an", "upper"))
                if bound not in column]
    if kind == "categorical":
        found = _categories(line.get("categories", ""))
        if not found and said in ("yesno", "truefalse", "boolean", "bool"):
            found = ["0", "1"]
        column["categories"] = found
        return [] if found else ["a list of categories"]
    return []


def _categories(cell: str) -> list[str]:
    """"a|b", "a;b", "a, b", or a form's "1, yes | 2, no", of which the data hold the codes."""
    between = next((mark for mark in "|;" if mark in cell), ",")
    parts = [part.strip() for part in cell.split(between)]
    coded = [part.partition(",") for part in parts]
    if "|" in cell and all(comma for _, comma, _ in coded):
        return [code.strip() for code, _, _ in coded]
    return [part for part in parts if part]


def _flag(name: str, line: Mapping[str, str], key: str) -> bool:
    said = line.get(key, "").lower()
    if said not in (*_YES, *_NO):
        raise SchemaError(f"column {name!r}: {key} must be yes or no")
    return said in _YES


def _number(name: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise SchemaError(f"column {name!r}: a bound must be a number") from None
    if not math.isfinite(value):
        raise SchemaError(f"column {name!r}: a bound must be a finite number")
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def schema_toml(schema: Schema) -> str:
    """A schema as a TOML file; reading it gives the same schema."""
    value = schema.to_dict()
    head = [f"{key} = {_toml(one)}" for key, one in value.items()
            if key not in ("columns", "unit", "reading") and one is not None]
    unit = value.get("unit")
    if isinstance(unit, str):
        head.append(f"unit = {_toml(unit)}")
    tables = [f"[{name}]\n" + "\n".join(f"{key} = {_toml(one)}" for key, one in held.items())
              for name in ("unit", "reading") if isinstance(held := value.get(name), dict)]
    tables += ["[[columns]]\n" + "\n".join(f"{key} = {_toml(one)}" for key, one in column.items())
               for column in value["columns"]]
    return "\n".join(head) + "\n\n" + "\n\n".join(tables) + "\n"


def _toml(value: object) -> str:
    """One value: texts, flags, numbers and lists of them are written as JSON writes them."""
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return json.dumps(value, allow_nan=False, ensure_ascii=False).replace("\x7f", "\\u007f")


# A schema to be filled in: what a table's header and types say, and nothing that rows say.

BLANK = "FILL IN"
_DRAFTS = {
    "number": ('kind = "numeric"', f"# {BLANK}: lower = 0, upper = 0, if public; integer = true"),
    "text": ('kind = "categorical"', f"# {BLANK}: categories = [], if public"),
    "date": ('kind = "timestamp"\nrole = "ignore"', "# dates are not learned from"),
    "time": ('kind = "timestamp"\nrole = "ignore"', "# times are not learned from"),
    "other": ('kind = "string"\nrole = "ignore"', "# lists and records are not learned from"),
}
_ANY = ("", f'# {BLANK}: kind = "numeric", with lower and upper; or kind = "categorical", with '
        'categories;\n# or kind = "string", role = "ignore". Only what is public')


def draft_toml(families: Mapping[str, str], name: str, target: str | None, provenance: str) -> str:
    """A schema file that is not complete: `Schema.load` refuses it until it is filled in.

    Args:
        families: name of each column -> what its type is to a schema; anything else is a column
            of texts that could be all.
    """
    head = [f"name = {_toml(name)}"] + ([] if target is None else [f"target = {_toml(target)}"])
    tables = []
    for column, family in families.items():
        kind, blank = _DRAFTS.get(family, _ANY)
        tables.append("\n".join(line for line in (
            "[[columns]]", f"name = {_toml(column)}", kind, f"provenance = {_toml(provenance)}",
            blank) if line))
    return "\n".join(head) + "\n\n" + "\n\n".join(tables) + "\n"
