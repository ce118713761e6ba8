"""An executor of processes answers what memory answers, and says what it cannot do."""

import os
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import pytest
from joblib.externals.loky import ProcessPoolExecutor as Loky

import privledger as pl
from privledger.errors import EngineError
from tests.engines import asked, test_ingest
from tests.engines.test_dask_cluster import asking, numbers, protected, simulation, work
from tests.engines.test_dask_cluster import heard as heard
from tests.worlds import refused


@pytest.fixture(scope="module")
def loky():
    with Loky(max_workers=1) as executor:
        yield executor


def test_loky_answers_what_memory_answers(loky, heard):
    told = []
    for engine in (None, pl.engines.Pool(loky, 1, chunk_rows=100)):
        ledger = simulation()
        work(ledger, protected(ledger, engine))
        told.append([numbers(one) for one in heard])
        heard.clear()
    assert len(told[0]) > 6
    assert told[0] == told[1]


def test_loky_writes_the_chunks_that_this_process_writes(loky, tmp_path):
    source, whole = test_ingest.put(tmp_path, test_ingest.rows()), test_ingest.expected()
    with test_ingest.workers_only():
        assert test_ingest.content(test_ingest.protect(
            source, pl.engines.Pool(loky, 1, chunk_rows=50))) == whole


def test_a_query_that_tells_fails_and_says_nothing(loky):
    ledger = simulation()
    data = protected(ledger, pl.engines.Pool(loky, 1), name="mine")
    with pytest.raises(pl.errors.DataError) as caught:
        asking(ledger, data, asked.tells)
    assert asked.PLANTED not in repr(caught.value)
    assert ledger.spent == pytest.approx(1.0)
    assert ledger.state.tables["mine"].engine.startswith("executor of joblib, isolation")


def test_processes_that_are_gone_leave_the_charge():
    with Loky(max_workers=1) as executor:
        ledger = simulation()
        data = protected(ledger, pl.engines.Pool(executor, 1))
        asking(ledger, data)
        os.kill(next(iter(executor._processes)), signal.SIGKILL)
        with pytest.raises(EngineError, match="The charge stands|the charge stands"):
            asking(ledger, data)
    assert ledger.spent == pytest.approx(2.0)


class Deaf(Executor):
    def submit(self, *given, **named):
        return Future()


def test_one_that_never_answers_is_not_waited_for():
    ledger = simulation()
    data = protected(ledger, pl.engines.Pool(Deaf(), 1, patience=0.01))
    refused(EngineError, lambda: asking(ledger, data), match="in time")


@pytest.mark.parametrize("make", [
    lambda: None, lambda: ThreadPoolExecutor(1),
    lambda: ProcessPoolExecutor(1, mp_context=get_context("fork"))])
def test_threads_and_forks_are_no_processes_of_their_own(make):
    refused(pl.InvalidValue, lambda: pl.engines.Pool(make(), 1), match="executor")
