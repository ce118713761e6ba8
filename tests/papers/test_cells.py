"""The published numbers as data: none without a task, a metric and a kind of spread."""

import json
from collections import Counter
from pathlib import Path

import pytest
from privledger_papers import curves
from privledger_papers.protocols import protocol_of
from privledger_papers.published_cells import METRICS, ROLES, SPREADS, UnknownCell, chosen, only
from privledger_papers.published_cells import published as all_cells
from privledger_papers.running import DERIVED
from privledger_papers.systems import SOUND, was_sound
from privledger_papers.tasks import SOURCES

from tests.all_cases import all_cases
from tests.worlds import refused

SHARED = Path(__file__).parents[3] / "shared" / "papers"
CELLS = all_cells()


def test_there_are_484_and_no_two_have_one_name():
    assert len(CELLS) == 484
    assert not [key for key, count in Counter(cell.key for cell in CELLS).items() if count > 1]


@all_cases("cell", CELLS, ids=lambda cell: cell.key)
def test_every_cell_has_a_task_a_metric_a_protocol_and_a_kind_of_spread(cell):
    assert cell.metric in METRICS and cell.kind in SPREADS and cell.role in ROLES
    assert (cell.spread is None) == (cell.kind == "none")
    assert protocol_of(cell).repetitions >= 1
    assert cell.metric in DERIVED or cell.data in SOURCES[cell.paper]
    assert cell.value is not None


def test_every_cell_with_a_budget_has_a_verdict_on_its_price():
    """`not private` is for what prints none."""
    for cell in CELLS:
        private = cell.epsilon is not None or cell.system in ("MRF", "DPMean")
        if cell.role != "summary" and cell.metric != "mean_nodes":
            assert private == ((cell.paper, cell.system) in SOUND), cell.key
            assert private == (was_sound(cell) != "not private"), cell.key


@pytest.mark.skipif(not SHARED.exists(), reason="the papers' numbers are not beside the clone")
def test_they_are_the_numbers_that_were_typed():
    found = []
    for path in sorted(SHARED.glob("00*.json")):
        paper = json.loads(path.read_text())
        found += [(path.stem, table["id"], row["system"], row.get("epsilon"), row["metric"],
                   row["value"], row.get("spread"))
                  for table in paper["tables"] + paper["figures"] for row in table.get("rows", [])]
    assert found == [(cell.paper, cell.where, cell.system, cell.epsilon, cell.metric, cell.value,
                      cell.spread) for cell in CELLS]


def test_names_choose_and_unknown_ones_are_refused():
    assert chosen() == chosen(["all"]) == CELLS
    assert len(chosen(["003"])) == 25 and len(chosen(["000.T1", "000.T2"])) == 85
    assert {cell.system for cell in only(CELLS, "system", ["SPE"])} == {"SPE"}
    for name in ("005", "000.T9", "T1", ""):
        with pytest.raises(UnknownCell, match="there are 000"):
            chosen([name])
    refused(UnknownCell, lambda: only(chosen(["003"]), "system", ["SPE"]), match="there are")


@all_cases("figure", curves.FIGURES.values(), ids=lambda figure: figure.name)
def test_points_of_curves_print_no_number_and_share_no_name(figure):
    cells = figure.cells()
    assert len({cell.key for cell in cells}) == len(cells)
    assert not {cell.key for cell in cells} & {cell.key for cell in CELLS}
    for cell in cells:
        assert cell.value is None and cell.metric in METRICS and cell.data in SOURCES[cell.paper]
        assert protocol_of(cell).repetitions >= 1
