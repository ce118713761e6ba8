"""The same whole numbers for every chunking that keeps people whole, in any order of the rows."""

import numpy as np
from attrs import evolve

from privledger.graph import Correlated
from privledger.questions.query import Query
from privledger.tables.chunk import numbered
from tests.all_cases import all_cases
from tests.questions.test_chunks import SUMMED, N, chunks_of, features, merged, numbers_in, rows_of

PEOPLE = numbered(np.arange(N) * 7 % 11)


def people_rows(schema, seed):
    rows = rows_of(schema, seed)
    return evolve(rows, people=PEOPLE, mass=None)


@all_cases("place", range(len(SUMMED)))
def test_sums_of_people_are_the_same_for_every_chunking(place):
    question, mechanism = SUMMED[place]
    rng = np.random.default_rng(place)
    rows = people_rows(question.data.schema, 1)
    state = question.prepare(
        mechanism, "add_remove" if isinstance(mechanism, Correlated) else "replace_one")
    whole = question.sketch(rows, state)
    part = rng.integers(0, 3, PEOPLE.max() + 1)[PEOPLE]
    chunks = [chunk for chunk in chunks_of(rows, part) if chunk.n]
    found = merged(question, [question.sketch(chunk, state) for chunk in chunks],
                   rng.permutation(len(chunks)).tolist())
    for one, other in zip(numbers_in(found), numbers_in(whole), strict=True):
        np.testing.assert_array_equal(one, other)


def test_weighted_features_are_the_same_for_every_chunking():
    rows = people_rows(features_schema(), 2)
    part = np.random.default_rng(0).integers(0, 3, PEOPLE.max() + 1)[PEOPLE]
    for question, mechanism in features():
        if question.votes is not None or question.custom is not None:
            continue
        state = question.prepare(mechanism, "replace_one")
        found = merged(question, [question.sketch(chunk, state)
                                  for chunk in chunks_of(rows, part)], [2, 0, 1])
        np.testing.assert_array_equal(question.scores(question.sketch(rows, state)),
                                      question.scores(found))


def features_schema():
    (question, _), *_ = features()
    return question.data.schema


def test_nobody_elses_contribution_follows_from_a_newcomer():
    """To the last bit: what the others send is the same, wherever somebody comes in."""
    rng = np.random.default_rng(3)
    for question, mechanism in SUMMED:
        if type(question) is not Query:
            continue
        state = question.prepare(mechanism, "add_remove")
        rows = people_rows(question.data.schema, 1)
        gone = int(rng.integers(PEOPLE.max() + 1))
        others = rows.subset(np.flatnonzero(gone != PEOPLE))
        before, after = question.person_vectors(others, state), question.person_vectors(rows, state)
        kept = after.who != gone
        np.testing.assert_array_equal(after.who[kept], before.who)
        for one, other in zip(before.values, after.values, strict=True):
            np.testing.assert_array_equal(one, other[kept])
