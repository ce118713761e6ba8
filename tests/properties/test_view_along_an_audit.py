"""Law: a view gathered along an audit is the view of all entries, whatever a ledger lived through.

The audit keeps a compact state, which forgets grants that are over; the view has them as columns.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

import attrs
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import privledger as pl
from privledger.ledger import folded
from privledger.ledger.history import SameEntries, each_row
from privledger.ledger.view import View, view_of
from privledger.ledger.view_charges import ASPECTS, ChargeFigures
from privledger.ledger.view_records import data_names, grants_for
from privledger.ledger.view_timeline import timeline, told_rows
from privledger.reports.survey import read_once
from privledger.storage import store_at
from tests.doctored import doctor
from tests.properties.lives import FILTERS, TABLES, Life, lives
from tests.worlds import schema_of

SHOWN = [one.name for one in attrs.fields(View) if not one.name.startswith("_")
         and one.name != "releases"]


def event_of(one: ChargeFigures) -> object:
    """What was granted or opened; without the process, which columns forget once it is over."""
    return attrs.evolve(one.event, holder=None) if one.kind == "grant" else one.event


def same_view(ledger: pl.Ledger) -> None:
    store = ledger._history.store
    entries = store.read()
    whole, seen = view_of(folded(entries), entries), read_once(store)
    assert seen.findings == () and seen.view is not None and seen.state is not None
    assert dict(seen.view.releases) == dict(whole.releases)
    for name in SHOWN:
        assert getattr(seen.view, name) == getattr(whole, name), name
    for mine, theirs in zip(seen.view.charges, whole.charges, strict=True):
        assert (mine.plan, mine.time) == (theirs.plan, theirs.time)
        assert event_of(mine) == event_of(theirs)
        assert mine.rests_on_claims == bool(mine.claims)
    for aspect in (*ASPECTS, "label:team"):
        assert seen.view.by(aspect) == whole.by(aspect)
    for name in ("asserted", "answers", "federated", "trusting", "tables", "live", "alone"):
        assert getattr(seen.view, name) == getattr(whole, name), name
    again = SameEntries(store, seen.state)
    assert list(again) == entries == list(again) and len(again) == len(entries)
    assert list(told_rows(each_row(store))) == list(timeline(entries))


@pytest.mark.parametrize("kind", FILTERS)
def test_a_view_along_an_audit_is_the_view_of_all_entries(kind):
    @settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck),
              phases=(Phase.explicit, Phase.generate))
    @given(lives(kind, 14))
    def law(happening):
        same_view(Life(kind).run(happening))

    law()


def test_grants_that_are_over_are_columns_not_records(tmp_path):
    """Many alike take one model; a state that keeps none of them shows all of them."""
    with pl.Ledger.create(tmp_path / "many.ledger", budget=pl.Budget(1.0, 1e-6),
                          filter="gdp") as ledger:
        data = ledger.protect({"x": [0.5]}, schema_of("t", {"x": (0.0, 1.0)}), name="t")
        for _ in range(20):
            with ledger.request(pl.Gaussian(300.0), data) as session:
                session.release(pl.Gaussian(300.0), data.count())
        seen = read_once(ledger._history.store)
    assert seen.state is not None and seen.view is not None
    assert seen.state.grants == {} and len(seen.view.charges) == 20
    assert len(seen.seen.grants._granted) == 1 and not seen.seen.grants.kept
    assert len({id(lines) for lines in seen.view.releases.values()}) == 1


def test_entries_that_changed_since_they_were_audited_are_refused(tmp_path):
    place = tmp_path / "one.ledger"
    with pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6)) as ledger:
        ledger.open_window("first")
        state = ledger.state
    doctor(place, "UPDATE entries SET body = replace(body, 'first', 'other')")
    with pytest.raises(pl.errors.LedgerCorrupt, match="changed while it was read"):
        list(SameEntries(store_at(place, read_only=True), state))


def test_entries_that_were_added_since_are_left_out():
    with pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6)) as ledger:
        store, state = ledger._history.store, ledger.state
        before = store.read()
        ledger.open_window("later")
        assert list(SameEntries(store, state)) == before


@pytest.mark.parametrize("kind", FILTERS)
def test_a_state_of_one_table_says_the_same_of_its_records(kind):
    @settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck),
              phases=(Phase.explicit, Phase.generate))
    @given(lives(kind, 14))
    def law(happening):
        ledger = Life(kind).run(happening)
        whole = ledger._history.full()
        for table in TABLES:
            state = ledger._history.full(table)
            assert attrs.evolve(state, grants={}) == attrs.evolve(whole, grants={})
            assert data_names(state) == data_names(whole)
            assert grants_for(state, table) == grants_for(whole, table)

    law()


@pytest.mark.parametrize("caps", [(), (pl.Cap(pl.Budget(0.9, 1e-6), data="b"),)])
def test_what_alike_grants_say_names_their_own_table(caps):
    """Words of alike grants are made once, but for the table. A learner may be called by one."""
    with pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=caps) as ledger:
        for name in ("a", "b", "x on a"):
            data = ledger.protect({"x": [0.5]}, schema_of("t", {"x": (0.0, 1.0)}), name=name)
            for learner in ("", "x on a: y", " on b: ", "on b"):
                for _ in range(2):
                    with ledger.request(pl.Gaussian(300.0), data, learner=learner) as session:
                        session.release(pl.Gaussian(300.0), data.count())
        store = ledger._history.store
        assert list(told_rows(each_row(store))) == list(timeline(store.read()))


def test_words_are_made_anew_behind_another_filter(tmp_path):
    """A wrong entry in the middle may say that the ledger is another one from here on."""
    with pl.Ledger.create(tmp_path / "t.ledger", budget=pl.Budget(1.0, 1e-6),
                          filter="gdp") as ledger:
        data = ledger.protect({"x": [0.5]}, schema_of("t", {"x": (0.0, 1.0)}), name="t")
        for _ in range(8):
            with ledger.request(pl.Gaussian(300.0), data) as session:
                session.release(pl.Gaussian(300.0), data.count())
        rows = list(ledger._history.store.rows())
    created = next(one for one in rows if one[1] == "created")
    at = next(one[0] for one in rows if one[1] == "settled" and one[0] > len(rows) // 2)
    with closing(sqlite3.connect(tmp_path / "t.ledger")) as file, file:
        file.execute("DROP TRIGGER entries_keep")
        file.execute("UPDATE entries SET kind = ?, body = ? WHERE position = ?",
                     (created[1], created[2], at))
    with closing(store_at(tmp_path / "t.ledger", read_only=True)) as store:
        told = list(told_rows(each_row(store)))
        assert told == list(timeline(store.read()))
    assert len({one[4] for one in told if one[1] == "granted"}) == 2
