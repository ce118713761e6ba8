"""The line of those who wait: whose turn it is follows from public prices, and nobody starves."""

from __future__ import annotations

from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from privledger.ledger.line import MOST_PLACES, Limit, QueuePosition, follow, held_by, is_over

NEVER = "2999-01-01T00:00:00+00:00"


def place(name, units, team=""):
    return QueuePosition(name, "t", {"team": team} if team else {}, units, 0, NEVER)


def limit(title, used, cap, team=None):
    return Limit(title, team is not None, (used, 0), (cap, 0),
                 lambda one: team is None or one.labels.get("team") == team)


def line(*places):
    return {one.grant: one for one in places}


def test_whoever_is_first_and_does_not_fit_holds_what_it_waits_for():
    own = limit("the ledger", 8, 10)
    big, small = place("big", 4), place("small", 1)
    assert held_by(line(big), small, (own,)) == "the ledger"
    assert held_by({}, small, (own,)) == ""
    assert held_by(line(small), big, (evolve(own, used=(0, 0)),)) == ""


def test_whoever_fits_is_counted_before_those_behind():
    own = limit("the ledger", 5, 10)
    assert held_by(line(place("a", 3)), place("b", 3), (own,)) == "the ledger"
    assert held_by(line(place("a", 3)), place("b", 2), (own,)) == ""


def test_a_team_that_used_less_of_its_share_goes_first():
    limits = (limit("the ledger", 9, 10), limit("a", 8, 10, "a"), limit("b", 1, 10, "b"))
    a, b = place("a", 1, "a"), place("b", 1, "b")
    assert held_by(line(a), b, limits) == ""  # although a came first
    assert held_by(line(b), a, limits) == "the ledger"
    assert held_by(line(a, b), a, limits) == "the ledger"


def test_a_place_under_another_cap_holds_nothing():
    limits = (limit("the ledger", 0, 100), limit("a", 9, 10, "a"), limit("b", 0, 10, "b"))
    assert held_by(line(place("a", 5, "a")), place("b", 5, "b"), limits) == ""
    assert held_by(line(place("a", 5, "a")), place("a2", 1, "a"), limits) == "a"


@given(st.lists(st.tuples(st.integers(1, 10), st.sampled_from(["", "a", "b"])), min_size=1,
                max_size=8), st.integers(0, 10))
def test_somebody_who_fits_alone_has_the_turn_or_somebody_before_does_not_fit(asked, used):
    """No deadlock: in a line in which all could be granted alone, the first is never held."""
    places = line(*(place(str(n), units, team) for n, (units, team) in enumerate(asked)))
    limits = (limit("the ledger", used, 20), limit("a", 0, 99, "a"), limit("b", 0, 99, "b"))
    held = {name: held_by(places, one, limits) for name, one in places.items()}
    granted = [name for name, why in held.items() if not why]
    assert granted  # 10 + 10 fit: at least one goes on
    assert sum(places[name].units for name in granted) + used <= 20  # together, too


@given(st.integers(1, 4), st.integers(1, 10))
def test_nobody_starves_behind_those_who_keep_coming(size, big):
    """Windows of 10 units. Team b asks for `big` once; team a comes back with `size`, as often as
    it is granted. b is served in the second window at the latest."""
    waits, used, shares = line(place("b", big, "b")), 10 - min(big, 10) + 1, {"a": 0, "b": 0}
    for window in range(2):
        for turn in range(50):
            limits = (limit("the ledger", used, 10), limit("a", shares["a"], 1000, "a"),
                      limit("b", shares["b"], 1000, "b"))
            comer = place(f"a{window}.{turn}", size, "a")
            assert held_by(waits, comer, limits) == "the ledger" or (
                used + size + big <= 10)
            if not held_by(waits, waits["b"], limits):
                return
        used = 0
    raise AssertionError("b was never served")


def test_notes_are_folded_and_what_cannot_be_read_is_no_place():
    held: dict[str, QueuePosition] = {}
    one = place("one", 1)
    assert not follow(held, {"waits": one}, lambda name: False) and list(held) == ["one"]
    assert follow(held, {"waits": None, "left_line": None}, lambda name: False)
    assert not follow(held, {"left_line": "one"}, lambda name: False) and not held
    assert not follow(held, {"left_line": "nobody"}, lambda name: False)
    follow(held, {"waits": one}, lambda name: True)
    follow(held, {"waits": {"grant": "one"}}, lambda name: False)
    assert not held
    for number in range(MOST_PLACES + 1):
        follow(held, {"waits": place(str(number), 1)}, lambda name: False)
    assert len(held) == MOST_PLACES


def test_a_place_ends_with_its_time():
    assert not is_over(place("a", 1), "2998-12-31T23:59:59+00:00")
    assert is_over(place("a", 1), "2999-01-01T00:00:01+00:00")
    for unreadable in ("", "soon", "2999-01-01"):  # the last one has no zone
        assert is_over(evolve(place("a", 1), until=unreadable), "2026-01-01T00:00:00+00:00")
