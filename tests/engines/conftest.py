"""A Dask cluster of real processes on loopback, with certificates, that logs all it can."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from attrs import define

from privledger.engines.engine_choice import settings
from tests.engines.certificates import certificates

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@define
class Processes:
    """Attributes: folder: logs and certificates. files: certificates by name, or none."""

    folder: object
    files: dict
    scheduler: subprocess.Popen = None
    workers: list = None

    @property
    def address(self):
        return self._where

    def start(self, workers):
        self.workers = []
        where = self.folder / "scheduler.json"
        self.scheduler = self._process("scheduler", "--host", "127.0.0.1", "--port", "0",
                                       "--no-dashboard", "--scheduler-file", where)
        for _ in range(workers):
            self.more()
        _until(where.exists)
        return self

    def more(self, **environ):
        name = f"worker-{len(self.workers)}"
        self.workers.append(self._process(
            "worker", "--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny",
            "--scheduler-file", self.folder / "scheduler.json", "--local-directory",
            self.folder / name, name=name, **environ))

    def _process(self, kind, *arguments, name=None, **environ):
        tls = [] if not self.files else [
            "--tls-ca-file", self.files["ca"], "--tls-cert", self.files[kind],
            "--tls-key", self.files[f"{kind}-key"]]
        with open(self.folder / f"{name or kind}.log", "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{kind}", *map(str, arguments),
                 *map(str, tls)], stdout=log, stderr=log, cwd=ROOT, env={
                    **os.environ, "DASK_LOGGING__DISTRIBUTED": "debug",
                    "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0",
                    "PYTHONPATH": ROOT, "PRIVLEDGER_TEST_FLAG": str(self.folder / "flag"),
                    **environ})

    def client(self):
        from distributed import Client, Security

        keys = self.files and Security(
            tls_ca_file=str(self.files["ca"]), tls_client_cert=str(self.files["client"]),
            tls_client_key=str(self.files["client-key"]), require_encryption=True)
        return Client(scheduler_file=str(self.folder / "scheduler.json"), security=keys or None,
                      timeout=120)

    def logs(self):
        return {one.name: one.read_bytes() for one in self.folder.glob("*.log")}

    def stop(self):
        for one in (*self.workers, self.scheduler):
            one.kill()
            one.wait()


def _until(condition, seconds=60):
    stop = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < stop
        time.sleep(0.05)


@pytest.fixture(scope="package")
def processes(tmp_path_factory):
    """Two workers and their scheduler: as long as they are asked, for they are never idle."""
    folder = tmp_path_factory.mktemp("dask")
    made = Processes(folder, certificates(folder, "scheduler", "worker", "client")).start(2)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def client(processes):
    """Its only client, while one test runs."""
    import dask

    with dask.config.set(settings()), processes.client() as found:
        found.wait_for_workers(2, timeout=120)
        yield found
