"""Ticks are round, the axis is time where dates tell something, and no more fits than is said."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger.view import view_of
from privledger.reports.page.marks import seconds_of, time_ticks, whole_ticks
from privledger.reports.page.past import limits, past, time_line, undated

SCHEMA = pl.Schema("stays", (pl.Column("stay", "numeric", "feature", 0.0, 60.0),))
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
        with pytest.raises(pl.BudgetExceeded):
            ledger.request(pl.Gaussian(0.5), data, learner="greedy")
    ledger._history.flush()
    entries = ledger._history.store.read()
    dated = [evolve(entry, event=evolve(entry.event, time=_at(place, days, back)))
             if hasattr(entry.event, "time") else entry for place, entry in enumerate(entries)]
    return ledger, dated


def _at(place, days, back):
    return (BEGIN + timedelta(days=days * (-place if back else place))).isoformat()


def test_windows_refusals_and_limits_stand_where_they_happened():
    ledger, entries = lived()
    seen = past(entries, learners={name: grant.event.learner
                                   for name, grant in ledger.state.grants.items()})
    made = time_line(seen, ledger.state)
    assert made.dated and seen.counted == (2, 2)
    first, second = made.windows
    assert first.x < second.x and first.x + first.width == pytest.approx(second.x, abs=0.2)
    assert first.limit < second.limit  # further down: what was spent before it is gone
    xs = [spot.x for spot in made.spots]
    assert xs == sorted(xs) and xs[3] < second.x < xs[4]
    assert xs[3] < made.refusals[0].x < second.x < xs[7] < made.refusals[1].x
    assert "greedy" in made.refusals[0].text and "2026-" in made.refusals[0].text
    assert all(spot.hue for spot in made.spots)


@pytest.mark.parametrize("case", ["backwards", "at once", "publishable"])
def test_without_dates_the_order_is_the_axis(case):
    ledger, entries = lived(0.0 if case == "at once" else 10.0, back=case == "backwards")
    seen = past(entries)
    made = time_line(undated(seen) if case == "publishable" else seen, ledger.state)
    assert not made.dated
    assert [tick.text for tick in made.across] == ["start", "charge 8"]
    if case == "publishable":
        assert not any("2026" in spot.text for spot in (*made.spots, *made.refusals))


def test_so_many_more_fit_and_not_one_more():
    ledger, entries = lived()
    whole, window, team = limits(view_of(ledger.state, entries), ledger.state, past(entries))
    assert (whole.epsilon, window.epsilon, team.epsilon) == ("2", "1", "0.8")
    assert all(len(one.until) == 10 for one in (whole, window, team))
    assert whole.until > window.until  # the window has the smaller budget
    state = ledger.state
    data = next(iter(state.tables))
    least = min(int(one.more) for one in (whole, window, team))
    table = ledger.protect({"stay": np.linspace(0, 60, 30)}, SCHEMA, name=f"{data} again")
    for _ in range(least):
        ledger.request(pl.Gaussian(20.0), table, labels={"team": "a"}).close()
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(pl.Gaussian(20.0), table, labels={"team": "a"})


def test_the_day_it_runs_out_is_the_pace_carried_on():
    ledger, entries = lived(1.0)
    seen = past(entries)
    (whole, *_), state = limits(view_of(ledger.state, entries), ledger.state, seen), ledger.state
    begun, last = seconds_of([seen.begun, seen.last])
    end = datetime.fromisoformat(f"{whole.until}T00:00:00+00:00").timestamp()
    share = state.units / state.rule.cap_units
    assert end == pytest.approx(begun + (last - begun) / share, abs=86_400)
    assert limits(view_of(state, entries), state, seen, dated=False)[0].until == ""
