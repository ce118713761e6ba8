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
    "mechanisms", "graph", "nodes", "noise", "facts", "people", "tables", "spool", "questions",
    "ledger", "kernels", "engines", "storage", "guard", "adapters",
    "plugins", "models", "broker", "federation", "testing", "reports", "gate", "runs", "notebook",
    "plot", "cli", "pytest_plugin", "__main__",
)
ALONE = "standalone"
MODULES = sorted(ROOT.rglob("*.py"))
PLUGIN_MODULES = sorted((*LEARNERS.rglob("*.py"), *PAPERS.rglob("*.py")))
GENERATOR = "noise/seeded.py"
# A name for two files says that they are about the same thing.
SAME_THING = {
    # A command, and what it prints.
    "correct", "explain", "forks", "log", "overlap", "receipt", "risk", "whatif",
    # The stand-alone verifier's reading of what the package does: it shares no code with it.
    "caps", "convert", "meter", "nodes", "reading", "vectors",
}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def imports(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """(module, names) of every import anywhere in a file, function bodies included."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_follow_the_layers(path):
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if own in ("__init__", ALONE):
        return  # the latter has a rule of its own
    assert own in LAYERS, f"{own} is in no layer"
    for module, names in imports(path):
        if module == "privledger" or module.startswith("privledger."):
            if module == "privledger" and own in ("cli", "pytest_plugin"):
                continue  # the outermost layers may use the public package
            if module == f"privledger.{ALONE}.build":
                continue  # the text of the one file
            for target in layers_of(module, names):
                assert LAYERS.index(target) <= LAYERS.index(own), f"imports {module}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_stands_alone_imports_nothing_of_ours_and_nobody_imports_it(path):
    modules = {module for module, _ in imports(path)}
    names = {f"{module}.{name}" for module, several in imports(path) for name in several}
    if path.relative_to(ROOT).parts[0] == ALONE:
        assert not [module for module in modules if module.split(".")[0] not in
                    sys.stdlib_module_names]
    # `build` hands out the text of the one file; nobody imports the reader itself.
    allowed = {f"privledger.{ALONE}.build", f"privledger.{ALONE}.build.one_file"}
    assert not [name for name in modules | names
                if name.startswith(f"privledger.{ALONE}") and name not in allowed]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_the_core_never_imports_a_learner(path):
    assert not [m for m, _ in imports(path)
                if m.split(".")[0] in ("privledger_learners", "privledger_papers")]


@pytest.mark.parametrize("path", sorted(LEARNERS.rglob("*.py")),
                         ids=lambda path: path.relative_to(LEARNERS).as_posix())
def test_learners_know_nothing_of_the_papers_package(path):
    assert not [m for m, _ in imports(path) if m.split(".")[0] == "privledger_papers"]


@pytest.mark.parametrize("path", sorted(PAPERS.rglob("*.py")),
                         ids=lambda path: path.relative_to(PAPERS).as_posix())
def test_the_papers_package_uses_learners_as_anybody_does(path):
    assert not [m for m, _ in imports(path) if m.startswith("privledger_learners.")]


def _random_uses(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [module for module, names in imports(path)
             if module == "random" or module.startswith("numpy.random")
             or (module == "numpy" and "random" in names)]
    for node in ast.walk(tree):
        if (isinstance(node, ast.Attribute) and node.attr == "random"
                and isinstance(node.value, ast.Name) and node.value.id in ("np", "numpy")):
            found.append(f"line {node.lineno}")
    return found


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_seeded_generator_lives_in_one_module_only(path):
    if name_of(path) != GENERATOR:
        assert not _random_uses(path)


@pytest.mark.parametrize("path", PLUGIN_MODULES,
                         ids=lambda path: path.relative_to(LEARNERS.parent).as_posix())
def test_learners_seed_every_generator(path):
    """They draw public structure, from `random_state`. What must not be guessed comes from the
    ledger's source, or from the operating system's."""
    calls = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
             if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng")]
    assert not [f"line {call.lineno}" for call in calls if not (call.args or call.keywords)]


def test_the_rule_about_generators_sees_the_one_that_exists():
    assert _random_uses(ROOT / GENERATOR)


def test_there_are_modules_to_look_at():
    """An empty list of parameters is a skip, and a skipped rule is none."""
    assert len(MODULES) > 100 and len(PLUGIN_MODULES) > 20


@pytest.mark.parametrize("path", PLUGIN_MODULES,
                         ids=lambda path: path.relative_to(LEARNERS.parent).as_posix())
def test_learners_use_public_names_only(path):
    """The conformance kit's own rule, on every file, whether or not a learner reaches it."""
    assert not list(inside_names(ast.parse(path.read_text(encoding="utf-8"))))


@pytest.mark.parametrize("path", PLUGIN_MODULES,
                         ids=lambda path: path.relative_to(LEARNERS.parent).as_posix())
def test_learners_never_reach_behind_the_guard(path):
    """`_vault`, `_history` and their like are for the core; a learner has no business there."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute):
            assert node.attr not in ("_vault", "_history", "_source", "_meter", "_spends",
                                     "_state", "_touched", "_log"), f"line {node.lineno}"


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
    assert "privledger.ledger.budget" in house.needs("privledger.testing.fitting")
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
    assert not {stem: names for stem, names in twice.items()
                if stem not in SAME_THING}
