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


def refused(meter, chain, leaf):
    before = meter.left()
    with pytest.raises(pl.NotGranted, match="Nothing was read"):
        meter.admit(chain, leaf)
    assert meter.left() == before


def test_counts_down_to_nothing():
    meter = Meter(pl.Sequential([pl.Repeat(G, 2), L, pl.nodes.PostProcess("x")]))
    for leaf in (G, L, G):
        meter.admit((), leaf)
    assert meter.left() == {}
    refused(meter, (), G)
    refused(meter, (), L)


def test_only_equal_leaves_match():
    meter = Meter(G)
    for other in (H, L, pl.Gaussian(1.0, (0.5, 0.5)), pl.Gaussian(1.0 + 2**-52)):
        refused(meter, (), other)
    meter.admit((), pl.Gaussian(1.0))


def test_the_context_must_be_the_reserved_one():
    meter = Meter(pl.PoissonSample(0.1, G))
    refused(meter, (), G)
    refused(meter, (poisson(rate=0.2),), G)
    refused(meter, (part(0),), G)
    refused(meter, (filtered(GDP),), G)
    refused(meter, (poisson(), poisson("t")), G)
    meter.admit((poisson(),), G)
    refused(meter, (poisson(),), G)


def test_an_unsampled_release_is_not_covered_by_a_sampled_one():
    meter = Meter(pl.Sequential([pl.PoissonSample(0.1, G), L]))
    refused(meter, (), G)
    refused(meter, (poisson(),), L)


def test_two_releases_on_one_sample_are_not_two_fresh_samples():
    meter = Meter(pl.Repeat(pl.PoissonSample(0.1, G), 2))
    meter.admit((poisson("one"),), G)
    refused(meter, (poisson("one"),), G)
    meter.admit((poisson("two"),), G)
    refused(meter, (poisson("three"),), G)


def test_a_sample_may_answer_what_was_reserved_inside_it():
    meter = Meter(pl.PoissonSample(0.1, pl.Repeat(G, 2)))
    meter.admit((poisson("one"),), G)
    refused(meter, (poisson("two"),), G)
    meter.admit((poisson("one"),), G)
    refused(meter, (poisson("one"),), G)


def test_parts_of_one_partition_share_one_node():
    meter = Meter(pl.Parallel([G, G]))
    meter.admit((part(0),), G)
    refused(meter, (part(0),), G)
    refused(meter, (part(0, "other"),), G)
    refused(meter, (part(1, "other"),), G)
    meter.admit((part(1),), G)


@pytest.mark.parametrize("step", [part(0, parts=3), part(0, certificate="iid_per_record")])
def test_another_partition_does_not_match(step):
    refused(Meter(pl.Parallel([G, G])), (step,), G)


def test_a_part_takes_its_own_member_only():
    meter = Meter(pl.Parallel([G, L]))
    refused(meter, (part(1),), G)
    refused(meter, (part(0),), L)
    meter.admit((part(1),), L)
    meter.admit((part(0),), G)


def test_a_token_cannot_change_its_meaning():
    """Once a token names a partition of two, it cannot name one of three, or a sample."""
    meter = Meter(pl.Sequential([pl.Parallel([G, G]), pl.PoissonSample(0.1, G)]))
    meter.admit((part(0, "t"),), G)
    refused(meter, (poisson("t"),), G)
    refused(meter, (part(2, "t", parts=3),), G)
    refused(meter, (part(1, "t", certificate="iid_per_record"),), G)


def test_a_sample_token_keeps_its_rate():
    meter = Meter(pl.PoissonSample(0.1, pl.Repeat(G, 2)))
    meter.admit((poisson("one", 0.1),), G)
    refused(meter, (poisson("one", 0.9),), G)


def test_contexts_nest_in_the_reserved_order():
    plan = pl.IndividualFilter("renyi", 1.0, 4.0, pl.Repeat(pl.PoissonSample(0.1, G), 2))
    meter = Meter(plan)
    refused(meter, (poisson(), filtered(plan)), G)
    refused(meter, (filtered(plan),), G)
    meter.admit((filtered(plan), poisson("a")), G)
    refused(meter, (filtered(plan, "other"), poisson("b")), G)
    meter.admit((filtered(plan), poisson("b")), G)
    refused(meter, (filtered(plan), poisson("c")), G)


@pytest.mark.parametrize("other", [
    pl.IndividualFilter("gdp", 1.0 + 2**-52), pl.IndividualFilter("gdp", 1e9),
    pl.IndividualFilter("renyi", 1.0, 8.0)])
def test_a_filter_of_other_caps_does_not_match(other):
    refused(Meter(GDP), (filtered(other),), G)


def test_a_filter_without_inside_lets_its_caps_do_the_guarding():
    meter = Meter(GDP)
    for _ in range(5):
        meter.admit((filtered(GDP),), G)
    meter.admit((filtered(GDP), part(1)), L)
    refused(meter, (), G)
    refused(meter, (filtered(GDP, "second"),), G)


def test_a_group_admits_what_it_holds():
    meter = Meter(pl.nodes.Group(3, pl.Sequential([G, L])))
    meter.admit((), L)
    meter.admit((), G)
    refused(meter, (), G)


def test_an_empty_plan_admits_nothing():
    for plan in (pl.Sequential([]), pl.nodes.PostProcess("x"), pl.nodes.Public("y")):
        refused(Meter(plan), (), G)


def test_one_member_of_one_of_runs_and_no_other():
    meter = Meter(pl.nodes.OneOf([pl.Repeat(G, 2), pl.Sequential([L, L, L])]))
    meter.admit((), L)
    refused(meter, (), G)
    meter.admit((), L)
    meter.admit((), L)
    refused(meter, (), L)


def test_members_stay_possible_while_they_explain_everything():
    meter = Meter(pl.nodes.OneOf([pl.Sequential([G, G]), pl.Sequential([G, L])]))
    meter.admit((), G)
    meter.admit((), L)
    refused(meter, (), G)
    twice = Meter(pl.Repeat(pl.nodes.OneOf([G, L]), 2))
    twice.admit((), G)
    twice.admit((), L)
    refused(twice, (), L)


def test_a_sample_of_one_of_is_never_a_fresh_one_elsewhere():
    plan = pl.Sequential([pl.nodes.OneOf([pl.PoissonSample(0.1, G)]), pl.PoissonSample(0.1, L),
                          pl.nodes.OneOf([pl.PoissonSample(0.1, L), G])])
    step = Context("poisson", "one", rate=0.1)
    meter = Meter(plan)
    meter.admit((step,), G)
    refused(meter, (step,), L)
    meter.admit((Context("poisson", "two", rate=0.1),), L)


def test_a_sample_stands_at_one_place():
    sampled = pl.PoissonSample(0.1, G)
    meter = Meter(pl.Sequential([sampled, pl.Parallel([sampled, sampled]),
                                 pl.PoissonSample(0.1, sampled)]))
    step = Context("poisson", "one", rate=0.1)
    refused(meter, (step, step), G)
    meter.admit((step,), G)
    refused(meter, (part(0), step), G)
    refused(meter, (Context("poisson", "two", rate=0.1), step), G)
    meter.admit((part(0), Context("poisson", "three", rate=0.1)), G)
