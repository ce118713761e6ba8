"""One race for all: eight racers, many rounds, in each of them room for one grant."""

import multiprocessing
import os
import random
import sys
import threading
import time

import numpy as np

import privledger as pl
from tests.faults.small import guard

RACERS = 8
G = pl.Gaussian(8.0)
LAST = pl.Budget(pl.epsilon(G, 1e-6) * 1.2, 1e-6)  # room for one grant
SEED = 20261120
SWITCH = 1e-6  # seconds between two chances of another thread


def _ask(ledger, data, barrier, luck):
    """1 if it was granted, 0 if it was refused. Nobody starts first for good."""
    barrier.wait(120)
    time.sleep(luck.uniform(0, 0.004))
    try:
        ledger.request(G, data).close()
    except pl.BudgetExceeded:
        return 0
    return 1


def _process(who, places, barrier, results):
    luck, granted = random.Random(f"{SEED} {who}"), []
    try:
        for place in places:
            with pl.Ledger.open(place) as ledger:
                data = guard(ledger, f"rows-{who}")
                granted.append(_ask(ledger, data, barrier, luck))
        results.put((who, granted))
    except BaseException as error:
        barrier.abort()
        results.put((who, f"{type(error).__name__}: {error}"))


def processes(places):
    """Each racer opens every ledger for itself. Shape (racers, rounds) of 0 and 1."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(RACERS), context.Queue()
    racers = [context.Process(target=_process, args=(who, places, barrier, results))
              for who in range(RACERS)]
    for racer in racers:
        racer.start()
    found = dict(results.get(timeout=900) for _ in racers)
    for racer in racers:
        racer.join(120)
    return _table(found)


def threads(places, *, shared=True):
    """Threads on one ledger object, or (`shared=False`) each with one of its own."""
    opened = {place: pl.Ledger.open(place) for place in places} if shared and isinstance(
        places[0], (str, os.PathLike)) else {}
    before, found = sys.getswitchinterval(), {}
    barrier = threading.Barrier(RACERS)

    def racer(who):
        luck, granted = random.Random(f"{SEED} {who}"), []
        try:
            for place in places:
                ledger = opened.get(place) if opened else place
                ledger = ledger if isinstance(ledger, pl.Ledger) else pl.Ledger.open(place)
                granted.append(_ask(ledger, guard(ledger, f"rows-{who}"), barrier, luck))
                if not shared:
                    ledger.close()
            found[who] = granted
        except BaseException as error:
            barrier.abort()
            found[who] = f"{type(error).__name__}: {error}"

    sys.setswitchinterval(SWITCH)
    try:
        running = [threading.Thread(target=racer, args=(who,)) for who in range(RACERS)]
        for one in running:
            one.start()
        for one in running:
            one.join(900)
    finally:
        sys.setswitchinterval(before)
        for ledger in opened.values():
            ledger.close()
    return _table(found)


def _table(found):
    errors = [granted for granted in found.values() if isinstance(granted, str)]
    assert not errors, errors
    return np.array([found[who] for who in range(RACERS)])


def check(table, ledgers):
    """No round granted twice, none granted to nobody, and every history says the same."""
    assert table.sum(axis=0).tolist() == [1] * table.shape[1]
    for ledger in ledgers:
        assert ledger.verify() == [] and ledger.spent <= LAST.epsilon
        assert len(ledger.state.grants) == 1


def fair(table):
    """Everybody gets at least 5 % of the grants.

    If all eight are equally likely to win, each gets 125 of 1,000 rounds on average; that one
    of them gets fewer than 50 has probability below 8 exp(-1000 KL(0.05, 0.125)) < 1e-12.
    """
    shares = table.sum(axis=1) / table.shape[1]
    print("shares of the grants:", np.round(shares, 3).tolist())
    assert shares.min() >= 0.05
