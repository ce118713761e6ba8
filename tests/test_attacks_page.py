"""docs/attacks.md: every item has tests in tests/attacks.txt, and every test there is one."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.made_pages import tried

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "attacks.md"
ITEMS = {item: one for items in tried().values() for item, one in items.items()}
REPORTED = {"A": range(1, 8), "B": range(8, 12), "C": range(12, 19), "D": range(19, 27)}


@cache
def defined_in(path: str) -> frozenset[str]:
    """Names that pytest collects by: functions, in classes too."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree)
                     if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"))


def test_every_item_is_on_the_page():
    shown = re.findall(r"^\| ([A-Z]\d+) ", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert shown == list(ITEMS)
    assert {f"{letter}{number}" for letter, numbers in REPORTED.items()
            for number in numbers} <= set(shown)


@pytest.mark.parametrize("item", ITEMS)
def test_every_item_is_whole_and_every_test_of_it_is_there(item):
    attempt, now, named = ITEMS[item]
    assert attempt and now and named
    for path, name in named:
        assert name in defined_in(path), f"{path}::{name}"
