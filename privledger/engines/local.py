"""Processes of this machine."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

from attrs import define, field

from privledger.engines.catalogue import NEEDED
from privledger.engines.worker import receive, send
from privledger.errors import EngineError
from privledger.mutex import delivered
from privledger.rounding import count, positive
from privledger.tables.layout import CHUNK_ROWS

# Which code answers chunks: a digest that drivers, workers and the ledger can compare.


_PACKAGES: Final = ("engines", "noise", "questions", "tables")


@cache
def kernels_digest() -> str:
    """Of the source files that decide what a chunk answers: 16 hexadecimal digits. Public."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for package in _PACKAGES:
        for file in sorted((root / package).glob("**/*.py")):
            text = file.read_bytes()
            digest.update(f"{file.relative_to(root).as_posix()}\0{len(text)}\0".encode() + text)
    return digest.hexdigest()[:16]


def described(engine: str) -> str:
    """An engine, and the code that its workers run, for the ledger."""
    return f"{engine}, kernels sha256:{kernels_digest()}"


_BOOT = ("import json, sys; sys.path += json.loads(sys.argv[1]); "
         "from privledger.engines.worker import serve_worker; serve_worker()")


def libraries() -> list[str]:
    """Folders of this package and of what it needs, as this process has them.

    A worker searches the standard library and these, in this order, and no other folder: a file
    in the current one, or in one that the environment names, could read the chunk store. Beside
    them it loads what this process has loaded, from where it was loaded: `loaded_modules`.
    """
    found = [str(Path(module.__file__).resolve().parents[1])
             for name in NEEDED
             if (module := sys.modules.get(name)) is not None and module.__file__]
    return list(dict.fromkeys(found))


class _Worker:
    """One process, and its pipes."""

    def __init__(self) -> None:
        one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self.process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", _BOOT, json.dumps(libraries())],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, **one})
        weakref.finalize(self, _stop, self.process)

    def answer(self, path: bytes, message: bytes) -> bytes | None:
        """A reply; None if the process is gone."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            send(self.process.stdin, path, message)  # type: ignore[arg-type]
            return receive(self.process.stdout)  # type: ignore[arg-type]
        except (OSError, ValueError):
            return None

    def stop(self) -> None:
        """End the process."""
        _stop(self.process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    with delivered(), contextlib.suppress(OSError):
        process.kill()
        process.wait(10)
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def usable() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0))


def _workers(given: object) -> int:
    return usable() if given is None else int(count("workers", given, most=1024))


def rows_of_a_chunk(given: object) -> int:
    """A chunk's size, checked."""
    return int(count("chunk_rows", given, most=1 << 24))


def patient(given: object) -> float:
    """Seconds to wait, checked."""
    return float(positive("patience", given))


@define(eq=False)
class Local:
    """Worker processes of this machine. They read the spool themselves and answer in whole numbers.

    Args:
        workers: how many; None for one per usable processor.
        chunk_rows: rows of a chunk. What is answered does not depend on it.
        patience: seconds that one block of chunks may take before its worker counts as lost.
    """

    workers: int = field(default=None, converter=_workers)
    chunk_rows: int = field(default=CHUNK_ROWS, kw_only=True, converter=rows_of_a_chunk)
    patience: float = field(default=3600.0, kw_only=True, converter=patient)
    _free: list[_Worker] = field(init=False, factory=list, repr=False)
    _pid: int = field(init=False, factory=os.getpid, repr=False)

    @property
    def description(self) -> str:
        return described(f"local, {self.workers} worker{'s' * (self.workers > 1)}")

    def run(self, messages: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
        if self._pid != os.getpid():
            raise EngineError("an engine of another process: start a new one in the forked child")
        waiting: queue.SimpleQueue[tuple[str, bytes] | None] = queue.SimpleQueue()
        replies: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        size = min(self.workers, len(messages))
        for message in messages:
            waiting.put(message)
        for _ in range(size):
            waiting.put(None)
        team = [self._free.pop() if self._free else _Worker() for _ in range(size)]
        threads = [threading.Thread(target=_feed, args=(worker, waiting, replies), daemon=True)
                   for worker in team]
        for thread in threads:
            thread.start()
        try:
            yield from self._collected(replies, size)
        finally:
            self._rest(team, threads)

    def _collected(self, replies: queue.SimpleQueue[bytes | None], size: int) -> Iterator[bytes]:
        while size:
            try:
                reply = replies.get(timeout=self.patience)
            except queue.Empty:
                raise EngineError("a worker did not answer in time") from None
            if reply is None:
                size -= 1
            else:
                yield reply

    def _rest(self, team: list[_Worker], threads: list[threading.Thread]) -> None:
        """Keep idle workers; one that still works, or is gone, is ended."""
        for worker, thread in zip(team, threads, strict=True):
            if thread.is_alive() or worker.process.poll() is not None:
                worker.stop()
            else:
                self._free.append(worker)

    def close(self) -> None:
        while self._free:
            self._free.pop().stop()


def _feed(worker: _Worker, waiting: queue.SimpleQueue[tuple[str, bytes] | None],
          replies: queue.SimpleQueue[bytes | None]) -> None:
    """Messages to one worker, one after another, until none is left or it is gone."""
    while (message := waiting.get()) is not None:
        reply = worker.answer(message[0].encode(), message[1])
        if reply is None:
            break
        replies.put(reply)
    replies.put(None)
