"""What linear models and boosting make of what was released: by hand."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from privledger_learners import gradient_descent
from privledger_learners.boosting.random_splits import Rounds
from privledger_learners.boosting.sum_of_trees import RESIDUAL_EDGES
from privledger_learners.gradient_descent import Descent, LinearRule, numeric_sums

import privledger as pl
from tests.all_cases import all_cases

SCHEMA = pl.Schema("t", (*(pl.Column(f"x{place}", "numeric", "feature", -1.0, 1.0)
                           for place in range(3)), pl.Column("y", "numeric", "target", -3.0, 3.0)))
LABELS = pl.Schema("t", (*SCHEMA.features,
                         pl.Column("y", "categorical", "target", categories=("n", "p"))))


def descent(answers, schema=SCHEMA, noise=2.0):
    """One whose releases answer this, on a table that plays no part."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6))
    target = np.zeros(8) if schema is SCHEMA else ["n"] * 8
    data = ledger.protect({f"x{place}": np.zeros(8) for place in range(3)}, target, schema)
    told = iter(answers)
    session = SimpleNamespace(release=lambda node, query: np.array(next(told), dtype=float))
    return Descent(session, data, LinearRule.of(schema, 1.0), noise)


@pytest.mark.parametrize(("signal", "longer"), [
    (5.0, 1.0), (50.0, 1.0), (98.0, 1.4), (112.5, 1.5), (128.0, 1.6)])
def test_a_bought_clip_is_where_four_fifths_of_the_residuals_are(signal, longer):
    """With little signal three quarters of it, and more with the root of the signal."""
    one = descent([[0, 0, 1000.0] + [0.0] * (len(RESIDUAL_EDGES) - 2)])
    score = one.data.score(gradient_descent.loss_of(SCHEMA), np.zeros(1), center=0.0, scale=3.0)
    clip = one._clip(signal, one._bound(score, signal))
    assert clip == pytest.approx(0.75 * longer * RESIDUAL_EDGES[2] * 2**-0.2)


@pytest.mark.parametrize("signal", [4096.0, 10.0**6])
def test_with_much_signal_a_clip_is_of_the_size_of_the_residuals(signal):
    """It never passes one length of a row times what the signal allows."""
    for place in range(len(RESIDUAL_EDGES) + 1):
        counts = [0.0] * (len(RESIDUAL_EDGES) + 1)
        counts[place] = 10.0**4
        one = descent([counts])
        score = one.data.score(gradient_descent.loss_of(SCHEMA), np.zeros(1), center=0.0,
                               scale=3.0)
        edges = np.array([0.0, *RESIDUAL_EDGES, RESIDUAL_EDGES[-1]])
        size = 1.2 if place == len(RESIDUAL_EDGES) else (edges[place] + edges[place + 1]) / 2
        most = edges[place + 1] * 2**-0.2
        clip = one._clip(signal, one._bound(score, signal))
        assert clip == pytest.approx(0.75 * 2.5 * min(max(size, most), 1.0))


def test_spreads_are_those_of_the_sums_and_never_below_their_noise():
    means, squares, n_hat = np.array([0.5, -0.25, 2.0]), np.array([0.5, 0.2, 0.1]), 1000.0
    one = descent([[*np.ravel(np.column_stack([means, squares])) * n_hat, n_hat]])
    centers, scales = one._scales(np.zeros(3, dtype=bool), n_hat)
    node = one.rule.scale_node(one.noise)
    error = math.sqrt(7) * node.noise_multiplier / n_hat  # a row, its squares and the one
    held = np.clip(means, -1.0, 1.0)
    assert centers == pytest.approx(held)
    assert scales**2 == pytest.approx(np.maximum(squares - held**2, 0) + 4 * error**2 + 1e-3)


@all_cases("numbers", [1, 2, 3])
def test_no_row_of_sums_is_longer_than_its_clip_and_some_are_as_long(numbers):
    schema = pl.Schema("t", (*SCHEMA.features[:numbers], SCHEMA.target))
    assert numeric_sums(schema, np.zeros(numbers, dtype=bool)).clip == math.sqrt(2 * numbers + 1)


@pytest.mark.parametrize(("schema", "curvature"), [(SCHEMA, 1.0), (LABELS, 0.25)])
def test_a_step_is_as_long_as_the_curvature_of_the_loss_allows(schema, curvature, monkeypatch):
    """A gradient is released once, of one; then nothing moves but for the momentum."""
    steps, n_hat = 100, 1000.0
    start = [n_hat, 0.0] if schema is SCHEMA else [n_hat / 2, n_hat / 2]
    monkeypatch.setattr(Descent, "_scales", lambda self, wide, n: (np.zeros(3), np.ones(3)))
    monkeypatch.setattr(Descent, "_bound", lambda self, score, signal: 1.0)
    monkeypatch.setattr(Descent, "_clip", lambda self, signal, bound: 1.0)
    monkeypatch.setattr(Descent, "_time", lambda self, signal, width: 7.0)
    columns = gradient_descent.columns_of(schema)
    gradients = [np.full(columns, n_hat), *[np.zeros(columns)] * (steps - 1)]
    model = descent([start, *gradients], schema).run()
    width, hinges = 3 + 1, 0.4 * 3
    rate = 0.2 * 7.0 / steps / (curvature * (width + hinges))
    # 1 / (1 - momentum) of the first step is reached by half of the steps.
    assert model.weights == pytest.approx(np.full_like(model.weights, rate * 5), rel=1e-3)


@all_cases("rate", [1.0, 0.2])
@all_cases("static", [True, False])
def test_sums_of_leaves_of_a_sample_stand_for_all_rows(rate, static):
    """Divided by the rate, as are the deviations of their noise."""
    class Handle:
        def query(self, blocks, cells, label):
            return blocks

        def poisson(self, asked):
            assert asked == rate < 1
            return self

    H, S = np.array([4.0, 8.0]), np.array([1.0, -2.0])
    trees = SimpleNamespace(
        priced=SimpleNamespace(rule=SimpleNamespace(sampling_rate=rate, static_noise=static,
                                                    count_share=0.36)),
        node=pl.Gaussian(3.0), data=Handle(), clip=SimpleNamespace(now=0.5),
        score=SimpleNamespace(gradient=lambda clip: ("S", clip), hessian=lambda: "H"),
        session=SimpleNamespace(release=lambda node, asked, rollover: S if static else (H, S)),
        beliefs=SimpleNamespace(total=100.0))
    found = Rounds._ask(trees, SimpleNamespace(count=2), 0)
    assert found[0].tolist() == ([50.0, 50.0] if static else (H / rate).tolist())
    assert found[1].tolist() == (S / rate).tolist()
    wide = np.arange(6.0)  # of three classes, leaf by leaf
    trees.session.release = lambda node, asked, rollover: wide if static else (H, wide)
    assert Rounds._ask(trees, SimpleNamespace(count=2), 0)[1].tolist() == (
        wide.reshape(2, 3) / rate).tolist()
    unit = 3.0 / rate
    assert found[2:] == ((1e9, 0.5 * unit) if static else
                         (pytest.approx(unit / 0.6), pytest.approx(0.5 * unit / 0.8)))
