"""The page of all cells is what the command makes of the fits kept beside it."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from privledger_papers.command import wanted
from privledger_papers.results import Results

from privledger.cli import main

ROOT = Path(__file__).resolve().parents[2]
CELLS = wanted(("all",), (), (), curves=False)
KEPT, PAGE = ROOT / "docs" / "figures" / "reproduced.jsonl", ROOT / "docs" / "papers" / "tables.md"


@pytest.fixture(scope="module")
def page():
    done = CliRunner().invoke(main, ["reproduce", "all", "--results", str(KEPT), "--format", "md"])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_page_is_what_the_command_makes(page):
    assert page == PAGE.read_text(encoding="utf-8")


def test_every_cell_has_a_row(page):
    assert all(f"\n| {cell.key} |" in page for cell in CELLS)


def test_no_private_fit_cost_more_than_its_cell_prints():
    held = {cell.key: cell for cell in CELLS}
    results = list(Results(KEPT).all())
    assert len(results) > 600
    for one in results:
        if one.charge is not None and one.form == "printed" and held[one.cell].epsilon is not None:
            # Ten times (.05 + .05) is rounded up: 1 + 2^-52 for a printed 1.
            assert one.charge <= held[one.cell].epsilon * (1 + 2.0**-51), one.cell
