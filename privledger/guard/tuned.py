"""The best of a random number of trials, under a `Tuning` node (docs/proofs/tuning.md).

The number of trials and the candidate of each are drawn here, from the ledger's own source, after
the node was taken off the grant. Each trial gets a meter of its own for the node's inside, so no
trial can ask for more than one run. The ledger itemises one release, the node: the number of
trials, and what the others released, are in no entry. Only the best trial's answer is returned.

In one process the caller's code sees every trial while it runs. The theorem covers publishing
the best one only: whoever keeps, shows or acts upon another one has left it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import field, frozen

from privledger.accounting.tuning import negative_binomial_mean
from privledger.errors import InvalidValue, NotGranted
from privledger.graph import Tuning, from_json, to_json
from privledger.guard.dataset import Dataset
from privledger.guard.handle import Session, _Opaque, _session
from privledger.guard.hidden import _behind, _hide
from privledger.guard.policing import keep
from privledger.ledger import Budget, Origins
from privledger.noise.trials_law import TrialsLaw, number_of_trials
from privledger.rounding import MOST_COUNT, count

if TYPE_CHECKING:
    from privledger.guard.session import Branch, Granted

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


class Desk(_Opaque):
    """What a trial's handles call their ledger: requests draw on the trial, not on the budget."""

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
        """Nothing: a trial has its own meter, and no part of the budget."""
        return 0.0

    def request(self, plan: Any, data: Any, **named: Any) -> Session:
        """Open part of a trial; each release is checked against what the trial has left.

        Args:
            plan: what will be asked; for the caller to read. named: as in `Ledger.request`, and
                ignored: the grant around the trials says who asks.
        """
        inner = _desk(self)[1]
        if type(data) is not Dataset or data.ledger is not self:
            raise InvalidValue("data", type(data).__name__, "a handle of this trial")
        if not inner.active:
            raise NotGranted("the trial is over; nothing was read")
        return _session(inner)

    def __repr__(self) -> str:
        return repr(_desk(self)[0])


def _desk(desk: object) -> tuple[Any, Branch]:
    found: tuple[Any, Branch] | None = _behind(desk) if type(desk) is Desk else None
    if found is None:
        raise NotGranted("no trial stands behind this handle; nothing was read")
    return found


def best_of(session: Granted, node: Any, candidates: int,
            trial: Trial, why: str) -> Best | None:
    """As `Session.best_of`."""
    kept = _own(node)
    candidates = int(count("candidates", candidates, most=MOST_COUNT))
    if not callable(trial):
        raise InvalidValue("trial", type(trial).__name__, "a function of a handle and a number")
    question = f"asserted: {QUESTION} ({why})" if why else QUESTION
    if why:
        keep(session._history.state.policy, Origins(asserted=(question,)))
    law = TrialsLaw(kept.distribution, kept.shape, kept.success, kept.mean)
    with session._lock:
        if not session.active:
            raise NotGranted("the grant is over; nothing was read")
        runs = number_of_trials(law, _mean(kept), session._source)
        session.charge(kept, (), question, 1)
        session._pass.touched = True
        best = _best(session, kept, runs, candidates, trial, bool(why))
    if session._on_release is not None:
        session._on_release(session.releases)
    if best is not None and isinstance(best.output, _Failed):
        raise best.output.error
    return best


@frozen(eq=False)
class _Failed:
    error: Exception


def _best(session: Granted, node: Tuning, runs: int, candidates: int,
          trial: Trial, vouched: bool) -> Best | None:
    """Run them. Of equal scores the first stays: trials are exchangeable, so it is a fair coin."""
    best: Best | None = None
    for _ in range(runs):
        found = _one(session, node, session._source.integer_below(candidates), trial, vouched)
        if best is None or found.score > best.score:
            best = found
    return best


def _one(session: Granted, node: Tuning, candidate: int,
         trial: Trial, vouched: bool) -> Best:
    """A trial that fails is an answer of lowest rank: leaving it out would change the law."""
    inner, data = session.branch(node.node, vouched), session.data
    desk = Desk()
    _hide(desk, (data.ledger, inner))
    try:
        score, output = trial(Dataset(data.schema, data._vault, (), desk), candidate)
        score = float(score)
        return Best(score if not math.isnan(score) else -math.inf, candidate, output)
    except Exception as error:
        return Best(-math.inf, candidate, _Failed(error))
    finally:
        inner.end()


def _own(node: Any) -> Tuning:
    """A copy that its holder cannot change, equal to a reserved one or to none."""
    if type(node) is not Tuning:
        raise InvalidValue("node", type(node).__name__, "a Tuning node of the reserved plan")
    kept = from_json(to_json(node))
    assert isinstance(kept, Tuning)
    return kept


def _mean(node: Tuning) -> float:
    if node.distribution == "poisson":
        return node.mean
    return negative_binomial_mean(node.shape, node.success)
