"""A process that answers chunks: messages on its input, replies on its output, and no other word.

It stops when its input ends, which is when the process that started it is gone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from privledger.engines.chunks import Bench
from privledger.mutex import Mutex
from privledger.tables.spool import Folder, key_in

_LENGTH = 8
_BENCHES: dict[str, Bench] = {}
_LOCK = Mutex()


def bench_of(path: str) -> Bench:
    """What this process knows of a spool.

    Raises:
        SpoolError: there is none, or its key is gone.
    """
    key = key_in(Path(path))
    with _LOCK:
        known = _BENCHES.get(path)
        if known is None or known.folder.key != key:
            known = _BENCHES[path] = Bench(Folder(Path(path), key, lasting=True))
    return known


def send(file: BinaryIO, *parts: bytes) -> None:
    """Write parts, each behind its length."""
    for part in parts:
        file.write(len(part).to_bytes(_LENGTH, "little") + part)
    file.flush()


def receive(file: BinaryIO) -> bytes | None:
    """The next part; None at the end."""
    head = file.read(_LENGTH)
    size = int.from_bytes(head, "little")
    part = file.read(size)
    return part if len(head) == _LENGTH and len(part) == size else None


def serve_worker() -> None:
    """Answer until the input ends."""
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whatever is printed goes nowhere
    while True:
        path, message = receive(source), receive(source)
        if path is None or message is None:
            return
        try:
            reply = bench_of(path.decode()).reply(message)
        except Exception:
            reply = b""  # no holder of the key wrote it, or the spool is gone
        send(sink, reply)
