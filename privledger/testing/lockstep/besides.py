"""What a lock asks once of a learner: tables far apart, histories read twice, plain tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from privledger.errors import PrivledgerError
from privledger.guard import Ledger
from privledger.ledger import Budget
from privledger.ledger.filters import KINDS
from privledger.noise.seeded import Generator, generator, repeatable
from privledger.testing.examples import Example
from privledger.testing.fitting import fresh, protect
from privledger.testing.lockstep.kept import Broken, Run
from privledger.testing.lockstep.lock import steady_of
from privledger.testing.lockstep.parting import parted
from privledger.testing.lockstep.probing import probed
from privledger.testing.lockstep.replay import AMPLE, Fitting, unit_of
from privledger.testing.lockstep.rereading import reread
from privledger.testing.lockstep.sampling import samples_of
from privledger.testing.lockstep.tap import Steering, Tap
from privledger.testing.lockstep.tunings import losers_told
from privledger.testing.replaying import others_of


def besides(fitting: Fitting, table: Example, rng: Generator) -> Iterator[Broken]:
    """P1 on tables that share nothing, both verifiers on the histories, and P7."""
    yield from _far(fitting, table, rng)
    yield from _charges(fitting, table)
    yield from losers_told(fitting, table, rng)
    yield from probed(fitting, table, rng)


def _far(fitting: Fitting, table: Example, rng: Generator) -> Iterator[Broken]:
    """With equal answers no table makes another run: what follows from an exact count or from an
    extreme shows here, where one record more would hide it."""
    taps = [generator(int(seed)) for seed in rng.integers(0, 1 << 62, size=4)]
    first = Tap(taps[0], Steering(uniform=0.5))
    real = fitting.run(table, first, again=True)
    yield from real.wrong
    yield from (Broken("P5", -1, why) for why in real.samples)
    if real.failed:
        yield Broken("P1", -1, f"the fit on the example fails: {real.failed}")
    told = tuple(one.answer for one in real.releases)
    again = fitting.run(table, Tap(taps[1], script=tuple(first.draws)), told)
    steady = steady_of(real, again)
    if any(one.vectors for one in real.grants) and any(map(samples_of, real.releases)):
        yield from _before_samples(real, fitting.run(
            table, Tap(generator(int(taps[3].integers(0, 1 << 62))), script=tuple(first.draws),
                       shared=False), told))
    for place, (name, other) in enumerate(others_of(table, fitting.relation).items()):
        # Draws are fresh: coins and words of other records are others.
        run = fitting.run(other, Tap(taps[2 + place % 2], script=tuple(first.draws)), told)
        yield from parted(real, run, f"with {name}", steady)


def _before_samples(real: Run, again: Run) -> Iterator[Broken]:
    """P6: an individual filter stands above a sample: who pays does not follow from its coins."""
    for one, other in zip(real.grants, again.grants, strict=False):
        for (_, taken, rounds), (_, others, turns) in zip(one.vectors, other.vectors,
                                                         strict=False):
            if not real.by_person and not (np.array_equal(taken, others)
                                           and np.array_equal(rounds, turns)):
                yield Broken("P6", -1, "what a record pays depends on the coins of a sample: it "
                                       "was drawn before the filter")
                return


def _charges(fitting: Fitting, table: Example) -> Iterator[Broken]:
    """What every kind of filter books for the same plan is priced again by a second reader."""
    if fitting.plain:
        return
    # An ample budget admits what adds up badly; a tight one is where delta is made use of.
    for kind, factor in (("basic", AMPLE), *((kind, 8.0) for kind in KINDS)):
        budget = Budget(float(fitting.learner.epsilon) * factor, min(factor * fitting.delta, 0.5))
        try:
            ledger = Ledger.create(None, budget=budget, relation=fitting.relation, filter=kind,
                                   mode="simulation", seed=0, **unit_of(table))
            with repeatable(fitting.seed):
                fresh(fitting.learner).fit(protect(ledger, table))
        except PrivledgerError:  # it counts no such plan, or has no theorem for this delta
            continue
        yield from reread(ledger)
