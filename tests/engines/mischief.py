"""An engine in this process that does what engines do at their worst, and keeps to its seed."""

from __future__ import annotations

import random

from attrs import define, field

from privledger.engines.chunks import Bench
from privledger.engines.exchange import ATTEMPTS
from privledger.tables.layout import CHUNK_ROWS
from privledger.tables.spool import Folder, key_in


class Killed(Exception):
    """A worker that is gone in the middle of its work."""


@define(eq=False, slots=False)
class Mischief:
    """Several workers that answer in any order, twice, late, or not at all.

    Attributes:
        seed: of all mischief; None for an engine that behaves.
        workers: how many benches there are, each of which has seen other messages.
        old: messages of earlier releases, some of which are run again at any time.

    The last time that a driver asks it is answered: who never is, is another test's subject.
    """

    seed: int | None = None
    workers: int = 3
    chunk_rows: int = CHUNK_ROWS
    old: list[tuple[str, bytes]] = field(factory=list)
    _benches: dict[tuple[str, int], Bench] = field(factory=dict)
    _in_vain: int = field(init=False, default=0)
    _random: random.Random = field(init=False)

    def __attrs_post_init__(self):
        self._random = random.Random(self.seed)

    @property
    def description(self):
        return "mischief"

    def bench(self, path, worker):
        known = self._benches.get((path, worker))
        if known is None:
            folder = Folder.__new__(Folder)
            from pathlib import Path
            Folder.__init__(folder, Path(path), key_in(Path(path)), True)
            known = self._benches[path, worker] = Bench(folder)
        return known

    def answered(self, message):
        path, text = message
        worker = self._random.randrange(self.workers)
        if self.seed is not None and self._random.random() < 0.15:
            self._benches.pop((path, worker), None)  # another process: it remembers nothing
        return self.bench(path, worker).reply(text)

    def run(self, messages):
        if self.seed is None:
            yield from (self.answered(message) for message in messages)
            return
        queue, missed = list(messages), False
        self._random.shuffle(queue)
        for message in queue:
            chance = self._random.random()
            if self.old and chance < 0.3:
                yield self.answered(self._random.choice(self.old))  # late, of another release
            lost = chance < 0.35 and self._in_vain < ATTEMPTS - 1
            missed |= lost
            if lost and chance < 0.2:
                continue  # before it was run
            reply = self.answered(message)
            if lost:
                continue  # run, and then lost
            yield reply
            if chance > 0.8:
                yield self.answered(message)  # twice, by whoever
            if chance > 0.95:
                yield reply[: len(reply) // 2]
        self._in_vain = self._in_vain + 1 if missed else 0
        self.old = [*self.old[-20:], *messages]

    def close(self):
        self._benches.clear()
