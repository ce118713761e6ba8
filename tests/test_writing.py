"""Texts that users read are plain technical English: docs/writing.md says how.

One pass over the trees. Phrases of our former dialect are banned in messages; what is left of them
in pages, and of sentences that are too long, is counted, and the counts may only fall.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

from tests import house

ROOT = Path(__file__).resolve().parents[1]
LONGEST = 40
"""Words of a sentence."""

BANNED = re.compile(
    r"\b(whoever|somebody|someone|nobody|anybody|said aloud|on somebody's word|comes? on top"
    r"|nobody named|a tail that was cut off|cut tail|purse|voices|spill|half a letter"
    r"|runs? elsewhere|too few of them)\b", re.IGNORECASE)

PAGES = {"banned": 0, "long": 0}
"""What is left in README.md and docs/, without proofs: they may only fall."""
MESSAGES = {"banned": 0, "long": 1}
"""What is left in texts of the code."""


def _documentation(tree: ast.Module) -> set[int]:
    """Strings that stand alone as statements: docstrings and comments of fields."""
    return {id(node.value) for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}


@cache
def messages() -> tuple[tuple[str, str], ...]:
    """(file and line, text) of every string with a blank in it that is no docstring."""
    found = []
    for name in sorted(house.OURS):
        tree = house.tree(name)
        skipped = _documentation(tree)
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                skipped |= {id(part) for part in node.values}
        for node in ast.walk(tree):
            if id(node) in skipped:
                continue
            if isinstance(node, ast.JoinedStr):
                text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X"
                               for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if text.count(" ") > 1 and not re.search(r"\bSELECT\b|\bCREATE\b|\bimport |</", text):
                found.append((f"{name}:{node.lineno}", text))
    return tuple(found)


@cache
def pages() -> tuple[tuple[str, str], ...]:
    """(file, paragraph) of every page that is written by hand: no code, no tables."""
    found = []
    for path in sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md"),
                        *(ROOT / "docs" / "papers").glob("*.md")]):
        text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"),
                      flags=re.DOTALL | re.MULTILINE)
        text = re.sub(r"^\|.*$|^<!--.*-->$", "", text, flags=re.MULTILINE)
        text = re.sub(r"\n(?=[-*] |\d+\. )", "\n\n", text)
        text = re.sub(r"`[^`\n]*`", "X", text)
        found += [(path.relative_to(ROOT).as_posix(), " ".join(part.split()))
                  for part in text.split("\n\n") if part.strip() and path.name != "writing.md"]
    return tuple(found)


def long_sentences(text: str) -> list[str]:
    """Sentences of more than `LONGEST` words; a colon or a semicolon ends none."""
    return [one for one in re.split(r"(?<=[.!?])[)\"*]*\s+", text) if len(one.split()) > LONGEST]


def _report(found: list[tuple[str, str]]) -> str:
    return "\n".join(f"{where}: {text[:160]}" for where, text in found)


def test_messages_use_none_of_the_banned_phrases():
    found = [(where, text) for where, text in messages() if BANNED.search(text)]
    assert len(found) <= MESSAGES["banned"], _report(found)


def test_messages_have_short_sentences():
    found = [(where, one) for where, text in messages() for one in long_sentences(text)]
    assert len(found) <= MESSAGES["long"], _report(found)


def test_pages_use_ever_fewer_of_the_banned_phrases():
    found = [(where, text[max(0, one.start() - 40):one.end() + 40])
             for where, text in pages() for one in BANNED.finditer(text)]
    assert len(found) <= PAGES["banned"], _report(found)


def test_pages_have_ever_fewer_long_sentences():
    found = [(where, one) for where, text in pages() for one in long_sentences(text)]
    assert len(found) <= PAGES["long"], _report(found)


def test_it_finds_what_it_is_for():
    assert BANNED.search("Whoever reads this") and not BANNED.search("A reader's word")
    assert long_sentences("word " * 41) and not long_sentences("word " * 40)


def test_code_and_proofs_name_roles():
    """Comments and docstrings too; a value, an id or a quoted line may hold such a word."""
    roles = re.compile(r"(?<![-\"'/])\b(whoever|somebody|nobody|anybody)\b(?![-\"'`,/])",
                       re.IGNORECASE)
    texts = {name: path.read_text(encoding="utf-8") for name, path in house.OURS.items()}
    texts |= {path.name: path.read_text(encoding="utf-8")
              for path in (ROOT / "docs" / "proofs").glob("*.md")}
    assert not [f"{name}: {one[0]}" for name, text in texts.items() for one in roles.finditer(text)]
