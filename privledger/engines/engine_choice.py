"""Which engine is wanted, by name; and one that is started for a while."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import asdict, field, frozen

from privledger.engines.cluster import Dask
from privledger.engines.engine import Engine
from privledger.engines.local import Local, usable
from privledger.errors import EngineError, InvalidPlan
from privledger.reading import path_in
from privledger.rounding import count

# A Dask cluster of this machine, and settings for any: what Dask does by default, some of it
# tells, and some of it is slow.


if TYPE_CHECKING:
    from distributed import Client, Security

_SAFE: Final = "PYTHONSAFEPATH"
_MALLOC: Final = str(1 << 30)
_ONE: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def settings() -> dict[str, object]:
    """Dask's configuration for starting a scheduler or workers: `dask.config.set` takes it.

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
        security: certificates of all processes; None for fresh ones of this cluster alone: without
            any, a user with an account on the machine could run code in the workers.

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
    raise EngineError(f"the local cluster did not start ({told}). Each worker imports the script "
                      "anew: start the cluster below `if __name__ == \"__main__\":`")


ENGINES: Final = ("local", "dask")
_FILES: Final = ("tls_ca", "tls_cert", "tls_key")
KEYS: Final = ("name", "workers", "scheduler", *_FILES, "spool")


@frozen
class EngineChoice:
    """As `[engine]` of a run file says it.

    Attributes:
        name: of the engine. workers: how many are started; None for one per usable processor.
        scheduler: address of a Dask cluster that runs already; None for one that is started.
        tls_ca, tls_cert, tls_key: files of its certificates, all three or none.
        spool: folder of the copy of the rows; None for one that goes at the end.
    """

    name: str
    workers: int | None = None
    scheduler: str | None = field(default=None, repr=False)
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = field(default=None, repr=False)
    spool: str | None = None

    @staticmethod
    def of(given: Mapping[str, object], base: Path) -> EngineChoice:
        """What keys say; names of files are relative to `base`.

        Raises:
            InvalidPlan: an unknown engine, or keys that do not go together.
            InvalidValue: not a number of workers.
        """
        for key in given:
            if key not in KEYS:
                raise InvalidPlan("[engine] key", key, f"one of {', '.join(KEYS)}")
        name = given.get("name")
        if name not in ENGINES:
            raise InvalidPlan("[engine] name", name, f"one of {', '.join(ENGINES)}")
        workers = given.get("workers")
        texts = {key: _text(key, given.get(key)) for key in KEYS if key not in ("name", "workers")}
        for key in (*_FILES, "spool"):
            found = texts[key]
            texts[key] = None if found is None else str(base / path_in(f"[engine] {key}", found))
        made = EngineChoice(
            str(name), None if workers is None else int(count("workers", workers, most=1024)),
            **texts)
        made._check()
        return made

    def _check(self) -> None:
        """Raise `InvalidPlan` for keys that do not go together."""
        if self.scheduler is not None and self.name != "dask":
            raise InvalidPlan("[engine] scheduler", "given", "left out unless name is dask")
        if self.scheduler is not None and self.workers is not None:
            raise InvalidPlan("[engine] workers", self.workers, "left out beside scheduler: that "
                              "cluster has its own")
        certificates = [getattr(self, key) is not None for key in _FILES]
        if any(certificates) and not (all(certificates) and self.scheduler is not None):
            raise InvalidPlan("[engine] tls_ca, tls_cert, tls_key", "given in part",
                              "given together, with scheduler")

    def over(self, given: Mapping[str, object], base: Path) -> EngineChoice:
        """The same but for what else is given; another engine starts from nothing."""
        known = asdict(self) if given.get("name", self.name) == self.name else {}
        return EngineChoice.of({key: one for key, one in {**known, **given}.items()
                                if one is not None}, base)

    @property
    def files(self) -> tuple[Path, ...]:
        """What only the owner may read."""
        spool = self.spool or str(Path(tempfile.gettempdir()) / "privledger-spool")
        return tuple(Path(one) for one in (self.tls_key, spool) if one is not None)


def _text(key: str, given: object) -> str | None:
    if given is not None and (not isinstance(given, str) or not given):
        raise InvalidPlan(f"[engine] {key}", type(given).__name__, "a text")
    return given


@contextmanager
def started(choice: EngineChoice | None) -> Iterator[Engine | None]:
    """The engine, which is let go at the end. None for none.

    Raises:
        EngineError: it cannot be started, or reached. Nothing was read.
    """
    if choice is None:
        yield None
    elif choice.name == "local":
        with closing(Local(choice.workers)) as engine:
            yield engine
    elif choice.scheduler is None:
        _need_dask()
        with local_cluster(choice.workers or usable()) as client:
            yield Dask(client)
    else:
        _need_dask()
        with _connected(choice) as made:
            yield made


@contextmanager
def _connected(choice: EngineChoice) -> Iterator[Dask]:
    from distributed import Client, Security

    keys = None if choice.tls_ca is None else Security(
        tls_ca_file=choice.tls_ca, tls_client_cert=choice.tls_cert,
        tls_client_key=choice.tls_key, require_encryption=True)
    try:
        client = Client(choice.scheduler, security=keys, timeout=30)
    except Exception as error:
        told = type(error).__name__
    else:
        with client:
            yield Dask(client)
        return
    raise EngineError(f"the scheduler cannot be reached ({told}); nothing was read")


def _need_dask() -> None:
    if find_spec("distributed") is None:
        raise EngineError("Dask is not installed: pip install 'privledger[dask]'. Nothing was read")
