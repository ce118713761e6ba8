"""Tasks: the papers' data sets, from the layout that is published, changed as the papers say."""

import json

import numpy as np
import pytest
from privledger_papers.protocols import PROTOCOLS, split
from privledger_papers.tasks import SOURCES, MissingData, load

from tests.all_cases import all_cases
from tests.papers.made_up_sets import ROWS, packaged, write

BY_NAME = {(source.name): (paper, data) for paper, sets in SOURCES.items()
           for data, source in sets.items()}


@pytest.mark.parametrize("name", sorted(packaged()))
def test_a_set_that_is_not_at_hand_runs_where_it_is_given(tmp_path, name):
    """Each packaged schema, with a made-up table: files as published, no schema beside them."""
    schema = packaged()[name]
    write(tmp_path, schema)
    paper, data = BY_NAME[name]
    table = load(paper, data, tmp_path)
    X, y = table.rows(np.arange(10))
    assert len(table.y) == ROWS and len(y) == 10
    width = X.shape[1] if isinstance(X, np.ndarray) else len(X)
    assert width == len(table.schema.features) >= 2


def test_a_set_that_is_not_there_is_missing_and_never_empty(tmp_path):
    for paper, sets in SOURCES.items():
        for data, source in sets.items():
            if source.name is None or not source.name.startswith("syn"):
                with pytest.raises(MissingData):
                    load(paper, data, tmp_path)


def test_turbine_predicts_the_energy_yield(tmp_path):
    write(tmp_path, packaged()["gas_turbine"])
    table = load("000", "Turbine", tmp_path)
    assert table.schema.target.name == "TEY" and table.regression
    assert {"CO", "target"} <= {column.name for column in table.schema.features}
    assert table.y.min() >= 80


def test_traffic_has_weekday_and_hour(tmp_path):
    write(tmp_path, packaged()["metro_traffic"])
    table = load("000", "Traffic", tmp_path)
    names = {column.name for column in table.schema.features}
    assert {"weekday", "hour"} <= names and "weather_description" not in names
    assert len(names) == 8
    assert set(table.X["weekday"]) <= set("0123456") and table.X["hour"].min() >= 0
    assert table.X["hour"].max() <= 23


def test_robot_has_two_classes(tmp_path, small):
    schema = dict(small, name="wall_robot_24", columns=[*small["columns"][:-1], dict(
        small["columns"][-1], categories=["Move-Forward", "Sharp-Right-Turn", "Other"])])
    write(tmp_path, schema)
    (tmp_path / "wall_robot_24" / "schema.json").write_text(json.dumps(schema))
    table = load("000", "Robot", tmp_path)
    assert set(table.y) == {"Move-Forward", "other"} == set(table.schema.target.categories)


def test_student_passes_or_fails_and_says_so(tmp_path):
    write(tmp_path, packaged()["student"])
    table = load("001", "Student", tmp_path)
    assert set(table.y) == {"passed", "failed"} and "does not say" in table.other


def test_a_week_begins_on_monday(tmp_path):
    schema = packaged()["metro_traffic"]
    write(tmp_path, schema, 3)
    table = load("000", "Traffic", tmp_path)
    import csv
    import gzip
    from datetime import datetime

    with gzip.open(tmp_path / "metro_traffic" / "metro_traffic.csv.gz", "rt") as file:
        moments = [datetime.fromisoformat(row["date_time"]) for row in csv.DictReader(file)]
    assert table.X["weekday"].tolist() == [str(moment.weekday()) for moment in moments]
    assert table.X["hour"].tolist() == [moment.hour for moment in moments]


@all_cases("name", PROTOCOLS)
@all_cases("n", [5, 11, 1000])
def test_splits_are_disjoint_whole_and_the_same_for_everybody(name, n):
    protocol = PROTOCOLS[name]
    for repetition in range(min(protocol.repetitions, 7)):
        train, test = split(protocol, n, 3, repetition)
        again = split(protocol, n, 3, repetition)
        assert all((a == b).all() for a, b in zip((train, test), again, strict=True))
        if protocol.folds:
            assert sorted([*train, *test]) == list(range(n))
        else:
            assert len(train) == len(test) == n
    if protocol.folds > 1:
        tested = [split(protocol, n, 3, fold)[1] for fold in range(protocol.folds)]
        assert sorted(np.concatenate(tested)) == list(range(n))


def test_other_seeds_split_otherwise():
    first, other = (split(PROTOCOLS["000"], 1000, seed, 0)[1].tolist() for seed in (0, 1))
    assert first != other
