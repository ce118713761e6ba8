"""Synthetic tables: types, frequencies, trees, and what the released tables agree on."""

import numpy as np
import pytest
from privledger_learners import MarginalSynthesizer
from privledger_learners.table_tree import coarse_bins, directed, fine_cells, onto_simplex, rounded

import privledger as pl
from tests.models.kept_learners import CLASSES, NUMBER, table
from tests.worlds import protected

WIDE = pl.Schema("wide", (
    pl.Column("pay", "numeric", lower=0.0, upper=100_000.0, integer=True),
    pl.Column("share", "numeric", lower=-1.0, upper=1.0),
    pl.Column("far", "categorical", categories=tuple(f"c{place}" for place in range(40))),
    pl.Column("t", "categorical", "target", categories=("no", "yes"))))


def made(schema, X, y, **more):
    return MarginalSynthesizer(epsilon=2.0, delta=1e-6, schema=schema, unaccounted=True,
                               **more).fit(X, y)


def wide(n=4000, seed=2):
    rng = np.random.default_rng(seed)
    t = rng.random(n) < 0.3
    pay = np.where(rng.random(n) < 0.6, 0, rng.integers(1000, 20_000, n)) * (1 + t)
    far = np.minimum((rng.random(n) ** 3 * 40).astype(int), 39)
    return {"pay": pay, "share": np.clip(pay / 20_000 - 1 + 0.2 * rng.random(n), -1, 1),
            "far": [f"c{one}" for one in far]}, np.where(t, "yes", "no")


def test_a_sample_fits_the_schema_and_keeps_its_types():
    for schema in (CLASSES, NUMBER):
        sample = made(schema, *table(schema)).sample(500)
        assert list(sample.columns) == [column.name for column in schema.columns]
        assert len(sample) == 500
        again = pl.encode_features(sample, schema)  # strict: bounds, categories, whole numbers
        assert again.n_rows == 500
        assert sample["n"].dtype == np.int64


def test_a_sample_is_the_same_for_the_same_seed_and_costs_nothing():
    model = made(CLASSES, *table(CLASSES))
    head = model.receipt_
    first, second = model.sample(300, seed=4), model.sample(300, seed=4)
    assert first.equals(second) and not first.equals(model.sample(300, seed=5))
    assert model.receipt_ == head and model.ledger_.spent <= 2.0


def test_dependence_and_spikes_are_kept():
    X, y = wide()
    model = made(WIDE, X, y)
    sample = model.sample()
    assert abs(len(sample) - 4000) < 400
    assert abs((sample["pay"] == 0).mean() - (np.asarray(X["pay"]) == 0).mean()) < 0.05
    # Of 25 fits the mean is .86, the deviation .04; without the pair .04 and .02. So a half is
    # nine deviations away or more: below 1e-6 of false alarms.
    assert np.corrcoef(sample["pay"], sample["share"])[0, 1] > 0.5
    assert abs((sample["t"] == "yes").mean() - (y == "yes").mean()) < 0.03
    alone = made(WIDE, X, y, degree=1).sample()
    assert np.corrcoef(alone["pay"], alone["share"])[0, 1] < 0.5


@pytest.mark.parametrize("relation", ["add_remove", "replace_one"])
def test_the_plan_costs_no_more_than_was_said_and_all_of_it_is_used(relation):
    for schema in (CLASSES, NUMBER, WIDE):
        model = MarginalSynthesizer(epsilon=0.7, delta=1e-6, schema=schema, relation=relation)
        assert 0.69 <= pl.epsilon(model.plan(), 1e-6, relation) <= 0.7


def test_a_forest_has_as_many_pairs_as_rounds():
    X, y = wide()
    for rounds, pairs in ((0, 0), (1, 1), (9, 2)):
        assert (made(WIDE, X, y, rounds=rounds).tree_.parent >= 0).sum() == pairs


def test_released_tables_agree_with_each_other():
    tree = made(WIDE, *wide()).tree_
    for place, above in enumerate(tree.parent):
        np.testing.assert_allclose(tree.fine[place].sum(axis=0), tree.level, rtol=1e-6)
        if above >= 0:
            np.testing.assert_allclose(tree.joint[place].sum(axis=0), tree.binned(place),
                                       atol=1e-3 * tree.level.sum())
            assert (tree.joint[place] >= 0).all()


def test_log_probabilities_are_of_a_law():
    """Over all cells of a small table they add up to one."""
    small = pl.Schema("small", (pl.Column("a", "categorical", categories=("x", "y")),
                                pl.Column("b", "categorical", categories=("x", "y", "z")),
                                pl.Column("t", "categorical", "target", categories=(0, 1))))
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, 900), rng.integers(0, 3, 900)
    X = {"a": np.array(["x", "y"])[a], "b": np.array(["x", "y", "z"])[b]}
    every = {"a": ["x"] * 3 + ["y"] * 3, "b": ["x", "y", "z"] * 2}
    found = made(small, X, a).score_samples(every)
    assert abs(np.exp(found).sum() - 1) < 1e-6
    number = pl.Schema("small", (*small.features, pl.Column("t", "numeric", "target", 0.0, 1.0)))
    found = made(number, X, a * 0.7).score_samples(every)
    assert abs(np.exp(found).sum() - 1) < 1e-6


def test_it_is_refused_what_can_never_be_right():
    for wrong in ({"degree": 3}, {"rounds": -1}, {"delta": 0.0}, {"epsilon": np.nan},
                  {"relation": "replace_label"}, {"degree": True}):
        with pytest.raises(pl.InvalidValue):
            MarginalSynthesizer(**{"delta": 1e-6, "schema": WIDE, **wrong}).plan()
    model = made(CLASSES, *table(CLASSES))
    for wrong in (0, -1, True, 2.5, np.nan):
        with pytest.raises(pl.InvalidValue):
            model.sample(wrong)


def test_its_page_shows_every_column_and_escapes_names():
    odd = pl.Schema("odd", (pl.Column("<b>", "categorical", categories=("x", "y")),
                            pl.Column("t", "categorical", "target", categories=(0, 1))))
    page = made(odd, {"<b>": ["x", "y"] * 50}, [0, 1] * 50).tree_._repr_html_()
    assert page.count("<svg") == 2 and "&lt;b&gt;" in page and "<b>" not in page


def test_people_of_many_rows_are_no_more_than_their_norm_allows():
    """Somebody with four rows in four cells says 1/2 in each: twice a record, not four times."""
    X, y = table(CLASSES, 8000)
    _, data = protected(pl.Budget(2.0, 1e-6), X, y, CLASSES, unit="person",
                        people_key=b"k" * 32, people=np.arange(8000) // 4)
    model = MarginalSynthesizer(epsilon=2.0, delta=1e-6).fit(data)
    assert 1600 < model.rows_ < 4400


def test_parts():
    rng = np.random.default_rng(0)
    assert sorted(rounded(np.array([1.0, 0, 3]), 8, rng).tolist()) == [0, 0, 2, 2, 2, 2, 2, 2]
    np.testing.assert_allclose(onto_simplex(np.array([3.0, -1, 1]), 2.0), [2, 0, 0])
    assert onto_simplex(np.array([1.0, 2]), 0.0).tolist() == [0, 0]
    assert directed(4, [(0, 1), (1, 2)], 2) == [(2, 1), (1, 0)]
    cells = fine_cells(WIDE)[2]
    counts = np.r_[1000.0, 500, np.zeros(38)][:, None]
    assert coarse_bins(counts, 20.0, cells, 16).tolist() == [0, 1, *[2] * 38]
