"""Ledgers of every earlier format and filter, with what was said of them then (golden/).

Version 0.1 wrote format 3, and everything happened in each: windows, caps, a policy (rdp), a scope,
a refusal, a correction, a crash, grants that were handed back or failed. Those of formats 1, 2 and
4 were written by the code of their time (4: of people, with kept answers). Never written anew: they
are what is out there.
"""

import gzip
import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from attrs import evolve
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main
from privledger.ledger.codec import decode, written
from privledger.ledger.entries import parse_body
from privledger.ledger.events import EVENTS
from privledger.storage import store_at
from tests.alone import verify_history

FOLDER = Path(__file__).parent / "golden"
FORMATS = json.loads((FOLDER / "formats.json").read_text(encoding="ascii"))
TOTALS = json.loads((FOLDER / "totals.json").read_text(encoding="ascii"))


@pytest.fixture(params=sorted(TOTALS))
def kind(request):
    return request.param


@pytest.fixture
def place(kind, tmp_path):
    return Path(shutil.copyfile(FOLDER / f"{kind}.v01", tmp_path / "old.ledger"))


def rows(place):
    store = store_at(place, read_only=True)
    try:
        return list(store.rows())
    finally:
        store.close()


def told(place, known):
    """It opens, is clean and says the same totals; the ledger's whole state."""
    with pl.Ledger.open(place, read_only=True) as ledger:
        assert ledger.verify() == []
        assert (ledger.receipt.as_dict(), ledger.spent) == (known["receipt"], known["epsilon"])
        state, left = ledger._history.full(), ledger.left
    assert (state.units, state.refusals) == (known["units"], known["refusals"])
    assert [list(spent) for spent in state.cap_spent] == known["cap_spent"]
    assert {name: [grant.status, *grant.charged, grant.releases]
            for name, grant in state.grants.items()} == known["grants"]
    return state, left


def exported(place, tmp_path):
    """What the other verifier agrees to."""
    lines = tmp_path / "now.jsonl"
    done = CliRunner().invoke(main, ["export", str(place), "--include-records", "-o", str(lines)])
    assert done.exit_code == 0, done.output
    alone = subprocess.run([sys.executable, "-I", verify_history.__file__, str(lines)],
                           capture_output=True, text=True, check=False)
    assert alone.returncode == 0, alone.stdout + alone.stderr
    return lines.read_bytes()


def test_it_says_the_same_totals_and_its_export_is_the_one_of_then(kind, place, tmp_path):
    known = TOTALS[kind]
    state, left = told(place, known)
    # Version 0.1 rounded what is left to the nearest float; it is rounded down since.
    assert known["left"] * (1 - 2**-52) <= left <= known["left"]
    assert (state.rule.kind, state.delta_units) == (kind, known["delta_units"])
    assert {name: [list(spent) for spent in totals]
            for name, totals in state.windows.items()} == known["windows"]
    assert exported(place, tmp_path) == (FOLDER / f"{kind}.jsonl").read_bytes()


def test_the_commands_read_it(kind, place):
    def call(*words):
        done = CliRunner().invoke(main, [*words[:1], str(place), *words[1:]])
        assert done.exit_code == 0, done.output
        return done.stdout

    shown = json.loads(call("show", "--format", "json"))
    assert shown["spent"] == TOTALS[kind]["epsilon"]
    assert len(shown["grants"]) >= len(TOTALS[kind]["grants"])
    assert "clean" in call("verify")


def test_what_is_written_today_has_the_bytes_of_then(place):
    """Events made afresh, without what they were read from."""
    seen = set()
    for _, name, text, _, _ in rows(place):
        event = decode(name, parse_body(text))
        assert written(event) == text and written(evolve(event)) == text
        seen.add(name)
    since = {"enrolled"}  # a ledger of people has it, from format 4 on
    assert seen | {"scope"} == set(EVENTS) - since


def test_a_spill_of_then_is_taken_up(tmp_path):
    """Written beside the ledger when it could not be: see docs/ledger-format.md."""
    place = Path(shutil.copyfile(FOLDER / "gdp.v01", tmp_path / "old.ledger"))
    grant = json.loads((FOLDER / "gdp.spill").read_text(encoding="ascii"))["grant"]
    beside = tmp_path / f"old.ledger.{grant}.spill"
    shutil.copyfile(FOLDER / "gdp.spill", beside)
    with pl.Ledger.open(place) as ledger:
        found = ledger._history.full().grants[grant]
        assert (found.status, found.releases) == ("settled", 1) and ledger.verify() == []
    assert not beside.exists()


@pytest.mark.parametrize("name", FORMATS)
def test_every_earlier_format_is_read_byte_for_byte(name, tmp_path):
    known, place = FORMATS[name], tmp_path / "old.ledger"
    place.write_bytes(gzip.decompress((FOLDER / f"{name}.gz").read_bytes()))
    state, _ = told(place, known)
    assert name == f"{state.rule.kind}.format{state.format}" and state.format == known["format"]
    assert (state.delta_units, len(state.enrolled)) == (known["delta_units"], known["enrolled"])
    for _, kind, text, _, _ in rows(place):
        assert written(decode(kind, parse_body(text))) == text
    assert hashlib.sha256(exported(place, tmp_path)).hexdigest() == known["export"]


def test_every_format_and_filter_is_there():
    assert set(FORMATS) == {f"{kind}.format{number}" for kind in TOTALS for number in (1, 2, 4)}
