"""`lockstep`: locks on one pair of tables after another, until time is up or a premise breaks."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from itertools import count as count_from
from statistics import fmean
from typing import Any

import numpy as np
from attrs import define, evolve, field, frozen

from privledger.accounting import UNITS, Relation, check_relation
from privledger.errors import (
    InvalidValue,
    PrivledgerError,
    RelationMismatch,
    SchemaError,
    UnsupportedNode,
    public_name,
)
from privledger.ledger import Budget
from privledger.ledger.filters import KINDS
from privledger.noise.seeded import Generator, generator, repeatable
from privledger.plugins import Priced
from privledger.reading import stepwise
from privledger.rounding import count, positive
from privledger.testing.examples import Example, examples_for, others_of
from privledger.testing.fitting import fresh, protect_example, relation_of, takes_tables
from privledger.testing.lockstep.kept import Broken, RecordedRun, parted
from privledger.testing.lockstep.lock import Lock, arriving, fitting_of
from privledger.testing.lockstep.neighbours import Pair, crowded, first_pairs, in_crowds, neighbours
from privledger.testing.lockstep.probing import probed
from privledger.testing.lockstep.replay import AMPLE, Fitting, replays, reread, steady_of
from privledger.testing.lockstep.sampling import samples_of
from privledger.testing.lockstep.tunings import losers_told
from privledger.testing.lockstep.witnesses import BoundRule, LockCase
from privledger.testing.lockstep.worst_tables import climbing

# What a lock asks once of a learner: tables far apart, histories read twice, plain tables.


def _far(fitting: Fitting, table: Example, rng: Generator) -> Iterator[Broken]:
    """With equal answers no table makes another run: what follows from an exact count or from an
    extreme shows here, where one record more would hide it."""
    real, again = replays(fitting, table, rng, reread=True)
    yield from real.wrong
    yield from (Broken("P5", -1, why) for why in real.samples)
    if real.failed in REFUSALS and all(one.failed for one in real.releases):
        yield Broken("", -1, f"the fit on the example is refused: {real.failed}")
    elif real.failed:
        yield Broken("P1", -1, f"the fit on the example fails: {real.failed}")
    steady = steady_of(real, again(table))
    if any(one.vectors for one in real.grants) and any(map(samples_of, real.releases)):
        yield from _before_samples(real, again(table, shared=False))
    for name, other in others_of(table, fitting.relation).items():
        # Draws are fresh: coins and words of other records are others.
        yield from parted(real, again(other), f"with {name}", steady)


def _before_samples(real: RecordedRun, again: RecordedRun) -> Iterator[Broken]:
    """P6: an individual filter stands above a sample: who pays does not follow from its coins."""
    for one, other in zip(real.grants, again.grants, strict=False):
        for (_, taken, rounds), (_, others, turns) in zip(one.vectors, other.vectors, strict=False):
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
            ledger = fitting.ledger(table, budget, filter=kind)
            with repeatable(fitting.seed):
                fresh(fitting.learner).fit(protect_example(ledger, table))
        except PrivledgerError:  # it counts no such plan, or has no theorem for this delta
            continue
        yield from reread(ledger)


MOST_ROWS = 400
"""Of a searched table: every lock fits it three times."""

REFUSALS = {public_name(kind) for kind in (UnsupportedNode, RelationMismatch, SchemaError)}
"""Of a fit that is not for such tables. It released nothing, so no premise is broken, or holds."""

FIRST_PLAIN = 20
"""Pairs of plain tables that are always looked at, whatever the time."""

EARLY = 0.25
"""Part of the time for locks before what is asked once."""

HEAD_START = 0.25
"""Seconds of climbing before more plain tables."""

SHRINKING = 0.5
"""Seconds spent on a smaller witness once a premise is broken."""


@frozen
class Verdict:
    """What an audit by replay found.

    Attributes:
        holds: whether every premise held on every path that was looked at. No proof of others.
            Neither where one is broken, nor where something was released that no lock replays.
        premise: `P1` to `P7`, or empty where none is broken.
        release: its number, -1 for the whole fit.
        why: in words.
        ratio: the worst loss found over its price; at most 1 where all holds.
        tables: how many pairs of neighbouring tables were fitted.
        witness: the worst pair, or the broken one, as JSON that `replay_witness` runs again.
        seconds: of processor time.
        replayable: whether every release could be replayed; if not, `why` says which, and nothing
            is known of what it costs.
    """

    holds: bool
    premise: str
    release: int
    why: str
    ratio: float
    tables: int
    witness: dict[str, Any] = field(repr=False)
    seconds: float
    replayable: bool

    @property
    def word(self) -> str:
        """One of `holds`, `broken` and `not replayable`."""
        return "broken" if self.premise else "holds" if self.replayable else "not replayable"

    def as_json(self) -> str:
        """The witness, for a file."""
        return json.dumps(self.witness, indent=1, sort_keys=True)


@define(eq=False)
class Audit:
    """One audit under way.

    Attributes:
        until: processor time at which it ends.
    """

    learner: Priced
    relation: Relation
    unit: str
    seed: int
    start: float
    until: float
    tables: int = 0
    looked: int = 0
    best: tuple[Lock, LockCase] | None = None
    unknown: Broken | None = None

    @property
    def plain(self) -> bool:
        """Whether the learner is given plain tables, too."""
        return self.unit == "row" and takes_tables(self.learner)

    def more(self) -> bool:
        """Whether there is time for another lock; the first few always happen."""
        return time.process_time() < self.until

    def lock(self, pair: Pair, manner: BoundRule = "guarded") -> Lock:
        """One lock, remembered if it is the worst so far."""
        seeds = (self.seed, self.tables)
        self.tables += 1
        if self.unit == "person" and pair[0].people is None:
            pair = crowded(pair, self.relation, generator(*seeds, 2))
        case = LockCase(self.learner, self.relation, pair, seeds, manner)
        found = case.lock()
        self.unknown = self.unknown or next(iter(found.unknown), None)
        if self.best is None or (bool(found.broken), found.ratio) > (
                bool(self.best[0].broken), self.best[0].ratio):
            self.best = found, case
        return found

    def broke(self, broken: Broken, pair: Pair, number: int, manner: BoundRule = "guarded") -> None:
        """A premise that was found broken elsewhere than in a lock."""
        case = LockCase(self.learner, self.relation, pair, (self.seed, number), manner)
        self.best = Lock((broken,), 0.0, broken.release), case

    def verdict(self) -> Verdict:
        """What was found, with its witness made small where a premise is broken."""
        assert self.best is not None
        found, case = self.best
        if found.broken:
            until = time.process_time() + SHRINKING
            found, case = case.least(found, lambda: time.process_time() < until)
        first = found.broken[0] if found.broken else self.unknown
        return Verdict(
            first is None, "" if first is None else first.premise,
            found.release if first is None else first.release,
            "" if first is None else first.why, found.ratio,
            self.tables + self.looked, case.witness(found),
            time.process_time() - self.start, self.unknown is None)


def lockstep(learner: Priced, example: Example | None = None, *, relation: str | None = None,
             seconds: float = 2.0, seed: int = 0, unit: str = "row") -> Verdict:
    """Check every premise of a learner's privacy proof on real paths of real fits.

    Simulation on tables of the kit: NOT PRIVATE, and never for people's data.

    Args:
        learner: unfitted, with its epsilon (and delta).
        example: whose schema, and first of all whose records, tables are made of; None for the
            kit's own, one for each kind of target that the learner takes.
        relation: of neighbouring tables; None for the learner's own.
        seconds: of processor time, above 0; the first pairs are always looked at.
        seed: of tables, paths and public randomness.
        unit: `row`, or `person`: tables of people with several rows each, where one person comes
            or goes.

    Returns:
        A `Verdict`: holds, broken or not replayable. That it holds is said of the paths and
        tables that were visited.

    Raises:
        InvalidValue: no such relation or number.
    """
    chosen = check_relation(relation_of(learner) if relation is None else relation)
    start = time.process_time()
    if unit not in UNITS:
        raise InvalidValue("unit", unit, f"one of {', '.join(UNITS)}")
    audit = Audit(learner, chosen, unit, count("seed", seed, least=0), start,
                  start + positive("seconds", seconds))
    rng = generator(audit.seed, 1)
    bases = examples_for(learner, example)
    if not any(_first(audit, base, rng) for base in bases):
        _search(audit, bases, generator(audit.seed, 4))
    return audit.verdict()


def _first(audit: Audit, base: Example, rng: Generator) -> bool:
    """The pairs that are always looked at; whether a premise broke.

    Locks are quick, and a few find most of what there is: they go first.
    """
    worst, asked = None, False
    soon = time.process_time() + EARLY * (audit.until - audit.start)
    for pair in stepwise("pairs of tables", first_pairs(base, audit.relation, rng)):
        if asked and not audit.more():
            return False
        if audit.lock(pair).broken:
            return True
        worst = worst or pair
        if not asked and time.process_time() >= soon:
            asked = True
            if _besides(audit, worst, base, rng):
                return True
    return not asked and worst is not None and _besides(audit, worst, base, rng)


def _arrivals(audit: Audit, base: Example, rng: Generator, start: int = 0) -> Iterator[bool]:
    """Whether one more plain table shows what a learner does to it, one after another."""
    fitting = fitting_of(audit.learner, audit.relation, plain=True, seed=audit.seed)
    for pair, broken in arriving(fitting, base, rng, start):
        audit.looked += 1  # apart, so that locks have the seeds they had
        if broken:
            audit.broke(broken[0], pair, audit.looked, "anywhere")
        yield bool(broken)


def _search(audit: Audit, bases: Sequence[Example], rng: Generator) -> None:
    """Climb to worse and worse tables, for each kind of target in turn; half of the time, where
    a learner takes plain tables, for these."""
    plain = [_arrivals(audit, base, rng, 2) for base in bases] if audit.plain else []
    times = [0.0, HEAD_START if plain else math.inf]
    climbs = [climbing(base, audit.relation, seed=audit.seed, least_rows=1,
                       most_rows=MOST_ROWS) for base in bases]
    pairs = [next(climb) for climb in climbs]
    for turn in stepwise("rounds of search", count_from(0)):
        place = turn % len(climbs)
        while audit.more() and times[1] <= times[0]:
            began = time.process_time()
            if next(plain[int(rng.integers(0, len(plain)))]):
                return
            times[1] += time.process_time() - began
        if not audit.more():
            return
        began = time.process_time()
        tables = tuple(evolve(table, unlabelled=bases[place].unlabelled)
                       for table in pairs[place].tables())
        found = audit.lock((tables[0], tables[1]))
        if found.broken:
            return
        if found.failed and audit.more():  # it is for tables of the example's size only
            base = bases[place]
            some = base.take(rng.integers(0, base.n_records, size=base.n_records))
            if audit.lock(neighbours(some, audit.relation, rng)).broken:
                return
        times[0] += time.process_time() - began
        # The worst is close to one soon; the mean tells tables apart for longer.
        pairs[place] = climbs[place].send(found.ratio + fmean(found.ratios or (0.0,)))


def _besides(audit: Audit, pair: Pair, table: Example, rng: Generator) -> bool:
    """What needs one table only: P1 on tables that share nothing, both verifiers on the histories,
    grants (P7), and the path of a plain table. Whether it broke."""
    fitting = fitting_of(audit.learner, audit.relation, seed=audit.seed)
    if audit.unit == "person":
        table = in_crowds(table, rng)
    for found in chain(_far(fitting, table, rng), _charges(fitting, table),
                       losers_told(fitting, table, rng), probed(fitting, table, rng)):
        if found.premise:
            audit.broke(found, pair, 0)
        else:
            audit.unknown = audit.unknown or found
        return True
    if not audit.plain:
        return False
    pairs = pair, neighbours(table, audit.relation, rng)
    if any(audit.lock(one, "plain").broken for one in pairs):
        return True
    began = time.process_time()
    if any(islice(_arrivals(audit, table, generator(audit.seed, 3)), FIRST_PLAIN)):
        return True
    audit.until += time.process_time() - began  # they are looked at whatever the time
    return False
