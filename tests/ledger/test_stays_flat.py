"""What does not grow with a ledger, and what grows no faster than it: by calls and bytes, which are
the same on every machine. docs/benchmarks.md has the seconds."""

import itertools
import statistics
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import privledger as pl
from privledger.guard.handle import _granted
from privledger.ledger import History
from privledger.reports import spend
from privledger.reports.survey import read_once
from privledger.storage import store_at
from tests.worlds import schema_of

pytestmark = pytest.mark.slow
SMALL = pl.Gaussian(20_000.0)


def calls(work):
    """How many functions run, of Python and of C."""
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(seen)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def usual(work, times=15):
    return statistics.median(calls(work) for _ in range(times))


def charges(caps=(), learners=1, place=None):
    """A ledger, and its two questions: a grant with one count that is settled, and a refusal."""
    ledger = pl.Ledger.create(place, budget=pl.Budget(1.0, 1e-6), filter="gdp", caps=caps)
    data = ledger.protect({"x": np.linspace(0, 1, 20)}, None, schema_of("n", {"x": (0, 1)}))
    who = itertools.cycle([{"learner": f"l{place}", "labels": {"team": f"t{place}", "u": "v"}}
                           for place in range(learners)])

    def granted():
        with ledger.request(SMALL, data, **next(who)) as session:
            session.release(SMALL, data.count())

    def refused():
        with suppress(pl.BudgetExceeded):
            ledger.request(pl.Gaussian(0.5), data, **next(who))

    for _ in range(max(50, learners)):
        granted()
        refused()
    return ledger, granted, refused


def test_a_charge_and_a_refusal_cost_what_they_cost_at_first():
    _, granted, refused = charges()
    first = usual(granted), usual(refused)
    for _ in range(3000):
        granted()
    assert usual(granted) <= 1.02 * first[0] and usual(refused) <= 1.02 * first[1]


@pytest.mark.parametrize(("caps", "learners"), [(0, 1000), (300, 1), (300, 1000)])
def test_caps_and_labels_of_many_learners_change_neither(caps, learners):
    """One cap concerns who asks; all others are not looked at."""
    def some(number):
        return tuple(pl.Cap(pl.Budget(0.9, 1e-6), labels={"team": f"t{place}"})
                     for place in range(number))

    _, granted, refused = charges(some(1 if caps else 0))
    _, granted_then, refused_then = charges(some(caps), learners)
    assert usual(granted_then) <= 1.05 * usual(granted)
    assert usual(refused_then) <= 1.05 * usual(refused)


def test_a_release_inside_a_grant_takes_few_bytes_and_always_as_many_calls():
    ledger, _, _ = charges()
    data = ledger.protect({"x": [0.5]}, None, schema_of("m", {"x": (0, 1)}))
    node = pl.Gaussian(1e5)
    with ledger.request(pl.Repeat(node, 30_000), data) as session:
        inside = _granted(session)._inside

        def charge():
            inside.charge(node, (), "question", 1)

        charge()
        first = usual(charge)
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(20_000):
            charge()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        assert usual(charge) <= first and grown <= 64 * 20_000


@pytest.fixture(scope="module")
def long_ledgers(tmp_path_factory):
    """Of 3,002 and of 24,002 entries, with grants that differ in all they can differ in."""
    folder = tmp_path_factory.mktemp("long")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parents[1] / "bench"))
        patch.setenv("XDG_STATE_HOME", str(folder / "state"))
        script = __import__("long")
        for grants in (1000, 8000):
            script.mixed(str(folder / f"{grants}.ledger"), grants)
        for name in ("long", "throughput", "measure"):
            sys.modules.pop(name, None)
        yield [folder / f"{grants}.ledger" for grants in (1000, 8000)]


def of_each(places, work):
    """The calls of some work on each of the ledgers, done once before."""
    found = []
    for place in places:
        store = store_at(place, read_only=True)
        work(store)
        found.append(calls(lambda store=store: work(store)))
        store.close()
    return found


def test_a_look_at_a_long_history_takes_a_block_for_what_it_took_for_an_entry(long_ledgers):
    """Opening folds what came after the checkpoint; `show` also hashes every block."""
    _, opened = of_each(long_ledgers, lambda store: History(store, writable=False).refresh())
    _, shown = of_each(long_ledgers, spend.brief_report)
    _, folded = of_each(long_ledgers, lambda store: History(store, writable=False).full())
    assert opened <= 0.1 * folded and shown - opened <= 0.1 * folded


def test_audits_are_linear_and_a_sealed_one_takes_a_part(long_ledgers):
    few, many = of_each(long_ledgers, lambda store: read_once(store, whole=True))
    assert many <= 8.2 * few
    _, sealed = of_each(long_ledgers, read_once)
    assert sealed <= 0.2 * many


def test_prices_of_different_samples_are_linear():
    def price(many):
        return pl.epsilon(pl.Sequential([pl.PoissonSample(0.01, pl.Gaussian(2 + place / many))
                                         for place in range(many)]), 1e-6)

    price(16)
    few, many = calls(lambda: price(300)), calls(lambda: price(1200))
    assert many <= 4.8 * few
