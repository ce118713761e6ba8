"""Charges are printed upwards, remainders downwards: the numerals themselves, and who uses them."""

from __future__ import annotations

import ast
import math
import re
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import privledger
from privledger.numerals import many
from privledger.rounding import (
    UNIT,
    downward,
    downward_percent,
    exact,
    from_units,
    from_units_down,
    upward,
    upward_percent,
)
from tests import house

ROOT = Path(privledger.__file__).parent
floats = st.floats(min_value=0, allow_nan=False, allow_infinity=False) | st.integers(0, 10**9).map(
    lambda whole: whole / 10**6)
digits = st.integers(1, 17)


@given(floats, digits)
def test_what_is_printed_upwards_never_reads_back_as_less(value, some):
    assert float(upward(value, some)) >= value
    assert float(upward(-value, some)) >= -value


@given(floats, digits)
def test_what_is_printed_downwards_never_reads_back_as_more(value, some):
    assert float(downward(value, some)) <= value
    assert float(downward(-value, some)) <= -value


@given(floats, digits)
def test_a_numeral_is_on_the_safe_side_of_the_binary_value_or_is_the_floats_own(value, some):
    own = Fraction(repr(value))
    assert Fraction(upward(value, some)) >= Fraction(value) or Fraction(upward(value, some)) == own
    assert (Fraction(downward(value, some)) <= Fraction(value)
            or Fraction(downward(value, some)) == own)


@given(floats.filter(lambda value: value > 0), digits)
def test_no_more_is_added_than_one_of_the_last_digit(value, some):
    high, low = Fraction(upward(value, some)), Fraction(downward(value, some))
    power = int(f"{value:.17e}".partition("e")[2])
    assert high - low <= Fraction(10) ** (power + 1 - some)


@given(floats)
def test_what_was_chosen_is_printed_as_it_was_chosen(value):
    assert float(exact(value)) == value


@given(st.floats(0, 1e6))
def test_shares_keep_the_same_sides(share):
    assert Fraction(upward_percent(share).removesuffix(" %")) >= 100 * Fraction(repr(share))
    assert Fraction(downward_percent(share).removesuffix(" %")) <= 100 * Fraction(repr(share))


@given(st.integers(0, UNIT * 50))
def test_floats_of_scaled_integers_lie_on_the_safe_side(units):
    assert Fraction(from_units(units)) >= Fraction(units, UNIT) >= Fraction(from_units_down(units))


def test_ends_and_oddities():
    assert upward(0.0) == downward(0.0) == exact(0.0) == "0"
    assert upward(math.inf) == downward(math.inf) == "infinite"
    assert upward(1) == upward(1.0) == "1"
    assert upward(0.9999999) == "1"
    assert downward(1.0000001) == "1"
    assert upward(0.1) == downward(0.1) == "0.1"
    assert upward(1e-300) == "1e-300"
    assert upward(2.5e30, 1) == "3e+30"
    assert upward(99999.95, 6) == "100000"
    for wrong in (math.nan, True, "1", None, 1j):
        with pytest.raises(ValueError, match="must be a number"):
            upward(wrong)
        with pytest.raises(ValueError, match="must be a number"):
            downward(wrong)


def test_a_refusal_rounds_against_itself_in_text_and_in_a_notebook():
    refusal = privledger.BudgetExceeded(asked=0.12345641, spent=0.99999949, left=0.00000056789123)
    for page in (str(refusal), refusal._repr_html_()):
        assert "0.123457" in page
        assert "5.67891e-07" in page
        assert "1" in page
        assert "0.999999" not in page


# Neither charges nor remainders, and why.
BY_HAND = {
    "cli/terminal.py": {"value"},                    # quality(): how well a model does
    "cli/demo.py": {"100 * scores['model']['accuracy']", "100 * scores['baseline']['accuracy']",
                    "100 * found['open_score']"},    # accuracies
    "cli/ask.py": {"value"},                         # a noisy count beside its bar
    "cli/doctor.py": {"median", "(one.below + one.above) / max(rows, 1)"},  # of rows, to the owner
    "cli/run.py": {"told['records_about']", "told['holdout']"},  # a noisy count, a public share
    "cli/report.py": {"value['bytes'] / 1000"},   # size of a file
    "runs.py": {"held"},                          # part of the rows that is held out
    "cli/serve.py": {"idle"},                      # minutes
    "cli/plan.py": {"price.order"},              # a Renyi order, as it was chosen
    "ledger/filters.py": {"self.order", "MOST_ORDER"},  # Renyi orders
    "ledger/events.py": {"self.records", "one.told", "one.both[0]", "one.both[1]"},  # a score
    "ledger/limits.py": {"needed", "before", "most"},  # milliseconds
    "ledger/rules.py": {"MOST_EFFORT"},              # milliseconds
    "noise/trials_law.py": {"mean", "MOST_MEAN"},        # trials on average, as somebody chose it
    "graph/explain.py": {"found.order", "price.mesh", "price.tilt",
                         "value", "item"},  # the last two: parameters of a node
    "errors.py": {"allowed"},                        # a limit of a process
    "broker/channel.py": {"self.patience"},          # seconds
    "guard/reserve.py": {"MOST_WAIT"},               # seconds
    "questions/row_encoding.py": {"MOST_REACH", "MOST_WEIGHT", "MOST_WAVE",
                                  "size"},  # norms of public vectors
    "questions/sums.py": {"math.fsum(bounds)", "mechanism.l1_sensitivity"},
    "questions/question.py": {"least", "most", "low", "high"},  # sensitivities
    "reports/page/charts.py": {                      # places in a drawing, and axes
        "x", "y", "part", "10 * first", "100 * one", "place * wide", "(place + 1) * wide",
        "count / size", "count", "place * step"},
    "reports/page/past.py": {"across(x)", "up(1.0)", "up(move.left)", "100 * part"},  # likewise
}


def _by_hand(tree: ast.AST) -> set[str]:
    """Expressions that an f-string, `format` or `round` turns into a rounded numeral."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec = ast.unparse(node.format_spec)
            if re.search(r"[eEfFgGn%]['\"]$|\.\{", spec):
                found.add(ast.unparse(node.value))
    return found


def test_no_surface_formats_a_charge_by_hand():
    wrong = {}
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        # The first prints nothing, the second stands alone, the last is where it is done.
        if not name.startswith(("accounting/", "standalone/", "numerals.py")):
            more = _by_hand(house.tree(house.NAMES[path])) - BY_HAND.get(name, set())
            wrong.update({name: more} if more else {})
    assert wrong == {}


def test_no_template_formats_a_charge_by_hand():
    for path in (ROOT / "reports" / "templates").iterdir():
        text = path.read_text(encoding="utf-8")
        # The one `round` is the width of a bar.
        assert len(re.findall(r"\|\s*(?:round|format)\b", text)) == (path.name == "parts.html.j2")
        if path.suffix == ".js":
            assert text.count("toFixed") == 2  # both inside percent(), compared with the share
            assert "toPrecision" not in text


def test_one_of_a_thing_is_singular():
    assert [many(0, "grant"), many(1, "grant"), many(2, "grant")] == [
        "0 grants", "1 grant", "2 grants"]
    assert [many(1, "entry", "entries"), many(3, "entry", "entries")] == ["1 entry", "3 entries"]
