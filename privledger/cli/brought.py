"""Commands that installed packages bring: the entry-point group `privledger.commands`.

Nothing of them is imported before one is called, and what is broken in one stays there. A name of
ours is never theirs.
"""

from __future__ import annotations

import re
from importlib.metadata import EntryPoint, entry_points

import click

GROUP = "privledger.commands"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def brought(ours: frozenset[str]) -> dict[str, list[EntryPoint]]:
    """Name -> the different places that bring it; nothing is imported."""
    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        if _NAME.fullmatch(point.name) and point.name not in ours:
            found.setdefault(point.name, {})[point.value] = point
    return {name: list(points.values()) for name, points in found.items()}


def described(points: list[EntryPoint]) -> str:
    """A line for the list of commands."""
    return "Of " + " and ".join(sorted(point.module.partition(".")[0] for point in points)) + "."


def load(name: str, points: list[EntryPoint]) -> click.Command:
    """The command.

    Raises:
        click.ClickException: two packages bring it, it cannot be imported, or is no command.
    """
    if len(points) > 1:
        # Whichever came first on the path would win, and nobody would be told which.
        raise click.ClickException(f"command {name} is brought by more than one package, so none "
                                   f"is used: {', '.join(sorted(one.value for one in points))}")
    try:
        command = points[0].load()
    except Exception as error:
        raise click.ClickException(f"command {name} of {points[0].value} cannot be imported: "
                                   f"{type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise click.ClickException(f"{points[0].value} is no command")
    return command
