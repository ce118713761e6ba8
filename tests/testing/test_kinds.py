"""The kit judges every kind of learner: labels only, selectors, several classes."""

import numpy as np
import pytest
from cheats.others import CountsLabels, NoisyScores, PublicCells, SomeLabels, Untagged

from privledger.testing import (
    CHECKS,
    Example,
    LearnerCheckFailed,
    check_learner,
    parametrize_with_learner_checks,
)
from privledger.testing.examples import examples_for, neighbours_of, worst_pair
from tests.worlds import schema_of


@parametrize_with_learner_checks([PublicCells(epsilon=1.0), NoisyScores(epsilon=0.8),
                                  Untagged(epsilon=1.0)])
def test_honest_learners_of_other_kinds_conform(learner, check):
    check(learner)


def test_exact_labels_are_found_where_only_labels_are_private():
    with pytest.raises(LearnerCheckFailed, match="exact count"):
        CHECKS["nothing-private-in-the-model"](CountsLabels(epsilon=1.0))


def test_a_learner_may_refuse_what_it_cannot_use():
    tables = examples_for(NoisyScores())
    assert [table.schema.task for table in tables] == ["regression"] + 2 * ["classification"]
    assert all(len(table.schema.features) == 2 for table in tables)
    assert len(examples_for(PublicCells())[1].schema.target.categories) == 4


def test_an_example_of_ones_own():
    schema = schema_of("own", {"a": (2.0, 3.0), "b": (0.0, 1.0)}, t=(-1.0, 1.0))
    table = {"a": 2 + np.arange(60) / 60, "b": (np.arange(60) * 0.37) % 1}
    check_learner(NoisyScores(epsilon=1.0), Example(schema, table, np.sin(np.arange(60))))


@pytest.mark.parametrize("relation", ["add_remove", "replace_one", "replace_label"])
def test_neighbours_differ_in_one_record(relation):
    (base, _) = examples_for(PublicCells())
    first, second = worst_pair(base, relation)
    assert second.n_records - first.n_records == (relation == "add_remove")
    assert (second.y != first.y[0]).tolist() == [False] * (second.n_records - 1) + [True]
    for table in neighbours_of(base, relation).values():
        assert abs(table.n_records - base.n_records) == (
            0 if "replaced" in [*neighbours_of(base, relation)][-1] and
            table.n_records == base.n_records else 1)
    if relation == "replace_label":
        (table,) = neighbours_of(base, relation).values()
        assert table.X is base.X and (table.y != base.y).sum() == 1


def test_tables_with_labels_missing():
    learner = SomeLabels(epsilon=1.0)
    tables = examples_for(learner)
    assert all(sum(label is None for label in table.y) == 80 for table in tables)
    check_learner(learner)


def test_unknown_names_of_checks_are_refused():
    with pytest.raises(ValueError, match="no check is called"):
        parametrize_with_learner_checks([PublicCells()], without=("epsilon-hold",))
    ids = [case.id for case in parametrize_with_learner_checks(
        [PublicCells()], without=("epsilon-holds",)).args[1]]
    assert "PublicCells-fresh-noise" in ids and len(ids) == len(CHECKS) - 1
