"""docs/attacks.md: every item has tests in tests/attacks.txt, and every test there is one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "attacks.md"
REPORTED = {"A": range(1, 8), "B": range(8, 12), "C": range(12, 19), "D": range(19, 27)}


def rows() -> dict[str, list[str]]:
    """Item -> the cells of its row."""
    found = [[cell.strip() for cell in line.split("|")[1:-1]]
             for line in PAGE.read_text(encoding="utf-8").splitlines()
             if re.match(r"\| [A-Z]\d+ ", line)]
    assert len({cells[0] for cells in found}) == len(found)
    return {cells[0]: cells for cells in found}


def listed() -> dict[str, list[tuple[str, str]]]:
    """Item -> files of tests and names in them."""
    found: dict[str, list[tuple[str, str]]] = {}
    item = path = ""
    for line in (ROOT / "tests" / "attacks.txt").read_text(encoding="utf-8").splitlines()[2:]:
        if not line.startswith(" "):
            item = line
            assert item not in found
            found[item] = []
        elif line.startswith("    "):
            found[item].append((path, line.strip()))
        else:
            path = line.strip()
    return found


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names that pytest collects by: functions, in classes too."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree)
                     if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def test_every_item_of_the_report_is_on_the_page():
    assert {f"{letter}{number}" for letter, numbers in REPORTED.items()
            for number in numbers} <= set(rows())


def test_the_page_and_the_list_have_the_same_items():
    assert set(rows()) == set(listed())
    for letter, cells in rows().items():
        assert len(cells) == 3 and all(cells), letter


@pytest.mark.parametrize("item", listed())
def test_every_test_of_an_item_is_there(item):
    named = listed()[item]
    assert named
    for path, name in named:
        assert name in defined_in(path), f"{path}::{name}"
