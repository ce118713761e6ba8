"""LabelOnly: the price of one label, and never a promise about whole records."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.accounting.cost import LABELS_ONLY, promise
from privledger.graph import cost_of
from privledger.graph.register import leaf_cost
from tests.all_cases import all_cases
from tests.worlds import refused

G, L, R = pl.Gaussian(2.0), pl.Laplace(4.0, 2.0), pl.RandomizedResponse(0.5, 3)
LABEL = "replace_label"
INSIDE = [
    G, L, R, pl.Repeat(R, 3), pl.Sequential([L, R]), pl.nodes.Group(2, L),
    pl.Parallel([L, pl.Laplace(1.0)], "index"), pl.Parallel([L, L]),
    pl.nodes.AsReplaceOne(pl.PoissonSample(0.1, G)),
    pl.nodes.Tuning(L, success=0.1)]


@all_cases("node", INSIDE, ids=pl.nodes.label)
@all_cases("delta", [0.0, 1e-6])
def test_a_label_costs_what_a_replaced_record_costs(node, delta):
    """A changed label is a replaced record, so no accountant may say less than it proves."""
    try:
        expected = pl.epsilon(node, delta, "replace_one")
    except pl.PrivledgerError as error:
        refused(type(error), lambda: pl.epsilon(pl.nodes.LabelOnly(node), delta, LABEL))
        return
    assert pl.epsilon(pl.nodes.LabelOnly(node), delta, LABEL) == expected


@all_cases("node", [*INSIDE, pl.Repeat(G, 2)], ids=pl.nodes.label)
def test_relations_never_mix(node):
    for relation in ("add_remove", "replace_one"):
        with pytest.raises(pl.errors.RelationMismatch, match="whole records"):
            pl.epsilon(pl.nodes.LabelOnly(node), 1e-6, relation)
    refused(pl.errors.RelationMismatch, lambda: pl.epsilon(node, 1e-6, LABEL),
            lambda: pl.epsilon(pl.nodes.LabelOnly(pl.nodes.LabelOnly(node)), 1e-6, LABEL),
            lambda: pl.epsilon(pl.Sequential([pl.nodes.LabelOnly(node), node]), 1e-6, LABEL))
    with pytest.raises(pl.errors.RelationMismatch, match="LabelOnly around"):
        pl.epsilon(pl.Parallel([pl.nodes.LabelOnly(node)] * 2), 1e-6, LABEL)


@pytest.mark.parametrize("node", [pl.PoissonSample(0.1, G), pl.IndividualFilter("gdp", 1.0)],
                         ids=pl.nodes.label)
def test_what_has_no_replace_one_proof_has_none_for_labels(node):
    for tried in (pl.nodes.LabelOnly(node), node,
                  pl.IndividualFilter("gdp", 1.0, node=pl.nodes.LabelOnly(G)),
                  pl.PoissonSample(0.1, pl.nodes.LabelOnly(G))):
        with pytest.raises(pl.errors.RelationMismatch):
            pl.epsilon(tried, 1e-6, LABEL)


def test_a_sample_of_fixed_size_swaps_whole_records():
    """A label may move a query by 1 where a record moves it by 2: the proof does not carry over."""
    sample = pl.nodes.FixedSizeSample(5, 100, G)
    for node in (sample, pl.Repeat(sample, 2)):
        with pytest.raises(pl.errors.UnsupportedNode, match="fixed size"):
            pl.epsilon(pl.nodes.LabelOnly(node), 1e-6, LABEL)
    with pytest.raises(pl.errors.RelationMismatch):
        pl.epsilon(pl.nodes.FixedSizeSample(5, 100, pl.nodes.LabelOnly(G)), 1e-6, LABEL)


def test_composition_outside_is_composition_inside():
    one = pl.nodes.LabelOnly(L)
    assert pl.epsilon(pl.Repeat(one, 4), 0.0, LABEL) == pl.epsilon(
        pl.nodes.LabelOnly(pl.Repeat(L, 4)), 0.0, LABEL)
    assert pl.epsilon(pl.Parallel([one, pl.nodes.LabelOnly(pl.Laplace(1.0))], "index"), 0.0,
                      LABEL) == pl.epsilon(pl.Laplace(1.0))
    assert pl.epsilon(pl.nodes.Group(3, one), 0.0, LABEL) == pytest.approx(3 * pl.epsilon(L))
    assert pl.epsilon(pl.Sequential([pl.nodes.Public("x"), pl.nodes.PostProcess("y")]), 0.0,
                      LABEL) == 0
    assert cost_of(one, LABEL).relation == LABEL


@given(st.floats(0.01, 0.99), st.integers(2, 30), st.sampled_from([0.0, 1e-9, 1e-2]))
@settings(max_examples=40, deadline=None)
def test_randomised_response_is_priced_as_under_replace_one(noise, buckets, delta):
    node = pl.RandomizedResponse(noise, buckets)
    assert pl.epsilon(pl.nodes.LabelOnly(node), delta, LABEL) == pl.epsilon(node, delta,
                                                                            "replace_one")
    assert cost_of(pl.nodes.LabelOnly(node), LABEL).pure == leaf_cost(
        node, "replace_one", (2.0,)).pure


def test_nothing_is_priced_per_record():
    for node in (G, pl.nodes.LabelOnly(G)):
        with pytest.raises(pl.errors.RelationMismatch):
            pl.nodes.rdp_per_record(node, np.array([0.5]), [2.0], LABEL)


def test_every_reader_is_told_that_it_is_labels_only():
    assert LABELS_ONLY in str(pl.explain(pl.nodes.LabelOnly(L), 0.0, LABEL)).splitlines()[0]
    assert LABELS_ONLY not in str(pl.explain(L, 0.0, "replace_one"))
    assert "LABELS ONLY" in promise(LABEL)
    assert pl.nodes.label(pl.nodes.LabelOnly(L)).startswith("LabelOnly")
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0), relation=LABEL)
    assert LABELS_ONLY in repr(ledger)
