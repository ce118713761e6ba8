"""A Dask cluster answers as this process does, tells nobody anything, and may lose workers."""

import logging
import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from privledger_learners import JointTreeClassifier, SGBDTClassifier

import privledger as pl
from privledger.engines import cluster as module
from privledger.engines.cluster import Sealed, answer_sealed, is_exposed
from privledger.engines.engine_choice import local_cluster
from privledger.engines.local import kernels_digest
from privledger.engines.messages import message_to_bytes
from privledger.errors import DataError, EngineError, InvalidValue
from privledger.guard import release as releasing
from privledger.questions.tallies import Tabled
from tests.all_cases import all_cases
from tests.engines import asked, test_ingest
from tests.engines.conftest import Processes
from tests.worlds import refused

pytest.importorskip("distributed")
N = 700
SECRET_COLUMN = "hiv_status_of_alice"
SCHEMA = pl.Schema("planted", (
    pl.Column("t", "numeric", "feature", 0.0, 1.0), pl.Column("u", "numeric", "feature", 0.0, 1.0),
    pl.Column(SECRET_COLUMN, "categorical", "feature", categories=("no", asked.PLANTED)),
    pl.Column("y", "categorical", "target", categories=("0", "1"))))


def rows():
    rng = np.random.default_rng(5)
    return {"t": rng.random(N), "u": rng.random(N),
            SECRET_COLUMN: rng.choice(["no", asked.PLANTED], N)}, rng.choice(["0", "1"], N)


TABLE = rows()


def simulation():
    return pl.Ledger.create(None, budget=pl.Budget(1000.0, 1e-6), mode="simulation", seed=1)


def protected(ledger, engine=None, **more):
    return ledger.protect(*TABLE, SCHEMA, engine=engine, **more)


def asking(ledger, data, function=asked.whole):
    with ledger.request(pl.Laplace(1.0, 1.0), data) as session:
        return session.release(pl.Laplace(1.0, 1.0), data.custom(function, 1.0, "by itself"))


@pytest.fixture
def heard(monkeypatch):
    """What every release adds up to, before noise."""
    found, true = [], releasing.ask

    def listening(*arguments):
        found.append(true(*arguments))
        return found[-1]

    monkeypatch.setattr(releasing, "ask", listening)
    return found


def numbers(sketch):
    """The same for the same whole numbers: tallies come as lists or with every bin."""
    if isinstance(sketch, tuple):
        sketch = tuple(one.listed() if isinstance(one, Tabled) else one for one in sketch)
    return message_to_bytes(sketch)


def work(ledger, data):
    SGBDTClassifier(epsilon=1.0, delta=1e-6, n_trees=3, random_state=0).fit(data)
    JointTreeClassifier(epsilon=1.0, max_depth=3, numeric_bins=64, random_state=0).fit(data)
    asking(ledger, data)


def test_it_answers_what_memory_and_local_processes_answer(client, heard):
    """The seed is the same, so every question is, as long as every answer is."""
    told = []
    for engine in (None, pl.engines.Local(1, chunk_rows=100),
                   pl.engines.Dask(client, chunk_rows=61)):
        ledger = simulation()
        work(ledger, protected(ledger, engine))
        told.append([numbers(one) for one in heard])
        heard.clear()
    assert len(told[0]) > 6
    assert told[0] == told[1] == told[2]


def test_it_writes_the_chunks_that_this_process_writes(client, tmp_path):
    whole = test_ingest.expected()
    source = test_ingest.put(tmp_path, test_ingest.rows())
    with test_ingest.workers_only():
        assert test_ingest.content(test_ingest.protect(
            source, pl.engines.Dask(client, chunk_rows=50))) == whole


def test_the_ledger_says_who_answered(client):
    ledger = simulation()
    asking(ledger, protected(ledger, pl.engines.Dask(client), name="mine"))
    said = ledger.state.tables["mine"].engine
    assert said.startswith("dask 20") and "isolation distributed" in said
    assert said.endswith(f"kernels sha256:{kernels_digest()}")


def fails(client, function, kind):
    """It fails with that error, which says nothing; what it cost is charged."""
    ledger = simulation()
    data = protected(ledger, pl.engines.Dask(client, chunk_rows=1000))
    with pytest.raises(kind) as caught:
        asking(ledger, data, function)
    assert asked.PLANTED not in repr(caught.value) and caught.value.__cause__ is None
    assert ledger.spent == pytest.approx(1.0)


def test_nobody_but_workers_sees_a_name_a_value_or_a_count(client, processes, caplog):
    """Every log at its finest, and all that the scheduler keeps of tasks, are searched."""
    caplog.set_level(logging.DEBUG, "distributed")
    fails(client, asked.tells, DataError)
    fails(client, asked.leaves, EngineError)  # by what is no `Exception`
    ledger = simulation()
    data = protected(ledger, pl.engines.Dask(client, chunk_rows=400))
    seen, stop = [], threading.Event()
    watching = threading.Thread(target=_watch, args=(client, seen, stop))
    watching.start()
    asking(ledger, data, asked.is_slow)
    stop.set()
    watching.join()
    assert any(b"Sealed" in one for one in seen), "no task was caught at the scheduler"
    heard = [caplog.text.encode(), *processes.logs().values(), *seen,
             repr(client.get_scheduler_logs()).encode(), repr(client.get_worker_logs()).encode()]
    for secret in (asked.PLANTED, SECRET_COLUMN, "planted", "ValueError", "SystemExit", "custom",
                   "Asked"):
        assert not [one for one in heard if secret.encode() in one], secret


def _states(dask_scheduler):
    """All that the scheduler keeps of every task, as text and as the bytes that it sends on."""
    import cloudpickle

    return [told for task in dask_scheduler.tasks.values() for told in (
        repr(task).encode(), repr(task.run_spec).encode(), repr(task.metadata).encode(),
        cloudpickle.dumps(task.run_spec))]


def _watch(client, seen, stop):
    while not stop.is_set():
        seen += client.run_on_scheduler(_states)
        time.sleep(0.02)


def test_a_killed_worker_is_asked_again_elsewhere(client, processes, heard):
    ledger = simulation()
    data = protected(ledger, pl.engines.Dask(client, chunk_rows=50))
    (processes.folder / "flag").unlink(missing_ok=True)
    asking(ledger, data, asked.dies_once)
    asking(ledger, data, asked.whole)
    assert (processes.folder / "flag").exists()
    assert message_to_bytes(heard[0]) == message_to_bytes(heard[1])
    gone = [one for one in processes.workers if one.poll() is not None]
    assert [one.returncode for one in gone] == [-signal.SIGKILL]
    processes.workers.remove(gone[0])
    processes.more()


def test_another_client_is_refused_before_anything_is_read(client, processes):
    engine = pl.engines.Dask(client)
    ledger = simulation()
    data = protected(ledger, engine)
    with processes.client():
        refused(EngineError, lambda: pl.engines.Dask(client), lambda: asking(ledger, data),
                match="another client")
    assert ledger.spent == pytest.approx(1.0)


def test_a_spool_that_workers_do_not_see(client, tmp_path, monkeypatch):
    """As where a folder is not shared: nothing is released, and the charge stands."""
    ledger = simulation()
    engine = pl.engines.Dask(client)
    data = protected(ledger, engine)
    true = module.Sealed
    monkeypatch.setattr(module, "Sealed",
                        lambda path, *more: true(str(tmp_path / "elsewhere"), *more))
    refused(EngineError, lambda: asking(ledger, data), match="not answered")
    assert ledger.spent == pytest.approx(1.0)


def test_another_version_is_not_asked():
    """A worker compares digests before it opens a spool; this is what it runs."""
    assert answer_sealed(Sealed("/nowhere", "0" * 16, b"")) == b""
    assert answer_sealed(Sealed("/nowhere", kernels_digest(), b"")) == b""


def test_a_client_that_was_closed(processes):
    ledger = simulation()
    with processes.client() as client:
        engine = pl.engines.Dask(client)
        data = protected(ledger, engine)
    with pytest.raises(EngineError, match="cannot be reached") as caught:
        asking(ledger, data)
    assert "127.0.0.1" not in str(caught.value)
    assert ledger.spent == pytest.approx(1.0)


def test_a_task_prints_nothing_of_itself():
    sealed = Sealed("/a/secret/path", "k", b"message")
    assert {repr(sealed), str(sealed), f"{sealed}", f"{sealed!r:>15}".strip()} == {
        "Sealed(private)"}
    assert sealed.__dask_tokenize__() != sealed.__dask_tokenize__()


@all_cases(("address", "exposed"), [
    ("tls://10.0.0.1:8786", False), ("tcp://127.0.0.1:1", False), ("tcp://[::1]:1", False),
    ("tcp://localhost:1", False), ("tcp://10.0.0.1:8786", True), ("tcp://0.0.0.0:1", True),
    ("tcp://localhost.evil:1", True), ("ws://127.0.0.1:1", True), ("inproc://127.0.0.1/1", True),
    ("127.0.0.1:8786", True), ("", True)])
def test_what_crosses_a_network_unencrypted(address, exposed):
    assert is_exposed(address) is exposed


def test_a_cluster_on_a_network_needs_certificates(client, monkeypatch):
    monkeypatch.setattr(module, "is_exposed", lambda address: True)
    refused(EngineError, lambda: pl.engines.Dask(client), match="TLS")
    assert pl.engines.Dask(client, allow_unencrypted=True).workers >= 1


@pytest.mark.parametrize("name", ["patience", "chunk_rows"])
@pytest.mark.parametrize("value", [0, -1, True, "1", float("nan"), float("inf"), None])
def test_every_number_is_checked(client, name, value):
    refused(InvalidValue, lambda: pl.engines.Dask(client, **{name: value}))


def test_a_cluster_that_does_not_start_says_what_a_script_needs(monkeypatch):
    def broken(**_):
        raise RuntimeError("in the middle of its bootstrapping phase")

    monkeypatch.setattr("distributed.LocalCluster", broken)
    with pytest.raises(EngineError, match="below `if __name__") as caught, local_cluster(1):
        pass
    assert "bootstrapping" not in str(caught.value)


@pytest.mark.parametrize("given", [None, "tcp://127.0.0.1:1", object()])
def test_anything_but_a_client_is_refused(given):
    refused(InvalidValue, lambda: pl.engines.Dask(given), match="client")


@pytest.mark.parametrize("given", [1, None, "yes"])
def test_encryption_is_not_switched_off_by_accident(client, given):
    refused(InvalidValue, lambda: pl.engines.Dask(client, allow_unencrypted=given))


def test_whoever_has_no_certificate_is_turned_away(processes):
    from distributed import Client

    refused(OSError, lambda: Client(f"tcp://127.0.0.1:{_port(processes)}", timeout=2))


def _port(processes):
    import json

    told = json.loads((Path(processes.folder) / "scheduler.json").read_text())
    assert told["address"].startswith("tls://")
    return told["address"].rpartition(":")[2]


def test_patience_ends(client):
    ledger = simulation()
    data = protected(ledger, pl.engines.Dask(client, patience=0.2))
    refused(EngineError, lambda: asking(ledger, data, asked.is_slow), match="in time")


@pytest.mark.slow
def test_a_scheduler_that_is_killed(tmp_path):
    """In the middle of a release: a typed error at once, and the charge stands."""
    import dask

    made = Processes(tmp_path, {}).start(1)
    try:
        with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), made.client() as client:
            ledger = simulation()
            data = protected(ledger, pl.engines.Dask(client, chunk_rows=100))
            asking(ledger, data)
            timer = threading.Timer(1.0, made.scheduler.kill)
            timer.start()
            with pytest.raises(EngineError, match="cannot be reached") as caught:
                asking(ledger, data, asked.is_slow)
            assert "127.0.0.1" not in str(caught.value)
            assert ledger.spent == pytest.approx(2.0)
    finally:
        made.stop()


@pytest.mark.slow
def test_a_local_cluster_is_started_with_certificates_and_ends():
    with local_cluster(1) as client:
        assert client.scheduler.address.startswith("tls://127.0.0.1:")
        pid, environment = next(iter(client.run(_of_a_worker).values()))
        assert environment == [str(1 << 30)] * 2 + ["1"]
        ledger = simulation()
        asking(ledger, protected(ledger, pl.engines.Dask(client, chunk_rows=100)))
    assert not Path(f"/proc/{pid}").exists()


def _of_a_worker():
    names = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "OMP_NUM_THREADS")
    return os.getpid(), [os.environ[name] for name in names]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2", float("nan"), None])
def test_a_local_cluster_has_a_number_of_workers(workers):
    with pytest.raises(InvalidValue), local_cluster(workers):
        pass
