"""What every store must do, run on every store there is."""

import itertools

import pytest

import privledger as pl
from privledger.ledger.codec import decode
from privledger.ledger.entries import GENESIS, make_entry
from privledger.storage import store_at
from tests.worlds import refused, together


class Bench:
    """A store, and a way to open it again (the same object where nothing survives)."""

    def __init__(self, kind, places):
        self.kind, self._places = kind, places
        self.place = self.another()
        self.store = store_at(self.place, create=True)

    def another(self):
        """A place where nothing is yet."""
        return next(self._places)

    def again(self):
        return self.store if self.kind == "memory" else store_at(self.place)


def places(kind, request):
    if kind == "postgres":
        server = request.getfixturevalue("postgres")
        return (server.url() for _ in itertools.count())
    folder = request.getfixturevalue("tmp_path")
    return (None if kind == "memory" else folder / f"a ledger %23? {number}.db"
            for number in itertools.count())


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def bench(request):
    made = Bench(request.param, places(request.param, request))
    yield made
    made.store.close()


def entries(number, start=0, head=GENESIS):
    found = []
    for position in range(start, start + number):
        found.append(make_entry(
            position, decode("kind", {"n": position, "text": "ü\n\u2028"}), head))
        head = found[-1].hash
    return found


def append(store, wanted, vectors=()):
    with store.transaction() as transaction:
        for entry in wanted:
            transaction.append(entry)
        for name, data in vectors:
            transaction.put_vector(name, data)


def test_a_new_store_is_empty(bench):
    assert bench.store.read() == [] and bench.store.vector("x") is None


def test_what_was_appended_is_read_back(bench):
    wanted = entries(5)
    append(bench.store, wanted)
    assert bench.store.read() == wanted
    assert bench.again().read() == wanted


@pytest.mark.parametrize("after", [-1, 0, 3, 4, 99])
def test_read_after(bench, after):
    wanted = entries(5)
    append(bench.store, wanted)
    assert bench.store.read(after) == wanted[after + 1:]


def test_a_transaction_reads_what_is_there(bench):
    wanted = entries(3)
    append(bench.store, wanted)
    with bench.store.transaction() as transaction:
        assert transaction.read(0) == wanted[1:]


class Stop(Exception):
    pass


@pytest.mark.parametrize("error", [Stop, KeyboardInterrupt, pl.BudgetExceeded])
def test_an_exception_inside_leaves_no_trace(bench, error):
    append(bench.store, entries(2))
    raised = error() if error is not pl.BudgetExceeded else error(asked=1.0, spent=0.0, left=0.0)
    more = entries(1, 2, bench.store.read()[-1].hash)

    def fail():
        with bench.store.transaction() as transaction:
            transaction.append(more[0])
            transaction.put_vector("v", b"data")
            raise raised

    refused(error, fail)
    assert len(bench.store.read()) == 2 and bench.store.vector("v") is None
    assert len(bench.again().read()) == 2
    append(bench.store, more)  # and the store still works
    assert len(bench.store.read()) == 3


def test_vectors(bench):
    data = bytes(range(256)) * 40
    append(bench.store, entries(1), [("spend", data), ("empty", b"")])
    assert bench.again().vector("spend") == data
    assert bench.again().vector("empty") in (b"", None)
    assert bench.store.vector("other") is None


@pytest.mark.parametrize("position", [1, 5])
def test_an_entry_at_a_taken_position_or_beyond_a_gap_is_refused(bench, position):
    append(bench.store, entries(2))
    refused(pl.LedgerError, lambda: append(bench.store, entries(1, position)))
    assert bench.store.read() == entries(2)


def test_writers_wait_for_each_other(bench):
    """Read, decide, append: with the lock held no position is lost or taken twice."""
    def write():
        for _ in range(15):
            with bench.store.transaction() as transaction:
                held = transaction.read(-1)
                head = held[-1].hash if held else GENESIS
                transaction.append(entries(1, len(held), head)[0])

    together(4, write)
    positions = [entry.position for entry in bench.store.read()]
    assert positions == list(range(60))


def test_a_store_has_a_location(bench):
    assert isinstance(bench.store.location, str) and bench.store.location


def test_a_ledger_behaves_alike_on_every_store(bench, schema, table):
    """The same requests leave the same kinds of entries behind, and verify."""
    with pl.Ledger.create(bench.another(), budget=pl.Budget(1.0, 1e-6)) as ledger:
        data = ledger.protect(*table, schema)
        with ledger.request(pl.Gaussian(9.0), data) as session:
            session.release(pl.Gaussian(9.0), data.count())
        refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(0.5), data))
        with pytest.raises(Stop), ledger.request(pl.Gaussian(9.0), data):
            raise Stop
        assert ledger.verify() == []
        kinds = [entry.event.kind for entry in ledger._history.store.read()]
    assert kinds == ["created", "protected", "filter", "granted", "released", "settled", "refused",
                     "granted", "aborted"]
