"""URLs of ledgers: names inside a database, and passwords that nobody gets to see."""

import builtins
import pickle
import traceback

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.storage import is_url, shown
from privledger.storage.address import parse_address
from privledger.storage.postgres import PostgresStore
from privledger.storage.postgres_sql import explain_failure
from tests.all_cases import all_cases
from tests.worlds import refused

BUDGET = pl.Budget(2.0, 1e-6)
SECRET = "s3cr%40t"  # decodes to s3cr@t


@pytest.fixture
def book(postgres):
    place = postgres.url("book", database=postgres.empty())
    pl.Ledger.create(place, budget=BUDGET).close()
    return place


def look(url):
    with pl.Ledger.open(url) as ledger:
        return ledger.spent, ledger.verify()


# Names.

@all_cases("name", [
    "", ".", "..", "-x", "a b", "a%20b", "a'b", "%27;DROP%20TABLE%20privledger.entries;--", "a/b",
    "a%00b", "%22", "%25", "a%0Ab", "%C3%BC", "ü", "x" * 101, "a%2Fb", "a;b", "$1", "%s", "%%s",
    "{x}", "a%26password=b", "x&ledger=y", "ma%E2%80%8Bin", "%ff"])
def test_hostile_names_of_ledgers_are_refused_before_a_connection(name):
    with pytest.raises(pl.LedgerError):
        parse_address(f"postgresql://user@nowhere.invalid/db?ledger={name}")


@pytest.mark.parametrize("name", ["main", "Main", "_", "a-b.c_1", "2024", "x" * 100, "select"])
def test_names_of_ledgers(postgres, name):
    place = postgres.url(name, database=postgres.empty())
    pl.Ledger.create(place, budget=BUDGET).close()
    assert look(place) == (0, [])


def test_names_are_compared_exactly(book):
    with pytest.raises(pl.LedgerError, match="does not exist"):
        pl.Ledger.open(book.replace("=book", "=Book"))


# Passwords.

LEAKY = [
    f"postgresql://user:{SECRET}@nowhere.invalid/db",
    f"postgres://user:{SECRET}@127.0.0.1:1/db?ledger=x&connect_timeout=2",
    f"postgresql://127.0.0.1:1/db?user=user&password={SECRET}",
    "postgresql://user:s3cr@t@127.0.0.1/db", "postgresql://user:s3cr/t@127.0.0.1/db",
    "postgresql://user:4711/s3cr@127.0.0.1/db", "postgresql://user:4711?s3cr@127.0.0.1/db",
    "postgresql://user:s3cr?t@127.0.0.1/db", "postgresql://user:s3cr#t@127.0.0.1/db",
    "postgresql://user:s3crt/db", "postgresql://user:s3cr t@127.0.0.1/db",
    "postgresql://user:s3cr%zzt@127.0.0.1:1/db", "postgresql://user:s3cr%fft@127.0.0.1/db",
    "postgresql://user:s3crét@127.0.0.1/db", "postgresql://user:[s3crt@127.0.0.1/db",
    "postgresql://user@127.0.0.1:s3crt/db", "postgresql://127.0.0.1:1/db?s3crt=1",
    "postgresql://127.0.0.1:1/db?passwd=s3crt", "postgresql://127.0.0.1:1/db?password=s3crt@",
    "postgresql://127.0.0.1:1/db?sslmode=disable&ledger=x%26password%3Ds3crt",
    "postgresql://127.0.0.1:1/db?sslpassword=s3crt&sslmode=disable",
    "postgresql+psycopg://user:s3crt@127.0.0.1/db", "postgressql://user:s3crt@127.0.0.1/db",
    "mysql://user:s3crt@127.0.0.1/db", "POSTGRESQL://user:s3crt@127.0.0.1:1/db"]


@pytest.mark.parametrize("url", LEAKY)
@pytest.mark.parametrize("act", ["open", "create", "shown"])
def test_a_password_is_in_no_error(url, act, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert is_url(url)
    assert "s3cr" not in shown(url)
    if act != "shown":
        with pytest.raises(pl.LedgerError) as caught:
            pl.Ledger.open(url) if act == "open" else pl.Ledger.create(url, budget=BUDGET)
        assert "s3cr" not in str(caught.value) + repr(caught.value)
        told = "".join(traceback.format_exception_only(caught.value))
        assert "s3cr" not in told
        assert caught.value.__context__ is None or caught.value.__suppress_context__
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", LEAKY)
@pytest.mark.parametrize("command", [["show"], ["record", 0], ["verify"], ["check"], ["overlap"],
                                     ["receipt"], ["export", "-o", "x"],
                                     ["correct", "g", "--void", "--why", "w"]])
def test_a_password_is_on_no_screen(url, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    policy = tmp_path / "policy.toml"
    policy.write_text("[policy]\nmax_epsilon = 2.0\nmax_delta = 1e-5\n", encoding="utf-8")
    more = ["--policy", str(policy)] if command == ["check"] else []
    name, *rest = (str(part) for part in command)
    for form in ("text", "json"):
        done = CliRunner().invoke(main, [name, url, *rest, *more, "--format", form])
        assert done.exit_code not in (0, None)
        assert "s3cr" not in done.output + done.stderr


def test_a_run_file_that_names_a_url_does_not_show_it(tmp_path):
    from privledger.runs import RunFile

    value = {"run": {"learner": "a"}, "data": {"schema": "s", "table": "t"},
             "budget": {"epsilon": 1.0}, "ledger": {"path": LEAKY[0]}}
    for ledger in ({"path": LEAKY[0]}, LEAKY[0]):
        run = RunFile.from_dict(value | {"ledger": ledger}, tmp_path / "run.toml")
        assert run.ledger_path() == LEAKY[0]  # a text: pathlib would fold its slashes
        assert "s3cr" not in repr(run)
    with pytest.raises(pl.PrivledgerError) as caught:
        RunFile.from_dict(value | {"ledger": {LEAKY[0]: 1}}, tmp_path / "run.toml")
    assert "s3cr" not in str(caught.value)


def test_what_the_driver_says_is_cleaned_before_it_is_told():
    psycopg = pytest.importorskip("psycopg")
    address = parse_address(f"postgresql://user:{SECRET}@h/db?sslpassword=other&ledger=x")
    said = explain_failure(psycopg.OperationalError("no\x1b[2J\nwith s3cr@t\n and other"), address)
    assert "no" in str(said) and not set("\x1b\n") & set(str(said))
    assert "s3cr" not in str(said) and "other" not in str(said)
    with pytest.raises(pl.LedgerError, match="an option that PostgreSQL does not know"):
        pl.Ledger.open("postgresql://127.0.0.1:1/db?passwd=x")


def test_a_login_with_a_password(postgres):
    """It works, and then it is nowhere to be seen."""
    postgres.sql("DROP ROLE IF EXISTS guarded",
                 "CREATE ROLE guarded LOGIN SUPERUSER PASSWORD 's3cr@t'")
    name = postgres.empty()
    bare = postgres.url("x", database=name)
    good = bare.replace("owner@", f"guarded:{SECRET}@")
    wrong = bare.replace("owner@", "guarded:s3crxx@")
    for place in (wrong, bare.replace("owner@", "guarded@")):
        with pytest.raises(pl.LedgerError, match="cannot be used") as caught:
            pl.Ledger.create(place, budget=BUDGET)
        assert "s3cr" not in str(caught.value)
    with pl.Ledger.create(good, budget=BUDGET) as ledger:
        store = ledger._history.store
        for text in (repr(ledger), str(ledger), ledger.path, repr(store), store.location,
                     repr(store._address), repr(store._connection), repr(ledger.receipt)):
            assert "s3cr" not in text
        refused(TypeError, lambda: pickle.dumps(store))
        entries = repr(store.read())
    assert "s3cr" not in entries
    done = CliRunner().invoke(main, ["verify", good, "--format", "json"])
    assert done.exit_code == 0 and "s3cr" not in done.output and "ledger=x" in done.output
    postgres.sql("REASSIGN OWNED BY guarded TO owner", "DROP ROLE guarded", database=name)


def test_a_location_opens_the_same_ledger(book):
    store = PostgresStore(book)
    assert PostgresStore(store.location).location == store.location
    store.close()


@pytest.mark.parametrize(("url", "location"), [
    ("postgresql://u:p@h:5433/db", "postgresql://u@h:5433/db?ledger=main"),
    ("postgres://h1:1,h2:2/db?target_session_attrs=read-write&ledger=a",
     "postgresql://h1:1,h2:2/db?ledger=a&target_session_attrs=read-write"),
    ("postgresql://u%40x@[::1]:5/my%20db", "postgresql://u%40x@[::1]:5/my%20db?ledger=main"),
    ("postgresql:///db?host=/run/pg&user=u", "postgresql://u@/db?ledger=main&host=/run/pg"),
    ("postgresql://", "postgresql:///?ledger=main"),
    ("postgresql://,h2:2/db", "postgresql://,h2:2/db?ledger=main"),  # the first one is here
])
def test_locations(url, location):
    assert parse_address(url).location == location == parse_address(location).location
    assert parse_address(url).parameters == parse_address(location).parameters | (
        {"password": "p"} if ":p@" in url else {})
    assert ("h2" in url) == ("h2" in parse_address(url).parameters.get("host", ""))


@all_cases("place", ["a.db", "a b:c.db", "/tmp/x", "C:/x", "C:\\x", "a:/b", None, 3])
def test_files_are_no_urls(place):
    assert not is_url(place)


def test_pathlib_folds_a_url_and_it_is_refused(tmp_path, monkeypatch):
    from pathlib import Path

    monkeypatch.chdir(tmp_path)
    with pytest.raises(pl.LedgerError, match="URL") as caught:
        pl.Ledger.create(Path(LEAKY[0]), budget=BUDGET)
    assert "s3cr" not in str(caught.value) and list(tmp_path.iterdir()) == []


def test_without_the_driver_the_error_says_what_to_install(monkeypatch):
    real = builtins.__import__

    def fail(name, *more, **options):
        if name == "psycopg":
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", fail)
    with pytest.raises(pl.LedgerError, match=r"privledger\[postgres\]"):
        pl.Ledger.open("postgresql://u@127.0.0.1:1/db")
