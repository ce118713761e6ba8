"""Processes of a Dask cluster.

A task is one sealed message and a fresh, meaningless key; its result is one sealed reply. Dask logs
arguments of tasks and texts of exceptions, keeps both at the scheduler and shows them to every
client. So the argument prints nothing, the kernel raises nothing, and what goes wrong is said by
the reply's status or by no reply at all.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import secrets
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from attrs import define, field, frozen

from privledger.engines.local import described, kernels_digest, patient, rows_of_a_chunk
from privledger.engines.worker import bench_of
from privledger.errors import EngineError, InvalidValue
from privledger.tables.layout import CHUNK_ROWS

if TYPE_CHECKING:
    from distributed import Client, Future, Scheduler

_HOUSE: Final = "fire-and-forget"  # the scheduler's own entry among its clients
_UNREACHED: Final = "the scheduler cannot be reached. The charge stands"


@frozen(eq=False, repr=False)
class Sealed:
    """The argument of a task. Whatever prints it learns nothing.

    Attributes:
        path: of the spool, as workers see it. kernels: digest of the driver's code.
        message: sealed.
    """

    path: str
    kernels: str
    message: bytes

    def __repr__(self) -> str:
        return "Sealed(private)"

    def __dask_tokenize__(self) -> str:
        return secrets.token_hex(16)


def answer_sealed(sealed: Sealed) -> bytes:
    """A worker's reply. b"" where there is none: another version of this package, or no spool."""
    try:
        if sealed.kernels != kernels_digest():
            return b""
        with (open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere),
              contextlib.redirect_stderr(nowhere)):
            return bench_of(sealed.path).reply(sealed.message)
    except BaseException:  # Dask would log its text
        return b""


@frozen(eq=False)
class Standing:
    """What a scheduler says of its cluster.

    Attributes:
        clients: names of all. workers: address and threads of each.
    """

    clients: tuple[str, ...]
    workers: tuple[tuple[str, int], ...]


def standing(dask_scheduler: Scheduler) -> Standing:
    """Asked at the scheduler itself: no client is told who else is one."""
    return Standing(tuple(dask_scheduler.clients), tuple(
        (one.address, one.nthreads) for one in dask_scheduler.workers.values()))


def is_exposed(address: str) -> bool:
    """Whether what is sent there can be read on a network."""
    kind, _, rest = address.partition("://")
    if kind == "tls":
        return False
    host = rest.rpartition(":")[0].strip("[]")
    try:
        return kind != "tcp" or not ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host != "localhost"


def _client(given: object) -> Client:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("an engine on Dask needs it: pip install 'privledger[dask]'") from None

    if not isinstance(given, Client) or given.asynchronous:
        raise InvalidValue("client", type(given).__name__, "a dask.distributed.Client that is "
                           "not asynchronous")
    return given


@define(eq=False)
class Dask:
    """Workers of a Dask cluster that see the spool's folder: those of this machine, or of others
    that share the file system. docs/engines.md says how to run one.

    Args:
        client: the cluster's only client. It stays open; its maker closes it.
        chunk_rows: rows of a chunk. What is answered does not depend on it.
        patience: seconds that may pass without any block of chunks being done.
        allow_unencrypted: whether messages may cross a network without TLS. They are sealed all
            the same, but a host that reaches the scheduler can run code in its workers.

    Raises:
        EngineError: the cluster is reached without TLS over a network, has another client, or
            a worker with several threads.
    """

    client: Client = field(converter=_client, repr=False)
    chunk_rows: int = field(default=CHUNK_ROWS, kw_only=True, converter=rows_of_a_chunk)
    patience: float = field(default=3600.0, kw_only=True, converter=patient)
    allow_unencrypted: bool = field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if type(self.allow_unencrypted) is not bool:
            raise InvalidValue("allow_unencrypted", type(self.allow_unencrypted).__name__,
                               "True or False")
        self._checked()

    @property
    def description(self) -> str:
        return described(f"dask {version('distributed')}, isolation distributed")

    @property
    def workers(self) -> int:
        return len(self._checked().workers)

    def run(self, messages: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
        self._checked()
        waiting = {self._sent(path, message) for path, message in messages}
        try:
            while waiting:
                for future in self._finished(waiting):
                    waiting.discard(future)
                    reply = self._reply(future)
                    if reply:
                        yield reply
        finally:
            with contextlib.suppress(Exception):
                self.client.cancel(list(waiting), force=True)

    def close(self) -> None:
        """As `Engine.close`. The client is its owner's."""

    def _sent(self, path: str, message: bytes) -> Future[bytes]:
        with contextlib.suppress(Exception):
            return self.client.submit(
                answer_sealed, Sealed(path, kernels_digest(), message), pure=False, retries=0,
                key=f"privledger-{secrets.token_hex(16)}")
        raise EngineError(_UNREACHED)

    def _finished(self, waiting: set[Future[bytes]]) -> set[Future[bytes]]:
        """Some that are over, one way or another; at least one."""
        from distributed import wait

        with contextlib.suppress(Exception):  # in time or not, lost or done: the futures know
            wait(waiting, timeout=self.patience, return_when="FIRST_COMPLETED")
        found = {one for one in waiting if one.status != "pending"}
        if self.client.status != "running":
            raise EngineError(_UNREACHED)
        if not found:
            raise EngineError("no worker answered in time. The charge stands")
        return found

    def _reply(self, future: Future[bytes]) -> bytes:
        """What a task gave; b"" if it is lost with its worker."""
        if future.status == "finished":
            with contextlib.suppress(Exception):
                found = future.result(timeout=self.patience)
                return found if type(found) is bytes else b""
        if future.status == "error" and not self._is_lost(future):
            raise EngineError("a worker cannot run the kernel: install the same version of this "
                              "package there. The charge stands")
        return b""

    def _is_lost(self, future: Future[bytes]) -> bool:
        from distributed import KilledWorker

        with contextlib.suppress(Exception):
            return isinstance(future.exception(timeout=self.patience), KilledWorker)
        return True

    def _checked(self) -> Standing:
        """What the scheduler says, if the cluster is fit for rows.

        Raises:
            EngineError: it is not, or cannot be reached.
        """
        found = self._asked()
        if set(found.clients) - {_HOUSE, self.client.id}:
            raise EngineError("the scheduler has another client, which could run code in its "
                              "workers. Disconnect every other client. Nothing was read")
        if any(threads != 1 for _, threads in found.workers):
            raise EngineError("a worker has several threads: start workers with one thread each. "
                              "Nothing was read")
        reached = str(getattr(self.client.scheduler, "address", ""))
        addresses = (reached, *(one for one, _ in found.workers))
        if not self.allow_unencrypted and any(is_exposed(one) for one in addresses):
            raise EngineError("the cluster is on other machines and has no TLS: give its client, "
                              "scheduler and workers certificates. Nothing was read")
        return found

    def _asked(self) -> Standing:
        if self.client.status != "running":
            raise EngineError(_UNREACHED)
        with contextlib.suppress(Exception):
            self.client.wait_for_workers(1, timeout=min(self.patience, 60.0))
            found = self.client.run_on_scheduler(standing)
            if isinstance(found, Standing):
                return found
        raise EngineError("the scheduler cannot be reached, has no worker, or cannot load this "
                          "package. A charge that was made stands")
