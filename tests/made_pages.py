"""Parts of pages that a program makes: `python -m tests.made_pages` renews them.

A part stands between `<!-- made: KIND NAME -->` and `<!-- end -->`; `MAKERS` has a function for
each kind. tests/test_made_pages.py compares every part with what is made today.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
MEASURED = DOCS / "figures" / "benchmarks.json"
PART = re.compile(r"^<!-- made: (\w+)(?: ([^\n]+?))? -->\n.*?^<!-- end -->$",
                  re.DOTALL | re.MULTILINE)
OTHERS = re.compile(r"^<!-- (?:made by|table).*?^<!-- end -->$", re.DOTALL | re.MULTILINE)
"""By tests.certified, tests/bench/auto.py and docs/examples/published.py: each has a test."""
PRINTED = re.compile(r"(?<=^```console\n)\$ .*?(?=^```)", re.DOTALL | re.MULTILINE)
ANSWERED = {"auditing.md": "tests/test_auditing_page.py"}
"""Pages whose commands are run, and what they print compared; and by what."""
WHOLE = {"changelog.md": "releases, of changelog.d",
         "papers/tables.md": "privledger reproduce all --format md",
         "gallery.md": "tests/bench/gallery.py"}
"""Pages that are made from their first line to their last, and by what."""


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown."""
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head),
                      *("| " + " | ".join(map(str, cells)) + " |" for cells in rows)])


# --- commands -------------------------------------------------------------------------------------


def _options(params: Iterable[click.Parameter], context: click.Context) -> str:
    rows = []
    for param in params:
        record = param.get_help_record(context) if isinstance(param, click.Option) else None
        if record is not None:
            names = ", ".join(f"`{one}`" for one in re.split(r", | / ", record[0]))
            rows.append([" ".join(one.split()).replace("|", "\\|") for one in (names, record[1])])
    return table(["Option", "Meaning"], rows)


def _of_one(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name)
    usage = " ".join([name, *command.collect_usage_pieces(context)])
    parts = [" ".join(part.split()) for part in (command.help or "").split("\n\n")]
    return "\n\n".join([f"`{usage}`", *parts, _options(command.params, context)])


def command(name: str) -> str:
    """Usage, help and options of a command; of a group, of each of its commands."""
    from privledger.cli import main

    found = main.commands[name]
    if not isinstance(found, click.Group):
        return _of_one(found, f"privledger {name}")
    below = [_of_one(one, f"privledger {name} {word}")
             for word, one in sorted(found.commands.items())]
    return "\n\n".join([" ".join((found.help or "").split()), *below])


def commands(_: str) -> str:
    """All commands, as `privledger --help` groups them."""
    from privledger.cli.app import GROUPS

    return table(["For", "Command", "What it does"], [
        [title, f"[`{name}`](#privledger-{name})", line]
        for title, group in GROUPS.items() for name, (_, line) in group.items()])


def rules(_: str) -> str:
    """Rules of `check`."""
    from privledger.gate import RULES

    return table(["Rule", "Meaning"], [[f"`{name}`", line] for name, line in RULES.items()])


# --- the ledger -----------------------------------------------------------------------------------


def entries(_: str) -> str:
    """Kinds of entries and their fields."""
    from privledger.ledger.codec import ENTRIES

    lines = [textwrap.fill(f"{kind}  {fields}", 96, subsequent_indent="    ",
                           break_on_hyphens=False, break_long_words=False)
             for kind, fields in ENTRIES.items()]
    return "```text\n" + "\n".join(lines) + "\n```"


SAID = {"epsilon": "epsilon of the budget", "delta": "delta of the budget",
        "alone": "of a federation: epsilon if all other parties reveal their noise",
        "private": "false if the noise has a seed", "refusals": "how many requests were refused",
        "unit": "unit of the filter", "amount": "spent, in the filter's unit",
        "tables": "what every table lost at most, with the rows it declares",
        "share": "spent, as a share of the filter's cap", "caps": "every cap of the open window"}
"""Of rows that are computed where they are declared."""


def explained(text: str) -> dict[str, str]:
    """Names and meanings in the section "Attributes" of a docstring."""
    found: dict[str, str] = {}
    for part in re.split(r"^ {8}(?=\w)", text.partition("Attributes:")[2], flags=re.MULTILINE)[1:]:
        names, _, meaning = " ".join(part.split()).partition(": ")
        found |= {name: meaning.rstrip(".") for name in names.split(", ")}
    return found


def keys(name: str) -> str:
    """Keys of a schema file: of the `table`, or of a `column`."""
    from privledger.tables import schema

    told = explained({"table": schema.Schema, "column": schema.Column}[name].__doc__ or "")
    wanted = {"table": schema._TABLE_KEYS, "column": schema._COLUMN_KEYS}[name]
    compact = {"features", "feature_kind", "target_categories"}
    assert not set(wanted) - compact - set(told)
    return table(["Key", "Meaning"], [[f"`{one}`", meaning] for one, meaning in told.items()
                                      if one in wanted])


def record(path: str) -> str:
    """What the fields of a frozen record mean, and their defaults."""
    from attrs import NOTHING, fields

    home, _, name = path.rpartition(".")
    found = getattr(import_module(home), name)
    told = explained(found.__doc__ or "")
    rows = [[f"`{one.name}`", "-" if one.default in (NOTHING, None, ()) else f"`{one.default}`",
             told[one.name]] for one in fields(found) if one.name in told]
    return table(["Key", "Default", "Meaning"], rows)


def checks(_: str) -> str:
    """Checks of the conformance kit."""
    from privledger.testing import CHECKS

    return table(["Check", "The rule"], [
        [f"`{name}`", " ".join((one.__doc__ or "").split("\n\n")[0].split())]
        for name, one in CHECKS.items()])


def figures(_: str) -> str:
    """All that is told of a ledger as a whole."""
    from privledger.ledger.view import FIGURES, View

    told = explained(View.__doc__ or "") | SAID
    rows = []
    for row in FIGURES:
        found = getattr(View, row.name, None)
        said = told.get(row.name) or (found.__doc__ or "").split("\n\n")[0].rstrip(".")
        said = said[:1].lower() + said[1:]
        if row.name:
            rows.append([f"`{row.name}`", row.label or "-", said])
    return table(["In JSON", "In `diff`", "What it is"], rows)


def fields(kind: str) -> str:
    """What the fields of a kind of entry mean."""
    from privledger.ledger import events
    from privledger.ledger.codec import SHAPES

    (event,) = [one for one in vars(events).values() if isinstance(one, type)
                and vars(one).get("kind") == kind]
    told = explained(event.__doc__ or "")
    return table(["Field", "Meaning"], [
        [f"`{one}`", told["rule" if one == "kind" else one]] for one in SHAPES[kind]])


# --- what was tried -------------------------------------------------------------------------------


@cache
def tried() -> dict[str, dict[str, tuple[str, str, list[tuple[str, str]]]]]:
    """Heading -> item -> what was tried, what happens now, (file, name) of tests that repeat it."""
    found: dict[str, dict[str, tuple[str, str, list[tuple[str, str]]]]] = {}
    heading, item, path, said = "", "", "", {"tried": "", "now": ""}
    for line in (ROOT / "tests" / "attacks.txt").read_text(encoding="utf-8").splitlines()[2:]:
        word, _, text = line.strip().partition(": ")
        if line.startswith("#"):
            heading = line
            found[heading] = {}
        elif not line.startswith(" "):
            item = line
        elif word in ("tried", "now"):
            said[word] = text
        elif line.startswith("    "):
            new = said["tried"], said["now"], []
            found[heading].setdefault(item, new)[2].append((path, word))
        else:
            path = word
    return found


def attacks(_: str) -> str:
    """What was tried, by kind."""
    return "\n\n".join(heading.replace(": ", "\n\n") + "\n\n" + table(["Item", "Tried", "Now"], [
        [item, attempt, now] for item, (attempt, now, _) in items.items()])
        for heading, items in tried().items())


# --- what was measured ----------------------------------------------------------------------------


@cache
def measured_parts() -> dict[str, list[Any]]:
    """Heading -> blocks of text and tables, as tests/bench/run.py keeps them."""
    found: dict[str, list[Any]] = json.loads(MEASURED.read_text(encoding="utf-8"))
    return found


def measured(name: str) -> str:
    """One set of measurements."""
    return "\n\n".join(one if isinstance(one, str) else table(one["head"], one["rows"])
                       for one in measured_parts()[name])


def benchmarks(_: str) -> str:
    """All measurements that no page shows by name, each under its heading."""
    shown = {part[2] for page in pages()
             for part in PART.finditer(page.read_text(encoding="utf-8"))}
    return "\n\n".join(f"## {name}\n\n{measured(name)}" for name in measured_parts()
                       if name not in shown)


def blocks_of(text: str) -> list[Any]:
    """The inverse of `measured`: paragraphs as texts, tables as head and rows."""
    found: list[Any] = []
    for part in re.split(r"\n\n+", text.strip()):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                 for line in part.splitlines()] if part.startswith("|") else []
        found.append({"head": lines[0], "rows": lines[2:]} if lines else part)
    return found


def keep(parts: dict[str, list[Any]]) -> None:
    """Write what was measured, a line for each block."""
    lines = [f"{json.dumps(name)}: [\n" + ",\n".join(
        json.dumps(block, ensure_ascii=False) for block in blocks) + "]"
        for name, blocks in parts.items()]
    MEASURED.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    measured_parts.cache_clear()


def renew() -> None:
    """All pages."""
    for page in pages():
        page.write_text(renewed(page.read_text(encoding="utf-8")), encoding="utf-8")


MAKERS: dict[str, Callable[[str], str]] = {
    one.__name__: one for one in (command, commands, rules, record, keys, checks, entries, fields,
                                  figures, measured, benchmarks, attacks)}


def renewed(text: str) -> str:
    """A page with its made parts made again."""
    return PART.sub(lambda part: "\n".join([
        part[0].split("\n", 1)[0], "", MAKERS[part[1]](part[2] or ""), "", "<!-- end -->"]), text)


def pages() -> list[Path]:
    """Every page with a made part."""
    return [page for page in sorted(DOCS.rglob("*.md"))
            if PART.search(page.read_text(encoding="utf-8"))]


def by_hand() -> dict[str, int]:
    """Page -> lines that are written by hand."""
    found = {}
    for page in sorted(DOCS.rglob("*.md")):
        name = page.relative_to(DOCS).as_posix()
        if name not in WHOLE and not name.startswith("reference/"):
            text = page.read_text(encoding="utf-8")
            for part in (PART, OTHERS, *([PRINTED] if name in ANSWERED else [])):
                text = part.sub("", text)
            found[name] = text.count("\n")
    return found


if __name__ == "__main__":
    renew()
