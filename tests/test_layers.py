"""The one-way flow: every module imports from its own layer and earlier ones only."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import privledger_learners
import privledger_papers
import pytest

import privledger
from privledger.testing.scans import inside_names
from tests import house

ROOT = Path(privledger.__file__).parent
# Where they are imported from, installed or not: beside the package they are in a clone only.
LEARNERS = Path(privledger_learners.__file__).parent
PAPERS = Path(privledger_papers.__file__).parent
LAYERS = (
    "former", "numerals", "errors", "findings", "reading", "rounding", "mutex", "accounting",
    "graph", "nodes", "noise", "tables", "ledger", "questions", "engines", "storage", "guard",
    "adapters", "plugins", "broker", "federation", "testing", "reports", "gate", "runs",
    "notebook", "plot", "cli", "pytest_plugin", "__main__")
ALONE = "standalone"
MODULES = sorted(ROOT.rglob("*.py"))
PLUGIN_MODULES = sorted((*LEARNERS.rglob("*.py"), *PAPERS.rglob("*.py")))
GENERATOR = "noise/seeded.py"
# A name for two files says that they are about the same thing.
SAME_THING = {
    "explain",  # a command, and what it prints
    # The stand-alone verifier's reading of what the package does: it shares no code with it.
    "meter", "nodes", "reading", "vectors"}


def shown(path: Path) -> str:
    """As a list of what breaks a rule names it."""
    root = next(root for root in (ROOT, LEARNERS, PAPERS) if path.is_relative_to(root))
    return path.relative_to(root if root is ROOT else root.parent).as_posix()


def parsed(path: Path) -> ast.Module:
    return house.tree(house.NAMES[path])


@cache
def imports(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """(module, names) of every import anywhere in a file, function bodies included."""
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found += [(alias.name, ()) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            if node.level == 1 and path.parent.name == ALONE:
                continue  # a folder that is handed on by itself: its files name each other so
            assert node.level == 0, f"{path}: a relative import"
            found.append((node.module, tuple(alias.name for alias in node.names)))
    return found


def layers_of(module: str, names: tuple[str, ...]) -> list[str]:
    if module == "privledger":
        below = [name for name in names
                 if (ROOT / name).is_dir() or (ROOT / f"{name}.py").is_file()]
        return below or ["pytest_plugin"]  # the public package is made of everything
    return [module.split(".")[1]]


def test_imports_follow_the_layers():
    wrong = []
    for path in MODULES:
        own = path.relative_to(ROOT).parts[0].removesuffix(".py")
        if own in ("__init__", ALONE):
            continue  # the latter has a rule of its own
        assert own in LAYERS, f"{own} is in no layer"
        for module, names in imports(path):
            if module == "privledger" and own in ("cli", "pytest_plugin"):
                continue  # the outermost layers may use the public package
            if module.split(".")[0] == "privledger" and module != f"privledger.{ALONE}.build":
                wrong += [f"{shown(path)} imports {module}" for target in layers_of(module, names)
                          if LAYERS.index(target) > LAYERS.index(own)]
    assert not wrong


def test_what_stands_alone_imports_nothing_of_ours_and_nobody_imports_it():
    # `build` hands out the text of the one file; nobody imports the reader itself.
    allowed = {f"privledger.{ALONE}.build", f"privledger.{ALONE}.build.one_file"}
    wrong = []
    for path in MODULES:
        modules = {module for module, _ in imports(path)}
        names = {f"{module}.{name}" for module, several in imports(path) for name in several}
        if path.relative_to(ROOT).parts[0] == ALONE:
            wrong += [f"{shown(path)} imports {module}" for module in modules
                      if module.split(".")[0] not in sys.stdlib_module_names]
        wrong += [f"{shown(path)} imports {name}" for name in modules | names
                  if name.startswith(f"privledger.{ALONE}") and name not in allowed]
    assert not wrong


@pytest.mark.parametrize(("paths", "never"), [
    (MODULES, ("privledger_learners", "privledger_papers")),  # the core knows no learner
    (sorted(LEARNERS.rglob("*.py")), ("privledger_papers",)),
    (sorted(PAPERS.rglob("*.py")), ("privledger_learners.",))],  # it uses them as anybody does
    ids=["core", "learners", "papers"])
def test_packages_know_nothing_of_what_stands_on_them(paths, never):
    assert not [f"{shown(path)} imports {module}" for path in paths for module, _ in imports(path)
                if module.split(".")[0] in never
                or any(module.startswith(one) for one in never if one.endswith("."))]


def _random_uses(path: Path) -> list[str]:
    found = [f"{shown(path)} imports {module}" for module, names in imports(path)
             if module == "random" or module.startswith("numpy.random")
             or (module == "numpy" and "random" in names)]
    for node in ast.walk(parsed(path)):
        if (isinstance(node, ast.Attribute) and node.attr == "random"
                and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")):
            found.append(f"{shown(path)}:{node.lineno}")
    return found


def test_a_seeded_generator_lives_in_one_module_only():
    assert _random_uses(ROOT / GENERATOR)  # the rule sees the one that exists
    assert not [use for path in MODULES if shown(path) != GENERATOR for use in _random_uses(path)]


def test_learners_seed_every_generator():
    """They draw public structure, from `random_state`. What must not be guessed comes from the
    ledger's source, or from the operating system's."""
    assert not [f"{shown(path)}:{call.lineno}" for path in PLUGIN_MODULES
                for call in ast.walk(parsed(path))
                if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("default_rng")
                and not (call.args or call.keywords)]


def test_there_are_modules_to_look_at():
    """A rule over no file is none."""
    assert len(MODULES) > 100 and len(PLUGIN_MODULES) > 20


def test_learners_use_public_names_only():
    """The conformance kit's own rule, on every file, whether or not a learner reaches it."""
    assert not [f"{shown(path)}: {name}" for path in PLUGIN_MODULES
                for name in inside_names(parsed(path))]


def test_learners_never_reach_behind_the_guard():
    """`_vault`, `_history` and their like are for the core; a learner has no business there."""
    inner = {"_vault", "_history", "_source", "_meter", "_spends", "_state", "_touched", "_log"}
    assert not [f"{shown(path)}:{node.lineno}" for path in PLUGIN_MODULES
                for node in ast.walk(parsed(path))
                if isinstance(node, ast.Attribute) and node.attr in inner]


def test_no_circle_of_files():
    """Every import counts, also inside functions and under TYPE_CHECKING, and a name that a face
    hands on counts as an import of the file it comes from. Helpers of the tests are files, too."""
    found = house.circles({name: house.needs(name) for name in house.FILES
                           if name not in house.FACES})
    assert not [sorted(circle) for circle in found]


def test_circles_are_seen_whatever_way_an_import_is_written():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a", "e"}, "e": set(), "f": {"e"}}
    assert house.circles(graph) == [frozenset("abc")]
    source = ("import a.b\nif TYPE_CHECKING:\n    from c import d\ndef f():\n    try:\n"
              "        from .e import g\n    except E:\n        from .. import h\n")
    assert list(house.imports(ast.parse(source), "p.q")) == [
        ("a.b", None), ("c", "d"), ("p.q.e", "g"), ("p", "h")]
    # `from privledger.ledger import Budget` leads to the file, through the face.
    assert "privledger.ledger.filters" in house.needs("privledger.testing.fitting")
    assert "privledger.ledger" not in house.needs("privledger.testing.fitting")
    assert len(house.OURS) > 250
    assert "privledger.graph" in house.FACES
    assert "privledger" not in house.FACES


def test_a_module_name_has_one_sense():
    stems: dict[str, list[str]] = {}
    for name, path in house.OURS.items():
        if not path.name.startswith("__"):
            stems.setdefault(path.stem, []).append(name)
    twice = {stem: names for stem, names in stems.items() if len(names) > 1}
    assert not {stem: names for stem, names in twice.items() if stem not in SAME_THING}
