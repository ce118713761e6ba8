"""Two readers of one format, written apart: they must say the same of every history.

Honest ones of every learner, node type and kind of entry; and doctored ones, hashed again, in
which one field of one entry is changed, retyped, removed or doubled, or entries change places.
The long form tries every such forgery: pytest -m slow tests/standalone/test_two_verifiers.py
"""

from __future__ import annotations

import copy
import json
import random
import sqlite3

import pytest
from attrs import NOTHING, fields
from click.testing import CliRunner

import privledger as pl
from privledger.accounting import UNITS
from privledger.cli import main
from privledger.graph import Context
from privledger.graph.nodes import NODE_TYPES
from privledger.ledger import Policy, audit, codec, limits
from privledger.ledger.checkpoint import VERSION
from privledger.ledger.codec import _ATOMS, _BETWEEN, ENTRIES, SHAPES
from privledger.ledger.entries import FORMAT
from privledger.ledger.events import EVENTS
from privledger.ledger.filters import KINDS as FILTERS
from privledger.ledger.policy import MECHANISMS
from privledger.standalone import dues, meter, prices, reading, shapes, vectors, verifier
from privledger.storage import MemoryStore
from tests.alone import verify_history
from tests.doctored import entries_of
from tests.standalone import histories

WORLDS = ("gdp", "zcdp", "rdp", "basic", "sampled", "people", "purse")
OTHERS = {"purse": histories.purse, "sampled": histories.sampled, "people": histories.of_people,
          "fixed": histories.fixed}


def ours(lines, kept):
    store = MemoryStore()
    store._entries = entries_of(lines)
    store._vectors = kept
    return audit(store)


def alone(lines, kept):
    book = verify_history.Book()
    for line in lines:
        book.take(json.dumps(line).encode("ascii"))
    book.finish(kept.get)
    return book.faults


def differing(cases, kept):
    """Forgeries about which the two do not agree, and how many were found."""
    found, wrong = 0, []
    for name, lines in cases:
        here, there = ours(lines, kept), alone(lines, kept)
        found += bool(here)
        if bool(here) != bool(there):
            wrong.append((name, here[:2], there[:2]))
    return found, wrong


@pytest.fixture(scope="module")
def worlds():
    return {name: OTHERS[name]() if name in OTHERS else histories.everything(name)
            for name in WORLDS}


# --- honest histories -----------------------------------------------------------------------------


def test_every_kind_of_entry_is_in_these_histories(worlds):
    seen = {line["kind"] for lines, _ in worlds.values() for line in lines}
    assert seen == set(EVENTS)


def test_both_accept_every_honest_history(worlds):
    for name, (lines, kept) in worlds.items():
        assert (ours(lines, kept), alone(lines, kept)) == ([], []), name


def test_both_accept_a_ledger_of_every_learner():
    seen = 0
    for name, lines, kept in histories.learner_histories():
        assert (ours(lines, kept), alone(lines, kept)) == ([], []), name
        seen += 1
    assert seen >= 11


def test_both_accept_a_ledger_of_every_node_type():
    assert {type(node) for node in histories.NODES} == set(NODE_TYPES)
    cheap = [case for case in histories.node_histories() if not case[0].endswith(
        ("basic replace_one", "basic replace_label"))]
    for name, lines, kept in cheap:
        assert alone(lines, kept) == [], name  # ours was asked when it was made
    assert len(cheap) > 2 * len(histories.NODES)


# --- doctored ones --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORLDS)
def test_both_say_the_same_of_doctored_histories(worlds, name):
    lines, kept = worlds[name]
    source = random.Random(name)
    cases = [*histories.drawn(source, histories.order_forgeries, lines, 12),
             *histories.drawn(source, histories.field_forgeries, lines, 38)]
    found, wrong = differing(cases, kept)
    assert wrong == [] and found > 30


@pytest.mark.slow
@pytest.mark.parametrize("name", WORLDS)
def test_both_say_the_same_of_all_doctored_histories(worlds, name):
    lines, kept = worlds[name]
    cases = [*histories.order_forgeries(lines), *histories.field_forgeries(lines)]
    found, wrong = differing(cases, kept)
    assert wrong == [] and len(cases) > 1000 and found > len(cases) // 2


NEAR = 1.02  # a charge at a delta is compared to two per cent, as its finding says


def is_near(lines, doctored):
    """Whether plans that were altered cost about as much as what they replaced."""
    relation = lines[0]["body"]["relation"]
    for one, other in zip(lines, doctored, strict=True):
        if one["kind"] == "granted" and one["body"]["plan"] != other["body"]["plan"]:
            told = one["body"]["delta"]
            before, after = (pl.epsilon(pl.nodes.from_json(line["body"]["plan"]), told, relation)
                             for line in (one, other))
            if not told or not after <= before * NEAR:
                return False
    return True


@pytest.mark.slow
def test_both_say_the_same_of_every_doctored_plan():
    source = random.Random(1)
    for name, lines, kept in histories.node_histories():
        cases = {case: made for case, made in histories.field_forgeries(lines)
                 if " granted " in case and ("'plan'" in case or "units'" in case)}
        drawn = source.sample(list(cases.items()), min(12, len(cases)))
        _, wrong = differing(drawn, kept)
        assert all(here and not there and is_near(lines, cases[case])
                   for case, here, there in wrong), (name, wrong)


def test_a_choice_of_any_filter_costs_its_dearest_member():
    cases = [(case, kept) for name, lines, kept in histories.node_histories()
             if name.startswith("OneOf(nodes=(Laplace(")
             for case in histories.field_forgeries(lines)
             if case[0].endswith(" granted ('plan', 'nodes', 1, 'noise_multiplier') less")]
    assert len(cases) > 3
    for case, kept in cases:
        assert differing([case], kept) == (1, [])


@pytest.mark.parametrize("whose", [lambda body: body["budget"], lambda body: body["caps"][0]],
                         ids=["budget", "cap"])
@pytest.mark.parametrize("times", [1.0, 1 + 2**-52, 2.0])
def test_both_find_a_reserve_that_is_not_a_part_of_delta(worlds, whose, times):
    """Without charges, too: no total has to be wrong for it."""
    lines, _ = worlds["purse"]
    for many in (2, len(lines)):  # the promise and its filter alone; all
        made = copy.deepcopy(lines[:many])
        held = whose(made[0]["body"])
        held["failure"] = held["delta"] * times
        assert ours(histories.chained(made), {}) and alone(histories.chained(made), {})
        held["failure"] = held["delta"] / 4
        assert alone(histories.chained(made[:1]), {}) == []


def test_both_find_a_vector_that_was_edited_cut_or_filled_up(worlds):
    lines, kept = worlds["gdp"]
    clean = len(ours(lines, kept)), len(alone(lines, kept))
    for change in (lambda data: data + b"x", lambda data: data[:-1], lambda data: b"",
                   lambda data: None):
        made = {name: change(data) for name, data in kept.items()}
        made = {name: data for name, data in made.items() if data is not None}
        assert len(ours(lines, made)) > clean[0] and len(alone(lines, made)) > clean[1]


# --- a file ---------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "l.ledger"
    ledger = pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = ledger.protect(histories.ROWS, schema=histories.SCHEMA, name="t")
    for _ in range(3):
        with ledger.request(histories.G, data) as session:
            session.release(histories.G, data.count())
    ledger.close()
    return path


def test_it_reads_the_file_itself_with_and_without_a_log(file):
    assert verify_history.read_history(str(file)).faults == []
    with pl.Ledger.open(file) as ledger:
        data = ledger.protect(histories.ROWS, schema=histories.SCHEMA)
        ledger.request(histories.G, data).close()
        assert file.with_name(file.name + "-wal").stat().st_size
        book = verify_history.read_history(str(file))
        assert book.faults == [] and book.hashes[-1] == ledger.receipt.head


@pytest.mark.parametrize("statement", [
    "CREATE TRIGGER z AFTER INSERT ON entries BEGIN DELETE FROM entries; END",
    "DROP TRIGGER entries_keep", "CREATE TABLE more (x)", "CREATE INDEX i ON entries (kind)",
    "ALTER TABLE entries RENAME TO hidden; CREATE VIEW entries AS WITH RECURSIVE n(x) AS "
    "(SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS position, '' AS kind, '' AS body, "
    "'' AS previous, '' AS hash FROM n",
    "DROP TABLE vectors", "PRAGMA user_version = 99", "PRAGMA application_id = 1",
])
def test_what_was_planted_in_a_file_is_found_and_not_run(file, statement):
    with sqlite3.connect(file) as connection:
        connection.executescript(statement)
    connection.close()
    assert verify_history.read_history(str(file)).faults


def test_a_checkpoint_is_compared(file, monkeypatch):
    monkeypatch.setattr("privledger.ledger.checkpoint.CADENCE", 3)
    with pl.Ledger.open(file) as ledger:
        data = ledger.protect(histories.ROWS, schema=histories.SCHEMA)
        for _ in range(4):
            ledger.request(histories.G, data).close()
        ledger.request(histories.G, data)
    assert verify_history.read_history(str(file)).faults == []
    for change in ("UPDATE checkpoint SET state = replace(state, '\"charges\":', '\"charges\":1')",
                   "UPDATE checkpoint SET position = 10000", "DELETE FROM closed"):
        copy = file.with_name("copy")
        copy.write_bytes(file.read_bytes())
        with sqlite3.connect(copy) as connection:
            connection.execute(change)
        connection.close()
        assert "checkpoint" in verify_history.read_history(str(copy)).faults[-1][1]
        assert CliRunner().invoke(main, ["verify", str(copy)]).exit_code == 3


# --- laws: no reader knows less than the writer ---------------------------------------------------


def test_every_node_type_and_field_is_known_to_every_reader():
    assert set(reading.NODES) == {kind.__name__ for kind in NODE_TYPES}
    for kind in NODE_TYPES:
        written = {"inner" if field.name == "node" else field.name: field.default
                   for field in fields(kind)}
        read = reading.NODES[kind.__name__]
        assert set(read) == set(written), kind
        for name, default in written.items():
            assert (read[name][1] is reading.REQUIRED) == (default is NOTHING), (kind, name)
            if default is not NOTHING:
                assert read[name][1] == default, (kind, name)
    assert set(reading.SPENDING) == set(MECHANISMS)


def test_every_kind_of_entry_and_field_is_known_to_every_reader(worlds):
    assert shapes.BODIES == ENTRIES and set(SHAPES) == set(EVENTS)
    assert set(shapes.ATOMS) == set(_ATOMS) and set(_BETWEEN) <= set(shapes.BETWEEN)
    for kind in EVENTS:
        assert {codec._NAMES.get(kind, {}).get(one.name, one.name) for one in fields(EVENTS[kind])
                } == set(SHAPES[kind]), kind
    for lines, _ in worlds.values():
        for line in lines:
            assert set(line["body"]) <= set(SHAPES[line["kind"]]), line["kind"]


def test_every_other_name_of_the_format_is_known_to_every_reader():
    assert set(meter.POLICY) == {field.name for field in fields(Policy)}
    assert set(meter.STEP) == {field.name for field in fields(Context)}
    assert set(dues.FILTERS) == set(FILTERS)
    assert f"kind:{'|'.join(sorted(FILTERS))} " in ENTRIES["filter"]
    assert f"unit?:{'|'.join(sorted(UNITS))} " in ENTRIES["created"]
    assert (reading.FORMAT, vectors.CHECKPOINT_VERSION) == (FORMAT, VERSION)
    cap = pl.Cap(pl.Budget(1.0, 0.5, failure=0.1), data="t").as_dict()
    assert set(cap) == set(shapes.shape_of("Cap"))


def test_the_limits_are_the_same_in_every_reader():
    for name, module in (("MOST_BODY", reading), ("MOST_PLAN", reading), ("MOST_PARTS", reading),
                         ("MOST_DIGITS", reading), ("MOST_DEPTH", reading),
                         ("MOST_RECORDS", vectors), ("MOST_TOTAL_RECORDS", vectors),
                         ("MOST_EFFORT", prices), ("MOST_PACKED", verifier),
                         ("MOST_CHECKPOINT", verifier)):
        assert getattr(module, name) == getattr(limits, name), name
    assert prices.HEAVY == limits._HEAVY and prices.FREE_EFFORT == limits.FREE


def test_the_schema_of_a_file_is_the_one_that_is_written(file):
    with sqlite3.connect(file) as connection:
        written = dict(connection.execute("SELECT name, sql FROM sqlite_schema"))
    connection.close()
    assert verifier.SCHEMA.items() <= written.items()
    assert written.items() <= {**verifier.SCHEMA, **verifier.LATER}.items()
