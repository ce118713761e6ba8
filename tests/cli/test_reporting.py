"""`privledger report`: one file, written whole, never over somebody's ledger."""

import json
import re
import sqlite3
import stat
from html import unescape

import numpy as np
import pytest

import privledger as pl
from tests.doctored import doctor
from tests.worlds import schema_of


@pytest.fixture
def filtered_file(tmp_path):
    path = tmp_path / "people.ledger"
    schema = schema_of("stays", {"stay": (0.0, 60.0)})
    noise = pl.Gaussian(20.0)
    cap = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(noise, 5))
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6)) as ledger:
        data = ledger.protect({"stay": np.linspace(0, 60, 30)}, schema, name="patients")
        with ledger.request(cap, data, learner="sums") as session:
            handle = session.filtered(cap)
            for _ in range(5):
                session.release(noise, handle.sum("stay"))
    return path


def test_a_page_is_written_and_the_ledger_is_not(call, filtered_file, tmp_path):
    before, page = filtered_file.read_bytes(), tmp_path / "report.html"
    done = call("report", filtered_file, "-o", page)
    assert done.exit_code == 0 and "CONFIDENTIAL" in done.stderr
    assert page.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert filtered_file.read_bytes() == before
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_json_says_what_was_written(as_json, filtered_file, tmp_path):
    page = tmp_path / "report.html"
    found = as_json("report", filtered_file, "-o", page, "--include-records")
    assert found["bytes"] == page.stat().st_size
    assert found["confidential"] and found["records"] and found["trusted"]
    assert found["receipt"]["head"] in page.read_text(encoding="utf-8")
    found = as_json("report", filtered_file, "-o", page, "--publishable", "--force")
    assert not found["confidential"] and not found["records"] and found["publishable"]


def test_nothing_is_overwritten_unasked(call, filtered_file, tmp_path):
    page = tmp_path / "report.html"
    page.write_text("mine", encoding="utf-8")
    assert call("report", filtered_file, "-o", page).exit_code == 2
    assert page.read_text(encoding="utf-8") == "mine"
    assert call("report", filtered_file, "-o", page, "--force").exit_code == 0
    assert call("report", filtered_file, "-o", filtered_file, "--force").exit_code == 2
    assert call("report", filtered_file, "-o", tmp_path / "no" / "where.html").exit_code == 2
    both = call("report", filtered_file, "-o", page, "--publishable", "--include-records")
    assert both.exit_code == 2


def test_an_edited_ledger_gives_no_good_page(call, filtered_file, tmp_path):
    page = tmp_path / "report.html"
    with sqlite3.connect(filtered_file) as store:
        store.execute("DROP TRIGGER IF EXISTS no_update")
        for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type='trigger'"
                                     ).fetchall():
            store.execute(f"DROP TRIGGER {name}")
        store.execute("UPDATE entries SET body = replace(body, 'sums', 'bums') "
                      "WHERE kind = 'granted'")
    store.close()
    done = call("report", filtered_file, "-o", page, "--format", "json")
    assert done.exit_code == 3
    assert json.loads(done.stdout).get("verdict", "NOT TRUSTED") == "NOT TRUSTED"
    if page.exists():
        assert "Within budget" not in page.read_text(encoding="utf-8")


def test_an_edited_vector_is_shown_as_distrust(call, filtered_file, tmp_path):
    page = tmp_path / "report.html"
    from privledger.ledger.vectors import pack

    with sqlite3.connect(filtered_file) as store:
        for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type='trigger'"
                                     ).fetchall():
            store.execute(f"DROP TRIGGER {name}")
        fake = pack(np.zeros(30, dtype=np.int64), np.zeros(30, dtype=np.int32))
        table = next(name for (name,) in store.execute(
            "SELECT name FROM sqlite_master WHERE type='table'") if "vector" in name)
        assert store.execute(f"UPDATE {table} SET data = ?", (fake,)).rowcount == 1
    store.close()
    assert call("report", filtered_file, "-o", page).exit_code == 3
    text = page.read_text(encoding="utf-8")
    assert "NOT TRUSTED" in text and "Within budget" not in text


def test_an_empty_ledger_and_a_simulation(call, make_ledger, tmp_path):
    page = tmp_path / "report.html"
    assert call("report", make_ledger(tmp_path / "a.ledger", releases=0), "-o", page).exit_code == 0
    assert "Nothing was granted yet" in page.read_text(encoding="utf-8")
    done = call("report", make_ledger(tmp_path / "b.ledger", mode="simulation"), "-o", page,
                "--force")
    assert done.exit_code == 0 and "NOT PRIVATE" in done.stdout
    assert "NOT PRIVATE" in page.read_text(encoding="utf-8")


BROKEN = {
    "edited": "UPDATE entries SET body = replace(body, '\"sums\"', '\"bums\"')",
    "wrong hash": "UPDATE entries SET hash = '00' WHERE position = 3",
    "no entry": "UPDATE entries SET body = '{' WHERE position = 3",
    "no promise": "UPDATE entries SET body = '{' WHERE position = 0",
    "another kind": "UPDATE entries SET kind = 'strange' WHERE position = 4",
    "one missing": "DELETE FROM entries WHERE position = 2",
    "no beginning": "DELETE FROM entries WHERE position = 0"}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_history_has_a_page_that_says_so_first(call, filtered_file, tmp_path, case):
    """Nothing is added up, and every finding leads to its entry."""
    page = tmp_path / "report.html"
    doctor(filtered_file, BROKEN[case])
    done = call("report", filtered_file, "-o", page)
    assert done.exit_code == 3 and "NOT TRUSTED" in done.stdout
    text = page.read_text(encoding="utf-8")
    body = text.partition("<body>")[2]
    assert re.sub("<[^>]*>", " ", body).split()[:2] == ["NOT", "TRUSTED:"]
    assert "within budget" not in body and "epsilon" not in body.partition("<tbody>")[0]
    places = set(re.findall(r'href="#([^"]+)"', body))
    assert any(place.startswith("entry-") for place in places)
    assert all(f'id="{place}"' in body for place in places)
    assert "<script" not in text and "script-src 'none'" in unescape(text)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    shown = call("report", filtered_file, "-o", page, "--force", "--format", "json")
    assert json.loads(shown.stdout)["verdict"] == "NOT TRUSTED"


def test_a_broken_history_says_nothing_of_fits_where_it_is_published(call, filtered_file, tmp_path):
    page = tmp_path / "report.html"
    doctor(filtered_file, BROKEN["edited"])
    assert call("report", filtered_file, "-o", page, "--publishable").exit_code == 3
    text = page.read_text(encoding="utf-8")
    assert "5 releases" not in text and not re.search(r"20\d\d-\d\d-\d\d", text)


def test_a_file_without_a_history_is_refused(call, filtered_file, tmp_path):
    doctor(filtered_file, "DELETE FROM entries")
    done = call("report", filtered_file, "-o", tmp_path / "report.html")
    assert done.exit_code == 3 and not (tmp_path / "report.html").exists()


def test_hostile_texts_of_a_broken_history_are_texts(call, tmp_path):
    path, page = tmp_path / "hostile.ledger", tmp_path / "report.html"
    schema = schema_of("stays", {"stay": (0.0, 60.0)})
    with pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6)) as ledger:
        data = ledger.protect({"stay": [1.0]}, schema, name="</td><script>alert(1)</script>")
        ledger.request(pl.Gaussian(20.0), data, learner="<img src=x onerror=alert(1)>").close()
    doctor(path, "UPDATE entries SET hash = '00' WHERE position = 1")
    assert call("report", path, "-o", page).exit_code == 3
    text = page.read_text(encoding="utf-8")
    assert "onerror=alert(1)&gt;" in text and "<img" not in text and "<script" not in text
