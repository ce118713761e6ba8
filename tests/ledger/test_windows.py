"""Windows: opened by name, one at a time, never again; the total is never given back."""

from __future__ import annotations

import datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger import audit, fixed_filter
from tests.all_cases import all_cases
from tests.bodies import lines_of, stored

SMALL = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
BUDGET, SLICE = pl.Budget(2.0, 1e-6), pl.Budget(0.5, 1e-6)
NODE = pl.Gaussian(20.0)


def made(*caps, location=None, filter="gdp"):
    return pl.Ledger.create(location, budget=BUDGET, filter=filter, caps=caps)


def table(ledger, name="a"):
    return ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL, name=name)


def spend(ledger, data, node=NODE, labels=None):
    """Grants until refused; how many, and the refusal."""
    for number in range(10_000):
        try:
            ledger.request(node, data, labels=labels).close()
        except pl.BudgetExceeded as refusal:
            return number, refusal
    raise AssertionError("never refused")


def rewritten(ledger, change):
    return [finding.rule for finding in audit(stored(*change(lines_of(ledger))))]


def test_each_window_has_its_cap_and_the_total_stays_spent():
    ledger = made(pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    counts = []
    for name in ("2026-Q4", "2027-Q1"):
        ledger.open_window(name)
        number, refusal = spend(ledger, data)
        counts.append(number)
        assert refusal.scope == "the cap for each window"
    assert counts[0] == counts[1] > 0
    allowed = fixed_filter("gdp", SLICE).cap_units
    assert 1.9 * allowed < ledger.state.units <= 2 * allowed
    for number in range(100):
        ledger.open_window(f"later {number}")
        spend(ledger, data)
    assert ledger.spent <= 2.0 and ledger.verify() == []
    ledger.open_window("one more")
    with pytest.raises(pl.BudgetExceeded, match="of the ledger is left"):
        ledger.request(NODE, data)


def test_a_new_window_frees_no_cap_but_those_per_window():
    ledger = made(pl.Cap(SLICE, data="a"), pl.Cap(SLICE, labels={"team": "red"}),
                  pl.Cap(pl.Budget(1.9, 1e-6), per_window=True))
    data = table(ledger)
    ledger.open_window("a")
    spend(ledger, data, labels={"team": "red"})
    before = ledger.state.cap_spent
    ledger.open_window("b")
    assert ledger.state.cap_spent == [*before[:2], (0, 0)]
    with pytest.raises(pl.BudgetExceeded, match="the cap for data a"):
        ledger.request(NODE, data)
    with pytest.raises(pl.BudgetExceeded, match="the cap for team red"):
        ledger.request(NODE, table(ledger, "b"), labels={"team": "red"})


def test_without_an_open_window_nothing_is_granted():
    ledger = made(pl.Cap(SLICE, data="a", per_window=True))
    with pytest.raises(pl.BudgetExceeded, match="no window is open"):
        ledger.request(NODE, table(ledger))
    assert ledger.state.units == 0
    ledger.request(NODE, table(ledger, "b")).close()  # no cap is for this one


def test_a_cap_for_one_window_leaves_the_others_alone():
    ledger = made(pl.Cap(SLICE, window="holidays"))
    data = table(ledger)
    ledger.request(pl.Gaussian(4.0), data).close()
    ledger.open_window("holidays")
    number, refusal = spend(ledger, data)
    assert refusal.scope == "the cap for window holidays" and number > 0
    ledger.open_window("after")
    ledger.request(NODE, data).close()
    assert ledger.verify() == []


def test_no_window_is_opened_twice():
    ledger = made(pl.Cap(SLICE, per_window=True))
    ledger.open_window("a")
    spend(ledger, table(ledger))
    ledger._history.flush()  # the refusal's note
    entries = len(ledger._history.store.read())
    ledger.open_window("a")  # it is open: nothing happens, nothing is freed
    assert len(ledger._history.store.read()) == entries
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(NODE, table(ledger))
    ledger.open_window("b")
    with pytest.raises(pl.InvalidValue, match="never again"):
        ledger.open_window("a")
    assert ledger.window == "b"


def test_the_clock_frees_nothing(monkeypatch):
    from privledger.ledger import history

    ledger = made(pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    ledger.open_window("2026-Q4")
    spend(ledger, data)
    far = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC).isoformat()
    monkeypatch.setattr(history, "now", lambda: far)
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(NODE, data)


def test_a_refund_goes_back_to_the_window_it_came_from():
    ledger = made(pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    ledger.open_window("a")
    session = ledger.request(NODE, data)
    ledger.open_window("b")
    ledger.request(NODE, data).close()
    before = ledger.state.cap_spent
    session.close(failed=KeyError)
    assert ledger.state.cap_spent == before
    assert ledger.state.windows["a"] == [(0, 0)]
    assert ledger.verify() == []


def test_a_correction_counts_against_the_window_of_its_grant():
    ledger = made(pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    ledger.open_window("a")
    ledger.request(NODE, data).close()
    ledger.open_window("b")
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(5.0), "it was louder")
    assert [finding.rule for finding in ledger.verify()] == ["never-over-the-cap"]
    ledger.request(NODE, data).close()  # the open window is not the one that was overspent


def test_a_scope_is_charged_to_the_window_it_is_paid_in():
    ledger = made(pl.Cap(pl.Budget(0.1, 1e-6), per_window=True))
    ledger.open_window("a")
    with pytest.raises(pl.BudgetExceeded, match="each window"):
        ledger.open_scope(pl.IndividualFilter("gdp", 0.01))


def test_windows_survive_reopening(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = made(pl.Cap(SLICE, per_window=True), location=path)
    ledger.open_window("a")
    spend(ledger, table(ledger))
    ledger.close()
    with pl.Ledger.open(path) as again:
        assert again.window == "a"
        assert again.state.caps == (pl.Cap(SLICE, per_window=True),)
        with pytest.raises(pl.BudgetExceeded, match="each window"):
            again.request(NODE, table(again))


def test_the_audit_finds_what_was_moved_between_windows():
    ledger = made(pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    ledger.open_window("a")
    spend(ledger, data)
    ledger.open_window("b")
    ledger.request(NODE, data).close()
    assert rewritten(ledger, lambda lines: lines) == []

    def twice(lines):
        return [*lines, ("window", {"window": "a", "time": ""})]

    def moved(lines):
        lines[-2][1]["window"] = "a"
        return lines

    def unnamed(lines):
        for kind, body in lines:
            if kind == "granted":
                body.pop("window")
        return [line for line in lines if line[0] != "window"]

    assert "states-follow" in rewritten(ledger, twice)
    assert "states-follow" in rewritten(ledger, moved)
    assert "never-over-the-cap" in rewritten(ledger, unnamed)


def test_a_ledger_of_an_older_format_has_no_windows():
    ledger = made()

    def older(lines):
        lines[0][1]["format"] = 2
        return [*lines, ("window", {"window": "a", "time": ""})]

    assert "states-follow" in rewritten(ledger, older)
    assert rewritten(ledger, lambda lines: older(lines)[:-1]) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(["w1", "w2", "w3", "w4"]), st.floats(5.0, 60.0)),
                max_size=40))
def test_no_window_is_ever_overspent(steps):
    ledger = made(pl.Cap(SLICE, per_window=True), pl.Cap(pl.Budget(0.3, 1e-6), window="w2"))
    data, paid = table(ledger), {}
    for step in steps:
        try:
            if isinstance(step, str):
                ledger.open_window(step)
            else:
                ledger.request(pl.Gaussian(step), data).close()
                paid[ledger.window] = paid.get(ledger.window, 0.0) + 1 / step**2
        except (pl.BudgetExceeded, pl.InvalidValue):
            continue
    assert None not in paid
    for name, units in paid.items():
        budget = pl.Budget(0.3, 1e-6) if name == "w2" else SLICE
        assert units <= fixed_filter("gdp", budget).cap_units / 2**192 * (1 + 1e-9)
    assert ledger.verify() == []


@all_cases("bad", [
    lambda: pl.Cap(SLICE, window=""), lambda: pl.Cap(SLICE, window=3),
    lambda: pl.Cap(SLICE, window="a\nb"), lambda: pl.Cap(SLICE, window="x" * 201),
    lambda: pl.Cap(SLICE, per_window=1), lambda: pl.Cap(SLICE, window="a", per_window=True),
    lambda: made().open_window(""), lambda: made().open_window(None),
])
def test_what_is_no_window_is_refused(bad):
    with pytest.raises(pl.InvalidValue):
        bad()
