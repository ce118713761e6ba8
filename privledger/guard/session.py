"""An open grant. Learners hold a `Session` before it; nothing here leaves the guard.

The plan is the one that was stored and read back, and whether rows were touched is noted by the
vault. One lock for one grant, taken here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from attrs import define, evolve, field, frozen

from privledger.accounting import Relation
from privledger.errors import (
    InvalidValue,
    NotGranted,
    PrivledgerError,
    UnsupportedNode,
    public_name,
)
from privledger.graph import (
    Context,
    IndividualFilter,
    Meter,
    Node,
    Parallel,
    Tuning,
    alone,
    canonical,
    from_json,
    to_json,
)
from privledger.graph.nodes import check_node, holds, runs_elsewhere
from privledger.guard.dataset import Dataset
from privledger.guard.inside import Inside, observed, tell
from privledger.guard.release import release
from privledger.guard.reserve import note_over
from privledger.guard.spends import Scope, Spends
from privledger.guard.trusted_copy import forget_dead
from privledger.guard.tuned import Best, Contest, Trial, desk_of, published_best
from privledger.guard.vault import Pass, Vault
from privledger.ledger import FilterRule, History, Receipt, booked_by_filters
from privledger.ledger.codec import SHAPES, check_fields, decode, encode
from privledger.ledger.entries import now
from privledger.ledger.events import Aborted, Answer, PrivateScore, Settled
from privledger.ledger.log import ReleaseLog
from privledger.ledger.settle import Settlement, settle
from privledger.mutex import Mutex
from privledger.noise.source import NoiseSource
from privledger.questions.question import Step, own_context

MOST_FIGURES, MOST_SCORE = 100, 1 << 16
"""Figures, and bytes, of a score in a settlement."""


@frozen
class Booking:
    """How a charge was decided in a ledger whose filter its first plan fixes for life.

    Attributes:
        first: whether this was that plan.
    """

    rule: FilterRule
    relation: Relation
    delta: float
    first: bool

    def by_filters(self, plan: Node) -> tuple[tuple[str, float], ...]:
        """Epsilon that every filter would book for it in a new ledger; where another plan was the
        first, those that would book less."""
        found = booked_by_filters(plan, self.delta, self.rule.budget, self.relation, self.rule)
        own = dict(found).get(self.rule.kind, 0.0)
        return tuple(one for one in found if self.first or one[1] < own)


@define(eq=False, repr=False)
class GrantedPlan:
    """An open grant, inside the guard.

    Attributes:
        plan: the reserved composition node, as it was stored and read back.
        grant: the ledger's name for the reservation.
        vault: the rows it is for. data: a handle on them, to be shown.
        answer: what the settlement is to keep of its one release.
        score: what it is to say of the model that was fitted.
        shares: whether releases are shares of noise, as `Request.shares`.
        booking: how its charge was decided.
    """

    plan: Node
    grant: str
    vault: Vault
    data: Dataset
    _history: History = field(alias="history")
    _source: NoiseSource = field(alias="source")
    _scope: Scope | None = field(alias="scope", default=None)
    _on_release: Callable[[int], None] | None = field(alias="on_release", default=None)
    _shares: bool = field(alias="shares", default=False)
    booking: Booking | None = None
    _inside: Inside = field(init=False)
    _settlement: Settlement | None = field(init=False, default=None)
    _settled: bool = field(init=False, default=False)
    _lock: Mutex = field(init=False, factory=Mutex)
    _receipt: Callable[[], Receipt] | None = field(init=False, default=None)
    answer: Answer | None = field(init=False, default=None)
    score: PrivateScore | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._inside = Inside(
            self.vault, Pass(self.vault.identity, self._history), self._source,
            Meter(alone(self.plan) if self._shares else self.plan),
            ReleaseLog(), Spends(self._history, self._scope, self.covers, self.grant,
                                 self.vault.standing),
            self._history.state.policy)

    @property
    def covers(self) -> str:
        """Identity of the data the grant is for."""
        return self.vault.identity

    @property
    def active(self) -> bool:
        """Whether releases are still possible: not settled, and not in a forked child."""
        return self._inside.leave.active

    @property
    def touched(self) -> bool:
        """Whether rows were shown under the grant: by the vault's word."""
        return self._inside.leave.touched

    @property
    def releases(self) -> int:
        """How many releases were charged so far."""
        return len(self._inside.log)

    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        with self._lock:
            scope = self._inside.spends.open(node)
        step = Step(Context("filter", scope.name, caps=scope.node.caps))
        return Dataset(self.data.schema, self.data._vault, (step,), self.data.ledger)

    @observed("released")
    def release(self, mechanism: Any, query: Any, *, rollover: int = 0,
                under: Context | None = None) -> Any:
        with self._lock:
            if not self.active:
                raise NotGranted("the grant is settled. Nothing was read")
            answer = release(self._inside, mechanism, query, rollover, under)
        self._say()
        return answer

    def best_of(self, node: Any, candidates: int, trial: Trial, why: str,
                shown: Callable[[Any], Any]) -> Best | None:
        """As `Session.best_of`.

        Args:
            shown: what a learner gets for a `Branch`.
        """
        contest = Contest.of(node, candidates, trial, why)
        contest.check(self._inside.policy)
        with self._lock:
            if not self.active:
                raise NotGranted("the grant is settled. Nothing was read")
            best = contest.best(self._inside, self.data, self._branch, shown)
        self._say()
        return published_best(best)

    def within(self, node: Any, part: Any, shown: Callable[[Any], Any]) -> Dataset:
        """As `Session.within`.

        Args:
            shown: what a learner gets for a `Member`.
        """
        if type(part) is not Dataset or part._vault is not self.data._vault or [
                step.context.kind for step in part.steps] not in ([], ["part"]):
            raise InvalidValue("part", type(part).__name__,
                               "this session's data, or one part of a partition of it")
        if type(node) is not Parallel and part.steps:
            raise InvalidValue("node", type(node).__name__, "a Parallel of the reserved plan")
        check_node("node", node)
        own = from_json(to_json(node))
        steps = tuple(own_context(step.context) for step in part.steps)
        with self._lock:
            if not self.active:
                raise NotGranted("the grant is settled. Nothing was read")
            left = self._inside.meter
            if steps and isinstance(own, Parallel):
                left = left.bind(steps[0], own)
                own = own.nodes[steps[0].part]
            elif not left.covers(own):
                raise NotGranted("the reserved plan has not all of this node left. Nothing was "
                                 "read")
        inner = Member(own, self, steps, left)
        return Dataset(part.schema, part._vault, part.steps,
                       desk_of(self.data.ledger, inner, shown))

    def note_score(self, score: object) -> None:
        """As `Session.note_score`."""
        try:
            if type(score) is not PrivateScore or len(score.estimates) > MOST_FIGURES:
                raise TypeError
            end = encode(Settled(self.grant, True, 1, score=score))
            check_fields(SHAPES["settled"], end)
            if len(canonical(end)) > MOST_SCORE:
                raise ValueError
        except (PrivledgerError, TypeError, ValueError, AttributeError):
            raise InvalidValue("score", type(score).__name__, "a PrivateScore of finite numbers, "
                               f"of at most {MOST_FIGURES} figures") from None
        with self._lock:
            if not self.active:
                raise NotGranted("the grant is settled. Nothing was noted")
            # A copy of what was checked: the other one is the learner's to change.
            self.score = cast(Settled, decode("settled", end)).score

    def _say(self) -> None:
        if self._on_release is not None:
            self._on_release(self.releases)

    def _branch(self, plan: Node, vouched: bool) -> Branch:
        """A run inside this grant: a meter for `plan`, and nothing of its own to settle."""
        inner = Branch(plan, self.grant, self.vault, self.data, self._history, self._source)
        inner._inside = evolve(inner._inside, leave=self._inside.leave, vouched=vouched)
        return inner

    def close(self, failed: type[BaseException] | None = None, *,
              back: bool | None = False) -> None:
        """Itemise and settle in one durable transaction. A grant that touched nothing and
        failed is handed back, unless a part of its plan runs elsewhere, where it is not seen
        whether it did; any other keeps its whole charge.

        Args:
            back: hand it back although nothing failed; None for where that may be.

        Raises:
            NotGranted: `back`, of a grant that touched rows, may have run elsewhere, or is over.
            NotSettled: the ledger could not be written. Closing again tries again.
        """
        with self._lock:
            unused = not (self.touched or self._settled or len(self._inside.log)
                          or not self.active or runs_elsewhere(self.plan))
            back = unused if back is None else back
            if back and not unused:
                raise NotGranted("only an open grant that read nothing and has no external part "
                                 "can be handed back. Its charge stands")
            if self._settled or not self._inside.leave.at_home:
                return
            self._inside.leave.over = True
            self._inside.members.forget()
            self._inside.runs.clear()  # raw sums and thresholds' noise
            forget_dead(self.vault)
            if self._settlement is None:
                self._settlement = self._end(failed, back)
            settle(self._history, self._settlement)
            self.vault.forget(self._inside.members.session)
            note_over(self.grant)
            self._receipt = self._history.receipt_later()
            self._settled = True
        tell("settled", self)

    @property
    def receipt(self) -> Receipt | None:
        """The ledger's head after the grant was settled; None before."""
        return None if self._receipt is None else self._receipt()

    def _end(self, failed: type[BaseException] | None, back: bool) -> Settlement:
        """What is to be written at the end of this grant."""
        log, vectors, note, cap = self._inside.log, dict[str, bytes](), None, None
        for named, limit, stored in self._inside.spends.vectors():
            vectors |= stored
            note, cap = named, limit
        keep = (failed is None and not back) or self.touched or runs_elsewhere(self.plan)
        kind = Settled if keep else Aborted
        end = kind(
            self.grant, self.touched, len(log), now(),
            error=None if failed is None else public_name(failed), failed=failed is not None,
            vector=note, cap=cap,
            answer=self.answer if kind is Settled and failed is None else None,
            score=self.score if kind is Settled and failed is None and len(log) else None)
        released = log.events(self.grant, self._source.describe())
        return Settlement(self.grant, (*released, end), vectors, len(log))


@define(eq=False, repr=False)
class Branch(GrantedPlan):
    """One run inside a grant: its own meter, samples and coins, and nothing to settle.

    Attributes:
        ended: set when the run is over; its handles are worth nothing from then on.
    """

    ended: bool = field(init=False, default=False)

    @property
    def active(self) -> bool:
        """Whether the run and the grant around it still stand."""
        return not self.ended and self._inside.leave.active

    def take(self, plan: object, data: Dataset, named: Mapping[str, object]) -> Branch:
        """The run itself: what it may ask is its meter's affair."""
        return self

    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        """No individual filter has a proof inside a tuning."""
        raise NotGranted("an individual filter inside a tuning has no proof. Nothing was read")

    def close(self, failed: type[BaseException] | None = None, *,
              back: bool | None = False) -> None:
        """Nothing: the grant around the run settles, and no part of it is handed back."""
        if back:
            raise NotGranted("a run inside a tuning has no grant of its own to hand back")

    def end(self) -> None:
        """Over, with nothing kept: what a run released is in no entry."""
        self.ended = True
        self._inside.members.forget()
        self._inside.runs.clear()
        self.vault.forget(self._inside.members.session)


@define(eq=False, repr=False)
class Member:
    """One member of a grant's plan, for a learner on that part, or on all records.

    It has nothing of its own (docs/proofs/composition.md): releases are the grant's, in its log,
    with the part above them. A session of it opens and settles nothing.

    Attributes:
        plan: the member; of a session, what was asked for. whole: the grant.
        steps: the part; none for a member of a sequence, on all records.
    """

    plan: Node
    whole: GrantedPlan
    steps: tuple[Context, ...]
    _left: Meter = field(alias="left")
    _data: Dataset | None = field(alias="data", default=None)
    receipt: Receipt | None = field(init=False, default=None)
    booking: Booking | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        if runs_elsewhere(self.plan) or any(
                holds(self.plan, kind) for kind in (IndividualFilter, Tuning)):
            raise UnsupportedNode("no proof for handing on an individual filter, a tuning or an "
                                  "external run as a member. Nothing was read")

    @property
    def grant(self) -> str:
        """The grant's name."""
        return self.whole.grant

    @property
    def covers(self) -> str:
        """Identity of the data the grant is for."""
        return self.whole.covers

    @property
    def active(self) -> bool:
        """Whether the grant around it still stands."""
        return self.whole.active

    @property
    def releases(self) -> int:
        """How many releases were charged so far, in the whole grant."""
        return self.whole.releases

    @property
    def data(self) -> Dataset:
        """The handle that the session was asked for."""
        assert self._data is not None
        return self._data

    def take(self, plan: object, data: Dataset, named: Mapping[str, object]) -> Member:
        """What a session for `plan` stands for.

        Raises:
            NotGranted: the member has not all of it left; nothing was read.
        """
        check_node("plan", plan)
        if named.get("scope") is not None:
            raise NotGranted("a filter scope inside a part has no proof; nothing was read")
        if tuple(own_context(step.context) for step in data.steps) != self.steps:
            raise InvalidValue("data", type(data).__name__, "the handle that `within` gave")
        own = from_json(to_json(plan))  # type: ignore[arg-type]
        with self.whole._lock:
            if not self._left.covers(own):
                raise NotGranted("the plan is not the reserved member of this part, or that was "
                                 "used already. Nothing was read")
        return Member(own, self.whole, self.steps, self._left, data)

    def release(self, mechanism: object, query: object, *, rollover: int = 0) -> object:
        """A release of the grant, on this part."""
        return self.whole.release(mechanism, query, rollover=rollover,
                                  under=self.steps[0] if self.steps else None)

    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        """No individual filter has a proof inside a part."""
        raise NotGranted("an individual filter inside a part has no proof; nothing was read")

    def best_of(self, *given: object) -> Best | None:
        """No tuning is a member for another learner."""
        raise NotGranted("a tuning inside a part has no proof; nothing was read")

    def within(self, *given: object) -> Dataset:
        """Parts of parts are asked of the grant."""
        raise NotGranted("parts of a part have no member of their own; nothing was read")

    def note_score(self, score: object) -> None:
        """Nothing: a grant says how its own model did, not those of its parts."""

    def close(self, failed: type[BaseException] | None = None, *,
              back: bool | None = False) -> None:
        """Nothing: the grant around it settles, and no part of it is handed back."""
        if back:
            raise NotGranted("a member of a plan is no grant of its own: nothing to hand back")
