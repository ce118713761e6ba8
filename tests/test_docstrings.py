"""Every public name says what it is; and what is typed as anything at all is counted."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from functools import cache

import numpy

from tests import house

MODULES = sorted(house.OURS)
# Annotations with `Any`, in all files. A number that may only fall: lower it with the code.
MOST_ANY = 1104
# Words that say nothing of what a name does not say itself.
EMPTY = {"a", "an", "the", "of", "to", "for", "and", "or", "in", "is", "are", "this", "that", "it",
         "its", "by", "as", "with", "from", "on", "return", "returns", "get", "gets"}


def _words(text: str) -> set[str]:
    spelt = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()
    return {word.rstrip("s") for word in re.findall(r"[a-z]+", spelt)} - EMPTY


def _is_overload(node: ast.AST) -> bool:
    return any("overload" in ast.unparse(one) for one in getattr(node, "decorator_list", ()))


def _public(module: str) -> list[tuple[str, ast.AST]]:
    return [(name, node) for name, node in house.defined(module) if not _is_overload(node)]


@cache
def _said_elsewhere() -> set[str]:
    """Names of methods that some class documents: a protocol, or the owner's own view."""
    return {name.rsplit(".", 1)[1] for module in MODULES for name, node in _public(module)
            if ast.get_docstring(node) and name.count(".") > module.count(".") + 1}


def test_every_public_name_has_a_docstring():
    """A method that fulfils a protocol needs none: the protocol says what it does."""
    assert not [name for module in MODULES for name, node in _public(module)
                if not ast.get_docstring(node) and not (
                    name.count(".") > module.count(".") + 1
                    and name.rsplit(".", 1)[1] in _said_elsewhere())]


def test_a_docstring_says_more_than_the_name():
    empty = []
    for name, node in (one for module in MODULES for one in _public(module)):
        text = ast.get_docstring(node) or ""
        own = _words(" ".join(name.split(".")[-2:]))
        if text and not re.match(r"As `\w+\.\w+`\.", text) and not (
                _words(text.split("\n\n")[0]) - own):
            empty.append(name)
    assert not empty


def test_every_module_says_what_is_in_it():
    """More than a word that stands in for what is still to be written."""
    assert not [module for module in MODULES
                if len((ast.get_docstring(house.tree(module)) or "").split()) < 3]


ELSEWHERE = {"PLDAccountant", "RdpAccountant", "NotFittedError", "RandomizedSearchCV",
             "DPOptimizer", "DPDataLoader", "DPExecutionPlan", "cp", "xfail", "receipt", "L", "py",
             "on_KIND"}
"""Names of other libraries and commands that our docstrings compare with, and of examples."""
_NAMES = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg", ast.keyword: "arg",
          ast.FunctionDef: "name", ast.ClassDef: "name", ast.alias: "name",
          ast.ImportFrom: "module"}


def test_every_name_in_backquotes_is_in_the_code():
    """In docstrings and comments: what was renamed is not called by its former name."""
    said, names = [], {*ELSEWHERE, *keyword.kwlist, *dir(builtins), *dir(numpy),
                       *(part for module in MODULES for part in module.split("."))}
    for module in MODULES:
        nodes = list(ast.walk(house.tree(module)))
        prose = {id(node.value): node.value for node in nodes
                 if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
        words = [str(getattr(node, _NAMES[type(node)])) for node in nodes if type(node) in _NAMES]
        words += [node.value for node in nodes if isinstance(node, ast.Constant)
                  and isinstance(node.value, str) and id(node) not in prose]
        names |= {part for word in words for part in re.findall(r"\w+", word)}
        comments = re.findall(r"#.*", house.OURS[module].read_text(encoding="utf-8"))
        said += [(module, quoted) for text in [*comments, *(str(node.value)
                                                            for node in prose.values())]
                 for quoted in re.findall(r"`([A-Za-z_][\w.]*)`", text)]
    assert not [one for one in said if not set(filter(None, one[1].split("."))) <= names]


def anys() -> dict[str, int]:
    """Annotations with `Any` in each file."""
    found = {}
    for name in MODULES:
        notes = [note for node in ast.walk(house.tree(name))
                 for note in (getattr(node, "annotation", None), getattr(node, "returns", None))
                 if note is not None]
        found[name] = sum(bool(re.search(r"\bAny\b", ast.unparse(note))) for note in notes)
    return found


def test_any_is_counted_and_may_only_fall():
    assert sum(anys().values()) <= MOST_ANY
