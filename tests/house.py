"""The files of the project as a graph: who needs whom, whatever way an import is written."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import privledger_learners
import privledger_papers

import privledger

TESTS = Path(__file__).parent
# Where they are imported from, installed or not.
PACKAGES = (privledger, privledger_learners, privledger_papers)
ROOTS = (*(Path(package.__file__).parent for package in PACKAGES), TESTS)


def _module(root: Path, path: Path) -> str:
    parts = (root.name, *path.relative_to(root).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


# Of the tests, what others import: nobody imports a file of tests.
FILES = {_module(root, path): path for root in ROOTS for path in sorted(root.rglob("*.py"))
         if not path.name.startswith("test_")}
NAMES = {path: name for name, path in FILES.items()}
OURS = {name: path for name, path in FILES.items() if not path.is_relative_to(TESTS)}


@cache
def tree(name: str) -> ast.Module:
    """The source of the module `name`, parsed once."""
    return ast.parse(FILES[name].read_text(encoding="utf-8"))


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Every statement inside, at any depth: imports are nowhere else."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, part, ()) if not isinstance(node, ast.expr) else ():
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


def imports(source: ast.Module, package: str) -> Iterator[tuple[str, str | None]]:
    """(module, name in it) of every import: in functions and under TYPE_CHECKING, too."""
    for node in statements(source):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[:len(package.split(".")) - node.level + 1]
            base = ".".join([*(above if node.level else ()), *filter(None, [node.module])])
            yield from ((base, alias.name) for alias in node.names)


def is_face(name: str) -> bool:
    """An `__init__` that only hands names on: it ties nobody to anybody."""
    return FILES[name].name == "__init__.py" and all(
        isinstance(node, ast.Import | ast.ImportFrom)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__")
        for node in tree(name).body)


FACES = {name for name in FILES if is_face(name)}
_HANDED = {(face, alias.asname or alias.name): (node.module, alias.name)
           for face in FACES for node in tree(face).body if isinstance(node, ast.ImportFrom)
           for alias in node.names if node.module != face}


def _beside(name: str, module: str) -> str:
    """A helper that a test imports by its bare name, from its own folder or one above."""
    folder = name.rpartition(".")[0]
    while folder:
        if f"{folder}.{module}" in FILES:
            return f"{folder}.{module}"
        folder = folder.rpartition(".")[0]
    return module


def _home(module: str, name: str | None) -> str:
    """The file that a name comes from, through all the faces that hand it on."""
    while (module, name) in _HANDED:
        module, name = _HANDED[module, name]
    return f"{module}.{name}" if f"{module}.{name}" in FILES else module


def needs(name: str) -> set[str]:
    """The files that this one imports from, faces looked through."""
    package = name if FILES[name].name == "__init__.py" else name.rpartition(".")[0]
    found = {_home(module, what) for module, what in imports(tree(name), package)}
    if FILES[name].is_relative_to(TESTS):
        found = {_beside(name, module) for module in found}
    return {module for module in found if module in FILES and module not in FACES} - {name}


def circles(graph: dict[str, set[str]]) -> list[frozenset[str]]:
    """The sets of files that all need each other (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(file: str) -> None:
        index[file] = low[file] = len(index)
        stack.append(file)
        for other in graph[file]:
            if other not in index:
                visit(other)
            if other in stack:
                low[file] = min(low[file], low[other])
        if low[file] == index[file]:
            place = stack.index(file)
            together = stack[place:]
            del stack[place:]
            if len(together) > 1:
                found.append(frozenset(together))

    for file in graph:
        if file not in index:
            visit(file)
    return found


def defined(name: str) -> Iterator[tuple[str, ast.AST]]:
    """Every public function, class and method that a reader of the module can name.

    What is inside a function is nobody's to call; what is inside a private class is private.
    """

    def walk(body: list[ast.stmt], within: str) -> Iterator[tuple[str, ast.AST]]:
        for node in body:
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from walk(node.body, within)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                if node.name.startswith("_"):
                    continue
                yield f"{within}.{node.name}", node
                if isinstance(node, ast.ClassDef):
                    yield from walk(node.body, f"{within}.{node.name}")

    return walk(tree(name).body, name)
