"""How finely features are cut: the edges, the rule, and what buying them costs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from privledger_learners import (
    DiPriMeForestClassifier,
    DPBoostClassifier,
    JointTreeClassifier,
    MultinomialForestClassifier,
)
from privledger_learners.trees import bin_rule as rules
from privledger_learners.trees.bin_rule import (
    FEW_BINS,
    FINE_BINS,
    FINE_ROWS,
    GRID,
    PUBLIC_BINS,
    bin_rule,
    denoised,
    equal_mass,
    is_wide,
    on_grid,
    wide_features,
)
from privledger_learners.trees.depth_rule import DepthRule, fair_depth

import privledger as pl
from tests.all_cases import all_cases
from tests.certified.learner_certificates import stored_learners
from tests.worlds import refused

FOLDER = Path(__file__).parents[2] / "docs" / "certificates"
KINDS = [JointTreeClassifier, DiPriMeForestClassifier, MultinomialForestClassifier,
         DPBoostClassifier]
COLUMNS = (pl.Column("price", "numeric", "feature", 0.0, 1000.0),
           pl.Column("age", "numeric", "feature", 0.0, 120.0, integer=True),
           pl.Column("days", "numeric", "feature", 0.0, 3650.0, integer=True),
           pl.Column("town", "categorical", "feature", categories=("a", "b")))
TARGET = pl.Column("t", "categorical", "target", categories=("n", "p"))


def schema(rows: int | None = None) -> pl.Schema:
    return pl.Schema("shop", (*COLUMNS, TARGET), expected_rows=rows,
                     expected_rows_provenance=None if rows is None else "declared")


def made_up(n: int, seed: int = 0) -> tuple[dict[str, object], np.ndarray]:
    rng = np.random.default_rng(seed)
    price = np.minimum(np.exp(rng.normal(size=n)), 1000.0)
    X = {"price": price, "age": rng.integers(0, 121, n).astype(float),
         "days": rng.integers(0, 3651, n).astype(float),
         "town": np.where(rng.random(n) < 0.5, "a", "b")}
    return X, np.where(price > 1.0, "p", "n")


@pytest.fixture
def eager(monkeypatch):
    """Tables of some hundred rows count as large."""
    monkeypatch.setattr(rules, "FINE_ROWS", 100.0)
    monkeypatch.setattr(rules, "ENOUGH", 1e-3)


@given(st.lists(st.integers(-10**6, 10**6), min_size=2, max_size=300),
       st.sampled_from([0.0, 1.0, 1e3, 1e9]), st.integers(2, 255))
def test_edges_rise_and_are_never_too_many(counts, noise, bins):
    starts = equal_mass(np.array(counts, dtype=float), noise, bins)
    assert 1 <= len(starts) < max(bins, 2)
    assert (np.diff(starts) > 0).all() and starts[0] >= 1 and starts[-1] < len(counts)


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=200), st.floats(0, 1e9))
def test_denoised_shares_add_up(counts, noise):
    mass = denoised(np.array(counts), noise)
    assert (mass >= 0).all() and mass.sum() == pytest.approx(1.0)


def test_without_noise_bins_hold_equal_mass():
    counts = np.bincount(np.minimum((np.abs(np.random.default_rng(0).normal(
        size=100_000)) * 800).astype(int), GRID - 1), minlength=GRID).astype(float)
    held = np.add.reduceat(counts, np.concatenate([[0], equal_mass(counts, 0.0)]))
    assert held.max() < 3 * counts.sum() / FEW_BINS


def test_where_there_is_only_noise_bins_are_of_equal_width():
    """Each width is off by noise of 1e-4; a factor of two cannot happen."""
    counts = np.random.default_rng(0).laplace(size=GRID)
    starts = equal_mass(1e-4 * counts, 1e3)
    assert np.diff(starts).max() <= 2 * GRID / FEW_BINS


def test_spikes_do_not_eat_the_bins():
    """A cell with nearly all the mass gets one bin; the others share the rest."""
    counts = np.ones(GRID)
    counts[0] = 1e9
    assert len(equal_mass(counts, 0.0)) > FEW_BINS / 2


@given(st.integers(1, GRID - 1), st.integers(0, 50))
def test_a_cut_between_two_whole_numbers_stays_between_them(width, start):
    """On the grid's own coding, whatever the range."""
    column = pl.Column("x", "numeric", "feature", float(start), float(start + width), integer=True)
    cuts = on_grid(column, np.arange(1, width + 1), width + 1)
    bins = pl.questions.Bins(pl.Schema("x", (column, TARGET)), 255, (tuple(cuts),), GRID)
    values = {"x": np.arange(start, start + width + 1, dtype=float)}
    codes = bins.codes(pl.encode_features(values, bins.schema))[0]
    assert np.array_equal(codes, np.arange(width + 1))


def test_wide_are_numbers_of_more_values_than_a_byte():
    assert [is_wide(column) for column in COLUMNS] == [True, False, True, False]
    assert wide_features(schema(), None, 0.02) == (0, 2)
    assert wide_features(schema(), 64, 0.02) == wide_features(schema(), None, 0.0) == ()


@pytest.mark.parametrize("kind", KINDS)
def test_declared_rows_decide(kind, eager):
    """Fits of tables too small for any quantile: what is declared is believed."""
    X, y = made_up(300)
    few, many = (kind(epsilon=1.0, schema=schema(rows), unaccounted=True).fit(X, y)
                 for rows in (99, 10**7))
    if kind is DPBoostClassifier:  # the start buys its rows
        assert many.model_.bins.sizes()[0] <= FEW_BINS + 1
        return
    found = [model.forest_.trees[0].cells.bins for model in (few, many)]
    assert found[0].sizes() == (FINE_BINS + 1, 122, 3652, 3) and not found[0].cuts
    assert max(found[1].sizes()) <= FEW_BINS + 1
    assert [bool(cuts) for cuts in found[1].cuts] == [True, False, True, False]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_buys_stays_within_epsilon_and_cuts_where_the_mass_is(kind, eager):
    X, y = made_up(3000)
    ledger = pl.Ledger.create(None, budget=pl.Budget(20.0, 0.0))
    model = kind(epsilon=20.0, schema=schema()).fit(ledger.protect(X, y, schema()))
    bins = (model.model_.bins if kind is DPBoostClassifier else model.forest_.trees[0].cells.bins)
    inside = np.array(bins.cuts[0]) * 1000.0 / GRID
    assert (inside < 10).sum() > 20  # of equal width they would be three
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("kind", KINDS)
def test_bought_bins_are_kept_with_the_model(kind, eager, tmp_path):
    X, y = made_up(3000)
    model = kind(epsilon=20.0, schema=schema(10**6)).fit(X, y)
    pl.save_model(model, tmp_path / "kept.model")
    found = pl.load_model(tmp_path / "kept.model")
    np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
    bins = (found.model_.bins if kind is DPBoostClassifier else found.forest_.trees[0].cells.bins)
    assert bins.cuts[0] and bins.grid == GRID


@pytest.mark.parametrize("kind", KINDS)
def test_small_tables_are_cut_as_they_were(kind):
    """The same noise gives the same model as on the finest grid, which was the default once."""
    X, y = made_up(500)
    both = [kind(epsilon=2.0, schema=schema(), mode="simulation", random_state=3, numeric_bins=bins,
                 unaccounted=True).fit(X, y).predict_proba(X) for bins in (None, FINE_BINS)]
    np.testing.assert_allclose(*both, rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_bins_that_are_asked_for_are_used(kind, eager):
    X, y = made_up(300)
    model = kind(epsilon=1.0, schema=schema(10**7), numeric_bins=64).fit(X, y)
    bins = (model.model_.bins if kind is DPBoostClassifier else model.forest_.trees[0].cells.bins)
    assert bins.sizes()[0] == 65 and not bins.cuts


def test_nobody_knows_how_many_rows():
    """A fixed depth buys no row count, and nothing is declared: the public grid."""
    X, y = made_up(300)
    model = JointTreeClassifier(epsilon=1.0, schema=schema(), depth=2).fit(X, y)
    assert model.forest_.trees[0].cells.bins.sizes()[0] == PUBLIC_BINS + 1


@settings(max_examples=50)
@given(st.floats(-1e9, 1e12), st.floats(0.01, 10.0), st.integers(1, 14))
def test_whatever_count_comes_its_form_was_reserved(rows, epsilon, most):
    rule = DepthRule(None, None, most, lambda found: fair_depth(found, epsilon, 10.0, most), None,
                     bin_rule(schema(), None, 0.03, epsilon, "add_remove"))
    forms = {(form.depth, form.buys) for form in rule._forms()}
    found = rule.form(rows)
    assert (found.depth, found.buys) in forms


@all_cases("share", [-0.1, 0.5, math.nan, True, "1"])
@all_cases("kind", KINDS)
def test_shares_that_can_never_be_right(kind, share):
    refused(pl.InvalidValue, lambda: kind(schema=schema(), bins_share=share).plan())


def test_the_smallest_table_that_buys():
    rule = bin_rule(schema(), None, 0.03, 1.0, "add_remove")
    assert rule.enough == FINE_ROWS and rule.buys(FINE_ROWS) and not rule.buys(FINE_ROWS - 1)
    assert not rule.buys(None) and not rule.buys(math.nan)
    assert bin_rule(schema(), None, 0.03, 0.001, "add_remove").enough > FINE_ROWS


@pytest.mark.parametrize("one", [one for one in stored_learners(FOLDER) if one.learner.startswith(
    ("joint-tree", "diprime", "multinomial", "dpboost"))], ids=lambda one: one.learner)
def test_a_lock_holds_where_quantiles_are_bought(one, monkeypatch):
    """The worst pairs found for public bins, where every table counts as large."""
    public = one.lock()
    monkeypatch.setattr(rules, "FINE_ROWS", -math.inf)
    monkeypatch.setattr(rules, "ENOUGH", -math.inf)
    found = one.lock()
    assert not found.broken and found.ratio <= 1
    assert len(found.ratios) > len(public.ratios)
