"""P7: a grant serves what it was given for, once, and a fit that stops keeps its whole charge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Literal

from attrs import define, evolve, field

from privledger.errors import BudgetExceeded, PrivledgerError
from privledger.graph import (
    Context,
    IndividualFilter,
    Meter,
    Node,
    OneOf,
    Parallel,
    PoissonSample,
    Repeat,
    Sequential,
)
from privledger.graph.additive import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from privledger.graph.selection import (
    Exponential,
    PermuteAndFlip,
    RandomizedResponse,
    ReportNoisyMax,
    TopK,
)
from privledger.guard.inside import _observing
from privledger.guard.session import GrantedPlan
from privledger.ledger import Budget
from privledger.noise.seeded import Generator, repeatable
from privledger.testing.examples import Example
from privledger.testing.fitting import fresh, protect_example
from privledger.testing.lockstep.kept import Broken, RecordedRun
from privledger.testing.lockstep.replay import (
    AMPLE,
    Fitting,
    Recorder,
    fresh_words,
)
from privledger.testing.lockstep.sampling import uncovered
from privledger.testing.lockstep.tap import Tap

# P7: what a meter must refuse, on plans made of the nodes that a fit really reserved.
#
# Every case is a plan, releases that it admits, and one more that no reading of the plan covers.
# Refusing is right by the meaning of the nodes; nothing is said of what a meter should admit.

Chain = tuple[Context, ...]
Asked = tuple[Chain, Node]
Case = tuple[str, Node, tuple[Asked, ...], Asked]

Certificate = Literal["public_predicate", "iid_per_record", "index"]

_COINS: Certificate = "iid_per_record"
_OTHERS: tuple[Certificate, ...] = ("public_predicate", "index")


def overdrawn(leaves: Iterable[Node], louder: Iterable[Node]) -> list[str]:
    """Which of the cases a meter takes although it must not; empty if it is right.

    Args:
        leaves: nodes that were reserved. louder: another node for each, equal to none of them.
    """
    found = []
    for leaf, other in zip(leaves, louder, strict=True):
        for why, plan, before, asked in (*_bare(leaf, other), *_sampled(leaf), *_parts(
                leaf, other), *_filters(leaf)):
            if _takes(plan, before, asked):
                found.append(why)
    return list(dict.fromkeys(found))


def _takes(plan: Node, before: tuple[Asked, ...], asked: Asked) -> bool:
    """Whether the last release is admitted; a meter that refuses an earlier one is not judged."""
    meter = Meter(plan)
    try:
        for chain, leaf in before:
            meter.admit(chain, leaf)
        meter.admit(*asked)
    except PrivledgerError:
        return False
    return True


def _bare(leaf: Node, other: Node) -> Iterator[Case]:
    once = ((), leaf)
    yield "another node than the one reserved", leaf, (), ((), other)
    yield "a node twice", leaf, (once,), once
    yield "a third of two", Repeat(leaf, 2), (once, once), once
    yield "one of a sequence twice", Sequential([leaf, other]), (once,), once
    yield "two of one-of", OneOf([leaf, other]), (once,), ((), other)
    mixed = OneOf([Sequential([leaf, leaf]), Sequential([leaf, other])])
    yield "all that one-of names", mixed, (once, once), ((), other)


def _sampled(leaf: Node) -> Iterator[Case]:
    rate = 0.25
    one, again = (Context("poisson", token, rate=rate) for token in ("a", "b"))
    wider = evolve(one, rate=0.5)
    plan = PoissonSample(rate, leaf)
    yield "everybody in the place of a sample", plan, (), ((), leaf)
    yield "a sample in the place of everybody", leaf, (), ((one,), leaf)
    yield "a larger sample", plan, (), ((wider,), leaf)
    yield "a sample twice", plan, (((one,), leaf),), ((one,), leaf)
    yield "two samples for one", plan, (((one,), leaf),), ((again,), leaf)
    yield "a sample of itself", PoissonSample(rate, plan), (), ((one, one), leaf)
    twice = PoissonSample(rate, Repeat(leaf, 2))
    yield "a fresh sample for one that goes on", twice, (((one,), leaf),), ((again,), leaf)
    yield "a name that means a larger sample", twice, (((one,), leaf),), ((wider,), leaf)
    yield "one sample for two", Repeat(plan, 2), (((one,), leaf),), ((one,), leaf)


def _parts(leaf: Node, other: Node) -> Iterator[Case]:
    plan = Parallel([leaf, leaf], _COINS)
    first = Context("part", "a", part=0, parts=2, certificate=_COINS)
    second, again = evolve(first, part=1), evolve(first, token="b")
    yield "a table in the place of parts", plan, (), ((), leaf)
    yield "a part in the place of a table", leaf, (), ((first,), leaf)
    for certificate in _OTHERS:
        own = Parallel([leaf, leaf], certificate)
        yield "coins in the place of others", own, (), ((first,), leaf)
        strange = evolve(first, certificate=certificate)
        yield "parts of another kind", plan, (), ((strange,), leaf)
        yield "a name that means other parts", plan, (((first,), leaf),), (
            (evolve(second, certificate=certificate),), leaf)
    yield "more parts", plan, (), ((evolve(first, parts=3),), leaf)
    yield "a part beyond the last", plan, (), ((evolve(first, part=2),), leaf)
    yield "a part before the first", plan, (), ((evolve(first, part=-1),), leaf)
    yield "a part twice", plan, (((first,), leaf),), ((first,), leaf)
    yield "two partitions for one", plan, (((first,), leaf),), ((again,), leaf)
    yield "another partition's part", plan, (((first,), leaf),), ((evolve(again, part=1),), leaf)
    two = Parallel([leaf, other], _COINS)
    yield "a part at another's price", two, (), ((first,), other)
    yield "a part at another's price", two, (((first,), leaf),), ((second,), leaf)
    sample = Context("poisson", "c", rate=0.25)
    yield "a sample of parts for parts of a sample", PoissonSample(0.25, plan), (), (
        (first, sample), leaf)


def _filters(leaf: Node) -> Iterator[Case]:
    narrow, wide = (IndividualFilter("gdp", cap, node=leaf) for cap in (1.0, 2.0))
    renyi = IndividualFilter("renyi", 1.0, 8.0, leaf)
    one = Context("filter", "a", caps=narrow.caps)
    plan = IndividualFilter("gdp", 1.0, node=Repeat(leaf, 2))
    yield "a strange filter", narrow, (), ((), leaf)
    yield "a filter in the place of a table", leaf, (), ((one,), leaf)
    for other in (wide, renyi):
        strange = Context("filter", "a", caps=other.caps)
        yield "a filter of other caps", narrow, (), ((strange,), leaf)
        yield "a name that means another filter", plan, (((one,), leaf),), ((strange,), leaf)
        yield "a filter of other caps", other, (), ((one,), leaf)
    yield "a filtered node twice", narrow, (((one,), leaf),), ((one,), leaf)
    yield "two filters for one", plan, (((one,), leaf),), ((evolve(one, token="b"),), leaf)


STOPPED = "a lock stopped this fit"


class _Stopped(Exception):
    pass


@define(eq=False)
class Prober(Recorder):
    """Tries more than it was granted, after the release of each number.

    Attributes:
        stop: number of the release after which the fit is stopped; -1 for never.
        last: number of releases after which the same is asked once more; -1 for never.
        before: number of releases before the one that the fit is stopped at; -1 for never.
        taken: what was released or read although it should have been refused.
        pending: the grant of that one, and what would have been asked.
    """

    stop: int = -1
    last: int = -1
    before: int = -1
    taken: list[str] = field(factory=list)
    pending: tuple[GrantedPlan, object, object] | None = None

    def released(self, granted: object, release: Callable[..., object], mechanism: object,
                 query: object, **named: object) -> object:
        """As `Recorder.released`; and then what was not reserved."""
        assert isinstance(granted, GrantedPlan)
        if len(self.releases) == self.before:
            self.pending = granted, mechanism, query
            raise _Stopped(STOPPED)
        found = Recorder.released(self, granted, release, mechanism, query, **named)
        if len(self.releases) == self.stop:
            raise _Stopped(STOPPED)
        if len(self.releases) == self.last:
            louder = louder_of(mechanism)
            opened = granted.vault.opened
            if louder is not None and not _refused(partial(release, louder, query, **named)):
                self.taken.append("a release with less noise than reserved was answered")
            elif granted.vault.opened > opened:
                self.taken.append("rows were read for a release that was refused")
            try:
                Recorder.released(self, granted, release, mechanism, query, **named)
            except PrivledgerError:
                self.releases.pop()
        return found


def _refused(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except PrivledgerError:
        return True
    return False


_LOUDER: dict[type, tuple[str, float]] = {
    Gaussian: ("noise_multiplier", 0.75), Laplace: ("scale", 0.75),
    DiscreteLaplace: ("parameter", 1.25), DiscreteGaussian: ("sigma", 0.75),
    RandomizedResponse: ("noise_parameter", 0.75),
    **dict.fromkeys((Exponential, PermuteAndFlip, ReportNoisyMax, TopK), ("epsilon", 1.25))}
"""The field of a mechanism that says how much noise there is, and a factor that makes it less."""


def louder_of(mechanism: object) -> object:
    """The same mechanism with less noise than was reserved; None where there is none."""
    name, factor = _LOUDER.get(type(mechanism), ("", 0.0))
    if not name:
        return None
    return evolve(mechanism, **{name: getattr(mechanism, name) * factor})  # type: ignore[misc]


def probed(fitting: Fitting, table: Example, rng: Generator) -> Iterator[Broken]:
    """Everything that a fit must not get."""
    whole = fitting.run(table, Prober(_tap(rng)))
    if whole.failed or not whole.releases:
        return
    count = len(whole.releases)
    # No meter admits what a plan of the nodes of this fit does not hold.
    nodes = {one.mechanism: louder_of(one.mechanism) for one in whole.releases if not one.failed}
    known = {node: other for node, other in nodes.items() if other is not None}
    for why in overdrawn(known, known.values())[:1]:  # type: ignore[arg-type]
        yield Broken("P7", -1, f"a meter admits {why}")
    for place in dict.fromkeys((1, int(rng.integers(1, count + 1)))):
        yield from _stopped(fitting, table, rng, whole, place)
    again = Prober(_tap(rng), last=count)
    run = fitting.run(table, again)
    for text in again.taken:
        yield Broken("P7", count - 1, text)
    if not run.failed:
        for found in uncovered(run):
            yield Broken("P7", count - 1, found.why)
    yield from _over(again)
    yield from _left_over(fitting, table, rng, count)
    if not fitting.plain:
        yield from _twice(fitting, table, rng, whole.spent,
                          several=sum(not one.trial for one in whole.grants) > 1)


def _tap(rng: Generator) -> Tap:
    return Tap(fresh_words(rng))


def _stopped(fitting: Fitting, table: Example, rng: Generator, whole: RecordedRun,
             place: int) -> Iterator[Broken]:
    """A fit that stops after a release: nothing is handed back of what was touched."""
    run = fitting.run(table, Prober(_tap(rng), stop=place))
    if len(run.releases) < place:
        return
    own = run.grants[run.releases[place - 1].grant]
    if own.status in ("aborted", "granted") and not own.trial:
        yield Broken("P7", place - 1, "a grant that was stopped after a release is "
                                      f"{own.status}: its charge does not stand")
    # What a single grant costs was said before its first release.
    single = len(run.grants) == len(whole.grants) == 1
    if (place == 1 and not 0 < run.spent <= whole.spent) or (single and run.spent != whole.spent):
        yield Broken("P7", place - 1, "a fit that was stopped costs nothing, or more than a whole")


def _left_over(fitting: Fitting, table: Example, rng: Generator, count: int) -> Iterator[Broken]:
    """What a grant still held when it was settled is lost with it."""
    if count < 2:
        return
    prober = Prober(_tap(rng), before=int(rng.integers(1, count)))
    fitting.run(table, prober)
    if prober.pending is None:
        return
    granted, mechanism, question = prober.pending
    if granted.receipt is None:
        return  # of a trial, or of a grant that is open: others look at these
    for why in _answers(granted, mechanism, question):
        yield Broken("P7", prober.before, why)


def _over(prober: Prober) -> Iterator[Broken]:
    """A grant that is settled answers nothing."""
    for place, one in enumerate(prober.releases):
        for why in _answers(prober.grants[one.grant], one.mechanism, one.question):
            yield Broken("P7", place, why)
            return


def _answers(granted: GrantedPlan, mechanism: object, question: object) -> Iterator[str]:
    """What is wrong with how a settled grant refuses a release."""
    try:
        granted.release(mechanism, question)
    except PrivledgerError:
        return
    except Exception:
        yield "a settled grant fails with an error that is not ours"
        return
    yield "a settled grant still answers"


def _budgeted(fitting: Fitting, table: Example, rng: Generator, spent: float,
              fits: int) -> tuple[int, int, bool]:
    """How many of so many fits a budget grants, how often rows were read for them, and whether
    the ledger itself says that they are over it."""
    granted = 0
    with repeatable(fitting.seed), _observing(Prober(_tap(rng))):
        ledger = fitting.ledger(table, Budget(spent, fitting.delta))
        data = protect_example(ledger, table)
        for _ in range(fits):
            try:
                fresh(fitting.learner).fit(data)
            except BudgetExceeded:
                break
            except PrivledgerError:
                continue
            granted += 1
        return granted, data._vault.opened, not ledger.spent <= spent


def _twice(fitting: Fitting, table: Example, rng: Generator, spent: float, *,
           several: bool) -> Iterator[Broken]:
    """A budget for one fit is refused to a second one; half a budget to the first.

    Args:
        several: whether a fit asks for several grants, of which the first may still fit.
    """
    if not spent > 0:
        return
    # What one fit was booked at, so that a second one cannot fit, whatever the first left.
    if _budgeted(fitting, table, rng, spent * AMPLE, 2)[0] > 1:
        yield Broken("P7", -1, "two fits were granted from a budget for one")
    # A total is a bound, and may be closer where the budget is smaller: then the fit may fit.
    granted, read, over = _budgeted(fitting, table, rng, spent * 0.75, 1)
    if granted and over:
        yield Broken("P7", -1, "a fit was granted that is over its budget")
    if read and not granted and not several:
        yield Broken("P7", -1, "rows were read for a fit that was refused")
