"""Short proofs, made by one implementation and checked by another that shares nothing with it."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.ledger.checkpoint import consistency, inclusion, leaf, root
from privledger.standalone import verify_proof
from privledger.standalone.verify_proof import Wrong, extends, included

SCHEMA = pl.Schema("t", (pl.Column("x", "numeric", "feature", 0, 1),))


def some(size, salt=""):
    return [leaf(sha256(f"{salt}{number}".encode()).hexdigest()) for number in range(size)]


def slow_root(leaves):
    """As RFC 9162 defines it."""
    if len(leaves) == 1:
        return leaves[0]
    at = 1
    while 2 * at < len(leaves):
        at *= 2
    return sha256(b"\1" + slow_root(leaves[:at]) + slow_root(leaves[at:])).digest()


@given(st.integers(1, 70), st.data())
def test_every_proof_holds_and_is_short(size, data):
    leaves = some(size)
    top = root(leaves)
    assert top == slow_root(leaves)
    place, before = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    path = inclusion(leaves, place)
    assert included(leaves[place], place, size, path) == top
    longer = consistency(leaves, before)
    assert extends(root(leaves[:before]), before, top, size, longer)
    assert max(len(path), len(longer) - 1) <= max(0, (size - 1).bit_length())


def proves(call):
    try:
        return call()
    except Wrong:
        return False


@given(st.integers(2, 40), st.data())
def test_nothing_else_is_proved(size, data):
    """Another leaf, place, size, root or path."""
    leaves = some(size)
    top, place = root(leaves), data.draw(st.integers(0, size - 1))
    path = inclusion(leaves, place)
    other = data.draw(st.integers(0, size - 1).filter(lambda one: one != place))
    assert not proves(lambda: included(leaves[other], place, size, path) == top)
    assert not proves(lambda: included(leaves[place], other, size, path) == top)
    broken = [*path]
    at = data.draw(st.integers(0, len(path) - 1))
    broken[at] = bytes([broken[at][0] ^ 1]) + broken[at][1:]
    for wrong in (broken, path[:-1], [*path, path[0]]):
        assert not proves(lambda wrong=wrong: included(leaves[place], place, size, wrong) == top)
    before = data.draw(st.integers(1, size - 1))
    steps = consistency(leaves, before)
    small, forged = root(leaves[:before]), root(some(before, "x"))
    assert not proves(lambda: extends(forged, before, top, size, steps))
    assert not proves(lambda: extends(small, before, root(some(size, "x")), size, steps))
    for wrong in (steps[:-1], [*steps, steps[0]], [steps[0][::-1], *steps[1:]]):
        if wrong != steps:
            assert not proves(lambda wrong=wrong: extends(small, before, top, size, wrong))


@pytest.fixture
def two(tmp_path):
    """A ledger, an earlier receipt and a later one."""
    path = str(tmp_path / "l.ledger")
    ledger = pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6))
    data = ledger.protect({"x": np.arange(50) / 50}, SCHEMA, name="t")
    for name in ("june", "today"):
        ledger.request(pl.Gaussian(20.0), data, learner=name).close()
        made = CliRunner().invoke(main, ["receipt", path, "--format", "json"])
        (tmp_path / f"{name}.json").write_text(made.stdout)
    return path, tmp_path


def test_what_was_spent_in_june_is_proved_without_the_ledger(two):
    path, folder = two
    june, today, proof = (str(folder / name) for name in ("june.json", "today.json", "p.json"))
    checker = str(folder / "v.py")
    done = CliRunner().invoke(main, ["prove", path, "--since", june, "--until", today, "-o",
                                     proof, "--verifier", checker])
    assert done.exit_code == 0, done.output
    run = subprocess.run([sys.executable, "-I", checker, proof, june, today],
                         capture_output=True, text=True)
    spent = json.loads((folder / "june.json").read_text())["epsilon"]
    assert run.returncode == 0 and f"epsilon {spent}" in run.stdout
    assert subprocess.run([sys.executable, "-I", checker, proof, today, june],
                          capture_output=True).returncode == 3
    forged = json.loads((folder / "june.json").read_text()) | {"tree": "0" * 64}
    (folder / "june.json").write_text(json.dumps(forged))
    assert verify_proof.main([proof, june, today]) == 3


def test_one_entry_is_proved_and_no_other_shown(two):
    path, folder = two
    proof, today = str(folder / "p.json"), str(folder / "today.json")
    done = CliRunner().invoke(main, ["prove", path, "--entry", "3", "-o", proof])
    assert done.exit_code == 0 and verify_proof.main([proof, today]) == 0
    value = json.loads((folder / "p.json").read_text())
    assert set(value["entry"]) == {"position", "kind", "text", "previous"}
    for key, changed in (("text", value["entry"]["text"].replace("20", "21")), ("position", 2),
                         ("position", True), ("kind", "released"), ("previous", "0" * 64)):
        if value["entry"][key] == changed:
            continue
        other = value | {"entry": value["entry"] | {key: changed}}
        (folder / "p.json").write_text(json.dumps(other))
        assert verify_proof.main([proof, today]) == 3


@pytest.mark.parametrize("change", [
    {"uuid": "another"}, {"path": "0" * 64}, {"path": [3]}, {"kind": "inclusion"}, {"path": []},
    {"kind": None}])
def test_a_proof_of_another_form_proves_nothing(two, change):
    path, folder = two
    june, today, proof = (str(folder / name) for name in ("june.json", "today.json", "p.json"))
    CliRunner().invoke(main, ["prove", path, "--since", june, "--until", today, "-o", proof])
    (folder / "p.json").write_text(json.dumps(json.loads((folder / "p.json").read_text()) | change))
    assert verify_proof.main([proof, june, today]) == 3


def test_a_receipt_of_another_history_is_no_beginning(two):
    path, folder = two
    wrong = json.loads((folder / "june.json").read_text()) | {"head": "0" * 64}
    (folder / "w.json").write_text(json.dumps(wrong))
    done = CliRunner().invoke(main, ["prove", path, "--since", str(folder / "w.json"), "-o",
                                     str(folder / "p.json")])
    assert done.exit_code == 3 and not (folder / "p.json").exists()
    assert CliRunner().invoke(main, ["prove", path, "-o", str(folder / "p.json")]).exit_code == 2
