"""dp_accounting's events: there and back, never cheaper, and refused where nothing is proved."""

import inspect
import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.graph import dp_events, every_dp_event, holds
from privledger.graph.nodes import NODE_TYPES
from tests.all_cases import all_cases
from tests.worlds import refused

dp = pytest.importorskip("dp_accounting")
dp_event = pytest.importorskip("dp_accounting.dp_event")
RdpAccountant = dp.rdp.RdpAccountant

QUICK = settings(max_examples=60, deadline=None)
ORDERS = (1.5, 2.0, 4.0, 16.0, 64.0)
RELATIONS = {"add_remove": dp.NeighboringRelation.ADD_OR_REMOVE_ONE,
             "replace_one": dp.NeighboringRelation.REPLACE_ONE}
G, L = pl.Gaussian(2.0), pl.Laplace(4.0)
EG = dp_event.GaussianDpEvent(2.0)


WHOLE = (2.0, 3.0, 8.0, 32.0)  # at other orders their series for a sample may not converge


def theirs(event, relation="add_remove", orders=ORDERS):
    accountant = RdpAccountant(orders, RELATIONS[relation])
    return accountant.compose(event).rdp


# --- every class ------------------------------------------------------------------------------

READ = [
    (dp_event.NoOpDpEvent(), "add_remove", pl.Sequential([])),
    (EG, "add_remove", G),
    (dp_event.LaplaceDpEvent(4.0), "add_remove", L),
    (dp_event.DiscreteLaplaceDpEvent(0.5, 3), "add_remove", pl.DiscreteLaplace(0.5, 3)),
    (dp_event.RandomizedResponseDpEvent(0.5, 4), "replace_one", pl.RandomizedResponse(0.5, 4)),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, (0.0, 1.0), (0.5, 0.5)), "add_remove",
     pl.nodes.MixtureOfGaussians(1.0, [0.0, 1.0], [0.5, 0.5])),
    (dp_event.SelfComposedDpEvent(EG, 7), "add_remove", pl.Repeat(G, 7)),
    (dp_event.ComposedDpEvent([EG, EG]), "add_remove", pl.Sequential([G, G])),
    (dp_event.PoissonSampledDpEvent(0.1, EG), "add_remove", pl.PoissonSample(0.1, G)),
    (dp_event.SampledWithoutReplacementDpEvent(100, 5, EG), "replace_one",
     pl.nodes.FixedSizeSample(5, 100, pl.nodes.AsReplaceOne(G))),
    (dp_event.RepeatAndSelectDpEvent(EG, 3.0, math.inf), "add_remove",
     pl.nodes.Tuning(G, "poisson", mean=3.0)),
    (dp_event.RepeatAndSelectDpEvent(EG, 1.0, 0.5), "add_remove", G),
    (dp_event.ZCDpEvent(0.25), "add_remove", pl.AssertedZCDP(0.25, dp_events.WHY)),
    (dp_event.ZCDpEvent(0.0, 0.5), "add_remove", pl.Asserted(0.5, dp_events.WHY)),
    (dp_event.ZCDpEvent(0.0), "add_remove", pl.Sequential([])),
    (EG, "replace_one", pl.nodes.AsReplaceOne(G)),
    (dp_event.PoissonSampledDpEvent(0.1, EG), "replace_one",
     pl.nodes.AsReplaceOne(pl.PoissonSample(0.1, G))),
    (dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 2.0), "add_remove",
     pl.nodes.TruncatedPoissonSample(0.1, 20, 100, G)),
    (dp_event.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 2.0), "replace_one",
     pl.nodes.AsReplaceOne(pl.nodes.TruncatedPoissonSample(0.1, 20, 100, G)))]
REFUSED = [
    dp_event.NonPrivateDpEvent(), dp_event.UnsupportedDpEvent(),
    dp_event.SampledWithReplacementDpEvent(100, 5, EG),
    dp_event.SingleEpochTreeAggregationDpEvent(1.0, 4),
    dp_event.ZCDpEvent(0.5, 0.5)]


@all_cases(("event", "relation", "node"), READ, ids=str)
def test_an_event_is_read(event, relation, node):
    assert pl.nodes.from_dp_event(event, relation) == node


@pytest.mark.parametrize("event", REFUSED, ids=str)
def test_an_event_without_a_node_is_refused(event):
    for wrapped in (event, dp_event.ComposedDpEvent([EG, event])):
        with pytest.raises(pl.errors.UnsupportedNode, match=type(event).__name__):
            pl.nodes.from_dp_event(wrapped)


def test_every_event_class_is_read_or_refused():
    classes = {kind for _, kind in inspect.getmembers(dp_event, inspect.isclass)
               if issubclass(kind, dp_event.DpEvent)}
    seen = {type(event) for event, *_ in READ} | {type(event) for event in REFUSED}
    for kind in classes - seen:  # the base class, and what later versions bring
        with pytest.raises(pl.errors.UnsupportedNode):
            pl.nodes.from_dp_event(object.__new__(kind))
    assert seen <= classes


def test_a_subclass_or_a_stranger_is_refused():
    class GaussianDpEvent(dp_event.GaussianDpEvent):
        pass

    for stranger in (GaussianDpEvent(1.0), None, 3, "GaussianDpEvent", dp_event):
        with pytest.raises(pl.errors.UnsupportedNode):
            pl.nodes.from_dp_event(stranger)


NAN = math.nan


@all_cases("event", [
    *(dp_event.GaussianDpEvent(bad) for bad in (NAN, math.inf, 0.0, -1.0, True, "1", None)),
    dp_event.LaplaceDpEvent(NAN), dp_event.LaplaceDpEvent(0), dp_event.ZCDpEvent(NAN),
    dp_event.ZCDpEvent(-1.0), dp_event.ZCDpEvent(0.5, NAN), dp_event.ZCDpEvent(0.0, -1.0),
    dp_event.DiscreteLaplaceDpEvent(NAN, 1), dp_event.DiscreteLaplaceDpEvent(1.0, 1.5),
    dp_event.SelfComposedDpEvent(EG, 0), dp_event.SelfComposedDpEvent(EG, 2.0),
    dp_event.ComposedDpEvent(3), dp_event.ComposedDpEvent("ab"),
    dp_event.ComposedDpEvent([dp_event.GaussianDpEvent(NAN)]),
    dp_event.PoissonSampledDpEvent(NAN, EG), dp_event.PoissonSampledDpEvent(0.0, EG),
    dp_event.PoissonSampledDpEvent(1.5, EG),
    *(dp_event.RepeatAndSelectDpEvent(EG, mean, 1.0) for mean in (NAN, 0.5, math.inf, "2")),
    *(dp_event.RepeatAndSelectDpEvent(EG, 2.0, shape) for shape in (NAN, -0.5, 1e9, 5e-324)),
    dp_event.RepeatAndSelectDpEvent(EG, 1e308, 0.0),
    dp_event.RepeatAndSelectDpEvent(EG, NAN, math.inf),
    *(dp_event.TruncatedSubsampledGaussianDpEvent(*bad) for bad in (
        (0, 0.1, 20, 2.0), (100.0, 0.1, 20, 2.0), (100, 0.0, 20, 2.0), (100, 0.1, 0, 2.0),
        (100, 0.1, True, 2.0), (100, 0.1, 20, 0.0), (100, NAN, 20, 2.0))),
], ids=str)
def test_an_impossible_number_is_refused(event):
    refused(pl.InvalidValue, lambda: pl.nodes.from_dp_event(event))


RESPONSE, WITHOUT = dp_event.RandomizedResponseDpEvent, dp_event.SampledWithoutReplacementDpEvent


@all_cases("event", [RESPONSE(NAN, 2), RESPONSE(0.0, 2), RESPONSE(0.5, 1), WITHOUT(5, 100, EG),
                     WITHOUT(100, NAN, EG)], ids=str)
def test_an_impossible_number_is_refused_for_replace_one_and_nothing_for_the_other(event):
    refused(pl.InvalidValue, lambda: pl.nodes.from_dp_event(event, "replace_one"))
    refused(pl.errors.RelationMismatch,
            *(partial(pl.nodes.from_dp_event, right, "add_remove")
              for right in (RESPONSE(0.5, 4), WITHOUT(100, 5, EG))))


def test_without_the_package_the_message_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(dp_events.importlib, "import_module", missing)
    refused(pl.errors.UnsupportedNode, lambda: pl.nodes.from_dp_event(EG),
            lambda: pl.nodes.to_dp_event(G), match="pip install dp-accounting")


# --- there and back ---------------------------------------------------------------------------

noises = st.floats(0.5, 50)
leaves = st.one_of(
    st.builds(pl.Gaussian, noises), st.builds(pl.Laplace, noises),
    st.builds(pl.AssertedZCDP, st.floats(1e-3, 2), st.just(dp_events.WHY)),
    st.builds(pl.Asserted, st.floats(1e-3, 2), st.just(dp_events.WHY)),
    st.just(pl.Sequential([])))
samples = st.builds(
    pl.PoissonSample, st.floats(0.01, 1.0),
    st.builds(pl.Gaussian, noises) | st.builds(pl.Repeat, st.builds(pl.Gaussian, noises),
                                               st.integers(1, 9)))
tunings = st.builds(pl.nodes.Tuning, leaves | samples, st.just("negative_binomial"),
                    st.sampled_from([0.0, 0.5, 1.0, 3.0]), st.floats(0.01, 0.9))


def composed(inner):
    return st.one_of(st.builds(pl.Sequential, st.lists(inner, min_size=1, max_size=3)),
                     st.builds(pl.Repeat, inner, st.integers(1, 50)))


plain = st.recursive(leaves | samples, composed, max_leaves=6)
any_tree = st.recursive(leaves | samples | tunings, composed, max_leaves=6)
unpriced = st.recursive(leaves | st.builds(pl.DiscreteLaplace, noises, st.integers(1, 3)),
                        lambda inner: st.one_of(composed(inner), st.builds(
                            pl.nodes.Tuning, inner, st.just("poisson"), mean=st.floats(1, 9))),
                        max_leaves=4)


@QUICK
@given(plain | unpriced)
def test_a_node_comes_back(node):
    event = pl.nodes.to_dp_event(node)
    assert pl.nodes.from_dp_event(event) == node
    assert pl.nodes.to_dp_event(pl.nodes.from_dp_event(event)) == event


@QUICK
@given(any_tree)
def test_their_price_is_not_below_ours(node):
    # Theirs is a logarithm of a number near 1, so small sampled costs lose digits.
    slack = 1e-6 if holds(node, pl.PoissonSample) else 1e-9
    assert np.all(theirs(pl.nodes.to_dp_event(node)) >= pl.rdp(node, ORDERS) * (1 - slack))


exact_both = st.recursive(
    st.one_of(st.builds(pl.Gaussian, noises), st.builds(pl.Laplace, noises),
              st.builds(pl.AssertedZCDP, st.floats(1e-3, 2), st.just("w")),
              st.builds(pl.PoissonSample, st.floats(0.01, 1.0), st.builds(pl.Gaussian, noises))),
    composed, max_leaves=5)


@QUICK
@given(exact_both)
def test_exact_prices_agree(node):
    slack = 1e-6 if holds(node, pl.PoissonSample) else 1e-9
    np.testing.assert_allclose(theirs(pl.nodes.to_dp_event(node), orders=WHOLE),
                               pl.rdp(node, WHOLE),
                               rtol=slack)


@QUICK
@given(noises, st.floats(1.0, 1e6), st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.5, 40.0]))
def test_a_random_number_of_runs_comes_back(noise, mean, shape):
    event = dp_event.RepeatAndSelectDpEvent(dp_event.GaussianDpEvent(noise), mean, shape)
    node = pl.nodes.from_dp_event(event)
    if mean > 1:
        again = pl.nodes.to_dp_event(node)
        assert again.shape == shape
        assert mean <= again.mean <= mean * (1 + 1e-12)
    assert np.all(theirs(event) >= pl.rdp(node, ORDERS) * (1 - 1e-9))


@QUICK
@given(st.sampled_from([0.0, 1e-3, 0.5, 1.0, 2.5, 40.0]), st.floats(1e-6, 0.999))
def test_the_success_of_a_tuning_comes_back_rounded_down(shape, success):
    node = pl.nodes.Tuning(G, shape=shape, success=success)
    again = pl.nodes.from_dp_event(pl.nodes.to_dp_event(node))
    assert success * (1 - 1e-9) <= again.success <= success


@QUICK
@given(st.floats(1e-3, 1.0), st.integers(1, 50), st.integers(1, 99), noises, st.integers(1, 9))
def test_a_truncated_sample_comes_back(rate, most, out_of, noise, times):
    node = pl.Repeat(pl.nodes.TruncatedPoissonSample(rate, most, out_of, pl.Gaussian(noise)), times)
    assert pl.nodes.from_dp_event(pl.nodes.to_dp_event(node)) == node


def test_noise_is_rounded_down_and_always_a_float():
    for scale, sensitivity in ((1.0, 3.0), (0.7, 0.1), (2, 7)):
        event = pl.nodes.to_dp_event(pl.Laplace(scale, sensitivity))
        assert event.noise_multiplier <= scale / sensitivity
        assert event.noise_multiplier == pytest.approx(scale / sensitivity)
    # dp_accounting counts one of several Gaussians on a sample if the noise is an integer.
    event = pl.nodes.to_dp_event(pl.PoissonSample(0.1, pl.Repeat(pl.Gaussian(1), 4)))
    assert type(event.event.event.noise_multiplier) is float


# --- what no event says -----------------------------------------------------------------------

P = pl.Parallel
INEXACT = [
    (pl.DiscreteGaussian(2.0, 2), "add_remove"), (pl.Exponential(0.5), "add_remove"),
    (pl.Exponential(0.5, (0, 1)), "add_remove"), (pl.PermuteAndFlip(0.5), "add_remove"),
    (pl.ReportNoisyMax(0.5), "add_remove"), (pl.ReportNoisyMax(0.5, "gumbel"), "add_remove"),
    (pl.TopK(3, 0.5), "replace_one"), (pl.TopK(3, 0.5, "gumbel"), "add_remove"),
    (pl.SparseVector(4.0, 8.0, 2), "add_remove"), (pl.nodes.Group(3, G), "add_remove"),
    (pl.nodes.Group(3, L), "add_remove"), (pl.IndividualFilter("gdp", 0.5), "add_remove"),
    (P([L, pl.Laplace(8.0)]), "add_remove"), (pl.nodes.OneOf([L, pl.Laplace(8.0)]), "add_remove"),
    (P([L, L]), "replace_one"), (G, "replace_one"), (L, "replace_one"),
    (P([G, G], "index"), "replace_one"), (pl.nodes.AsReplaceOne(G), "replace_one"),
    (pl.nodes.AsReplaceOne(L), "replace_one"),
    (pl.nodes.FixedSizeSample(5, 100, G), "replace_one"),
    (pl.nodes.FixedSizeSample(5, 100, pl.nodes.AsReplaceOne(G)), "replace_one"),
    (pl.Sequential([pl.TopK(2, 0.1), pl.nodes.Group(2, G), G]), "add_remove"),
    (pl.nodes.Tuning(pl.Exponential(0.5), success=0.1), "add_remove")]


@all_cases(("node", "relation"), INEXACT, ids=str)
def test_an_inexact_export_is_asked_for_and_dominates(node, relation):
    with pytest.raises(pl.errors.UnsupportedNode, match="exact=False"):
        pl.nodes.to_dp_event(node, relation)
    event = pl.nodes.to_dp_event(node, relation, exact=False)
    assert np.all(theirs(event, relation) >= pl.rdp(node, ORDERS, relation) * (1 - 1e-9))
    back = pl.rdp(pl.nodes.from_dp_event(event, relation), ORDERS, relation)
    assert np.all(back >= pl.rdp(node, ORDERS, relation) * (1 - 1e-9))


@all_cases(("node", "relation"), [
    (pl.Asserted(1.0, "w", 1e-6), "add_remove"),
    (pl.nodes.Tuning(G, shape=-0.5, success=0.1), "add_remove"),
    (pl.nodes.Tuning(G, "poisson", mean=0.5), "add_remove"),
    (pl.IndividualFilter("renyi", 0.5, 8.0), "add_remove"),
    (pl.nodes.AsReplaceOne(pl.PoissonSample(0.1, G)), "replace_one"),
    # No price here, so no event either.
    (pl.PoissonSample(0.1, pl.nodes.Group(2, G)), "add_remove"),
    (pl.PoissonSample(0.1, G), "replace_one"),
    (pl.RandomizedResponse(0.5, 4), "add_remove"),
    (pl.nodes.FixedSizeSample(5, 9, L), "add_remove"),
    (pl.nodes.RandomAllocation(5, G), "add_remove"),
    (pl.nodes.AsReplaceOne(pl.nodes.TruncatedPoissonSample(0.1, 5, 9, G)), "replace_one"),
    (pl.nodes.AsReplaceOne(G), "add_remove"), (P([G, G], "index"), "add_remove"),
], ids=str)
def test_what_no_event_bounds_is_refused(node, relation):
    for exact in (True, False):
        with pytest.raises(pl.errors.UnsupportedNode):
            pl.nodes.to_dp_event(node, relation, exact=exact)


def test_events_speak_about_whole_records_only():
    """Outside, a label-only epsilon would read as a promise about whole records."""
    for exact in (True, False):
        for node in (pl.nodes.LabelOnly(L), pl.nodes.Public("nothing")):
            with pytest.raises(pl.errors.RelationMismatch, match="whole records"):
                pl.nodes.to_dp_event(node, "replace_label", exact=exact)
        with pytest.raises(pl.errors.RelationMismatch):
            pl.nodes.to_dp_event(pl.nodes.LabelOnly(L), "replace_one", exact=exact)
    with pytest.raises(pl.errors.RelationMismatch, match="whole records"):
        pl.nodes.from_dp_event(EG, "replace_label")


def test_every_node_type_is_written_or_refused():
    seen = {type(node) for node, _ in INEXACT}
    seen |= {pl.Gaussian, pl.Laplace, pl.DiscreteLaplace, pl.RandomizedResponse, pl.Asserted,
             pl.AssertedZCDP, pl.Repeat, pl.PoissonSample, pl.nodes.PostProcess, pl.nodes.Public,
             pl.nodes.LabelOnly, pl.nodes.Federated, pl.nodes.RandomAllocation,
             pl.nodes.TruncatedPoissonSample, pl.nodes.Correlated, pl.nodes.PartitionSelection,
             pl.nodes.MixtureOfGaussians}
    for exact in (True, False):  # no event fails with a probability
        with pytest.raises(pl.errors.UnsupportedNode):
            pl.nodes.to_dp_event(pl.nodes.PartitionSelection(30.0, 2.0), exact=exact)
    assert seen == set(NODE_TYPES)


def test_free_nodes_are_no_ops():
    for node in (pl.nodes.Public("the schema"), pl.nodes.PostProcess("argmax"), pl.Sequential([])):
        assert pl.nodes.to_dp_event(node) == dp_event.NoOpDpEvent()
    free = pl.nodes.Group(2, pl.nodes.Public(""))
    assert pl.nodes.to_dp_event(free, exact=False) == dp_event.NoOpDpEvent()


def test_equal_parts_are_one_part():
    assert pl.nodes.to_dp_event(P([G, G, G])) == EG
    response = pl.RandomizedResponse(0.5, 4)
    event = dp_event.RandomizedResponseDpEvent(0.5, 4)
    assert pl.nodes.to_dp_event(P([response] * 3, "index"), "replace_one") == event
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.nodes.to_dp_event(P([response] * 3), "replace_one")
    assert pl.nodes.to_dp_event(response, "replace_one") == event


@pytest.mark.parametrize("node", [G, pl.Repeat(G, 5)], ids=str)
def test_their_two_accountants_disagree_about_a_replacement(node):
    """Why additive noise is not exported exactly for replace_one: one doubles, one does not."""
    event = pl.nodes.to_dp_event(node, "replace_one", exact=False)
    ours = pl.epsilon(node, 1e-6, "replace_one")
    found = [kind(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE).compose(event)
             .get_epsilon(1e-6) for kind in (RdpAccountant, dp.pld.PLDAccountant)]
    assert min(found) >= ours * (1 - 1e-6)
    assert found[1] > 1.5 * found[0]
    # And the reading of their docstring, which is the safe one, doubles.
    read = pl.epsilon(pl.nodes.from_dp_event(event, "replace_one"), 1e-6, "replace_one")
    assert read == pytest.approx(found[1], rel=1e-3)


# The page's own block cannot run where dp_accounting is not installed, so it runs here.
def test_the_documented_example_runs():
    page = Path(__file__).resolve().parents[2] / "docs" / "researchers.md"
    blocks = re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"),
                        re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    exec(blocks[0], {})


# --- every node -------------------------------------------------------------------------------

HARD = pl.Asserted(0.5, "so they say", delta=1e-6)


ROUGH = pl.DiscreteGaussian(3.0, 1)


@all_cases(("node", "relation", "said", "weaker", "unsaid"), [
    (pl.Sequential([G, ROUGH, HARD]), "add_remove",  # the others are said
     ["GaussianDpEvent", "ZCDpEvent", "UnsupportedDpEvent"], 1, 1),
    # Nothing is said about whole records by a promise about labels.
    (pl.RandomizedResponse(0.5, 2), "replace_label", ["UnsupportedDpEvent"], 0, 1),
    # The inside of a sample alone would be a statement about another mechanism.
    (pl.Sequential([pl.PoissonSample(0.1, HARD), G]), "add_remove",
     ["UnsupportedDpEvent", "GaussianDpEvent"], 0, 1)])
def test_what_no_event_says_leaves_the_others_said(node, relation, said, weaker, unsaid):
    event, how = every_dp_event(node, relation)
    assert [type(one).__name__ for one in getattr(event, "events", [event])] == said
    assert (sum(how.weaker.values()), sum(how.unsaid.values())) == (weaker, unsaid)


def test_every_node_is_said_exactly_where_it_can_be():
    node = pl.Sequential([G, L, pl.Repeat(pl.Gaussian(4.0), 3)])
    event, how = every_dp_event(node, "add_remove")
    assert event == pl.nodes.to_dp_event(node) and not how.weaker and not how.unsaid
    refused(pl.errors.UnsupportedNode, lambda: pl.nodes.to_dp_event(pl.Sequential([G, ROUGH])))


@given(st.lists(leaves, min_size=1, max_size=4))
def test_what_is_said_weakly_is_never_cheaper(parts):
    """Their Renyi bounds of the event lie above ours of the node."""
    event, how = every_dp_event(pl.Sequential(parts), "add_remove")
    if not how.unsaid:
        assert np.all(theirs(event) >= pl.rdp(pl.Sequential(parts), ORDERS) * (1 - 1e-9))


# --- there and back, for the accountant that doubles ----------------------------------------------

SIMPLER = (dp_event.RepeatAndSelectDpEvent(EG, 1.0, 0.5), dp_event.ZCDpEvent(0.0))
"""Said in fewer words: one run, and nothing at all."""
BOTH = [event for event, *_ in READ if event not in SIMPLER]


@all_cases("relation", list(RELATIONS))
@all_cases("event", BOTH, ids=str)
def test_every_event_that_is_read_comes_back(event, relation):
    """Under both relations: the PLD accountant doubles additive noise, as an event is read here."""
    try:
        node = pl.nodes.from_dp_event(event, relation)
    except pl.errors.RelationMismatch:
        assert isinstance(event, dp_event.RandomizedResponseDpEvent
                          | dp_event.SampledWithoutReplacementDpEvent)
        assert relation == "add_remove"
        return
    assert pl.nodes.to_dp_event(node, relation, accountant="pld") == event


@pytest.mark.parametrize("rate", [1.0, 0.1])
@pytest.mark.parametrize("delta", [1e-3, 1e-6])
def test_the_accountant_that_doubles_prices_no_lower_than_the_truth(rate, delta):
    """Replaced: -1 for 1, each with probability `rate`, noise 2. The hockey stick by a sum."""
    event = EG if rate == 1 else dp_event.PoissonSampledDpEvent(rate, EG)
    node = pl.nodes.from_dp_event(event, "replace_one")
    written = pl.nodes.to_dp_event(node, "replace_one", accountant="pld")
    theirs_pld = dp.pld.PLDAccountant(RELATIONS["replace_one"]).compose(written)
    x = np.linspace(-40, 40, 400_001)

    def density(middle):
        shifted, rest = (np.exp(-((x - at) / 2) ** 2 / 2) for at in (middle, 0))
        return (rate * shifted + (1 - rate) * rest) / math.sqrt(8 * math.pi)

    epsilon = theirs_pld.get_epsilon(delta)
    stick = np.maximum(density(1) - math.exp(epsilon) * density(-1), 0).sum() * (x[1] - x[0])
    assert stick <= delta * (1 + 1e-4)


@pytest.mark.parametrize("event", [dp_event.LaplaceDpEvent(4.0),
                                   dp_event.DiscreteLaplaceDpEvent(0.5, 3)])
def test_other_noise_is_doubled_or_refused_there(event):
    node = pl.nodes.from_dp_event(event, "replace_one")
    written = pl.nodes.to_dp_event(node, "replace_one", accountant="pld")
    try:
        theirs_pld = dp.pld.PLDAccountant(RELATIONS["replace_one"]).compose(written)
    except dp.UnsupportedEventError:
        return  # 0.6.0: no price is no price too low
    assert theirs_pld.get_epsilon(0.0) >= 2 * (0.25 if written == READ[2][0] else 1.5) * (1 - 1e-3)


def test_without_that_accountant_nothing_is_written_that_another_prices_too_low():
    node = pl.nodes.AsReplaceOne(G)
    refused(pl.errors.UnsupportedNode, lambda: pl.nodes.to_dp_event(node, "replace_one"))
    with pytest.raises(pl.errors.InvalidValue):
        pl.nodes.to_dp_event(node, "replace_one", accountant="rdp")
    inner = pl.nodes.AsReplaceOne(pl.Exponential(1.0))
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.nodes.to_dp_event(inner, "replace_one", accountant="pld")
