"""Messages between two processes: four bytes of length, then one JSON object. Nothing else.

No pickle, no NaN, no descriptors. A message that breaks these rules ends the conversation.
"""

from __future__ import annotations

import json
import os
import select
import time
from typing import Any, NoReturn

from attrs import define

from privledger.errors import IsolationError

MOST_BYTES = 64 * 2**20
_STEP = 1 << 20


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


@define(eq=False)
class Channel:
    """One end of two pipes.

    Attributes:
        source, output: descriptors to read from and to write to.
        patience: seconds that one message may take to come or to go; None for ever.
    """

    source: int
    output: int
    patience: float | None = None

    def send(self, message: dict[str, Any]) -> None:
        """Write one message.

        Raises:
            IsolationError: the other side is gone, or does not read.
        """
        data = json.dumps(message, allow_nan=False, separators=(",", ":")).encode("ascii")
        if len(data) > MOST_BYTES:
            raise IsolationError(f"a message of more than {MOST_BYTES} bytes")
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
        """
        until = self._deadline()
        size = int.from_bytes(self._exactly(4, until), "big")
        if not 2 <= size <= MOST_BYTES:
            raise IsolationError("the other process broke the protocol: a length out of range")
        try:
            found = json.loads(self._exactly(size, until), parse_constant=_no_number)
        except (ValueError, RecursionError):
            raise IsolationError("the other process broke the protocol: not JSON") from None
        if not isinstance(found, dict):
            raise IsolationError("the other process broke the protocol: not an object")
        return found

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
        left = until - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            raise IsolationError(f"the other process said nothing for {self.patience:g} seconds")

    def close(self) -> None:
        """Let go of both descriptors."""
        for number in (self.source, self.output):
            if number >= 0:
                os.close(number)
        self.source = self.output = -1
