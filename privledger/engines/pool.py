"""Processes behind a `concurrent.futures.Executor`: joblib's loky, and what else is one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait

from attrs import define, field

from privledger.engines.cluster import Sealed, answer_sealed
from privledger.engines.local import described, kernels_digest, patient, rows_of_a_chunk
from privledger.errors import EngineError, InvalidValue
from privledger.rounding import count
from privledger.tables.layout import CHUNK_ROWS


def _executor(given: object) -> Executor:
    """One whose tasks run in other processes, which were not forked from this one."""
    started = getattr(getattr(given, "_mp_context", None), "get_start_method", lambda: "")()
    if not isinstance(given, Executor) or isinstance(given, ThreadPoolExecutor) or (
            started == "fork"):
        raise InvalidValue("executor", type(given).__name__, "a concurrent.futures.Executor of "
                           "processes that are started afresh: loky's, or one with "
                           "mp_context=get_context('spawn')")
    return given


def _workers(given: object) -> int:
    return int(count("workers", given, most=1024))


@define(eq=False)
class Pool:
    """Workers of an executor that see the chunk store's folder, of one thread each.

    Args:
        executor: where tasks run. It stays open; its owner closes it.
        workers: how many tasks it runs at once.
        chunk_rows: rows of a chunk. What is answered does not depend on it.
        patience: seconds that may pass without any block of chunks being done.
    """

    executor: Executor = field(converter=_executor, repr=False)
    workers: int = field(converter=_workers)
    chunk_rows: int = field(default=CHUNK_ROWS, kw_only=True, converter=rows_of_a_chunk)
    patience: float = field(default=3600.0, kw_only=True, converter=patient)

    @property
    def description(self) -> str:
        return described(f"executor of {type(self.executor).__module__.partition('.')[0]}, "
                         "isolation distributed")

    def run(self, messages: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
        waiting: set[Future[bytes]] = set()
        try:
            for path, message in messages:
                waiting.add(self._sent(Sealed(path, kernels_digest(), message)))
            while waiting:
                done, waiting = wait(waiting, self.patience, FIRST_COMPLETED)
                if not done:
                    raise EngineError("no worker answered in time. The charge stands")
                for future in done:
                    reply = b""
                    with contextlib.suppress(Exception):  # of a worker that is gone
                        reply = future.result()
                    if type(reply) is bytes and reply:
                        yield reply
        finally:
            for future in waiting:
                future.cancel()

    def _sent(self, sealed: Sealed) -> Future[bytes]:
        with contextlib.suppress(Exception):
            return self.executor.submit(answer_sealed, sealed)
        raise EngineError("the executor takes no tasks: its processes are gone, or it was closed. "
                          "The charge stands")

    def close(self) -> None:
        """As `Engine.close`. The executor is its owner's."""
