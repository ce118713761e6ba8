"""P7: what a meter must refuse, on plans made of the nodes that a fit really reserved.

Every case is a plan, releases that it admits, and one more that no reading of the plan covers.
Refusing is right by the meaning of the nodes; nothing is said of what a meter should admit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from attrs import evolve

from privledger.errors import PrivledgerError
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
from privledger.graph.meter import filter_caps

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
    one = Context("filter", "a", caps=filter_caps(narrow))
    plan = IndividualFilter("gdp", 1.0, node=Repeat(leaf, 2))
    yield "nobody's filter", narrow, (), ((), leaf)
    yield "a filter in the place of a table", leaf, (), ((one,), leaf)
    for other in (wide, renyi):
        strange = Context("filter", "a", caps=filter_caps(other))
        yield "a filter of other caps", narrow, (), ((strange,), leaf)
        yield "a name that means another filter", plan, (((one,), leaf),), ((strange,), leaf)
        yield "a filter of other caps", other, (), ((one,), leaf)
    yield "a filtered node twice", narrow, (((one,), leaf),), ((one,), leaf)
    yield "two filters for one", plan, (((one,), leaf),), ((evolve(one, token="b"),), leaf)
