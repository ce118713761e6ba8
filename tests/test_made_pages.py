"""Made parts of pages are what is made today, and what is written by hand stays short."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.made_pages import DOCS, PART, blocks_of, by_hand, pages, renewed, table

MOST_BY_HAND = 7_000
"""Lines of docs/**/*.md outside made parts."""


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_page_says_what_is_made_today(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert renewed(text) == text, "renew it: python -m tests.made_pages"


def test_every_command_has_its_part() -> None:
    from privledger.cli import main

    found = {(part[1], part[2]) for page in pages()
             for part in PART.finditer(page.read_text(encoding="utf-8"))}
    assert {("command", name) for name in main.commands} <= found


@pytest.fixture
def drawing(monkeypatch: pytest.MonkeyPatch):
    """What draws galleries; it lies among scripts."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "bench"))
    yield lambda name: __import__(name)
    for name in ("gallery_drawing", "auto_page", "measure"):
        sys.modules.pop(name, None)


def test_the_gallery_is_made_of_what_was_measured(drawing, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    kept = json.loads((DOCS / "figures" / "gallery.json").read_text(encoding="utf-8"))
    drawing("gallery_drawing").write(kept, tmp_path)
    for name in ("gallery.md", "figures/learners.svg"):
        assert (tmp_path / name).read_text() == (DOCS / name).read_text(encoding="utf-8")


def test_the_learners_are_compared_by_what_was_measured(drawing, tmp_path: Path) -> None:
    (tmp_path / "figures").mkdir()
    page = (DOCS / "which-learner.md").read_text(encoding="utf-8")
    (tmp_path / "which-learner.md").write_text(page, encoding="utf-8")
    drawing("auto_page").write(DOCS / "figures" / "which-learner.jsonl", tmp_path)
    assert (tmp_path / "which-learner.md").read_text(encoding="utf-8") == page


def test_what_is_written_by_hand_stays_short() -> None:
    lines = by_hand()
    assert sum(lines.values()) <= MOST_BY_HAND, sorted(lines.items(), key=lambda one: -one[1])[:20]


def test_a_table_is_read_back() -> None:
    text = f"Words.\n\n{table(['a', 'b'], [['1', 'x'], ['2', '']])}"
    assert blocks_of(text) == ["Words.", {"head": ["a", "b"], "rows": [["1", "x"], ["2", ""]]}]
