"""Which test files are nearest to a place: those that name what it is part of.

A static map, so nothing has to be run or recorded first. A test file counts for a file of the
package by the words they share (names defined there, words of its texts), each worth more the
fewer test files know it; names of the function around the place count three times. Importing the
file and being called after it count, too. A test file in the folder of the file's room counts
twice, and half if it does not name the room: words of privacy are everywhere.
"""

from __future__ import annotations

import ast
import math
import re
from collections import Counter
from functools import cached_property
from pathlib import Path

from attrs import define, field

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
RECORDED = Path("tests/cli/test_every_surface.py"), ("cli", "reports")
"""A test file without words, which compares everything that these rooms print."""


def words_of_texts(tree: ast.AST) -> set[str]:
    """Names that are defined or read, and the words of strings outside of docstrings."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)):
            found.add(node.name)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.update(WORD.findall(node.value))
    return {word for word in found if len(word) > 2 and not word.startswith("__")}


def defined(tree: ast.Module) -> set[str]:
    """What a file gives to others: functions, classes, methods and constants."""
    names = {node.name for node in ast.walk(tree)
             if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names |= {name.id for name in node.targets if isinstance(name, ast.Name)}
    return {name for name in names if len(name) > 2 and not name.startswith("__")}


@define
class Nearest:
    """The test files of a tree, ranked for any place in it."""

    root: Path
    _words: dict[Path, frozenset[str]] = field(factory=dict)

    @cached_property
    def tests(self) -> list[Path]:
        found = (self.root / "tests").rglob("test_*.py")
        return sorted(path.relative_to(self.root) for path in found if "mutation" not in path.parts)

    def words(self, test: Path) -> frozenset[str]:
        """The words of a test file and of the helpers beside it that it imports."""
        if test not in self._words:
            text = (self.root / test).read_text(encoding="utf-8")
            found = set(WORD.findall(text))
            for helper in self._helpers(test, ast.parse(text)):
                found |= set(WORD.findall(helper.read_text(encoding="utf-8")))
            self._words[test] = frozenset(found)
        return self._words[test]

    def _helpers(self, test: Path, tree: ast.Module) -> list[Path]:
        names = {name for node in ast.walk(tree) for name in imported(node)}
        beside = [(self.root / test).parent / (name.replace(".", "/") + ".py") for name in names]
        whole = [self.root / (name.replace(".", "/") + ".py") for name in names
                 if name.startswith("tests.")]
        return sorted({path for path in beside + whole if path.is_file()})

    @cached_property
    def rarity(self) -> dict[str, float]:
        """What a word is worth: much if few test files know it, nothing if all do."""
        known = Counter(word for test in self.tests for word in self.words(test))
        return {word: math.log(len(self.tests) / count) for word, count in known.items()}

    def rank(self, path: Path, line: int) -> list[Path]:
        """All test files that have to do with a place, the nearest first."""
        tree = ast.parse((self.root / path).read_text(encoding="utf-8"))
        around, own = _around(tree, line), defined(tree)
        worth: Counter[str] = Counter()
        for word in own:
            worth[word] += 1
        for node in around:
            for word in words_of_texts(node):
                worth[word] += 1
            worth[node.name] += 3
        module = ".".join(path.with_suffix("").parts).removeprefix("learners.")
        scores = {test: self._score(test, path, module, worth) for test in self.tests}
        return sorted((test for test in self.tests if scores[test] > 0),
                      key=lambda test: (-scores[test], test))

    def _score(self, test: Path, path: Path, module: str, worth: Counter[str]) -> float:
        words = self.words(test)
        score = sum(times * self.rarity[word] for word, times in worth.items() if word in words)
        # Long files know many words by chance.
        score /= 1 + math.log(1 + len(words)) / 4
        text = (self.root / test).read_text(encoding="utf-8")
        if re.search(rf"\b{re.escape(module)}\b", text):
            score += 20
        tokens = test.stem.removeprefix("test_").split("_")
        if path.stem in tokens or path.stem.rstrip("s") in tokens:
            score += 5
        room = path.parts[:1] if path.parts[0] == "learners" else path.parent.parts[1:] or ("",)
        if test == RECORDED[0] and room[0] in RECORDED[1]:
            return 100.0
        if room[-1] in test.parts or room[0] in test.parts:
            return 2 * score
        return score if room[0] in words or room[-1] in words else score / 2


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return []


def _around(tree: ast.Module, line: int) -> list[ast.FunctionDef | ast.ClassDef]:
    """The functions a line is in; for a line of a class alone, the class."""
    holders = [node for node in ast.walk(tree)
               if isinstance(node, (ast.FunctionDef, ast.ClassDef))
               and node.lineno <= line <= (node.end_lineno or line)]
    functions = [node for node in holders if isinstance(node, ast.FunctionDef)]
    return functions or holders
