"""What somebody planted in a database's schema, and databases of version 0.1."""

import pytest

import privledger as pl
from privledger.ledger.entries import FORMAT, body_text
from privledger.storage import catalog, migrate, store_at
from privledger.storage.address import parse_address
from tests.worlds import refused

G = pl.Gaussian(9.0)
BUDGET = pl.Budget(2.0, 1e-6)
PLACE = "place-is-as-written"


def database(url):
    return parse_address(url).parameters["dbname"]


@pytest.fixture(scope="module")
def house(postgres):
    name = postgres.database()
    pl.Ledger.create(postgres.url(database=name), budget=BUDGET).close()
    return name


@pytest.fixture
def url(postgres, house):
    made = postgres.url(database=house)
    pl.Ledger.create(made, budget=BUDGET, filter="gdp").close()
    return made


def test_the_expected_lines_are_what_the_migrations_make(postgres, house):
    """Made again by hand after a change: `catalog.lines`, one on each line, and an end of line."""
    with postgres.connect(house) as connection:
        catalog.prepare_catalog(connection)
        found = catalog.lines(connection)
    assert set(found) == catalog.expected() and len(found) == len(set(found))


# (planted, how it is taken away again, part of the finding)
PLANTED = {
    "a trigger that takes grants back": (
        "CREATE FUNCTION public.z() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN DELETE FROM "
        "privledger.entries WHERE position = NEW.position; RETURN NULL; END $$;"
        "CREATE TRIGGER z AFTER INSERT ON privledger.entries FOR EACH ROW WHEN (NEW.position > 5) "
        "EXECUTE FUNCTION public.z()",
        "DROP FUNCTION public.z() CASCADE", "trigger entries z"),
    "a trigger at the end of the transaction": (
        "CREATE FUNCTION public.z() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; "
        "END $$; CREATE CONSTRAINT TRIGGER z AFTER INSERT ON privledger.entries DEFERRABLE "
        "INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION public.z()",
        "DROP FUNCTION public.z() CASCADE", "trigger entries z"),
    "a trigger on the totals": (
        "CREATE TRIGGER z BEFORE UPDATE ON privledger.totals FOR EACH ROW EXECUTE FUNCTION "
        "privledger.refuse()", "DROP TRIGGER z ON privledger.totals", "trigger totals z"),
    "no append-only trigger": (
        "DROP TRIGGER entries_keep ON privledger.entries",
        "CREATE TRIGGER entries_keep BEFORE UPDATE OR DELETE OR TRUNCATE ON privledger.entries "
        "FOR EACH STATEMENT EXECUTE FUNCTION privledger.refuse()", "entries_keep"),
    "a trigger switched off": (
        "ALTER TABLE privledger.entries DISABLE TRIGGER entries_keep",
        "ALTER TABLE privledger.entries ENABLE TRIGGER entries_keep", "entries_keep"),
    "a rule": ("CREATE RULE z AS ON INSERT TO privledger.entries DO ALSO NOTHING",
               "DROP RULE z ON privledger.entries", "rule entries z"),
    "a policy": ("CREATE POLICY z ON privledger.entries USING (position < 5)",
                 "DROP POLICY z ON privledger.entries", "policy entries z"),
    "row security": ("ALTER TABLE privledger.entries ENABLE ROW LEVEL SECURITY",
                     "ALTER TABLE privledger.entries DISABLE ROW LEVEL SECURITY",
                     "relation r entries"),
    "a child table": ("CREATE TABLE public.z () INHERITS (privledger.entries)",
                      "DROP TABLE public.z", "child entries public z"),
    "an index on a function": (
        "CREATE FUNCTION public.z(text) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT $1';"
        "CREATE INDEX z ON privledger.entries (public.z(body))",
        "DROP FUNCTION public.z(text) CASCADE", "index entries z"),
    "a function that does nothing": (
        "CREATE TABLE public.z AS SELECT pg_get_functiondef('privledger.settle'::regproc) AS text;"
        "CREATE OR REPLACE FUNCTION privledger.settle(t privledger.totals, kind text, body jsonb, "
        "proof bytea, trusted boolean) RETURNS privledger.totals LANGUAGE plpgsql AS $$ BEGIN "
        "RETURN t; END $$",
        "DO $$ BEGIN EXECUTE (SELECT text FROM public.z); DROP TABLE public.z; END $$",
        "function f settle"),
    "another function of the same name": (
        "CREATE FUNCTION privledger.write(integer) RETURNS void LANGUAGE sql AS ''",
        "DROP FUNCTION privledger.write(integer)", "function f write"),
    "a function with another path": (
        "ALTER FUNCTION privledger.append SET search_path = public",
        "ALTER FUNCTION privledger.append SET search_path = pg_catalog, pg_temp",
        "function f append"),
    "a column": ("ALTER TABLE privledger.totals ALTER COLUMN units SET DEFAULT -1000",
                 "ALTER TABLE privledger.totals ALTER COLUMN units SET DEFAULT 0",
                 "column totals 9 units"),
    "no constraint": (
        "ALTER TABLE privledger.entries DROP CONSTRAINT entries_position_check",
        "ALTER TABLE privledger.entries ADD CHECK (position >= 0)", "entries_position_check"),
    "a view": ("CREATE VIEW privledger.z AS SELECT 1 AS x", "DROP VIEW privledger.z",
               "relation v z"),
    "a type": ("CREATE TYPE privledger.z AS ENUM ('a')", "DROP TYPE privledger.z", "other pg_type")}


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_planted_is_refused_at_the_next_transaction_and_found(postgres, url, schema,
                                                                      table, planted):
    plant, remove, words = PLANTED[planted]
    name = database(url)
    with pl.Ledger.open(url) as ledger:
        data = ledger.protect(*table, schema)
        ledger.request(G, data).close()
        before = ledger.spent
        postgres.sql(*_statements(plant), database=name)
        try:
            with pytest.raises(pl.errors.LedgerCorrupt, match="othing was granted"):
                ledger.request(G, data)
            assert data._vault.opened == 0
            refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(url))
            store = store_at(url, read_only=True) if "child" not in planted and (
                "policy" not in planted and "rule" not in planted
                and "security" not in planted) else ledger._history.store
            found = store.inspect()
            assert any(words in one.message for one in found), found
            assert {one.rule for one in found} == {PLACE}
        finally:
            ledger._history._pending.clear()
            postgres.sql(*_statements(remove), database=name)
        ledger.request(G, data).close()
        assert ledger.spent > before and ledger._history.store.inspect() == []
    store.close()


def _statements(text):
    return [text] if "$$" not in text else _split(text)


def _split(text):
    """Statements, where `;` inside of a function's text does not end one."""
    parts, inside = [""], False
    for piece in text.replace("$$", "\0$$\0").split("\0"):
        if piece == "$$":
            inside = not inside
            parts[-1] += piece
        elif inside:
            parts[-1] += piece
        else:
            first, *rest = piece.split(";")
            parts[-1] += first
            parts += rest
    return [part for part in parts if part.strip()]


def test_a_place_where_tables_are_views_is_not_even_read(postgres, house):
    """Reading an endless view would never end."""
    name = postgres.database()
    url = postgres.url("x", database=name)
    pl.Ledger.create(url, budget=BUDGET).close()
    postgres.sql("ALTER TABLE privledger.entries RENAME TO kept",
                 "CREATE VIEW privledger.entries AS WITH RECURSIVE e AS (SELECT * FROM "
                 "privledger.kept UNION ALL SELECT * FROM e) SELECT * FROM e", database=name)
    for read_only in (True, False):
        with pytest.raises(pl.errors.LedgerCorrupt, match="not as they were made"):
            pl.Ledger.open(url, read_only=read_only)


def test_a_change_of_rights_alone_stops_nobody(postgres, url, schema, table):
    """The cheap look differs, the comparison does not."""
    with pl.Ledger.open(url) as ledger:
        data = ledger.protect(*table, schema)
        ledger.request(G, data).close()
        postgres.sql("GRANT SELECT ON privledger.entries TO PUBLIC", database=database(url))
        ledger.request(G, data).close()
        assert ledger.verify() == []


# Databases of version 0.1.

def old_house(postgres):
    """A database as version 0.1 left it: an open grant, a corrected one, caps and windows."""
    name = postgres.database()
    url = postgres.url("old", database=name)
    pl.Ledger.create(postgres.url("new", database=name), budget=BUDGET).close()
    with pl.Ledger.create(url, budget=BUDGET, caps=[
            pl.Cap(pl.Budget(1.0, 1e-6), per_window=True)]) as ledger:
        ledger.open_window("one")
        yield ledger
    store = store_at(url, read_only=True)
    entries = store.read()
    store.close()
    with postgres.connect(name) as connection:
        connection.execute("DROP SCHEMA privledger CASCADE")
        connection.execute(migrate.scripts()[1])
        connection.execute(
            "INSERT INTO privledger.ledgers (name, format, position, head) VALUES "
            "('old', %s, %s, %s), ('broken', 3, 0, 'x')",
            (FORMAT, entries[-1].position, entries[-1].hash))
        for one in entries:
            connection.execute("INSERT INTO privledger.entries VALUES (1, %s, %s, %s, %s, %s)", (
                one.position, one.event.kind, body_text(one), one.previous, one.hash))
        connection.execute("INSERT INTO privledger.entries VALUES (2, 0, 'created', '{}', "
                           "repeat('0', 64), 'x')")
    yield url


def test_a_database_of_version_1_is_brought_up_by_its_owner_only(postgres, schema, table):
    import psycopg

    house = old_house(postgres)
    ledger = next(house)
    data = ledger.protect(*table, schema, name="rows")
    grant = ledger.request(G, data)
    ledger.request(G, data).close()
    ledger.correct(grant.grant, pl.Gaussian(8.0), "it ran with less noise")
    spent = ledger.spent
    url = next(house)
    name = database(url)
    client = url.replace("owner@", "old_client@")
    postgres.sql("DROP ROLE IF EXISTS old_client", "CREATE ROLE old_client LOGIN")
    try:
        postgres.sql("GRANT USAGE ON SCHEMA privledger TO old_client",
                     "GRANT SELECT ON ALL TABLES IN SCHEMA privledger TO old_client",
                     "GRANT INSERT ON privledger.entries, privledger.vectors TO old_client",
                     "GRANT UPDATE (position, head) ON privledger.ledgers TO old_client",
                     database=name)
        for read_only in (False, True):
            with pytest.raises(pl.LedgerError, match="their owner must open"):
                pl.Ledger.open(client, read_only=read_only)
        with pl.Ledger.open(url) as opened:
            assert opened.spent == spent and opened.verify() == []
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            postgres.sql("UPDATE privledger.ledgers SET position = 99", database=name,
                         user="old_client")
        with pl.Ledger.open(client) as opened:  # what wrote by hand calls functions now
            again = opened.protect(*table, schema, name="rows")
            opened.request(G, again).close()
            with pytest.raises(pl.BudgetExceeded, match="each window"):
                opened.request(pl.Gaussian(4.0), again)
            assert opened.verify() == [] and opened.spent > spent
        refused(pl.errors.LedgerCorrupt, lambda: pl.Ledger.open(url.replace("=old", "=broken")))
    finally:
        postgres.sql("DROP OWNED BY old_client", database=name)
        postgres.sql("DROP ROLE old_client")


def test_tables_of_version_2_are_brought_forward_by_their_owner_and_rights_stay(
        postgres, schema, table):
    import psycopg

    name = postgres.database()
    scripts = migrate.scripts()
    postgres.sql(scripts[1], scripts[2], "CREATE ROLE middle_client LOGIN",
                 "GRANT USAGE ON SCHEMA privledger TO middle_client",
                 "GRANT SELECT ON ALL TABLES IN SCHEMA privledger TO middle_client",
                 "GRANT EXECUTE ON FUNCTION privledger.lock, privledger.append, privledger.keep, "
                 "privledger.markable TO middle_client", database=name)
    try:
        url = postgres.url("book", database=name)
        client = url.replace("owner@", "middle_client@")
        with pytest.raises(pl.LedgerError, match="version 2; their owner must open"):
            pl.Ledger.open(client)
        pl.Ledger.create(url, budget=BUDGET, filter="gdp").close()
        with pl.Ledger.open(client) as opened:
            data = opened.protect(*table, schema)
            opened.request(G, data).close()
            with pytest.raises(pl.BudgetExceeded):  # in the line for a moment
                opened.request(pl.Gaussian(1.0), data, wait=0.1)
            assert opened.verify() == []
        with postgres.connect(name, "middle_client") as connection, pytest.raises(
                psycopg.errors.InsufficientPrivilege):
            connection.execute("SELECT privledger.stand(t, 'refused', '{}', true) "
                               "FROM privledger.totals t")
    finally:
        postgres.sql("DROP OWNED BY middle_client", "DROP ROLE middle_client", database=name)


def test_an_older_client_is_refused_with_a_clear_message(url, monkeypatch):
    monkeypatch.setattr(migrate, "scripts", lambda: {1: ""})
    refused(pl.errors.LedgerTooNew, lambda: pl.Ledger.open(url),
            match="the tables have version 4, this version reads up")
