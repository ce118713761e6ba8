"""What a learner in a process of its own may use up: stated defaults, options, typed failures."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attrs import Factory, asdict, define, field, fields, frozen

from privledger.accounting.deadline import TooDear, pricing_within
from privledger.errors import InvalidPlan, IsolationLimit
from privledger.graph import Node, from_json
from privledger.graph.node_checks import check_depth
from privledger.rounding import count, positive

_WHOLE = ("memory_mb", "threads", "message_mb", "traffic_mb", "plan_nodes", "model_mb")
_MOST = {"message_mb": 1024, "model_mb": 1024}
_LEAST = {"memory_mb": 256}  # below, the libraries themselves do not load


@frozen
class Limits:
    """Limits of one learner's process. Passing one ends it with `IsolationLimit`.

    Attributes:
        silence_seconds: without a word, while the owner waits for one.
        total_seconds: from the start of the process to its end, by the clock; waiting for budget,
            as its owner allowed, is not counted.
        cpu_seconds: processor time of all its threads.
        memory_mb: address space in MiB (`RLIMIT_AS`), what it maps and does not use included.
            At least 256.
        threads: how many at a time; processes it cannot make at all.
        message_mb: one message, in MiB. At most 1024.
        traffic_mb: all that it says, in MiB: its owner keeps what it describes.
        pricing_seconds: processor time that its owner gives to pricing its plans, all together.
        plan_nodes: nodes of one plan, written out; it may be nested 100 deep, as any plan.
        model_mb: the model that is kept, in MiB. At most 1024.
    """

    silence_seconds: float = 600.0
    total_seconds: float = 6 * 3600.0
    cpu_seconds: float = 4 * 3600.0
    memory_mb: int = 4096
    threads: int = 64
    message_mb: int = 64
    traffic_mb: int = 1024
    pricing_seconds: float = 5.0
    plan_nodes: int = 20_000
    model_mb: int = 256

    def __attrs_post_init__(self) -> None:
        for one in fields(Limits):
            value = getattr(self, one.name)
            if one.name in _WHOLE:
                count(one.name, value, least=_LEAST.get(one.name, 1),
                      most=_MOST.get(one.name, 2**40))
            else:
                positive(one.name, value)

    @staticmethod
    def of(given: Mapping[str, Any]) -> Limits:
        """The defaults with some of them changed.

        Raises:
            InvalidPlan: no such limit. InvalidValue: a number that can never be right.
        """
        known = [one.name for one in fields(Limits)]
        for name in given:
            if name not in known:
                raise InvalidPlan("[isolation] key", str(name)[:40], f"one of {', '.join(known)}")
        return Limits(**given)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: each limit by name, in its unit."""
        return asdict(self)


DEFAULTS = Limits()


@define(eq=False)
class ResourceLimits:
    """Processor time that may still be given to pricing one learner's plans."""

    limits: Limits
    left: float = field(init=False, default=Factory(lambda self: self.limits.pricing_seconds,
                                                    takes_self=True))

    @contextmanager
    def pricing(self) -> Iterator[None]:
        """Prices in this block are paid from its resource limits.

        Raises:
            IsolationLimit: it is empty.
        """
        begun = time.thread_time()
        try:
            with pricing_within(self.left):
                yield
        except TooDear:
            raise IsolationLimit("pricing_seconds", self.limits.pricing_seconds) from None
        finally:
            self.left = max(0.0, self.left - (time.thread_time() - begun))

    def node(self, value: Any) -> Node:
        """A plan that another process described; every record checks itself.

        Raises:
            InvalidPlan, InvalidMechanism: it is none. IsolationLimit: it has too many nodes.
        """
        if check_depth(value) > self.limits.plan_nodes:
            raise IsolationLimit("plan_nodes", self.limits.plan_nodes)
        return from_json(value)


@define(eq=False)
class LimitsWatch:
    """Looks after a process from outside; `look` raises `IsolationLimit`.

    The kernel's own limits stand behind it: they hold while its owner is busy.
    """

    pid: int
    limits: Limits
    started: float = field(factory=time.monotonic)
    cpu: float = field(default=0.0, init=False)  # seconds, as last seen

    def look(self) -> None:
        """Look at the learner's time now.

        Raises:
            IsolationLimit: it ran or computed for longer than it may.
        """
        if time.monotonic() - self.started > self.limits.total_seconds:
            raise IsolationLimit("total_seconds", self.limits.total_seconds)
        try:
            with open(f"/proc/{self.pid}/stat", encoding="ascii", errors="replace") as file:
                words = file.read().rpartition(")")[2].split()
        except OSError:
            return  # it ended: the reader notices
        self.cpu = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        if self.cpu > self.limits.cpu_seconds:
            raise IsolationLimit("cpu_seconds", self.limits.cpu_seconds)
        if int(words[17]) > self.limits.threads:
            raise IsolationLimit("threads", self.limits.threads)

    def excuse(self, seconds: float) -> None:
        """Let so many seconds not count: its owner took them."""
        self.started += seconds

    def killed(self, code: int | None) -> IsolationLimit | None:
        """What the kernel's own limit on processor time did, told by an exit code."""
        spent = self.cpu >= self.limits.cpu_seconds - 1
        if code == -signal.SIGXCPU or (code == -signal.SIGKILL and spent):
            return IsolationLimit("cpu_seconds", self.limits.cpu_seconds)
        return None
