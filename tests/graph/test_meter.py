"""The meter: a plan is a multiset of units, and nothing is admitted twice."""

import pytest

import privledger as pl
from privledger.graph import Context, Meter

G, H, L = pl.Gaussian(1.0), pl.Gaussian(2.0), pl.Laplace(1.0)


def poisson(token="s", rate=0.1):
    return Context("poisson", token, rate=rate)


def part(number, token="p", parts=2, certificate="public_predicate"):
    return Context("part", token, part=number, parts=parts, certificate=certificate)


def filtered(node, token="f"):
    return Context("filter", token, caps=node.caps)


GDP = pl.IndividualFilter("gdp", 1.0)
ONE = pl.PoissonSample(0.1, G)
NESTED = pl.IndividualFilter("renyi", 1.0, 4.0, pl.Repeat(ONE, 2))
RENYI = filtered(NESTED)
YES, NO = True, False
ASKED = {  # a plan; then steps: whether it is admitted, in which context, which leaf
    "counts down to nothing": (
        pl.Sequential([pl.Repeat(G, 2), L, pl.nodes.PostProcess("x")]),
        [(YES, G), (YES, L), (YES, G), (NO, G), (NO, L)]),
    "only equal leaves match": (G, [
        *((NO, other) for other in (H, L, pl.Gaussian(1.0, (0.5, 0.5)), pl.Gaussian(1.0 + 2**-52))),
        (YES, pl.Gaussian(1.0))]),
    "the context must be the reserved one": (ONE, [
        (NO, G), (NO, poisson(rate=0.2), G), (NO, part(0), G), (NO, filtered(GDP), G),
        (NO, poisson(), poisson("t"), G), (YES, poisson(), G), (NO, poisson(), G)]),
    "an unsampled release is not covered by a sampled one": (
        pl.Sequential([ONE, L]), [(NO, G), (NO, poisson(), L)]),
    "two releases on one sample are not two fresh samples": (pl.Repeat(ONE, 2), [
        (YES, poisson("one"), G), (NO, poisson("one"), G), (YES, poisson("two"), G),
        (NO, poisson("three"), G)]),
    "a sample may answer what was reserved inside it": (pl.PoissonSample(0.1, pl.Repeat(G, 2)), [
        (YES, poisson("one"), G), (NO, poisson("two"), G), (NO, poisson("one", 0.9), G),
        (YES, poisson("one"), G), (NO, poisson("one"), G)]),
    "parts of one partition share one node": (pl.Parallel([G, G]), [
        (YES, part(0), G), (NO, part(0), G), (NO, part(0, "other"), G), (NO, part(1, "other"), G),
        (YES, part(1), G)]),
    "another partition does not match": (pl.Parallel([G, G]), [
        (NO, part(0, parts=3), G), (NO, part(0, "q", certificate="iid_per_record"), G)]),
    "a part takes its own member only": (pl.Parallel([G, L]), [
        (NO, part(1), G), (NO, part(0), L), (YES, part(1), L), (YES, part(0), G)]),
    "a token of a partition of two names no other, and no sample": (
        pl.Sequential([pl.Parallel([G, G]), ONE]), [
            (YES, part(0, "t"), G), (NO, poisson("t"), G), (NO, part(2, "t", parts=3), G),
            (NO, part(1, "t", certificate="iid_per_record"), G)]),
    "contexts nest in the reserved order": (NESTED, [
        (NO, poisson(), RENYI, G), (NO, RENYI, G), (YES, RENYI, poisson("a"), G),
        (NO, filtered(NESTED, "other"), poisson("b"), G), (YES, RENYI, poisson("b"), G),
        (NO, RENYI, poisson("c"), G)]),
    "a filter of other caps does not match": (GDP, [
        (NO, filtered(other, str(other)), G) for other in (
            pl.IndividualFilter("gdp", 1.0 + 2**-52), pl.IndividualFilter("gdp", 1e9),
            pl.IndividualFilter("renyi", 1.0, 8.0))]),
    "a filter without inside lets its caps do the guarding": (GDP, [
        *[(YES, filtered(GDP), G)] * 5, (YES, filtered(GDP), part(1), L), (NO, G),
        (NO, filtered(GDP, "second"), G)]),
    "a group admits what it holds": (
        pl.nodes.Group(3, pl.Sequential([G, L])), [(YES, L), (YES, G), (NO, G)]),
    "an empty plan": (pl.Sequential([]), [(NO, G)]),
    "a plan of post-processing": (pl.nodes.PostProcess("x"), [(NO, G)]),
    "a public plan": (pl.nodes.Public("y"), [(NO, G)]),
    "one member of one of runs and no other": (
        pl.nodes.OneOf([pl.Repeat(G, 2), pl.Sequential([L, L, L])]),
        [(YES, L), (NO, G), (YES, L), (YES, L), (NO, L)]),
    "members stay possible while they explain everything": (
        pl.nodes.OneOf([pl.Sequential([G, G]), pl.Sequential([G, L])]),
        [(YES, G), (YES, L), (NO, G)]),
    "each of two choices has its own member": (
        pl.Repeat(pl.nodes.OneOf([G, L]), 2), [(YES, G), (YES, L), (NO, L)]),
    "a sample of one of is never a fresh one elsewhere": (
        pl.Sequential([pl.nodes.OneOf([ONE]), pl.PoissonSample(0.1, L),
                       pl.nodes.OneOf([pl.PoissonSample(0.1, L), G])]),
        [(YES, poisson("one"), G), (NO, poisson("one"), L), (YES, poisson("two"), L)]),
    "a sample stands at one place": (
        pl.Sequential([ONE, pl.Parallel([ONE, ONE]), pl.PoissonSample(0.1, ONE)]), [
            (NO, poisson("one"), poisson("one"), G), (YES, poisson("one"), G),
            (NO, part(0), poisson("one"), G), (NO, poisson("two"), poisson("one"), G),
            (YES, part(0), poisson("three"), G)])}


@pytest.mark.parametrize("case", ASKED)
def test_what_was_reserved_is_admitted_and_nothing_else(case):
    plan, steps = ASKED[case]
    meter = Meter(plan)
    for admitted, *chain, leaf in steps:
        before = meter.left()
        if admitted:
            meter.admit(tuple(chain), leaf)
        else:
            with pytest.raises(pl.NotGranted, match="Nothing was read"):
                meter.admit(tuple(chain), leaf)
            assert meter.left() == before
    if case == "counts down to nothing":
        assert meter.left() == {}
