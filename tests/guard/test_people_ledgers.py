"""A ledger whose promise is about people: keys, tables, scopes over tables, one person's record."""

import re
import sqlite3

import numpy as np
import pytest
from attrs import evolve

import privledger as pl
from privledger.ledger import audit
from privledger.ledger.codec import model
from privledger.ledger.entries import make_entry
from privledger.ledger.roster import Roster, place_of
from privledger.ledger.vectors import WIDTH, piece_name
from privledger.tables.person_keys import PeopleKey, digests, key_to_bytes
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.worlds import refused

KEY = b"k" * 32
SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", lower=-1.0, upper=1.0),))
NAMED = evolve(SCHEMA, columns=(*SCHEMA.columns, pl.Column("member", "identifier", "identifier")),
               unit="person", person="member")
G = pl.Gaussian(30.0)


def a_ledger(path=None, **options):
    return pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp", unit="person",
                            people_key=KEY, **options)


def rows(*values):
    return {"x": list(values)}


def test_unit_and_key_go_together(tmp_path):
    for options in ({"unit": "person"}, {"people_key": KEY}, {"unit": "house"},
                    {"unit": "person", "people_key": b"short"}, {"unit": None}):
        with pytest.raises(pl.errors.InvalidValue):
            pl.Ledger.create(None, budget=pl.Budget(1.0), **options)
    refused(pl.errors.UnsupportedNode, lambda: pl.Ledger.create("postgresql://h/d?ledger=x",
            budget=pl.Budget(1.0), unit="person", people_key=KEY), match="kept in a file")
    a_ledger(tmp_path / "l").close()
    with pytest.raises(pl.errors.InvalidValue, match="created with"):
        pl.Ledger.open(tmp_path / "l", people_key=b"x" * 32)
    with pl.Ledger.open(tmp_path / "l") as ledger:
        assert ledger.unit == "person"
        assert "one person, with all rows in all tables" in repr(ledger)
        refused(pl.errors.NotGranted, lambda: ledger.protect(rows(0.5), schema=SCHEMA, people=[1]),
                lambda: ledger.record(person=1), match="people_key")
    pl.Ledger.create(tmp_path / "r", budget=pl.Budget(1.0)).close()
    with pytest.raises(pl.errors.InvalidValue, match="protects rows"):
        pl.Ledger.open(tmp_path / "r", people_key=KEY)


def test_ids_come_with_the_table_or_by_its_schema():
    ledger = a_ledger()
    with pytest.raises(pl.errors.InvalidValue, match="one id for each row"):
        ledger.protect(rows(0.5), schema=SCHEMA)
    with pytest.raises(pl.errors.DataError, match="as many"):
        ledger.protect(rows(0.5), schema=SCHEMA, people=[1, 2])
    with pytest.raises(pl.errors.InvalidValue, match="left out"):
        ledger.protect(rows(0.5) | {"member": [1]}, schema=NAMED, people=[1])
    with pytest.raises(pl.errors.DataError, match="missing column member"):
        ledger.protect(rows(0.5), schema=NAMED)
    ledger.protect(rows(0.5, 0.1) | {"member": ["a", "b"]}, schema=NAMED, name="t")
    with pytest.raises(pl.errors.DataError, match="another table"):
        ledger.protect(rows(0.5, 0.1) | {"member": ["a", "a"]}, schema=NAMED, name="t")
    assert ledger.verify() == [] and ledger._enrolling.size() == 2
    by_row = pl.Ledger.create(None, budget=pl.Budget(1.0))
    with pytest.raises(pl.errors.InvalidValue, match="protects rows"):
        by_row.protect(rows(0.5), schema=SCHEMA, people=[1])
    with pytest.raises(pl.errors.SchemaError, match="protects rows"):
        by_row.protect(rows(0.5) | {"member": [1]}, schema=NAMED)


def test_a_group_is_not_protected_by_row_in_silence():
    schema = evolve(SCHEMA, columns=(*SCHEMA.columns, pl.Column("who", "identifier", "group")))
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0))
    with pytest.raises(pl.errors.SchemaError, match="role group"):
        ledger.protect(rows(0.5), schema=schema)
    ledger.protect(rows(0.5), schema=evolve(schema, unit="row"))
    a_ledger().protect(rows(0.5), schema=schema, people=[1])


@all_cases("unit", [{"person": "x"}, {"person": "y"}, {"person": "nobody"},
                    {"person": 3}, {"rows": 3}, "person", "house", 17, ["row"]])
def test_what_a_schema_may_say_about_its_unit(unit):
    columns = [{"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
               {"name": "y", "kind": "identifier", "role": "timestamp"}]
    if unit == {"person": "y"}:
        read = pl.Schema.from_dict({"columns": columns, "unit": unit})
        assert pl.Schema.from_dict(read.to_dict()) == read
    else:
        with pytest.raises(pl.errors.SchemaError):
            pl.Schema.from_dict({"columns": columns, "unit": unit})
    said = pl.Schema.from_dict({"columns": columns, "unit": "row"})
    assert pl.Schema.from_dict(said.to_dict()) == said and said.unit == "row"


def two_tables(path=None):
    ledger = a_ledger(path)
    first = ledger.protect(rows(1.0, 1.0, 0.5, -1.0), schema=SCHEMA, name="first",
                           people=[1, 1, 2, 3])
    second = ledger.protect(rows(1.0, -1.0, 1.0), schema=SCHEMA, name="second",
                            people=[" 3", "4", "1.0"])
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-2), name="scope")
    return ledger, first, second, scope


def ask(ledger, data, scope, noise=20.0):
    with ledger.request(scope.node, data, scope=scope, learner="l") as session:
        return session.release(pl.Gaussian(noise), session.filtered().sum("x"))


def test_one_cap_for_each_person_over_tables():
    ledger, first, second, scope = two_tables()
    for data in (first, second, first, second, second):
        ask(ledger, data, scope)
    assert ledger.verify() == []
    shares = {who: [round(line.share, 3) for line in ledger.record(person=who).lines]
              for who in (1, 2, 3, 4)}
    # One round at full norm costs 1/400 of mu squared, a quarter of the cap.
    assert shares[1] == [0.25, 0.25, 0.25, 0.25, 0.0]
    assert shares[3] == [0.25, 0.25, 0.25, 0.25, 0.0]
    assert shares[4] == [0.25, 0.25, 0.25]
    assert shares[2] == [0.063] * 2  # half the norm, rounded up
    spend = ledger.record(person="1")
    assert spend.tables == ("first", "second") and len(spend.lines) == 5
    assert 0 < spend.epsilon <= spend.bound == pytest.approx(ledger.spent)
    assert [line.data for line in spend.lines] == ["first", "second", "first", "second", "second"]


def test_who_comes_late_and_who_leaves():
    ledger, first, _, scope = two_tables()
    ask(ledger, first, scope)
    longer = ledger.append(first, rows(0.1, 1.0, 1.0), people=[1, 4, 99])
    ask(ledger, longer, scope)
    assert len(ledger.record(person=99).lines) == 1
    assert len(ledger.record(person=4).lines) == 1
    assert len(ledger.record(person=1).lines) == 2
    later = ledger.protect(rows(1.0, 1.0), schema=SCHEMA, name="third", people=[4, 5])
    with ledger.request(G, later) as session:
        session.release(G, later.count())
    assert [line.data for line in ledger.record(person=4).lines] == ["first", "third"]
    assert [line.data for line in ledger.record(person=1).lines] == ["first", "first"]
    with pytest.raises(pl.errors.DataError, match="no person with that id") as caught:
        ledger.record(person=123456)
    assert "123456" not in str(caught.value)
    assert ledger.verify() == []


def test_a_grant_that_broke_off_counts_for_its_own_table_only():
    ledger, first, second, scope = two_tables()
    plan = pl.IndividualFilter("gdp", 1e-2, node=pl.Gaussian(20.0))
    session = ledger.request(plan, first, scope=scope)
    session.release(pl.Gaussian(20.0), session.filtered().sum("x"))
    ledger._history.commit(lambda state: [pl.ledger.events.Crashed(session.grant, "", "gone")])
    ask(ledger, second, scope)
    shares = [[round(line.share, 2) for line in ledger.record(person=who).lines] for who in (3, 4)]
    assert shares == [[0.25, 0.25], [0.25]]


def test_two_openings_give_places_in_turn(tmp_path):
    with a_ledger(tmp_path / "l") as one, pl.Ledger.open(tmp_path / "l", people_key=KEY) as other:
        one.protect(rows(0.1, 0.2), schema=SCHEMA, name="a", people=["a", "b"])
        other.protect(rows(0.1, 0.2), schema=SCHEMA, name="b", people=["b", "c"])
        one.protect(rows(0.1, 0.2), schema=SCHEMA, name="c", people=["d", "c"])
        assert one._enrolling.size() == 4 and one.verify() == []
        state = other.state
        enrolled = [event for _, event in state.enrolled]
        marks = key_to_bytes(digests(PeopleKey(KEY), list("abcd")))
        places = [place_of(other._history.store, enrolled, marks[at:at + 16])
                  for at in range(0, 64, 16)]
        assert sorted(places) == [0, 1, 2, 3] and set(places[:2]) == {0, 1}
    book = verify_history.read_history(str(tmp_path / "l"))
    assert book.faults == [] and book.unit == "person"


def test_many_people_in_pieces():
    ledger = a_ledger()
    draw = np.random.default_rng(0)
    ids = draw.integers(0, 10**9, 3 * WIDTH)
    data = ledger.protect({"x": draw.uniform(-1, 1, len(ids))}, schema=SCHEMA, people=ids)
    few = ledger.protect(rows(1.0, 1.0), schema=SCHEMA, people=[int(ids[0]), 10**10])
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-2), name="scope")
    ask(ledger, data, scope)
    ask(ledger, few, scope)
    assert ledger.verify() == []
    assert len(ledger.record(person=int(ids[0])).lines) == 2
    assert len(ledger.record(person=int(ids[1])).lines) == 1
    assert len(ledger.record(person="1e+10").lines) == 1
    roster, state = Roster(), ledger.state
    roster.follow(ledger._history.store, [event for _, event in state.enrolled])
    marks = digests(PeopleKey(KEY), [str(one) for one in ids[:50]])
    for at, place in enumerate(roster.find(marks)):
        assert place == place_of(ledger._history.store, [e for _, e in state.enrolled],
                                 key_to_bytes(marks[at:at + 1]))


@pytest.mark.parametrize("name", ["people:0", "people:0/0", "members:1", "members:1/0", "spend"])
def test_an_edited_piece_is_found_by_both(tmp_path, name):
    place = tmp_path / "l"
    ledger, first, _, scope = two_tables(place)
    ask(ledger, first, scope)
    settled = [grant.end.vector.name for grant in ledger.state.grants.values()]
    ledger.close()
    with sqlite3.connect(place) as base:
        chosen = piece_name(settled[0], 0) if name == "spend" else name
        (data,), = base.execute("SELECT data FROM vectors WHERE name = ?", (chosen,))
        changed = data[:-1] + bytes([data[-1] ^ 1])
        base.execute("UPDATE vectors SET data = ? WHERE name = ?", (changed, chosen))
    base.close()
    assert verify_history.read_history(str(place)).faults
    with pl.Ledger.open(place, read_only=True) as opened:
        assert {found.rule for found in opened.verify()} == {"people-match"}


def test_entries_that_no_ledger_of_rows_has():
    """A forged history in which people are enrolled, or granted, under unit row."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    store = ledger._history.store
    note = {"name": "people:0", "sha256": "0" * 64}
    body = {"data": "t", "people": note, "members": note | {"name": "members:0"}}
    head = store._entries[-1]
    store._entries.append(make_entry(1, model("enrolled", body, ()), head.hash))
    assert any("rows" in found.message for found in audit(store))


def test_no_id_is_anywhere_in_clear(tmp_path, caplog):
    """10^4 planted ids: not in the file, its log beside it, an export, a page, or a message."""
    from click.testing import CliRunner

    from privledger.cli import main

    place, draw = tmp_path / "l", np.random.default_rng(1)
    ids = [f"zq{one:012d}qz" for one in draw.integers(0, 10**12, 10_000)]
    said, planted = [], set(ids)
    ledger = a_ledger(place)
    data = ledger.protect({"x": draw.uniform(-1, 1, len(ids))}, schema=SCHEMA, name="t", people=ids)
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 1e-2), name="scope")
    ask(ledger, data, scope)
    for bad in ([*ids[:-1], None], [*ids[:-1], ""], ids[1:], [*ids[:-1], 1]):
        with pytest.raises(pl.errors.DataError) as caught:
            ledger.protect({"x": np.zeros(len(ids))}, schema=SCHEMA, people=bad)
        said.append(f"{caught.value!r}{caught.value.__context__!r}")
    said += [repr(ledger), repr(data), repr(ledger.record(person=ids[0])), caplog.text]
    said += [file.read_bytes().decode("latin-1") for file in tmp_path.iterdir()]
    run = CliRunner()
    for words in (["export", "--include-records"], ["report", "--include-records"], ["show"],
                  ["log"], ["top", "--people"], ["verify"]):
        more = ["-o", str(tmp_path / "out")] if words[0] in ("export", "report") else []
        result = run.invoke(main, [words[0], str(place), *words[1:], *more])
        assert result.exit_code == 0, (words, result.output)
        said += [result.output, *((tmp_path / "out").read_text() for _ in more)]
        if more:
            (tmp_path / "out").unlink()
    for text in said:
        assert not planted.intersection(re.findall("zq[0-9]{12}qz", text))
        assert KEY.decode() not in text
    ledger.close()


def test_a_ledger_of_people_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr("privledger.ledger.checkpoint.CADENCE", 3)
    place = tmp_path / "l"
    ledger, first, second, scope = two_tables(place)
    for data in (first, second, first):
        ask(ledger, data, scope)
    ledger.close()
    assert verify_history.read_history(str(place)).faults == []
    with pl.Ledger.open(place, people_key=KEY) as again:
        kept = again._history.store.checkpoint()
        assert kept is not None and '"enrolled":[[' in kept[0].state
        data = again.protect(rows(1.0, 1.0), schema=SCHEMA, name="third", people=[1, 77])
        ask(again, data, scope)
        assert [round(line.share, 2) for line in again.record(person=1).lines] == [0.25] * 4
        assert again.verify() == [] and again._enrolling.size() == 5
    assert verify_history.read_history(str(place)).faults == []


def test_nobody_passes_the_cap_over_tables_and_nobody_pays_for_another():
    """Two worlds, with and without one person: the others' spends are the same to the last unit."""
    draw = np.random.default_rng(3)
    for _ in range(6):
        tables = [(draw.integers(0, 12, n), draw.uniform(-1, 1, n)) for n in (20, 15)]
        noise = [float(one) for one in draw.uniform(15.0, 40.0, 8)]
        spends = []
        for leave_out in (None, 0):
            ledger, scope, handles = a_ledger(), None, []
            for ids, values in tables:
                here = ids != leave_out
                handles.append(ledger.protect({"x": values[here]}, schema=SCHEMA, people=ids[here]))
            scope = ledger.open_scope(pl.IndividualFilter("gdp", 4e-3), name="scope")
            for place, one in enumerate(noise):
                ask(ledger, handles[place % 2], scope, one)
            spends.append({who: [line.amount for line in ledger.record(person=who).lines]
                           for who in range(1, 12)
                           if any(who in ids for ids, _ in tables)})
            assert ledger.verify() == []
            caps = [line.cap for line in ledger.record(person=1).lines]
            assert all(sum(amounts) <= max(caps) * (1 + 1e-12) for amounts in spends[-1].values())
        assert spends[0] == spends[1]
