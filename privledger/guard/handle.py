"""What a learner holds: a session and a view of its ledger. Neither has a field that leads on.

Whatever is handed out here is a copy of the learner's own, and errors leave without the frames
below, because those frames hold the grant, its history and the rows' guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from html import escape
from inspect import signature
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from privledger.errors import BudgetExceeded, NotGranted, PolicyViolation
from privledger.findings import Finding
from privledger.graph import IndividualFilter, Node, from_json, to_json
from privledger.guard.dataset import Dataset
from privledger.guard.opaque import Opaque, bare
from privledger.guard.recalled import Answered
from privledger.guard.service import LedgerService, Request
from privledger.guard.session import GrantedPlan, Member
from privledger.guard.spends import Scope
from privledger.guard.tuned import Best, Trial
from privledger.guard.vault import _behind, _hide
from privledger.ledger import Budget, Receipt
from privledger.ledger.events import PrivateScore

Given = ParamSpec("Given")
Found = TypeVar("Found")


def _bared(method: Callable[Given, Found]) -> Callable[Given, Found]:
    """A method whose errors leave without the frames below."""

    @wraps(method)
    def asked(*given: Given.args, **named: Given.kwargs) -> Found:
        try:
            return method(*given, **named)
        except BaseException as error:
            raise bare(error) from None

    # What it takes is still shown, and no attribute leads past it.
    vars(asked)["__signature__"] = signature(method)
    del vars(asked)["__wrapped__"]
    return asked


class Session(Opaque):
    """An open grant. Use it as a context manager; leaving it settles the grant.

    Made by `request`. It holds nothing: what it says and does is done behind it.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("sessions are made by Ledger.request")

    @property
    def plan(self) -> Node:
        """The reserved composition node: a copy, as it was read back from the ledger."""
        return from_json(to_json(_granted(self).plan))

    @property
    def grant(self) -> str:
        """The ledger's name for the reservation."""
        return _granted(self).grant

    @property
    def covers(self) -> str:
        """Identity of the data the grant is for."""
        return _granted(self).covers

    @property
    def active(self) -> bool:
        """Whether releases are still possible: not settled, and not in a forked child."""
        return _granted(self).active

    @property
    def data(self) -> Dataset:
        """The handle the grant was given for."""
        return _granted(self).data

    @property
    def releases(self) -> int:
        """How many releases were charged so far."""
        return _granted(self).releases

    @property
    def receipt(self) -> Receipt | None:
        """The ledger's head after the grant was settled; None before."""
        return _granted(self).receipt

    @property
    def fixes(self) -> tuple[tuple[str, float], ...]:
        """Where this plan fixed the ledger's filter for life, as the first one in a ledger of
        `filter="auto"`: every filter that the ledger could have had, and the epsilon that it would
        have booked for the plan; else empty. `Ledger.create(filter=...)` chooses beforehand."""
        booking = _granted(self).booking
        return booking.by_filters(self.plan) if booking is not None and booking.first else ()

    @property
    def cheaper(self) -> tuple[tuple[str, float], ...]:
        """Where an earlier plan fixed the filter: those that would have booked less for this one
        in a new ledger, and the epsilon."""
        booking = _granted(self).booking
        return () if booking is None or booking.first else booking.by_filters(self.plan)

    @_bared
    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        """The data behind an individual filter: the reserved `node`, or the session's scope.

        Every release on the handle first charges each record its own cost and leaves out the
        records that cannot pay.
        """
        return _granted(self).filtered(node)

    @_bared
    def release(self, mechanism: Any, query: Any, *, rollover: int = 0) -> Any:
        """Answer `query` with exact noise, after taking the release off the grant.

        Mechanism and query are copied first: changing them meanwhile changes nothing.

        Args:
            mechanism: `Gaussian` or `Laplace` for a `Query`, and `DiscreteLaplace` or
                `DiscreteGaussian` where one number moves by whole steps; `Exponential`,
                `PermuteAndFlip` or `ReportNoisyMax` (exponential or Gumbel noise) for a `Choice`,
                `LabelChoice`, `QuantileChoice` or `FeatureChoice`; `TopK` for a `FeatureChoice`;
                `RandomizedResponse` for `data.labels()` and `data.responses(name)`;
                `SparseVector` for what `data.sparse_vector()` asks; a whole `Correlated` for each
                step of a `data.correlated()`. Equal
                to a node that the plan still holds under the handle's derivation.
            query: from a handle of this session's data.
            rollover: under a filter, the number of rounds left: each record's contribution is
                scaled down to what it can still pay per round, so none is left out.

        Returns:
            One array per block (the array itself for one block), of shape (cells, width) with
            unit dimensions dropped; a `Picked` for a `Choice`, class numbers of shape
            (leaves,) for a `LabelChoice`, positions of features for a `FeatureChoice`; 1 for
            above and 0 for below, for `SparseVector`.

        Raises:
            NotGranted: nothing reserved covers it; nothing was read.
            PolicyViolation: the ledger's policy forbids asserted queries; nothing was read.
            UnsupportedNode: no exact sampler, or a sensitivity larger than the mechanism says.
        """
        return _granted(self).release(mechanism, query, rollover=rollover)

    @_bared
    def best_of(self, node: Any, candidates: int, trial: Trial, *, why: str = "") -> Best | None:
        """Run `trial` a secret, random number of times, and return the best of what it returned.

        Args:
            node: a `Tuning` node of the plan; each run may release what its inside says, once.
            candidates: how many there are; each run gets the number of one, drawn uniformly.
            trial: takes a handle of its own and a candidate's number, from 0. It asks
                `handle.ledger.request` for sessions, and returns a score computed from releases
                alone, and anything. What a run knows, stores, prints or raises stays with it:
                only what the best one returned is published.
            why: where a run asks something asserted, the reason, for the ledger.

        Returns:
            `score`, `candidate` and `output` of the best run; None if a Poisson number was 0.

        Raises:
            NotGranted: the plan holds no such node any more; nothing was read.
            PolicyViolation: the ledger's policy forbids asserted queries; nothing was read.
            Exception: the best run failed, as all others did then: what it raised.
        """
        return _granted(self).best_of(node, candidates, trial, why, _session)

    @_bared
    def within(self, node: Any, part: Dataset) -> Dataset:
        """A handle for a learner's `fit`, or another caller that asks a ledger for sessions: its
        requests draw on a member of this grant's plan.

        Args:
            node: the `Parallel` node of the plan that the partition is for; with `part` the whole
                data any node that the plan has left, such as a member of a `Sequential`.
            part: one part of a partition of this session's data, `data.partition(...)[0]`, or
                that data as it is.

        Returns:
            A handle like `part`. A request on its `ledger` is granted for units that the member
            has left; what is released there is this grant's, and settles with it.

        Raises:
            NotGranted: the plan has no such node left; nothing was read.
            UnsupportedNode: a member with an individual filter or a tuning.
        """
        return _granted(self).within(node, part, _session)

    @_bared
    def note_score(self, score: PrivateScore) -> None:
        """Let the settlement say how the model did that was fitted under this grant.

        Args:
            score: `privledger.plugins.PrivateScore`, made of what was released. It is published in
                the history, by the learner's word; of a part or a trial nothing is written.

        Raises:
            InvalidValue: another thing, not finite, or too long. NotGranted: the grant is over.
        """
        _granted(self).note_score(score)

    @_bared
    def close(self, failed: type[BaseException] | None = None, *, back: bool = False) -> None:
        """Itemise and settle in one durable transaction. A grant that touched nothing and
        failed is handed back; any other keeps its whole charge: one that is closed by hand says
        that its work was done, which is not seen from here. A `with` block that touched nothing is
        handed back however it ends, unless a part of its plan runs elsewhere.

        Args:
            back: nothing was done: hand it back although nothing failed.

        Raises:
            NotGranted: `back`, and it read rows, a part of its plan runs elsewhere, or it is
                over. The charge stays.
        """
        _granted(self).close(failed, back=back)

    def __enter__(self) -> Session:
        return self

    @_bared
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        _granted(self).close(kind, back=None)

    def __repr__(self) -> str:
        held = _granted(self)
        state = "open" if held.active else "closed"
        fixed = (f", fixed the filter {held.booking.rule.kind} for life: see fixes"
                 if held.booking is not None and held.booking.first else "")
        return f"Session({held.grant}, {state}, {held.releases} releases{fixed})"


class LedgerHandle(Opaque):
    """What a learner may ask of the ledger behind its data. `Ledger` is for the ledger's owner.

    It can spend what is left, as every holder of guarded data can, and read totals. It cannot
    protect or append tables, look at records or at the history, correct, or close.
    """

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("a ledger's handle comes with guarded data")

    @property
    def relation(self) -> str:
        """The neighbouring relation of the promise."""
        return _ledger(self).relation

    @property
    def mode(self) -> str:
        """`private`, or `simulation`: NOT PRIVATE."""
        return _ledger(self).mode

    @property
    def budget(self) -> Budget:
        """The promise, for everything that will ever be released."""
        return _ledger(self).budget

    @property
    @_bared
    def spent(self) -> float:
        """As `Ledger.spent`."""
        return _ledger(self).spent

    @property
    @_bared
    def left(self) -> float:
        """As `Ledger.left`."""
        return _ledger(self).left

    @property
    @_bared
    def receipt(self) -> Receipt:
        """As `Ledger.receipt`."""
        return _ledger(self).receipt

    @_bared
    def request(self, plan: Node, data: Dataset, *, learner: str = "",
                delta: float = 0.0, scope: Scope | None = None,
                labels: Mapping[str, str] | None = None, lease: float | None = None,
                claimed: float | None = None, wait: float | None = None) -> Session:
        """As `Ledger.request`."""
        return _request(self, Request(
            plan, data, learner, delta, scope, labels, lease, claimed, wait))

    @_bared
    def answer(self, mechanism: Node, query: object, *, keep: bool = False, learner: str = "",
               labels: Mapping[str, str] | None = None, delta: float = 0.0) -> Answered:
        """As `Ledger.answer`."""
        return _ledger(self).answer(mechanism, query, keep=keep, learner=learner,
                                    labels=labels, delta=delta)

    @_bared
    def would_grant(self, plan: Node, data: Dataset, *, learner: str = "", delta: float = 0.0,
                    labels: Mapping[str, str] | None = None
                    ) -> BudgetExceeded | PolicyViolation | None:
        """As `Ledger.would_grant`."""
        return _ledger(self).would_grant(plan, data, learner=learner, delta=delta,
                                         labels=labels)

    @_bared
    def open_scope(self, node: IndividualFilter, *, name: str | None = None,
                   delta: float = 0.0) -> Scope:
        """As `Ledger.open_scope`."""
        return _ledger(self).open_scope(node, name=name, delta=delta)

    @_bared
    def verify(self) -> list[Finding]:
        """As `Ledger.verify`: what is wrong with the history, if anything is."""
        return _ledger(self).verify()

    def __repr__(self) -> str:
        ledger = _ledger(self)  # where it lies is its owner's affair
        return repr(ledger).replace(f"{ledger.path}, ", "", 1)

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def _session(granted: GrantedPlan | Member) -> Session:
    """What a learner gets for a grant."""
    session = object.__new__(Session)
    _hide(session, granted)
    return session


def _granted(session: object) -> GrantedPlan | Member:
    found: GrantedPlan | Member | None = _behind(session) if type(session) is Session else None
    if found is None:
        raise NotGranted("this session has no grant. Nothing was read")
    return found


def _request(handle: LedgerHandle, asked: Request) -> Session:
    """As `Ledger.request`, by a caller that vouches for what `asked` says."""
    return _session(_ledger(handle)._grant(asked, handle))


def _handle_of(ledger: LedgerService) -> LedgerHandle:
    """A learner's view of a ledger. It keeps the ledger alive; never the other way round."""
    handle = object.__new__(LedgerHandle)
    _hide(handle, ledger)
    return handle


def _ledger(handle: object) -> LedgerService:
    """The ledger behind a handle: for the package itself.

    Raises:
        NotGranted: no ledger's handle.
    """
    found: LedgerService | None = _behind(handle) if type(handle) is LedgerHandle else None
    if found is None:
        raise NotGranted("this handle has no ledger. Nothing was read")
    return found
