"""Messages between two processes: four bytes of length, then one JSON object. Nothing else.

No pickle, no NaN, no descriptors, and nothing that grows much when it is read. A message that
breaks these rules ends the conversation.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, Protocol

from attrs import define, field

from privledger.broker.allowance import LimitsWatch
from privledger.errors import IsolationError, IsolationLimit
from privledger.reading import no_number
from privledger.tables.values import Json

MIB = 2**20
MOST_VALUES = 1_000_000  # of one message: an empty list takes a byte to say and sixty to hold
_STEP = 1 << 20
_TICK = 0.2  # seconds between two looks at the other process



def written_message(message: dict[str, object]) -> bytes:
    """A message as bytes. Raises `ValueError` for NaN and infinity."""
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")


def parsed(data: bytes | bytearray) -> Json:
    """The object that another process's bytes say.

    Raises:
        IsolationError: not one JSON object, or of too many values.
    """
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise IsolationError(f"a message of more than {MOST_VALUES} values")
    try:
        found = json.loads(data, parse_constant=no_number)
    except (ValueError, RecursionError):
        raise IsolationError("the other process broke the protocol: not JSON") from None
    if not isinstance(found, dict):
        raise IsolationError("the other process broke the protocol: not an object")
    return found


class Ends(Protocol):
    """What carries a learner's questions, and the replies to them."""

    def send(self, message: dict[str, object]) -> None:
        """Carry one question. Raises `PrivledgerError` if it cannot be carried."""

    def receive(self) -> Json:
        """The reply to it. Raises `PrivledgerError` if none comes."""


@define(eq=False)
class Channel:
    """One end of two pipes.

    Attributes:
        source, output: descriptors to read from and to write to.
        patience: seconds that one message may take to come or to go; None for ever.
        message_mb, traffic_mb: MiB that one message, and all that is read, may have.
        watch: looks after the other process while this one waits; raises to give up.
    """

    source: int
    output: int
    patience: float | None = None
    message_mb: int = 64
    traffic_mb: int | None = None
    watch: LimitsWatch | None = None
    _read: int = field(default=0, init=False)
    _looked: float = field(default=0.0, init=False)

    def send(self, message: dict[str, object]) -> None:
        """Write one message.

        Raises:
            IsolationError: the other side is gone, or does not read.
        """
        data = written_message(message)
        if len(data) > self.message_mb * MIB:
            raise IsolationLimit("message_mb", self.message_mb)
        rest = memoryview(len(data).to_bytes(4, "big") + data)
        until = self._deadline()
        while rest:
            self._wait(self.output, select.POLLOUT, until)
            try:
                rest = rest[os.write(self.output, rest[:_STEP]):]
            except BlockingIOError:
                continue
            except OSError:
                raise IsolationError("the other process is gone") from None

    def receive(self) -> dict[str, Any]:
        """Read one message.

        Raises:
            IsolationError: the other side is gone, silent, or breaks the rules.
            IsolationLimit: it says too much.
        """
        until = self._deadline()
        size = int.from_bytes(self._exactly(4, until), "big")
        if size < 2:
            raise IsolationError("the other process broke the protocol: a length out of range")
        if size > self.message_mb * MIB:
            raise IsolationLimit("message_mb", self.message_mb)
        self._read += size
        if self.traffic_mb is not None and self._read > self.traffic_mb * MIB:
            raise IsolationLimit("traffic_mb", self.traffic_mb)
        data = self._exactly(size, until)
        return parsed(data)

    def _exactly(self, size: int, until: float | None) -> bytearray:
        found = bytearray()
        while len(found) < size:
            self._wait(self.source, select.POLLIN, until)
            try:
                part = os.read(self.source, min(_STEP, size - len(found)))
            except BlockingIOError:
                continue
            if not part:
                raise IsolationError("the other process is gone")
            found += part
        return found

    def _deadline(self) -> float | None:
        return None if self.patience is None else time.monotonic() + self.patience

    def _wait(self, number: int, event: int, until: float | None) -> None:
        if until is None:
            return
        poll = select.poll()
        poll.register(number, event)
        while True:
            now = time.monotonic()
            if self.watch is not None and now - self._looked >= _TICK:
                self._looked = now
                self.watch.look()
            if now >= until:
                raise IsolationLimit(
                    "silence_seconds", self.patience or 0.0, "the other process said nothing "
                    f"for {self.patience:g} seconds (silence_seconds); what was charged stands")
            if poll.poll(min(_TICK, until - now) * 1000):
                return

    def close(self) -> None:
        """Let go of both descriptors."""
        for number in (self.source, self.output):
            if number >= 0:
                os.close(number)
        self.source = self.output = -1
