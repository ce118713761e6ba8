"""Runs of other libraries: paid for here before they begin, and never handed back.

No guard sees what another library reads, so nothing that happens later gives anything back. What
can be held against the reservation is what the library says of each step as it takes it.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from types import TracebackType

from attrs import field, frozen

from privledger.errors import InvalidValue, NotGranted, UnsupportedNode, public_name
from privledger.graph import (
    IndividualFilter,
    Node,
    Parallel,
    PoissonSample,
    PostProcess,
    Public,
    Repeat,
    Sequential,
    from_json,
    to_json,
)
from privledger.graph.additive import Gaussian
from privledger.graph.nodes import below, check_node, children, holds
from privledger.guard.opaque import Opaque
from privledger.guard.policing import refuse_forbidden
from privledger.guard.reserve import reserve
from privledger.ledger import History, events, plain_labels
from privledger.ledger.entries import now, this_process
from privledger.ledger.events import Settled
from privledger.ledger.settle import Settlement, settle
from privledger.mutex import Mutex
from privledger.rounding import positive, probability

ISOLATION = "foreign"
_MOST_TEXT = 200
_OWN = ("library", "version", "hook")
_FREE = (Public, PostProcess, Sequential, Parallel)  # the latter two where they are empty


@frozen
class ExternalRun:
    """What runs, and where: the arguments of `Ledger.foreign`."""

    plan: Node
    table: str
    library: str
    version: str
    hook: str
    learner: str = ""
    labels: Mapping[str, str] = field(factory=dict)
    delta: float = 0.0


@frozen
class Steps:
    """What is left of a reserved training run of equal steps.

    Attributes:
        rate: of the Poisson sample. noise: in units of the clipping norm. most: steps.
    """

    rate: float
    noise: float
    most: int

    @staticmethod
    def of(plan: Node) -> Steps | None:
        """The steps of `plan`; None where it is not made of equal ones."""
        times, inner = (plan.count, plan.node) if isinstance(plan, Repeat) else (1, plan)
        rate, leaf = ((inner.rate, inner.node) if isinstance(inner, PoissonSample)
                      else (1.0, inner))
        if isinstance(leaf, Gaussian) and not leaf.shares:
            return Steps(rate, leaf.noise_multiplier, times)
        return None

    def check(self, taken: int, noise: object, rate: object) -> None:
        """Refuse a step that costs more than what was reserved for one, or that is one too many.

        More noise is the reserved step with noise added. A smaller rate q' of q mixes the pair of
        the reserved step with the pair (Q, Q), so its profile is at most q'/q of it.

        Raises:
            NotGranted: it must not update anything.
        """
        sigma, chance = positive("noise", noise), probability("rate", rate, one=True)
        if sigma < self.noise:
            raise NotGranted("the step has less noise than was reserved for it, so it must not be "
                             "taken")
        if chance > self.rate:
            raise NotGranted("the step samples at a higher rate than was reserved, so it must not "
                             "be taken")
        if taken >= self.most:
            raise NotGranted(f"all {self.most} reserved steps are used up, so this one must not be "
                             "taken")


class ForeignGrant(Opaque):
    """A reservation for a run that no guard sees. Leaving it, or losing it, keeps its charge.

    Copies and clones are the same object; it cannot be pickled or go to another process.
    """

    __slots__ = ("_failed", "_history", "_lock", "_pid", "_settled", "_steps", "_taken", "grant",
                 "plan")

    def __init__(self, history: History, stored: events.Granted) -> None:
        self._history, self._pid = history, os.getpid()
        self.grant = stored.grant
        self.plan = from_json(stored.plan)
        self._steps = Steps.of(self.plan)
        self._taken, self._settled, self._failed, self._lock = 0, False, "", Mutex()

    @property
    def taken(self) -> int:
        """How many steps were admitted."""
        return self._taken

    @property
    def active(self) -> bool:
        """Whether steps are still admitted: not closed, and not in a forked child."""
        return not self._settled and self._pid == os.getpid()

    def step(self, *, noise: float, rate: float) -> None:
        """Admit one step of the run, by what the library says of it, or refuse it.

        Args:
            noise: standard deviation over the clipping norm. rate: of the Poisson sample.

        Raises:
            NotGranted: it costs more than was reserved, or none is left, or this is not the
                process that reserved. The caller must stop before anything is updated.
        """
        with self._lock:
            if not self.active:
                raise NotGranted("the grant is settled, or belongs to another process, so the step "
                                 "must not be taken")
            if self._steps is None:
                raise NotGranted("the reserved plan does not consist of equal steps")
            self._steps.check(self._taken, noise, rate)
            self._taken += 1

    def close(self, failed: type[BaseException] | None = None) -> None:
        """Settle, durably; the whole charge stays.

        Raises:
            NotSettled: the ledger could not be written. Closing again tries again.
        """
        with self._lock:
            if self._settled or self._pid != os.getpid():
                return
            end = Settled(self.grant, True, 0, now(),
                          error=None if failed is None else public_name(failed),
                          failed=failed is not None)
            settle(self._history, Settlement(self.grant, (end,), {}, 0))
            self._settled = True

    def __enter__(self) -> ForeignGrant:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close(failed=kind)

    def __repr__(self) -> str:
        state = "open" if self.active else "closed"
        return f"ForeignGrant({self.grant}, {state}, {self._taken} steps)"


def _text(name: str, value: object) -> str:
    if not (isinstance(value, str) and value.strip() and value.isprintable()
            and len(value) <= _MOST_TEXT):
        raise InvalidValue(name, type(value).__name__, f"1 to {_MOST_TEXT} printable characters")
    return value


def _check_enforced(plan: Node) -> None:
    """Refuse a price that only a guard could make true.

    Raises:
        UnsupportedNode: nothing was granted.
    """
    if holds(plan, IndividualFilter):
        raise UnsupportedNode("an individual filter cannot stop a record in an external run, so "
                              "its cap is no price there. Nothing was granted")
    if all(children(one) or isinstance(one, _FREE) for one in below(plan)):
        raise UnsupportedNode("an external run reads rows, but this plan pays for none. Nothing "
                              "was granted")


def foreign(history: History, asked: ExternalRun) -> ForeignGrant:
    """Reserve for a run elsewhere, durably, or refuse; nothing is read here.

    Raises: as `Ledger.foreign`.
    """
    check_node("plan", asked.plan)
    state = history.refresh()
    if state.unit != "row":
        raise UnsupportedNode("this ledger protects people, but another library bounds what one "
                              "row may change. Nothing was granted")
    given = dict(plain_labels(asked.labels))
    if set(given) & set(_OWN):
        raise InvalidValue("labels", "given", f"others than {', '.join(_OWN)}")
    where = {name: _text(name, getattr(asked, name)) for name in _OWN}
    event = events.Granted(
        grant=f"grant-{secrets.token_hex(6)}", learner=str(asked.learner)[:_MOST_TEXT],
        data=_text("table", asked.table), plan=to_json(asked.plan),
        delta=probability("delta", asked.delta, zero=True), units=0, delta_units=0, time=now(),
        labels=dict(plain_labels(given | where)), holder=this_process(), isolation=ISOLATION)
    own = from_json(event.plan)
    _check_enforced(own)
    table = state.tables.get(event.data)
    refuse_forbidden(history, event, own, None if table is None else table.rows)
    return ForeignGrant(history, reserve(history, event, own)[0])
