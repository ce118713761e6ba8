"""Caps: all or nothing, each for what it matches. Windows: by name, one at a time, never again."""

import datetime
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.ledger import audit, fixed_filter
from privledger.ledger.filters import matching_caps
from tests.all_cases import all_cases
from tests.bodies import lines_of, stored
from tests.worlds import refused, schema_of

SMALL = schema_of("one", {"x": (0.0, 1.0)})
BUDGET, SLICE = pl.Budget(2.0, 1e-6), pl.Budget(0.5, 1e-6)
NODE = pl.Gaussian(20.0)
KINDS = {
    "gdp": pl.Gaussian(20.0), "zcdp": pl.Gaussian(20.0), "rdp": pl.Gaussian(20.0),
    "basic": pl.Laplace(20.0)}


def made(kind, *caps, location=None):
    return pl.Ledger.create(location, budget=BUDGET, filter=kind, caps=caps,
                            order=40.0 if kind == "rdp" else None)


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


@pytest.mark.parametrize(("cap", "words"), [
    (pl.Cap(pl.Budget(0.1, 1e-6), data="b"), "data b"),
    (pl.Cap(pl.Budget(0.1, 1e-6), per_window=True), "each window")])
def test_a_scope_counts_against_every_cap_and_the_window_it_is_paid_in(cap, words):
    ledger = made("gdp", cap)
    ledger.open_window("a")
    with pytest.raises(pl.BudgetExceeded, match=words):
        ledger.open_scope(pl.IndividualFilter("gdp", 0.01))


def test_a_correction_counts_against_the_grant_s_caps():
    ledger = made("gdp", pl.Cap(pl.Budget(0.5, 1e-6), data="a"))
    data = table(ledger, "a")
    ledger.request(pl.Gaussian(50.0), data).close()
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(5.0), "it was louder")
    assert [finding.rule for finding in ledger.verify()] == ["never-over-the-cap"]
    refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(1000.0), data), match="data a")


@pytest.mark.parametrize(("cap", "words"), [
    (pl.Cap(SLICE, data="a"), "data a"), (pl.Cap(SLICE, per_window=True), "each window")])
def test_caps_and_windows_survive_reopening(tmp_path, cap, words):
    path = tmp_path / "ledger.db"
    with made("gdp", cap, location=path) as ledger:
        ledger.open_window("a")
        assert spend(ledger, table(ledger))[0] > 0
    with pl.Ledger.open(path) as again:
        assert again.window == "a" and again.state.caps == (cap,)
        refused(pl.BudgetExceeded, lambda: again.request(NODE, table(again)), match=words)


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


# Windows.

def rewritten(ledger, change):
    return [finding.rule for finding in audit(stored(*change(lines_of(ledger))))]


def test_each_window_has_its_cap_and_the_total_stays_spent():
    ledger = made("gdp", pl.Cap(SLICE, per_window=True))
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
    refused(pl.BudgetExceeded, lambda: ledger.request(NODE, data), match="of the ledger is left")


def test_a_new_window_frees_no_cap_but_those_per_window():
    ledger = made("gdp", pl.Cap(SLICE, data="a"), pl.Cap(SLICE, labels={"team": "red"}),
                  pl.Cap(pl.Budget(1.9, 1e-6), per_window=True))
    data = table(ledger)
    ledger.open_window("a")
    spend(ledger, data, labels={"team": "red"})
    before = ledger.state.cap_spent
    ledger.open_window("b")
    assert ledger.state.cap_spent == [*before[:2], (0, 0)]
    refused(pl.BudgetExceeded, lambda: ledger.request(NODE, data), match="the cap for data a")
    with pytest.raises(pl.BudgetExceeded, match="the cap for team red"):
        ledger.request(NODE, table(ledger, "b"), labels={"team": "red"})


def test_without_an_open_window_nothing_is_granted():
    ledger = made("gdp", pl.Cap(SLICE, data="a", per_window=True))
    with pytest.raises(pl.BudgetExceeded, match="no window is open"):
        ledger.request(NODE, table(ledger))
    assert ledger.state.units == 0
    ledger.request(NODE, table(ledger, "b")).close()  # no cap is for this one


def test_a_cap_for_one_window_leaves_the_others_alone():
    ledger = made("gdp", pl.Cap(SLICE, window="holidays"))
    data = table(ledger)
    ledger.request(pl.Gaussian(4.0), data).close()
    ledger.open_window("holidays")
    number, refusal = spend(ledger, data)
    assert refusal.scope == "the cap for window holidays" and number > 0
    ledger.open_window("after")
    ledger.request(NODE, data).close()
    assert ledger.verify() == []


def test_no_window_is_opened_twice():
    ledger = made("gdp", pl.Cap(SLICE, per_window=True))
    ledger.open_window("a")
    spend(ledger, table(ledger))
    ledger._history.flush()  # the refusal's note
    entries = len(ledger._history.store.read())
    ledger.open_window("a")  # it is open: nothing happens, nothing is freed
    assert len(ledger._history.store.read()) == entries
    refused(pl.BudgetExceeded, lambda: ledger.request(NODE, table(ledger)))
    ledger.open_window("b")
    refused(pl.InvalidValue, lambda: ledger.open_window("a"), match="never again")
    assert ledger.window == "b"


def test_the_clock_frees_nothing(monkeypatch):
    from privledger.ledger import history

    ledger = made("gdp", pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    ledger.open_window("2026-Q4")
    spend(ledger, data)
    far = datetime.datetime(2099, 1, 1, tzinfo=datetime.UTC).isoformat()
    monkeypatch.setattr(history, "now", lambda: far)
    refused(pl.BudgetExceeded, lambda: ledger.request(NODE, data))


def test_a_refund_goes_back_to_the_window_it_came_from():
    ledger = made("gdp", pl.Cap(SLICE, per_window=True))
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
    ledger = made("gdp", pl.Cap(SLICE, per_window=True))
    data = table(ledger)
    ledger.open_window("a")
    ledger.request(NODE, data).close()
    ledger.open_window("b")
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(5.0), "it was louder")
    assert [finding.rule for finding in ledger.verify()] == ["never-over-the-cap"]
    ledger.request(NODE, data).close()  # the open window is not the one that was overspent


def test_the_audit_finds_what_was_moved_between_windows():
    ledger = made("gdp", pl.Cap(SLICE, per_window=True))
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
    ledger = made("gdp")

    def older(lines):
        lines[0][1]["format"] = 2
        return [*lines, ("window", {"window": "a", "time": ""})]

    assert "states-follow" in rewritten(ledger, older)
    assert rewritten(ledger, lambda lines: older(lines)[:-1]) == []


@settings(max_examples=30, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(["w1", "w2", "w3", "w4"]), st.floats(5.0, 60.0)),
                max_size=40))
def test_no_window_is_ever_overspent(steps):
    ledger = made("gdp", pl.Cap(SLICE, per_window=True), pl.Cap(pl.Budget(0.3, 1e-6), window="w2"))
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
    lambda: pl.Cap(1.0, data="a"), lambda: pl.Cap(BUDGET), lambda: pl.Cap(BUDGET, data=""),
    lambda: pl.Cap(BUDGET, data=3), lambda: pl.Cap(BUDGET, labels={"team": 3}),
    lambda: pl.Cap(BUDGET, labels="red"), lambda: made("gdp", "a cap"),
    lambda: pl.Cap(BUDGET, labels={"": "x"}), lambda: pl.Cap(BUDGET, labels={"x": "y" * 201}),
    lambda: pl.Cap(SLICE, window=""), lambda: pl.Cap(SLICE, window=3),
    lambda: pl.Cap(SLICE, window="a\nb"), lambda: pl.Cap(SLICE, window="x" * 201),
    lambda: pl.Cap(SLICE, per_window=1), lambda: pl.Cap(SLICE, window="a", per_window=True),
    lambda: made("gdp").open_window(""), lambda: made("gdp").open_window(None)])
def test_what_is_no_cap_or_window_is_refused(bad):
    refused(pl.InvalidValue, bad)
