"""The line of those who wait: whose turn it is follows from public prices, and nobody starves."""

from __future__ import annotations

from itertools import chain, combinations

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from privledger.ledger.line import (
    MOST_PLACES,
    Limit,
    QueuePosition,
    Refund,
    _sums_of,
    can_come,
    demand_of,
    follow_queue,
    held_by,
    is_over,
)

NEVER = "2999-01-01T00:00:00+00:00"


def place(name, units, team=""):
    return QueuePosition(name, "t", {"team": team} if team else {}, units, 0, NEVER)


def limit(title, used, cap, team=None):
    return Limit(title, team is not None, (used, 0), (cap, 0),
                 lambda one: team is None or one.labels.get("team") == team)


def line(*places):
    return {one.grant: one for one in places}


def holding(used, cap, *amounts, team=None, first=0):
    """A limit in which room comes only if open grants are handed back."""
    return evolve(limit(team or "the ledger", used, cap, team), renews=False, refunds=tuple(
        Refund(f"g{number}", ("h", number, "s"), (amount, 0))
        for number, amount in enumerate(amounts, first)))


def of_delta(*amounts):
    return evolve(holding(0, 100), used=(0, 8), cap=(100, 10), refunds=tuple(
        Refund(f"g{number}", ("h", 1, "s"), (0, amount)) for number, amount in enumerate(amounts)))


def many(units, number=30, name="p", team=""):
    return [place(f"{name}{one}", units, team) for one in range(number)]


P, HELD = place, "the ledger"
SHARED = (limit(HELD, 9, 10), limit("a", 8, 10, "a"), limit("b", 1, 10, "b"))
APART = (limit(HELD, 0, 100), limit("a", 9, 10, "a"), limit("b", 0, 10, "b"))
RENEWED = evolve(holding(5, 10, 5), title="window", renews=True)
NINETEEN, OF_A = holding(190, 200, 19, 1), holding(20, 24, 19, 1, team="a")
WIDE, TEN = holding(8, 20, 6), holding(5, 10, team="a")
ROOM, TEAM = holding(90, 100, 5), holding(9, 10, 5, team="a")
OPENED = evolve(place("big", 1), delta_units=4)
WITH_DELTA = evolve(place("small", 1), delta_units=1)
TURNS = {  # (who waits, who asks, limits, what holds the request)
    "whoever is first and does not fit holds what it waits for": [
        ([P("big", 4)], P("small", 1), [limit(HELD, 8, 10)], HELD),
        ([], P("small", 1), [limit(HELD, 8, 10)], ""),
        ([P("small", 1)], P("big", 4), [limit(HELD, 0, 10)], "")],
    "whoever fits is counted before those behind": [
        ([P("a", 3)], P("b", 3), [limit(HELD, 5, 10)], HELD),
        ([P("a", 3)], P("b", 2), [limit(HELD, 5, 10)], "")],
    "a team that used less of its share goes first": [
        ([P("a", 1, "a")], P("b", 1, "b"), SHARED, ""),  # although a came first
        ([P("b", 1, "b")], P("a", 1, "a"), SHARED, HELD),
        ([P("a", 1, "a"), P("b", 1, "b")], P("a", 1, "a"), SHARED, HELD)],
    "a place under another cap holds nothing": [
        ([P("a", 5, "a")], P("b", 5, "b"), APART, ""),
        ([P("a", 5, "a")], P("a2", 1, "a"), APART, "a")],
    "a request that leaves the room of who waits passes": [  # 13 beside the 2 that stay, and 5 more
        *(([P("big", 13)], P("small", units), [WIDE], title)
          for units, title in ((1, ""), (5, ""), (6, HELD))),
        ([P("big", 13), P("big2", 13)], P("small", 5), [WIDE], ""),
        ([P("big", 13)], P("small", 1), [evolve(WIDE, renews=True)], HELD)],
    "a request waits for refunds of which it would take a part": [
        # Who waits for 4 comes if any two are handed back.
        ([P("big", 4)], P("small", 1), [holding(8, 10, 1, 1, 1)], HELD),
        *(([P("big", 4)], P("small", 2), [holding(8, 10, *amounts)], title)  # short of 2
          for amounts, title in (((5,), ""), ((1, 4, 4), ""), ((1, 1, 4), HELD))),
        ([P("big", 5)], P("small", 1), [holding(8, 10, 2, 2)], "")],  # nobody hands back 3
    "what a cap keeps from who waits is kept for nobody": [
        # It holds 19 and 1, and may have 24: for 11 more, the 19 would have to come back.
        ([P("big", 11)], P("b", 1), [NINETEEN], HELD),
        ([P("big", 11, "a")], P("b", 1), [NINETEEN, OF_A], "")],
    "who passes leaves the room under every limit": [
        ([P("big", 13)], P("x", 5), [WIDE, TEN], ""),
        *(([P("big", 13), P("a", 5, "a")], P("x", units, "a"), [WIDE, TEN], "a")
          for units in (1, 5))],
    "what a window renews is held whatever is handed back": [
        # Who waits for both comes if the 5 are handed back. Then 1 would fit beside it.
        ([P("big", 6)], P("small", 1), [holding(8, 10, 5), RENEWED], "window"),
        ([P("big", 6)], P("small", 1), [holding(8, 10, 5)], "")],
    "delta is counted as units are": [
        ([evolve(OPENED, delta_units=1000)], P("small", 1),  # their sums share spans: nothing is
         [of_delta(*(2**number for number in range(12)))], ""),  # known of one
        ([OPENED], P("small", 1), [of_delta(1, 1, 1)], ""),  # it takes no delta
        ([OPENED], WITH_DELTA, [of_delta(1, 1, 1)], HELD),
        ([OPENED], WITH_DELTA, [of_delta(5)], "")],
    "of many each is looked at alone and after all before it": [
        *((many(13), P("small", units), [WIDE], title) for units, title in ((5, ""), (6, HELD))),
        # One comes alone, and leaves 3.
        ([*many(13, 3), P("p3", 15), *many(13)[4:]], P("small", 4), [WIDE], HELD),
        # Two come, and leave 2.
        *(([*many(9, 2, "q"), *many(13, 3), P("p3", 15), *many(13)[4:]], P("small", units),
           [holding(used, 20, used)], title)
          for units, used, title in ((2, 18, ""), (3, 17, HELD))),
        (many(4, 8, "a", "a"), P("small", 1, "a"), [ROOM, TEAM], ""),
        # These will be granted: nothing is left of the ledger.
        ([*many(4, 8, "a", "a"), P("f0", 5), P("f1", 5)], P("small", 1, "a"), [ROOM, TEAM], HELD)],
    "who fits is counted beside who waits": [  # 2 are left beside both
        ([P("a", 3), P("big", 13)], P("small", 3), [WIDE], HELD),
        ([P("a", 3), P("big", 13)], P("small", 2), [WIDE], "")]}


@pytest.mark.parametrize("case", TURNS)
def test_whose_turn_it_is(case):
    for waits, asks, limits, title in TURNS[case]:
        assert held_by(line(*waits), asks, tuple(limits)) == title, (waits, asks)


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
            assert held_by(waits, comer, limits) == "the ledger" or (used + size + big <= 10)
            if not held_by(waits, waits["b"], limits):
                return
        used = 0
    raise AssertionError("b was never served")


def test_notes_are_folded_and_what_cannot_be_read_is_no_place():
    held: dict[str, QueuePosition] = {}
    one = place("one", 1)
    assert not follow_queue(held, {"waits": one}, lambda name: False) and list(held) == ["one"]
    assert follow_queue(held, {"waits": None, "left_line": None}, lambda name: False)
    assert not follow_queue(held, {"left_line": "one"}, lambda name: False) and not held
    assert not follow_queue(held, {"left_line": "nobody"}, lambda name: False)
    follow_queue(held, {"waits": one}, lambda name: True)
    follow_queue(held, {"waits": {"grant": "one"}}, lambda name: False)
    assert not held
    for number in range(MOST_PLACES + 1):
        follow_queue(held, {"waits": place(str(number), 1)}, lambda name: False)
    assert len(held) == MOST_PLACES


def test_a_place_ends_with_its_time():
    assert not is_over(place("a", 1), "2998-12-31T23:59:59+00:00")
    assert is_over(place("a", 1), "2999-01-01T00:00:01+00:00")
    for unreadable in ("", "soon", "2999-01-01"):  # the last one has no zone
        assert is_over(evolve(place("a", 1), until=unreadable), "2026-01-01T00:00:00+00:00")


def test_a_place_for_longer_than_anybody_may_wait_is_none():
    now = "2026-01-01T00:00:00+00:00"
    assert not is_over(evolve(place("a", 1), until="2026-01-01T02:00:00+00:00"), now)
    assert is_over(evolve(place("a", 1), until="2026-01-01T02:00:01+00:00"), now)
    assert is_over(evolve(place("a", 1), until="9999-12-31T23:59:59+00:00"), now)


def test_who_could_come_in_a_new_window_only_is_waited_for():
    window = evolve(holding(9, 10), title="window", renews=True)
    assert can_come(demand_of(place("a", 10), (window,)), (window,))
    assert not can_come(demand_of(place("a", 11), (window,)), (window,))
    assert not can_come(demand_of(place("a", 2), (window,)), (evolve(window, renews=False),))


def some(items):
    return chain.from_iterable(combinations(items, number) for number in range(len(items) + 1))


def strictly(places, own, limits):
    """The rule of versions before: whoever is first and does not fit holds all of a budget.

    Returns: a title, or empty; and the places before `own`.
    """
    def share(one):
        team = [limit.share for limit in limits if limit.team and limit.matches(one)]
        return max(team) if team else limits[0].share

    taken, held, before = {limit.title: 0 for limit in limits}, set(), []
    for one in sorted([*places, own], key=share):
        under = [limit for limit in limits if limit.matches(one)]
        wanting = [limit.title for limit in under if limit.title in held or (
            limit.used[0] + taken[limit.title] + one.units > limit.cap[0])]
        if one is own:
            return (wanting or [""])[0], before
        before.append(one)
        held.update(wanting)
        if not wanting:
            for limit in under:
                taken[limit.title] += one.units
    raise AssertionError("own is in the line")


@given(st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=4),  # refunds
       st.integers(0, 9), st.integers(0, 5),  # what is settled: outside the team, and in it
       st.lists(st.tuples(st.integers(1, 16), st.booleans()), min_size=1, max_size=4),  # places
       st.tuples(st.integers(1, 6), st.booleans()), st.booleans())
def test_nobody_comes_later_for_what_passed(refunds, rest, team, waits, asks, renews):
    """Whatever is handed back and whoever gives up: who fits then would fit beside what passed.
    The law of docs/proofs/waiting.md; and who passed before passes now."""
    whole = holding(rest + team + sum(one for one, _ in refunds), 24, *(one for one, _ in refunds))
    own = evolve(holding(team + sum(one for one, ours in refunds if ours), 14, team="a"),
                 renews=renews, refunds=tuple(
                     Refund(f"g{number}", ("h", number, "s"), (one, 0))
                     for number, (one, ours) in enumerate(refunds) if ours))
    places = [place(f"p{number}", units, "a" if ours else "")
              for number, (units, ours) in enumerate(waits)]
    one, limits = place("own", asks[0], "a" if asks[1] else ""), (whole, own)
    if any(limit.used[0] + one.units > limit.cap[0] for limit in limits if limit.matches(one)):
        return  # it is refused before anybody asks whose turn it is
    (before, ahead), now = strictly(places, one, limits), held_by(line(*places), one, limits)
    if not before or now:
        assert before or not now
        return

    def fits(gone, come, more):
        return all(limit.used[0] - sum(refund.amounts[0] for refund in limit.refunds
                                       if refund.grant in gone)
                   + sum(place.units for place in [*come, *more] if limit.matches(place))
                   <= limit.cap[0]
                   for limit in limits if any(limit.matches(place) for place in come))

    for gone in some([refund.grant for refund in whole.refunds]):
        for come in some(ahead):
            assert fits(gone, come, [one]) or not fits(gone, come, [])


@given(st.lists(st.integers(1, 9), max_size=5), st.integers(0, 20),
       st.lists(st.integers(1, 20), min_size=1, max_size=4), st.integers(1, 6))
def test_who_is_held_up_would_have_delayed_somebody(refunds, rest, waits, asks):
    """In one budget the rule is exact: a request that leaves the room of all passes."""
    used, places = rest + sum(refunds), [place(f"p{n}", units) for n, units in enumerate(waits)]
    limits, one = (holding(used, 24, *refunds),), place("own", asks)
    if used + asks <= 24 and held_by(line(*places), one, limits):
        assert any(used - sum(gone) + sum(come) <= 24 < used - sum(gone) + sum(come) + asks
                   for gone in some(refunds) for come in some(waits))


@given(st.lists(st.integers(0, 2**40), max_size=12))
def test_sums_of_refunds_are_all_within_their_spans(amounts):
    spans = _sums_of(amounts)
    assert len(spans) <= 64 and spans == sorted(spans)
    for some_of_them in some(amounts):
        assert any(low <= sum(some_of_them) <= high for low, high in spans)
    if len(amounts) < 7:
        assert all(low == high for low, high in spans)
