"""Owners and trainers are killed at any moment: no charge is lost, and no ledger is hurt."""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import privledger as pl
from privledger.errors import EngineError, PrivledgerError
from privledger.federation import Federation, Run
from privledger.federation.calls import Callers
from privledger.federation.cards import new_identity, read_card, read_identity, write_identity
from tests.federation import owner_process
from tests.federation.owner_process import SCHEMA, run_of

PLAN = pl.Repeat(pl.Gaussian(40.0), 60)
PRICE = pl.epsilon(PLAN, 1e-6)
TRAINER = """
import json, sys
from pathlib import Path
from tests.federation.test_kills import train
train(json.loads(Path(sys.argv[1]).read_text()))
"""
ROOT = Path(__file__).parents[2]


def train(config):
    """Whoever trains: says its port, waits, and asks for counts until it is done or killed."""
    run = run_of(config["agreed"])
    cards = tuple(read_card(place) for place in config["cards"])
    with Callers(run, cards, read_identity(config["boss"]), "127.0.0.1:0", 120) as calls:
        print(calls.port, flush=True)
        calls.wait(120)
        federation = Federation(run, SCHEMA, calls.lines, pl.Budget(3.0, 1e-6))
        federation.on_round = lambda place: print(place, flush=True)
        count_all(federation)


def count_all(federation):
    """Sixty counts; each is in the list as soon as it is known."""
    known = []
    try:
        with federation.data.ledger.request(PLAN, federation.data) as session:
            for _ in range(PLAN.count):
                known.append(session.release(PLAN.node, federation.data.count()))
    except PrivledgerError:
        pass
    return known


def start(code, place, config):
    place.write_text(json.dumps(config))
    return subprocess.Popen([sys.executable, *code, str(place)], text=True, cwd=ROOT,
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def prepared(folder, noise, k=2):
    own = [new_identity(f"owner-{i}") for i in range(k)]
    for one in (*own, new_identity("boss")):
        write_identity(one, folder)
    run = Run.of("a run", tuple(one.card.owner for one in own), SCHEMA, PLAN, delta=0.0,
                 learner="somebody", noise=noise, colluding=int(noise == "shared"))
    return run, [{"rows": 200, "part": [100 * i, 100 * i + 100], "kind": "", "silent": False,
                  "secret": str(folder / f"owner-{i}.secret"), "other": str(folder / "boss.card"),
                  "ledger": str(folder / f"{i}.ledger"), "agreed": run.agreed} for i in range(k)]


def charged(place):
    """What a ledger spent; 0 if it was not made yet. It opens, and its history holds."""
    if not place.exists():
        return 0.0
    with pl.Ledger.open(place) as ledger:
        assert ledger.verify() == []
        return ledger.spent


def an_owner_is_killed(folder, place, delay, noise):
    """While round `place` is answered."""
    run, configs = prepared(folder, noise)
    cards = tuple(read_card(folder / f"owner-{i}.card") for i in range(2))
    with Callers(run, cards, read_identity(folder / "boss.secret"), "127.0.0.1:0", 120) as calls:
        for config in configs:
            config["address"] = f"127.0.0.1:{calls.port}"
        other = threading.Thread(target=quiet, args=(configs[1],), daemon=True)
        other.start()
        doomed = start(["-m", owner_process.__name__], folder / "0.config", configs[0])
        try:
            calls.wait(120)
            federation = Federation(run, SCHEMA, calls.lines, pl.Budget(3.0, 1e-6), 1)

            def told(now):
                if now == place:
                    threading.Timer(delay, doomed.kill).start()

            federation.on_round = told
            known = count_all(federation)
        finally:
            doomed.kill()
            doomed.communicate()
    other.join(120)
    for place in (folder / "0.ledger", folder / "1.ledger"):
        assert charged(place) >= PRICE * (1 - 1e-9) or not known
    return len(known)


def the_trainer_is_killed(folder, place, delay, noise):
    """While round `place` is asked."""
    run, configs = prepared(folder, noise)
    doomed = start(["-c", TRAINER], folder / "boss.config", {
        "agreed": run.agreed, "boss": str(folder / "boss.secret"),
        "cards": [str(folder / f"owner-{i}.card") for i in range(2)]})
    port = int(doomed.stdout.readline())
    others = []
    for config in configs:
        config["address"] = f"127.0.0.1:{port}"
        others.append(threading.Thread(target=quiet, args=(config,), daemon=True))
        others[-1].start()
    while int(doomed.stdout.readline()) < place:
        pass
    time.sleep(delay)
    doomed.kill()
    doomed.communicate()
    for other in others:
        other.join(120)
        assert not other.is_alive()
    spends = [charged(folder / f"{i}.ledger") for i in range(2)]
    for i, spent in enumerate(spends):
        with pl.Ledger.open(folder / f"{i}.ledger") as ledger:
            told = sum(grant.releases for grant in ledger.state.grants.values())
        assert spent >= PRICE * (1 - 1e-9) or not told
    return told


def quiet(config):
    with contextlib.suppress(EngineError):
        owner_process.take_part(config)


LAST = PLAN.count + 1  # the round of the end
KILLS = [an_owner_is_killed, the_trainer_is_killed]


@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize(("place", "noise"), [(0, "local"), (1, "local"), (30, "local"),
                                              (LAST, "local"), (30, "shared")])
def test_killed_some_times(tmp_path, kill, place, noise):
    kill(tmp_path, place, 0.001, noise)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("kill", KILLS)
@pytest.mark.parametrize("noise", ["local", "shared"])
def test_no_charge_is_lost_in_two_hundred_kills(tmp_path, kill, seed, noise):
    draw = random.Random(seed)
    found = []
    for number in range(10):
        folder = tmp_path / str(number)
        folder.mkdir()
        found.append(kill(folder, draw.randint(0, LAST), draw.uniform(0, 0.02), noise))
    assert any(found)  # not all of them before anything was answered
