"""`privledger export`: complete, the same every time, and careful with files."""

from __future__ import annotations

import base64
import json
import stat
import subprocess
import sys
from hashlib import sha256

import pytest
from click.testing import CliRunner

import privledger as pl
from privledger.cli import main


@pytest.fixture
def call():
    return lambda *arguments: CliRunner().invoke(main, [str(part) for part in arguments])


@pytest.fixture
def ledger_file(tools, tmp_path):
    path = tmp_path / "book.ledger"
    tools.lived("gdp", path).close()
    return path


def test_every_entry_is_there_as_it_was_hashed(call, ledger_file, tmp_path):
    place = tmp_path / "history.jsonl"
    done = call("export", ledger_file, "-o", place)
    assert done.exit_code == 0, done.output
    with pl.Ledger.open(ledger_file, read_only=True) as ledger:
        entries = ledger._history.store.read()
    lines = place.read_text(encoding="ascii").splitlines()
    assert len(lines) == len(entries) and f"{len(entries)} entries" in done.stdout
    for line, entry in zip(lines, entries, strict=True):
        start = '{"body":'
        end = (f',"hash":"{entry.hash}","kind":"{entry.event.kind}","position":{entry.position},'
               f'"previous":"{entry.previous}"}}')
        assert line.startswith(start) and line.endswith(end)
        body = line[len(start):-len(end)]
        text = f'{entry.previous}[{entry.position},"{entry.event.kind}",{body}]'
        assert sha256(text.encode("ascii")).hexdigest() == entry.hash


def test_the_same_bytes_every_time_and_on_stdout(call, ledger_file, tmp_path):
    place = tmp_path / "history.jsonl"
    call("export", ledger_file, "-o", place)
    first = place.read_bytes()
    assert call("export", ledger_file, "-o", place, "--force").exit_code == 0
    assert place.read_bytes() == first
    printed = call("export", ledger_file, "-o", "-")
    assert printed.stdout_bytes == first and printed.stderr == ""


def test_vectors_only_when_asked_and_then_marked(call, ledger_file, tmp_path, book_of):
    plain = call("export", ledger_file, "-o", "-")
    assert b'"vector":"' not in plain.stdout_bytes and "CONFIDENTIAL" not in plain.stderr
    place = tmp_path / "secret.jsonl"
    done = call("export", ledger_file, "-o", place, "--include-records")
    assert done.exit_code == 0 and "CONFIDENTIAL" in done.stderr
    assert stat.S_IMODE(place.stat().st_mode) & 0o077 == 0
    raw = place.read_bytes()
    assert raw.startswith(plain.stdout_bytes)
    lines = [json.loads(line) for line in raw.splitlines()]
    vectors = {line["vector"]: base64.b64decode(line["data"]) for line in lines
               if "vector" in line}
    notes = [line["body"]["vector"] for line in lines
             if line.get("kind") == "settled" and line["body"].get("vector")]
    assert len(notes) == len(vectors) == 2
    assert all(sha256(vectors[note["name"]]).hexdigest() == note["sha256"] for note in notes)
    book = book_of(raw)
    assert book.faults == [] and not [note for note in book.notes if "vectors" in note]
    assert [note for note in book_of(plain.stdout_bytes).notes if "per-record vectors" in note]
    edited = raw.replace(lines[-1]["data"].encode(), base64.b64encode(b"another"), 1)
    assert "edited" in book_of(edited).faults[0][1]


def test_nothing_is_overwritten_without_force(call, ledger_file, tmp_path):
    place = tmp_path / "there"
    place.write_text("mine", encoding="utf-8")
    for arguments in (("export", ledger_file, "-o", place), ("export", "--verifier", place)):
        done = call(*arguments)
        assert done.exit_code == 2 and "--force" in done.output
        assert place.read_text(encoding="utf-8") == "mine"
        assert call(*arguments, "--force").exit_code == 0
        place.write_text("mine", encoding="utf-8")


def test_the_ledger_itself_is_never_overwritten(call, ledger_file, tmp_path):
    before = ledger_file.read_bytes()
    (tmp_path / "link").symlink_to(ledger_file)
    for place in (ledger_file, tmp_path / "link"):
        assert call("export", ledger_file, "-o", place, "--force").exit_code == 2
        assert call("export", ledger_file, "-o", tmp_path / "h", "--verifier", place,
                    "--force").exit_code == 2
    assert ledger_file.read_bytes() == before and not (tmp_path / "h").exists()


@pytest.mark.parametrize("arguments", [
    (), ("{ledger}",), ("-o", "{out}"), ("--include-records", "--verifier", "{out}"),
    ("{ledger}", "-o", "-", "--format", "json"), ("{ledger}", "-o", "-", "--verifier", "-"),
    ("{ledger}", "-o", "{out}", "--verifier", "{out}"), ("{out}", "-o", "-"),
    ("{ledger}", "-o", "{out}/no/such/folder"),
])
def test_usage_errors_write_nothing(call, ledger_file, tmp_path, arguments):
    out = tmp_path / "out"
    filled = [part.format(ledger=ledger_file, out=out) for part in arguments]
    assert call("export", *filled).exit_code == 2
    assert not out.exists()


def test_as_json(call, ledger_file, tmp_path):
    done = call("export", ledger_file, "-o", tmp_path / "h", "--format", "json")
    value = json.loads(done.stdout)
    with pl.Ledger.open(ledger_file, read_only=True) as ledger:
        assert value["head"] == ledger.receipt.head
        assert value["entries"] == ledger.receipt.entries


def test_the_verifier_is_written_and_accepts_the_export(call, ledger_file, tmp_path, tools):
    place, copy = tmp_path / "history.jsonl", tmp_path / "verify_history.py"
    assert call("export", ledger_file, "-o", place, "--verifier", copy).exit_code == 0
    assert copy.read_bytes() == tools.path.read_bytes()
    assert call("export", "--verifier", "-").stdout_bytes == tools.path.read_bytes()
    receipt = tmp_path / "receipt.json"
    receipt.write_text(call("receipt", ledger_file, "--format", "json").stdout, encoding="utf-8")
    done = subprocess.run([sys.executable, "-I", "-S", str(copy), str(place), "--receipt",
                           str(receipt)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "\nclean: " in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("content", [b"", b"no ledger"])
def test_what_is_no_ledger_is_3(call, tmp_path, content):
    place = tmp_path / "broken.ledger"
    place.write_bytes(content)
    assert call("export", place, "-o", tmp_path / "h").exit_code == 3
    assert not (tmp_path / "h").exists()
