"""Cost as area: widths are the charges themselves, and every row adds up to the one above."""

from collections import defaultdict

import numpy as np
import pytest

import privledger as pl
from privledger.ledger.view import view_of
from privledger.reports.page import charts
from privledger.reports.page.charts import HUES, NARROWEST, hues_of, icicle
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})


def spent(grants):
    ledger = pl.Ledger.create(None, budget=pl.Budget(8.0, 1e-6), filter="gdp")
    data = {name: ledger.protect({"x": np.arange(9) / 9}, SCHEMA, name=name)
            for name in {table for table, _, _ in grants}}
    for table, learner, node in grants:
        ledger.request(node, data[table], learner=learner).close()
    return view_of(ledger.state)


def drawn(view):
    return icicle(view, hues_of(view), {})


GRANTS = [("a", "one", pl.Gaussian(4.0)), ("a", "two", pl.Laplace(5.0)),
          ("b", "one", pl.Gaussian(3.0)), *[("b", "two", pl.Gaussian(90.0))] * 40]


def rows(found):
    levels = defaultdict(list)
    for cell in found.cells:
        if cell.shown:
            levels[cell.level].append(cell)
    return levels


def test_every_row_is_as_wide_as_what_was_spent():
    levels = rows(drawn(spent(GRANTS)))
    assert sorted(levels) == [0, 1, 2, 3, 4]
    for cells in levels.values():
        cells.sort(key=lambda cell: cell.x)
        right = [0.0, *(cell.x + cell.width for cell in cells)]
        for cell, end in zip(cells, right, strict=False):
            assert cell.x == pytest.approx(end, abs=1e-3)  # no gap, and nothing overlaps
        assert right[-1] == pytest.approx(100.0, abs=1e-3)


def test_a_cell_lies_below_its_parent():
    found = drawn(spent(GRANTS))
    by_path = {cell.path: cell for cell in found.cells if not cell.few}
    for path, cell in by_path.items():
        parent = by_path[path.rpartition("/")[0]]
        assert cell.level == (path.count("/") + 1 if path else 0)
        assert parent.x - 1e-3 <= cell.x
        assert cell.x + cell.width <= parent.x + parent.width + 1e-3


def test_widths_are_the_views_own_shares():
    view = spent(GRANTS)
    parts = view.by("table")
    for cell in rows(drawn(view))[1]:
        amount = parts[cell.name].amount
        assert cell.width == pytest.approx(100 * amount.units / view.total.units, abs=1e-3)
        assert cell.share == amount.share.text() and cell.share in cell.text


def test_what_is_narrow_stands_together_and_every_grant_has_its_place():
    view = spent(GRANTS)
    found = drawn(view)
    (together,) = [cell for cell in found.cells if cell.few and cell.shown]
    assert together.name == "40 smaller" and together.grants == 40 and together.few == 40
    paths = {cell.path for cell in found.cells}
    assert found.paths.keys() == {one.name for one in view.charges}
    assert all(path in paths for path in found.paths.values())
    assert all(cell.width >= NARROWEST for cell in found.cells if cell.shown)


def test_the_picture_stays_small(monkeypatch):
    monkeypatch.setattr(charts, "MOST_CELLS", 12)
    view = spent(GRANTS)
    found = drawn(view)
    assert len(found.cells) <= 12 + 2 * 4 + 1  # and at most one heap below each that is drawn
    assert found.paths.keys() == {one.name for one in view.charges}


def test_a_table_has_one_colour():
    view = spent(GRANTS)
    hues = hues_of(view)
    assert sorted(hues.values()) == [1, 2] and max(hues.values()) <= HUES
    for cell in drawn(view).cells:
        if cell.level == 1 and not cell.few:
            assert cell.hue == hues[cell.name]
            mine = [one for one in drawn(view).cells if one.path.startswith(f"{cell.path}/")]
            assert {one.hue for one in mine if one.grants} == {cell.hue}


def test_nothing_spent_is_no_picture():
    assert drawn(spent([])).cells == ()
