"""Several caps at once: all or nothing, each for what it matches."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger import fixed_filter
from privledger.ledger.filters import matching_caps
from tests.all_cases import all_cases

SMALL = pl.Schema("one", (pl.Column("x", "numeric", "feature", 0.0, 1.0),))
BUDGET = pl.Budget(2.0, 1e-6)
KINDS = {
    "gdp": pl.Gaussian(20.0), "zcdp": pl.Gaussian(20.0), "rdp": pl.Gaussian(20.0),
    "basic": pl.Laplace(20.0),
}


def made(kind, *caps, location=None):
    return pl.Ledger.create(location, budget=BUDGET, filter=kind, caps=caps,
                            order=40.0 if kind == "rdp" else None)


def table(ledger, name):
    return ledger.protect({"x": np.linspace(0, 1, 5)}, SMALL, name=name)


def spend(ledger, data, node, labels=None):
    """Grants until refused; the refusal."""
    for number in range(10_000):
        try:
            ledger.request(node, data, labels=labels).close()
        except pl.BudgetExceeded as refusal:
            return number, refusal
    raise AssertionError("never refused")


@pytest.mark.parametrize("kind", KINDS)
def test_a_table_is_held_to_its_own_cap_and_others_are_not(kind):
    ledger = made(kind, pl.Cap(pl.Budget(0.5, 1e-6), data="a"))
    data, other = table(ledger, "a"), table(ledger, "b")
    granted, refusal = spend(ledger, data, KINDS[kind])
    assert "the cap for data a" in str(refusal) and refusal.left < 0.5
    alone = pl.Ledger.create(None, budget=pl.Budget(0.5, 1e-6), filter=kind,
                             order=ledger.state.rule.order or None)
    assert granted == spend(alone, table(alone, "a"), KINDS[kind])[0]
    assert spend(ledger, other, KINDS[kind])[0] > granted
    assert ledger.spent <= 2.0 and ledger.verify() == []


def test_labels_must_all_be_carried():
    ledger = made("gdp", pl.Cap(pl.Budget(0.3, 1e-6), labels={"team": "red", "quarter": "4"}))
    data, node = table(ledger, "a"), pl.Gaussian(20.0)
    for labels in (None, {"team": "red"}, {"team": "blue", "quarter": "4"}):
        for _ in range(5):
            ledger.request(node, data, labels=labels).close()
    _, refusal = spend(ledger, data, node, {"team": "red", "quarter": "4", "more": "x"})
    assert refusal.scope == "the cap for quarter 4, team red"
    ledger.request(node, data, labels={"team": "red"}).close()


def test_all_or_nothing():
    """A request that one cap refuses takes nothing from the others."""
    ledger = made("gdp", pl.Cap(pl.Budget(1.0, 1e-6), data="a"),
                  pl.Cap(pl.Budget(0.1, 1e-6), labels={"team": "red"}))
    data = table(ledger, "a")
    before = ledger.state
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(pl.Gaussian(10.0), data, labels={"team": "red"})
    assert (ledger.state.units, ledger.state.cap_spent) == (before.units, before.cap_spent)


def test_a_refund_goes_back_to_every_cap():
    ledger = made("gdp", pl.Cap(pl.Budget(1.0, 1e-6), data="a"))
    data = table(ledger, "a")
    with pytest.raises(KeyError), ledger.request(pl.Gaussian(10.0), data):
        raise KeyError
    assert ledger.state.units == 0 and ledger.state.cap_spent == [(0, 0)]


def test_a_scope_counts_against_every_cap():
    ledger = made("gdp", pl.Cap(pl.Budget(0.1, 1e-6), data="b"))
    with pytest.raises(pl.BudgetExceeded, match="data b"):
        ledger.open_scope(pl.IndividualFilter("gdp", 0.01))


def test_a_correction_counts_against_the_grant_s_caps():
    ledger = made("gdp", pl.Cap(pl.Budget(0.5, 1e-6), data="a"))
    data = table(ledger, "a")
    ledger.request(pl.Gaussian(50.0), data).close()
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(5.0), "it was louder")
    assert [finding.rule for finding in ledger.verify()] == ["never-over-the-cap"]
    with pytest.raises(pl.BudgetExceeded, match="data a"):
        ledger.request(pl.Gaussian(1000.0), data)


def test_caps_survive_reopening(tmp_path):
    path = tmp_path / "ledger.db"
    ledger = made("gdp", pl.Cap(pl.Budget(0.5, 1e-6), data="a"), location=path)
    granted, _ = spend(ledger, table(ledger, "a"), pl.Gaussian(20.0))
    ledger.close()
    with pl.Ledger.open(path) as again:
        assert again.state.caps == (pl.Cap(pl.Budget(0.5, 1e-6), data="a"),)
        with pytest.raises(pl.BudgetExceeded, match="data a"):
            again.request(pl.Gaussian(20.0), table(again, "a"))
    assert granted > 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["red", "blue"]),
                          st.floats(5.0, 60.0)), max_size=30))
def test_no_cap_is_ever_passed(requests):
    caps = (pl.Cap(pl.Budget(0.6, 1e-6), data="a"), pl.Cap(pl.Budget(0.5, 1e-6),
                                                          labels={"team": "red"}))
    ledger = made("gdp", *caps)
    data = {name: table(ledger, name) for name in "ab"}
    paid = {"a": 0.0, "red": 0.0}
    for name, team, noise in requests:
        try:
            ledger.request(pl.Gaussian(noise), data[name], labels={"team": team}).close()
        except pl.BudgetExceeded:
            continue
        for key in (name, team):
            if key in paid:
                paid[key] += 1 / noise**2
    for key, cap in zip(paid, caps, strict=True):
        allowed = fixed_filter("gdp", cap.budget)
        assert paid[key] <= allowed.cap_units / 2**192 * (1 + 1e-9)
    assert ledger.verify() == []


@all_cases("bad", [
    lambda: pl.Cap(1.0, data="a"), lambda: pl.Cap(BUDGET), lambda: pl.Cap(BUDGET, data=""),
    lambda: pl.Cap(BUDGET, data=3), lambda: pl.Cap(BUDGET, labels={"team": 3}),
    lambda: pl.Cap(BUDGET, labels="red"), lambda: made("gdp", "a cap"),
    lambda: pl.Cap(BUDGET, labels={"": "x"}), lambda: pl.Cap(BUDGET, labels={"x": "y" * 201}),
])
def test_what_is_no_cap_is_refused(bad):
    with pytest.raises(pl.InvalidValue):
        bad()


TEXTS = st.sampled_from("abc")
LABELS = st.dictionaries(st.sampled_from(["team", "project"]), TEXTS, max_size=2)
SOME = st.builds(
    lambda data, labels, window, each: (data, tuple(labels.items()), window, each),
    st.none() | TEXTS, LABELS, st.none() | TEXTS, st.booleans()).filter(
    lambda one: one[0] or one[1] or one[2] or one[3])


@settings(max_examples=60, deadline=None)
@given(st.lists(SOME, min_size=1, max_size=60), st.none() | TEXTS, st.none() | st.tuples(
    TEXTS, LABELS))
def test_caps_are_found_without_a_look_at_the_others(conditions, window, asked):
    """By where they are filed, or one by one: the same places in the same order."""
    caps = tuple(pl.Cap(pl.Budget(1.0, 0.0), data=data, labels=dict(labels),
                        window=None if each else name, per_window=each)
                 for data, labels, name, each in conditions)
    request = None if asked is None else SimpleNamespace(data=asked[0], labels=asked[1])
    assert list(matching_caps(caps, window, request)) == [
        place for place, cap in enumerate(caps) if cap.matches(window, request)]
