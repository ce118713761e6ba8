"""Nodes check themselves; JSON goes there and back; the view shows every node once."""

import json
import math

import pytest

import privledger as pl
from privledger.graph import canonical
from privledger.graph.nodes import NODE_TYPES, children, row_of, with_children
from tests.all_cases import all_cases
from tests.worlds import refused

G, L = pl.Gaussian(1.0), pl.Laplace(1.0)
EVERY = [
    G, L, pl.Gaussian(2.0, (0.25, 0.75)), pl.DiscreteLaplace(0.5, 3), pl.DiscreteGaussian(2.0, 2),
    pl.Exponential(0.5), pl.RandomizedResponse(0.5, 4), pl.Asserted(0.1, "seen by hand"),
    pl.nodes.PostProcess("argmax"), pl.nodes.Public("the schema"), pl.Sequential([]),
    pl.Sequential([G, L]),
    pl.Repeat(G, 7), pl.Parallel([G, L]), pl.Parallel([G], "iid_per_record"),
    pl.nodes.OneOf([G, L]),
    pl.PoissonSample(0.1, G), pl.IndividualFilter("gdp", 0.5),
    pl.IndividualFilter("renyi", 0.5, 8.0, pl.Repeat(pl.PoissonSample(0.1, G), 3)),
    pl.nodes.Group(3, G), pl.Exponential(0.5, (0, 1)), pl.PermuteAndFlip(0.5),
    pl.ReportNoisyMax(0.5),
    pl.ReportNoisyMax(0.5, "gumbel"), pl.TopK(3, 0.5), pl.TopK(3, 0.5, "gumbel"),
    pl.nodes.PartitionSelection(30.0, 2.0),
    pl.nodes.PartitionSelection(30.0, 2.0, 2, "geometric"),
    pl.nodes.PartitionSelection(90.0, 9.0, 5, "gaussian"),
    pl.nodes.MixtureOfGaussians(2.0, (0.0, 1.0, 0.5), (0.5, 0.25, 0.25)),
    pl.SparseVector(4.0, 8.0), pl.SparseVector(4.0, 8.0, 3, 2.0, True),
    pl.Asserted(0.1, "with a delta", 1e-6), pl.AssertedZCDP(0.1, "seen by hand"),
    pl.nodes.FixedSizeSample(5, 100, pl.Repeat(G, 3)),
    pl.nodes.RandomAllocation(20, pl.Repeat(G, 3)),
    pl.nodes.TruncatedPoissonSample(0.1, 20, 100, G),
    pl.nodes.Correlated(G, (1.0, 0.5, 0.25), 20, 5, 2),
    pl.nodes.AsReplaceOne(pl.PoissonSample(0.1, L)),
    pl.nodes.Tuning(G, success=0.1),
    pl.nodes.Federated(pl.Repeat(G, 3), 5, 4), pl.nodes.Federated(L, 1, 0, 1, "anybody"),
    pl.nodes.Federated(G, 20, 3, 10, "parties", "shared"),
    pl.nodes.Tuning(pl.Sequential([G, L]), shape=-0.5, success=0.25),
    pl.nodes.Tuning(L, "poisson", mean=3.0), pl.nodes.LabelOnly(pl.Repeat(L, 2))]


def test_every_node_type_is_among_them():
    assert {type(node) for node in EVERY} == set(NODE_TYPES)


@all_cases("node", EVERY)
def test_a_node_around_its_own_children_is_itself(node):
    inside = children(node)
    assert with_children(node, inside) == node and row_of(node).kind is type(node)
    if inside:
        others = (pl.Gaussian(7.0),) * len(inside)
        made = with_children(node, others)
        assert type(made) is type(node) and children(made) == others


@all_cases("node", EVERY, ids=lambda node: pl.nodes.label(node)[:30])
def test_json_round_trip(node):
    text = canonical(pl.nodes.to_json(node))
    assert pl.nodes.from_json(json.loads(text)) == node
    assert canonical(pl.nodes.to_json(pl.nodes.from_json(json.loads(text)))) == text


def test_canonical_json_is_canonical():
    assert canonical({"b": 1, "a": [1, 2.5, None, True]}) == '{"a":[1,2.5,null,true],"b":1}'
    assert canonical({"x": "ä\u2028\U0001f600"}).isascii()
    for bad in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError):
            canonical({"x": bad})


@all_cases("value", [
    None, 3, "Gaussian", [], {}, {"node": "Mystery"}, {"node": ["Gaussian"]}, {"node": {}},
    {"node": "Gaussian"}, {"node": "Gaussian", "noise_multiplier": -1},
    {"node": "Gaussian", "noise_multiplier": float("nan")},
    {"node": "Gaussian", "noise_multiplier": "1"}, {"node": "Gaussian", "noise_multiplier": True},
    {"node": "Gaussian", "noise_multiplier": 1, "extra": 1},
    {"node": "Gaussian", "noise_multiplier": 1, "shares": 5},
    {"node": "Gaussian", "noise_multiplier": 1, "shares": [{"node": "Public"}]},
    {"node": "Repeat", "inner": {"node": "Gaussian", "noise_multiplier": 1}, "count": 0},
    {"node": "Repeat", "inner": 5, "count": 1}, {"node": "Sequential", "nodes": 5},
    {"node": "Sequential", "nodes": [5]}, {"node": "Sequential", "nodes": "ab"},
    {"node": "Parallel", "nodes": []},
    {"node": "Parallel", "nodes": [{"node": "Public"}], "certificate": "balanced"},
    {"node": "PoissonSample", "rate": 2, "inner": {"node": "Public"}},
    {"node": "IndividualFilter", "kind": "zcdp", "cap": 1},
    {"node": "IndividualFilter", "kind": "gdp", "cap": 1, "order": 2.0},
    {"node": "IndividualFilter", "kind": "renyi", "cap": 1},
    {"node": "Exponential", "epsilon": 1, "score_change": 1},
    {"node": "Exponential", "epsilon": 1, "score_change": [1, 0]},
    {"node": "Exponential", "epsilon": 1, "score_change": [0, {"node": "Public"}]},
    {"node": "PermuteAndFlip", "epsilon": math.nan},
    {"node": "ReportNoisyMax", "epsilon": 1, "noise": "normal"},
    {"node": "ReportNoisyMax", "epsilon": 1, "noise": ["gumbel"]},
    {"node": "TopK", "k": 1.0, "epsilon": 1},
    {"node": "SparseVector", "threshold_scale": 1, "query_scale": 1, "monotone": 1},
    {"node": "AssertedZCDP", "rho": 1, "why": " "}, {"node": "AssertedZCDP", "rho": 1, "why": 3},
    {"node": "Asserted", "epsilon": 1, "why": "so", "delta": 1},
    {"node": "FixedSizeSample", "size": 5, "out_of": 4, "inner": {"node": "Public"}},
    {"node": "FixedSizeSample", "size": 5, "out_of": 9, "inner": 3},
    {"node": "MixtureOfGaussians", "standard_deviation": 1, "sensitivities": [1]},
    *({"node": "MixtureOfGaussians", "standard_deviation": one, "sensitivities": places,
       "probabilities": chances} for one, places, chances in (
        (0, [1], [1]), (1, [], []), (1, [0], [1]), (1, 1, 1), (1, [1], [0.5]), (1, [1, 2], [1]),
        (1, [1, -1], [0.5, 0.5]), (1, [1, 2], [1, 0]), (1, [1, 2], [0.6, 0.6]), (1, ["1"], [1]),
        (1, [1, {"node": "Public"}], [0.5, 0.5]), (1, [True], [1]), (1, [1e-200], [1]),
        (1e-139, [1e139], [1]), (1, [1] * 257, [1 / 257] * 257))),
    {"node": "RandomAllocation", "steps": 0, "inner": {"node": "Public"}},
    {"node": "RandomAllocation", "inner": {"node": "Public"}},
    {"node": "AsReplaceOne", "inner": "Public"}, {"node": "AsReplaceOne"},
    {"node": "Federated", "parties": 2, "colluding": 1},
    {"node": "Federated", "parties": 2, "colluding": 2, "inner": {"node": "Public"}},
    {"node": "Federated", "parties": True, "colluding": 0, "inner": {"node": "Public"}},
    {"node": "Federated", "parties": 2, "colluding": 0, "noise": "no", "inner": {"node": "Public"}},
    {"node": "LabelOnly"}, {"node": "LabelOnly", "inner": 3},
    {"node": "Tuning", "inner": {"node": "Public"}},
    {"node": "Tuning", "inner": {"node": "Public"}, "success": 0.5, "shape": -1},
    {"node": "Tuning", "inner": {"node": "Public"}, "success": 0.5, "mean": 1},
    {"node": "Tuning", "inner": {"node": "Public"}, "distribution": "poisson"},
    {"node": "Tuning", "inner": {"node": "Public"}, "distribution": ["poisson"], "mean": 1}])
def test_malformed_json_is_an_invalid_value(value):
    refused(pl.InvalidValue, lambda: pl.nodes.from_json(value))


@all_cases("build", [
    lambda: pl.Sequential([G, 3]), lambda: pl.Sequential(["x"]), lambda: pl.Repeat(None, 2),
    lambda: pl.Parallel([]), lambda: pl.Parallel([G], "balanced"), lambda: pl.Parallel([None]),
    lambda: pl.PoissonSample(0.1, "G"), lambda: pl.nodes.Group(2, 5),
    lambda: pl.IndividualFilter("pure", 1.0), lambda: pl.IndividualFilter("gdp", 1.0, 2.0),
    lambda: pl.IndividualFilter("renyi", 1.0), lambda: pl.IndividualFilter("gdp", 1.0, node=3),
    lambda: pl.epsilon("G", 1e-6), lambda: pl.epsilon(None, 1e-6)])
def test_a_malformed_node_is_refused(build):
    refused(pl.InvalidValue, build)


def test_lists_become_tuples():
    nodes = [G]
    node = pl.Sequential(nodes)
    nodes.append(L)
    assert node.nodes == (G,)


def test_equal_trees_hash_alike():
    for node in EVERY:
        twin = pl.nodes.from_json(pl.nodes.to_json(node))
        assert hash(twin) == hash(node)


def test_view_has_one_vertex_per_node_and_counts_repeats():
    tree = pl.nodes.view(pl.Repeat(pl.Sequential([G, pl.PoissonSample(0.1, pl.Repeat(L, 2))]), 5))
    kinds = {path: data["kind"] for path, data in tree.nodes(data=True)}
    assert kinds == {"0": "Repeat", "0.0": "Sequential", "0.0.0": "Gaussian",
                     "0.0.1": "PoissonSample", "0.0.1.0": "Repeat", "0.0.1.0.0": "Laplace"}
    assert tree.nodes["0.0.1.0.0"]["multiplicity"] == 10
    assert tree.number_of_edges() == len(kinds) - 1
    refused(Exception, lambda: tree.add_node("new"), match="[Ff]rozen")


@all_cases("node", EVERY, ids=lambda node: pl.nodes.label(node)[:30])
def test_label_and_graphml_name_the_type(node):
    assert pl.nodes.label(node).startswith(type(node).__name__)
    assert type(node).__name__ in pl.nodes.graphml(node)
