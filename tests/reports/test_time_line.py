"""Ticks are round, the axis is time where dates tell something, and no more fits than is said."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger import folded
from privledger.ledger.view import view_of
from privledger.reports.page.charts import seconds_of, time_line, time_ticks, whole_ticks
from privledger.reports.page.facts import limit_lines
from privledger.reports.page.past import past, undated
from tests.worlds import refused, schema_of

SCHEMA = schema_of("stays", {"stay": (0.0, 60.0)})
BEGIN = datetime(2026, 1, 5, tzinfo=UTC)


@given(st.floats(1e-12, 1e12), st.booleans())
def test_ticks_are_whole_and_reach_the_largest(most, counts):
    ticks = whole_ticks(most, counts=counts)
    assert ticks[0] == 0 and ticks[-1] >= most * (1 - 1e-9) and 2 <= len(ticks) <= 6
    lead = f"{ticks[1]:.6e}"[0]
    assert lead in "125" and ticks[-2] < most * (1 + 1e-9)
    assert not counts or all(tick == int(tick) for tick in ticks)


@pytest.mark.parametrize("most", [0.0, -1.0, float("nan"), float("inf"), 5e-324])
def test_an_axis_of_nothing_is_still_one(most):
    assert whole_ticks(most) == (0.0, 1.0)


@given(st.floats(1, 2e11), st.floats(60, 2e11))
def test_moments_are_round_few_and_between(start, span):
    ticks = time_ticks(start, start + span)
    assert len(ticks) <= 9 and len({text for _, text in ticks}) == len(ticks)
    assert all(start <= at <= start + span for at, _ in ticks)
    assert [at for at, _ in ticks] == sorted(at for at, _ in ticks)


@pytest.mark.parametrize("times", [
    ["2026-01-01T00:00:00+00:00", ""], ["2026-01-02T00:00:00+00:00", "2026-01-01T00:00:00+00:00"],
    ["2026-01-01T00:00:00"], ["0001-01-01T00:00:00+00:00"], ["9999-12-31T23:59:59+00:00"], ["x"]])
def test_dates_that_tell_nothing_are_no_axis(times):
    assert seconds_of(times) is None


def lived(days=10.0, *, back=False):
    """A ledger with two windows, caps and a refusal; its entries, an event every so many days."""
    caps = [pl.Cap(pl.Budget(1.0, 1e-6), per_window=True),
            pl.Cap(pl.Budget(0.8, 1e-6), labels={"team": "a"})]
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp", caps=caps)
    data = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name="patients")
    for window in ("first", "second"):
        ledger.open_window(window)
        for place in range(4):
            ledger.request(pl.Gaussian(20.0), data, learner=f"learner {place}",
                           labels={"team": "ab"[place % 2]}).close()
        refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.5), data, learner="greedy"))
    ledger._history.flush()
    entries = ledger._history.store.read()
    dated = [evolve(entry, event=evolve(entry.event, time=_at(place, days, back)))
             if hasattr(entry.event, "time") else entry for place, entry in enumerate(entries)]
    return ledger, dated


def _at(place, days, back):
    return (BEGIN + timedelta(days=days * (-place if back else place))).isoformat()


def drawn(ledger, seen):
    return time_line(seen, dict.fromkeys(ledger.state.grants, 1), {
        name: grant.event.learner for name, grant in ledger.state.grants.items()})


def test_windows_and_refusals_stand_where_they_happened():
    ledger, entries = lived()
    seen = past(view_of(folded(entries), entries))
    made = drawn(ledger, seen)
    assert made.dated and made.refused == 2 and len(seen.moves) == 8
    first, second = made.windows
    assert (first.text, second.text) == ("first", "second")
    xs = [dot.x for dot in made.dots]
    assert xs == sorted(xs) and first.at < xs[0] and xs[3] < second.at < xs[4]
    assert xs[3] < made.refusals[0].x < second.at < xs[7] < made.refusals[1].x
    assert "greedy" in made.refusals[0].text and "2026" in made.refusals[0].text
    assert [dot.grant for dot in made.dots] == list(ledger.state.grants)
    assert all(dot.hue == 1 and "2026: learner" in dot.text for dot in made.dots)
    assert made.places == {dot.grant: (dot.x, dot.y) for dot in made.dots}
    ys = [dot.y for dot in made.dots]
    assert ys == sorted(ys, reverse=True) and made.limit == min(tick.at for tick in made.up)


def test_refusals_at_one_place_are_one_cross():
    ledger, entries = lived(1.0)
    marks = past(view_of(folded(entries), entries)).marks
    twice = [mark for mark in marks for _ in range(2 if mark.kind == "refused" else 1)]
    made = drawn(ledger, evolve(past(view_of(folded(entries), entries)), marks=tuple(twice)))
    assert [one.number for one in made.refusals] == [2, 2] and made.refused == 4


def test_too_many_marks_are_a_stair_and_corrections(monkeypatch):
    monkeypatch.setattr("privledger.reports.page.charts.MOST_DOTS", 7)
    ledger, entries = lived()
    made = drawn(ledger, past(view_of(folded(entries), entries)))
    assert made.dots == () and len(made.places) == 8 and made.path.count("H") == 9


@pytest.mark.parametrize("case", ["backwards", "at once", "publishable"])
def test_without_dates_the_order_is_the_axis(case):
    ledger, entries = lived(0.0 if case == "at once" else 10.0, back=case == "backwards")
    seen = past(view_of(folded(entries), entries))
    made = drawn(ledger, undated(seen) if case == "publishable" else seen)
    assert not made.dated and made.refusals == made.windows == () and made.refused == 2
    assert [tick.text for tick in made.across] == ["start", "charge 8"]
    assert not any("2026" in dot.text for dot in made.dots)


def test_so_many_more_fit_and_not_one_more():
    ledger, entries = lived()
    seen = past(view_of(folded(entries), entries))
    whole, window, team = limit_lines(view_of(ledger.state, entries), seen, dated=True)
    assert [one.budget.epsilon.text() for one in (whole, window, team)] == ["2", "1", "0.8"]
    assert [one.name for one in (whole, team)] == ["the whole ledger", "team a"]
    days = [datetime.strptime(one.until, "%d %b %Y") for one in (whole, window, team)]
    assert days[0] > days[1]  # the window has the smaller budget
    state = ledger.state
    data = next(iter(state.tables))
    least = min(one.budget.times for one in (whole, window, team))
    table = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name=f"{data} again")
    for _ in range(least):
        ledger.request(pl.Gaussian(20.0), table, labels={"team": "a"}).close()
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(pl.Gaussian(20.0), table, labels={"team": "a"})


def test_the_day_it_runs_out_is_the_pace_carried_on():
    ledger, entries = lived(1.0)
    seen = past(view_of(folded(entries), entries))
    state = ledger.state
    whole, *_ = limit_lines(view_of(state, entries), seen, dated=True)
    begun, last = seconds_of([seen.begun, seen.last])
    end = datetime.strptime(f"{whole.until} +0000", "%d %b %Y %z").timestamp()
    share = state.units / state.rule.cap_units
    assert end == pytest.approx(begun + (last - begun) / share, abs=86_400)
    assert limit_lines(view_of(state, entries), seen, dated=False)[0].until == ""
