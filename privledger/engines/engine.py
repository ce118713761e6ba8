"""What an engine is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Engine(Protocol):
    """Carries messages to processes that can open the spool, and their replies back."""

    @property
    def description(self) -> str:
        """What it is and its version, for the ledger."""

    @property
    def workers(self) -> int:
        """How many answer at once."""

    @property
    def chunk_rows(self) -> int:
        """Rows of a chunk of tables that it answers."""

    def run(self, messages: Sequence[tuple[str, bytes]]) -> Iterator[bytes]:
        """Replies, in any order. One that was lost is left out: the driver asks again.

        Args:
            messages: each with the path of its spool, for `worker.bench_of(path).reply(message)`.

        Raises:
            EngineError: no worker can be reached.
        """

    def close(self) -> None:
        """Let its processes go. It may be used again."""
