"""A forecast of a learner opens no data, says that it is made up, and rises with epsilon."""

import math

import numpy as np
import pytest
from privledger_learners import LinearClassifier, LinearRegressor, NaiveBayesClassifier
from privledger_learners.forecasts import MADE_UP, made_up

import privledger as pl

SCHEMA = pl.Schema("t", (
    pl.Column("age", "numeric", "feature", 16, 100, integer=True),
    pl.Column("job", "categorical", "feature", categories=("nurse", "clerk", "smith")),
    pl.Column("x", "numeric", "feature", -3.0, 5.0),
    pl.Column("y", "categorical", "target", categories=("no", "yes"))))
NUMBER = pl.Schema("t", (*SCHEMA.features, pl.Column("y", "numeric", "target", -10.0, 30.0)))


def test_more_budget_scores_more_and_costs_what_was_said():
    found = pl.forecast(LinearClassifier(), SCHEMA, rows=2000, epsilons=[0.01, 10.0], tables=2)
    (small, cheap, low, *_), (large, dear, high, least, most, prior, best) = found.lines
    assert (small, large) == (0.01, 10.0) and cheap <= 0.01 and dear <= 10.0
    assert least <= high <= most <= 1 and low < high <= best + 0.05 and prior < high
    assert MADE_UP in str(found) and MADE_UP in found._repr_html_() and "NOT PRIVATE" in MADE_UP


def test_numbers_are_scored_by_r2():
    found = pl.forecast(LinearRegressor(), NUMBER, rows=1000, epsilons=[5.0], tables=1)
    assert found.measure == "R2" and 0 < found.lines[0][2] <= 1


def test_a_seed_repeats_and_the_learner_is_not_changed():
    learner = NaiveBayesClassifier(epsilon=2.0)
    first, again = (pl.forecast(learner, SCHEMA, rows=300, epsilons=[1.0], tables=1)
                    for _ in range(2))
    assert first.lines == again.lines and learner.epsilon == 2.0 and learner.mode == "private"


@pytest.mark.parametrize("schema", [SCHEMA, NUMBER])
def test_made_up_tables_keep_to_the_schema(schema):
    made = made_up(schema, 200, 1)
    assert np.isfinite([made.prior, made.best]).all() and len(made.y) == 200
    for column in schema.features:
        held = made.X[column.name]
        if column.kind == "numeric":
            assert column.lower <= held.min() and held.max() <= column.upper
        else:
            assert set(held) <= set(column.labels.tolist())


@pytest.mark.parametrize("wrong", [
    {"rows": 0}, {"rows": True}, {"rows": None}, {"rows": 2.5}, {"epsilons": []}, {"tables": 0},
    {"epsilons": [math.nan]}, {"epsilons": [-1.0]}, {"epsilons": [True]}, {"epsilons": 1.0},
    {"seed": -1}])
def test_what_can_never_be_right_is_refused(wrong):
    with pytest.raises(pl.InvalidValue):
        pl.forecast(LinearClassifier(), SCHEMA, **({"rows": 100, "tables": 1} | wrong))
