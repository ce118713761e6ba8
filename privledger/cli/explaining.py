"""`privledger explain`: why a run or a node tree costs what it costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privledger.accounting import RELATIONS, check_relation
from privledger.cli.opening import data_option
from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.planning import prepare
from privledger.cli.render import text
from privledger.errors import InvalidPlan
from privledger.graph import Explanation, Node, explain, from_json

if TYPE_CHECKING:
    from rich.console import Console


def read_node(path: str) -> Node:
    """The node tree in a JSON file, as `privledger.to_json` writes it."""
    try:
        value: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise InvalidPlan(path, "something else", "JSON, as privledger.to_json writes it") from None
    return from_json(value)


@click.command("explain", cls=Guarded)
@click.argument("file", metavar="RUN.toml|NODE.json", type=click.Path(exists=True,
                                                                     dir_okay=False))
@click.option("--delta", type=float, help="Failure probability [default: the run's].")
@click.option("--relation", type=click.Choice(RELATIONS),
              help="For NODE.json [default: add_remove].")
@data_option
@format_option
def explain_command(file: str, delta: float | None, relation: str | None, data_dir: str | None,
                    format_: str) -> None:
    """Say which theorem proves a price, what is proved from below, and why others differ.

    Opens no data.
    """
    if file.endswith(".json"):
        if delta is None:
            raise click.UsageError("--delta is needed for a node tree")
        found = explain(read_node(file), delta, check_relation(relation or "add_remove"))
    else:
        prepared = prepare(file, data_dir)
        at = prepared.run.params["delta"] if delta is None else delta
        found = explain(prepared.node, at, check_relation(prepared.run.relation))
    emit(format_, found.as_dict(), lambda out: render(out, found))


def render(out: Console, found: Explanation) -> None:
    for line in str(found).splitlines():
        out.print(text(line))
