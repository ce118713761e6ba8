"""JointTree: conforms, costs what it says, learns something."""

import numpy as np
import pytest
from privledger_learners import DiPriMeForestClassifier, JointTreeClassifier, JointTreeRegressor
from privledger_learners.trees.grow import levels_of, quantile_edges, smoothed_shares

import privledger as pl


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
@pytest.mark.parametrize("rows", [None, 4000, 10**6])
def test_it_is_the_joint_form_of_diprime(rings, rows, relation):
    """One implementation: the same plan, and of the same noise the same model."""
    schema = pl.Schema("rings", rings[0].columns, expected_rows=rows,
                       expected_rows_provenance=None if rows is None else "declared")
    options = {"epsilon": 0.7, "schema": schema, "relation": relation, "mode": "simulation",
               "random_state": 2}
    one, other = JointTreeClassifier(**options), DiPriMeForestClassifier(**options)
    assert one.plan() == other.plan()
    # Levels and leaves are one member: DiPriMe's plan, whose trees may be many.
    assert isinstance(one.plan().nodes[-1], pl.nodes.OneOf) == (rows is None)
    assert len(one.claimed()) == 1  # what it costs: see test_every_learner.py
    X, y = rings[1], rings[2]
    np.testing.assert_array_equal(one.fit(X, y).predict_proba(X), other.fit(X, y).predict_proba(X))
    assert one.claimed() != other.claimed() and one.claimed()[-1].sound == other.claimed()[-1].sound


@pytest.mark.parametrize("kind", [JointTreeRegressor, JointTreeClassifier])
def test_a_wrong_share_is_named_as_it_is_called(kind, rings):
    with pytest.raises(pl.InvalidValue, match="structure_share"):
        kind(structure_share=1.0, schema=rings[0])._check()


def test_shares_are_drawn_to_the_node_above():
    counts = np.array([[90.0, 10.0], [-3.0, 2.0], [0.0, 50.0], [1.0, 0.0]])
    shares = smoothed_shares(counts, 2.0)
    assert shares.sum(axis=1) == pytest.approx(1.0)
    assert shares[0, 0] > 0.8 > shares[1, 0] > 0.3
    assert shares[3, 1] > 0.5  # an empty leaf says what its parent says
    assert (smoothed_shares(-counts, 2.0) > 0).all()
    assert [len(level) for level in levels_of(counts)] == [1, 2, 4]


def test_quantiles_of_noisy_histograms():
    edges = np.linspace(0, 1, 11)[1:-1]
    assert quantile_edges(np.array([100.0] + [0.0] * 9), edges) == (0.1,)
    assert quantile_edges(np.full(10, 5.0), edges, 3) == pytest.approx((0.4, 0.7))
    few = np.array([2.0, -3.0, *[0.0] * 7, 2.0])  # what is no more than noise has no share
    assert quantile_edges(few, edges, 2) == (0.1,)
    assert quantile_edges(np.full(10, -5.0), edges)  # nothing but noise: still a class border
