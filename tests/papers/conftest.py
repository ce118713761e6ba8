"""A folder of one made-up data set, as `--data` reads it."""

from __future__ import annotations

import json

import pytest

from tests.papers.made_up_sets import write


@pytest.fixture(scope="session")
def small() -> dict:
    """A schema of the layout that comes beside the data."""
    return {"name": "banknote", "target": "target", "columns": [
        *({"name": name, "kind": "numeric", "role": "feature", "lower": -10, "upper": 10}
          for name in ("variance", "skewness", "curtosis", "entropy")),
        {"name": "target", "kind": "categorical", "role": "target", "categories": ["0", "1"]}]}


@pytest.fixture(scope="session")
def folder(tmp_path_factory, small):
    """A folder that holds one data set with its schema."""
    found = tmp_path_factory.mktemp("sets")
    write(found, small, 200)
    (found / "banknote" / "schema.json").write_text(json.dumps(small))
    return found
