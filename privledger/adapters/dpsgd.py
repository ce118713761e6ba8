"""Noisy gradient descent of Opacus and jax-privacy, paid for before the first step.

Opacus calls its step hook after the noise and before the update, so a hook that raises stops the
step. The rate comes from the number of rows; 1/len(loader) is divided by the number of workers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NoReturn, Protocol

from privledger.errors import NotGranted, RelationMismatch, UnsupportedNode
from privledger.graph import PoissonSample, Repeat
from privledger.graph.additive import Gaussian
from privledger.graph.dp_events import from_dp_event
from privledger.guard.elsewhere import ForeignGrant
from privledger.guard.ledger import Ledger
from privledger.mutex import Uncopied
from privledger.rounding import count, positive, probability, up

SAMPLER = "UniformWithReplacementSampler"
"""Opacus' Poisson sampler. Fixed batches and shuffled passes cost many times as much."""
RELATIONS = {"ADD_OR_REMOVE_ONE": "add_remove", "REPLACE_ONE": "replace_one"}
"""jax-privacy's relations, by name; others are refused."""


class Optimizer(Protocol):
    """What is used of Opacus' `DPOptimizer`."""

    noise_multiplier: float
    accumulated_iterations: int
    expected_batch_size: int


class Loader(Protocol):
    """What is used of Opacus' `DPDataLoader`."""

    batch_sampler: object


class LedgerAccountant(Uncopied):
    """An accountant for Opacus that reserves a whole run and admits its steps one by one.

    Pass it as `PrivacyEngine().accountant`, then `check_loader` the loader it made. Copies are
    the same object; it cannot be pickled.
    """

    _UNPICKLED = "a {} cannot go to another process"

    def __init__(self, ledger: Ledger, *, table: str, rows: int, batch: int, noise: float,
                 steps: int, version: str, learner: str = "",
                 labels: Mapping[str, str] | None = None) -> None:
        """Reserve, durably, or refuse.

        Args:
            rows: public number of rows of the table. batch: expected size of a batch.
            noise: standard deviation over the clipping norm. steps: the most there will be.
            version: of Opacus. table, learner, labels: as of `Ledger.foreign`.

        Raises:
            BudgetExceeded: it does not fit; nothing was charged.
        """
        if ledger.relation != "add_remove":
            raise RelationMismatch("Opacus' Poisson samples are priced for add_remove")
        self.rows = count("rows", rows)
        size = count("batch", batch, most=self.rows)
        # A loader of so many batches samples at 1/batches, which rounding may have raised.
        self.rate = min(1.0, up(1 / math.floor(self.rows / size)))
        self.history: list[tuple[float, float, int]] = []
        step = PoissonSample(self.rate, Gaussian(positive("noise", noise)))
        self.grant: ForeignGrant = ledger.foreign(
            Repeat(step, count("steps", steps)), table=table, library="opacus", version=version,
            hook="step_hook", learner=learner, labels=labels)
        self._sampled = False

    def check_loader(self, loader: Loader) -> None:
        """Accept the loader only if it draws Opacus' own Poisson samples, at a rate that fits.

        Raises:
            NotGranted: no step is admitted with it.
        """
        sampler = loader.batch_sampler
        if type(sampler).__name__ != SAMPLER:
            raise NotGranted(f"batches of {type(sampler).__name__} are no Poisson samples: fixed "
                             "and shuffled batches cost more. Use the loader of make_private")
        rate = probability("sample_rate", getattr(sampler, "sample_rate", None), one=True)
        if rate > self.rate:
            raise NotGranted("the loader samples at a higher rate than was reserved")
        self._sampled = True

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Optimizer], None]:
        """What Opacus calls between noise and update."""
        named = probability("sample_rate", sample_rate, one=True)

        def hook(optimizer: Optimizer) -> None:
            if not self._sampled:
                raise NotGranted("show the loader to check_loader before the first step")
            if type(optimizer).__name__.startswith("Distributed"):
                raise NotGranted("several workers: each samples a part, and rates are divided; "
                                 "the step must not count")
            if count("accumulated_iterations", optimizer.accumulated_iterations) > 1:
                raise NotGranted("several samples in one step: a row may be in more than one, and "
                                 "move it more than its clip; the step must not count")
            expected = count("expected_batch_size", optimizer.expected_batch_size)
            self.step(noise_multiplier=optimizer.noise_multiplier,
                      sample_rate=max(named, min(1.0, expected / self.rows)))

        return hook

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Admit one step, or raise: then Opacus updates nothing."""
        self.grant.step(noise=noise_multiplier, rate=sample_rate)
        last = self.history[-1] if self.history else None
        if last is not None and last[:2] == (noise_multiplier, sample_rate):
            self.history[-1] = (*last[:2], last[2] + 1)
        else:
            self.history.append((noise_multiplier, sample_rate, 1))

    def get_epsilon(self, delta: float) -> NoReturn:
        """The ledger says what the run costs, whole and beforehand."""
        raise UnsupportedNode("ask the ledger: `privledger explain LEDGER GRANT`")

    def __len__(self) -> int:
        return self.grant.taken

    @classmethod
    def mechanism(cls) -> str:
        """Opacus' name for who accounts."""
        return "privledger"

    def close(self) -> None:
        """The run is over; its whole charge stays."""
        self.grant.close()


class ExecutionPlan(Protocol):
    """What is used of jax-privacy's `DPExecutionPlan`."""

    dp_event: object
    neighboring_relation: object


def reserve_plan(ledger: Ledger, plan: ExecutionPlan, *, table: str, version: str,
                 learner: str = "", labels: Mapping[str, str] | None = None) -> ForeignGrant:
    """Reserve what a jax-privacy plan will run, durably; it is on its word that it runs that.

    Raises:
        RelationMismatch: it is stated for other neighbours than the ledger's.
        UnsupportedNode: its event has no price here.
        BudgetExceeded: it does not fit; nothing was charged.
    """
    named = getattr(plan.neighboring_relation, "name", "")
    if RELATIONS.get(named) != ledger.relation:
        raise RelationMismatch(f"the plan is stated for {named or 'no known relation'}, the ledger "
                               f"for {ledger.relation}")
    # The names are those of the table above, checked against the ledger's own relation.
    node = from_dp_event(plan.dp_event, "replace_one" if ledger.relation == "replace_one"
                         else "add_remove")
    return ledger.foreign(node, table=table, library="jax-privacy", version=version,
                          hook="dp_event", learner=learner, labels=labels)
