"""The page of all cells is what the command makes of the fits kept beside it."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from click.testing import CliRunner
from privledger_papers.command import wanted
from privledger_papers.results import Results
from privledger_papers.rows import ONE_CLASS, tolerance
from privledger_papers.running import named
from privledger_papers.systems import OF_ADULT

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


@pytest.fixture(scope="module")
def shown():
    done = CliRunner().invoke(main, ["reproduce", "all", "--results", str(KEPT), "--format",
                                     "json"])
    return {row["key"]: row for row in json.loads(done.stdout)}


def test_a_cell_whose_every_figure_is_the_share_of_a_class_says_so(shown):
    fits = defaultdict(list)
    for one in Results(KEPT).all():
        fits[one.cell, one.form].append(one)
    shares = {"accuracy", "accuracy_percent", "test_error_percent"}
    for cell in CELLS:
        found = fits[named(cell, "printed"), "printed"]
        assert all((one.one_class is not None) == (cell.metric in shares) for one in found)
        flat = bool(found) and all(one.one_class for one in found)
        assert flat == (ONE_CLASS in shown[cell.key]["why"]), cell.key


def test_boosting_on_adult_has_parameters_of_adult_and_reaches_both_classes(shown):
    """Those of Abalone cannot reach the other class, at any epsilon."""
    own = [row for row in shown.values() if row["cell"]["paper"] == "003"
           and row["cell"]["data"] == "Adult" and row["cell"]["system"].startswith("S-GBDT")]
    assert len(own) == 10
    for row in own:
        assert row["own"]["note"].startswith(OF_ADULT[0]), row["key"]
        assert not row["own"]["one_class"], row["key"]


def test_nothing_is_reproduced_by_an_interval_wider_than_the_tolerance(shown):
    for cell in CELLS:
        row = shown[cell.key]
        if row["status"] == "reproduced":
            assert row["own"]["half"] is not None, cell.key
            assert row["own"]["half"] <= tolerance(cell), cell.key
