"""What a row weighs under unit person, and that parts keep it."""

import numpy as np

from privledger.errors import InvalidValue
from privledger.tables.chunk import ONE, Rows, masses, numbered, people_in
from privledger.tables.columns import Columns
from privledger.tables.schema import Column, Schema
from tests.worlds import refused

SCHEMA = Schema("t", (Column("a", kind="numeric", lower=0, upper=1),
                      Column("y", kind="numeric", lower=0, upper=1, role="target")))


def table(people):
    n = len(people)
    return Rows(Columns(SCHEMA, (np.linspace(0, 1, n),), n), np.zeros(n), people=numbered(
        np.asarray(people)))


def test_people_are_numbered_as_they_first_appear():
    assert numbered(np.array([7, 3, 7, 9, 3])).tolist() == [0, 1, 0, 2, 1]
    assert numbered(np.arange(50)[::-1]).tolist() == list(range(50))


def test_masses_of_a_person_add_up_to_one_at_most():
    people = numbered(np.random.default_rng(0).integers(0, 200, 3000))
    mass = masses(people, people_in(people))
    sums = np.bincount(people, weights=mass)
    assert (sums <= ONE).all()
    assert (sums > ONE - 3000).all()
    assert (masses(np.arange(9, dtype=np.int32), 9) == ONE).all()


def test_a_gap_in_the_numbers_is_refused():
    refused(InvalidValue, lambda: people_in(np.array([0, 2], dtype=np.int32)),
            lambda: people_in(np.array([-1, 0], dtype=np.int32)))


def test_a_part_keeps_what_rows_weigh():
    rows = table([5, 5, 6, 5])
    part = rows.subset(np.array([1, 2]))
    assert part.mass.tolist() == [ONE // 3, ONE]  # not one: the person has two rows elsewhere
    assert part.people.tolist() == [0, 1]
    assert part.n_people == 2
    assert part.subset(np.array([0])).mass.tolist() == [ONE // 3]


def test_rows_without_people_have_neither():
    rows = Rows(Columns(SCHEMA, (np.zeros(2),), 2), None)
    assert rows.people is rows.mass is rows.n_people is rows.subset(np.array([0])).mass is None
