"""What stands where in the picture of an answer."""

from __future__ import annotations

import random
import re
from xml.etree import ElementTree

import pytest
from privledger_learners.statistics.answers import _LEFT, _WIDE, _bars

COLUMNS = ("group", "statistic", "value", "low", "high")


@pytest.mark.parametrize("signs", [(1,), (-1,), (1, -1)], ids=["above", "below", "both"])
def test_bars_begin_at_zero_and_intervals_lie_on_the_same_scale(signs: tuple[int, ...]) -> None:
    draw = random.Random(str(signs))
    values = [draw.choice(signs) * draw.expovariate(0.01) for _ in range(9)]
    rows = [(str(place), "mean", value, value - draw.random(), value + draw.random())
            for place, value in enumerate(values)]
    known = [0.0, *(one for row in rows for one in row[2:])]
    least, most = min(known), max(known)

    def value_at(x: str) -> float:
        assert _LEFT <= float(x) <= _WIDE
        return least + (float(x) - _LEFT) / (_WIDE - _LEFT) * (most - least)

    picture = ElementTree.fromstring(f"<svg>{''.join(_bars(COLUMNS, rows, 0))}</svg>")
    pixel = (most - least) / (_WIDE - _LEFT)
    bars, lines = picture.findall("rect"), picture.findall("path")
    assert len(bars) == len(lines) == len(rows)
    for bar, line, (_, _, value, low, high) in zip(bars, lines, rows, strict=True):
        first = float(bar.attrib["x"])
        ends = value_at(str(first)), value_at(str(min(first + float(bar.attrib["width"]), _WIDE)))
        assert ends == pytest.approx(sorted((0.0, value)), abs=0.3 * pixel)
        begin, end = re.fullmatch(r"M(\S+) \S+H(\S+)", line.attrib["d"]).groups()
        assert (value_at(begin), value_at(end)) == pytest.approx((low, high), abs=0.3 * pixel)


def test_rows_of_nothing_but_zeros_have_bars_without_width() -> None:
    picture = "".join(_bars(COLUMNS, [("a", "sum", 0.0, 0.0, 0.0), ("b", "sum", None, None, None)],
                            0))
    assert picture.count("<rect") == picture.count("<path") == 1 and 'width="0.0"' in picture
