"""A Dask cluster of this machine, and settings for any: what Dask does by default, some of it
tells, and some of it is slow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from privledger.errors import EngineError
from privledger.rounding import count

if TYPE_CHECKING:
    from distributed import Client, Security

_SAFE: Final = "PYTHONSAFEPATH"
_MALLOC: Final = str(1 << 30)
_ONE: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def settings() -> dict[str, object]:
    """Dask's configuration for whoever starts a scheduler or workers: `dask.config.set` takes it.

    No page on HTTP, no spilling of anything to a disk, no profile of what runs, no moving of
    tasks. Memory that was used is kept for the next pass: Dask's own threshold makes every pass
    ask the kernel for it again, at three times the processor's time.
    """
    return {
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
        "distributed.scheduler.work-stealing": False,
        "distributed.scheduler.allowed-failures": 0,  # whose worker is gone is asked again by us
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.profile.enabled": False,
        "distributed.nanny.pre-spawn-environ": {
            "MALLOC_TRIM_THRESHOLD_": _MALLOC, "MALLOC_MMAP_THRESHOLD_": _MALLOC,
            _SAFE: "1",  # no module of the current folder runs in a worker
            **dict.fromkeys(_ONE, "1")},
        "distributed.logging": {"distributed": "error"},
    }


@contextmanager
def _safe_path() -> Iterator[None]:
    """Interpreters that this process starts, the tracker of its resources too, do not search the
    current folder for modules."""
    before = os.environ.get(_SAFE)
    os.environ[_SAFE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_SAFE, None)
        else:
            os.environ[_SAFE] = before


@contextmanager
def local_cluster(workers: int, security: Security | None = None) -> Iterator[Client]:
    """The only client of a cluster of real processes on loopback, which ends with the block.

    Args:
        workers: how many, of one thread each.
        security: certificates of everybody; None for fresh ones that nobody else has: without
            any, whoever has an account on the machine could run code in the workers.

    Raises:
        EngineError: it does not start.
    """
    import dask
    from distributed import Client, LocalCluster, Security

    size = int(count("workers", workers, most=1024))
    with dask.config.set(settings()), _safe_path():
        try:
            cluster = LocalCluster(
                n_workers=size, threads_per_worker=1, processes=True, host="127.0.0.1",
                dashboard_address=None, silence_logs=50,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # a server without pages
                security=security or Security.temporary(), protocol="tls://")
        except (OSError, RuntimeError, ImportError) as error:
            told = type(error).__name__
        else:
            with cluster, Client(cluster) as client:
                yield client
            return
    raise EngineError(f"a local cluster did not start: {told}")
