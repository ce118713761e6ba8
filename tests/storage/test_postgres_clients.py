"""What one client of a database can do to another: nothing. With real roles, by SQL and by API."""

import json
import time
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from attrs import evolve

import privledger as pl
from privledger.graph import canonical
from privledger.ledger import settle
from privledger.ledger.codec import decode, encode
from privledger.ledger.entries import Entry, make_entry, now, text_hash
from privledger.ledger.events import Refused
from privledger.ledger.line import QueuePosition
from privledger.storage import store_at
from privledger.storage.address import parse_address

G = pl.Gaussian(9.0)
BUDGET = pl.Budget(2.0, 1e-6)
RIGHTS = (
    "GRANT USAGE ON SCHEMA privledger TO alice, bob",
    "GRANT SELECT ON ALL TABLES IN SCHEMA privledger TO alice, bob",
    "GRANT EXECUTE ON FUNCTION privledger.lock, privledger.append, privledger.keep, "
    "privledger.markable TO alice, bob")
APPEND = ("SELECT privledger.append(%s, %s, %s, %s::text[], %s::text[], %s::text[], "
          "%b::bytea[])")
DIGEST = "SELECT secret FROM privledger.grants WHERE name = %s"
REPAIR = "SELECT privledger.repair('{}')"
LOCK = "SELECT * FROM privledger.lock(%s)"


def database_of(url):
    return parse_address(url).parameters["dbname"]


def name_of(url):
    return parse_address(url).ledger


def as_(who, url):
    return url.replace("owner@", f"{who}@")


@pytest.fixture(scope="module")
def clients(postgres):
    """A database with two roles that may do what clients may."""
    name = postgres.database()
    pl.Ledger.create(postgres.url(database=name), budget=BUDGET).close()
    postgres.sql("DROP ROLE IF EXISTS alice", "DROP ROLE IF EXISTS bob",
                 "CREATE ROLE alice LOGIN", "CREATE ROLE bob LOGIN")
    postgres.sql(*RIGHTS, database=name)
    yield name
    postgres.sql("DROP OWNED BY alice, bob", "DROP ROLE alice, bob", database=name)


def made(postgres, clients):
    """A ledger with a cap, made by the owner."""
    url = postgres.url(database=clients)
    pl.Ledger.create(url, budget=BUDGET, filter="gdp", caps=[
        pl.Cap(pl.Budget(1.0, 1e-6), labels={"team": "a"})]).close()
    return url


def begun(url, schema, table):
    """A client with an open grant: (ledger, data, session)."""
    ledger = pl.Ledger.open(as_("alice", url))
    data = ledger.protect(*table, schema, name="rows")
    return ledger, data, ledger.request(G, data)


@pytest.fixture
def place(postgres, clients):
    return made(postgres, clients)


@pytest.fixture
def alice(place, schema, table):
    ledger, data, session = begun(place, schema, table)
    yield ledger, data, session
    ledger._history.store.close()


@pytest.fixture(scope="module")
def victim(postgres, clients, schema, table):
    """As `place` and `alice`, for attacks that leave nothing: (url, ledger, data, session)."""
    url = made(postgres, clients)
    ledger, data, session = begun(url, schema, table)
    yield url, ledger, data, session
    session.release(G, data.count())  # its holder goes on after all of them
    session.close()
    kept_whole(url, ledger.spent)
    ledger.close()


@pytest.fixture
def bob(postgres, clients):
    """Another client, who writes SQL by hand: a connection."""
    with postgres.connect(clients, "bob") as connection:
        yield connection


def gone(postgres, ledger):
    """End a client's connection, and wait until the server has noticed: its process takes leave
    after the client has hung up, and until then the server counts the client as there."""
    number = ledger._history.store._connection.info.backend_pid
    ledger._history.store.close()
    until = time.monotonic() + 120
    while postgres.sql(f"SELECT 1 FROM pg_stat_activity WHERE pid = {number}"):
        assert time.monotonic() < until, "the server still counts who has hung up"
        time.sleep(0.005)


def append(connection, url, lines, proofs=None):
    """What a client of its own making sends: entries with a right chain, whatever they say."""
    number, _, position, head, *_ = connection.execute(LOCK, (name_of(url),)).fetchone()
    after, tip, entries = position, head, []
    for kind, body in lines:
        text = canonical(body)  # of any size: the package's own writer would refuse before
        entries.append(Entry(position + 1, decode(kind, body), head,
                             text_hash(position + 1, kind, text, head), text))
        position, head = entries[-1].position, entries[-1].hash
    connection.execute(APPEND, (
        number, after, tip, [one.event.kind for one in entries], [one.text for one in entries],
        [one.hash for one in entries], proofs or [None] * len(entries)))


def body_of(url, kind):
    store = store_at(url, read_only=True)
    try:
        return next(encode(entry.event) for entry in reversed(store.read())
                    if entry.event.kind == kind)
    finally:
        store.close()


def refused(connection, url, lines, proofs=None, match=""):
    import psycopg

    with pytest.raises(psycopg.Error, match=match):
        append(connection, url, lines, proofs)


def kept_whole(url, spent):
    with pl.Ledger.open(url, read_only=True) as ledger:
        assert ledger.spent == spent > 0
        assert ledger.verify() == []


# What clients do.

def test_a_client_reserves_releases_settles_and_hands_back(place, alice):
    ledger, data, session = alice
    session.release(G, data.count())
    session.close()
    spent = ledger.spent
    with pytest.raises(RuntimeError), ledger.request(G, data):
        raise RuntimeError
    assert ledger.spent == spent
    scope = ledger.open_scope(pl.IndividualFilter("gdp", 0.01), name="ü\0\ud800 \\ \" scope")
    with ledger.request(scope.node, data, scope=scope, labels={"ü": "\n", "team": "b"}) as more:
        more.release(pl.Gaussian(50.0), more.filtered().count())
    with pytest.raises(pl.BudgetExceeded):
        ledger.request(pl.Gaussian(0.1), data)
    kept_whole(place, ledger.spent)
    assert [entry.event.kind for entry in ledger._history.store.read()][-3:] == [
        "granted", "released", "settled"]


def test_a_client_fixes_the_filter_of_an_open_ledger(postgres, place, schema, table):
    """`auto`: by the first plan. Only a filter that the budget allows is believed."""
    for plan in (G, pl.Laplace(9.0), pl.PoissonSample(0.01, G)):
        url = postgres.url(database=database_of(place))
        pl.Ledger.create(url, budget=BUDGET, caps=[pl.Cap(pl.Budget(1.0, 1e-6), data="t")]).close()
        with pl.Ledger.open(as_("alice", url)) as ledger:
            ledger.request(plan, ledger.protect(*table, schema, name="t")).close()
            assert ledger.verify() == []


def test_threads_of_a_client_share_transactions(place, schema, table):
    from concurrent.futures import ThreadPoolExecutor

    with pl.Ledger.open(as_("alice", place)) as ledger, ThreadPoolExecutor(8) as pool:
        data = ledger.protect(*table, schema)
        list(pool.map(lambda _: ledger.request(pl.Gaussian(90.0), data).close(), range(40)))
        assert len(ledger.state.grants) == 40 and ledger.verify() == []


def test_a_client_cannot_create_or_open_a_window(place):
    with pytest.raises(pl.LedgerError, match="permission denied"):
        pl.Ledger.create(as_("bob", place).replace(name_of(place), "other"), budget=BUDGET)
    with pl.Ledger.open(as_("bob", place)) as ledger, pytest.raises(pl.LedgerError,
                                                                   match="refuses"):
        ledger.open_window("2027")


# What one client does to another's grant.

@pytest.mark.parametrize("proof", [None, b"", b"\0" * 32, "digest"])
@pytest.mark.parametrize("lines", [
    lambda grant: [("aborted", {"grant": grant, "time": "", "touched": False, "releases": 0})],
    lambda grant: [("settled", {"grant": grant, "time": "", "touched": True, "releases": 0})],
    lambda grant: [("released", {"grant": grant, "first": 0, "items": [], "nodes": [],
                                 "questions": [], "noise": ""})],
    lambda grant: [("crashed", {"grant": grant, "time": "", "why": "I say so"})],
    lambda grant: [("corrected", {"grant": grant, "time": "", "why": "x", "plan": None,
                                  "units": 10**60, "delta_units": 0})],
], ids=["refund", "settle", "release", "crash", "correct"])
def test_another_clients_grant_is_not_touched(victim, bob, lines, proof):
    url, ledger, _, session = victim
    spent = ledger.spent
    if proof == "digest":  # which everybody can read
        proof = bob.execute(DIGEST, (session.grant,)).fetchone()[0]
    refused(bob, url, lines(session.grant), [proof], match="its secret was not given")
    assert ledger.spent == spent


def test_the_digest_of_a_secret_is_all_that_anybody_reads(victim, bob):
    _, ledger, _, session = victim
    secret = ledger._history.store.held.secret(session.grant)
    (kept,) = bob.execute(DIGEST, (session.grant,)).fetchone()
    assert kept == sha256(bytes.fromhex(secret)).digest() and kept.hex() != secret
    assert secret not in repr(ledger._history.store.held)


def test_nobody_else_marks_a_holder_as_crashed_that_is_there(victim, bob):
    url, _, _, session = victim
    number = bob.execute(LOCK, (name_of(url),)).fetchone()[0]
    markable = "SELECT * FROM privledger.markable(%s, %s::text[])"
    assert bob.execute(markable, (number, [session.grant])).fetchall() == []


def test_who_only_seems_to_be_gone_is_not_marked_and_stops_nobody(postgres, place, alice,
                                                                  monkeypatch):
    monkeypatch.setattr("privledger.ledger.history.is_gone", lambda holder: True)
    with pl.Ledger.open(as_("bob", place)) as ledger:
        assert {grant.status for grant in ledger.state.grants.values()} == {"granted"}
    gone(postgres, alice[0])
    with pl.Ledger.open(as_("bob", place)) as ledger:
        assert {grant.status for grant in ledger.state.grants.values()} == {"crashed"}


def test_a_lease_that_is_over_or_a_connection_that_ended_may_be_noted(postgres, place, alice, bob):
    ledger, data, session = alice
    leased = ledger.request(G, data, lease=0.001)
    bob.execute("SELECT pg_sleep(0.01)")  # by the server's clock, too
    append(bob, place, [("crashed", {"grant": leased.grant, "time": "", "why": "lease"})])
    leased.release(G, data.count())  # the holder was alive after all, and may still settle
    leased.close()
    gone(postgres, ledger)
    append(bob, place, [("crashed", {"grant": session.grant, "time": "", "why": "gone"})])
    kept_whole(place, ledger.spent)


def test_what_a_client_could_not_settle_is_taken_up_with_its_secret_only(
        postgres, place, alice, monkeypatch, tmp_path):
    """The spill has the secret; without it the next opening goes on, and the charge stays."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(settle, "LONG_PAUSES", (0.01,))
    _, data, session = alice
    session.release(G, data.count())
    postgres.stop()
    try:
        with pytest.raises(pl.errors.NotSettled):
            session.close()
    finally:
        postgres.start()
    (kept,) = (tmp_path / "privledger").iterdir()
    whole = kept.read_text()
    one = settle.read_recovery(whole)
    assert one.secret and one.secret not in repr(one)
    for text, status in ((evolve(one, secret="").text(), "granted"),
                         (evolve(one, secret="0" * 64).text(), "granted"), (whole, "settled")):
        kept.write_text(text)
        with pl.Ledger.open(as_("bob", place)) as ledger:
            (grant,) = ledger.state.grants.values()
            assert (grant.status, grant.releases) == (status, status == "settled")
    assert not kept.exists()
    kept_whole(place, ledger.spent)


# What one client does to another's place in line.

def waits(ledger, seconds=3600, **change):
    """A place for the whole budget, as of a client on another host: it comes if the one grant that
    is open is handed back, and any other request would delay it."""
    place = QueuePosition(
        "grant-waits", "rows", {}, ledger._history.refresh().rule.cap_units, 0,
        (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="seconds"),
        "elsewhere", 1, "x")
    ledger._history.commit(lambda state: [Refused("x", time=now(), waits=evolve(place, **change))])


SMALL = pl.Gaussian(90.0)


def test_a_place_in_line_ends_with_its_session(postgres, place, alice, schema, table):
    with pl.Ledger.open(as_("alice", place)) as other, pl.Ledger.open(as_("bob", place)) as ledger:
        data = ledger.protect(*table, schema, name="rows")
        waits(other)
        for who in (ledger, alice[0]):
            with pytest.raises(pl.BudgetExceeded, match="first in the queue"):
                who.request(SMALL, data if who is ledger else alice[1])
        gone(postgres, other)
        ledger.request(SMALL, data).close()
        ledger.request(SMALL, data, wait=1.0).close()
    with pl.Ledger.open(place) as owner:  # who sees no process of that host either
        owner.request(SMALL, owner.protect(*table, schema, name="rows")).close()
        assert list(owner._history.state.line) == ["grant-waits"] and owner.verify() == []


def test_another_clients_place_in_line_is_not_touched(place, alice, schema, table):
    waits(alice[0])
    with pl.Ledger.open(as_("bob", place)) as ledger:
        data, line = ledger.protect(*table, schema, name="rows"), ledger._history
        line.store.held.take("grant-waits", "0" * 64)
        granted = alice[0].state.grants[alice[2].grant].event
        for lines in ([Refused("x", time=now(), left_line="grant-waits")],
                      [evolve(granted, grant="grant-waits", units=1)]):
            with pytest.raises(pl.LedgerError, match="another client's"):
                line.commit(lambda state, lines=lines: lines)
        with pytest.raises(pl.LedgerError, match="of this name is there"):
            waits(ledger, units=1)
        with pytest.raises(pl.BudgetExceeded, match="first in the queue"):
            ledger.request(SMALL, data)
    alice[0]._history.commit(lambda state: [Refused("x", time=now(), left_line="grant-waits")])
    alice[0].request(SMALL, alice[1]).close()
    kept_whole(place, alice[0].spent)


@pytest.mark.parametrize("change", [
    {"until": "9999-12-31T23:59:59+00:00"}, {"until": "infinity"}, {"until": "for ever"},
    {"until": ""}, {"grant": "\n"}, {"seconds": 7300}])
def test_a_place_that_no_honest_client_would_take_is_refused(victim, change):
    with pl.Ledger.open(as_("bob", victim[0])) as other:
        with pytest.raises(pl.LedgerError):
            waits(other, **change)
        assert not other._history.refresh().line


def test_a_place_that_is_over_by_the_servers_clock_is_anybodys_to_strike_out(place, alice, bob):
    waits(alice[0], seconds=-1)
    append(bob, place, [("refused", {"learner": "x", "time": "", "left_line": "grant-waits"})])
    assert not alice[0]._history.refresh().line
    kept_whole(place, alice[0].spent)


def test_a_repair_keeps_places_and_their_sessions(postgres, place, alice):
    waits(alice[0])
    look = ("SELECT name, status, session, lease_ends FROM privledger.grants "
            "ORDER BY ledger, name")
    before = postgres.sql(look, database=database_of(place))
    postgres.sql(REPAIR.format(name_of(place)), database=database_of(place))
    assert postgres.sql(look, database=database_of(place)) == before
    assert ("grant-waits", "waiting") in [row[:2] for row in before]


# What a client does to the ledger itself.

BY_HAND = [
    "UPDATE privledger.ledgers SET position = position + 1",
    "UPDATE privledger.ledgers SET head = repeat('0', 64)",
    "UPDATE privledger.ledgers SET position = position + 1, head = repeat('0', 64)",
    "INSERT INTO privledger.entries SELECT ledger, 1 + max(position), 'aborted', '{}', max(hash), "
    "repeat('0', 64) FROM privledger.entries GROUP BY ledger",
    "DELETE FROM privledger.entries", "TRUNCATE privledger.entries",
    "DELETE FROM privledger.grants",
    "TRUNCATE privledger.vectors", "UPDATE privledger.entries SET body = '{}'",
    "UPDATE privledger.totals SET units = 0", "UPDATE privledger.grants SET secret = NULL",
    "UPDATE privledger.limits SET cap_units = 1e99", "DELETE FROM privledger.ledgers",
    "INSERT INTO privledger.vectors SELECT id, '\"x\"', '' FROM privledger.ledgers",
    "INSERT INTO privledger.migrations VALUES (3)", "SELECT * FROM privledger.ledgers FOR UPDATE",
    "LOCK privledger.entries", "CREATE TABLE privledger.x (y integer)",
    "CREATE TRIGGER z AFTER INSERT ON privledger.entries EXECUTE FUNCTION privledger.refuse()",
    "CREATE RULE z AS ON INSERT TO privledger.entries DO INSTEAD NOTHING",
    "CREATE FUNCTION privledger.append(integer) RETURNS void LANGUAGE sql AS ''",
    "CREATE OR REPLACE FUNCTION privledger.deny(why text) RETURNS void LANGUAGE sql AS ''",
    "ALTER TABLE privledger.entries DISABLE TRIGGER ALL", "DROP SCHEMA privledger CASCADE",
    "ALTER FUNCTION privledger.append SET search_path = bob", "SET ROLE owner", "SET ROLE alice",
    "SET SESSION AUTHORIZATION owner", "SET session_replication_role = replica",
    "SELECT privledger.repair(name) FROM privledger.ledgers", "SELECT privledger.begin('new', 3)",
    "SELECT privledger.allow(1, '[[\"gdp\", 0, -1, 1, 1]]')",
    "SELECT privledger.write(1, 0, '', '{}', '{}', '{}', '{}', true)",
    "SELECT privledger.charge(t, '{}', NULL, -1, 0, false) FROM privledger.totals t"]


@pytest.mark.parametrize("generous", [False, True], ids=["", "every function"])
def test_a_client_cannot_write_by_hand(postgres, victim, bob, generous):
    import psycopg

    url, ledger, data, _ = victim
    if generous:  # as somebody in a hurry would give rights
        postgres.sql("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA privledger TO bob",
                     database=database_of(url))
    try:
        for statement in BY_HAND:
            if generous and "privledger.charge(" in statement:
                bob.execute(statement)  # arithmetic on a row of its own, which nobody keeps
                continue
            with pytest.raises(psycopg.Error):
                bob.execute(statement)
    finally:
        postgres.sql("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA privledger FROM bob", RIGHTS[2],
                     database=database_of(url))
    ledger.request(pl.Gaussian(900.0), data).close()
    kept_whole(url, ledger.spent)


@pytest.mark.parametrize(("change", "match"), [
    ({"units": -1}, "lacks something"), ({"units": None}, "lacks something"),
    ({"units": 1.0}, "lacks something"), ({"units": True}, "lacks something"),
    ({"units": 1e22}, "whole number"), ({"units": 1e57}, "whole number"),
    ({"delta_units": 1e22}, "whole number"),
    ({"units": "1"}, "lacks something"), ({"delta_units": -1}, "lacks something"),
    ({"plan": None}, "lacks something"), ({"plan": {}}, "lacks something"),
    ({"plan": []}, "lacks something"),
    ({"holder": {}}, "lacks something"), ({"holder": None}, "lacks something"),
    ({"holder": {"host": "h", "pid": "x", "started": ""}}, "lacks something"),
    ({"labels": [1]}, "lacks something"), ({"labels": {"team": 1}}, "lacks something"),
    ({"lease": "soon"}, "lacks something"), ({"delta": 1.5}, "lacks something"),
    ({"grant": 7}, "lacks something"), ({"grant": "x:y"}, "lacks something"),
    ({"grant": "the same"}, "given already"), ({"data": {}}, "lacks something"),
    ({"window": "2027"}, "another window"), ({"units": 10**70}, "past the cap"),
    ({"delta_units": 1}, "past the cap"), ({"scope": "nobody's"}, "lacks something"),
    ({"scope": "nobody's", "units": 0, "worst": 0.0}, "nobody paid for"),
    ({"labels": {"team": "a"}, "units": "most"}, "past a cap")])
def test_a_grant_is_checked(victim, bob, change, match):
    url, ledger, _, session = victim
    body = body_of(url, "granted") | {"grant": "grant-0"} | change
    if body["grant"] == "the same":
        body["grant"] = session.grant
    if body["units"] == "most":  # fits the ledger, and not the cap of team a
        body["units"] = ledger.state.rule.cap_units - ledger.state.units
    refused(bob, url, [("granted", body)], [b"\1" * 32], match=match)


@pytest.mark.parametrize("line", [
    ("created", lambda url: body_of(url, "created")),
    ("filter", lambda url: body_of(url, "filter")),
    ("window", lambda url: {"window": "2027", "time": ""}), ("x", lambda url: {}),
    ("", lambda url: {}), ("granted", lambda url: {}), ("settled", lambda url: {}),
    ("protected", lambda url: {}), ("protected", lambda url: {"data": ["x"], "schema": "s"}),
    ("refused", lambda url: {}), ("released", lambda url: {"grant": "grant-0"}),
    ("protected", lambda url: {"data": "x", "schema": "s", "rows": "many"}),
    ("protected", lambda url: {"data": "x", "schema": "s", "rows": 1e16}),
    ("protected", lambda url: {"data": "x", "schema": "s",
                                "deep": json.loads("[" * 300 + "]" * 300)}),
    ("protected", lambda url: {"data": "x", "schema": "s", "long": 10**600}),
    ("protected", lambda url: {"data": "x", "schema": "s", "large": "x" * (4 << 20)}),
    ("protected", lambda url: {"data": "x", "schema": "s", "many": [{}] * 100_001})])
def test_an_entry_that_would_stop_others_is_refused(victim, bob, line):
    refused(bob, victim[0], [(line[0], line[1](victim[0]))])


@pytest.mark.parametrize("item", [[1, 0, 1], [0, 1, 1], [-1, 0, 1], [0, 0], [0, 0, 1.5], "x"])
def test_an_itemisation_points_at_what_is_there(place, bob, item):
    """Its holder may write it, and whoever shows the ledger must be able to read it."""
    body = body_of_grant()
    secret = b"mine"
    append(bob, place, [("granted", body)], [sha256(secret).digest()])
    node = {"under": [], "leaf": body["plan"]}
    line = {"grant": body["grant"], "first": 0, "items": [item], "nodes": [node],
            "questions": ["q"], "noise": ""}
    refused(bob, place, [("released", line)], [secret], match="lacks something")
    append(bob, place, [("released", line | {"items": [[0, 0, 1]]})], [secret])
    over = {"grant": body["grant"], "time": "", "touched": True}
    refused(bob, place, [("settled", over | {"releases": 2})], [secret], match="another number")
    append(bob, place, [("settled", over | {"releases": 1})], [secret])
    refused(bob, place, [("aborted", over | {"touched": False, "releases": 1})], [secret],
            match="is over")


def body_of_grant():
    """A grant as somebody writes it by hand."""
    return {"grant": "grant-1", "time": "", "learner": "", "data": "rows", "delta": 0.0,
            "plan": pl.nodes.to_json(G), "units": 7, "delta_units": 0, "labels": {}, "lease": None,
            "scope": None, "holder": {"host": "h", "pid": 1, "started": ""}}


@pytest.mark.parametrize("text", [
    '{"data": "x","schema":"s"}', '{"schema":"s","data":"x"}',
    '{"data":"x","data":"x","schema":"s"}',
    '{"data":"x","schema":"s","z":1.50}', '{"data":"x","schema":"s","z":1E5}',
    '{"data":"x","schema":"s","z":-0}', '{"data":"x","schema":"s","z":1e999}',
    '{"data":"x","schema":"s","z":NaN}', '{"data":"x","schema":"\\/"}',
    '{"data":"x","schema":"\\u0041"}', '{"data":"x","schema":"\\u00FC"}',
    '{"data":"ü","schema":"s"}',
    '{"data":"x","schema":"s","z":{"b":1,"a":2}}', '{"data":"x","schema":"s"', "[]", "null", "",
    '{"data":"x","schema":"s"} ', '{"data":"x","schema":"s","é":1,"z":2}'])
def test_a_text_that_python_would_write_otherwise_is_refused(victim, bob, text):
    """It would have another hash for whoever reads it: the ledger would count as edited."""
    import psycopg

    number, _, position, head, *_ = bob.execute(LOCK, (name_of(victim[0]),)).fetchone()
    digest = sha256(f'{head}[{position + 1},"protected",{text}]'.encode()).hexdigest()
    with pytest.raises(psycopg.Error):
        bob.execute(APPEND, (number, position, head, ["protected"], [text], [digest], [None]))


def test_the_chain_is_checked(victim, bob):
    import psycopg

    number, _, position, head, *_ = bob.execute(LOCK, (name_of(victim[0]),)).fetchone()
    entry = make_entry(position + 1, decode("refused", {"learner": ""}), head)
    for after, tip, digest in ((position, head, "0" * 64), (position - 1, head, entry.hash),
                               (position, "0" * 64, entry.hash), (position, head, None)):
        with pytest.raises(psycopg.Error):
            bob.execute(APPEND, (number, after, tip, ["refused"], [entry.text], [digest], [None]))


def test_a_filter_larger_than_the_budget_is_refused(postgres, victim, bob):
    url = postgres.url(database=database_of(victim[0]))
    pl.Ledger.create(url, budget=BUDGET).close()
    body = body_of(victim[0], "filter")
    refused(bob, url, [("filter", body | {"cap_units": 10**70})], match="does not allow")
    append(bob, url, [("filter", body)])
    refused(bob, url, [("filter", body)], match="already")


def test_no_vector_that_no_settlement_names(victim, bob):
    import psycopg

    number = bob.execute(LOCK, (name_of(victim[0]),)).fetchone()[0]
    with pytest.raises(psycopg.Error, match="no settlement"):
        bob.execute("SELECT privledger.keep(%s, %s::text[], %s::bytea[])",
                    (number, [f'"spend:{victim[3].grant}:x"'], [b"\0"]))


# Names that somebody else defined.

SHADOWS = ("CREATE SCHEMA evil", "GRANT ALL ON SCHEMA evil TO bob")
MINE = (
    "CREATE TEMP TABLE ledgers AS SELECT * FROM privledger.ledgers",
    "CREATE TEMP TABLE grants AS SELECT * FROM privledger.grants",
    "CREATE TEMP TABLE totals AS SELECT * FROM privledger.totals",
    "CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT $1'",
    "CREATE FUNCTION evil.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'",
    "CREATE FUNCTION evil.coalesce_(boolean) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE FUNCTION evil.same(bytea, bytea) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR evil.= (LEFTARG = bytea, RIGHTARG = bytea, FUNCTION = evil.same)",
    "CREATE FUNCTION evil.upto(numeric, numeric) RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE OPERATOR evil.<= (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = evil.upto)",
    "CREATE FUNCTION evil.pg_backend_pid() RETURNS integer LANGUAGE sql AS 'SELECT 0'",
    "CREATE DOMAIN evil.text AS pg_catalog.text CHECK (current_user = 'bob')",
    "CREATE DOMAIN evil.jsonb AS pg_catalog.text",
    "CREATE VIEW evil.pg_stat_activity AS SELECT 0 AS pid",
    "SET search_path = evil, pg_temp, privledger, pg_catalog",
    "SET transform_null_equals = on", "SET standard_conforming_strings = off",
    "SET extra_float_digits = -15", "SET escape_string_warning = off",
    "SELECT set_config('privledger.repair', name, false) FROM privledger.ledgers",
    "SELECT set_config('privledger.trusted', 'true', false)")


def test_nobody_elses_names_are_used(postgres, victim, bob):
    import psycopg

    place, ledger, _, session = victim
    name = database_of(place)
    postgres.sql(*SHADOWS, "GRANT CREATE ON SCHEMA public TO bob", database=name)
    try:
        postgres.sql("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA privledger TO bob", database=name)
        for statement in MINE:
            bob.execute(statement)
        # Called first under a path of its own: what the session keeps of it is no other's.
        bob.execute("SELECT privledger.canonical('{\"a\":0.00012345678901}'), "
                    "privledger.formed('x', '{}'), privledger.points('a'), "
                    "privledger.readable('{}'), privledger.shortest(1)")
        refund = {"grant": session.grant, "time": "", "touched": False, "releases": 0}
        refused(bob, place, [("aborted", refund)], [b"\0" * 32], match="its secret was not given")
        body = body_of(place, "granted") | {"grant": "grant-0", "units": 10**70}
        refused(bob, place, [("granted", body)], [b"\1" * 32], match="past the cap")
        with pytest.raises(psycopg.Error):
            bob.execute("UPDATE privledger.ledgers SET position = 0")
    finally:
        postgres.sql("DROP SCHEMA evil CASCADE", "REVOKE CREATE ON SCHEMA public FROM bob",
                     "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA privledger FROM bob", RIGHTS[2],
                     database=name)
    kept_whole(place, ledger.spent)


# The owner.

def test_the_owner_repairs_a_head_and_the_holder_still_settles(postgres, place, alice):
    ledger, data, session = alice
    name = database_of(place)
    postgres.sql(f"UPDATE privledger.ledgers SET position = 99 WHERE name = '{name_of(place)}'",
                 database=name)
    with pytest.raises(pl.errors.LedgerCorrupt, match="does not end where"):
        ledger.request(G, data)
    with pytest.raises(pl.errors.LedgerCorrupt):
        pl.Ledger.open(place)
    assert postgres.sql(REPAIR.format(name_of(place)), database=name) == [(3,)]
    session.release(G, data.count())
    session.close()
    ledger.request(G, data).close()
    kept_whole(place, ledger.spent)


def test_a_repair_does_not_bless_what_was_edited(postgres, place, alice):
    import psycopg

    name = database_of(place)
    postgres.sql("SET session_replication_role = replica",
                 "UPDATE privledger.entries e SET body = body || ' ' FROM privledger.ledgers l "
                 f"WHERE l.id = e.ledger AND l.name = '{name_of(place)}'", database=name)
    with pytest.raises(psycopg.Error, match="was edited"):
        postgres.sql(REPAIR.format(name_of(place)), database=name)


def test_totals_that_fell_behind_are_refused(postgres, place, alice):
    """As an older client of the owner would leave them: entries, and no totals."""
    postgres.sql(f"UPDATE privledger.totals t SET position = 1 FROM privledger.ledgers l "
                 f"WHERE l.id = t.ledger AND l.name = '{name_of(place)}'",
                 database=database_of(place))
    with pytest.raises(pl.errors.LedgerCorrupt, match="privledger.repair"):
        alice[0].request(G, alice[1])
    postgres.sql(REPAIR.format(name_of(place)), database=database_of(place))
    alice[0].request(G, alice[1]).close()


@pytest.mark.parametrize("right", ["INSERT ON privledger.entries",
                                   "UPDATE (position) ON privledger.ledgers"])
def test_rights_that_let_a_client_write_by_hand_are_a_finding(postgres, place, right):
    store = store_at(place, read_only=True)
    postgres.sql(f"GRANT {right} TO bob", database=database_of(place))
    try:
        (found,) = store.inspect()
    finally:
        postgres.sql("REVOKE ALL ON privledger.entries, privledger.ledgers FROM bob", RIGHTS[1],
                     database=database_of(place))
    assert found.rule == "place-is-as-written" and "bob" in found.message
    assert store.inspect() == []
    store.close()
