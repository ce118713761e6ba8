"""`privledger new`: a working plugin package to start from."""

from __future__ import annotations

import keyword
import re
import sys
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import click

from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, pairs, text
from privledger.errors import InvalidValue

if TYPE_CHECKING:
    from rich.console import Console

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
        raise InvalidValue("NAME", name, "no Python word and no package that exists already")
    return {"name": name, "package": package,
            "class": "".join(word.capitalize() for word in name.split("-"))}


def written(name: str) -> dict[str, str]:
    """Every file of the package, by its path in it."""
    names = names_of(name)
    folder = files("privledger.cli") / "templates"
    return {Template(path).substitute(names):
            Template((folder / source).read_text(encoding="utf-8")).substitute(names)
            for path, source in _FILES.items()}


@click.command(cls=Guarded)
@click.argument("kind", type=click.Choice(["learner"]))
@click.argument("name")
@click.option("--directory", type=click.Path(file_okay=False),
              help="Where to write it; must not exist or be empty [default: NAME, here].")
@format_option
def new(kind: str, name: str, directory: str | None, format_: str) -> None:
    """Write a plugin package: a tiny learner that works, its entry point, its tests."""
    made = written(name)
    root = Path(directory if directory is not None else name)
    if root.exists() and any(root.iterdir()):
        raise InvalidValue("--directory", str(root), "a folder that is new or empty")
    for path, content in made.items():
        place = root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(content, encoding="utf-8")
    result = {"kind": kind, "name": name, "directory": str(root), "files": sorted(made)}

    def render(out: Console) -> None:
        out.print(text(f"{name}: a learner that works, with its tests", GREEN))
        out.print(pairs([("written", ", ".join(sorted(made))), ("in", str(root)),
                         ("next", f"pip install -e '{root}[test]' && pytest {root}")]))

    emit(format_, result, render)
