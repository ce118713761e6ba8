"""Cost as area: widths are the charges themselves, and every row adds up to the one above."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import privledger as pl
from privledger.ledger.view import view_of
from privledger.reports.page.drawing import NARROWEST, ROW, WIDTH, icicle
from privledger.reports.page.marks import SHADES, hue_of

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),))


def spent(grants):
    ledger = pl.Ledger.create(None, budget=pl.Budget(8.0, 1e-6), filter="gdp")
    data = {name: ledger.protect({"x": np.arange(9) / 9}, SCHEMA, name=name)
            for name in {table for table, _, _ in grants}}
    for table, learner, node in grants:
        ledger.request(node, data[table], learner=learner).close()
    return ledger


GRANTS = [("a", "one", pl.Gaussian(4.0)), ("a", "two", pl.Laplace(5.0)),
          ("b", "one", pl.Gaussian(3.0)), *[("b", "two", pl.Gaussian(90.0))] * 40]


def rows(found):
    levels = defaultdict(list)
    for cell in found.cells:
        levels[cell.y // ROW].append(cell)
    return levels


def test_every_row_is_as_wide_as_what_was_spent():
    levels = rows(icicle(view_of(spent(GRANTS).state)))
    assert sorted(levels) == [0, 1, 2, 3, 4]
    for cells in levels.values():
        right = [0.0, *(cell.x + cell.width for cell in cells)]
        for cell, end in zip(cells, right, strict=False):
            assert cell.x == pytest.approx(end, abs=0.3) or cell.x > end  # nothing overlaps
    for level in (1, 2):
        assert sum(cell.width for cell in levels[level]) == pytest.approx(WIDTH, abs=0.5)


def test_widths_are_the_views_own_shares():
    view = view_of(spent(GRANTS).state)
    levels, total = rows(icicle(view)), view.total.units
    parts = view.by("table")
    for cell in levels[1]:
        name = cell.more.split(":")[0]
        assert cell.width == pytest.approx(WIDTH * parts[name].amount.units / total, abs=0.02)
        assert parts[name].amount.share.text() in cell.more


def test_what_is_narrow_stands_together_and_the_picture_stays_small():
    found = icicle(view_of(spent(GRANTS).state))
    (together,) = [cell for cell in found.cells if cell.more.startswith("40 more")]
    assert together.width >= NARROWEST and together.hue == hue_of("two")
    for cell in found.cells:  # a single narrow one keeps its name
        assert cell.width >= NARROWEST or " more:" not in f" {cell.more}" or cell is together
    assert len(found.cells) < 30


def test_a_learner_has_one_colour():
    found = icicle(view_of(spent(GRANTS).state))
    hues = {cell.more.split(":")[0]: cell.hue for cell in rows(found)[2]}
    assert hues["one"] == hue_of("one")
    assert {hue_of(f"learner-{number}") for number in range(200)} == set(range(1, len(SHADES) + 1))


def test_nothing_spent_is_no_picture():
    assert icicle(view_of(spent([]).state)).cells == ()
