"""The best of a random number of trials, under a `Tuning` node (docs/proofs/tuning.md).

The number of trials and the candidate of each are drawn here, from the ledger's own source, after
the node was taken off the grant. Each trial gets a meter of its own for the node's inside, so no
trial can ask for more than one run. The ledger itemises one release, the node: the number of
trials, and what the others released, are in no entry. Only the best trial's answer is returned.

In one process the caller's code sees every trial while it runs. The theorem covers publishing
the best one only: a caller that keeps, shows or acts upon another one has left it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from attrs import field, frozen

from privledger.accounting.tuning import negative_binomial_mean
from privledger.errors import InvalidValue, NotGranted
from privledger.graph import Node, Tuning, from_json, to_json
from privledger.guard.dataset import Dataset
from privledger.guard.inside import Inside, observed
from privledger.guard.opaque import Opaque
from privledger.guard.policing import keep_policy
from privledger.guard.vault import _behind, _hide
from privledger.ledger import Budget, Origins, Policy
from privledger.noise.trials_law import TrialsLaw, number_of_trials
from privledger.rounding import MOST_COUNT, count

Trial = Callable[[Dataset, int], tuple[float, Any]]
QUESTION = "the best of a random number of trials"


@frozen(eq=False)
class Best:
    """What a tuning publishes.

    Attributes:
        score: of the best trial. candidate: its number, from 0. output: what it returned.
    """

    score: float
    candidate: int
    output: Any = field(repr=False)


class Inner(Protocol):
    """A part of a grant: what the sessions of its own handles stand for, until it is over."""

    @property
    def active(self) -> bool:
        """Whether it may still release."""

    def take(self, plan: object, data: Dataset, named: Mapping[str, object]) -> Inner:
        """What a session for `plan` stands for."""


class TuningRun(Inner, Protocol):
    """One run inside a grant, for one trial."""

    def end(self) -> None:
        """Make every handle of it worth nothing."""


Branching = Callable[[Node, bool], TuningRun]
"""Opens a run for a plan; whether an author vouches for what it asserts."""
Shown = Callable[[Any], Any]
"""What a learner gets for a run."""


class Desk(Opaque):
    """What handles inside a grant call their ledger: requests draw on the trial, or on the member
    of the grant's plan, that they are for; never on the budget."""

    __slots__ = ()

    @property
    def relation(self) -> str:
        """The neighbouring relation of the promise."""
        return str(_desk(self)[0].relation)

    @property
    def mode(self) -> str:
        """`private`, or `simulation`: NOT PRIVATE."""
        return str(_desk(self)[0].mode)

    @property
    def budget(self) -> Budget:
        """The promise, for everything that will ever be released."""
        found: Budget = _desk(self)[0].budget
        return found

    @property
    def left(self) -> float:
        """Nothing: what is inside a grant has no part of the budget."""
        return 0.0

    def request(self, plan: Any, data: Any, **named: Any) -> Any:
        """Open part of a trial, or of a member; each release is checked against what is left.

        Args:
            plan: what will be asked: of a trial for the caller to read, of a member to be
                checked. named: as in `Ledger.request`, and ignored: the grant around says who
                asks.
        """
        _, inner, shown = _desk(self)
        if type(data) is not Dataset or data.ledger is not self:
            raise InvalidValue("data", type(data).__name__, "a handle of this trial, or part")
        if not inner.active:
            raise NotGranted("the grant or the trial has ended. Nothing was read")
        return shown(inner.take(plan, data, named))

    def __repr__(self) -> str:
        return repr(_desk(self)[0])


def _desk(desk: object) -> tuple[Any, Inner, Shown]:
    found: tuple[Any, Inner, Shown] | None = _behind(desk) if type(desk) is Desk else None
    if found is None:
        raise NotGranted("this handle has no grant. Nothing was read")
    return found


def desk_of(ledger: Any, inner: Inner, shown: Shown) -> Desk:
    """A desk whose sessions stand for `inner`, and what it says of the promise is `ledger`'s."""
    desk = Desk()
    _hide(desk, (ledger, inner, shown))
    return desk


@frozen(eq=False)
class Contest:
    """What `Session.best_of` was asked for, checked.

    Attributes:
        node: a copy that its holder cannot change, equal to a reserved one or to none.
        candidates, trial, why: as there.
    """

    node: Tuning
    candidates: int
    trial: Trial
    why: str

    @classmethod
    def of(cls, node: Any, candidates: Any, trial: Any, why: str) -> Contest:
        """A contest between so many candidates.

        Raises:
            InvalidValue: no Tuning node, no count, or nothing that can be called.
        """
        kept, most = _own(node), int(count("candidates", candidates, most=MOST_COUNT))
        if not callable(trial):
            raise InvalidValue("trial", type(trial).__name__,
                               "a function of a handle and a number")
        return cls(kept, most, trial, why)

    @property
    def question(self) -> str:
        """What the ledger records."""
        return f"asserted: {QUESTION} ({self.why})" if self.why else QUESTION

    def check(self, policy: Policy | None) -> None:
        """Raise `PolicyViolation` if it is asserted and the policy allows no such thing."""
        if self.why:
            keep_policy(policy, Origins(asserted=(self.question,)))

    def best(self, inside: Inside, data: Dataset, branch: Branching, shown: Shown) -> Best | None:
        """Charge the node, and run the trials. Of equal scores the first stays: trials are
        exchangeable, so it is a fair coin. None if a Poisson number was 0."""
        node = self.node
        law = TrialsLaw(node.distribution, node.shape, node.success, node.mean)
        runs = number_of_trials(law, _mean(node), inside.source)
        inside.charge(node, (), self.question, 1)
        best: Best | None = None
        for _ in range(runs):
            candidate = inside.source.integer_below(self.candidates)
            found = self._one(branch(node.node, bool(self.why)), data, candidate, shown)
            if best is None or found.score > best.score:
                best = found
        return best

    def _one(self, inner: TuningRun, data: Dataset, candidate: int, shown: Shown) -> Best:
        """A trial that fails is an answer of lowest rank: leaving it out would change the law."""
        desk = desk_of(data.ledger, inner, shown)
        try:
            score, output = self.trial(Dataset(data.schema, data._vault, (), desk), candidate)
            return Best(self._score(score), candidate, output)
        except Exception as error:
            return Best(-math.inf, candidate, _Failed(error))
        finally:
            inner.end()

    @observed("scored")
    def _score(self, said: Any) -> float:
        score = float(said)
        return score if not math.isnan(score) else -math.inf


@frozen(eq=False)
class _Failed:
    error: Exception


def published_best(best: Best | None) -> Best | None:
    """The best run, or what it raised if all of them failed."""
    if best is not None and isinstance(best.output, _Failed):
        raise best.output.error
    return best


def _own(node: Any) -> Tuning:
    if type(node) is not Tuning:
        raise InvalidValue("node", type(node).__name__, "a Tuning node of the reserved plan")
    kept = from_json(to_json(node))
    assert isinstance(kept, Tuning)
    return kept


def _mean(node: Tuning) -> float:
    if node.distribution == "poisson":
        return node.mean
    return negative_binomial_mean(node.shape, node.success)
