"""A Poisson sample takes people whole: one coin for all rows of one person."""

import numpy as np
import pytest

from privledger.graph import Context
from privledger.noise.seeded import SeededSource
from privledger.questions.asking import _drawn
from privledger.tables.chunk import Rows
from privledger.tables.columns import Columns
from privledger.tables.schema import Column, Schema

SCHEMA = Schema("t", (Column("x", "numeric", "feature", 0.0, 1.0),))


@pytest.mark.parametrize("seed", range(5))
def test_all_rows_of_a_person_are_in_a_sample_or_none(seed):
    people = np.repeat(np.arange(40, dtype=np.int32), 25)
    rows = Rows(Columns(SCHEMA, (np.zeros(1000),), 1000), None, people=people)
    drawn = _drawn(SeededSource(seed), Context("poisson", "one", 0.5), rows).reshape(40, 25)
    assert (drawn == drawn[:, :1]).all()
    assert 0 < drawn[:, 0].sum() < 40
