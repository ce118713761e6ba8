"""docs/attacks.md: every test it names is there, and every item of the report has its row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "attacks.md"
ITEMS = {"A": range(1, 8), "B": range(8, 12), "C": range(12, 19), "D": range(19, 27)}
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)(?:\[[^`\]]*\])?`")


def tables() -> dict[str, list[list[str]]]:
    """Section -> the cells of its rows."""
    found: dict[str, list[list[str]]] = {}
    for part in re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        rows = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                for line in part.splitlines() if line.startswith("| ")]
        found[part[0]] = rows[1:]
    return found


@cache
def defined_in(path: Path) -> frozenset[str]:
    """Names that pytest collects by: functions, in classes too."""
    return frozenset(node.name for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
                     if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


@pytest.mark.parametrize("section", ITEMS)
def test_every_item_is_in_its_section_in_order(section):
    items = [int(row[0]) for row in tables()[section]]
    assert items == sorted(items)
    assert set(items) == set(ITEMS[section])


@pytest.mark.parametrize("section", ITEMS)
def test_every_row_is_whole_and_every_test_it_names_is_there(section):
    for row in tables()[section]:
        assert len(row) == 5 and all(row), row
        named = TEST.findall(row[4])
        assert named and TEST.sub("", row[4]).strip(", ") == "", row[4]
        for path, name in named:
            assert name in defined_in(ROOT / path), f"{path}::{name}"
