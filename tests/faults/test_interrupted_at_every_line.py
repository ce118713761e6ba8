"""Ctrl-C at any line of a release: the history that follows satisfies both verifiers."""

import sys
from pathlib import Path

import pytest

import privledger as pl
from privledger import mutex
from privledger.ledger import audit
from privledger.ledger.view_timeline import timeline
from privledger.storage import MemoryStore
from tests.alone import verify_history
from tests.doctored import entries_of
from tests.standalone.conftest import abandon, chained, exported, parsed
from tests.worlds import protected, schema_of

ROOT = str(Path(pl.__file__).parent)
SCHEMA = schema_of("t", {"x": (0.0, 1.0)}, y=["no", "yes"])
X, Y = {"x": [0.25, 0.5, 0.75, 1.0]}, ["no", "yes", "yes", "no"]
G, STREAM = pl.Gaussian(20.0), pl.SparseVector(60.0, 90.0)
ROWS = pl.nodes.Correlated(G, (1.0, 0.5), 2, 1, 2)
FILTER = pl.IndividualFilter("gdp", 1e-4, node=pl.Gaussian(300.0))
TUNED = pl.nodes.Tuning(pl.Laplace(60.0), success=0.5)


def counted(data, session):
    session.release(G, data.count())


def sampled(data, session):
    session.release(G, data.poisson(0.5).count())


def above(data, session):
    run = data.sparse_vector()
    for _ in range(2):
        session.release(STREAM, run.above(data.count(), 3.0))


def rows(data, session):
    stream = data.correlated()
    for _ in range(2):
        session.release(ROWS, stream.step(data.count()))


def tuned(data, session):
    def trial(handle, candidate):
        with handle.ledger.request(TUNED.node, handle) as inner:
            return float(inner.release(TUNED.node, handle.count())), candidate
    session.best_of(TUNED, 2, trial)


def filtered(data, session):
    session.release(pl.Gaussian(300.0), session.filtered(FILTER).sum("x"))


KINDS = {"count": (G, counted), "sample": (pl.PoissonSample(0.5, G), sampled),
         "threshold": (STREAM, above), "rows": (ROWS, rows), "tuning": (TUNED, tuned),
         "filter": (FILTER, filtered)}


@pytest.fixture(autouse=True)
def once(monkeypatch):
    """An interrupt that the collector swallowed is sent again: here it would hit the next life."""
    monkeypatch.setattr(mutex.threads, "interrupt", lambda: None)


def life(kind, line):
    """A ledger whose grant was interrupted at a line of our code, if there were so many; and
    whether there were."""
    plan, use = KINDS[kind]
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-6), filter="gdp")
    data, left = ledger.protect(X, Y, SCHEMA, name="t"), [line]

    def trace(frame, event, _):
        if not frame.f_code.co_filename.startswith(ROOT):
            return None
        if event == "line":
            left[0] -= 1
            if left[0] == 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    try:
        with ledger.request(plan, data) as session:
            sys.settrace(trace)
            use(data, session)
            sys.settrace(None)
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(None)
    return ledger, left[0] <= 0


def alone(ledger):
    book = verify_history.Book()
    for line in exported(ledger._history.store.read()).splitlines():
        book.take(line)
    book.finish(ledger._history.store.vector)
    return book.faults


def check(kind, lines):
    for line in lines:
        ledger, hit = life(kind, line)
        assert ledger.verify() == [], line
        assert alone(ledger) == [], line
        grant = next(iter(ledger.state.grants.values()))
        assert grant.end is None or grant.end.touched or not grant.end.releases, line
        if not hit:
            return


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lines", [
    range(1, 4000, 23), pytest.param(range(1, 10**6), marks=pytest.mark.slow)], ids=str)
def test_some_lines(kind, lines):
    check(kind, lines)


def doctored(kind, touched, releases_kept=True):
    """What earlier versions wrote: the end of an interrupted grant says that nothing was read."""
    ledger, data = protected(pl.Budget(2.0, 1e-6), X, Y, SCHEMA, filter="gdp", name="t")
    abandon(ledger, G, data, touched=True)
    lines = parsed(exported(ledger._history.store.read()))
    lines[-1]["kind"], lines[-1]["body"]["touched"] = kind, touched
    if not releases_kept:
        lines[-1]["body"]["releases"] = 0
    return ledger, chained(lines)


@pytest.mark.parametrize(("kind", "touched", "kept", "clean"), [
    ("settled", False, True, True), ("aborted", False, True, True),
    ("aborted", True, True, False), ("aborted", False, False, False),
    ("settled", False, False, False)])
def test_an_interrupted_end_of_earlier_versions_keeps_its_charge(kind, touched, kept, clean):
    ledger, lines = doctored(kind, touched, kept)
    store = MemoryStore()
    store._entries = entries_of(lines)
    book = verify_history.Book()
    for line in lines:
        book.take(verify_history.canonical(line).encode("ascii"))
    book.finish(store.vector)
    assert (not audit(store), not book.faults) == (clean, clean)
    if clean:
        again = pl.Ledger(store, ledger._source)
        assert again.state.units == ledger.state.units > 0
        assert "interrupted before the rows were opened" in str(list(timeline(store.read())))
