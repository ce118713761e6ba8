"""Every schedule is drawn from one seed: threads, interrupts, forks, and a disk that fails.

A failing seed is printed, and replays: SEED=1234 KIND=queue pytest tests/simulation
"""

from __future__ import annotations

import gc
import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from tests.simulation import mutants
from tests.simulation.schedules import KINDS, find

NUMBERS = {"lines": 1600, "queue": 7700, "session": 500, "forked": 200}
"""10,000 schedules in the default run; the first kind covers every line."""
MANY = {"lines": 1600, "queue": 899_900, "session": 96_600, "forked": 2_000}
"""1,000,000 behind the marker."""
PARTS = 10
pytestmark = pytest.mark.filterwarnings(  # an interrupt in a finalizer is not raised
    "ignore::pytest.PytestUnraisableExceptionWarning")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
EACH = [pytest.param(kind, marks=needs_fork if kind == "forked" else ()) for kind in KINDS]


@pytest.fixture(autouse=True)
def no_garbage_of_other_tests():
    """A ledger that the collector closes within a schedule would be steps of it."""
    gc.disable()
    yield
    gc.enable()


def told(kind, seed, error):
    return (f"{type(error).__name__}: {error}\nreplay it: SEED={seed} KIND={kind} "
            "pytest tests/simulation -k replay")


def found_afresh(kind, seeds):
    """As `find`, in a new process: to fork one that ran ten thousand tests takes far longer."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(find, kind, seeds).result()


@pytest.mark.parametrize("kind", EACH)
def test_no_schedule_hangs_or_loses_anything(kind):
    seed, error = (found_afresh if kind == "forked" else find)(kind, range(NUMBERS[kind]))
    assert seed is None, told(kind, seed, error)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", EACH)
def test_no_schedule_of_a_million_hangs_or_loses_anything(kind, part):
    number = MANY[kind] // PARTS
    seed, error = find(kind, range(10**6 + part * number, 10**6 + (part + 1) * number))
    assert seed is None, told(kind, seed, error)


def test_what_was_once_found_stays_mended():
    """Seed 1,040,259 of a run of 60,000: a holder was taken for gone because its thread left a
    generator while its stack was being looked at, and two led at once."""
    KINDS["queue"](1_040_259)


def test_replay():
    """The seed of the environment, or the first."""
    KINDS[os.environ.get("KIND", "queue")](int(os.environ.get("SEED", "0")))


@pytest.mark.parametrize("kind", ["queue", "session"])
def test_a_seed_replays_line_by_line(kind):
    def trails():
        return [(world.trail, world.steps) for world in map(KINDS[kind], range(40))]

    assert trails() == trails()


def test_every_line_is_interrupted():
    """The last seeds of `lines` are past the end of the thread, so none is left out."""
    assert not KINDS["lines"](NUMBERS["lines"] - 1).trail
    assert not KINDS["lines"](NUMBERS["lines"] - 2).trail
    hit = {place for seed in range(0, NUMBERS["lines"], 2)
           for place in KINDS["lines"](seed).trail}
    assert len({line for _, _, line in hit}) > 100
    assert {name for _, name, _ in hit} >= {
        "run", "_serve", "take", "give", "_write", "_swap", "_fold", "transaction", "answer"} - {
        "answer"}


@pytest.mark.parametrize(("kind", "mutant"), mutants.MUTANTS,
                         ids=[one.__name__ for _, one in mutants.MUTANTS])
def test_the_simulation_notices(kind, mutant, monkeypatch):
    if kind == "forked" and not hasattr(os, "fork"):
        pytest.skip("the system has no fork")
    mutant(monkeypatch)
    seed, _ = find(kind, range(NUMBERS[kind]))
    assert seed is not None, "no schedule of the default run notices"
