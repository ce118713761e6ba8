"""What an answer was compared with, and copies of one ledger that went different ways."""

import json
import shutil

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli.app import main
from privledger.reports.changes import divergence

G = pl.Gaussian(9.0)
BUDGET = pl.Budget(2.0, 1e-6)


def run(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def spend(path, schema, table, times=1):
    with pl.Ledger.open(path) as ledger:
        data = ledger.protect(*table, schema)
        for _ in range(times):
            ledger.request(G, data).close()


@pytest.fixture
def book(tmp_path, schema, table):
    path = tmp_path / "a.db"
    pl.Ledger.create(path, budget=BUDGET).close()
    spend(path, schema, table)
    return path


@pytest.fixture
def receipt(book, tmp_path):
    made = run("receipt", book, "--format", "json")
    (tmp_path / "receipt.json").write_text(made.stdout)
    return tmp_path / "receipt.json"


def first_line(result):
    return result.stdout.splitlines()[0]


# What it was compared with.

def test_without_a_receipt_the_first_line_says_what_cannot_be_seen(book):
    done = run("verify", book)
    assert done.exit_code == 0
    assert first_line(done).startswith("Within budget: epsilon ")
    assert first_line(done).endswith(
        ". No receipt was given, so deleted last entries, a restored backup or a complete rewrite "
        "would go unnoticed.")
    assert done.stdout.splitlines()[1].startswith("clean: ")
    value = json.loads(run("verify", book, "--format", "json").stdout)
    assert value["comparison"] | {"text": "", "cannot_see": ""} == {
        "with": "nothing", "time": None, "entries": None, "head": None, "signature": None,
        "text": "", "cannot_see": ""}


def test_a_wholly_rewritten_history_is_clean_and_says_what_that_means(book, receipt, schema, table):
    for suffix in ("", "-wal", "-shm"):
        book.with_name(book.name + suffix).unlink(missing_ok=True)
    pl.Ledger.create(book, budget=BUDGET).close()
    done = run("verify", book)
    assert done.exit_code == 0 and "a complete rewrite would go unnoticed" in first_line(done)
    done = run("verify", book, "--receipt", receipt)
    assert done.exit_code == 3 and "Compared with the receipt of 20" in first_line(done)
    assert first_line(done).startswith("NOT TRUSTED: ")


def test_with_a_receipt_the_first_line_names_it(book, receipt, schema, table):
    kept = json.loads(receipt.read_text())
    spend(book, schema, table)
    done = run("verify", book, "--receipt", receipt)
    assert done.exit_code == 0
    assert first_line(done).endswith(
        f". Compared with the receipt of {kept['time']} ({kept['entries']} entries, head "
        f"{kept['head'][:12]}): entries deleted or rewritten after entry {kept['entries']} would "
        "go unnoticed.")
    value = json.loads(run("verify", book, "--receipt", receipt, "--format", "json").stdout)
    assert value["comparison"]["with"] == "receipt"
    assert value["comparison"]["signature"] == "not checked"
    assert [value["comparison"][name] for name in ("time", "entries", "head")] == [
        kept[name] for name in ("time", "entries", "head")]
    del kept["time"]  # as version 0.1 made them, and as fits return them
    receipt.write_text(json.dumps(kept))
    said = first_line(run("verify", book, "--receipt", receipt))
    assert "Compared with a receipt without a date (" in said


def test_everybody_who_calls_a_ledger_good_says_what_it_was_compared_with(book, receipt, tmp_path):
    policy = tmp_path / "policy.toml"
    policy.write_text("[policy]\nmax_epsilon = 2.0\nmax_delta = 1e-5\n", encoding="utf-8")
    page = tmp_path / "page.html"
    assert run("report", book, "-o", page).exit_code == 0
    shown = [run("show", book).stdout, run("check", book, "--policy", policy).stdout,
             page.read_text(encoding="utf-8")]
    for said in shown:
        assert "o receipt was given" in said.replace("\n", " ")
    checked = run("check", book, "--policy", policy, "--receipt", receipt, "--format", "json")
    assert json.loads(checked.stdout)["comparison"]["with"] == "receipt"
    head = json.loads(receipt.read_text())["head"]
    checked = run("check", book, "--policy", policy, "--expect-head", head)
    assert f"ompared with the expected head {head[:12]}" in checked.stdout


# Copies.

def test_two_histories_of_one_ledger_are_a_fork_and_the_loudest_finding(book, tmp_path, schema,
                                                                       table):
    other = tmp_path / "b.db"
    shutil.copy(book, other)
    shared = len(pl.Ledger.open(book, read_only=True)._history.store.read())
    spend(book, schema, table, 2)
    spend(other, schema, table)
    done = run("overlap", book, other)
    assert done.exit_code == 3
    assert first_line(done).startswith(f"FORK: {book} and {other} are one ledger with two "
                                       f"histories. They agree on {shared} entries and differ from "
                                       f"entry {shared} on")
    value = json.loads(run("overlap", other, book, "--format", "json").stdout)
    (fork,) = value["copies"]
    assert fork["fork"] and fork["position"] == shared and fork["entries"][0] < fork["entries"][1]
    assert fork["epsilon"] > max(one["epsilon"] for one in value["receipts"].values())
    assert run("diff", book, other).exit_code == 3


def test_an_older_copy_is_named_and_the_same_history_twice_is_nothing(book, tmp_path, schema,
                                                                     table):
    same, older = tmp_path / "same.db", tmp_path / "older.db"
    shutil.copy(book, older)
    spend(book, schema, table)
    shutil.copy(book, same)
    done = run("overlap", older, book, same)
    assert done.exit_code == 1
    assert done.stdout.count("OLDER COPY") == 2 and "FORK" not in done.stdout
    assert f"{older} is {book} as it was before entry" in done.stdout
    assert run("overlap", book, same).exit_code == 0
    assert run("diff", older, book).exit_code == 0


def test_a_ledger_rewritten_from_its_beginning_under_its_old_name_is_a_fork(book, tmp_path, schema,
                                                                           table, monkeypatch):
    uuid = pl.Ledger.open(book, read_only=True)._history.state.uuid
    other = tmp_path / "b.db"
    monkeypatch.setattr("privledger.guard.creating.uuid4", lambda: uuid)
    pl.Ledger.create(other, budget=pl.Budget(3.0, 1e-6)).close()
    done = run("overlap", book, other)
    assert done.exit_code == 3 and "differ from entry 0 on" in done.stdout


@pytest.mark.parametrize(("first", "second", "found"), [
    ("", "", None), ("ab", "ab", None), ("ab", "abc", (2, 2, 3, False)),
    ("", "a", (0, 0, 1, False)), ("abc", "abd", (2, 3, 3, True)),
    ("abc", "xbc", (0, 3, 3, True)), ("abcd", "ax", (1, 4, 2, True))])
def test_where_two_histories_part(first, second, found):
    assert divergence(iter(first), iter(second)) == found
