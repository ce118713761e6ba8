"""The notebook runs from top to bottom, shows what it showed when it was written, and no secret."""

import json

import pytest

from tests.touring import TOUR, toured

BOOK = json.loads(TOUR.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def run():
    return toured(BOOK)


def shapes(book):
    """What every cell shows, without the noise in it."""
    return [[(one["output_type"], *sorted(one.get("data", ()))) for one in cell.get("outputs", ())]
            for cell in book["cells"]]


def test_every_cell_runs_and_shows_what_it_did(run):
    assert shapes(run) == shapes(BOOK)
    assert sum(map(bool, shapes(run))) >= 10


def test_what_the_tour_says_is_so(run):
    texts = ["".join(one.get("text", "") + one.get("data", {}).get("text/plain", "")
                     for one in cell.get("outputs", ())) for cell in run["cells"]]
    whole = "\n".join(texts)
    for words in ("nothing was read", "sample_weight", "Within budget", "of 100", "tour.html"):
        assert words in whole, words
    assert "Traceback" not in whole


def test_it_is_a_notebook():
    assert (BOOK["nbformat"], BOOK["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in BOOK["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(set(cell) >= {"outputs", "execution_count"} for cell in BOOK["cells"]
               if cell["cell_type"] == "code")
