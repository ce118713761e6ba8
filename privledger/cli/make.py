"""What an author begins with: a schema, a learner of one's own, the list of learners."""

from __future__ import annotations

import keyword
import re
import sys
import tomllib
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

import click
from attrs import evolve

from privledger.cli.output import FILE, PLACE, Reply, command, note, without_effect
from privledger.cli.terminal import GREEN, RED, grid, pairs, text
from privledger.errors import InvalidValue, LearnerError, SchemaError
from privledger.plugins import learner_names, load_learner
from privledger.rounding import MOST_COUNT, count
from privledger.tables.dictionary import (
    BLANK,
    MOST_TEXT,
    draft_toml,
    schema_of_dictionary,
    schema_toml,
)
from privledger.tables.schema import PUBLIC_WORDS, Column, Schema
from privledger.tables.sources import scan_files

if TYPE_CHECKING:
    from rich.console import Console


# `privledger init`: a schema from a public description, never from the data.

@command
@click.argument("schema", metavar="SCHEMA.toml", type=PLACE)
@click.option("--from", "source", type=FILE,
              help="A data dictionary (.csv, one line for each column) or another schema (.toml, "
                   ".json). Without it, the command asks for each column.")
@click.option("--like", "table", type=click.Path(exists=True), metavar="TABLE",
              help="Take names and types of columns from the table (CSV: names only), and leave "
                   "bounds and categories to be filled in. No row is read.")
@click.option("--name", help="Of the table [default: that of the file].")
@click.option("--target", help="Name of the target column; \"\" for a table that has none.")
@click.option("--provenance", type=click.Choice(PUBLIC_WORDS), default="declared",
              show_default=True, help="Where bounds and categories come from.")
@click.option("--expected-rows", type=int,
              help="Approximate number of rows, chosen without looking at the data.")
def init(schema: str, source: str | None, table: str | None, name: str | None,
         target: str | None, provenance: str, expected_rows: int | None) -> Reply:
    """Write a schema from a public description. It never reads rows, and overwrites nothing."""
    place = Path(schema)
    if place.suffix != ".toml":
        raise InvalidValue("SCHEMA.toml", place.name, "a file that ends in .toml")
    if place.exists():
        raise InvalidValue("SCHEMA.toml", place.name, "a file that is not there yet")
    if expected_rows is not None:
        count("expected_rows", expected_rows, most=MOST_COUNT)
    called = name or place.stem
    if table is not None:
        without_effect("with --like", "source", "expected_rows")
        return drafted(place, table, called, target or None, provenance)
    told, target = target is not None, target or None
    if source is None:
        made = ask_for(called, target, provenance, expected_rows, told=told)
    elif source.endswith((".toml", ".json")):
        made = _again(Schema.load(source), name, target, provenance, expected_rows)
    elif source.endswith(".csv"):
        made = schema_of_dictionary(_read(source), name=called, target=target,
                                    provenance=provenance, expected_rows=expected_rows)
    else:
        raise InvalidValue("--from", Path(source).name, "a .csv, .toml or .json file")
    if source is not None and not told and "target" not in [one.role for one in made.columns]:
        raise InvalidValue("--target", None, "the name of the target column, or \"\" for a table "
                                             "that nothing is learned from")
    written = schema_toml(made)
    if Schema.from_dict(tomllib.loads(written)) != made:
        raise SchemaError("the schema does not read back as it was written. Nothing was written")
    with place.open("x", encoding="utf-8") as file:
        file.write(written)
    found = {"schema": str(place), "columns": len(made.columns), "features": len(made.features),
             "sha256": made.digest}

    def render(out: Console) -> None:
        out.print(text(f"{place}: {len(made.columns)} columns, {len(made.features)} features; "
                       "no data was read", GREEN))
        out.print(pairs([("next", "check that every bound is public. Then name the file in a run "
                                  "file, or pass it to pl.Schema.load")]))

    return Reply(found, render)


def drafted(place: Path, table: str, name: str, target: str | None, provenance: str) -> Reply:
    """Write a schema whose columns are those of a table, with what is public left to fill in."""
    found: dict[str, str] = {}
    for _, families in scan_files(table).origin.families():
        found |= families
    if target is not None and target not in found:
        raise SchemaError(f"no column is called {target!r}")
    text_of = draft_toml(found, name, target, provenance)
    with place.open("x", encoding="utf-8") as file:
        file.write(text_of)
    blanks = text_of.count(BLANK)
    told = {"schema": str(place), "columns": len(found), "to_fill_in": blanks}

    def render(out: Console) -> None:
        out.print(text(f"{place}: {len(found)} columns; no row was read", GREEN))
        out.print(pairs([("next", f"fill in what is public at {blanks} places marked {BLANK}; "
                                  "never from the rows. privledger doctor TABLE --schema "
                                  f"{place} then tells the table's owner what does not fit")]))

    return Reply(told, render)


def _read(path: str) -> str:
    """The text of a dictionary; a larger file is none."""
    with open(path, encoding="utf-8") as file:
        try:
            found = file.read(MOST_TEXT + 1)
        except UnicodeDecodeError:
            raise SchemaError("a data dictionary in UTF-8") from None
    return found


def _again(schema: Schema, name: str | None, target: str | None, provenance: str,
           expected_rows: int | None) -> Schema:
    """Another schema's facts, for another table or target. Its numbers of rows stay behind."""
    columns = tuple(evolve(column, unit="") for column in schema.columns)  # a word for readers
    if target is not None:
        if target not in [column.name for column in columns]:
            raise SchemaError(f"no column is called {target!r}")
        columns = tuple(evolve(column, role=_role(column, target)) for column in columns)
    return evolve(schema, name=name or schema.name, columns=columns, public_rows=None,
                  public_people=None, most_records=None, most_records_provenance=None,
                  expected_rows=expected_rows,
                  expected_rows_provenance=None if expected_rows is None else provenance)


def _role(column: Column, target: str) -> str:
    if column.name == target:
        return "target"
    return "feature" if column.role == "target" else column.role


def ask_for(name: str, target: str | None, provenance: str, expected_rows: int | None, *,
          told: bool) -> Schema:
    """Ask for columns, one after another, until a name is left empty; and for the target, unless
    it was told, or that there is none."""
    lines = ["name,kind,lower,upper,categories"]
    while True:
        column = click.prompt("name of a column (empty: done)", default="", show_default=False,
                              err=True)
        if not column:
            break
        kind = click.prompt("its kind", type=click.Choice(
            ["numeric", "integer", "categorical", "identifier", "string", "timestamp"]), err=True)
        facts = ["", "", ""]
        if kind in ("numeric", "integer"):
            facts[:2] = [str(click.prompt(f"its public {which} bound", type=float, err=True))
                         for which in ("lower", "upper")]
        elif kind == "categorical":
            facts[2] = str(click.prompt("its public categories, separated by |", err=True))
        cells = (column, kind, *facts)
        lines.append(",".join('"' + cell.replace('"', '""') + '"' for cell in cells))
    if not told:
        target = click.prompt("name of the target column (empty: none)", default="",
                              show_default=False, err=True) or None
    return schema_of_dictionary("\n".join(lines), name=name, target=target, provenance=provenance,
                                expected_rows=expected_rows)


# `privledger new`: a working plugin package to start from.

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TAKEN = {"privledger", "privledger_learners", "learner", "tests", "test"}
_FILES = {
    "pyproject.toml": "pyproject.toml.txt", "README.md": "README.md.txt",
    "$package/__init__.py": "init.py.txt", "$package/learner.py": "learner.py.txt",
    "tests/test_learner.py": "test_learner.py.txt",
}


def names_of(name: str) -> dict[str, str]:
    """The plugin's name, its package and its class.

    Raises:
        InvalidValue: not lower-case words joined by hyphens, or a name that is in use.

    >>> names_of("noisy-forest")
    {'name': 'noisy-forest', 'package': 'noisy_forest', 'class': 'NoisyForest'}
    """
    package = name.replace("-", "_")
    if not _NAME.fullmatch(name):
        raise InvalidValue("NAME", name, "lower-case words and digits, joined by hyphens")
    if (keyword.iskeyword(package) or package in sys.stdlib_module_names or package in _TAKEN
            or package in {"numpy", "sklearn", "pytest"}):
        raise InvalidValue("NAME", name, "a name that is neither a Python keyword nor an existing "
                                         "package")
    return {"name": name, "package": package,
            "class": "".join(word.capitalize() for word in name.split("-"))}


def written_files(name: str) -> dict[str, str]:
    """Every file of the package, by its path in it."""
    names = names_of(name)
    folder = files("privledger.cli") / "templates"
    return {Template(path).substitute(names):
            Template((folder / source).read_text(encoding="utf-8")).substitute(names)
            for path, source in _FILES.items()}


@command
@click.argument("kind", type=click.Choice(["learner"]))
@click.argument("name")
@click.option("--directory", type=click.Path(file_okay=False),
              help="Where to write it; must not exist or be empty [default: NAME, here].")
def new(kind: str, name: str, directory: str | None) -> Reply:
    """Write a plugin package: a tiny learner that works, its entry point, its tests."""
    made = written_files(name)
    root = Path(directory if directory is not None else name)
    if root.exists() and any(root.iterdir()):
        raise InvalidValue("--directory", str(root), "a new or empty folder")
    for path, content in made.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    result = {"kind": kind, "name": name, "directory": str(root), "files": sorted(made)}

    def render(out: Console) -> None:
        out.print(text(f"{name}: a working learner, with its tests", GREEN))
        out.print(pairs([("written", ", ".join(sorted(made))), ("in", str(root)),
                         ("next", f"pip install -e '{root}[test]' && pytest {root}")]))

    return Reply(result, render)


# `privledger learners`: installed plugins.

def describe(name: str) -> dict[str, Any]:
    """What one plugin says about itself, or why it cannot be loaded."""
    try:
        info = load_learner(name).info
    except LearnerError as error:
        return {"name": name, "error": str(error)}
    return {"name": name, "summary": info.summary, "paper": info.paper,
            "relations": list(info.relations), "tasks": list(info.tasks)}


@command
def learners() -> Reply:
    """List the installed learners."""
    found = [describe(name) for name in learner_names()]
    if not found:
        note("no learner is installed: see the entry-point group privledger.learners")

    def render(out: Console) -> None:
        rows = []
        for item in found:
            if "error" in item:
                rows.append((item["name"], text(item["error"], RED), "", ""))
            else:
                rows.append((item["name"], item["summary"], item["paper"],
                             ", ".join(item["tasks"])))
        if rows:
            # Names are typed again elsewhere: one that is cut over two lines cannot be copied.
            whole = min(40, max(len(item["name"]) for item in found))
            out.print(grid(("learner", "summary", "paper", "tasks"), rows, whole=whole))

    return Reply({"learners": found}, render)
