"""Owners in processes of their own, over loopback with mutual TLS: faults, bits and kills."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.federation.cards import new_identity, write_identity

pytest.importorskip("grpc")
from tests.federation import apart
from tests.federation.test_rounds import Silent, guarded, table

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
SIZES = [5, pytest.param(20, marks=pytest.mark.slow)]
SEED = 20261123


class House:
    """A server of processes, and the keys of all."""

    def __init__(self, keys):
        self.keys = keys
        for name in ["trainer", "stranger", *(f"owner{i}" for i in range(20))]:
            write_identity(new_identity(name), keys)
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.federation.apart"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
            env=os.environ | {"GRPC_VERBOSITY": "NONE", "OMP_NUM_THREADS": "1",
                              "OPENBLAS_NUM_THREADS": "1"})

    def _told(self, order):
        self.server.stdin.write(json.dumps(order) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def start(self, place, k, edges=None, *, party="", of=1, trainer="", by="trainer", waits=False,
              work="ask", quiet=True, patience=60.0, wait=60.0, trees=10):
        """All processes of a run, by name. Owner `of` has the mode `party`."""
        place.mkdir(exist_ok=True)
        edges = [apart.ROWS * i // k for i in range(1, k)] if edges is None else edges
        base = {"place": str(place), "keys": str(self.keys), "owners": k, "edges": edges,
                "work": work, "quiet": quiet, "wait": wait, "trees": trees}
        pids = {"trainer": self._told(base | {
            "role": "trainer", "name": by, "mode": trainer, "waits": waits,
            "patience": patience})}
        for i in range(k):
            pids[f"owner{i}"] = self._told(base | {
                "role": "party", "name": f"owner{i}", "mode": party if i == of else ""})
        if waits:
            pids["stranger"] = self._told(base | {"role": "stranger", "name": "stranger"})
        return pids

    def end(self, pid, seconds=90.0):
        return self._told({"end": pid, "seconds": seconds})

    def run(self, place, k, **more):
        """What every process of a run said; None of one that died."""
        pids = self.start(place, k, **more)
        for pid in pids.values():
            self.end(pid)
        return {name: said(place, more.get("by", name) if name == "trainer" else name)
                for name in pids}


def said(place, name):
    file = place / f"{name}.json"
    return json.loads(file.read_text()) if file.exists() else None


def log(place, name):
    file = place / f"{name}.log"
    return file.read_text().split() if file.exists() else []


def charges(place, k):
    """(rows were read, what the ledger says afterwards) of every owner; ledgers are whole."""
    found = []
    for i in range(k):
        read = bool(log(place, f"owner{i}"))
        if not (place / f"owner{i}.ledger").exists():
            found.append((read, 0.0))
            continue
        with pl.Ledger.open(place / f"owner{i}.ledger") as ledger:
            assert ledger.verify() == []
            found.append((read, ledger.spent))
    return found


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    made = House(tmp_path_factory.mktemp("keys"))
    yield made
    made.server.stdin.close()
    made.server.wait(timeout=60)
    made.server.stdout.close()


@pytest.mark.parametrize("k", SIZES)
def test_strangers_replays_and_older_rounds_are_refused_and_the_run_goes_on(house, tmp_path, k):
    found = house.run(tmp_path, k, trainer="again", waits=True)
    trainer = found.pop("trainer")
    assert found.pop("stranger") == {
        "nobody": "UNAVAILABLE", "stranger": "UNAVAILABLE", "another run": "PERMISSION_DENIED",
        "again": "ALREADY_EXISTS"}
    assert "error" not in trainer, trainer
    colours = table(apart.ROWS)[0]["colour"]
    counts = [float((colours == one).sum()) for one in ("red", "green", "blue", "")]
    assert trainer["said"] == [counts] * apart.TIMES
    assert len(trainer["refused"]) == 6 * k
    assert all("nothing was read" in one for one in trainer["refused"])
    assert trainer["statements"] == k
    for name, one in found.items():
        assert one["spent"] > 0 and log(tmp_path, name) == ["read", "sent"] * apart.TIMES


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("mode", ["drop", "replay", "shapes", *(
    pytest.param(one, marks=pytest.mark.slow)
    for one in ("unreadable", "nothing", "grids", "silent"))])
def test_an_owner_that_does_wrong_makes_the_run_void_and_charges_stand(house, tmp_path, k, mode):
    found = house.run(tmp_path, k, party=mode, patience=1.0 if mode == "silent" else 60.0)
    assert found["trainer"]["error"] == "EngineError"
    bad = 2 if mode in ("replay", "unreadable") else 1
    assert f"round {bad} is void" in found["trainer"]["text"]
    for i, (read, spent) in enumerate(charges(tmp_path, k)):
        assert read and spent > 0
        if i != 1:  # told that it is over; nothing of the sum is out
            assert "hung up before the end" in found[f"owner{i}"]["text"]


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize(("mode", "why"), [
    ({"party": "swapped"}, "not signed"), ({"trainer": "key"}, "not signed")])
def test_a_swapped_key_is_found_before_the_first_question(house, tmp_path, k, mode, why):
    found = house.run(tmp_path, k, **mode)
    assert why in found["trainer"]["text"], found["trainer"]
    assert charges(tmp_path, k) == [(False, 0.0)] * k


@pytest.mark.parametrize("k", SIZES)
@pytest.mark.parametrize("mode", ["one", "half"])
def test_views_that_are_split_add_up_to_nothing(house, tmp_path, k, mode):
    """The sum is uniform: in range by chance under 1e-6 with three counts and three attempts."""
    found = house.run(tmp_path, k, trainer=mode)
    assert "round 1 is void" in found["trainer"]["text"]
    assert all(spent > 0 for _, spent in charges(tmp_path, k))


@pytest.mark.parametrize("k", SIZES)
def test_somebody_else_where_the_trainer_should_be_is_told_nothing(house, tmp_path, k):
    found = house.run(tmp_path, k, by="stranger", wait=1.0)
    assert "did not call" in found["trainer"]["text"]
    for i in range(k):
        assert "not with the certificate" in found[f"owner{i}"]["text"]
    assert charges(tmp_path, k) == [(False, 0.0)] * k


@pytest.mark.parametrize(("k", "skewed"), [
    (5, True), *(pytest.param(k, skewed, marks=pytest.mark.slow)
                 for k, skewed in ((1, False), (5, False), (20, False), (20, True)))])
def test_without_noise_it_is_the_model_of_one_table(house, tmp_path, k, skewed):
    edges = [2 * i + 2 for i in range(k - 1)] if skewed else None
    found = house.run(tmp_path, k, edges=edges, work="fit")
    X, y = table(apart.ROWS)
    central = apart.learner({}).fit(guarded(X, y, Silent())[1]).predict(X)
    assert "error" not in found["trainer"], found["trainer"]
    assert found["trainer"]["said"] == np.asarray(central).tobytes().hex()
    for i in range(k):
        assert 1.99 < found[f"owner{i}"]["spent"] <= 2.0


@pytest.mark.parametrize("kills", [4, pytest.param(200, marks=pytest.mark.slow)])
def test_no_kill_loses_a_charge(house, tmp_path, kills):
    """An owner or whoever trains is killed at a random moment of a run of three owners."""
    draw, k, ends = random.Random(SEED), 3, []
    start = time.monotonic()
    assert "error" not in house.run(tmp_path / "whole", k, quiet=False)["trainer"]
    whole = time.monotonic() - start
    for turn in range(kills):
        place = tmp_path / str(turn)
        pids = house.start(place, k, quiet=False, wait=2.0, patience=5.0)
        victim, limit = draw.choice(sorted(pids)), time.monotonic() + 2
        while turn % 4 and not (place / "met").exists() and time.monotonic() < limit:
            time.sleep(0.002)  # three of four are killed while questions are asked
        time.sleep(draw.uniform(0, whole / (4 if turn % 4 else 1)))
        os.kill(pids[victim], 9)  # a child that nobody waited for yet keeps its number
        for pid in pids.values():
            house.end(pid)
        for i, (read, spent) in enumerate(charges(place, k)):
            assert spent > 0 or not read, f"turn {turn}: owner {i} lost its charge"
            ends.append((read, said(place, f"owner{i}") is None))
    print(f"{kills} kills: {sum(read for read, _ in ends)} owners had read, "
          f"{sum(dead and read for read, dead in ends)} of them were killed")
    assert kills < 100 or sum(dead and read for read, dead in ends) >= 10
