"""Noise is never drawn twice: after a fork, a spawn, a restart, a seed or a reopened ledger."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import privledger as pl
from privledger.noise.source import SystemSource
from tests.faults.small import guard

G = pl.Gaussian(40.0)
WORDS = "import privledger.noise.source as s; print(*s.SystemSource().integers64(4))"


def words(number: int) -> list[int]:
    return SystemSource().integers64(4).tolist()


def answers(ledger, number=3):
    """The same question several times: what differs is the noise."""
    data = guard(ledger)
    with ledger.request(pl.Repeat(G, number), data) as session:
        return [float(session.release(G, data.count())) for _ in range(number)]


def test_spawned_workers_draw_different_words():
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = [tuple(drawn) for drawn in pool.map(words, range(4))]
    assert len({word for drawn in found for word in drawn}) == 16


def test_a_restart_draws_different_words():
    """The same program, environment and hash seed, twice."""
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    found = [subprocess.run([sys.executable, "-c", WORDS], env=environment, check=True,
                            capture_output=True, text=True).stdout for _ in range(2)]
    assert len(set(" ".join(found).split())) == 8


def test_seeding_everything_else_changes_nothing():
    import random

    found = []
    for _ in range(2):
        random.seed(0)
        np.random.seed(0)
        found += words(0)
    assert len(set(found)) == 8


def test_a_reopened_ledger_draws_fresh_noise(tmp_path):
    path = tmp_path / "l.db"
    pl.Ledger.create(path, budget=pl.Budget(5.0, 1e-6), filter="gdp").close()
    found = []
    for _ in range(3):
        with pl.Ledger.open(path) as ledger:
            found += answers(ledger)
    # The grid step is 2**-20 and the deviation 40: some pair of 36 agrees by chance with 3e-7.
    assert len(set(found)) == 9


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_draws_its_own_noise_and_cannot_use_the_parents_session(tmp_path):
    path = tmp_path / "l.db"
    ledger = pl.Ledger.create(path, budget=pl.Budget(5.0, 1e-6), filter="gdp")
    data = guard(ledger)
    session = ledger.request(pl.Repeat(G, 2), data)
    session.release(G, data.count())
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            try:
                session.release(G, data.count())
                said = "released"
            except pl.NotGranted:
                said = "refused"
            os.write(writing, f"{said} {answers(ledger)}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said, _, drawn = pipe.read().partition(" ")
    os.waitpid(pid, 0)
    assert said == "refused"
    child = [float(text) for text in drawn.strip("[]").split(",")]
    assert not set(child) & set(answers(ledger))  # 9 pairs: by chance with 1e-7
    session.close()
    assert ledger.verify() == []
    ledger.close()


def test_nothing_with_noise_in_it_can_be_pickled():
    ledger = pl.Ledger.create(None, budget=pl.Budget(5.0, 1e-6))
    data = guard(ledger)
    with ledger.request(G, data) as session:
        for thing in (ledger, data, session, SystemSource()):
            with pytest.raises(TypeError):
                pickle.dumps(thing)
